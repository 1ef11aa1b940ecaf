mod again;
mod compared;
mod pinned;

use std::collections::{BTreeMap, BTreeSet};

use model::dataset::{Dataset, DatasetId, Dtype};
use model::resolution::Resolution;
use model::row::{Bucket, Value};

use crate::event::{
    Acquired, DatasetSearch, ExportNews, ExportSize, NamedRow, Rows, RowsPage, RowsQuery,
    StreamEvent,
};
use crate::harness::{self, columns};
use crate::keymap::Chord;
use crate::screens::data::state::live::RANGES;
use crate::screens::data::state::rows::RecentValues;
use crate::screens::data::update::*;
use crate::state::resource::Failure;

const NOW: i64 = 1_700_000_000;

/// Returns the effects that `act` requests.
fn effects_of(state: &mut State, act: impl FnOnce(&mut State)) -> Vec<Effect> {
    state.effects.clear();
    act(state);
    std::mem::take(&mut state.effects)
}

fn act(state: &mut State, action: Action, second: i64) -> Vec<Effect> {
    effects_of(state, |state| state.act(action, at(second)))
}

fn take(state: &mut State, event: DataEvent, second: i64) -> Vec<Effect> {
    effects_of(state, |state| state.on(event, at(second)))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_seconds(NOW + second)
}

fn id(number: i64) -> DatasetId {
    DatasetId::new(number).unwrap()
}

fn dataset(number: i64, name: &str) -> Dataset {
    harness::dataset(number, name, at(0))
}

/// Returns a row with a single value.
fn row(second: i64, value: f64) -> NamedRow {
    let values = BTreeMap::from([("value".to_owned(), Value::Float(value))]);
    NamedRow { timestamp: at(second), values }
}

fn found(state: &mut State, datasets: &[Dataset]) -> Vec<Effect> {
    let search = DatasetSearch::Text(state.search.value().to_owned());
    take(state, DataEvent::Datasets { search, result: Ok(harness::datasets(datasets.to_vec())) }, 0)
}

fn rows_query(effects: &[Effect]) -> RowsQuery {
    let query = effects.iter().find_map(|effect| match effect {
        Effect::LoadRows(query) => Some(*query),
        _ => None,
    });
    query.expect("rows were requested")
}

fn answered(state: &mut State, effects: &[Effect], rows: Rows) -> Vec<Effect> {
    let query = rows_query(effects);
    take(
        state,
        DataEvent::Rows { query, result: Ok(RowsPage { rows, next: None, count: None }) },
        0,
    )
}

/// Responds at second `second` to each request for rows in `effects`, with a row of that second.
fn answered_at(state: &mut State, effects: &[Effect], second: i64) {
    for effect in effects {
        if let Effect::LoadRows(query) = effect {
            let rows = Rows::Raw(vec![row(second, 3.0)]);
            let result = Ok(RowsPage { rows, next: None, count: None });
            state.on(DataEvent::Rows { query: *query, result }, at(second));
        }
    }
}

fn streamed(state: &mut State, rows: Vec<NamedRow>) -> Vec<Effect> {
    let dataset = state.selected.unwrap();
    take(state, DataEvent::Stream { dataset, news: StreamEvent::Item(rows) }, 0)
}

/// Returns the Data screen in view with two datasets and these rows of the first.
fn charted(rows: Vec<NamedRow>) -> State {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(rows));
    state
}
/// Returns the Data screen in view with two datasets and no rows yet, and the effects requested so
/// far.
fn opened() -> (State, Vec<Effect>) {
    let mut state = State::default();
    assert_eq!(effects_of(&mut state, State::show), []);
    assert!(
        effects_of(&mut state, |state| state.connect(true))
            .contains(&Effect::LoadDatasets(DatasetSearch::ALL))
    );
    let effects = found(&mut state, &[dataset(1, "cpu"), dataset(2, "market")]);
    (state, effects)
}

fn closes(state: &State) -> Vec<f64> {
    state.chart.candles().iter().map(|candle| candle.close).collect()
}

