//! Modal overlays on top of the current screen: which there are, their updates, their drawing.
//!
//! Each has its state and its view in a module. Their keys are in `keymap/table.rs`.

pub(crate) mod alerts;
pub(crate) mod choices;
pub(crate) mod copy_as;
pub(crate) mod help;
pub(crate) mod palette;
pub(crate) mod profiles;
pub(crate) mod save;
pub(crate) mod view;

use std::mem::discriminant;

use ratatui::prelude::*;

use self::choices::Themes;
use self::copy_as::CopyMenu;
use self::help::Help;
use self::palette::{Goal, Palette};
use self::profiles::{KeyForm, KeyStep};
use self::save::{ExportTable, SaveForm};
use crate::action::Action;
use crate::app::perform::perform;
use crate::event::{Effect, Target};
use crate::keymap::{Chord, Layer};
use crate::screens::cluster::{self, operator};
use crate::screens::update::{send_copy, show};
use crate::screens::{Screen, execute, inference};
use crate::state::State;
use crate::state::field::Field;
use crate::state::navigation::{self, Steps as _};
use crate::state::nodes::NodeChange;
use crate::view::Frame;
use crate::view::hits::Hits;
use crate::widget::format::counted;

/// A modal overlay.
#[derive(Debug, Clone)]
pub(crate) enum Overlay {
    Help(Help),
    /// Labels on all click targets, and the typed part of a label.
    Jump(String),
    /// Question before quitting while a run is pending.
    ConfirmQuit,
    /// The command palette.
    Palette(Box<Palette>),
    /// The list of themes, with a preview.
    Themes(Themes),
    /// The columns of the focused table: the selected row.
    Columns(usize),
    /// Past notices: the selected row, counted from the latest.
    Notices(usize),
    /// The rules for alerts: the selected row.
    Alerts(usize),
    /// The prompt for a rule.
    AddAlert(Field),
    /// The list of profiles: the selected row.
    Profiles(usize),
    /// The form for the API key of a profile.
    Key(KeyForm),
    /// The form that starts a node on this machine.
    AddNode,
    /// Question before the selected local process is stopped.
    ConfirmStop,
    /// Question before nodes are changed.
    ConfirmNode(NodeChange),
    /// The list of presets: the selected row.
    Presets(usize),
    /// The prompt for the name of a new preset.
    PresetName(Field),
    /// The prompt for a file to write to.
    Save(SaveForm),
    /// The formats to copy the selection in.
    CopyAs(CopyMenu),
}

impl Overlay {
    /// Returns the layer of keys with the highest precedence while it is on top.
    pub(crate) const fn layer(&self) -> Layer {
        match self {
            Self::Help(_) => Layer::Help,
            Self::Jump(_) => Layer::Jump,
            Self::ConfirmQuit | Self::ConfirmStop | Self::ConfirmNode(_) => Layer::Confirm,
            Self::Palette(_) => Layer::Palette,
            Self::Profiles(_) => Layer::Profiles,
            Self::Key(_) | Self::PresetName(_) | Self::Save(_) | Self::AddAlert(_) => Layer::Prompt,
            Self::Alerts(_) => Layer::Alerts,
            Self::AddNode => Layer::NodeForm,
            Self::Presets(_) => Layer::Presets,
            Self::Themes(_) | Self::Notices(_) | Self::CopyAs(_) | Self::Columns(_) => {
                Layer::Choice
            }
        }
    }

    /// Returns the focused text field, if it belongs to the overlay.
    pub(crate) const fn field(&mut self) -> Option<&mut Field> {
        match self {
            Self::Help(help) => Some(&mut help.filter),
            Self::Palette(palette) => Some(&mut palette.input),
            Self::Key(form) => Some(&mut form.input),
            Self::PresetName(text) | Self::AddAlert(text) => Some(text),
            Self::Save(save) => Some(&mut save.path),
            _ => None,
        }
    }

    /// Returns the selected row of a list, or the first visible row of the help.
    pub(crate) const fn row(&mut self) -> Option<&mut usize> {
        match self {
            Self::Help(help) => Some(&mut help.scroll),
            Self::Palette(palette) => Some(&mut palette.row),
            Self::Themes(themes) => Some(&mut themes.row),
            Self::CopyAs(copy_as) => Some(&mut copy_as.row),
            Self::Notices(row)
            | Self::Alerts(row)
            | Self::Profiles(row)
            | Self::Presets(row)
            | Self::Columns(row) => Some(row),
            _ => None,
        }
    }
}

/// Returns the row that `action` moves to from `row` of a list in an overlay.
pub(crate) fn moved(action: Action, row: usize, n_rows: usize) -> usize {
    /// Rows in a page of an overlay, about as many as are visible.
    const PAGE: usize = 10;
    navigation::moved(action, row, n_rows, PAGE).unwrap_or(row)
}

