//! The table of keys. Its order is the order of the footer and of the help.

use super::{Binding, Layer};
use crate::{action::Action, state::Screen};

const fn bind(
    layer: Layer,
    keys: &'static [&'static str],
    action: Action,
    hint: &'static str,
) -> Binding {
    Binding { layer, keys, action, hint }
}

/// Every binding.
pub const TABLE: &[Binding] = &[
    bind(Layer::Always, &["ctrl-c"], Action::Interrupt, ""),
    bind(Layer::Always, &["ctrl-z"], Action::Suspend, ""),
    bind(Layer::Always, &["ctrl-l"], Action::Redraw, ""),
    bind(Layer::Always, &["f1"], Action::Help, ""),
    bind(Layer::Always, &["ctrl-p"], Action::Palette, ""),
    //
    bind(Layer::Global, &["1"], Action::Show(Screen::Cluster), ""),
    bind(Layer::Global, &["2"], Action::Show(Screen::Execute), ""),
    bind(Layer::Global, &["3"], Action::Show(Screen::Data), ""),
    bind(Layer::Global, &["4"], Action::Show(Screen::Inference), ""),
    bind(Layer::Global, &["5"], Action::Show(Screen::Logs), ""),
    bind(Layer::Global, &["e"], Action::OpenForm, ""),
    bind(Layer::Global, &["tab"], Action::NextPane, ""),
    bind(Layer::Global, &["shift-tab"], Action::PreviousPane, ""),
    bind(Layer::Global, &["z"], Action::Zoom, "zoom"),
    bind(Layer::Global, &["r"], Action::Refresh, "refresh"),
    bind(Layer::Global, &["y"], Action::Copy, "copy"),
    bind(Layer::Global, &[":"], Action::Palette, "palette"),
    bind(Layer::Global, &["T"], Action::Themes, ""),
    bind(Layer::Global, &["!"], Action::Notices, ""),
    bind(Layer::Global, &["M"], Action::ToggleMouse, ""),
    bind(Layer::Global, &["?"], Action::Help, ""),
    bind(Layer::Global, &["esc"], Action::Back, ""),
    bind(Layer::Global, &["q"], Action::Quit, "quit"),
    //
    bind(Layer::List, &["down", "j"], Action::Down, ""),
    bind(Layer::List, &["up", "k"], Action::Up, ""),
    bind(Layer::List, &["g g", "home"], Action::First, ""),
    bind(Layer::List, &["G", "end"], Action::Last, ""),
    bind(Layer::List, &["ctrl-d"], Action::HalfPageDown, ""),
    bind(Layer::List, &["ctrl-u"], Action::HalfPageUp, ""),
    bind(Layer::List, &["pgdn"], Action::PageDown, ""),
    bind(Layer::List, &["pgup"], Action::PageUp, ""),
    //
    bind(Layer::Cluster, &["enter"], Action::Open, "open"),
    bind(Layer::Cluster, &["e"], Action::OpenForm, "execute"),
    bind(Layer::Cluster, &["d"], Action::Diff, "diff groups"),
    bind(Layer::Cluster, &["o"], Action::NextOutput, "output"),
    bind(Layer::Cluster, &["/"], Action::Filter, "filter"),
    bind(Layer::Cluster, &["s"], Action::Sort, "sort"),
    bind(Layer::Cluster, &["S"], Action::Reverse, ""),
    //
    bind(Layer::Execute, &["ctrl-r"], Action::Run, "run again"),
    bind(Layer::Execute, &["e", "enter"], Action::OpenForm, "edit form"),
    bind(Layer::Execute, &["o"], Action::NextOutput, "output"),
    bind(Layer::Execute, &["d"], Action::Diff, "diff groups"),
    bind(Layer::Execute, &["ctrl-y"], Action::CopyCurl, "copy curl"),
    //
    bind(Layer::Form, &["tab", "enter"], Action::NextField, "next"),
    bind(Layer::Form, &["shift-tab"], Action::PreviousField, ""),
    bind(Layer::Form, &["down"], Action::NextChoice, "choose"),
    bind(Layer::Form, &["up"], Action::PreviousChoice, ""),
    bind(Layer::Form, &["ctrl-r"], Action::Run, "run"),
    bind(Layer::Form, &["esc"], Action::Back, "leave form"),
    bind(Layer::Form, &["ctrl-y"], Action::CopyCurl, "copy curl"),
    //
    bind(Layer::Data, &["enter"], Action::Open, "open"),
    bind(Layer::Data, &["left", "h"], Action::Earlier, "crosshair"),
    bind(Layer::Data, &["right", "l"], Action::Later, ""),
    bind(Layer::Data, &["+"], Action::ZoomIn, "zoom in"),
    bind(Layer::Data, &["-"], Action::ZoomOut, "zoom out"),
    bind(Layer::Data, &[","], Action::Coarser, ""),
    bind(Layer::Data, &["."], Action::Finer, "resolution"),
    bind(Layer::Data, &["c"], Action::NextChart, "chart"),
    bind(Layer::Data, &["i"], Action::Indicators, "indicators"),
    bind(Layer::Data, &["f"], Action::Follow, "follow"),
    bind(Layer::Data, &["space"], Action::Pause, "pause"),
    bind(Layer::Data, &["/"], Action::Filter, "search"),
    bind(Layer::Data, &["t"], Action::AcquireTag, "tag"),
    bind(Layer::Data, &["#"], Action::RowsTable, "rows"),
    //
    bind(Layer::Inference, &["t"], Action::NextTopic, "topic"),
    bind(Layer::Inference, &[","], Action::PreviousLabel, ""),
    bind(Layer::Inference, &["."], Action::NextLabel, "label"),
    bind(Layer::Inference, &["s"], Action::Sort, "sort"),
    bind(Layer::Inference, &["S"], Action::Reverse, ""),
    bind(Layer::Inference, &["space"], Action::Pause, "pause"),
    //
    bind(Layer::Logs, &["/"], Action::Filter, "search"),
    bind(Layer::Logs, &[","], Action::LowerLevel, ""),
    bind(Layer::Logs, &["."], Action::HigherLevel, "level"),
    bind(Layer::Logs, &["o"], Action::NextSource, "sources"),
    bind(Layer::Logs, &["f"], Action::Follow, "follow"),
    bind(Layer::Logs, &["space"], Action::Pause, "pause"),
    bind(Layer::Logs, &["w"], Action::Wrap, "wrap"),
    bind(Layer::Logs, &["t"], Action::Times, "times"),
    //
    bind(Layer::Help, &["enter"], Action::Open, "do it"),
    bind(Layer::Help, &["down"], Action::Down, "scroll"),
    bind(Layer::Help, &["up"], Action::Up, ""),
    bind(Layer::Help, &["pgdn"], Action::PageDown, ""),
    bind(Layer::Help, &["pgup"], Action::PageUp, ""),
    bind(Layer::Help, &["?", "esc"], Action::Back, "close"),
    //
    bind(Layer::Confirm, &["y", "enter"], Action::Quit, "quit"),
    bind(Layer::Confirm, &["n", "esc", "q"], Action::Back, "stay"),
    //
    bind(Layer::Palette, &["enter"], Action::Open, "do it"),
    bind(Layer::Palette, &["down", "ctrl-n"], Action::Down, "next"),
    bind(Layer::Palette, &["up", "ctrl-p"], Action::Up, ""),
    bind(Layer::Palette, &["pgdn"], Action::PageDown, ""),
    bind(Layer::Palette, &["pgup"], Action::PageUp, ""),
    bind(Layer::Palette, &["esc"], Action::Back, "close"),
    //
    bind(Layer::Choice, &["enter"], Action::Open, "take it"),
    bind(Layer::Choice, &["esc", "q"], Action::Back, "go back"),
    //
    bind(Layer::Edit, &["enter"], Action::Open, "done"),
    bind(Layer::Edit, &["esc"], Action::Back, "clear"),
    bind(Layer::Edit, &["down"], Action::Down, ""),
    bind(Layer::Edit, &["up"], Action::Up, ""),
];
