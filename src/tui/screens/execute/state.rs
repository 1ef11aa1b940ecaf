//! The Execute screen: the form, and the run that is looked at.

mod form;
pub mod input;
pub mod presets;
pub mod words;

pub use form::{Check, Form, FormField, Place};
pub use input::{Input, Source, Window};

use self::presets::Presets;
use crate::{
    action::Action,
    event::Target,
    screens::cluster::state::Known,
    state::{
        results::Look,
        runs::{Run, RunId, Runs},
    },
};

/// Where keys go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pane {
    /// To the form: letters are text.
    Form,
    /// To the results.
    #[default]
    Results,
}

/// What the Execute screen shows.
#[derive(Debug, Default)]
pub struct State {
    /// Where keys go.
    pub focus: Pane,
    /// The form.
    pub form: Form,
    /// The run looked at; the newest one if that is gone.
    pub run: Option<RunId>,
    /// What is looked at of its results.
    pub look: Look,
    /// The forms that are kept.
    pub presets: Presets,
    /// Whether nothing was pressed since a key of the screens led to the form: further such keys lead
    /// on, and are no text.
    pub is_passing: bool,
    /// Whether the head is being given a module of this machine.
    pub is_adding: bool,
    /// Whether that module is to be run then.
    pub is_run_next: bool,
}

impl State {
    /// The run looked at.
    pub fn selected_run<'a>(&self, runs: &'a Runs) -> Option<&'a Run> {
        self.run.and_then(|id| runs.get(id)).or_else(|| runs.newest())
    }

    /// Takes an action that concerns neither the form's request nor the run's life.
    pub fn act(&mut self, action: Action, known: Known<'_>) {
        match (self.focus, action) {
            (Pane::Form, Action::NextField) => self.form.move_focus(1),
            (Pane::Form, Action::PreviousField) => self.form.move_focus(-1),
            (Pane::Form, Action::NextChoice) => self.form.choose(1, known),
            (Pane::Form, Action::PreviousChoice) => self.form.choose(-1, known),
            (Pane::Results, Action::OlderRun) => self.look_at_run(1, known.runs),
            (Pane::Results, Action::NewerRun) => self.look_at_run(-1, known.runs),
            (Pane::Results, Action::NextPane | Action::PreviousPane) => self.focus = Pane::Form,
            (Pane::Results, _) => {
                let response = self.selected_run(known.runs).and_then(Run::response);
                self.look.take(action, response, known.page);
            }
            (Pane::Form, _) => {}
        }
    }

    /// Goes back one step; whether there was one.
    pub fn back(&mut self) -> bool {
        if self.focus == Pane::Form {
            self.focus = Pane::Results;
            return true;
        }
        std::mem::take(&mut self.look.is_diff)
    }

    /// Something was pointed at.
    pub fn click(&mut self, target: Target) {
        match target {
            Target::Row { pane: 0, row } => {
                self.focus = Pane::Form;
                self.form.focus_on(row);
            }
            Target::Row { row, .. } => {
                self.focus = Pane::Results;
                self.look.select(row);
            }
            Target::Pane(0) => self.focus = Pane::Form,
            Target::Pane(_) => self.focus = Pane::Results,
            _ => {}
        }
    }

    /// A run was started: it is the one to look at.
    pub fn started(&mut self, id: RunId) {
        self.run = Some(id);
        self.focus = Pane::Results;
        self.look = self.look.of_another();
    }

    /// Looks at the run `by` places older.
    fn look_at_run(&mut self, by: isize, runs: &Runs) {
        let selected = self.selected_run(runs).map(|run| run.id);
        let idx = runs.iter().position(|run| Some(run.id) == selected).unwrap_or(0);
        if let Some(run) = runs.iter().nth(idx.saturating_add_signed(by)) {
            self.started(run.id);
        }
    }

    /// What `y` copies.
    pub fn selection(&self, runs: &Runs) -> Option<String> {
        Some(self.look.text(self.selected_run(runs)?.response()?))
    }
}
