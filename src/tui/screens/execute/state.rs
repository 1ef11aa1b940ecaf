//! The Execute screen: the form, and the run that is looked at.

mod form;
pub mod input;
pub mod presets;
pub mod words;

pub use form::{Check, Form, FormField, Place};
pub use input::{Input, Source, Window};

use self::presets::Presets;
use crate::state::{
    results::Look,
    runs::{Run, RunId, Runs},
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

    /// What `y` copies.
    pub fn selection(&self, runs: &Runs) -> Option<String> {
        Some(self.look.text(self.selected_run(runs)?.response()?))
    }
}
