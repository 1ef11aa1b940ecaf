//! The session that is saved: the current screen, its layout and its selection.
//!
//! The session is written as JSON when the screen closes, and read when it opens. Invalid parts
//! are ignored. Keys, tokens and typed texts are not saved.

use model::dataset::DatasetId;
use model::topic::TopicId;
use serde_json::{Value, json};

use super::State;
use super::layout::Nudge;
use crate::screens::Screen;
use crate::screens::data::state::pins_key;
use crate::state::layout::HiddenColumns;
use crate::theme::{InitialTheme, Name};

/// Selection of the last session. It is restored as soon as the services list it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SavedSelection {
    /// Dataset that was charted.
    pub(crate) dataset: Option<DatasetId>,
    /// Topic that was selected.
    pub(crate) topic: Option<TopicId>,
}

/// Serializes the session of `state`.
pub(crate) fn text(state: &State) -> String {
    let nudges = Screen::ALL.map(|screen| state.layout.nudge(screen).0);
    let dataset = state.data.selected.or(state.saved_selection.dataset).map(DatasetId::get);
    let topic = state.inference.selected.or(state.saved_selection.topic).map(TopicId::get);
    let mut pins = state.data.saved_pins.clone();
    let address = state.services.addresses.datasets.as_deref();
    pins.extend(address.map(|it| (pins_key(it).to_owned(), state.data.named_pins())));
    pins.retain(|_, pins| !pins.is_empty());
    let pins = pins.into_iter().map(|(address, pins)| {
        let pins = pins.into_iter().map(|(dataset, name)| json!([dataset.get(), name]));
        (address, pins.collect::<Value>())
    });
    let session = json!({
        "screen": state.screen.name(),
        "theme": state.theme_to_save().map(|theme| theme.to_string()),
        "background": state.background,
        "mouse": state.has_mouse,
        "panes": nudges,
        "hidden": state.hidden_columns.0,
        "profile": state.profiles.current,
        "node": state.cluster.node,
        "dataset": dataset,
        "topic": topic,
        "pins": pins.collect::<Value>(),
    });
    format!("{session:#}\n")
}

