//! The reducer: applies an event to the state and returns effects. It does no I/O and reads no
//! clock.
//!
//! Screens and overlays handle their own events in their `update` modules.

pub(crate) mod perform;

use std::time::Duration;

use ratatui::prelude::*;
use unicode_width::UnicodeWidthStr;

use crate::event::{DataEvent, Effect, Event, StreamEvent, Target, Timer};
use crate::keymap::{Action, Chord, Layer, Resolved};
use crate::local::{Addresses, Level, LocalEvent};
use crate::overlay::view::draw_confirm;
use crate::overlay::{self, alerts, choices, copy_as, form, help, keys, palette, profiles};
use crate::screens::cluster::state::ClusterContext;
use crate::screens::cluster::update::{on_local, on_nodes};
use crate::screens::cluster::{self, operator};
use crate::screens::update::{self, PROCESS_SCREENS, connect, load_nodes_of, on_copied, show};
use crate::screens::{Screen, data, execute, inference, logs, overview};
use crate::state::overlay::Overlay;
use crate::state::services::Service;
use crate::state::{Dirty, State, session, stack};
use crate::theme::Theme;
use crate::view::{Frame, Hits, SIZE_MIN, Tier, draw_centered, footer, header, past, split_rows};
use crate::widget::format::counted;
use crate::widget::paint;

/// Maximum time between two presses of `^C` that end the program.
const INTERRUPT_WITHIN: Duration = Duration::from_secs(2);

/// Source of the addresses of the services when the screen opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// The services at these addresses.
    Connect(Addresses),
    /// The addresses and the key of this profile.
    Profile(String),
    /// Starts the local stack and uses its addresses.
    Local,
}

/// Returns the effects for opening the screen.
pub(crate) fn start(state: &mut State, start: Start) -> Vec<Effect> {
    match start {
        Start::Connect(addresses) => connect(state, &addresses),
        Start::Profile(name) => {
            state.profiles.opening = Some(name.clone());
            state.effects.push(Effect::OpenProfile(name));
        }
        Start::Local => {
            state.stack.begin();
            state.logs.log(Level::Info, state.now, "starting the local stack".to_owned());
            state.effects.push(Effect::StartLocal);
        }
    }
    show(state, state.screen);
    state.effects.extend([Effect::LoadPresets, Effect::FindDetachedNodes]);
    state.mark_dirty(Dirty::Input);
    settle(state)
}

