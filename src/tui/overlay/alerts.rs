//! Overlays of alerts: the list of rules, and the prompt for a new rule.

use alerts::state::{Alert, AlertState};
use alerts::watch;
use model::row::Value;
use ratatui::prelude::*;

use crate::event::{AlertEvent, Effect};
use crate::keymap::{Action, Layer};
use crate::local::Level;
use crate::overlay::form;
use crate::overlay::view::{List, raise};
use crate::screens::Screen;
use crate::screens::data::state::rows::RecentValues;
use crate::state::State;
use crate::state::form::Purpose;
use crate::state::notices::{Alerts, WatchedRule};
use crate::state::overlay::Overlay;
use crate::state::resource::Failure;
use crate::theme::Theme;
use crate::view::{Frame, centered, split_rows, text_cut, wrapped};
use crate::widget::pane::Pane;
use crate::widget::{format, paint};

/// Handles an event of the rules or their alerts.
pub(crate) fn on(state: &mut State, event: AlertEvent) {
    match event {
        AlertEvent::Watched { watched, unwatched, continues } => {
            state.alerts.watch(watched, unwatched, continues);
        }
        AlertEvent::Watch(watch::Event::Problem { text, rules }) => {
            state.logs.log(Level::Warn, state.now, format!("alerts lack data: {text}"));
            state.alerts.set_problem(&rules, Some(&text));
        }
        AlertEvent::Watch(watch::Event::Connected(rules)) => {
            state.alerts.set_problem(&rules, None);
        }
        AlertEvent::Added(result) => {
            if !form::settle(state, result, |purpose| *purpose == Purpose::Alert) {
                return;
            }
            state.notify(
                "added the alert",
                "the rules are in rules.toml of the configuration directory",
            );
            state.effects.push(Effect::WatchRules);
        }
        AlertEvent::Unreadable(failure) => {
            state.notify_failure(&failure);
            state.alerts = Alerts::default();
            state.alerts.failure = Some(failure);
        }
        AlertEvent::Failed(failure) => state.notify_failure(&failure),
        AlertEvent::Watch(watch::Event::Alert(alert)) => on_alert(state, alert),
    }
}

fn on_alert(state: &mut State, alert: Alert) {
    if !state.alerts.update(&alert, state.now) {
        return;
    }
    let (level, text) = match alert.state {
        AlertState::Firing => (Level::Warn, format!("alert: {}", alert.rule)),
        AlertState::Resolved => (Level::Info, format!("resolved: {}", alert.rule)),
    };
    state.report(&[], level, text, alert.text.clone());
    state.effects.push(Effect::NotifyTerminal(format!("{}: {}", alert.rule, alert.text)));
    state.effects.push(Effect::SendAlert(alert));
}

/// Mutes or unmutes the selected rule, or opens the prompt for a new rule.
pub(crate) fn act(state: &mut State, action: Action) {
    match (action, state.overlays.last()) {
        (Action::MuteAlert, Some(Overlay::Alerts(rule))) => {
            if let Some(rule) = state.alerts.rule_mut(rule.as_deref()) {
                rule.is_muted ^= true;
            }
        }
        (Action::AddAlert, _) => {
            let keys = suggested_rule(state);
            form::open_alert(state, &keys);
        }
        _ => {}
    }
}

/// Returns the text of a rule on the selection, which the user can edit.
fn suggested_rule(state: &State) -> String {
    match state.screen {
        Screen::Data => {
            let Some(dataset) = state.data.dataset() else { return String::new() };
            let name = toml_text(&dataset.name);
            let column =
                state.data.shape().and_then(|shape| shape.value_column().map(str::to_owned));
            let newest = state.data.sparkline(dataset.id).and_then(RecentValues::newest);
            match (column, newest) {
                (Some(column), Some((_, value))) => {
                    let value = Value::Float(value);
                    format!("dataset = {name}, column = {}, below = {value}", toml_text(&column))
                }
                _ => format!("dataset = {name}, silent_for = \"2m\""),
            }
        }
        Screen::Inference => {
            let Some(topic) = state.inference.selected else { return String::new() };
            let actors = state.inference.actors();
            let selected = state.inference.actor.as_ref();
            let actor = actors.iter().find(|actor| Some(actor.worker) == selected);
            let Some(actor) = actor.or(actors.first()) else { return String::new() };
            let name = actor.known.and_then(|known| known.name.clone());
            let name = name.unwrap_or_else(|| actor.worker.to_string());
            format!("topic = {topic}, actor = {}, misses = 3", toml_text(&name))
        }
        _ => "service = \"head\", down_for = \"10s\"".to_owned(),
    }
}