#[test]
fn first_dataset_is_opened_and_followed() {
    let (state, effects) = opened();
    assert_eq!(state.selected, Some(id(1)));
    assert!(effects.contains(&Effect::LoadColumns { dataset: id(1) }));
    assert!(effects.contains(&Effect::OpenStream { dataset: id(1) }));
    let is_raw = |effect: &Effect| {
        matches!(effect, Effect::LoadRows(RowsQuery { resolution: Resolution::Raw, .. }))
    };
    assert!(effects.iter().any(is_raw));
}

#[test]
fn dataset_service_gets_no_requests_before_its_address_is_known() {
    let mut state = State::default();
    assert_eq!(effects_of(&mut state, State::show), []);
    assert_eq!(act(&mut state, Action::Earlier, 0), []);
}

#[test]
fn stream_is_closed_while_the_screen_is_hidden() {
    let (mut state, _) = opened();
    assert!(effects_of(&mut state, State::hide).contains(&Effect::CloseStream { dataset: id(1) }));
    assert_eq!(effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(2))), []);
    let effects = effects_of(&mut state, State::show);
    assert!(effects.contains(&Effect::OpenStream { dataset: id(1) }));
    assert_eq!(effects_of(&mut state, State::show), [], "a second time changes nothing");
}

#[test]
fn loaded_and_live_rows_are_drawn_in_one_chart() {
    let mut state = charted(vec![row(2, 2.0), row(1, 1.0)]);
    streamed(&mut state, vec![row(2, 2.0), row(3, 3.0)]);
    assert_eq!(closes(&state), [1.0, 2.0, 3.0]);
    let want = [at(3), at(2), at(1)];
    assert_eq!(state.tape.iter().map(|row| row.timestamp).collect::<Vec<_>>(), want);
    assert_eq!(state.sparklines[&id(1)].values().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
}

#[test]
fn paused_chart_does_not_move_and_catches_up_on_resume() {
    let mut state = charted(vec![row(1, 1.0)]);
    state.act(Action::Pause, at(0));
    streamed(&mut state, vec![row(2, 2.0), row(3, 3.0)]);
    assert_eq!((closes(&state), state.live.note(at(0)).as_str()), (vec![1.0], "paused · 2 new"));
    state.act(Action::Pause, at(0));
    assert_eq!(closes(&state), [1.0, 2.0, 3.0]);
}

#[test]
fn long_pause_reloads_the_rows() {
    let mut state = charted(vec![row(1, 1.0)]);
    state.act(Action::Pause, at(0));
    streamed(&mut state, (0..5_000).map(|second| row(second, 1.0)).collect());
    assert!(matches!(act(&mut state, Action::Pause, 0)[..], [Effect::LoadRows(_)]));
}

#[test]
fn lost_stream_is_shown_with_age_and_attempts_until_it_reconnects() {
    let (mut state, _) = opened();
    let news = |news| DataEvent::Stream { dataset: id(1), news };
    let lost = |seconds| {
        let retry_in = Duration::from_secs(seconds);
        news(StreamEvent::Lost { why: Failure::default(), retry_in })
    };
    assert_eq!(state.live.note(at(0)), "connecting");
    state.on(lost(1), at(0));
    assert_eq!(state.live.note(at(0)), "never connected · reconnecting in 1s (1)");
    state.on(news(StreamEvent::Connected), at(1));
    assert_eq!(take(&mut state, lost(5), 1), []);
    assert_eq!(take(&mut state, lost(5), 42), []);
    assert_eq!(state.live.note(at(45)), "stale 44s · reconnecting in 2s (2)");
    assert_eq!(
        take(&mut state, news(StreamEvent::Connected), 47),
        [],
        "the stream repeats missed rows"
    );
    assert_eq!(state.live.note(at(49)), "live", "without rows, the age of the data is unknown");
    let asked = take(&mut state, news(StreamEvent::Reset), 50);
    assert!(
        matches!(asked[..], [Effect::LoadRows(_)]),
        "rows that the stream cannot repeat are read"
    );
}

#[test]
fn replayed_old_rows_are_not_shown_as_live() {
    let (mut state, _) = opened();
    let mut hear = |news, second| {
        state.on(DataEvent::Stream { dataset: id(1), news }, at(second));
        state.live.note(at(second))
    };
    let year = 365 * 86_400;
    assert_eq!(hear(StreamEvent::Connected, year), "live");
    let rows = |second| StreamEvent::Item(vec![row(second, 1.0)]);
    assert_eq!(hear(rows(0), year), "rows of 2023-11-14", "rows of the replay");
    assert_eq!(hear(rows(600), year + 3), "replay · 2023-11-14");
    assert_eq!(hear(StreamEvent::Heartbeat, year + 14), "rows of 2023-11-14 · came 11s ago");
    assert_eq!(hear(rows(year + 15), year + 15), "live · now");
}

#[test]
fn future_rows_are_not_shown_as_current() {
    let (mut state, _) = opened();
    let mut hear = |news, second| {
        state.on(DataEvent::Stream { dataset: id(1), news }, at(second));
        (state.live.note(at(second)), state.live.updated_at(at(second)))
    };
    let year = 365 * 86_400;
    hear(StreamEvent::Connected, 0);
    let rows = |second| StreamEvent::Item(vec![row(second, 1.0)]);
    assert_eq!(hear(rows(year), 0), ("rows of 2024-11-13".to_owned(), None));
    let (note, updated_at) = hear(rows(year + 60), 10);
    assert_eq!((note.as_str(), updated_at), ("rows of 2024-11-13 · came now", Some(at(10))));
    let (note, updated_at) = hear(StreamEvent::Heartbeat, 250);
    assert_eq!((note.as_str(), updated_at), ("rows of 2024-11-13 · came 4m ago", Some(at(10))));
}

#[test]
fn buckets_are_reloaded_after_a_lost_stream() {
    let mut state = charted(vec![row(1, 1.0)]);
    let asked = act(&mut state, Action::Coarser, 0);
    answered(&mut state, &asked, Rows::Buckets(Vec::new()));
    let news = |news| DataEvent::Stream { dataset: id(1), news };
    state.on(news(StreamEvent::Connected), at(0));
    let lost = StreamEvent::Lost { why: Failure::default(), retry_in: Duration::from_secs(5) };
    state.on(news(lost), at(1));
    assert!(matches!(take(&mut state, news(StreamEvent::Connected), 6)[..], [Effect::LoadRows(_)]));
}

#[test]
fn resolution_that_the_service_rejects_is_not_offered_again() {
    let mut state = charted(vec![row(1, 1.0)]);
    let asked = act(&mut state, Action::Coarser, 0);
    answered(&mut state, &asked, Rows::Buckets(Vec::new()));
    let asked = act(&mut state, Action::Coarser, 0);
    assert_eq!(state.chart.resolution(), Resolution::FifteenMinutes);
    let Some(Effect::LoadRows(query)) = asked.first() else { panic!("{asked:?}") };
    let refused = Failure { status: Some(400), ..Failure::default() };
    let asked = take(&mut state, DataEvent::Rows { query: *query, result: Err(refused) }, 0);
    assert!(
        matches!(asked[..], [Effect::LoadRows(query)] if query.resolution == Resolution::Hour),
        "the failure is not shown: {asked:?}"
    );
    state.act(Action::Finer, at(0));
    assert_eq!(state.chart.resolution(), Resolution::FiveMinutes);
}

#[test]
fn list_is_filtered_by_one_metadata_field_until_the_filter_is_cleared() {
    let (mut state, _) = opened();
    state.act(Action::MetadataFilter, at(0));
    state.filter.text.set("ticker=BTC");
    let search = DatasetSearch::Metadata("ticker".to_owned(), "BTC".to_owned());
    let want = Effect::LoadDatasets(search.clone());
    assert_eq!(effects_of(&mut state, State::confirm_input), std::slice::from_ref(&want));
    found(&mut state, &[dataset(7, "late")]);
    assert_eq!(state.list().len(), 2, "a response to an obsolete request");
    let result = Ok(harness::datasets(vec![dataset(2, "market")]));
    state.on(DataEvent::Datasets { search, result }, at(1));
    assert_eq!(state.list().len(), 1);
    assert!(act(&mut state, Action::Refresh, 2).contains(&want));
    let want = [Effect::LoadDatasets(DatasetSearch::ALL)];
    assert_eq!(effects_of(&mut state, |state| assert!(state.back())), want);
}

#[test]
fn export_shows_its_path_range_and_progress() {
    let mut state = charted(vec![row(9, 2.0), row(1, 1.0)]);
    assert_eq!(state.export_path().as_deref(), Some("cpu-raw.csv"));
    let asked = effects_of(&mut state, |state| state.begin_export("out/cpu.json", RANGES[0]));
    let [Effect::Export { query, path }] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((query.output, query.start, query.end), ("json", Some(at(1)), Some(at(9))));
    assert_eq!(path.to_str(), Some("out/cpu.json"));
    let progress = ExportSize { rows: 1, total_rows: Some(2), bytes: 20 };
    state.on(DataEvent::Export(ExportNews::Written(progress.clone())), at(1));
    assert_eq!(state.export.progress, Some(progress));
    let cancelled = effects_of(&mut state, |state| assert_eq!(state.export_path(), None));
    assert_eq!(cancelled, [Effect::DropExport]);
    let progress = ExportSize { rows: 2, total_rows: Some(2), bytes: 40 };
    state.on(DataEvent::Export(ExportNews::Written(progress)), at(1));
    assert_eq!(state.export.progress, None, "the export was cancelled");
}

#[test]
fn zooming_out_of_raw_rows_requests_buckets() {
    let mut state = charted(vec![row(1, 1.0)]);
    assert!(state.is_line(), "single values have no candles");
    let mut asked = Vec::new();
    while asked.is_empty() {
        asked = act(&mut state, Action::ZoomOut, 0);
    }
    assert!(matches!(
        asked[..],
        [Effect::LoadRows(RowsQuery { resolution: Resolution::FiveMinutes, .. })]
    ));
    let bucket = Bucket { high: 4.0, count: 9, ..harness::flat_candle(at(-200), 1.0) };
    answered(&mut state, &asked, Rows::Buckets(vec![bucket]));
    assert!(!state.is_line());
    assert_eq!(act(&mut state, Action::Finer, 0).len(), 1);
    assert_eq!(state.chart.resolution(), Resolution::Raw);
}

#[test]
fn bucket_is_requested_again_once_it_has_ended() {
    let mut state = charted(Vec::new());
    let asked = act(&mut state, Action::Coarser, 0);
    answered(&mut state, &asked, Rows::Buckets(Vec::new()));
    assert_eq!(streamed(&mut state, vec![row(0, 1.0)]), [], "the first bucket is only opened");
    assert_eq!(streamed(&mut state, vec![row(10, 1.0)]), []);
    let asked = streamed(&mut state, vec![row(400, 1.0)]);
    assert!(matches!(asked[..], [Effect::LoadRows(query)] if query.limit.get() == BUCKETS_AGAIN));
}

#[test]
fn crosshair_stays_on_its_candle_while_rows_arrive() {
    let mut state = charted((0..2_000).rev().map(|s| row(s, 1.0)).collect());
    assert_eq!(act(&mut state, Action::Earlier, 0), []);
    state.act(Action::Earlier, at(0));
    assert_eq!(state.crosshair, Some(at(1_998)));
    streamed(&mut state, vec![row(2_000, 1.0)]);
    assert_eq!(state.crosshair, Some(at(1_998)));
    state.act(Action::Later, at(0));
    assert_eq!(state.crosshair, Some(at(1_999)));
    state.act(Action::Follow, at(0));
    assert_eq!(state.crosshair, None);
}

#[test]
fn older_rows_are_loaded_when_the_view_nears_the_oldest_row() {
    let mut state = charted((0..10).rev().map(|s| row(s, 1.0)).collect());
    let asked = act(&mut state, Action::Earlier, 0);
    let [Effect::LoadRows(query)] = asked[..] else { panic!("{asked:?}") };
    let (start, end) = (query.start.unwrap(), query.end.unwrap());
    assert!(end < at(0) && end.since(start) <= Resolution::Raw.span_max().unwrap());
    assert_eq!(act(&mut state, Action::Earlier, 0), [], "one request is pending");
    answered(&mut state, &asked, Rows::Raw(Vec::new()));
    assert_eq!(act(&mut state, Action::Earlier, 0), [], "there are no older rows");
}

#[test]
fn listed_datasets_are_read_in_turn_for_sparklines() {
    let mut state = charted(vec![row(1, 1.0)]);
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(2)));
    assert!(matches!(asked[0], Effect::LoadRows(RowsQuery { dataset, .. }) if dataset == id(2)));
    assert!(matches!(asked[1], Effect::SetTimer(Timer::Rows, _)));
    answered(&mut state, &asked, Rows::Raw(vec![row(2, 8.0), row(1, 7.0)]));
    assert_eq!(state.sparklines[&id(2)].values().collect::<Vec<_>>(), [7.0, 8.0]);
    assert_eq!(closes(&state), [1.0], "another dataset is charted");
}

