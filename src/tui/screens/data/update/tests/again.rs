//! Data that is loaded again.

use super::*;

#[test]
fn slow_list_of_datasets_is_not_requested_again_while_it_is_loading() {
    let (mut state, _) = opened();
    let due = |state: &mut State| effects_of(state, |state| state.on_timer(Timer::Datasets, at(9)));
    assert!(due(&mut state).contains(&Effect::LoadDatasets(DatasetSearch::ALL)));
    assert!(matches!(due(&mut state)[..], [Effect::SetTimer(Timer::Datasets, _)]));
    found(&mut state, &[dataset(1, "cpu")]);
    assert!(due(&mut state).contains(&Effect::LoadDatasets(DatasetSearch::ALL)));
}

#[test]
fn bucket_in_progress_is_requested_again_while_its_first_rows_are_not_stored() {
    let mut state = charted(Vec::new());
    let asked = act(&mut state, Action::Coarser, 0);
    answered(&mut state, &asked, Rows::Buckets(vec![harness::flat_candle(at(-200), 1.0)]));
    assert_eq!(streamed(&mut state, vec![row(0, 1.0)]), []);
    effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(5)));
    state.asked = None;
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(10)));
    assert_eq!(rows_query(&asked).limit.get(), BUCKETS_AGAIN);
}

#[test]
fn rows_missed_by_the_stream_or_during_a_pause_are_loaded_in_all_views() {
    let mut state = charted(vec![row(1, 1.0)]);
    let asked = act(&mut state, Action::RowsTable, 1);
    let [Effect::LoadTable(query)] = asked[..] else { panic!("{asked:?}") };
    let page = |rows| Ok(RowsPage { rows: Rows::Raw(rows), next: None, count: None });
    take(&mut state, DataEvent::Table { query, result: page(vec![row(1, 1.0)]) }, 1);
    streamed(&mut state, vec![row(2, 2.0)]);
    let news = StreamEvent::Reset;
    let asked = take(&mut state, DataEvent::Stream { dataset: id(1), news }, 3);
    assert!(asked.contains(&Effect::LoadTable(query)), "{asked:?}");
    streamed(&mut state, vec![row(6_000, 6.0)]);
    let rows = || (4_000..6_000).rev().map(|second| row(second, 5.0)).collect::<Vec<_>>();
    answered(&mut state, &asked, Rows::Raw(rows()));
    take(&mut state, DataEvent::Table { query, result: page(rows()) }, 3);
    assert_eq!(state.chart.candles().len(), 2_001);
    assert_eq!((state.tape.len(), state.tape[0].timestamp), (TAPE_ROWS, at(6_000)));
    assert!(state.tape.iter().chain(&state.table.rows).all(|row| row.timestamp >= at(4_000)));
    assert_eq!(state.table.rows[0].timestamp, at(6_000));
    act(&mut state, Action::Pause, 4);
    streamed(&mut state, (6_001..9_000).map(|second| row(second, 7.0)).collect());
    let asked = act(&mut state, Action::Pause, 5);
    assert!(asked.contains(&Effect::LoadTable(query)), "{asked:?}");
}
