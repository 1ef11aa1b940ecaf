//! The choice of a theme: what is selected is shown at once.

use crate::theme::{Name, custom::CustomTheme};

/// The choice of a theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Themes {
    /// The theme to restore on cancel.
    pub(crate) before: Option<Name>,
    /// The row selected, of [`Self::rows`].
    pub(crate) row: usize,
}

impl Themes {
    /// The choice, with `current` selected.
    pub(crate) fn new(current: Option<Name>, own: &[&'static CustomTheme]) -> Self {
        let row = Self::rows(own).position(|row| row == current).unwrap_or(0);
        Self { before: current, row }
    }

    /// All choices: none is automatic; custom themes come last.
    pub(crate) fn rows(own: &[&'static CustomTheme]) -> impl Iterator<Item = Option<Name>> {
        let all = Name::ALL.into_iter().chain(own.iter().map(|own| Name::Custom(own)));
        std::iter::once(None).chain(all.map(Some))
    }

    /// The selected entry.
    pub(crate) fn selected(&self, own: &[&'static CustomTheme]) -> Option<Name> {
        Self::rows(own).nth(self.row).flatten()
    }
}