#[test]
fn selected_dataset_stays_selected_when_the_list_changes() {
    let (mut state, _) = opened();
    state.act(Action::Down, at(0));
    assert_eq!(state.selected, Some(id(2)));
    let effects = found(&mut state, &[dataset(9, "new"), dataset(1, "cpu"), dataset(2, "market")]);
    assert_eq!((state.selected, effects), (Some(id(2)), Vec::new()));
    state.click(Target::Row { pane: Pane::List.number(), row: 0 });
    assert_eq!(state.selected, Some(id(9)));
}

#[test]
fn search_runs_on_each_edit_and_drops_older_responses() {
    let (mut state, _) = opened();
    state.act(Action::Filter, at(0));
    state.field().unwrap().press(Chord::named("m").unwrap());
    let want = [Effect::LoadDatasets(DatasetSearch::Text("m".to_owned()))];
    assert_eq!(effects_of(&mut state, State::edited), want);
    let result = Ok(harness::datasets(vec![dataset(1, "cpu")]));
    state.on(DataEvent::Datasets { search: DatasetSearch::ALL, result }, at(0));
    assert_eq!(state.list().len(), 2, "a response to another search");
    found(&mut state, &[dataset(2, "market")]);
    assert_eq!(state.list().len(), 1);
    let want = [Effect::LoadDatasets(DatasetSearch::ALL)];
    assert_eq!(effects_of(&mut state, |state| assert!(state.back())), want);
    assert_eq!(effects_of(&mut state, |state| assert!(!state.back())), []);
}

