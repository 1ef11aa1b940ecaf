//! The help: which of the keys are shown.

use crate::{action::Action, keymap::Bound, state::field::Field};

/// The state of the help overlay.
#[derive(Debug, Clone, Default)]
pub(crate) struct Help {
    /// The text filter over keys and titles.
    pub(crate) filter: Field,
    /// The first row shown.
    pub(crate) scroll: usize,
}

impl Help {
    /// Handles an action.
    pub(crate) const fn act(&mut self, action: Action) {
        /// Rows of a page: fewer than are ever shown.
        const PAGE: usize = 10;
        self.scroll = match action {
            Action::Down => self.scroll + 1,
            Action::Up => self.scroll.saturating_sub(1),
            Action::PageDown => self.scroll + PAGE,
            Action::PageUp => self.scroll.saturating_sub(PAGE),
            _ => self.scroll,
        };
    }

    /// Whether `binding` passes the filter.
    pub(crate) fn shows(&self, binding: &Bound) -> bool {
        let wanted = self.filter.value().trim();
        let title = binding.action.title().to_lowercase();
        wanted.is_empty()
            || title.contains(&wanted.to_lowercase())
            || binding.keys_text().split("  ").any(|keys| keys == wanted)
    }
}
