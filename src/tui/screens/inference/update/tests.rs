use std::time::Duration;

use wire::inference::network::{EpochActorBody, Leaderboard, RankedActor};
use wire::inference::{
    ActorSummary, Bundle, HistoryEpoch, TopicHistory, TopicSummary, WithheldInferer, WorkerValues,
};

use super::*;
use crate::harness::{self, labeled};
use crate::screens::inference::state::TOPICS_EVERY;
use crate::screens::inference::state::actors::Role;

/// Returns the effects that `act` requests.
fn effects_of(state: &mut State, act: impl FnOnce(&mut State)) -> Vec<Effect> {
    state.effects.clear();
    act(state);
    std::mem::take(&mut state.effects)
}

fn act(state: &mut State, action: Action, second: i64) -> Vec<Effect> {
    effects_of(state, |state| state.act(action, at(second)))
}

fn take(state: &mut State, event: InferenceEvent, second: i64) -> Vec<Effect> {
    effects_of(state, |state| state.on(event, at(second)))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000 + second)
}

fn id(number: u64) -> TopicId {
    TopicId::new(number).unwrap()
}

fn bundle(topic: u64, nonce: u64, combined: f64) -> LatestBundle {
    let withheld = |name: &str, value| WithheldInferer {
        withheld_inferer: name.parse().unwrap(),
        combined_inference: labeled(&[("y", value)]),
    };
    let inferers = [("allo1aaa", 9.0), ("allo1bbb", 14.0), ("allo1ccc", 10.0)];
    let inferers = inferers.map(|(name, value)| (name.to_owned(), value));
    let worker = "allo1fff".parse().unwrap();
    let bundle = Bundle {
        topic_id: id(topic),
        forecaster_values: vec![WorkerValues { worker, values: labeled(&[("y", 11.0)]) }],
        one_out_inferer_values: vec![withheld("allo1aaa", 10.5), withheld("allo1bbb", 6.0)],
        ..harness::bundle(nonce, "y", [combined, 11.0], inferers)
    };
    LatestBundle { bundle, block_height: nonce }
}

fn summary(topic_id: u64, last_nonce: Option<u64>) -> TopicSummary {
    TopicSummary {
        topic_id,
        name: format!("topic {topic_id}"),
        actors: vec![ActorSummary {
            worker: "allo1bbb".to_owned(),
            role: "inferer".to_owned(),
            name: Some("12D3KooWb".to_owned()),
            weight: Some(0.5),
            regret: None,
            loss: None,
            score: None,
        }],
        ..harness::topics(last_nonce).topics.remove(0)
    }
}

fn list(topics: Vec<TopicSummary>) -> InferenceEvent {
    InferenceEvent::Topics(Ok(TopicList { block_height: 100, block_time_ms: 1_000, topics }))
}

fn latest(topic: u64, nonce: u64, combined: f64) -> InferenceEvent {
    let result = Ok(bundle(topic, nonce, combined));
    InferenceEvent::Latest { topic: id(topic), is_resistant: false, result }
}

fn load_latest(topic: u64) -> Effect {
    Effect::LoadLatest { topic: id(topic), is_resistant: false }
}

fn leaderboard(topic_id: u64, actors: Vec<RankedActor>) -> Leaderboard {
    Leaderboard {
        topic_id,
        epochs: Vec::new(),
        min_epochs: 10,
        n_common_epochs: 12,
        is_logarithmic: true,
        actors,
    }
}
/// Returns the Inference screen in view with two topics and the bundle of the first.
fn opened() -> State {
    let mut state = State::default();
    assert_eq!(effects_of(&mut state, |state| state.show(at(0))), []);
    assert!(
        effects_of(&mut state, |state| state.connect(true, at(0))).contains(&Effect::LoadTopics)
    );
    let asked = take(&mut state, list(vec![summary(1, Some(90)), summary(2, None)]), 0);
    assert!(asked.contains(&load_latest(1)), "{asked:?}");
    assert_eq!(take(&mut state, latest(1, 90, 10.0), 0), []);
    state
}

