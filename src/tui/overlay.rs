//! The stack of modal overlays; the topmost one has focus.
//!
//! Each overlay is a folder with its `state` and `view`; its layer of keys is in `keymap/table.rs`.
//! [`State::open`](crate::state::State::open) pushes one,
//! [`State::close`](crate::state::State::close) pops the topmost.

pub(crate) mod columns;
pub(crate) mod copy_as;
pub(crate) mod help;
pub(crate) mod jump;
pub(crate) mod keys;
pub(crate) mod notices;
pub(crate) mod palette;
pub(crate) mod profiles;
pub(crate) mod save;
pub(crate) mod themes;
pub(crate) mod update;
pub(crate) mod view;

use self::{
    copy_as::state::CopyMenu, help::state::Help, palette::state::Palette, profiles::state::KeyForm,
    save::state::SaveForm, themes::state::Themes,
};
use crate::{
    action::Action,
    keymap::Layer,
    state::{field::Field, navigation, nodes::NodeChange},
};

/// A modal overlay.
#[derive(Debug, Clone)]
pub(crate) enum Overlay {
    Help(Help),
    /// Labels on everything that can be clicked, and the typed part of a label.
    Jump(String),
    /// Whether to quit although a run is awaited.
    ConfirmQuit,
    /// The command palette.
    Palette(Box<Palette>),
    /// The choice of a theme, with a live preview.
    Themes(Themes),
    /// The columns of the table that has focus: the selected row.
    Columns(usize),
    /// The list of past notices: the selected row, counted from the newest.
    Notices(usize),
    /// The choice of a profile: the selected row of its choices.
    Profiles(usize),
    /// The form that takes a profile's key.
    Key(KeyForm),
    /// The form that starts a node on this machine.
    AddNode,
    /// Whether to stop the selected local process.
    ConfirmStop,
    /// Whether to change a node.
    ConfirmNode(NodeChange),
    /// The list of presets: the selected row.
    Presets(usize),
    /// The name of a preset to be kept.
    PresetName(Field),
    /// The form that asks for a file to write to.
    Save(SaveForm),
    /// The choice of a format to copy the selection in.
    CopyAs(CopyMenu),
}

impl Overlay {
    /// The first layer of keys in force while it is on top.
    pub(crate) const fn layer(&self) -> Layer {
        match self {
            Self::Help(_) => Layer::Help,
            Self::Jump(_) => Layer::Jump,
            Self::ConfirmQuit => Layer::Confirm,
            Self::Palette(_) => Layer::Palette,
            Self::Profiles(_) => Layer::Profiles,
            Self::Key(_) => Layer::Secret,
            Self::AddNode => Layer::NodeForm,
            Self::ConfirmStop => Layer::ConfirmStop,
            Self::ConfirmNode(_) => Layer::ConfirmNode,
            Self::Presets(_) => Layer::Presets,
            Self::PresetName(_) => Layer::PresetName,
            Self::Save(_) => Layer::Save,
            Self::Themes(_) | Self::Notices(_) | Self::CopyAs(_) | Self::Columns(_) => {
                Layer::Choice
            }
        }
    }

    /// The text field that has focus, if the overlay owns it.
    pub(crate) const fn field(&mut self) -> Option<&mut Field> {
        match self {
            Self::Help(help) => Some(&mut help.filter),
            Self::Palette(palette) => Some(&mut palette.input),
            Self::Key(form) => Some(&mut form.input),
            Self::PresetName(name) => Some(name),
            Self::Save(save) => Some(&mut save.path),
            _ => None,
        }
    }

    /// The selected row, or the first one shown, where it is a list.
    pub(crate) const fn row(&mut self) -> Option<&mut usize> {
        match self {
            Self::Help(help) => Some(&mut help.scroll),
            Self::Palette(palette) => Some(&mut palette.row),
            Self::Themes(themes) => Some(&mut themes.row),
            Self::CopyAs(copy_as) => Some(&mut copy_as.row),
            Self::Notices(row) | Self::Profiles(row) | Self::Presets(row) | Self::Columns(row) => {
                Some(row)
            }
            _ => None,
        }
    }
}

/// The row that `action` moves to from `row` of a list that stands in an overlay.
pub(crate) fn moved(action: Action, row: usize, n_rows: usize) -> usize {
    /// Rows in a page of an overlay, about as many as are shown.
    const PAGE: usize = 10;
    navigation::moved(action, row, n_rows, PAGE).unwrap_or(row)
}