/// Applies `event` to the state and returns the effects to perform.
pub(crate) fn update(state: &mut State, event: Event) -> Vec<Effect> {
    let dirty = urgency(state, &event);
    state.mark_dirty(dirty);
    match event {
        Event::Key(chord) => press(state, chord),
        Event::Paste(text) => paste(state, &text),
        Event::Click(target) => click(state, target),
        Event::Wheel(target, rows) => wheel(state, target, rows),
        Event::Grab => state.layout.grabbed = state.nudge(),
        Event::Drag(divider, by) => state.drag_divider(divider, by),
        Event::Resized { width, height } => state.size = (width, height),
        Event::Focused(is_focused) => state.is_behind = !is_focused,
        Event::Background(color) => state.background = Some(color),
        Event::TimerDue(timer) => on_timer(state, timer),
        Event::Local(event) => on_local(state, event),
        Event::LocalFailed(failure) => {
            state.stack.phase = stack::Phase::Failed(failure.clone());
            let screens = if state.stack.has_processes() { &[] } else { PROCESS_SCREENS };
            state.notify_failure_unless_on(screens, &failure);
        }
        Event::Nodes(head, result, latency) => on_nodes(state, head, result, latency),
        Event::Probed { service, response, latency } => {
            update::on_probe(state, service, response.as_ref(), latency);
        }
        Event::Functions(head, result) => execute::update::on_functions(state, head, result),
        Event::RunAccepted(id, request_id) => state.runs.set_request_id(id, request_id),
        Event::RunUnreachable(id, trouble) => execute::update::on_unreachable(state, id, trouble),
        Event::RunReport(id, body) => state.runs.add_report(id, &body),
        Event::Cluster(head, news) => execute::update::on_cluster(state, head, news),
        Event::NodeChanged(head, result) => operator::on_changed(state, head, result),
        Event::GroupChanged(head, outcome) => operator::on_group_changed(state, head, outcome),
        Event::FunctionAdded(head, result) => {
            execute::update::on_function_added(state, head, result);
        }
        Event::Presets(list) => state.execute.presets = list,
        Event::PresetChanged { name, left_out, result } => {
            execute::update::on_preset_changed(state, &name, left_out.as_deref(), result);
        }
        Event::Copied { text, by } => on_copied(state, text, by),
        Event::Usage(usage) => state.stack.measured(&usage),
        Event::Paged(Ok(())) => {}
        Event::Saved { path, what, result } => form::on_saved(state, &path, what, result),
        Event::Failed(failure) | Event::Paged(Err(failure)) => state.notify_failure(&failure),
        Event::Executed(id, result) => execute::update::on_executed(state, id, result),
        Event::Profile(event) => profiles::on(state, event),
        Event::Prepared(preparation, result) => form::on_prepared(state, preparation, result),
        Event::Importing(progress) => form::on_progress(state, &progress),
        Event::Changed(change, result) => form::on_changed(state, &change, result),
        Event::Alerts(event) => alerts::on(state, event),
        Event::Data(event) => update::on_data(state, event),
        Event::Inference(event) => update::on_inference(state, event),
    }
    settle(state)
}

/// Returns how soon a frame must follow `event`.
fn urgency(state: &State, event: &Event) -> Dirty {
    let screen = state.screen;
    match event {
        // Changes out of view need no frame.
        Event::Data(_) if !matches!(screen, Screen::Data | Screen::Overview) => Dirty::Clean,
        Event::Inference(_)
            if matches!(screen, Screen::Cluster | Screen::Execute | Screen::Logs) =>
        {
            Dirty::Clean
        }
        Event::Local(LocalEvent::Log(_)) if matches!(screen, Screen::Data | Screen::Inference) => {
            Dirty::Clean
        }
        // An event of a head is only visible if it concerns a run in progress.
        Event::Cluster(_, StreamEvent::Item(_)) if state.runs.n_waiting() == 0 => Dirty::Clean,
        // The handler of a probe's result requests a frame if the health changed.
        Event::TimerDue(Timer::Probe) | Event::Probed { .. } => Dirty::Clean,
        Event::TimerDue(Timer::Age) => Dirty::Age,
        Event::TimerDue(Timer::Interrupt | Timer::Notice) => Dirty::Data,
        // A key can have changed the list, such as one that ends a search.
        Event::Data(DataEvent::Datasets { result: Ok(page), .. })
            if state.data.datasets.value() != Some(page) =>
        {
            Dirty::Data
        }
        Event::TimerDue(_)
        | Event::Nodes(..)
        | Event::Usage(_)
        | Event::Cluster(..)
        | Event::Inference(_)
        | Event::Data(DataEvent::Stream { news: StreamEvent::Heartbeat, .. }) => Dirty::Poll,
        Event::Data(DataEvent::Datasets { .. }) if !state.data.is_edited() => Dirty::Poll,
        Event::Data(DataEvent::Rows { query, .. }) if !state.data.is_charted(query.dataset) => {
            Dirty::Poll
        }
        Event::Key(_)
        | Event::Paste(_)
        | Event::Click(_)
        | Event::Wheel(..)
        | Event::Drag(..)
        | Event::Resized { .. }
        | Event::Background(_)
        | Event::Focused(true)
        | Event::Profile(_)
        | Event::Prepared(..)
        | Event::Changed(..)
        | Event::Paged(_)
        | Event::Copied { .. }
        | Event::Executed(..) => Dirty::Input,
        _ => Dirty::Data,
    }
}