#[test]
fn bundle_is_loaded_when_a_new_nonce_is_seen() {
    let mut state = opened();
    let asked = effects_of(&mut state, |state| state.on_timer(at(3)));
    assert!(
        matches!(asked[..], [Effect::LoadTopics, Effect::SetTimer(Timer::Topics, _)]),
        "{asked:?}"
    );
    assert_eq!(take(&mut state, list(vec![summary(1, Some(90))]), 3), []);
    let asked = take(&mut state, list(vec![summary(1, Some(100))]), 6);
    assert_eq!(asked[0], load_latest(1));
    state.on(latest(1, 100, 12.0), at(6));
    assert_eq!(state.past().unwrap().len(), 2);
}

#[test]
fn actors_are_sorted_by_the_effect_of_leaving_them_out() {
    let mut state = opened();
    let shown = |state: &State| -> Vec<String> {
        state.actors().iter().map(|actor| actor.worker.to_string()).collect()
    };
    assert_eq!(shown(&state), ["allo1bbb", "allo1aaa", "allo1ccc", "allo1fff"]);
    let actors = state.actors();
    assert_eq!((actors[0].influence, actors[0].delta), (Some(4.0), Some(4.0)));
    let want = (Some(0.5), Some("12D3KooWb"));
    assert_eq!((actors[0].weight, actors[0].known.unwrap().name.as_deref()), want);
    assert_eq!((actors[2].influence, actors[3].role), (None, Role::Forecaster));
    state.act(Action::Reverse, at(0));
    assert_eq!(shown(&state), ["allo1ccc", "allo1aaa", "allo1bbb", "allo1fff"]);
}

#[test]
fn actors_are_ranked_by_mean_loss_whatever_their_role() {
    let mut state = opened();
    let ranked = |worker: &str, role: &str, rank: Option<u64>, mean_loss| RankedActor {
        worker: worker.to_owned(),
        role: role.to_owned(),
        name: None,
        rank,
        n_epochs: 12,
        n_counted_epochs: if rank.is_some() { 12 } else { 2 },
        mean_loss,
        mean_plain_loss: mean_loss,
        ..RankedActor::default()
    };
    let actors = vec![
        ranked("allo1ccc", "inferer", Some(1), 1.0),
        ranked("allo1fff", "forecaster", Some(2), 2.0),
        ranked("allo1aaa", "inferer", Some(3), 3.0),
        ranked("allo1bbb", "inferer", None, 0.25),
    ];
    let board = |topic| InferenceEvent::Leaderboard {
        topic: id(topic),
        result: Ok(leaderboard(topic, actors.clone())),
    };
    state.on(board(2), at(0));
    assert_eq!(state.leaderboard, None, "a leaderboard of another topic is ignored");
    state.on(board(1), at(0));
    let shown: Vec<_> = state.actors().iter().map(|a| (a.worker.to_string(), a.rank)).collect();
    let want =
        [("allo1ccc", Some(1)), ("allo1fff", Some(2)), ("allo1aaa", Some(3)), ("allo1bbb", None)];
    assert_eq!(shown, want.map(|(worker, rank)| (worker.to_owned(), rank)));
    let actors = state.actors();
    assert_eq!(actors[2].mean_loss, Some(3.0));
    assert_eq!(
        (actors[3].mean_loss, actors[3].unranked),
        (None, Some((2, 10))),
        "too few epochs for a rank"
    );
}

#[test]
fn selected_actor_stays_selected_when_the_actors_are_sorted() {
    let mut state = opened();
    state.act(Action::Down, at(0));
    state.act(Action::Down, at(0));
    assert_eq!(state.selection().as_deref(), Some("allo1aaa"));
    state.act(Action::Sort, at(0));
    assert_eq!(state.selection().as_deref(), Some("allo1aaa"));
    assert!(state.back());
    assert_eq!(state.selection().as_deref(), Some("10"), "the value with all its digits");
}

