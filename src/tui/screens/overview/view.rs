//! Draws the Overview screen: a summary of all services.
//!
//! ```text
//! ╭ Cluster ───────╮╭ Data ──────────╮
//! │ nodes, shares  ││ values, lines: │
//! ├ Runs ──────────┤│ pinned, others │
//! ├ Notices ───────┤╰────────────────╯
//! ├ Processes ─────┤╭ Topics ────────╮
//! ╰────────────────╯╰────────────────╯
//! ```

use std::time::Duration;

use model::topic::TopicId;
use ratatui::prelude::*;
use wire::inference::TopicSummary;

use super::state::{RUNS_MAX, TOPICS_EVERY};
use crate::event::{LatestBundle, Target};
use crate::keymap::{Action, Layer};
use crate::overlay::alerts;
use crate::screens::cluster;
use crate::screens::cluster::update::NODES_HIDDEN_EVERY;
use crate::screens::data;
use crate::screens::data::update::DATASETS_EVERY;
use crate::state::layout::Divider;
use crate::state::nodes::Node;
use crate::state::resource::Resource;
use crate::state::services::{Health, Service, why_at};
use crate::view::{
    Frame, Hits, Tier, draw_empty, footer, header, results, split_columns, split_rows, text_cut,
};
use crate::widget::bars::{Floor, Sparkline};
use crate::widget::pane::Pane;
use crate::widget::{format, paint, stats};

/// Number of the pane with runs.
const RUNS: usize = 0;

/// Number of the pane with datasets.
const DATA: usize = 1;

/// Number of the pane with topics.
const TOPICS: usize = 2;

/// Maximum number of notices listed between the runs and the local processes.
const NOTICES_MAX: usize = 5;

/// Draws the Overview screen into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    if frame.state.is_zoomed {
        let draw = [draw_runs, draw_pins, draw_topics][focused(frame).min(TOPICS)];
        return draw(area, buf, frame);
    }
    let n_runs = u16::try_from(frame.state.runs.iter().len().clamp(1, RUNS_MAX)).unwrap_or(1);
    let n_topics = u16::try_from(frame.state.topic_ids().len().max(1)).unwrap_or(1);
    let n_heads = u16::try_from(frame.state.services.heads().len()).unwrap_or(u16::MAX);
    // The Cluster pane has rows for nodes, their runs and each service.
    let cluster_height = 8_u16.saturating_add(n_heads.saturating_sub(1));
    if frame.tier < Tier::Large {
        // In a low area, the pane shows no services. The header shows their health.
        let cluster_height = if area.height < 30 { 4 } else { cluster_height };
        let [cluster, rest] = split_rows(area, cluster_height);
        let [topics, rest] = split_rows(rest, (n_topics * 2 + 2).min(rest.height / 2));
        // Fewer than three rows would contain no run, only the border.
        let runs_height = (n_runs + 2).min(rest.height / 3);
        let runs_height = if runs_height < 3 { 0 } else { runs_height };
        let [pins, runs] = split_rows(rest, rest.height - runs_height);
        draw_cluster(cluster, buf, frame);
        draw_topics(topics, buf, frame);
        draw_pins(pins, buf, frame);
        return draw_runs(runs, buf, frame);
    }
    let [left, right] = frame.split(Divider::Columns, area, area.width * 46 / 100);
    let [cluster, rest] = split_rows(left, cluster_height.min(left.height / 2));
    let n_alerts = frame.state.alerts.firing().count();
    let n_notices = (frame.state.notices.past().len() + n_alerts).clamp(1, NOTICES_MAX);
    let notices_height = u16::try_from(n_notices + 2).unwrap_or(u16::MAX);
    let has_processes = !frame.state.stack.processes().is_empty();
    // Without local processes, the runs get all rows that the notices do not need.
    let at = if has_processes { n_runs + 2 } else { rest.height.saturating_sub(notices_height) };
    let [runs, notices] = frame.split(Divider::LeftRows, rest, at);
    let topics_height = (n_topics * 3 + 2).min(right.height / 2);
    let at = right.height.saturating_sub(topics_height);
    let [pins, topics] = frame.split(Divider::RightRows, right, at);
    draw_cluster(cluster, buf, frame);
    draw_runs(runs, buf, frame);
    let at = if has_processes { notices_height.min(notices.height / 2) } else { notices.height };
    let [notices, processes] = split_rows(notices, at);
    draw_notices(notices, buf, frame);
    if has_processes {
        // Rows of this pane cannot be clicked here, only on the Cluster screen.
        let frame = Frame { hits: &Hits::default(), ..frame };
        cluster::processes::draw(processes, buf, frame);
    }
    draw_pins(pins, buf, frame);
    draw_topics(topics, buf, frame);
}

