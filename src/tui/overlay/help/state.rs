//! The help: which of the keys are shown.

use crate::{keymap::Bound, state::field::Field};

/// The state of the help overlay.
#[derive(Debug, Clone, Default)]
pub(crate) struct Help {
    /// The text filter over keys and titles.
    pub(crate) filter: Field,
    /// The first row shown.
    pub(crate) scroll: usize,
}

impl Help {
    /// Whether `binding` passes the filter.
    pub(crate) fn shows(&self, binding: &Bound) -> bool {
        let wanted = self.filter.value().trim();
        let title = binding.action.title().to_lowercase();
        wanted.is_empty()
            || title.contains(&wanted.to_lowercase())
            || binding.keys_text().split("  ").any(|keys| keys == wanted)
    }
}
