use std::time::Duration;

use model::topic::TopicId;
use proptest::prelude::*;
use wire::inference::network::{EpochLosses, Leaderboard, RankedActor};
use wire::inference::{
    ActorSummary, Bundle, HistoryEpoch, TopicHistory, TopicList, TopicSummary, WithheldInferer,
    WorkerValues,
};

use super::*;
use crate::event::{InferenceEvent, LatestBundle};
use crate::harness::{self, labeled};
use crate::keymap::Action;
use crate::screens::Screen;
use crate::state;
use crate::state::resource::Failure;
use crate::theme;
use crate::theme::depth::Depth;

pub(super) fn now() -> Timestamp {
    "2026-11-20T14:02:31Z".parse().unwrap()
}

pub(super) fn id(number: u64) -> TopicId {
    TopicId::new(number).unwrap()
}

const ACTORS: [(&str, f64); 12] = [
    ("allo1v2c9n8y", 67_610.3),
    ("allo1y0d7a1z", 67_402.5),
    ("allo1ha5tc0e", 67_471.2),
    ("allo1zz8w4pt", 67_533.9),
    ("allo1u6n2p7g", 67_527.0),
    ("allo1r5xge6m", 67_519.8),
    ("allo1ddk1w3q", 67_489.7),
    ("allo1q8mzx2k", 67_512.4),
    ("allo1f9jtl2h", 67_495.5),
    ("allo1s4vhj9b", 67_508.1),
    ("allo1m3rs9wd", 67_498.0),
    ("allo1k7qctt5", 67_505.6),
];

const FORECASTERS: [(&str, f64); 4] = [
    ("allo1fcp2001", 67_506.2),
    ("allo1fcp2002", 67_511.9),
    ("allo1fcp2003", 67_499.4),
    ("allo1fcp2004", 67_503.0),
];

fn worker((name, value): &(&str, f64), labels: &[&str]) -> WorkerValues {
    let values: Vec<_> = labels.iter().map(|label| (*label, *value)).collect();
    WorkerValues { worker: name.parse().unwrap(), values: labeled(&values) }
}