/// Restores the session in `text`, except for invalid parts. A theme requested for this start
/// takes precedence.
pub(crate) fn restore(state: &mut State, text: &str) {
    if let InitialTheme::Given(theme) = state.initial_theme {
        state.theme = theme;
    }
    let Ok(session) = serde_json::from_str::<Value>(text) else { return };
    let screen = session["screen"].as_str();
    if let Some(screen) = Screen::ALL.into_iter().find(|known| Some(known.name()) == screen) {
        state.screen = screen;
    }
    if let Some(theme) = session["theme"].as_str() {
        state.session_theme = Name::among(theme, &state.custom_themes);
        if state.initial_theme == InitialTheme::Session {
            state.theme = state.theme.or(state.session_theme);
        }
    }
    let parts = session["background"].as_array().map_or(&[][..], Vec::as_slice);
    let mut parts = parts.iter().filter_map(|part| u8::try_from(part.as_u64()?).ok());
    if let (Some(red), Some(green), Some(blue)) = (parts.next(), parts.next(), parts.next()) {
        state.background = Some([red, green, blue]);
    }
    let nudges = session["panes"].as_array().map_or(&[][..], Vec::as_slice);
    for (screen, nudge) in Screen::ALL.into_iter().zip(nudges) {
        let part = |idx: usize| i16::try_from(nudge[idx].as_i64().unwrap_or(0)).unwrap_or(0);
        state.layout.set(screen, Nudge([0, 1, 2].map(part)));
    }
    let hidden = session["hidden"].as_array().map_or(&[][..], Vec::as_slice);
    state.hidden_columns =
        HiddenColumns(hidden.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    state.cluster.node = session["node"].as_str().map(str::to_owned);
    for (address, pins) in session["pins"].as_object().into_iter().flatten() {
        let pins = pins.as_array().into_iter().flatten().filter_map(pinned).collect();
        state.data.saved_pins.insert(address.clone(), pins);
    }
    state.saved_selection = SavedSelection {
        dataset: session["dataset"].as_i64().and_then(DatasetId::new),
        topic: session["topic"].as_u64().and_then(TopicId::new),
    };
}

/// Parses the id and the name of a pinned dataset.
fn pinned(pin: &Value) -> Option<(DatasetId, String)> {
    Some((DatasetId::new(pin[0].as_i64()?)?, pin[1].as_str()?.to_owned()))
}

/// Returns the name of the profile that was in use in the session `text`.
#[must_use]
pub fn profile(text: &str) -> Option<String> {
    let session: Value = serde_json::from_str(text).ok()?;
    session["profile"].as_str().map(str::to_owned)
}

/// Returns true if the mouse was captured in the session `text`. `None` if unknown.
#[must_use]
pub fn has_mouse(text: &str) -> Option<bool> {
    serde_json::from_str::<Value>(text).ok()?["mouse"].as_bool()
}

/// Restores the selection as soon as the services list it.
pub(crate) fn select(state: &mut State) {
    if state.data.datasets.value().is_some()
        && let Some(dataset) = state.saved_selection.dataset.take()
        && state.data.selected != Some(dataset)
        && state.data.list().iter().any(|listed| listed.id == dataset)
    {
        state.data.select(dataset);
    }
    if let Some(list) = state.inference.topics.value()
        && let Some(topic) = state.saved_selection.topic.take()
        && list.topics.iter().any(|listed| listed.topic_id == topic.get())
    {
        state.inference.select_topic(Some(topic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Harness;

    #[test]
    fn session_round_trips() {
        let mut left = Harness::ready(160, 45);
        left.press("j ] ] 3 ] }");
        left.state.theme = Some(Name::Light);
        left.state.background = Some([1, 2, 3]);
        left.state.saved_selection.dataset = DatasetId::new(7);
        let pin = |id, name: &str| (DatasetId::new(id).unwrap(), name.to_owned());
        left.state.data.restore_pins(vec![pin(3, "load"), pin(9, "heat")]);
        let text = text(&left.state);
        let mut state = State::default();
        restore(&mut state, &text);
        assert_eq!((state.screen, state.theme), (Screen::Data, Some(Name::Light)));
        assert_eq!((state.layout, state.background), (left.state.layout, Some([1, 2, 3])));
        assert_eq!(state.cluster.node, left.state.cluster.node);
        assert_eq!(state.saved_selection, left.state.saved_selection);
        assert_eq!(super::text(&state), text);
        assert!(text.contains("heat"), "{text}");
    }

    #[test]
    fn theme_given_on_the_command_line_is_not_saved_in_the_session() {
        let mut state =
            State { initial_theme: InitialTheme::Given(Some(Name::Mono)), ..State::default() };
        restore(&mut state, "{\"theme\": \"light\"}");
        assert_eq!(state.theme, Some(Name::Mono));
        assert!(text(&state).contains("\"theme\": \"light\""), "{}", text(&state));
        state.theme = Some(Name::Cvd);
        assert!(
            text(&state).contains("\"theme\": \"cvd\""),
            "a theme chosen on the screen is saved"
        );
        state.initial_theme = InitialTheme::Given(None);
        state.theme = None;
        assert!(text(&state).contains("\"theme\": \"light\""), "--theme auto");
    }

    #[test]
    fn restored_pins_without_an_id_or_a_name_are_left_out() {
        let mut state = State::default();
        restore(&mut state, "{\"pins\": {\"a\": [3, [9, \"heat\"], \"x\", [3]], \"b\": 3}}");
        let heat = (DatasetId::new(9).unwrap(), "heat".to_owned());
        assert_eq!(state.data.saved_pins["a"], [heat]);
    }

    #[test]
    fn session_contains_no_secret() {
        let screen = Harness::ready(160, 45);
        let key = screen.state.services.addresses.api_key.clone().unwrap();
        assert!(!text(&screen.state).contains(key.reveal()));
    }

    #[test]
    fn invalid_session_file_changes_no_state() {
        for text in ["", "{", "[]", "{\"screen\": 3, \"panes\": [[\"x\"], 4]}"] {
            let mut state = State::default();
            restore(&mut state, text);
            assert_eq!(super::text(&state), super::text(&State::default()), "{text}");
        }
    }
}