#[test]
fn failed_reload_keeps_the_old_data() {
    let mut state = charted(vec![row(1, 1.0)]);
    let asked = act(&mut state, Action::Refresh, 5);
    let query = rows_query(&asked);
    state.on(DataEvent::Rows { query, result: Err(Failure::default()) }, at(6));
    assert_eq!((closes(&state), state.rows.note(at(9)).as_str()), (vec![1.0], "stale 9s"));
}

#[test]
fn rows_are_reloaded_if_the_charted_column_was_guessed_wrong() {
    let (mut state, effects) = opened();
    let values =
        BTreeMap::from([("a".to_owned(), Value::Float(1.0)), ("b".to_owned(), Value::Float(2.0))]);
    let rows = vec![NamedRow { timestamp: at(1), values }];
    answered(&mut state, &effects, Rows::Raw(rows.clone()));
    assert_eq!(closes(&state), [1.0]);
    let result = Ok(columns(id(1), &[("b", Dtype::Float), ("a", Dtype::Float)]));
    let asked = take(&mut state, DataEvent::Columns { dataset: id(1), result }, 0);
    answered(&mut state, &asked, Rows::Raw(rows));
    assert_eq!(closes(&state), [2.0]);
}

/// Returns a row with these columns and values.
fn row_of(second: i64, values: &[(&str, Value)]) -> NamedRow {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    NamedRow { timestamp: at(second), values: values.collect() }
}