#[test]
fn rate_limit_pauses_polling_without_hiding_values() {
    let mut state = opened();
    let limited = Failure {
        status: Some(429),
        retry_after: Some(Duration::from_secs(8)),
        ..Failure::default()
    };
    let asked = take(&mut state, InferenceEvent::Topics(Err(limited)), 3);
    assert_eq!(asked, [Effect::SetTimer(Timer::Topics, Duration::from_secs(8))]);
    assert!(state.latest.value().is_some());
    let asked = act(&mut state, Action::Refresh, 5);
    assert_eq!(asked, [Effect::SetTimer(Timer::Topics, Duration::from_secs(6))]);
    assert_eq!(effects_of(&mut state, |state| state.on_timer(at(11)))[0], Effect::LoadTopics);
}

#[test]
fn first_topic_is_loaded_if_topics_cannot_be_listed() {
    let mut state = State::default();
    state.show(at(0));
    state.connect(true, at(0));
    let gone = Failure { status: Some(404), ..Failure::default() };
    let asked = take(&mut state, InferenceEvent::Topics(Err(gone)), 0);
    assert_eq!(asked[0], load_latest(1));
    state.on(latest(1, 5, 3.0), at(0));
    assert_eq!(act(&mut state, Action::NextTopic, 0)[0], load_latest(2));
}

#[test]
fn selection_of_topics_and_labels_wraps_around() {
    let mut state = opened();
    assert_eq!(act(&mut state, Action::NextTopic, 0)[0], load_latest(2));
    assert_eq!(act(&mut state, Action::NextTopic, 0)[0], load_latest(1));
    let mut result = bundle(1, 91, 1.0);
    result.bundle.combined_value = labeled(&[("up", 0.5), ("down", 0.3), ("flat", 0.2)]);
    state.on(
        InferenceEvent::Latest { topic: id(1), is_resistant: false, result: Ok(result) },
        at(0),
    );
    assert_eq!(state.label(), "up");
    state.act(Action::PreviousLabel, at(0));
    assert_eq!(state.label(), "flat");
    state.act(Action::NextLabel, at(0));
    assert_eq!(state.label(), "up");
}

#[test]
fn scores_of_the_actor_that_stays_selected_are_loaded() {
    let mut state = opened();
    let waits = Effect::SetTimer(Timer::Actor, SCORES_AFTER);
    for _ in 0..2 {
        assert_eq!(act(&mut state, Action::Down, 1), std::slice::from_ref(&waits));
    }
    let actor = state.actor.clone().unwrap();
    let load = Effect::LoadActor { topic: id(1), actor: actor.clone() };
    assert_eq!(effects_of(&mut state, State::load_actor), std::slice::from_ref(&load));
    let other = "allo1zzz".parse().unwrap();
    for (actor, is_stored) in [(other, false), (actor, true)] {
        let result = Ok(leaderboard(1, Vec::new()));
        take(&mut state, InferenceEvent::Actor { topic: id(1), actor, result }, 2);
        assert_eq!(state.scores.value().is_some(), is_stored);
    }
    let effects = take(&mut state, list(vec![summary(1, Some(100))]), 3);
    assert!(effects.contains(&load), "a new bundle can have new losses: {effects:?}");
    assert!(state.back());
    assert_eq!(effects_of(&mut state, State::load_actor), []);
}

#[test]
fn history_contains_loaded_and_live_bundles() {
    let mut state = opened();
    let epoch = |nonce: u64, opened_at: &str| HistoryEpoch {
        nonce,
        opened_at: opened_at.to_owned(),
        combined_value: labeled(&[("y", 8.0)]),
        naive_value: labeled(&[("y", 9.0)]),
        truth: labeled(&[("y", 8.5)]),
        ..HistoryEpoch::default()
    };
    let epochs = vec![epoch(80, "2023-11-14T22:00:00Z"), epoch(81, "not a time")];
    let result = Ok(TopicHistory { topic_id: 1, epochs });
    state.on(InferenceEvent::History { topic: id(1), result }, at(0));
    let seen: Vec<_> = state.past().unwrap().epochs().map(|epoch| epoch.combined["y"]).collect();
    assert_eq!(seen, [8.0, 10.0]);
}

