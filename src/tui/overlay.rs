//! What lies over the screen: one thing above the other, of which the topmost has the keys.
//!
//! Each overlay has its state in `overlay/x.rs`, its drawing in `view/overlay/x.rs`, and its layer
//! of keys in `keymap/table.rs`. [`State::open`](crate::state::State::open) lays one on top, and
//! [`State::close`](crate::state::State::close) takes the topmost away.

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
    copy_as::state::CopyMenu,
    help::state::Help,
    notices::state::Notices,
    palette::state::Palette,
    profiles::state::{KeyForm, Profiles},
    save::state::SaveForm,
    themes::state::Themes,
};
use crate::{action::Action, keymap::Layer, state::field::Field};

/// Something laid over the screen.
#[derive(Debug, Clone)]
pub(crate) enum Overlay {
    Help(Help),
    /// Labels on everything that can be pointed at, and what is typed of one.
    Jump(String),
    /// Whether to quit although a run is awaited.
    ConfirmQuit,
    /// Everything that can be done and opened, to be found by a few letters.
    Palette(Box<Palette>),
    /// The themes, each shown as soon as it is pointed at.
    Themes(Themes),
    /// The notices there were.
    Notices(Notices),
    Profiles(Profiles),
    /// The form that takes a profile's key.
    Key(KeyForm),
    /// The form of a node to be started on this machine.
    AddNode,
    /// Whether to stop the selected local process.
    ConfirmStop,
    Presets,
    /// The name of a preset to be kept.
    PresetName,
    /// The form that asks for a file to write to.
    Save(SaveForm),
    /// The forms that what is selected can be copied in.
    CopyAs(CopyMenu),
}

impl Overlay {
    /// The layers of keys in force while it is on top.
    pub(crate) const fn layers(&self) -> &'static [Layer] {
        match self {
            Self::Help(_) => &[Layer::Help, Layer::Always],
            Self::Jump(_) => &[Layer::Jump, Layer::Always],
            Self::ConfirmQuit => &[Layer::Confirm, Layer::Always],
            Self::Palette(_) => &[Layer::Palette, Layer::Always],
            Self::Profiles(_) => &[Layer::Profiles, Layer::List, Layer::Always],
            Self::Key(_) => &[Layer::Secret, Layer::Always],
            Self::AddNode => &[Layer::NodeForm, Layer::Always],
            Self::ConfirmStop => &[Layer::ConfirmStop, Layer::Always],
            Self::Presets => &[Layer::Presets, Layer::Always],
            Self::PresetName => &[Layer::PresetName, Layer::Always],
            Self::Save(_) => &[Layer::Save, Layer::Always],
            Self::Themes(_) | Self::Notices(_) | Self::CopyAs(_) => {
                &[Layer::Choice, Layer::List, Layer::Always]
            }
        }
    }

    /// The text that letters go to, where the overlay has it itself.
    pub(crate) const fn field(&mut self) -> Option<&mut Field> {
        match self {
            Self::Help(help) => Some(&mut help.filter),
            Self::Palette(palette) => Some(&mut palette.input),
            Self::Key(form) => Some(&mut form.input),
            Self::Save(save) => Some(&mut save.path),
            _ => None,
        }
    }

    /// Whether what is beneath is to step back.
    pub(crate) const fn is_fading(&self) -> bool {
        // A theme is chosen by what it does to the rest of the screen.
        !matches!(self, Self::Themes(_))
    }
}

/// The row that `action` moves to from `row` of a list that stands in an overlay.
pub(crate) fn moved(action: Action, row: usize, n_rows: usize) -> usize {
    /// Rows in a page of an overlay, about as many as are shown.
    const PAGE: usize = 10;
    crate::screens::cluster::state::moved(action, row, n_rows, PAGE).unwrap_or(row)
}