/// Returns the number of the pane that contains the selected row.
fn focused(frame: Frame<'_>) -> usize {
    frame.state.overview.pane(frame.state.overview_counts())
}

/// Draws the pane with the nodes and the health of the services.
fn draw_cluster(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let listed = state.nodes.best_list();
    let head = state.nodes.run_head.map(Service::Head);
    let info =
        head.and_then(|head| frame.away(head)).unwrap_or_else(|| listed.note(state.now).into());
    let inside = Pane::new("Cluster").info(info).draw(area, buf, theme);
    let nodes = state.nodes.all(&state.stack);
    if nodes.is_empty() {
        let place = Rect { height: inside.height.min(2), ..inside };
        let words = ["no head is configured", "the head lists no nodes"];
        frame.draw_absent(place, buf, listed, Some(NODES_HIDDEN_EVERY), words);
    } else {
        draw_nodes(inside, buf, frame, &nodes);
    }
    draw_services(inside, buf, frame);
}

/// Draws the number of nodes and the agreement of their results.
fn draw_nodes(inside: Rect, buf: &mut Buffer, frame: Frame<'_>, nodes: &[Node]) {
    let Frame { state, theme, .. } = frame;
    let n_with = |role: &str| nodes.iter().filter(|it| it.role.as_deref() == Some(role)).count();
    let is_gone = |it: &&Node| it.is_connected == Some(false) || it.exited.is_some();
    let n_gone = nodes.iter().filter(is_gone).count();
    let roles = format!(
        " {}   {}   {}",
        if nodes.len() == 1 { "node" } else { "nodes" },
        format::counted(n_with("head"), "head"),
        format::counted(n_with("worker"), "worker")
    );
    let mut line = Line::from(vec![
        Span::styled(nodes.len().to_string(), theme.text.bold()),
        Span::styled(roles, theme.muted),
    ]);
    if n_gone > 0 {
        line.push_span(Span::styled(format!("   ✗ {n_gone} gone"), theme.down));
    }
    let n_silent = nodes.iter().filter(|it| it.silent_since.is_some()).count();
    if n_silent > 0 {
        line.push_span(Span::styled(format!("   ! {n_silent} silent"), theme.down));
    }
    paint::line(buf, inside, (0, 0), &line);
    let n_runs: u64 = nodes.iter().map(|node| node.n_runs).sum();
    let n_agreed: u64 = nodes.iter().map(|node| node.n_agreed).sum();
    let mut line = Line::from(vec![
        Span::styled(format::count(n_runs), theme.text.bold()),
        Span::styled(if n_runs == 1 { " answer   " } else { " answers   " }, theme.muted),
    ]);
    if let Some(share) = stats::percent(n_agreed, n_runs) {
        let style = if share < 90.0 { theme.warn } else { theme.up };
        line.push_span(Span::styled(format!("{share:.0} %"), style));
        line.push_span(Span::styled(" agreed", theme.muted));
    }
    if let Some(failure) = state.nodes.best_list().failure() {
        let again = frame.again(failure, Some(NODES_HIDDEN_EVERY));
        let why = format!("   ! {} · {again}", failure.why);
        line.push_span(Span::styled(why, theme.warn));
    }
    paint::line_cut(buf, inside, (0, 1), &line);
}

