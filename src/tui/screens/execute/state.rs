//! The Execute screen: the form, and the run that is looked at.

mod form;
pub(crate) mod input;
pub(crate) mod presets;
pub(crate) mod words;

pub(crate) use form::{Check, Form, FormField};
pub(crate) use input::{Input, Source, Window};

use self::presets::Presets;
use crate::state::{
    results::ResultView,
    runs::{Run, RunId, Runs},
};

/// Where keys go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Pane {
    /// To the form: letters are text.
    Form,
    /// To the results.
    #[default]
    Results,
}

/// What the Execute screen shows.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Where keys go.
    pub(crate) focus: Pane,
    pub(crate) form: Form,
    /// The run looked at; the newest one if that is gone.
    pub(crate) run: Option<RunId>,
    /// What is looked at of its results.
    pub(crate) result_view: ResultView,
    /// The forms that are kept.
    pub(crate) presets: Presets,
    /// Whether nothing was pressed since a key of the screens led to the form: further such keys lead
    /// on, and are no text.
    pub(crate) is_passing: bool,
    /// Whether the head is being given a module of this machine.
    pub(crate) is_adding: bool,
    /// Whether that module is to be run then.
    pub(crate) is_run_next: bool,
}

impl State {
    /// The run looked at.
    pub(crate) fn selected_run<'a>(&self, runs: &'a Runs) -> Option<&'a Run> {
        self.run.and_then(|id| runs.get(id)).or_else(|| runs.newest())
    }

    /// What `y` copies.
    pub(crate) fn selection(&self, runs: &Runs) -> Option<String> {
        Some(self.result_view.text(self.selected_run(runs)?.response()?))
    }
}
