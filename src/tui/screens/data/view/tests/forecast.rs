//! Forecasts of a topic over the chart.

use model::topic::TopicId;
use serde_json::json;
use wire::inference::network::TopicSettings;
use wire::inference::{HistoryEpoch, LabeledValue, TopicHistory, TopicList};

use super::*;
use crate::app;
use crate::event::{Event, InferenceEvent, Timer};
use crate::keymap::Chord;

/// Returns a list of topics 1 to `n` that predict the close of the dataset `name`, with an epoch every
/// 5 minutes.
fn topics(n: u64, name: &str) -> TopicList {
    let topic = |id| {
        json!({
            "topic_id": id, "name": "price", "topic_type": "TOPIC_TYPE_REGRESSION",
            "labels": ["y"], "dataset": name, "dataset_id": null, "column": "close",
            "subgroup": null, "problem": null, "epoch_length": 60,
            "worker_submission_window": 12, "ground_truth_lag": 180, "next_epoch_height": 400,
            "open_nonce": null, "close_height": null, "last_nonce": 340, "n_learned": 30,
            "actors": [],
        })
    };
    let topics: Vec<_> = (1..=n).map(topic).collect();
    let list = json!({"block_height": 350, "block_time_ms": 5_000, "topics": topics});
    serde_json::from_value(list).unwrap()
}

fn values(value: Option<f64>) -> Vec<LabeledValue> {
    value.map(|value| harness::labeled(&[("y", value)])).unwrap_or_default()
}

/// Returns an epoch for each candle. Its forecast for `horizon` candles later is one thousandth too
/// high. The latest epochs have no ground truth.
fn history(state: &state::State, horizon: usize) -> TopicHistory {
    let candles = state.data.chart.candles();
    let epochs = candles.iter().enumerate().map(|(idx, candle)| {
        let truth = candles.get(idx + horizon).map(|it| it.close);
        let combined = truth.map_or(candle.close + 80.0, |truth| truth * 1.001);
        HistoryEpoch {
            nonce: idx as u64 * 60 + 1,
            opened_at: candle.timestamp.to_string(),
            combined_value: values(Some(combined)),
            truth: values(truth),
            ..HistoryEpoch::default()
        }
    });
    TopicHistory { topic_id: 1, epochs: epochs.collect() }
}

fn take(state: &mut state::State, event: InferenceEvent) -> Vec<Effect> {
    app::update(state, Event::Inference(event))
}

fn press(state: &mut state::State, key: &str) -> Vec<Effect> {
    app::update(state, Event::Key(Chord::named(key).unwrap()))
}

fn settings(text: &str) -> Box<TopicSettings> {
    Box::new(serde_json::from_str(text).unwrap())
}

const TOPIC: TopicId = TopicId::FIRST;

/// Returns the Data screen with forecasts of a topic with these `settings`.
fn forecasting(mut state: state::State, text: &str) -> state::State {
    take(&mut state, InferenceEvent::Topics(Ok(topics(1, "synthetic-btc"))));
    take(&mut state, InferenceEvent::Settings { topic: TOPIC, result: Ok(settings(text)) });
    let result = Ok(history(&state, 3));
    take(&mut state, InferenceEvent::History { topic: TOPIC, result });
    state.notices.clear();
    state
}

fn text(state: &state::State) -> String {
    super::text(state, 120, 30)
}

#[test]
fn forecasts_are_drawn_over_candles_and_ahead_of_the_latest() {
    let value = r#"{"horizon_seconds": 900}"#;
    let mut state = forecasting(with_buckets(opened("synthetic-btc")), value);
    check("forecast_120x30", &state, 120, 30);
    press(&mut state, "c");
    check("forecast_line_120x30", &state, 120, 30);
    press(&mut state, "left");
    let shown = super::text(&state, 160, 43);
    let line = shown.lines().find(|line| line.contains("mean error 0.10%")).unwrap_or_default();
    assert!(line.contains("68 509.27 V 20.80"), "the crosshair's numbers are next to it:\n{shown}");
    press(&mut state, "f");
    press(&mut state, "F");
    assert!(!text(&state).contains("forecast 15 m"), "{}", text(&state));
    press(&mut state, "F");
    assert!(text(&state).contains("forecast 15 m of topic 1, mean error 0.10%"));
}

#[test]
fn log_returns_are_drawn_over_raw_rows_only_and_directions_never() {
    let log_return = r#"{"horizon_seconds": 180, "target": "log_return"}"#;
    let state = forecasting(opened("synthetic-btc"), log_return);
    assert!(text(&state).contains("forecast 3 m of topic 1"), "{}", text(&state));
    let state = forecasting(with_buckets(opened("synthetic-btc")), log_return);
    let why = "topic 1 predicts a log return, drawn only over raw rows";
    assert!(text(&state).contains(why), "{}", text(&state));
    let direction = r#"{"horizon_seconds": 180, "direction_threshold": "0.1"}"#;
    let state = forecasting(opened("synthetic-btc"), direction);
    let why = "topic 1 predicts a direction, which is not a value to draw";
    assert!(text(&state).contains(why), "{}", text(&state));
}

/// Returns the requests for topics among `effects`.
fn requests(effects: Vec<Effect>) -> Vec<Effect> {
    let is_request = |effect: &Effect| {
        matches!(effect, Effect::LoadTopicSettings { .. } | Effect::LoadHistory { .. })
    };
    effects.into_iter().filter(is_request).collect()
}

#[test]
fn forecasts_are_loaded_by_two_requests_and_later_by_one_for_the_open_epochs() {
    let mut state = opened("synthetic-btc");
    let first =
        |topic| [Effect::LoadTopicSettings { topic }, Effect::LoadHistory { topic, limit: 240 }];
    let effects = take(&mut state, InferenceEvent::Topics(Ok(topics(2, "synthetic-btc"))));
    assert!(requests(effects).starts_with(&first(TOPIC)));
    let target = settings(r#"{"horizon_seconds": 900}"#);
    let effects = take(&mut state, InferenceEvent::Settings { topic: TOPIC, result: Ok(target) });
    assert_eq!(requests(effects), []);
    assert_eq!(requests(press(&mut state, "c")), []);
    let result = Ok(history(&state, 3));
    take(&mut state, InferenceEvent::History { topic: TOPIC, result });
    // The latest epoch opened at 14:00 and the next one is due at 14:05. Three epochs are open, and
    // eight more are loaded again.
    let effects = app::update(&mut state, Event::TimerDue(Timer::Forecasts));
    assert_eq!(requests(effects), [Effect::LoadHistory { topic: TOPIC, limit: 11 }]);
    assert_eq!(requests(press(&mut state, "F")), first(TopicId::new(2).unwrap()));
    assert_eq!(requests(press(&mut state, "F")), [], "after the last topic, there are none");
    assert_eq!(requests(app::update(&mut state, Event::TimerDue(Timer::Forecasts))), []);
    assert_eq!(requests(press(&mut state, "F")), first(TOPIC));
}

#[test]
fn forecasts_of_another_dataset_are_neither_loaded_nor_drawn() {
    let mut state = with_buckets(opened("synthetic-btc"));
    let effects = take(&mut state, InferenceEvent::Topics(Ok(topics(1, "cpu"))));
    let settings = Effect::LoadTopicSettings { topic: TOPIC };
    assert!(!effects.contains(&settings), "{effects:?}");
    press(&mut state, "F");
    assert!(state.notices.iter().any(|it| it.text == "no topic predicts this column"));
}
