//! Updates of overlays: opens them, moves the selection, confirms it.

use std::mem::discriminant;

use crate::app::perform::perform;
use crate::event::{Effect, Target};
use crate::keymap::{Action, Chord};
use crate::overlay::{choices, form, palette, profiles};
use crate::screens::update::{send_copy, show};
use crate::screens::{Screen, cluster, execute, inference};
use crate::state::State;
use crate::state::field::Field;
use crate::state::form::Step;
use crate::state::overlay::{Help, Overlay, Themes, moved};
use crate::state::palette::{Goal, Palette};

/// Opens the overlay of `action`. If it is the topmost overlay, closes it instead.
pub(crate) fn toggle(state: &mut State, action: Action) {
    let overlay = match action {
        Action::Help => Overlay::Help(Help { filter: Field::edited(""), scroll: 0 }),
        Action::Palette => Overlay::Palette(Box::new(Palette::new(palette::entries(state)))),
        Action::Themes => Overlay::Themes(Themes::new(state.theme, &state.custom_themes)),
        Action::Notices => {
            // The list includes the visible notices, so they are removed from the screen.
            state.notices.clear();
            Overlay::Notices(0)
        }
        Action::Alerts => {
            if state.alerts.failure.is_some() {
                state.effects.push(Effect::WatchRules);
            }
            Overlay::Alerts(state.alerts.rules().first().map(|rule| rule.name.clone()))
        }
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
            state.open_form(form);
        }
    }
}

/// Handles an action in the topmost overlay. Returns true if there is an overlay.
pub(crate) fn act(state: &mut State, action: Action) -> bool {
    if state.overlays.is_empty() {
        return false;
    }
    if action == Action::Open {
        take(state);
        return true;
    }
    if form::act(state, action) {
        return true;
    }
    let n_rows = n_rows(state);
    if let Some(Overlay::Alerts(rule)) = state.overlays.last() {
        let row = moved(action, state.alerts.row(rule.as_deref()), n_rows);
        select(state, row);
    } else if let Some(row) = state.overlays.last_mut().and_then(Overlay::row) {
        let row = moved(action, *row, n_rows);
        select(state, row);
    }
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
        Some(Overlay::Keys(_)) => state.account.as_ref().map_or(0, |account| account.keys.len()),
        // The number of lines is known only to the view, which limits the scroll position.
        Some(Overlay::Help(_)) => usize::MAX,
        _ => 0,
    }
}

/// Selects a row of the topmost overlay, if it is a list. Previews a selected theme.
fn select(state: &mut State, row: usize) {
    match state.overlays.last_mut() {
        Some(Overlay::Alerts(rule)) => {
            *rule = state.alerts.rules().get(row).map(|rule| rule.name.clone());
        }
        Some(Overlay::Form(form)) => form.focus = row,
        Some(Overlay::Themes(themes)) => {
            themes.row = row;
            state.theme = themes.selected(&state.custom_themes);
        }
        Some(overlay) => {
            if let Some(selected) = overlay.row() {
                *selected = row;
            }
        }
        None => {}
    }
}

/// Handles a key press that completes no jump label: a letter begins a label of two letters. Any
/// other key removes the labels.
pub(crate) fn spell(state: &mut State, chord: Chord) {
    match (state.overlays.last_mut(), chord.letter()) {
        (Some(Overlay::Jump(typed)), Some(letter)) if typed.is_empty() => typed.push(letter),
        _ => {
            state.close();
        }
    }
}

/// Handles a changed text in the overlay's text field. Returns true if there is an overlay.
pub(crate) fn edited(state: &mut State) -> bool {
    match state.overlays.last_mut() {
        Some(Overlay::Palette(palette)) => palette.find(),
        Some(Overlay::Help(help)) => help.scroll = 0,
        Some(Overlay::Form(form)) => form.step = Step::Typed,
        Some(_) => {}
        None => return false,
    }
    true
}

/// Handles a click while an overlay is open. Returns false if none is.
pub(crate) fn click(state: &mut State, target: Target) -> bool {
    if state.overlays.is_empty() {
        return false;
    }
    if let Target::Row { row, .. } = target {
        select(state, row);
        let top = state.overlays.last();
        if matches!(top, Some(Overlay::Palette(_) | Overlay::CopyAs(_) | Overlay::Columns(_))) {
            take(state);
        }
    }
    true
}

/// Confirms the selection of the topmost overlay.
fn take(state: &mut State) {
    match state.overlays.last() {
        Some(Overlay::Help(help)) if !help.filter.value().is_empty() => {
            let bindings = state.keys.in_force(&state.layers_beneath());
            let first = bindings.into_iter().find(|binding| help.shows(binding, &state.keys));
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
        Some(Overlay::Alerts(rule)) => {
            if let Some(rule) = state.alerts.rule_mut(rule.as_deref()) {
                rule.is_acknowledged = true;
            }
        }
        Some(Overlay::Columns(row)) => choices::toggle_column(state, *row),
        Some(Overlay::Profiles(row)) => profiles::take(state, *row),
        Some(Overlay::Presets(row)) => execute::update::take_preset(state, *row),
        Some(Overlay::CopyAs(copy_as)) => {
            let text = copy_as.selected();
            state.close();
            send_copy(state, text);
        }
        Some(Overlay::Form(_)) => form::submit(state),
        _ => {}
    }
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
            state.data.find_dataset(dataset);
        }
        Goal::Topic(topic) => {
            show(state, Screen::Inference);
            state.inference.pane = inference::state::Pane::Topics;
            state.inference.select_topic(Some(topic));
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