/// Finishes an update: restores the saved selection, records closed streams and hides expired
/// notices. Returns the effects that the update requested.
fn settle(state: &mut State) -> Vec<Effect> {
    session::select(state);
    execute::update::choose_head(state);
    data::update::forecast::choose(state);
    state.effects.append(&mut state.data.effects);
    state.effects.append(&mut state.inference.effects);
    let is_close = |effect: &Effect| matches!(effect, Effect::CloseStream { .. });
    if state.effects.iter().any(is_close) && !state.data.has_streams() {
        state.services.stream_closed(Service::Data);
    }
    if let Some(wait) = state.notices.expire(state.now) {
        state.effects.push(Effect::SetTimer(Timer::Notice, wait));
    }
    std::mem::take(&mut state.effects)
}

fn press(state: &mut State, chord: Chord) {
    let is_hidden = is_hidden(state);
    let layers = if is_hidden { Layer::Global.chain() } else { state.layers() };
    let pending = std::mem::take(&mut state.pending);
    match state.keys.resolve(&layers, &pending, chord) {
        // The question is in the last line, which names no other key.
        Resolved::Action(Action::Quit) if is_hidden && is_quitting(state) => {
            state.effects.push(Effect::Quit);
        }
        Resolved::Action(action)
            if is_hidden
                && !matches!(action, Action::Quit | Action::Interrupt | Action::Suspend) => {}
        Resolved::Nothing if is_hidden => {}
        Resolved::Action(action) => perform::perform(state, action),
        Resolved::Pending => {
            state.pending = pending;
            state.pending.push(chord);
        }
        // The key does not continue the pending sequence. The key is resolved again without the
        // sequence, since it can have a binding of its own.
        Resolved::Nothing if !pending.is_empty() => press(state, chord),
        // The last row of a frame of the past lists the keys that have an effect.
        Resolved::Nothing if state.frames.past().is_some() => {}
        Resolved::Nothing if matches!(state.overlays.last(), Some(Overlay::Jump(_))) => {
            overlay::update::spell(state, chord);
        }
        Resolved::Nothing => {
            if let (Some(Overlay::Profiles(row)), Some('U')) =
                (state.overlays.last(), chord.letter())
            {
                // Every API key starts with `U`, so this letter begins the input of a key.
                profiles::begin_key(state, *row);
            }
            if state.field().is_some_and(|field| field.press(chord)) {
                edited(state);
            }
        }
    }
}

/// Returns true if the user is asked whether to quit.
fn is_quitting(state: &State) -> bool {
    matches!(state.overlays.last(), Some(Overlay::ConfirmQuit))
}

/// Returns true if the screen is not drawn because the terminal is too small.
fn is_hidden(state: &State) -> bool {
    let (width, height) = state.size;
    Tier::for_area(Rect::new(0, 0, width, height)).is_none()
}

fn paste(state: &mut State, text: &str) {
    if state.frames.past().is_some() || is_hidden(state) {
        return;
    }
    if let Some(Overlay::Profiles(row)) = state.overlays.last() {
        profiles::begin_key(state, *row);
    }
    let is_execute = state.screen == Screen::Execute && state.overlays.is_empty();
    if is_execute && state.execute.focus == execute::state::Pane::Form {
        state.execute.edit_form();
    }
    let is_form = is_execute && state.field().is_some();
    let is_taken = is_form && state.execute.form.paste_command(text);
    if is_taken || state.field().is_some_and(|field| field.paste(text)) {
        edited(state);
    }
}

/// Handles a change of the text field that has focus.
pub(crate) fn edited(state: &mut State) {
    if overlay::update::edited(state) {
        return;
    }
    match state.screen {
        Screen::Data => state.data.edited(),
        Screen::Logs => state.logs.edited(),
        Screen::Cluster | Screen::Execute if state.output_search.is_edited() => {
            execute::update::find_match(state, true, false);
        }
        Screen::Execute if state.overlays.is_empty() => state.execute.form.edited(),
        _ => {}
    }
}

