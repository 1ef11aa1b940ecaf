//! The modal overlays and their state.

use crate::keymap::{Action, Bound, Keymap, Layer};
use crate::state::field::Field;
use crate::state::form::Form;
use crate::state::navigation;
use crate::state::nodes::NodeChange;
use crate::state::palette::Palette;
use crate::theme::Name;
use crate::theme::custom::CustomTheme;

/// A modal overlay.
#[derive(Debug, Clone)]
pub(crate) enum Overlay {
    Help(Help),
    /// Labels on all click targets, with the part of a label that was typed so far.
    Jump(String),
    /// Question that precedes exiting while a run is pending or an added node would stop.
    ConfirmQuit,
    /// The command palette.
    Palette(Box<Palette>),
    /// The list of themes. The selected theme is previewed.
    Themes(Themes),
    /// The columns of the focused table, with the index of the selected column.
    Columns(usize),
    /// The past notices, latest first, with the index of the selected notice.
    Notices(usize),
    /// The rules for alerts, with the name of the selected rule. `None` if there are no rules.
    Alerts(Option<String>),
    /// The list of profiles, with the index of the selected profile.
    Profiles(usize),
    /// Asks for confirmation before the local process with this name is stopped.
    ConfirmStop(String),
    /// Asks for confirmation before nodes are changed.
    ConfirmNode(NodeChange),
    /// The list of presets, with the index of the selected preset.
    Presets(usize),
    /// A form with fields.
    Form(Box<Form>),
    /// The API keys of the account, with the index of the selected key.
    Keys(usize),
    /// The formats in which the selection can be copied.
    CopyAs(CopyMenu),
}

impl Overlay {
    /// Returns the layer of key bindings that has the highest precedence while the overlay is on
    /// top.
    pub(crate) fn layer(&self) -> Layer {
        match self {
            Self::Help(_) => Layer::Help,
            Self::Jump(_) => Layer::Jump,
            Self::ConfirmQuit | Self::ConfirmStop(_) | Self::ConfirmNode(_) => Layer::Confirm,
            Self::Palette(_) => Layer::Palette,
            Self::Profiles(_) => Layer::Profiles,
            Self::Form(form) => form.layer(),
            Self::Keys(_) => Layer::Keys,
            Self::Alerts(_) => Layer::Alerts,
            Self::Presets(_) => Layer::Presets,
            Self::Themes(_) | Self::Notices(_) | Self::CopyAs(_) | Self::Columns(_) => {
                Layer::Choice
            }
        }
    }

    /// Returns the text field of the overlay, if it has one.
    pub(crate) fn field(&mut self) -> Option<&mut Field> {
        match self {
            Self::Help(help) => Some(&mut help.filter),
            Self::Palette(palette) => Some(&mut palette.input),
            Self::Form(form) => form.field(),
            _ => None,
        }
    }

    /// Returns the index of the selected row, or the index of the first visible row of the help.
    /// `None` for lists that can change while they are open, and for overlays without rows.
    pub(crate) const fn row(&mut self) -> Option<&mut usize> {
        match self {
            Self::Help(help) => Some(&mut help.scroll),
            Self::Palette(palette) => Some(&mut palette.row),
            Self::Themes(themes) => Some(&mut themes.row),
            Self::CopyAs(copy_as) => Some(&mut copy_as.row),
            Self::Notices(row)
            | Self::Profiles(row)
            | Self::Presets(row)
            | Self::Columns(row)
            | Self::Keys(row) => Some(row),
            _ => None,
        }
    }
}

/// Returns the row to which `action` moves from `row` in the list of an overlay.
pub(crate) fn moved(action: Action, row: usize, n_rows: usize) -> usize {
    /// Number of rows by which a page key moves, about the number of visible rows.
    const PAGE: usize = 10;
    navigation::moved(action, row, n_rows, PAGE).unwrap_or(row)
}

/// The formats in which the selection can be copied.
#[derive(Debug, Clone, Default)]
pub(crate) struct CopyMenu {
    /// The selected format.
    pub(crate) row: usize,
    /// Name of each format and text that it copies.
    pub(crate) forms: Vec<(&'static str, String)>,
}

/// The state of the help overlay.
#[derive(Debug, Clone, Default)]
pub(crate) struct Help {
    /// Text that is searched for in keys and titles.
    pub(crate) filter: Field,
    /// Index of the first visible row.
    pub(crate) scroll: usize,
}

impl Help {
    /// Returns true if `binding` matches the filter.
    pub(crate) fn shows(&self, binding: &Bound, keys: &Keymap) -> bool {
        let wanted = self.filter.value().trim();
        let title = binding.action.title().to_lowercase();
        wanted.is_empty()
            || title.contains(&wanted.to_lowercase())
            || keys.keys_text(binding).split("  ").any(|keys| keys == wanted)
    }
}

/// The state of the list of themes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Themes {
    /// Theme that is restored if the user cancels.
    pub(crate) before: Option<Name>,
    /// Index of the selected theme in [`Self::rows`].
    pub(crate) row: usize,
}

impl Themes {
    /// Returns the list of themes with `current` selected.
    pub(crate) fn new(current: Option<Name>, own: &[&'static CustomTheme]) -> Self {
        let row = Self::rows(own).position(|row| row == current).unwrap_or(0);
        Self { before: current, row }
    }

    /// Returns all choices. `None` is the theme that matches the terminal. User-defined themes are
    /// last.
    pub(crate) fn rows(own: &[&'static CustomTheme]) -> impl Iterator<Item = Option<Name>> {
        let all = Name::ALL.into_iter().chain(own.iter().map(|own| Name::Custom(own)));
        std::iter::once(None).chain(all.map(Some))
    }

    /// Returns the selected theme.
    pub(crate) fn selected(&self, own: &[&'static CustomTheme]) -> Option<Name> {
        Self::rows(own).nth(self.row).flatten()
    }
}
