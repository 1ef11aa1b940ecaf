//! Keys and clicks on the Execute screen.

pub(crate) mod output;
pub(crate) mod runs;

use super::state::{FormField, Pane, State};
use crate::{
    action::Action,
    event::Target,
    screens::cluster::state::ClusterContext,
    state::{navigation::Steps as _, runs::RunId},
};

impl State {
    /// Handles an action that neither sends a request nor changes a run.
    pub(crate) fn act(&mut self, action: Action, known: ClusterContext<'_>) {
        match (self.focus, action) {
            (Pane::Form, Action::NextField | Action::Down) => self.form.move_focus(1),
            (Pane::Form, Action::PreviousField | Action::Up) => self.form.move_focus(-1),
            (Pane::Form, Action::NextChoice) => self.form.choose(1, known),
            (Pane::Form, Action::PreviousChoice) => self.form.choose(-1, known),
            (_, Action::OlderRun | Action::NewerRun) => {
                let by = if action == Action::OlderRun { 1 } else { -1 };
                let idx = self.results.idx(known.runs).saturating_add_signed(by);
                self.results.show_at(idx, known.runs);
            }
            (Pane::Results, Action::NextPane | Action::PreviousPane) => self.focus_form(),
            (Pane::Form, Action::NextPane | Action::PreviousPane) => self.focus = Pane::Results,
            _ => self.results.take(action, known.runs, known.page),
        }
    }

    /// Goes back one step; returns whether there was one.
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

    /// Selects the run that was just started.
    pub(crate) fn started(&mut self, id: RunId) {
        self.focus = Pane::Results;
        self.results.show(id);
    }
}
