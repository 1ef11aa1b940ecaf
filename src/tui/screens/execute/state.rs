//! The state of the Execute screen: the form and the visible run.

mod form;
pub(crate) mod presets;

pub(crate) use form::{Check, Form, FormField};

use strum::VariantArray;

use crate::event::Target;
use crate::keymap::Action;
use crate::screens::cluster::state::ClusterContext;
use crate::screens::execute::state::presets::Presets;
use crate::state::navigation::Steps as _;
use crate::state::results::RunView;

/// The focused pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Pane {
    /// Form of the next request.
    Form,
    /// Result groups of the visible run.
    #[default]
    Results,
}

/// The state of the Execute screen.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The focused pane.
    pub(crate) focus: Pane,
    /// True if keys edit the form while it has focus. False if they are commands.
    is_editing: bool,
    pub(crate) form: Form,
    /// Run that is shown, with its selection.
    pub(crate) results: RunView,
    /// The saved presets.
    pub(crate) presets: Presets,
    /// True while a local module is uploaded to the head.
    pub(crate) is_adding: bool,
    /// True if the uploaded module is to be executed as soon as the upload has finished.
    pub(crate) is_run_next: bool,
}

impl State {
    /// Moves the focus to the form. Keys are commands until [`Self::edit_form`] is called.
    pub(crate) const fn focus_form(&mut self) {
        (self.focus, self.is_editing) = (Pane::Form, false);
    }

    /// Moves the focus to the form. Keys edit the focused field.
    pub(crate) const fn edit_form(&mut self) {
        (self.focus, self.is_editing) = (Pane::Form, true);
    }

    /// Returns true if keys edit the form.
    pub(crate) const fn is_form_edited(&self) -> bool {
        self.is_editing && matches!(self.focus, Pane::Form)
    }

    /// Handles an action that sends no request and changes no run.
    pub(crate) fn act(&mut self, action: Action, known: ClusterContext<'_>) {
        let is_form = self.focus == Pane::Form;
        match action {
            Action::NextField | Action::Down if is_form => self.form.move_focus(1),
            Action::PreviousField | Action::Up if is_form => self.form.move_focus(-1),
            Action::NextChoice if is_form => self.form.choose(1, known),
            Action::PreviousChoice if is_form => self.form.choose(-1, known),
            Action::OlderRun | Action::NewerRun => {
                let by = if action == Action::OlderRun { 1 } else { -1 };
                let idx = self.results.idx(known.runs).saturating_add_signed(by);
                if let Some(run) = known.runs.iter().nth(idx) {
                    self.results.show(run.id);
                }
            }
            Action::NextPane | Action::PreviousPane if is_form => self.focus = Pane::Results,
            Action::NextPane | Action::PreviousPane => self.focus_form(),
            _ => self.results.take(action, known.runs, known.page),
        }
    }

    /// Undoes one step: ends editing, or closes the comparison or the form. Returns false if there
    /// was nothing to undo.
    pub(crate) fn back(&mut self) -> bool {
        if self.is_form_edited() {
            self.form.is_open = false;
            self.focus_form();
            return true;
        }
        if self.focus == Pane::Form {
            self.focus = Pane::Results;
            return true;
        }
        std::mem::take(&mut self.results.look.is_diff)
    }

    /// Handles a click.
    pub(crate) fn click(&mut self, target: Target) {
        match target {
            Target::Row { pane: 0, row } => {
                self.edit_form();
                self.form.focus_on(FormField::numbered(row).unwrap_or(self.form.focus));
            }
            Target::Row { row, .. } => {
                self.focus = Pane::Results;
                self.results.look.select(row);
            }
            Target::Pane(0) if self.is_form_edited() => {}
            Target::Pane(0) => self.focus_form(),
            Target::Pane(_) => self.focus = Pane::Results,
            _ => {}
        }
    }
}