/// Draws the address and the health of each service.
fn draw_services(inside: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let has_several = state.services.has_several_heads();
    for (y, service) in (3..inside.height).zip(state.services.all()) {
        let health = state.services.health(service);
        let (glyph, style) = header::mark(health, theme);
        let at = state.services.address(service).unwrap_or("no address");
        let words = match health {
            Health::Absent => String::new(),
            Health::Refused { why } => format!("refused: {}", why.why),
            Health::Limited { until } => {
                format!("retry {}", format::age(until.since(state.now)))
            }
            // With several heads, the address is shown next to the text and not repeated within
            // it.
            Health::Down { why } if matches!(service, Service::Head(_)) && has_several => {
                why_at(at, &why.why).to_owned()
            }
            Health::Down { why } => match header::away(service, state) {
                Some(away) if away != "down" => format!("{away}: {}", why.why),
                _ => why.why.clone(),
            },
            _ => header::note(service, state),
        };
        paint::put(buf, inside, (0, y), glyph, style);
        paint::text(buf, inside, (2, y), service.name(), theme.muted);
        let words_width = u16::try_from(words.chars().count()).unwrap_or(0).min(inside.width / 2);
        let room = inside.width.saturating_sub(words_width + 10);
        paint::text(buf, inside, (8, y), &format::fit(at, room.into()), theme.text);
        let words = format::fit(&words, (inside.width / 2).into());
        paint::text_before(buf, inside, (inside.width, y), &words, style);
    }
}

/// Highlights the row `row`, counted over all panes, if it is selected. A click on `place` selects
/// the row.
fn mark(place: Rect, buf: &mut Buffer, frame: Frame<'_>, row: usize) {
    if frame.state.overview.row == row {
        for y in 0..place.height {
            paint::row_style(buf, place, y, frame.theme.sel);
        }
    }
    frame.hits.add(place, Target::Row { pane: 0, row });
}

fn draw_runs(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let info = format!("{} this session", state.runs.iter().len());
    frame.hits.add(area, Target::Pane(RUNS));
    let pane = Pane::new("Runs").info(info).focus(focused(frame) == RUNS);
    let inside = pane.draw(area, buf, theme);
    if state.runs.iter().len() == 0 {
        let form = frame.key(Layer::Global, Action::OpenForm);
        let run = frame.key(Layer::Form, Action::Run);
        let name = state.execute.form.chosen_function().map_or("a function", |it| it.name.as_str());
        let words = format!("No run yet: {form}, then {run}, runs {name}.");
        draw_empty(inside, buf, theme, &[words]);
    }
    let runs = state.runs.iter().take(RUNS_MAX).enumerate();
    for (place, (row, run)) in inside.rows().zip(runs) {
        let (glyph, style) = results::mark(run, frame);
        let words = run.words();
        paint::put(buf, place, (0, 0), glyph, style);
        paint::text(buf, place, (2, 0), &format::clock(run.sent_at), theme.muted);
        // The name is cut, so that there is space for the verdict and the duration.
        let name = state.execute.form.name_of(&run.request).unwrap_or(&run.request.method);
        let name = format::fit(name, usize::from(place.width.saturating_sub(11)) * 2 / 5);
        let x = paint::text(buf, place, (11, 0), &name, theme.text) + 2;
        let took = format::elapsed(run.elapsed(state.now));
        paint::text_before(buf, place, (place.width, 0), &took, theme.muted);
        let room = place.width.saturating_sub(x + 10);
        paint::text(buf, place, (x, 0), &format::fit(&words, room.into()), style);
        mark(place, buf, frame, row);
    }
}

