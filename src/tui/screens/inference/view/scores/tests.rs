use std::time::Duration;

use proptest::prelude::*;
use wire::inference::network::Leaderboard;

use super::super::tests::{check, drawn, id, leaderboard, now, opened, text};
use super::*;
use crate::event::InferenceEvent;
use crate::keymap::Action;
use crate::state::resource::Failure;
use crate::{state, theme};

/// Returns the scores of an inferer with its rank history, and with its calibration on topic 2.
fn scores(topic_id: u64, worker: &str) -> Leaderboard {
    let point = |idx: u32| RankPoint {
        nonce: 4_811_000 + u64::from(idx) * 10,
        opened_at: (now() - Duration::from_secs(50) * (121 - idx)).to_string(),
        rank: (idx > 10).then_some(1 + u64::from((100 - idx) / 9 + idx % 3)),
        n_ranked: 15,
        mean_loss: Some(31.25),
    };
    let bin = |idx: u32| ReliabilityBin {
        from: f64::from(idx) / 10.0,
        to: f64::from(idx + 1) / 10.0,
        n_predictions: u64::from(idx * 7 % 9) * 12,
        mean_probability: (idx != 9).then_some(f64::from(idx).mul_add(0.1, 0.04)),
        observed_frequency: (idx != 9).then_some(f64::from(idx) * 0.11),
    };
    let bins = (0..10).map(bin).collect();
    let actor = RankedActor {
        worker: worker.to_owned(),
        role: "inferer".to_owned(),
        rank: Some(1),
        n_epochs: 100,
        n_counted_epochs: 98,
        mean_loss: 31.25,
        median_loss: 28.5,
        better_than_naive: Some(0.61),
        contribution: Some(1.234),
        directional_accuracy: Some(0.57),
        correlation: Some(0.875),
        rank_history: (0..100).map(point).collect(),
        calibration: (topic_id == 2).then_some(Calibration { expected_error: 0.0421, bins }),
        ..RankedActor::default()
    };
    Leaderboard { epochs: Vec::new(), actors: vec![actor], ..leaderboard(topic_id) }
}

/// Returns [`opened`] with the first actor selected and its scores loaded.
fn opened_with_actor(selected: u64) -> state::State {
    let mut state = opened(selected);
    state.inference.act(Action::Down, now());
    let actor = state.inference.actor.clone().unwrap();
    let result = Ok(scores(selected, actor.as_str()));
    state.inference.on(InferenceEvent::Actor { topic: id(selected), actor, result }, now());
    state
}

fn text_of(state: &state::State) -> String {
    text(state, 160, 43)
}

#[test]
fn selected_actor_has_its_scores_in_place_of_the_losses() {
    let mut state = opened_with_actor(1);
    check("scores_160x43", &state, 160, 43);
    check("scores_160x60", &state, 160, 60);
    let mut labels = opened_with_actor(2);
    check("scores_labels_160x43", &labels, 160, 43);
    check("scores_labels_120x32", &labels, 120, 32);
    state.inference.pane = Pane::Scores;
    labels.inference.pane = Pane::Scores;
    check("scores_80x22", &state, 80, 22);
    check("scores_labels_80x22", &labels, 80, 22);
    state.inference.pane = Pane::Losses;
    let shown = text_of(&state);
    assert!(shown.contains("Cumulative loss") && !shown.contains("Scores of"), "{shown}");
}

#[test]
fn scores_of_an_unranked_actor_count_all_its_epochs() {
    let mut state = opened_with_actor(1);
    let actor = state.inference.actor.clone().unwrap();
    let mut board = scores(1, actor.as_str());
    for actor in &mut board.actors {
        (actor.rank, actor.n_epochs, actor.n_counted_epochs) = (None, 42, 7);
    }
    let event = InferenceEvent::Actor { topic: id(1), actor, result: Ok(board) };
    state.inference.on(event, now());
    let shown = text_of(&state);
    assert!(shown.contains("counted 42 epochs"), "{shown}");
}

#[test]
fn missing_scores_are_explained() {
    let mut state = opened(1);
    state.inference.pane = Pane::Scores;
    assert!(text_of(&state).contains("no actor is selected"));
    state.inference.act(Action::Down, now());
    assert!(text_of(&state).contains("loading"));
    let actor = state.inference.actor.clone().unwrap();
    let mut respond = |result| {
        let event = InferenceEvent::Actor { topic: id(1), actor: actor.clone(), result };
        state.inference.on(event, now());
        text_of(&state)
    };
    let failed = respond(Err(Failure::new("read the scores", "connection refused", "")));
    assert!(failed.contains("failed to read the scores"), "{failed}");
    let absent = respond(Ok(Leaderboard { actors: Vec::new(), ..leaderboard(1) }));
    assert!(absent.contains("no losses of this actor yet"), "{absent}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn scores_are_drawn_at_any_size_without_panic(
        (width, height) in (0..200u16, 0..60u16),
        selected in 1..3_u64,
        is_zoomed in any::<bool>(),
    ) {
        let mut state = opened_with_actor(selected);
        state.inference.pane = Pane::Scores;
        state.is_zoomed = is_zoomed;
        drawn(&state, width, height, theme::Name::Dark);
    }
}