fn click(state: &mut State, target: Target) {
    if matches!(state.overlays.last(), Some(Overlay::Jump(_))) {
        state.close();
    }
    match target {
        Target::Screen(screen) => perform::perform(state, Action::Show(screen)),
        Target::Action(action) => perform::perform(state, action),
        _ if overlay::update::click(state, target) => {}
        Target::Output(output) => state.results_mut().look.show(output),
        _ => point(state, target),
    }
}

/// Handles a click on the current screen.
fn point(state: &mut State, target: Target) {
    if cluster::start::click(state, target) {
        return;
    }
    let State { nodes, stack, runs, cluster, execute, .. } = state;
    match state.screen {
        Screen::Cluster => {
            cluster.click(target, ClusterContext { nodes, stack, runs, page: 1 });
        }
        Screen::Execute => execute.click(target),
        Screen::Data => state.data.click(target),
        Screen::Inference => state.inference.click(target),
        Screen::Logs => {}
        Screen::Overview => match target {
            Target::Row { row, .. } => state.overview.row = row,
            Target::Pane(pane) => {
                let counts = state.overview_counts();
                state.overview.enter(pane, counts);
            }
            _ => {}
        },
    }
}

fn wheel(state: &mut State, target: Target, rows: i32) {
    if state.frames.past().is_some() {
        return state.frames.step(if rows < 0 { -1 } else { 1 });
    }
    if state.overlays.is_empty()
        && let Target::Pane(pane) | Target::Row { pane, .. } = target
    {
        if state.screen == Screen::Data {
            return state.data.wheel(pane, rows, state.now);
        }
        point(state, Target::Pane(pane));
    }
    let action = if rows < 0 { Action::Up } else { Action::Down };
    for _ in 0..rows.unsigned_abs().min(10) {
        perform::perform(state, action);
    }
}

fn on_timer(state: &mut State, timer: Timer) {
    let now = state.now;
    match timer {
        Timer::Nodes(head) => load_nodes_of(state, head),
        Timer::Probe => update::probe(state),
        Timer::Interrupt => state.is_interrupted = false,
        // These timers only wake the loop: every event is followed by a check of the notices and
        // by a frame.
        Timer::Age | Timer::Notice => {}
        Timer::Datasets | Timer::Rows => state.data.on_timer(timer, now),
        Timer::Overview => overview::state::load_topics(state),
        Timer::Topics => state.inference.on_timer(now),
        Timer::Actor => state.inference.load_actor(),
        Timer::Forecasts => state.data.forecast.is_recent = false,
    }
}

/// Draws the whole screen. Returns the click targets.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, state: &State, theme: &Theme) -> Hits {
    let hits = Hits::default();
    theme.clear(area, buf);
    let Some(tier) = Tier::for_area(area) else {
        draw_too_small(area, buf, state, theme);
        return hits;
    };
    let frame = Frame { state, theme, tier, hits: &hits };
    if let Some(past) = state.frames.past() {
        past::draw(area, buf, frame, past);
        state.symbols.apply(buf);
        return hits;
    }
    let [top, middle, bottom] = rows(area, footer::height(frame, area.width));
    match state.screen {
        Screen::Cluster => cluster::view::draw(middle, buf, frame),
        Screen::Execute => execute::view::draw(middle, buf, frame),
        Screen::Data => data::view::draw(middle, buf, frame),
        Screen::Inference => inference::view::draw(middle, buf, frame),
        Screen::Logs => logs::view::draw(middle, buf, frame),
        Screen::Overview => overview::view::draw(middle, buf, frame),
    }
    draw_overlay(middle, buf, frame);
    // The overlay removes all earlier click targets, so header and footer are drawn after it.
    header::draw(top, buf, frame);
    footer::draw(bottom, buf, frame);
    if let Some(Overlay::Jump(typed)) = state.overlays.last() {
        choices::draw_jump_labels(buf, theme, &hits, typed);
    }
    choices::draw_pending_keys(middle, buf, frame);
    state.symbols.apply(buf);
    hits
}