/// Opens the overlay of `action`, or closes it if it is on top.
pub(crate) fn toggle(state: &mut State, action: Action) {
    let overlay = match action {
        Action::Help => Overlay::Help(Help { filter: Field::edited(""), scroll: 0 }),
        Action::Palette => Overlay::Palette(Box::new(Palette::new(palette::entries(state)))),
        Action::Themes => Overlay::Themes(Themes::new(state.theme, &state.custom_themes)),
        Action::Notices => {
            // The visible notices are part of the list.
            state.notices.clear();
            Overlay::Notices(0)
        }
        Action::Alerts => Overlay::Alerts(0),
        Action::Columns => {
            if choices::focused_table(state).is_none() {
                return state.notify_refused("no table has focus", String::new());
            }
            Overlay::Columns(0)
        }
        Action::Profiles => Overlay::Profiles(profiles::current_row(state)),
        _ => return,
    };
    if state.overlays.last().is_some_and(|top| discriminant(top) == discriminant(&overlay)) {
        state.close();
    } else {
        state.open(overlay);
        let form = profiles::refused_form(state).filter(|_| action == Action::Profiles);
        if let Some(form) = form {
            state.open(Overlay::Key(form));
        }
    }
}

/// Handles an action in the topmost overlay. Returns true if there is one.
pub(crate) fn act(state: &mut State, action: Action) -> bool {
    if state.overlays.is_empty() {
        return false;
    }
    if action == Action::Open {
        take(state);
        return true;
    }
    let n_rows = n_rows(state);
    let Some(overlay) = state.overlays.last_mut() else { return false };
    if let Some(row) = overlay.row() {
        *row = moved(action, *row, n_rows);
    }
    preview_theme(state);
    true
}

/// Returns the number of rows of the topmost overlay, if it is a list.
fn n_rows(state: &State) -> usize {
    match state.overlays.last() {
        Some(Overlay::Palette(palette)) => palette.matches.len(),
        Some(Overlay::Themes(_)) => Themes::rows(&state.custom_themes).count(),
        Some(Overlay::CopyAs(copy_as)) => copy_as.forms.len(),
        Some(Overlay::Notices(_)) => state.notices.past().len(),
        Some(Overlay::Alerts(_)) => state.alerts.rules().len(),
        Some(Overlay::Columns(_)) => {
            choices::focused_table(state).map_or(0, |(_, titles)| titles.len())
        }
        Some(Overlay::Profiles(_)) => state.profiles.choices().len(),
        Some(Overlay::Presets(_)) => state.execute.presets.len(),
        // Only the view knows the number of lines.
        Some(Overlay::Help(_)) => usize::MAX,
        _ => 0,
    }
}

/// Previews the selected theme.
fn preview_theme(state: &mut State) {
    if let Some(Overlay::Themes(themes)) = state.overlays.last() {
        state.theme = themes.selected(&state.custom_themes);
    }
}

/// Opens the form for the key of the selected profile or the one in use, or removes that key.
pub(crate) fn key(state: &mut State, action: Action) {
    let row = match state.overlays.last() {
        Some(Overlay::Profiles(row)) => Some(*row),
        _ => None,
    };
    profiles::act(state, action, row);
}

/// Handles a typed letter of a jump label. Any other key closes the labels.
pub(crate) fn spell(state: &mut State, chord: Chord) {
    match (state.overlays.last_mut(), chord.letter()) {
        (Some(Overlay::Jump(typed)), Some(letter)) if typed.is_empty() => typed.push(letter),
        _ => {
            state.close();
        }
    }
}

/// Handles an edit of the overlay's text field. Returns true if there is an overlay.
pub(crate) fn edited(state: &mut State) -> bool {
    match state.overlays.last_mut() {
        Some(Overlay::Palette(palette)) => palette.find(),
        Some(Overlay::Help(help)) => help.scroll = 0,
        Some(Overlay::Key(form)) => form.step = KeyStep::Typed,
        Some(_) => {}
        None => return false,
    }
    true
}

/// Handles a click in the topmost overlay. Returns true if there is one.
pub(crate) fn click(state: &mut State, target: Target) -> bool {
    let Some(overlay) = state.overlays.last_mut() else { return false };
    let (Target::Row { row, .. }, Some(selected)) = (target, overlay.row()) else { return true };
    *selected = row;
    if matches!(overlay, Overlay::Palette(_) | Overlay::CopyAs(_) | Overlay::Columns(_)) {
        take(state);
    } else {
        preview_theme(state);
    }
    true
}

/// Confirms the selection of the topmost overlay.
fn take(state: &mut State) {
    match state.overlays.last() {
        Some(Overlay::Help(help)) if !help.filter.value().is_empty() => {
            let bindings = state.keys.in_force(&state.layers_beneath());
            let first = bindings.into_iter().find(|binding| help.shows(binding));
            if let Some(action) = first.map(|binding| binding.action) {
                state.close();
                perform(state, action);
            }
        }
        Some(Overlay::Palette(palette)) => {
            if let Some(goal) = palette.selected().map(|entry| entry.goal.clone()) {
                while state.close() {}
                reach(state, goal);
            }
        }
        Some(Overlay::Themes(themes)) => {
            let chosen = themes.selected(&state.custom_themes);
            state.close();
            state.theme = chosen;
        }
        Some(Overlay::Notices(_)) => {
            state.close();
        }
        Some(Overlay::Alerts(row)) => state.alerts.acknowledge(*row),
        Some(Overlay::AddAlert(_)) => alerts::add(state),
        Some(Overlay::Columns(row)) => choices::toggle_column(state, *row),
        Some(Overlay::Profiles(row)) => profiles::take(state, *row),
        Some(Overlay::Presets(row)) => execute::update::take_preset(state, *row),
        Some(Overlay::PresetName(_)) => execute::update::keep_preset(state),
        Some(Overlay::CopyAs(copy_as)) => {
            let text = copy_as.selected();
            state.close();
            send_copy(state, text);
        }
        Some(Overlay::Key(_)) => profiles::try_key(state),
        Some(Overlay::Save(_)) => save(state),
        _ => {}
    }
}

