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
    /// The form.
    Form,
    /// The results.
    #[default]
    Results,
}

/// The state of the Execute screen.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The focused pane.
    pub(crate) focus: Pane,
    /// True if keys are text of the form's field, while the form has focus.
    is_editing: bool,
    pub(crate) form: Form,
    /// The run in view.
    pub(crate) results: RunView,
    /// The saved presets.
    pub(crate) presets: Presets,
    /// Whether the head is being given a module of this machine.
    pub(crate) is_adding: bool,
    /// Whether that module is to be run then.
    pub(crate) is_run_next: bool,
}

impl State {
    /// Gives the form focus. Keys are commands until [`Self::edit_form`].
    pub(crate) const fn focus_form(&mut self) {
        (self.focus, self.is_editing) = (Pane::Form, false);
    }

    /// Gives the form focus, and edits its field.
    pub(crate) const fn edit_form(&mut self) {
        (self.focus, self.is_editing) = (Pane::Form, true);
    }

    /// Returns true if the form's field is edited.
    pub(crate) const fn is_form_edited(&self) -> bool {
        self.is_editing && matches!(self.focus, Pane::Form)
    }
}