fn latest(topic: u64, nonce: u64, labels: &[(&str, f64)]) -> LatestBundle {
    let names: Vec<_> = labels.iter().map(|(name, _)| *name).collect();
    let naive: Vec<_> = labels.iter().map(|(name, value)| (*name, value * 0.9998)).collect();
    // With several labels, the values are below 1, so the differences between the prices are scaled
    // down.
    let near = |value: f64| {
        if labels.len() > 1 { labels[0].1 + (value - 67_502.8) * 0.002 } else { value }
    };
    let scaled = |(name, value): &(&'static str, f64)| (*name, near(*value));
    let withheld = |(idx, (name, value)): (u32, &(&str, f64))| WithheldInferer {
        withheld_inferer: name.parse().unwrap(),
        combined_inference: labeled(&[(
            names[0],
            labels[0].1 - (near(*value) - labels[0].1) / (10.0 + f64::from(idx)),
        )]),
    };
    let bundle = Bundle {
        topic_id: id(topic),
        combined_value: labeled(labels),
        inferer_values: ACTORS.iter().map(|actor| worker(&scaled(actor), &names)).collect(),
        forecaster_values: FORECASTERS.iter().map(|actor| worker(&scaled(actor), &names)).collect(),
        naive_value: labeled(&naive),
        one_out_inferer_values: (0..).zip(&ACTORS).map(withheld).collect(),
        ..harness::bundle(nonce, "", [0.0; 2], [])
    };
    LatestBundle { bundle, block_height: nonce }
}

fn topic(topic_id: u64, name: &str, labels: &[&str]) -> TopicSummary {
    let actor = |(idx, (worker, _)): (u32, &(&str, f64))| ActorSummary {
        worker: (*worker).to_owned(),
        role: "inferer".to_owned(),
        name: match idx {
            0 => Some("12D3KooWRvApH9GerdSEroL2nqjpd2GuE5dwmqNi7uHX7Fo9GerdS".to_owned()),
            1 => Some("last value".to_owned()),
            _ => None,
        },
        weight: Some(1.0 / (2.0 + f64::from(idx))),
        regret: None,
        loss: Some(-2.0),
        score: None,
    };
    TopicSummary {
        topic_id,
        name: name.to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        column: "load_percent".to_owned(),
        subgroup: Some("gpu".to_owned()),
        next_epoch_height: 4_812_383,
        open_nonce: (topic_id == 1).then_some(4_812_375),
        close_height: (topic_id == 1).then_some(4_812_381),
        n_learned: 131,
        actors: (0..).zip(&ACTORS).map(actor).collect(),
        ..harness::topics(Some(4_812_370)).topics.remove(0)
    }
}

/// Returns a leaderboard with the losses of a hundred epochs, and with mean losses of all actors
/// except one.
pub(super) fn leaderboard(topic_id: u64) -> Leaderboard {
    let epoch = |idx: u32| {
        let naive = 40.0 + 25.0 * (f64::from(idx) * 0.7).sin();
        EpochLosses {
            nonce: 4_811_000 + u64::from(idx) * 10,
            opened_at: (now() - Duration::from_secs(50) * (121 - idx)).to_string(),
            combined: naive * 0.92,
            naive,
            uninformed: (idx > 0).then_some(naive * 1.6),
        }
    };
    let actor = |(idx, ((worker, _), role)): (u32, (&(&str, f64), &str))| RankedActor {
        worker: (*worker).to_owned(),
        role: role.to_owned(),
        name: None,
        rank: Some(u64::from(idx * 7 % 15) + 1),
        n_epochs: 100,
        n_counted_epochs: 100,
        mean_loss: 31.25 + f64::from(idx * 7 % 15) * 4.5,
        mean_plain_loss: 31.25 + f64::from(idx * 7 % 15) * 4.5,
        ..RankedActor::default()
    };
    let inferers = ACTORS.iter().skip(1).map(|actor| (actor, "inferer"));
    let forecasters = FORECASTERS.iter().map(|actor| (actor, "forecaster"));
    let mut actors: Vec<_> = (0..).zip(inferers.chain(forecasters)).map(actor).collect();
    actors.sort_by(|a, b| a.mean_loss.total_cmp(&b.mean_loss));
    Leaderboard {
        topic_id,
        epochs: (0..100).map(epoch).collect(),
        min_epochs: 10,
        n_common_epochs: 100,
        is_logarithmic: true,
        actors,
    }
}

/// Returns the Inference screen before the service responds.
fn blank() -> state::State {
    let mut state =
        state::State { screen: Screen::Inference, now: now(), ..state::State::default() };
    state.inference.show(now());
    state.inference.connect(true, now());
    state
}
/// Returns the event for a bundle of topic 1.
fn told(bundle: LatestBundle) -> InferenceEvent {
    InferenceEvent::Latest { topic: id(1), is_resistant: false, result: Ok(bundle) }
}
/// Returns the Inference screen with two topics. The topic `selected` has a bundle and past
/// epochs.
pub(super) fn opened(selected: u64) -> state::State {
    let mut state = blank();
    let then = now() - Duration::from_secs(2);
    let topics = vec![
        topic(1, "processor load in a minute", &["y"]),
        topic(2, "synthetic-btc, next", &["up", "down", "flat"]),
    ];
    let list = TopicList { block_height: 4_812_377, block_time_ms: 5_000, topics };
    state.inference.on(InferenceEvent::Topics(Ok(list)), then);
    if selected == 2 {
        state.inference.act(Action::NextTopic, then);
    }
    let labels: &[(&str, f64)] = if selected == 1 {
        &[("y", 67_502.8)]
    } else {
        &[("up", 0.52), ("down", 0.31), ("flat", 0.17)]
    };
    let mut level = labels[0].1 * 0.97;
    let epochs = (0..120_u32).map(|idx| {
        level += (labels[0].1 - level) * 0.03
            + labels[0].1
                * 0.0009
                * (f64::from(idx % 7) - 3.0 + f64::from(idx * 7 % 5) * 0.4 - 0.8);
        let combined = [(labels[0].0, level)];
        HistoryEpoch {
            nonce: 4_811_000 + u64::from(idx) * 10,
            opened_at: (now() - Duration::from_secs(50) * (121 - idx)).to_string(),
            combined_value: labeled(&combined),
            naive_value: labeled(&[(labels[0].0, level * 0.9992)]),
            truth: if idx < 118 { labeled(&[(labels[0].0, level * 1.0006)]) } else { Vec::new() },
            ..HistoryEpoch::default()
        }
    });
    let history = TopicHistory { topic_id: selected, epochs: epochs.collect() };
    state.inference.on(InferenceEvent::History { topic: id(selected), result: Ok(history) }, then);
    let result = Ok(leaderboard(selected));
    state.inference.on(InferenceEvent::Leaderboard { topic: id(selected), result }, then);
    let result = Ok(latest(selected, 4_812_370, labels));
    state
        .inference
        .on(InferenceEvent::Latest { topic: id(selected), is_resistant: false, result }, then);
    state
}

pub(super) fn drawn(state: &state::State, width: u16, height: u16, name: theme::Name) -> Buffer {
    harness::drawn_by(draw, state, (width, height), &Theme::new(name, Depth::TrueColor)).0
}
/// Returns the text of the screen.
pub(super) fn text(state: &state::State, width: u16, height: u16) -> String {
    harness::framed_text(&drawn(state, width, height, theme::Name::Dark))
}

#[track_caller]
pub(super) fn check(name: &str, state: &state::State, width: u16, height: u16) {
    insta::assert_snapshot!(name, text(state, width, height));
}

#[test]
fn topic_with_a_single_output_is_drawn_at_three_sizes() {
    let state = opened(1);
    check("inference_160x43", &state, 160, 43);
    check("inference_80x22", &state, 80, 22);
    check("inference_58x14", &state, 58, 14);
}

#[test]
fn losses_are_shown_without_an_uninformed_baseline() {
    let shown = |change: fn(&mut EpochLosses)| {
        let mut state = opened(1);
        state.inference.pane = Pane::Losses;
        let mut board = leaderboard(1);
        board.epochs.iter_mut().for_each(change);
        let event = InferenceEvent::Leaderboard { topic: id(1), result: Ok(board) };
        state.inference.on(event, now());
        text(&state, 160, 43)
    };
    let shown_without = shown(|epoch| epoch.uninformed = None);
    let means = "mean of 100 epochs";
    assert!(
        shown_without.contains(means) && shown_without.contains("-8.0 % vs naive"),
        "{shown_without}"
    );
    assert!(!shown_without.contains("vs uninformed"), "{shown_without}");
    let negative = shown(|epoch| (epoch.combined, epoch.naive) = (-2.0, -1.0));
    assert!(!negative.contains("% vs"), "{negative}");
    let tiny = shown(|epoch| epoch.combined = 1.3e-5);
    assert!(tiny.contains("◆ 1.3e-5"), "{tiny}");
}

#[test]
fn paused_topic_has_no_next_epoch() {
    let mut state = opened(1);
    let mut paused = topic(1, "processor load in a minute", &["y"]);
    (paused.is_paused, paused.open_nonce, paused.close_height) = (true, None, None);
    let list = TopicList { block_height: 4_812_377, block_time_ms: 5_000, topics: vec![paused] };
    state.inference.on(InferenceEvent::Topics(Ok(list)), now());
    let shown = text(&state, 160, 43);
    assert!(shown.contains("topic is paused") && !shown.contains("next epoch"), "{shown}");
    assert!(!shown.contains("━━"), "no epoch is in progress: {shown}");
}

#[test]
fn loading_empty_stale_and_failed_screens_are_drawn() {
    let failure = |status| Failure {
        what: "list the topics".to_owned(),
        why: "connection refused".to_owned(),
        next: "is it running?".to_owned(),
        status,
        retry_after: status.map(|_| Duration::from_secs(8)),
        is_timeout: false,
    };
    let with = |event| {
        let mut state = blank();
        state.inference.on(event, now());
        state
    };
    let topics = TopicList { block_height: 1, block_time_ms: 1_000, topics: Vec::new() };
    let mut stale = opened(1);
    let result = Err(failure(Some(429)));
    stale.inference.on(InferenceEvent::Latest { topic: id(1), is_resistant: false, result }, now());
    let states = vec![
        ("loading", blank()),
        ("empty", with(InferenceEvent::Topics(Ok(topics)))),
        ("stale", stale),
        ("failed", with(InferenceEvent::Topics(Err(failure(None))))),
    ];
    for (name, state) in states {
        check(&format!("inference_{name}"), &state, 160, 43);
    }
}

#[test]
fn key_cycles_through_the_influence_table_and_leave_out_table_and_loss_table() {
    let mut state = opened(1);
    state.inference.act(Action::LeaveOuts, now());
    state.inference.act(Action::LeaveOuts, now());
    let shown = text(&state, 160, 43);
    assert!(shown.contains("WITHOUT") && shown.contains("ALONE"), "{shown}");
    assert!(shown.contains(" 1 last value"), "ranks explain the order: {shown}");
    state.inference.act(Action::LeaveOuts, now());
    let shown = text(&state, 160, 43);
    assert!(shown.contains("LOSS") && shown.contains("SCORE"), "{shown}");
}

#[test]
fn clicks_select_a_label_and_sort_the_topics() {
    let mut state = opened(2);
    let theme = Theme::new(theme::Name::Dark, Depth::TrueColor);
    let (_, hits) = harness::drawn_by(draw, &state, (120, 32), &theme);
    let label = state.inference.labels()[2].to_owned();
    let target = (0..32).find_map(|y| hits.target_at(20, y).filter(|it| *it == Target::Label(2)));
    state.inference.click(target.unwrap());
    assert_eq!(state.inference.label(), label);
    let ids = |state: &state::State| -> Vec<u64> {
        let topics = &state.inference.topics.value().unwrap().topics;
        topics.iter().map(|topic| topic.topic_id).collect()
    };
    let pane = Pane::Topics.number();
    for want in [[1, 2], [2, 1]] {
        state.inference.click(Target::Column { pane, column: "PREDICTS" });
        assert_eq!(ids(&state), want, "by name");
    }
}

#[test]
fn probabilities_of_labels_are_drawn_as_bars() {
    check("inference_labels_120x32", &opened(2), 120, 32);
}

#[test]
fn countdown_of_a_rate_limit_is_shown_above_the_last_values() {
    let mut state = opened(1);
    let why = Failure {
        status: Some(429),
        retry_after: Some(Duration::from_secs(8)),
        ..Failure::default()
    };
    state.inference.on(InferenceEvent::Topics(Err(why)), now());
    for (now, left) in [(now(), "8s"), (now() + Duration::from_secs(5), "3s")] {
        state.now = now;
        let text = text(&state, 120, 32);
        let retry = format!("429 · retry in {left}");
        assert!(text.contains(&retry) && text.contains("67 502.80"), "{text}");
    }
}

#[test]
fn pane_of_a_topic_in_its_first_epoch_shows_when_it_closes() {
    let mut state = blank();
    let topics = vec![TopicSummary { last_nonce: None, ..topic(1, "processor load", &["y"]) }];
    let mut list = TopicList { block_height: 24, block_time_ms: 5_000, topics };
    state.inference.on(InferenceEvent::Topics(Ok(list.clone())), now());
    let why = Failure { status: Some(404), ..Failure::new("read topic 1", "not available", "") };
    let answer = InferenceEvent::Latest { topic: id(1), is_resistant: false, result: Err(why) };
    state.inference.on(answer, now());
    let shown = text(&state, 120, 32);
    for words in [
        "no epoch of this topic has values yet",
        "values appear when an epoch with submissions closes",
        "E sets its function; `triptych inference work 1` submits",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    assert!(!shown.contains("failed to"), "{shown}");

    list.topics[0].problem = Some("its dataset is gone".to_owned());
    state.inference.on(InferenceEvent::Topics(Ok(list)), now());
    let shown = text(&state, 120, 32);
    assert!(shown.contains("its dataset is gone"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn inference_screen_is_drawn_at_any_size_without_panic(
        (width, height) in (0..200u16, 0..60u16),
        selected in 1..3_u64,
        keys in prop::collection::vec(prop::sample::select(vec![
            Action::NextPane, Action::Down, Action::Last, Action::NextLabel, Action::Sort,
            Action::Reverse, Action::Pause, Action::NextTopic, Action::LeaveOuts,
            Action::Resistant,
        ]), 0..8),
        is_zoomed in any::<bool>(),
    ) {
        let mut state = opened(selected);
        state.is_zoomed = is_zoomed;
        for key in keys {
            state.inference.act(key, now());
        }
        drawn(&state, width, height, theme::Name::Dark);
    }

    #[test]
    fn inference_screen_is_drawn_with_any_values_without_panic(
        (width, height) in (1..170u16, 1..50u16),
        values in prop::collection::vec(prop::num::f64::ANY, 1..8),
        text in "\\PC{0,12}",
    ) {
        let mut state = opened(1);
        let mut bundle = latest(1, 4_812_380, &[("y", values[0])]);
        for (actor, value) in bundle.bundle.inferer_values.iter_mut().zip(&values) {
            actor.values[0].value = *value;
        }
        bundle.bundle.naive_value[0].value = f64::NAN;
        bundle.bundle.combined_value[0].label_name = text;
        state.inference.on(told(bundle), now());
        drawn(&state, width, height, theme::Name::Dark);
    }
}

/// Returns a state with past epochs that have these nonces.
fn past_with(nonces: impl Iterator<Item = u64>) -> state::State {
    let mut state = blank();
    let epochs = nonces.map(|nonce| HistoryEpoch {
        nonce,
        opened_at: (now() - Duration::from_secs(5 * (4_812_370 - nonce))).to_string(),
        combined_value: labeled(&[("y", 1.0)]),
        naive_value: labeled(&[("y", 1.0)]),
        ..HistoryEpoch::default()
    });
    let history = TopicHistory { topic_id: 1, epochs: epochs.collect() };
    let topics = vec![topic(1, "processor load in a minute", &["y"])];
    let list = TopicList { block_height: 4_812_377, block_time_ms: 5_000, topics };
    state.inference.on(InferenceEvent::Topics(Ok(list)), now());
    state.inference.on(InferenceEvent::History { topic: id(1), result: Ok(history) }, now());
    state
}

#[test]
fn lines_are_interrupted_at_missing_epochs() {
    let nonces = || (0..12).map(|idx| 4_812_250 + idx * 10);
    let whole = text(&past_with(nonces()), 160, 43);
    assert!(!whole.contains('╎'), "{whole}");
    let some = nonces().filter(|nonce| !(4_812_290..=4_812_310).contains(nonce));
    let broken = text(&past_with(some), 160, 43);
    assert!(broken.contains('╎') && broken.contains("3m"), "{broken}");
}

#[test]
fn nonzero_difference_is_not_shown_as_zero() {
    let mut state = opened(1);
    let mut latest = latest(1, 4_812_370, &[("y", 42.0)]);
    for actor in latest.bundle.inferer_values.iter_mut().chain(&mut latest.bundle.forecaster_values)
    {
        actor.values = labeled(&[("y", 42.0)]);
    }
    latest.bundle.naive_value = labeled(&[("y", 42.0)]);
    state.inference.on(told(latest.clone()), now());
    let shown = text(&state, 160, 43);
    assert!(shown.contains(" 42  ") && !shown.contains(" 42.000 "), "{shown}");
    latest.bundle.nonce += 10;
    latest.bundle.naive_value = labeled(&[("y", 42.000_000_06)]);
    state.inference.on(told(latest), now());
    let shown = text(&state, 160, 43);
    assert!(shown.contains("-0.00000006") || shown.contains("-6e-8"), "{shown}");
}

#[test]
fn scale_of_percentages_ends_at_100_and_their_differences_are_percentage_points() {
    let mut state = opened(1);
    let mut dataset = harness::dataset(1, "cpu", now());
    dataset.metadata = [("unit".to_owned(), "percent".to_owned())].into();
    state.data.datasets.settle(Ok(harness::datasets(vec![dataset])), now());
    let mut latest = latest(1, 4_812_370, &[("y", 40.0)]);
    for (idx, actor) in (0..).zip(&mut latest.bundle.inferer_values) {
        actor.values = labeled(&[("y", 38.0 + 0.5 * f64::from(idx))]);
    }
    state.inference.on(told(latest), now());
    let shown = text(&state, 160, 43);
    assert!(shown.contains("points vs naive") && !shown.contains("% of combined"), "{shown}");
}