/// Formats a text as a TOML basic string.
fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the glyph, the style and the word for the state of a rule.
pub(crate) fn mark(rule: &WatchedRule, theme: &Theme) -> (char, Style, &'static str) {
    if !rule.is_watched {
        return ('?', theme.muted, "no service");
    }
    match (rule.is_firing, rule.is_acknowledged, rule.is_muted) {
        (_, _, true) => ('○', theme.muted, "muted"),
        (true, false, _) => ('▲', theme.warn, "firing"),
        (true, true, _) => ('▲', theme.muted, "acknowledged"),
        (false, ..) if rule.problem.is_some() => ('!', theme.warn, "no data"),
        (false, ..) => ('●', theme.up, "ok"),
    }
}

/// Returns the lines that are shown instead of rules, and their style. `None` if there are rules.
fn message(alerts: &Alerts, width: u16, theme: &Theme) -> Option<(Vec<String>, Style)> {
    if let Some(Failure { what, why, .. }) = &alerts.failure {
        let text = format!(
            "No rule is watched. Failed to {what}: {why}. Correct it and open this list again."
        );
        return Some((wrapped(&text, width), theme.down));
    }
    let text = "No rules yet: add one for the selected dataset, topic or service.";
    alerts.rules().is_empty().then(|| (vec![text.to_owned()], theme.muted))
}