fn draw_notices(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let keys = [(Action::Notices, "all of them"), (Action::Alerts, "alerts")];
    let of = Pane::new("Notices").footer(frame.hints(Layer::Global, &keys));
    let inside = of.draw(area, buf, theme);
    for (y, rule) in (0..inside.height).zip(state.alerts.firing()) {
        let (glyph, style, _) = alerts::mark(rule, theme);
        let clock = rule.changed_at.map(format::clock).unwrap_or_default();
        paint::text(buf, inside, (0, y), &clock, theme.muted);
        paint::put(buf, inside, (9, y), glyph, style);
        let x = paint::text(buf, inside, (11, y), &rule.name, style) + 2;
        text_cut(buf, inside, (x, y), &rule.text, theme.text);
    }
    let n_alerts = u16::try_from(state.alerts.firing().count()).unwrap_or(u16::MAX);
    for (y, notice) in (n_alerts..inside.height).zip(state.notices.past()) {
        let (glyph, style) = footer::notice_mark(notice.level, theme);
        paint::text(buf, inside, (0, y), &format::clock(notice.at), theme.muted);
        paint::put(buf, inside, (9, y), glyph, style);
        let x = paint::text(buf, inside, (11, y), &notice.text, theme.text) + 2;
        text_cut(buf, inside, (x, y), &notice.detail, theme.muted);
    }
    if state.notices.past().len() == 0 && n_alerts == 0 {
        draw_empty(inside, buf, theme, &["No notices yet.".to_owned()]);
    }
}

fn draw_pins(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let watched = state.data.watched();
    let info = match (state.data.pins.len(), state.services.addresses.datasets.is_some()) {
        (_, false) => String::new(),
        (0, true) if watched.is_empty() => state.data.datasets.note(state.now),
        (0, true) => frame.key(Layer::Data, Action::Pin) + " on the Data screen pins one",
        (n, true) => format!("{n} pinned"),
    };
    frame.hits.add(area, Target::Pane(DATA));
    let pane = Pane::new("Data").focus(focused(frame) == DATA);
    let inside = pane.draw(area, buf, theme);
    if watched.is_empty() {
        pane.info(frame.away_or(Service::Data, info)).draw(area, buf, theme);
        let words = ["no dataset service is configured", "no datasets yet"];
        return frame.draw_absent(inside, buf, &state.data.datasets, Some(DATASETS_EVERY), words);
    }
    let first = state.runs.iter().len().min(RUNS_MAX);
    let places = data::view::rows::draw_cards(inside, buf, &watched, frame);
    let counts = counts(places.len(), frame);
    let info = if info.is_empty() { counts } else { format!("{info} · {counts}") };
    pane.info(frame.away_or(Service::Data, info)).draw(area, buf, theme);
    for (idx, place) in places {
        mark(place, buf, frame, first + idx);
    }
}

/// Returns the number of datasets and the number of datasets without a card, such as
/// `1 008 datasets, 998 hidden`.
fn counts(n_shown: usize, frame: Frame<'_>) -> String {
    let data = &frame.state.data;
    let n_known = data.all.len().max(data.list().len()) as u64;
    let n_reported = data.datasets.value().and_then(|page| page.n_datasets).unwrap_or_default();
    let n_all = n_known.max(n_reported);
    let text = format::counted(n_all, "dataset");
    match n_all.saturating_sub(n_shown as u64) {
        0 => text,
        n => format!("{text}, {} hidden", format::count(n)),
    }
}

fn draw_topics(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let state = frame.state;
    let list = &state.inference.topics;
    // The age of the list is shown only if it is outdated, since each topic shows an age of its
    // own.
    let info = match (list.value(), list.failure()) {
        (Some(list), None) => format::counted(list.topics.len(), "topic"),
        _ => list.note(state.now),
    };
    frame.hits.add(area, Target::Pane(TOPICS));
    let info = frame.away_or(Service::Inference, info);
    let pane = Pane::new("Topics").info(info).focus(focused(frame) == TOPICS);
    let inside = pane.draw(area, buf, frame.theme);
    let topics = list.value().map_or(&[][..], |list| &list.topics);
    if topics.is_empty() {
        let words = ["no inference service is configured", "no topics yet"];
        return frame.draw_absent(inside, buf, list, Some(TOPICS_EVERY), words);
    }
    let first = state.runs.iter().len().min(RUNS_MAX) + state.data.watched().len();
    let pitch = if usize::from(inside.height) >= topics.len() * 3 { 3 } else { 2 };
    let tops = (0..inside.height).step_by(pitch);
    for (idx, (topic, top)) in topics.iter().zip(tops).enumerate() {
        let [place, _] = split_rows(split_rows(inside, top)[1], 2);
        draw_topic(place, buf, frame, topic);
        mark(place, buf, frame, first + idx);
    }
}