#[test]
fn columns_are_loaded_if_the_rows_of_a_dataset_have_different_numbers() {
    let mut state = charted(vec![row(1, 1.0)]);
    let rows =
        vec![row_of(2, &[("w", Value::Float(-299.0))]), row_of(1, &[("v", Value::Float(294.0))])];
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(2)));
    let asked = answered(&mut state, &asked, Rows::Raw(rows));
    assert!(asked.contains(&Effect::LoadColumns { dataset: id(2) }), "{asked:?}");
}

#[test]
fn dataset_list_and_chart_show_the_same_column() {
    let mut state = charted(vec![row(1, 1.0)]);
    let two = || row_of(2, &[("a", Value::Integer(7)), ("b", Value::Float(2.5))]);
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(2)));
    let asked = answered(&mut state, &asked, Rows::Raw(vec![two()]));
    assert!(asked.contains(&Effect::LoadColumns { dataset: id(2) }), "{asked:?}");
    let result = Ok(columns(id(2), &[("b", Dtype::Float), ("a", Dtype::Float)]));
    state.on(DataEvent::Columns { dataset: id(2), result }, at(2));
    assert!(state.sparkline(id(2)).is_none(), "values of another column");
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(3)));
    answered(&mut state, &asked, Rows::Raw(vec![two()]));
    let last = |state: &State| state.sparkline(id(2)).and_then(RecentValues::newest).unwrap().1;
    assert_eq!((state.sparkline(id(2)).unwrap().column(), last(&state)), (Some("b"), 2.5));
    let asked = act(&mut state, Action::Down, 4);
    answered(&mut state, &asked, Rows::Raw(vec![two()]));
    assert_eq!(closes(&state), [2.5]);
    let asked = act(&mut state, Action::NextColumn, 5);
    answered(&mut state, &asked, Rows::Raw(vec![two()]));
    assert_eq!(
        (closes(&state), last(&state)),
        (vec![7.0], 7.0),
        "the chosen column is shown everywhere"
    );
}