/// Splits `area` into the first row, the middle, and the last `n_last` rows.
fn rows(area: Rect, n_last: u16) -> [Rect; 3] {
    let [top, rest] = split_rows(area, 1);
    let [middle, bottom] = split_rows(rest, rest.height.saturating_sub(n_last));
    [top, middle, bottom]
}

/// Draws the topmost overlay, if there is one, over `area`. Removes all earlier click targets, so
/// that a click outside of the overlay only closes it.
fn draw_overlay(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Some(overlay) = frame.state.overlays.last() else { return };
    if matches!(overlay, Overlay::Jump(_)) {
        // The caller draws the labels last, over the whole frame.
        return;
    }
    frame.hits.clear();
    // A click must not close the only display of a secret.
    if !matches!(overlay, Overlay::Form(form) if form.has_secret()) {
        frame.hits.add(area, Target::Action(Action::Back));
    }
    // The list of themes does not dim the screen, which previews the selected theme.
    if !matches!(overlay, Overlay::Themes(_)) {
        buf.set_style(area, Style::reset().patch(frame.theme.bg).patch(frame.theme.faint));
    }

    match overlay {
        Overlay::Jump(_) => {}
        Overlay::Help(help) => help::draw(area, buf, frame, help),
        Overlay::ConfirmQuit => draw_confirm(area, buf, frame),
        Overlay::Palette(palette) => palette::draw(area, buf, frame, palette),
        Overlay::Themes(themes) => choices::draw_themes(area, buf, frame, *themes),
        Overlay::ConfirmStop(name) => cluster::processes::draw_confirm(area, buf, frame, name),
        Overlay::ConfirmNode(question) => operator::draw(area, buf, frame, question),
        Overlay::Presets(row) => execute::view::draw_presets(area, buf, frame, *row),
        Overlay::Form(form) => form::draw(area, buf, frame, form),
        Overlay::Keys(row) => keys::draw(area, buf, frame, *row),
        Overlay::CopyAs(copy_as) => copy_as::draw(area, buf, frame, copy_as),
        Overlay::Columns(row) => choices::draw_columns(area, buf, frame, *row),
        Overlay::Profiles(row) => profiles::draw(area, buf, frame, *row),
        Overlay::Alerts(rule) => alerts::draw(area, buf, frame, rule.as_deref()),
        Overlay::Notices(row) => choices::draw_notices(area, buf, frame, *row),
    }
}

fn draw_too_small(area: Rect, buf: &mut Buffer, state: &State, theme: &Theme) {
    let (width, height) = SIZE_MIN;
    let [needed, now] =
        [format!("{width}×{height} needed"), format!("{}×{} now", area.width, area.height)];
    let text = format!("{needed}, {now}");
    let is_narrow = text.width() > area.width.into();
    let [top, _, bottom] = rows(area, 1);
    header::draw_health(top, buf, state, theme);
    let bold = theme.text.add_modifier(Modifier::BOLD);
    let lines: &[(&str, Style)] =
        if is_narrow { &[(&needed, bold), (&now, bold)] } else { &[(&text, bold)] };
    draw_centered(buf, area, lines);
    if area.height > 2 {
        let key = state.keys.key_text(Layer::Global, Action::Quit);
        let quit = if is_quitting(state) {
            let ending = [(state.runs.n_waiting(), "run"), (state.stack.n_leaving(), "node")];
            let ending = ending.iter().filter(|(n, _)| *n > 0).map(|(n, what)| counted(*n, what));
            format!("{key} again quits, ends {}", ending.collect::<Vec<_>>().join(" and "))
        } else {
            format!("{key} quit")
        };
        paint::text(buf, bottom, (0, 0), &quit, theme.muted);
    }
}

#[cfg(test)]
mod tests;