/// Draws the list of rules. Firing rules are first.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, selected: Option<&str>) {
    let (theme, rules) = (frame.theme, frame.state.alerts.rules());
    let width = area.width.saturating_sub(4).min(110);
    let message = message(&frame.state.alerts, width.saturating_sub(4), theme);
    let n_lines = message.as_ref().map_or(rules.len(), |(text, _)| text.len());
    let height = u16::try_from(n_lines).unwrap_or(u16::MAX).clamp(1, area.height / 2);
    let place = centered(area, width, height.saturating_add(4));
    let keys = [
        (Action::Open, "acknowledges"),
        (Action::MuteAlert, "mutes"),
        (Action::AddAlert, "adds"),
        (Action::Back, "closes"),
    ];
    let of = Pane::new("Alerts")
        .info(format!("{} firing", frame.state.alerts.firing().count()))
        .footer(frame.hints(Layer::Alerts, &keys));
    let inside = raise(place, buf, frame, of);
    if let Some((text, style)) = message {
        for (y, line) in (0..inside.height).zip(&text) {
            paint::text(buf, inside, (0, y), line, style);
        }
        return;
    }
    let selected = frame.state.alerts.row(selected);
    let list = List { items: rules, selected, pitch: 1 };
    list.draw(split_rows(inside, inside.height)[0], buf, frame, |buf, place, rule| {
        let (glyph, style, word) = mark(rule, theme);
        paint::put(buf, place, (2, 0), glyph, style);
        let x = paint::text(buf, place, (4, 0), word, style);
        let x = paint::text(buf, place, (x.max(16) + 1, 0), &rule.name, theme.text);
        let since = rule.changed_at.map(|at| format!("  {}", format::clock(at)));
        let x = paint::text(buf, place, (x, 0), &since.unwrap_or_default(), theme.muted);
        let problem = rule.problem.as_ref().filter(|_| !rule.is_firing);
        text_cut(buf, place, (x + 2, 0), problem.unwrap_or(&rule.text), theme.muted);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{DataEvent, DatasetSearch, Event};
    use crate::harness::{self, Harness};

    fn watch_event(event: watch::Event) -> Event {
        Event::Alerts(AlertEvent::Watch(event))
    }

    fn alert(rule: &str, state: AlertState) -> Event {
        let text = "close of btcusd is 99, below 100".to_owned();
        watch_event(watch::Event::Alert(Alert { rule: rule.to_owned(), state, text }))
    }

    #[test]
    fn alert_is_shown_acknowledged_and_muted() {
        let mut screen = Harness::ready(160, 45);
        let names = vec!["low".to_owned(), "other".to_owned()];
        let unwatched = vec!["elsewhere".to_owned()];
        let event = AlertEvent::Watched { watched: names, unwatched, continues: false };
        screen.take(Event::Alerts(event));
        screen.press("0");
        screen.take(alert("low", AlertState::Firing));
        let effects = screen.take_effects();
        assert!(effects.iter().any(|effect| matches!(effect, Effect::NotifyTerminal(_))));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::SendAlert(_))));
        let text = screen.text();
        assert!(text.contains("▲ low") && text.contains("below 100"), "{text}");

        screen.press("@");
        screen.shows(&["firing       low", "no service   elsewhere"]);
        screen.press("enter");
        screen.shows(&["acknowledged low"]);
        screen.press("m");
        screen.shows(&["muted        low"]);
        screen.take(alert("low", AlertState::Resolved));
        let effects = screen.take_effects();
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::SendAlert(_))));
        assert_eq!(screen.state.alerts.firing().count(), 0);
    }

    #[test]
    fn rule_without_data_is_shown_with_the_problem_until_its_data_arrives() {
        let mut screen = Harness::ready(160, 45);
        let watched = vec!["low".to_owned(), "other".to_owned()];
        let event = AlertEvent::Watched { watched, unwatched: Vec::new(), continues: false };
        screen.take(Event::Alerts(event));
        let text = "dataset btc has no column nope".to_owned();
        let rules = vec!["low".to_owned()];
        screen.take(watch_event(watch::Event::Problem { text, rules: rules.clone() }));
        screen.press("@");
        screen
            .shows(&["! no data      low  dataset btc has no column nope", "● ok           other"]);
        screen.take(watch_event(watch::Event::Connected(rules)));
        screen.shows(&["● ok           low"]);
    }

    #[test]
    fn unreadable_rules_are_reported_in_the_list_and_read_again() {
        let mut screen = Harness::ready(120, 45);
        let failure = Failure::new("read /a/rules.toml", "line 25: invalid array", "correct it");
        screen.take(Event::Alerts(AlertEvent::Unreadable(failure)));
        assert!(screen.effects_of("@").contains(&Effect::WatchRules));
        screen
            .shows(&["No rule is watched. Failed to read /a/rules.toml: line 25: invalid array."]);
        screen.hides(&["No rules yet"]);
        let event = AlertEvent::Watched {
            watched: vec!["low".to_owned()],
            unwatched: Vec::new(),
            continues: true,
        };
        screen.take(Event::Alerts(event));
        screen.shows(&["● ok           low"]);
    }

    #[test]
    fn alert_rule_stays_selected_when_another_rule_fires() {
        let mut screen = Harness::ready(160, 45);
        let watched = vec!["low".to_owned(), "other".to_owned()];
        let event = AlertEvent::Watched { watched, unwatched: Vec::new(), continues: false };
        screen.take(Event::Alerts(event));
        screen.press("@");
        screen.take(alert("other", AlertState::Firing));
        screen.press("m");
        screen.shows(&["firing       other", "muted        low"]);
    }

    /// Presses `keys` to open the prompt for a new rule. Returns the rule that the prompt
    /// suggests.
    fn suggested(screen: &mut Harness, keys: &str) -> String {
        screen.press(keys);
        match screen.state.overlays.last() {
            Some(Overlay::Form(form)) => form.value("rule").to_owned(),
            _ => panic!("no prompt:\n{}", screen.text()),
        }
    }

    #[test]
    fn alert_rule_is_suggested_for_the_selection_and_added() {
        let mut screen = Harness::after("3");
        let dataset = harness::dataset(1, "a \"quoted\" name", screen.state.now);
        let result = Ok(harness::datasets(vec![dataset]));
        screen.take(Event::Data(DataEvent::Datasets { search: DatasetSearch::ALL, result }));
        let keys = suggested(&mut screen, "W");
        assert_eq!(keys, r#"dataset = "a \"quoted\" name", silent_for = "2m""#);
        screen.press("enter");
        let section = alerts::rules::section_of(&keys).unwrap();
        assert!(screen.take_effects().contains(&Effect::AddRule(section)));
        let failure = Failure::new("add the rule", "rule 2: has the same name as rule 1", "");
        screen.take(Event::Alerts(AlertEvent::Added(Err(failure))));
        screen.shows(&["rule 2: has the same name as rule 1", "silent_for"]);
        screen.press("enter");
        screen.take(Event::Alerts(AlertEvent::Added(Ok(()))));
        assert!(screen.take_effects().contains(&Effect::WatchRules));
        suggested(&mut screen, "1 W");
        screen.type_text("x");
        screen.press("enter");
        screen.shows(&["the rule is invalid"]);
    }
}