#[test]
fn latest_value_of_a_float_column_can_be_a_whole_number() {
    let mut state = charted(vec![row(1, 1.0)]);
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(2)));
    let fives = |second| row_of(second, &[("x", Value::Integer(5))]);
    answered(&mut state, &asked, Rows::Raw(vec![fives(2), fives(1)]));
    assert_eq!(state.sparkline(id(2)).unwrap().values().collect::<Vec<_>>(), [5.0, 5.0]);
}

#[test]
fn integer_columns_without_buckets_are_charted_from_rows() {
    let (mut state, effects) = opened();
    state.zoom.resolution = Resolution::Hour;
    state.chart.change_resolution(Resolution::Hour);
    let result = Ok(columns(id(1), &[("ok", Dtype::Boolean), ("n", Dtype::Integer)]));
    let asked = take(&mut state, DataEvent::Columns { dataset: id(1), result }, 1);
    assert_eq!(rows_query(&asked).resolution, Resolution::Raw, "{effects:?}");
    let row = row_of(1, &[("n", Value::Integer(3)), ("ok", Value::Boolean(true))]);
    answered(&mut state, &asked, Rows::Raw(vec![row]));
    assert_eq!(closes(&state), [3.0]);
    assert_eq!(state.resolutions(), [Resolution::Raw]);
}