/// Returns the nonce and the age of a topic's value. The age is the time since its epoch opened.
/// If the service does not report its block time, it is the time since the value arrived.
fn topic_note(newest: &Resource<LatestBundle>, frame: Frame<'_>) -> String {
    let (state, inference) = (frame.state, &frame.state.inference);
    let came = newest.note(state.now);
    let Some(latest) = newest.value() else { return came };
    let nonce = latest.bundle.nonce;
    let shown = format!("nonce {}", format::count(nonce));
    match (inference.topics.value(), inference.height(state.now)) {
        (Some(list), Some(height)) if newest.failure().is_none() && !is_away(frame) => {
            let age_ms = height.saturating_sub(nonce).saturating_mul(list.block_time_ms);
            format!("{shown} · opened {}", format::ago(Duration::from_millis(age_ms)))
        }
        _ => format!("{shown} · {came}"),
    }
}

/// Returns true if the inference service does not respond, so the chain's height is unknown.
fn is_away(frame: Frame<'_>) -> bool {
    frame.state.services.health(Service::Inference).is_away()
}

fn draw_topic(area: Rect, buf: &mut Buffer, frame: Frame<'_>, topic: &TopicSummary) {
    let Frame { state, theme, .. } = frame;
    let id = TopicId::new(topic.topic_id);
    let newest = id.and_then(|id| state.overview.topics.get(&id));
    // Without a value, no epoch with submissions has closed yet.
    let is_missing = |it: &Resource<LatestBundle>| {
        it.value().is_none() && it.failure().is_some_and(|why| why.status == Some(404))
    };
    let newest_known = newest.filter(|it| topic.last_nonce.is_some() || !is_missing(it));
    let note = newest_known.map_or_else(String::new, |newest| topic_note(newest, frame));
    let room = usize::from(area.width).saturating_sub(note.chars().count() + 2);
    let title = format!("Topic {} · {}", topic.topic_id, topic.name);
    paint::text(buf, area, (0, 0), &format::fit(&title, room), theme.text.bold());
    let Some(newest) = newest_known else {
        let words = "no epoch has values yet; they need submissions";
        text_cut(buf, area, (2, 1), if newest.is_some() { words } else { "" }, theme.muted);
        return;
    };
    let is_old = newest.failure().is_some() || is_away(frame);
    let style = if is_old { theme.warn } else { theme.muted };
    paint::text_before(buf, area, (area.width, 0), &note, style);
    let Some(latest) = newest.value() else {
        let why = newest.failure().map_or("", |failure| failure.why.as_str());
        text_cut(buf, area, (2, 1), why, theme.warn);
        return;
    };
    let combined = &latest.bundle.combined_value;
    // All labels have the same number of decimals, so that their values can be compared.
    let decimals = format::decimals_for(combined.iter().map(|value| value.value));
    let mut line = Line::default();
    for value in combined.iter().take(4) {
        if combined.len() > 1 {
            line.push_span(Span::styled(format!("{} ", value.label_name), theme.muted));
        }
        line.push_span(Span::styled(format::grouped(value.value, decimals), theme.series(1)));
        line.push_span(Span::raw("   "));
    }
    let inferers = format::counted(latest.bundle.inferer_values.len(), "inferer");
    let forecasters = format::counted(latest.bundle.forecaster_values.len(), "forecaster");
    line.push_span(Span::styled(format!("{inferers} · {forecasters}"), theme.muted));
    paint::line_cut(buf, area, (2, 1), &line);
    let past = id.and_then(|id| state.inference.pasts.get(&id)).zip(combined.first());
    let values = past.map(|(past, label)| past.combined_with_gaps(&label.label_name));
    let width = u16::try_from(line.width()).unwrap_or(u16::MAX).saturating_add(4);
    // The sparkline has at most 48 columns.
    let width = area.width.saturating_sub(width).min(48);
    let [_, bars] = split_columns(split_rows(area, 1)[1], area.width - width);
    let values = values.unwrap_or_default();
    Sparkline::new(&values, Floor::Lowest, theme.series(1)).render(bars, buf);
}
