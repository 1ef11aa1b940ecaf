//! Datasets that are compared with the charted one.

use super::*;
use crate::screens::data::state::compare::COMPARED_MAX;

/// Returns five-minute buckets, latest first. `first` and `last` are counted from [`NOW`].
fn buckets(first: i64, last: i64) -> Rows {
    Rows::Buckets((first..=last).rev().map(|n| harness::flat_candle(start(n), 1.0)).collect())
}

/// Returns the start of the five-minute bucket `n`, counted from [`NOW`].
fn start(n: i64) -> Timestamp {
    Resolution::FiveMinutes.bucket_start(at(0)) + Duration::from_mins(5) * 1_000
        - Duration::from_mins(5) * u32::try_from(1_000 - n).unwrap()
}

/// Returns the queries of `effects` for rows of `dataset`.
fn queries(effects: &[Effect], dataset: i64) -> Vec<RowsQuery> {
    let queries = effects.iter().filter_map(|effect| match effect {
        Effect::LoadRows(query) if query.dataset == id(dataset) => Some(*query),
        _ => None,
    });
    queries.collect()
}

/// Responds to `query` and returns the effects.
fn respond(state: &mut State, query: RowsQuery, rows: Rows) -> Vec<Effect> {
    let result = Ok(RowsPage { rows, next: None, count: None });
    take(state, DataEvent::Rows { query, result }, 0)
}

/// Returns the Data screen that charts dataset 2 at five minutes, compared with dataset 1, and the
/// effects since dataset 2 was selected.
fn comparing() -> (State, Vec<Effect>) {
    let mut state = charted(vec![row(1, 1.0)]);
    let asked = act(&mut state, Action::Coarser, 0);
    answered(&mut state, &asked, buckets(-900, 0));
    assert_eq!(act(&mut state, Action::Compare, 0), [], "its rows and its stream are there");
    assert!(!state.is_comparing(), "it is not compared with itself");
    let mut effects = act(&mut state, Action::Down, 0);
    let query = queries(&effects, 2)[0];
    effects.extend(respond(&mut state, query, buckets(-900, 0)));
    assert!(state.is_comparing());
    (state, effects)
}

fn compared_closes(state: &State) -> Vec<f64> {
    state.compared[0].chart.candles().iter().map(|candle| candle.close).collect()
}

#[test]
fn compared_dataset_remains_loaded_and_followed_when_another_is_selected() {
    let (mut state, effects) = comparing();
    assert!(!effects.contains(&Effect::CloseStream { dataset: id(1) }), "{effects:?}");
    assert_eq!(queries(&effects, 1), []);
    let news = StreamEvent::Item(vec![row(310, 7.0)]);
    let again = take(&mut state, DataEvent::Stream { dataset: id(1), news }, 310);
    assert_eq!(compared_closes(&state).last(), Some(&7.0));
    let query = queries(&again, 1)[0];
    assert_eq!(query.limit.get(), BUCKETS_AGAIN, "the bucket that has ended is read again");
    let newest = state.sparklines[&id(1)].newest();
    assert_eq!(newest, Some((at(310), 7.0)), "the list shows its latest value");
    let effects = act(&mut state, Action::Up, 320);
    assert!(effects.contains(&Effect::CloseStream { dataset: id(2) }));
}

#[test]
fn compared_dataset_is_loaded_at_the_resolution_and_range_of_the_chart() {
    let (mut state, _) = comparing();
    let asked = act(&mut state, Action::Finer, 0);
    assert_eq!(queries(&asked, 1), [], "the range of the chart is not known yet");
    let rows = Rows::Raw(vec![row(5, 2.0), row(-7_200, 1.0)]);
    let asked = respond(&mut state, queries(&asked, 2)[0], rows);
    let [query] = queries(&asked, 1)[..] else { panic!("{asked:?}") };
    assert_eq!((query.resolution, query.start, query.end), (Resolution::Raw, None, None));
    // The page of the other dataset begins later than the chart.
    let result = Ok(RowsPage {
        rows: Rows::Raw(vec![row(4, 9.0), row(-60, 8.0)]),
        next: Some(at(-60)),
        count: None,
    });
    let asked = take(&mut state, DataEvent::Rows { query, result }, 0);
    let [query] = queries(&asked, 1)[..] else { panic!("{asked:?}") };
    assert!(query.end > Some(at(-7_200)) && query.end < Some(at(-60)), "{query:?}");
    assert!(query.start <= Some(at(-7_200)), "{query:?}");
    let asked = respond(&mut state, query, Rows::Raw(vec![row(-7_000, 5.0)]));
    assert_eq!(queries(&asked, 1), [], "the range of the chart is loaded");
    assert_eq!(compared_closes(&state), [5.0, 8.0, 9.0]);
}

