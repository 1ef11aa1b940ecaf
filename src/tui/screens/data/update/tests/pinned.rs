//! Pinned datasets, and datasets with values read in turn.

use super::*;

#[test]
fn pinned_dataset_is_followed_while_other_datasets_are_charted() {
    let (mut state, _) = opened();
    assert_eq!(act(&mut state, Action::Pin, 0), [], "its stream is open already");
    let effects = act(&mut state, Action::Down, 0);
    assert!(!effects.contains(&Effect::CloseStream { dataset: id(1) }), "{effects:?}");
    let news = StreamEvent::Item(vec![row(1, 5.0), row(2, 6.0)]);
    state.on(DataEvent::Stream { dataset: id(1), news }, at(3));
    assert_eq!(state.pins[0].spark.values().collect::<Vec<_>>(), [5.0, 6.0]);
    assert_eq!(state.pins[0].live.note(at(5)), "live · 3s ago");
    let known = state.sparkline(id(1)).and_then(RecentValues::newest);
    assert_eq!(
        known.map(|(_, value)| value),
        Some(6.0),
        "the list and the card show the same value"
    );
    let effects = effects_of(&mut state, State::hide);
    assert!(effects.contains(&Effect::CloseStream { dataset: id(2) }));
    assert!(!effects.contains(&Effect::CloseStream { dataset: id(1) }));
    state.show();
    state.act(Action::Up, at(6));
    assert_eq!(act(&mut state, Action::Pin, 6), [], "the chart still needs the stream");
    assert!(state.pins.is_empty());
}

/// Returns the wait until the next values are read, according to `effects`.
fn next_read(effects: &[Effect]) -> Duration {
    let wait = effects.iter().find_map(|effect| match effect {
        Effect::SetTimer(Timer::Rows, wait) => Some(*wait),
        _ => None,
    });
    wait.expect("the next read is scheduled")
}

#[test]
fn stale_values_of_pins_are_read_immediately_unless_they_are_streamed() {
    let mut state = charted(vec![row(9, 2.0), row(1, 1.0)]);
    let listed: Vec<_> = (1..=20).map(|n| dataset(n, "one")).collect();
    found(&mut state, &listed);
    state.act(Action::Pin, at(0));
    state.hide();
    state.set_in_overview(true);
    // Reads the first twelve datasets of the list, without dataset 1: it is pinned, so its values are
    // streamed.
    let mut read = BTreeSet::new();
    let mut now = 10;
    for _ in 0..12 {
        let effects = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(now)));
        read.extend(effects.iter().find_map(|effect| match effect {
            Effect::LoadRows(query) => Some(query.dataset),
            _ => None,
        }));
        answered_at(&mut state, &effects, now);
        assert_eq!(next_read(&effects), ROWS_FIRST);
    }
    assert_eq!(read, (2..=13).map(id).collect());
    let effects = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(now)));
    answered_at(&mut state, &effects, now);
    assert_eq!(next_read(&effects), ROWS_EVERY / 12, "all are new");
    // Another screen is shown for a minute.
    state.set_in_overview(false);
    now += 60;
    state.set_in_overview(true);
    let effects = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(now)));
    assert_eq!(next_read(&effects), ROWS_FIRST, "all are old");
}

#[test]
fn latest_values_of_pinned_datasets_are_read_for_the_overview() {
    let mut state = charted(vec![row(9, 2.0), row(1, 1.0)]);
    state.hide();
    assert_eq!(
        effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(10))),
        [],
        "the Overview is hidden"
    );
    assert_eq!(effects_of(&mut state, |state| state.set_in_overview(true)).len(), 2);
    let names: Vec<_> = state.watched().iter().map(|one| one.name.to_owned()).collect();
    assert_eq!(names.len(), state.list().len());
    for second in 11..20 {
        let effects = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(second)));
        answered(&mut state, &effects, Rows::Raw(vec![row(second, 3.0)]));
    }
    for one in state.watched() {
        let newest = one.spark.and_then(RecentValues::newest).map(|(_, value)| value);
        assert_eq!(newest, Some(3.0), "{}", one.name);
        assert!(one.pin.is_none());
    }
    assert_eq!(effects_of(&mut state, |state| state.set_in_overview(false)).len(), 2);
    assert_eq!(effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(21))), []);
}

/// Returns a state that is not connected yet, with datasets 1, 2 and 99 pinned in an earlier
/// session.
fn pinned_before() -> State {
    let mut state = State { is_shown: true, ..State::default() };
    state.restore_pins([1, 2, 99].map(|n| (id(n), format!("pin {n}"))).into());
    state
}

/// Returns the name of each pin, and true if its details were loaded from the service.
fn pins(state: &State) -> Vec<(&str, bool)> {
    state.pins.iter().map(|pin| (pin.name.as_str(), pin.details.value().is_some())).collect()
}

fn details_of(name: &str, n: i64) -> DataEvent {
    DataEvent::Pinned { dataset: id(n), result: Ok(Box::new(dataset(n, name))) }
}

fn refusal_of(n: i64, status: Option<u16>) -> DataEvent {
    let why = Failure { status, ..Failure::default() };
    DataEvent::Pinned { dataset: id(n), result: Err(why) }
}

#[test]
fn stream_of_each_restored_pin_is_opened_once() {
    let mut state = pinned_before();
    state.connect(true);
    let effects = found(&mut state, &[dataset(1, "cpu"), dataset(2, "market")]);
    let follow = |n| Effect::OpenStream { dataset: id(n) };
    assert!(effects.contains(&Effect::LoadPinned { dataset: id(99) }), "{effects:?}");
    let n_follows = |n| effects.iter().filter(|effect| **effect == follow(n)).count();
    assert_eq!([1, 2, 99].map(n_follows), [1, 1, 0]);
    assert_eq!(pins(&state), [("cpu", true), ("market", true), ("pin 99", false)]);
    let columns = Effect::LoadColumns { dataset: id(99) };
    assert_eq!(take(&mut state, details_of("far", 99), 0), [follow(99), columns]);
    assert_eq!(take(&mut state, details_of("far", 99), 0), []);
    let effects = found(&mut state, &[dataset(1, "cpu"), dataset(2, "market")]);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::LoadPinned { .. })));
}

#[test]
fn pin_survives_an_outage_but_not_the_deletion_of_its_dataset() {
    let mut state = pinned_before();
    state.connect(true);
    let away = Err(Failure::default());
    state.on(DataEvent::Datasets { search: DatasetSearch::ALL, result: away }, at(1));
    assert_eq!(pins(&state), [("pin 1", false), ("pin 2", false), ("pin 99", false)]);
    found(&mut state, &[dataset(1, "cpu")]);
    state.on(refusal_of(2, None), at(2));
    state.on(refusal_of(99, Some(404)), at(2));
    assert_eq!(pins(&state), [("cpu", true), ("pin 2", false)]);
    assert_eq!(state.pins[1].details.note(at(3)), "failed");
    let effects = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(9)));
    assert!(effects.contains(&Effect::LoadPinned { dataset: id(2) }), "{effects:?}");
    state.on(details_of("market", 2), at(10));
    // Connect to the same service again, with another key.
    state.connect(true);
    assert_eq!(pins(&state), [("cpu", false), ("market", false)]);
    let [one, other] = ["http://one", "http://other"].map(str::to_owned);
    state.change_pins(Some(&one), Some(&other));
    state.connect(true);
    assert_eq!(pins(&state), []);
    state.change_pins(Some(&other), Some(&one));
    assert_eq!(pins(&state), [("cpu", false), ("market", false)]);
}