#[test]
fn displayed_age_of_a_stream_is_the_age_of_its_latest_row() {
    let (mut state, _) = opened();
    let news = |news| DataEvent::Stream { dataset: id(1), news };
    state.on(news(StreamEvent::Connected), at(100));
    state.on(news(StreamEvent::Item(vec![row(5, 1.0)])), at(100));
    assert_eq!(state.live.note(at(100)), "live · 1m ago", "the stream begins with older rows");
    assert_eq!(state.live.updated_at(at(100)), Some(at(5)));
    state.on(news(StreamEvent::Heartbeat), at(130));
    assert_eq!(state.live.note(at(130)), "live · 2m ago");
    state.on(news(StreamEvent::Item(vec![row(131, 1.0)])), at(131));
    assert_eq!(state.live.note(at(134)), "live · 3s ago");
}

#[test]
fn failed_read_of_a_dataset_does_not_delay_the_next_dataset() {
    let mut state = charted(vec![row(1, 1.0)]);
    found(&mut state, &[dataset(1, "cpu"), dataset(2, "broken"), dataset(3, "next")]);
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(2)));
    let query = rows_query(&asked);
    assert_eq!(query.dataset, id(2));
    state.on(DataEvent::Rows { query, result: Err(Failure::default()) }, at(2));
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(3)));
    assert_eq!(rows_query(&asked).dataset, id(3));
}

#[test]
fn dataset_that_does_not_match_the_search_is_opened_by_its_id() {
    let (mut state, _) = opened();
    state.search.set("mar");
    found(&mut state, &[dataset(2, "market")]);
    assert_eq!(state.all.len(), 2, "the palette lists all datasets");
    let asked = effects_of(&mut state, |state| state.find_dataset(id(1)));
    assert!(asked.contains(&Effect::LoadDatasets(DatasetSearch::ALL)), "{asked:?}");
    found(&mut state, &[dataset(1, "cpu"), dataset(2, "market")]);
    assert_eq!(state.selected, Some(id(1)));
    state.find_dataset(id(9));
    state.act(Action::Down, at(3));
    found(&mut state, &[dataset(2, "market"), dataset(9, "new")]);
    assert_eq!(state.selected, Some(id(2)), "another dataset was selected meanwhile");
}

#[test]
fn only_datasets_around_the_selected_dataset_are_read_in_a_long_list() {
    let mut state = charted(vec![row(1, 1.0)]);
    let listed: Vec<_> = (1..=1_008).map(|n| dataset(n, "one")).collect();
    found(&mut state, &listed);
    let asked = act(&mut state, Action::Last, 2);
    assert_eq!(state.selected, Some(id(1_008)));
    answered(&mut state, &asked, Rows::Raw(vec![row(1, 1.0)]));
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(3)));
    assert!(rows_query(&asked).dataset > id(970), "{asked:?}");
}

#[test]
fn public_tag_is_acquired_and_the_list_read_again() {
    let (mut state, _) = opened();
    assert_eq!(act(&mut state, Action::AcquireTag, 0), [Effect::AcquireTag]);
    let event = DataEvent::Acquired(Ok(Acquired::Already));
    assert!(matches!(take(&mut state, event, 1)[..], [Effect::LoadDatasets { .. }]));
}

#[test]
fn values_of_a_dataset_are_dropped_if_its_id_belongs_to_another_one() {
    let mut state = charted(vec![row(1, 1.0)]);
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(2)));
    answered(&mut state, &asked, Rows::Raw(vec![row(2, 8.0)]));
    assert!(state.sparkline(id(2)).is_some());
    state.chosen_columns.insert(id(1), "load".to_owned());
    let again = |number, name| harness::dataset(number, name, at(3));
    let asked = found(&mut state, &[again(1, "cpu"), again(2, "gold")]);
    assert!(state.sparkline(id(2)).is_none());
    assert_eq!(rows_query(&asked).dataset, id(1));
    assert_eq!(closes(&state), Vec::<f64>::new());
    assert_eq!(state.chosen_columns.get(&id(1)), None);
}
