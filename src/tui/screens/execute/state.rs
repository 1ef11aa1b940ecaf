//! The Execute screen: the form, and the run that is looked at.

mod form;
pub(crate) mod presets;
pub(crate) mod words;

pub(crate) use form::{Check, Form, FormField};

use self::presets::Presets;
use crate::state::results::RunView;

/// The number of the form among the screen's panes.
pub(crate) const FORM: usize = 0;
/// The number of the results.
pub(crate) const RESULTS: usize = 1;

/// The focused pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Pane {
    /// To the form: letters are text.
    Form,
    /// To the results.
    #[default]
    Results,
}

/// The state of the Execute screen.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The focused pane.
    pub(crate) focus: Pane,
    pub(crate) form: Form,
    /// The run in view.
    pub(crate) results: RunView,
    /// The saved presets.
    pub(crate) presets: Presets,
    /// Whether nothing was pressed since a key of the screens led to the form: further such keys lead
    /// on, and are no text.
    pub(crate) is_passing: bool,
    /// Whether the head is being given a module of this machine.
    pub(crate) is_adding: bool,
    /// Whether that module is to be run then.
    pub(crate) is_run_next: bool,
}