#[test]
fn bundle_with_outliers_is_ignored_while_outliers_are_excluded() {
    let mut state = opened();
    let asked = act(&mut state, Action::Resistant, 1);
    assert_eq!(asked[0], Effect::LoadLatest { topic: id(1), is_resistant: true });
    state.on(latest(1, 100, 99.0), at(2));
    assert_eq!(state.latest.value(), None, "obsolete responses are ignored");
    let result = Ok(bundle(1, 90, 9.5));
    state.on(InferenceEvent::Latest { topic: id(1), is_resistant: true, result }, at(2));
    assert_eq!(state.selection().as_deref(), Some("9.5"));
    assert_eq!(act(&mut state, Action::Resistant, 4)[0], load_latest(1));
}

#[test]
fn paused_or_hidden_screen_does_not_poll_and_polls_when_it_is_resumed() {
    let mut state = opened();
    let poll = |state: &mut State| effects_of(state, |state| state.on_timer(at(1)));
    assert_eq!(act(&mut state, Action::Pause, 1), []);
    assert_eq!(poll(&mut state), []);
    effects_of(&mut state, |state| state.reload_list(at(1)));
    let listed = take(&mut state, list(vec![summary(1, Some(91)), summary(2, None)]), 1);
    assert_eq!(listed, [], "a service that recovers does not end the pause");
    assert!(act(&mut state, Action::Refresh, 1).contains(&load_latest(1)));
    assert_eq!(act(&mut state, Action::Pause, 2)[0], Effect::LoadTopics);
    assert!(poll(&mut state).contains(&Effect::LoadTopics));
    assert!(effects_of(&mut state, State::hide).contains(&Effect::ClearTimer(Timer::Topics)));
    assert_eq!(poll(&mut state), []);
}

#[test]
fn screen_without_a_service_does_not_poll() {
    let mut state = opened();
    let asked = effects_of(&mut state, |state| state.connect(false, at(1)));
    assert_eq!(asked, [Effect::ClearTimer(Timer::Topics)]);
    assert_eq!(effects_of(&mut state, |state| state.on_timer(at(2))), []);
    assert_eq!(act(&mut state, Action::Refresh, 2), []);
}

#[test]
fn poll_interval_can_be_changed() {
    let mut state = opened();
    assert_eq!(state.poll_interval(), TOPICS_EVERY);
    let asked = act(&mut state, Action::AskLess, 0);
    assert_eq!(asked, [Effect::SetTimer(Timer::Topics, Duration::from_secs(5))]);
    state.act(Action::AskLess, at(0));
    state.act(Action::AskMore, at(0));
    assert_eq!(state.poll_interval(), Duration::from_secs(5));
    let limited = Failure {
        status: Some(429),
        retry_after: Some(Duration::from_mins(1)),
        ..Failure::default()
    };
    state.on(InferenceEvent::Topics(Err(limited)), at(0));
    assert_eq!(act(&mut state, Action::AskMore, 1), [], "a rate limit is respected");
}

#[test]
fn weights_are_shown_only_for_their_bundle_and_requested_at_most_once() {
    use wire::inference::network::{LatestBody, WeightsBody};
    let mut state = opened();
    let body = |nonce: u64| LatestBody {
        network_inferences: bundle(1, nonce, 1.0).bundle,
        weights: WeightsBody {
            inferers: [("allo1aaa".to_owned(), "0.125".to_owned())].into(),
            ..WeightsBody::default()
        },
        confidence_intervals: Vec::new(),
        has_outliers: false,
        closed_at: String::new(),
    };
    let weight = |state: &State| {
        let actors = state.actors();
        actors.iter().find(|actor| actor.worker.as_str() == "allo1aaa").unwrap().weight
    };
    let told = |nonce| {
        let result = Ok(Box::new(body(nonce)));
        InferenceEvent::Confidence { topic: id(1), result }
    };
    state.on(told(90), at(1));
    assert_eq!(weight(&state), Some(0.125));
    state.on(told(80), at(1));
    assert_eq!(weight(&state), None);
    let gone = Failure { status: Some(404), ..Failure::default() };
    state.on(InferenceEvent::Confidence { topic: id(1), result: Err(gone) }, at(2));
    let asked = act(&mut state, Action::NextTopic, 3);
    assert!(!asked.contains(&Effect::LoadConfidence { topic: id(2) }), "{asked:?}");
    // The path was missing because topic 2 is deleted.
    let asked = take(&mut state, list(vec![summary(1, Some(90))]), 4);
    assert!(asked.contains(&Effect::LoadConfidence { topic: id(1) }), "{asked:?}");
}