#[test]
fn compared_dataset_stays_in_the_comparison_while_another_screen_is_shown() {
    let (mut state, _) = comparing();
    let effects = effects_of(&mut state, State::hide);
    for dataset in [1, 2].map(id) {
        assert!(effects.contains(&Effect::CloseStream { dataset }), "{effects:?}");
    }
    let effects = effects_of(&mut state, State::show);
    for dataset in [1, 2].map(id) {
        assert!(effects.contains(&Effect::OpenStream { dataset }), "{effects:?}");
    }
    let news = StreamEvent::Connected;
    let asked = take(&mut state, DataEvent::Stream { dataset: id(1), news }, 6);
    assert_eq!(queries(&asked, 1).len(), 1, "rows can have been missed");
    assert!(state.is_comparing());
    let lost = StreamEvent::Lost { why: Failure::default(), retry_in: Duration::from_secs(5) };
    take(&mut state, DataEvent::Stream { dataset: id(1), news: lost }, 7);
    let news = StreamEvent::Connected;
    let asked = take(&mut state, DataEvent::Stream { dataset: id(1), news }, 12);
    assert_eq!(queries(&asked, 1).len(), 1, "after a lost stream, too");
}

#[test]
fn paused_comparison_does_not_move_and_is_reloaded_on_resume() {
    let (mut state, _) = comparing();
    act(&mut state, Action::Pause, 0);
    let before = compared_closes(&state);
    let news = StreamEvent::Item(vec![row(310, 7.0)]);
    take(&mut state, DataEvent::Stream { dataset: id(1), news }, 310);
    assert_eq!(compared_closes(&state), before);
    assert_eq!(queries(&act(&mut state, Action::Pause, 320), 1).len(), 1);
}

#[test]
fn failed_rows_of_a_compared_dataset_are_requested_again_later() {
    let (mut state, _) = comparing();
    let query = queries(&act(&mut state, Action::Refresh, 0), 1)[0];
    let result = Err(Failure { status: Some(500), ..Failure::default() });
    assert_eq!(take(&mut state, DataEvent::Rows { query, result }, 0), []);
    let timer = |state: &mut State, second| {
        queries(&effects_of(state, |state| state.on_timer(Timer::Rows, at(second))), 1)
    };
    assert_eq!(timer(&mut state, 1), []);
    assert_eq!(timer(&mut state, 4), [query]);
}

#[test]
fn comparison_ends_when_its_dataset_is_toggled_again_or_escape_is_pressed() {
    let (mut state, _) = comparing();
    act(&mut state, Action::Up, 0);
    assert_eq!(act(&mut state, Action::Compare, 0), [], "its chart needs the stream");
    assert!(state.compared.is_empty());
    let (mut state, _) = comparing();
    act(&mut state, Action::Earlier, 0);
    assert!(state.back() && state.is_comparing(), "the crosshair is left first");
    let effects = effects_of(&mut state, |state| assert!(state.back()));
    assert_eq!(effects, [Effect::CloseStream { dataset: id(1) }]);
    assert!(!state.is_comparing() && !state.back());
}

#[test]
fn at_most_three_datasets_are_compared_with_the_charted_dataset() {
    let (mut state, _) = opened();
    let listed: Vec<_> = (1..=5).map(|n| dataset(n, "one")).collect();
    found(&mut state, &listed);
    for n in 1..=4 {
        state.select(id(n));
        state.act(Action::Compare, at(0));
    }
    assert_eq!(state.compared.len(), COMPARED_MAX);
    assert!(!state.can_compare() && !state.is_compared(id(4)));
    assert_eq!(state.others().count(), 3);
}

#[test]
fn compared_dataset_that_is_gone_is_removed() {
    let gone = Failure { status: Some(404), ..Failure::default() };
    let query = RowsQuery::newest(id(1), Resolution::FiveMinutes, model::page::Limit::clamp(3));
    let lost = StreamEvent::Lost { why: gone.clone(), retry_in: Duration::from_secs(5) };
    let refused = Failure { status: Some(500), ..Failure::default() };
    for (event, is_removed) in [
        (DataEvent::Rows { query, result: Err(gone) }, true),
        (DataEvent::Rows { query, result: Err(refused) }, false),
        (DataEvent::Stream { dataset: id(1), news: lost }, true),
    ] {
        let (mut state, _) = comparing();
        let removed = state.remove_gone(&event);
        assert_eq!(removed.as_deref(), is_removed.then_some("cpu"), "{event:?}");
        assert_eq!(state.is_comparing(), !is_removed);
    }
}

#[test]
fn changing_the_column_of_a_compared_dataset_replaces_its_rows() {
    let (mut state, _) = comparing();
    state.select(id(1));
    let columns = columns(id(1), &[("value", Dtype::Float), ("other", Dtype::Float)]);
    take(&mut state, DataEvent::Columns { dataset: id(1), result: Ok(columns) }, 0);
    act(&mut state, Action::NextColumn, 0);
    assert!(compared_closes(&state).is_empty());
}