/// Writes the current view to the named file. Does nothing without a name.
fn save(state: &mut State) {
    let Some(Overlay::Save(form)) = state.overlays.last() else { return };
    let (path, is_json) = (form.path.value().trim().to_owned(), form.is_json());
    if path.is_empty() {
        return;
    }
    let text = form.text.clone();
    state.close();
    let (text, what) = if let Some(text) = text {
        let n_lines = counted(text.lines().count(), "line");
        (text, n_lines)
    } else {
        let table = ExportTable::for_screen(state);
        (table.text(is_json), counted(table.rows.len(), "row"))
    };
    state.effects.push(Effect::Save { path: path.into(), text, what });
}

/// Opens the target of a palette entry.
pub(crate) fn reach(state: &mut State, goal: Goal) {
    match goal {
        Goal::Act(screen, action) => {
            if let Some(screen) = screen {
                show(state, screen);
            }
            let here = state.keys.in_force(&state.layers_beneath());
            let is_bound = here.iter().any(|binding| binding.action == action);
            if screen == Some(Screen::Execute) && !is_bound {
                state.execute.focus_form();
            }
            perform(state, action);
        }
        Goal::Theme(theme) => state.theme = theme,
        Goal::Dataset(dataset) => {
            show(state, Screen::Data);
            state.data.find_dataset(dataset, state.now);
        }
        Goal::Topic(topic) => {
            show(state, Screen::Inference);
            let topics = state.inference.topics.value().map_or(&[][..], |list| &list.topics);
            let row = topics.iter().position(|listed| listed.topic_id == topic.get());
            if let Some(row) = row {
                let pane = inference::state::Pane::Topics.number();
                state.inference.click(Target::Row { pane, row });
            }
        }
        Goal::Node(peer_id) => {
            show(state, Screen::Cluster);
            state.cluster.show_node(peer_id);
        }
        Goal::Function(id, method) => {
            show(state, Screen::Execute);
            state.execute.focus_form();
            let known = state.execute.form.find(&id, &method);
            if let Some(function) = known.map(|(_, function)| function.clone()) {
                state.execute.form.added(&function);
            }
        }
        Goal::Run(id) => {
            show(state, Screen::Cluster);
            state.cluster.results.run = Some(id);
            state.cluster.focus = cluster::state::Pane::Groups;
        }
    }
}

/// Draws the topmost overlay over `area`, if there is one. The screen beneath cannot be clicked. A
/// click outside the overlay closes it.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let Some(overlay) = frame.state.overlays.last() else { return };
    if matches!(overlay, Overlay::Jump(_)) {
        // Labels are drawn last, over the whole frame.
        return;
    }
    hits.clear();
    hits.add(area, Target::Action(Action::Back));
    // The rest of the screen is the preview of a theme.
    if !matches!(overlay, Overlay::Themes(_)) {
        buf.set_style(area, Style::reset().patch(frame.theme.bg).patch(frame.theme.faint));
    }
    let on = view::Surface { area, buf, frame, hits };
    match overlay {
        Overlay::Jump(_) => {}
        Overlay::Help(help) => help::draw(on, help),
        Overlay::ConfirmQuit => view::draw_confirm(on),
        Overlay::Palette(palette) => palette::draw(on, palette),
        Overlay::Themes(themes) => choices::draw_themes(on, *themes),
        Overlay::AddNode => cluster::node_form::draw(on),
        Overlay::ConfirmStop => cluster::node_form::draw_confirm(on),
        Overlay::ConfirmNode(question) => operator::draw(on, question),
        Overlay::Presets(row) => execute::view::draw_presets(on, *row),
        Overlay::PresetName(name) => execute::view::preset_prompt(name, frame).draw(on),
        Overlay::Save(save) => save.prompt(frame).draw(on),
        Overlay::CopyAs(copy_as) => copy_as::draw(on, copy_as),
        Overlay::Columns(row) => choices::draw_columns(on, *row),
        Overlay::Profiles(row) => profiles::draw(on, *row),
        Overlay::Key(form) => profiles::draw_key(on, form),
        Overlay::Alerts(row) => alerts::draw(on, *row),
        Overlay::AddAlert(field) => alerts::prompt(field, frame).draw(on),
        Overlay::Notices(row) => choices::draw_notices(on, *row),
    }
}