#[test]
fn topic_without_an_epoch_is_not_loading_after_a_failure_on_another_screen() {
    let mut state = State::default();
    state.connect(true, at(0));
    take(&mut state, list(vec![summary(1, None)]), 0);
    let why = Failure { status: Some(404), ..Failure::default() };
    let (topic, result) = (id(1), Err(why));
    state.on(InferenceEvent::Latest { topic, is_resistant: false, result }, at(1));
    state.show(at(2));
    assert!(state.topic_without_bundle().is_some());
}

#[test]
fn rate_limit_ends_while_another_screen_is_shown() {
    let mut state = State::default();
    state.connect(true, at(0));
    let why = Failure { retry_after: Some(Duration::from_secs(5)), ..Failure::default() };
    assert_eq!(take(&mut state, InferenceEvent::Topics(Err(why)), 0), []);
    let asked = take(&mut state, list(vec![summary(1, Some(90))]), 6);
    assert!(asked.contains(&load_latest(1)), "{asked:?}");
}

#[test]
fn bundle_of_the_overview_is_loaded_again_with_its_weights() {
    let mut state = opened();
    state.hide();
    state.on(latest(1, 100, 12.0), at(30));
    assert_eq!(state.latest.value().unwrap().bundle.nonce, 90);
    assert!(effects_of(&mut state, |state| state.show(at(31))).contains(&Effect::LoadTopics));
    let asked = take(&mut state, list(vec![summary(1, Some(100)), summary(2, None)]), 31);
    assert!(asked.contains(&load_latest(1)), "{asked:?}");
    assert!(asked.contains(&Effect::LoadConfidence { topic: id(1) }), "{asked:?}");
}

#[test]
fn past_values_of_actors_are_shown() {
    let mut state = opened();
    let actor = |nonce| EpochActorBody {
        timestamp: String::new(),
        nonce,
        worker: "allo1aaa".to_owned(),
        role: "inferer".to_owned(),
        name: None,
        label: "y".to_owned(),
        value: Some(9.0),
        weight: None,
        loss: None,
        score: None,
        truth: None,
        combined_value: None,
        naive_value: None,
        combined_loss: None,
        naive_loss: None,
    };
    let actors = [70, 80].map(actor).into();
    state.on(InferenceEvent::PastActors { topic: id(1), result: Ok(actors) }, at(0));
    let worker = "allo1aaa".parse().unwrap();
    assert_eq!(state.past().unwrap().values_of(&worker, "y"), [Some(9.0); 3]);
    assert_eq!(state.past().unwrap().values_of(&worker, "z"), [None; 3]);
}

#[test]
fn chain_height_advances_between_responses() {
    let state = opened();
    assert_eq!(state.height(at(7)), Some(107));
}

#[test]
fn topic_without_resistant_values_is_read_with_outliers() {
    let labels = vec!["down".to_owned(), "up".to_owned()];
    let direction = TopicSummary { labels, ..summary(2, Some(90)) };
    let topic_type = "TOPIC_TYPE_CLASSIFICATION".to_owned();
    let up = TopicSummary { topic_type, ..summary(2, Some(90)) };
    for topic in [direction, up] {
        let mut state = opened();
        act(&mut state, Action::Resistant, 1);
        take(&mut state, list(vec![summary(1, Some(90)), topic.clone()]), 2);
        assert_eq!(act(&mut state, Action::NextTopic, 3)[0], load_latest(2));
        let mut state = opened();
        act(&mut state, Action::Resistant, 1);
        let changed = TopicSummary { topic_id: 1, last_nonce: Some(91), ..topic };
        assert!(take(&mut state, list(vec![changed]), 2).contains(&load_latest(1)));
    }
}
