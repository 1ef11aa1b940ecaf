//! The choice of a theme: what is pointed at is shown at once.

use crate::{action::Action, state::overlay, theme::Name};

/// The choice of a theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Themes {
    /// The theme there was before, for whoever goes back.
    pub before: Option<Name>,
    /// The row pointed at, of [`Self::rows`].
    pub row: usize,
}

impl Themes {
    /// The choice, with `current` pointed at.
    #[must_use]
    pub fn new(current: Option<Name>) -> Self {
        let row = Self::rows().position(|row| row == current).unwrap_or(0);
        Self { before: current, row }
    }

    /// What can be chosen: none is the theme that suits the terminal.
    pub fn rows() -> impl Iterator<Item = Option<Name>> {
        std::iter::once(None).chain(Name::ALL.into_iter().map(Some))
    }

    /// Takes an action; returns what is pointed at.
    pub fn act(&mut self, action: Action) -> Option<Name> {
        self.row = overlay::moved(action, self.row, Name::ALL.len() + 1);
        self.pointed()
    }

    /// What is pointed at.
    #[must_use]
    pub fn pointed(&self) -> Option<Name> {
        Self::rows().nth(self.row).flatten()
    }
}
