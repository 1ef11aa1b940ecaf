use std::collections::{BTreeMap, BTreeSet};

use model::{
    dataset::{Column, Dataset, DatasetId, Dtype},
    resolution::Resolution,
    row::{Bucket, Value},
};

use super::*;
use crate::{
    event::{
        Acquired, DatasetSearch, DatasetsPage, ExportNews, NamedRow, Progress, Rows, RowsPage,
        RowsQuery, StreamEvent,
    },
    keymap::Chord,
    screens::data::state::RecentValues,
    state::loadable::Failure,
};

const NOW: i64 = 1_700_000_000;

/// What `act` asks for.
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
    Dataset {
        id: id(number),
        name: name.to_owned(),
        description: String::new(),
        metadata: BTreeMap::new(),
        created_at: at(0),
        updated_at: at(0),
    }
}

fn page(datasets: &[Dataset]) -> DatasetsPage {
    DatasetsPage { n_datasets: None, datasets: datasets.to_vec(), has_more: false }
}

/// A row of a dataset with one value.
fn row(second: i64, value: f64) -> NamedRow {
    let values = BTreeMap::from([("value".to_owned(), Value::Float(value))]);
    NamedRow { timestamp: at(second), values }
}

fn found(state: &mut State, datasets: &[Dataset]) -> Vec<Effect> {
    let search = DatasetSearch::Text(state.search.value().to_owned());
    take(state, DataEvent::Datasets { search, result: Ok(page(datasets)) }, 0)
}

fn rows_query(effects: &[Effect]) -> RowsQuery {
    let query = effects.iter().find_map(|effect| match effect {
        Effect::LoadRows(query) => Some(*query),
        _ => None,
    });
    query.expect("rows were asked for")
}

fn answered(state: &mut State, effects: &[Effect], rows: Rows) -> Vec<Effect> {
    let query = rows_query(effects);
    take(
        state,
        DataEvent::Rows { query, result: Ok(RowsPage { rows, next: None, count: None }) },
        0,
    )
}

/// As [`answered`], that late, with a row of that time.
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

/// The screen in view, with two datasets found and no rows yet; and what it asks for then.
fn opened() -> (State, Vec<Effect>) {
    let mut state = State::default();
    assert_eq!(effects_of(&mut state, |state| state.show(at(0))), []);
    assert!(
        effects_of(&mut state, |state| state.connected(at(0)))
            .contains(&Effect::LoadDatasets(DatasetSearch::ALL))
    );
    let effects = found(&mut state, &[dataset(1, "cpu"), dataset(2, "market")]);
    (state, effects)
}

fn closes(state: &State) -> Vec<f64> {
    state.chart.candles().iter().map(|candle| candle.close).collect()
}

#[test]
fn the_first_dataset_is_opened_and_followed() {
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
fn nothing_is_requested_before_an_address_is_known() {
    let mut state = State::default();
    assert_eq!(effects_of(&mut state, |state| state.show(at(0))), []);
    assert_eq!(act(&mut state, Action::Earlier, 0), []);
}

#[test]
fn a_hidden_screen_follows_nothing() {
    let (mut state, _) = opened();
    assert!(effects_of(&mut state, State::hide).contains(&Effect::CloseStream { dataset: id(1) }));
    assert_eq!(effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(2))), []);
    let effects = effects_of(&mut state, |state| state.show(at(9)));
    assert!(effects.contains(&Effect::OpenStream { dataset: id(1) }));
    assert_eq!(
        effects_of(&mut state, |state| state.show(at(9))),
        [],
        "a second time changes nothing"
    );
}

#[test]
fn loaded_and_live_rows_make_one_chart() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(2, 2.0), row(1, 1.0)]));
    streamed(&mut state, vec![row(2, 2.0), row(3, 3.0)]);
    assert_eq!(closes(&state), [1.0, 2.0, 3.0]);
    assert_eq!(
        state.tape.iter().map(|row| row.timestamp).collect::<Vec<_>>(),
        [at(3), at(2), at(1)]
    );
    assert_eq!(state.sparklines[&id(1)].values().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
}

#[test]
fn a_paused_chart_stands_still_and_catches_up() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(1, 1.0)]));
    state.act(Action::Pause, at(0));
    streamed(&mut state, vec![row(2, 2.0), row(3, 3.0)]);
    assert_eq!((closes(&state), state.live.note(at(0)).as_str()), (vec![1.0], "paused · 2 new"));
    state.act(Action::Pause, at(0));
    assert_eq!(closes(&state), [1.0, 2.0, 3.0]);
}

#[test]
fn a_long_pause_reloads_the_rows() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(1, 1.0)]));
    state.act(Action::Pause, at(0));
    streamed(&mut state, (0..5_000).map(|second| row(second, 1.0)).collect());
    assert!(matches!(act(&mut state, Action::Pause, 0)[..], [Effect::LoadRows(_)]));
}

#[test]
fn a_lost_stream_shows_its_age_and_attempts_and_reconnects() {
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
        "the stream brings what was missed"
    );
    assert_eq!(state.live.note(at(49)), "live · 2s ago");
    let asked = take(&mut state, news(StreamEvent::Reset), 50);
    assert!(matches!(asked[..], [Effect::LoadRows(_)]), "what it cannot bring is read");
}

#[test]
fn replayed_old_rows_are_not_live() {
    let (mut state, _) = opened();
    let mut hear = |news, second| {
        state.on(DataEvent::Stream { dataset: id(1), news }, at(second));
        state.live.note(at(second))
    };
    let year = 365 * 86_400;
    assert_eq!(hear(StreamEvent::Connected, year), "live · now");
    let rows = |second| StreamEvent::Item(vec![row(second, 1.0)]);
    assert_eq!(hear(rows(0), year), "rows of 2023-11-14", "what was there before");
    assert_eq!(hear(rows(600), year + 3), "rows of 2023-11-14", "the pace is not known yet");
    assert_eq!(hear(rows(900), year + 8), "replay 60× · 2023-11-14");
    assert_eq!(hear(rows(year + 9), year + 9), "live · now");
}

#[test]
fn buckets_are_reloaded_after_a_lost_stream() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(1, 1.0)]));
    let asked = act(&mut state, Action::Coarser, 0);
    answered(&mut state, &asked, Rows::Buckets(Vec::new()));
    let news = |news| DataEvent::Stream { dataset: id(1), news };
    state.on(news(StreamEvent::Connected), at(0));
    let lost = StreamEvent::Lost { why: Failure::default(), retry_in: Duration::from_secs(5) };
    state.on(news(lost), at(1));
    assert!(matches!(take(&mut state, news(StreamEvent::Connected), 6)[..], [Effect::LoadRows(_)]));
}

#[test]
fn an_unsupported_resolution_is_dropped() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(1, 1.0)]));
    let asked = act(&mut state, Action::Coarser, 0);
    answered(&mut state, &asked, Rows::Buckets(Vec::new()));
    let asked = act(&mut state, Action::Coarser, 0);
    assert_eq!(state.chart.resolution(), Resolution::FifteenMinutes);
    let Some(Effect::LoadRows(query)) = asked.first() else { panic!("{asked:?}") };
    let refused = Failure { status: Some(400), ..Failure::default() };
    let asked = take(&mut state, DataEvent::Rows { query: *query, result: Err(refused) }, 0);
    assert!(
        matches!(asked[..], [Effect::LoadRows(query)] if query.resolution == Resolution::Hour),
        "no error is seen: {asked:?}"
    );
    state.act(Action::Finer, at(0));
    assert_eq!(state.chart.resolution(), Resolution::FiveMinutes);
}

#[test]
fn the_list_is_filtered_by_one_field_until_that_is_cleared() {
    let (mut state, _) = opened();
    state.act(Action::MetadataFilter, at(0));
    state.filter.text.set("ticker=BTC");
    let search = DatasetSearch::Metadata("ticker".to_owned(), "BTC".to_owned());
    let want = Effect::LoadDatasets(search.clone());
    assert_eq!(
        effects_of(&mut state, |state| state.confirm_input(at(0))),
        std::slice::from_ref(&want)
    );
    found(&mut state, &[dataset(7, "late")]);
    assert_eq!(state.list().len(), 2, "an answer to what is no longer asked");
    let result = Ok(page(&[dataset(2, "market")]));
    state.on(DataEvent::Datasets { search, result }, at(1));
    assert_eq!(state.list().len(), 1);
    assert!(act(&mut state, Action::Refresh, 2).contains(&want));
    assert!(state.back());
    assert_eq!(
        effects_of(&mut state, |state| state.reload_after_search(at(3))),
        [Effect::LoadDatasets(DatasetSearch::ALL)]
    );
}

#[test]
fn a_pinned_dataset_is_followed_while_others_are_charted() {
    let (mut state, _) = opened();
    assert_eq!(act(&mut state, Action::Pin, 0), [], "its stream is open already");
    let effects = act(&mut state, Action::Down, 0);
    assert!(!effects.contains(&Effect::CloseStream { dataset: id(1) }), "{effects:?}");
    let news = StreamEvent::Item(vec![row(1, 5.0), row(2, 6.0)]);
    state.on(DataEvent::Stream { dataset: id(1), news }, at(3));
    assert_eq!(state.pins[0].spark.values().collect::<Vec<_>>(), [5.0, 6.0]);
    assert_eq!(state.pins[0].live.note(at(5)), "live · 2s ago");
    let known = state.sparkline(id(1)).and_then(RecentValues::newest);
    assert_eq!(known.map(|(_, value)| value), Some(6.0), "the list tells what the card does");
    let effects = effects_of(&mut state, State::hide);
    assert!(effects.contains(&Effect::CloseStream { dataset: id(2) }));
    assert!(!effects.contains(&Effect::CloseStream { dataset: id(1) }));
    state.show(at(6));
    state.act(Action::Up, at(6));
    assert_eq!(act(&mut state, Action::Pin, 6), [], "the chart still needs it");
    assert!(state.pins.is_empty());
}

/// When the next of the newest values is read, by what `effects` set.
fn next_read(effects: &[Effect]) -> Duration {
    let wait = effects.iter().find_map(|effect| match effect {
        Effect::SetTimer(Timer::Rows, wait) => Some(*wait),
        _ => None,
    });
    wait.expect("the next read is set")
}

#[test]
fn stale_values_are_read_at_once_except_streamed_ones() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(9, 2.0), row(1, 1.0)]));
    let listed: Vec<_> = (1..=20).map(|n| dataset(n, "one")).collect();
    found(&mut state, &listed);
    state.act(Action::Pin, at(0));
    state.hide();
    state.set_in_overview(true);
    // Twelve of them are seen; the pinned one is not read, and those out of sight are neither.
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
    assert_eq!(next_read(&effects), ROWS_APART, "all are new");
    // Another screen is looked at for a while.
    state.set_in_overview(false);
    now += 60;
    state.set_in_overview(true);
    let effects = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(now)));
    assert_eq!(next_read(&effects), ROWS_FIRST, "all are old");
}

#[test]
fn newest_values_are_read_for_the_overview() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(9, 2.0), row(1, 1.0)]));
    state.hide();
    assert_eq!(
        effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(10))),
        [],
        "nobody looks"
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

/// A state with datasets 1, 2 and 99 pinned in an earlier session, not connected yet.
fn pinned_before() -> State {
    let mut state = State { is_shown: true, ..State::default() };
    state.restore_pins([1, 2, 99].map(|n| (id(n), format!("pin {n}"))));
    state
}

/// What is pinned, by name, and whether the service told of it.
fn pins(state: &State) -> Vec<(&str, bool)> {
    state.pins.iter().map(|pin| (pin.name.as_str(), pin.details.value().is_some())).collect()
}

fn told(name: &str, n: i64) -> DataEvent {
    DataEvent::Pinned { dataset: id(n), result: Ok(Box::new(dataset(n, name))) }
}

fn refused(n: i64, status: Option<u16>) -> DataEvent {
    let why = Failure { status, ..Failure::default() };
    DataEvent::Pinned { dataset: id(n), result: Err(why) }
}

#[test]
fn restored_pins_are_followed_once_each() {
    let mut state = pinned_before();
    state.connected(at(0));
    let effects = found(&mut state, &[dataset(1, "cpu"), dataset(2, "market")]);
    let follow = |n| Effect::OpenStream { dataset: id(n) };
    assert!(effects.contains(&Effect::LoadPinned { dataset: id(99) }), "{effects:?}");
    let n_follows = |n| effects.iter().filter(|effect| **effect == follow(n)).count();
    assert_eq!([1, 2, 99].map(n_follows), [1, 1, 0]);
    assert_eq!(pins(&state), [("cpu", true), ("market", true), ("pin 99", false)]);
    assert_eq!(take(&mut state, told("far", 99), 0), [follow(99)]);
    assert_eq!(take(&mut state, told("far", 99), 0), []);
    let effects = found(&mut state, &[dataset(1, "cpu"), dataset(2, "market")]);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::LoadPinned { .. })));
}

#[test]
fn pins_survive_an_outage_and_end_with_their_dataset() {
    let mut state = pinned_before();
    state.connected(at(0));
    let away = Err(Failure::default());
    state.on(DataEvent::Datasets { search: DatasetSearch::ALL, result: away }, at(1));
    assert_eq!(pins(&state), [("pin 1", false), ("pin 2", false), ("pin 99", false)]);
    found(&mut state, &[dataset(1, "cpu")]);
    state.on(refused(2, None), at(2));
    state.on(refused(99, Some(404)), at(2));
    assert_eq!(pins(&state), [("cpu", true), ("pin 2", false)]);
    assert_eq!(state.pins[1].details.note(at(3)), "failed");
    let effects = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(9)));
    assert!(effects.contains(&Effect::LoadPinned { dataset: id(2) }), "{effects:?}");
    state.on(told("market", 2), at(10));
    // The same service again, with another key.
    state.connected(at(11));
    assert_eq!(pins(&state), [("cpu", false), ("market", false)]);
    state.clear_pins();
    assert_eq!(pins(&state), []);
}

#[test]
fn an_export_shows_its_path_range_and_progress() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(9, 2.0), row(1, 1.0)]));
    state.act(Action::Export, at(0));
    assert_eq!(state.export.path.value(), "cpu-raw.csv");
    state.export.path.set("out/cpu.json");
    let asked = effects_of(&mut state, |state| state.confirm_input(at(0)));
    let [Effect::Export { query, path }] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((query.output, query.start, query.end), ("json", Some(at(1)), Some(at(9))));
    assert_eq!(path.to_str(), Some("out/cpu.json"));
    let progress = Progress { rows: 1, total_rows: Some(2), bytes: 20 };
    state.on(DataEvent::Export(ExportNews::Written(progress.clone())), at(1));
    assert_eq!(state.export.progress, Some(progress));
    assert_eq!(act(&mut state, Action::Export, 1), [Effect::DropExport]);
}

#[test]
fn zooming_out_of_raw_asks_for_buckets() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(1, 1.0)]));
    assert!(state.is_line(), "one value has no candles");
    let mut asked = Vec::new();
    while asked.is_empty() {
        asked = act(&mut state, Action::ZoomOut, 0);
    }
    assert!(matches!(
        asked[..],
        [Effect::LoadRows(RowsQuery { resolution: Resolution::FiveMinutes, .. })]
    ));
    let bucket = Bucket {
        timestamp: at(-200),
        open: 1.0,
        high: 4.0,
        low: 0.0,
        close: 2.0,
        volume: 0.0,
        count: 9,
    };
    answered(&mut state, &asked, Rows::Buckets(vec![bucket]));
    assert!(!state.is_line());
    assert_eq!(act(&mut state, Action::Finer, 0).len(), 1);
    assert_eq!(state.chart.resolution(), Resolution::Raw);
}

#[test]
fn a_finished_bucket_is_reloaded() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(Vec::new()));
    let asked = act(&mut state, Action::Coarser, 0);
    answered(&mut state, &asked, Rows::Buckets(Vec::new()));
    assert_eq!(streamed(&mut state, vec![row(0, 1.0)]), [], "the first bucket is only opened");
    assert_eq!(streamed(&mut state, vec![row(10, 1.0)]), []);
    let asked = streamed(&mut state, vec![row(400, 1.0)]);
    assert!(matches!(asked[..], [Effect::LoadRows(query)] if query.limit.get() == BUCKETS_AGAIN));
}

#[test]
fn the_crosshair_stays_on_its_candle_while_rows_come() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw((0..2_000).rev().map(|s| row(s, 1.0)).collect()));
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
fn older_rows_are_loaded_near_the_oldest_one() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw((0..10).rev().map(|s| row(s, 1.0)).collect()));
    let asked = act(&mut state, Action::Earlier, 0);
    let [Effect::LoadRows(query)] = asked[..] else { panic!("{asked:?}") };
    let (start, end) = (query.start.unwrap(), query.end.unwrap());
    assert!(end < at(0) && end.since(start) <= Resolution::Raw.span_max().unwrap());
    assert_eq!(act(&mut state, Action::Earlier, 0), [], "one answer is awaited");
    answered(&mut state, &asked, Rows::Raw(Vec::new()));
    assert_eq!(act(&mut state, Action::Earlier, 0), [], "there is nothing older");
}

#[test]
fn listed_datasets_are_read_in_turn_for_sparklines() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(1, 1.0)]));
    let asked = effects_of(&mut state, |state| state.on_timer(Timer::Rows, at(2)));
    assert!(matches!(asked[0], Effect::LoadRows(RowsQuery { dataset, .. }) if dataset == id(2)));
    assert!(matches!(asked[1], Effect::SetTimer(Timer::Rows, _)));
    answered(&mut state, &asked, Rows::Raw(vec![row(2, 8.0), row(1, 7.0)]));
    assert_eq!(state.sparklines[&id(2)].values().collect::<Vec<_>>(), [7.0, 8.0]);
    assert_eq!(closes(&state), [1.0], "the chart is of another one");
}

#[test]
fn the_selection_follows_the_dataset() {
    let (mut state, _) = opened();
    state.act(Action::Down, at(0));
    assert_eq!(state.selected, Some(id(2)));
    let effects = found(&mut state, &[dataset(9, "new"), dataset(1, "cpu"), dataset(2, "market")]);
    assert_eq!((state.selected, effects), (Some(id(2)), Vec::new()));
    state.click(Target::Row { pane: Pane::List.number(), row: 0 }, at(0));
    assert_eq!(state.selected, Some(id(9)));
}

#[test]
fn a_search_runs_on_each_edit_and_drops_older_answers() {
    let (mut state, _) = opened();
    state.act(Action::Filter, at(0));
    state.field().unwrap().press(Chord::named("m").unwrap());
    assert_eq!(
        effects_of(&mut state, |state| state.edited(at(0))),
        [Effect::LoadDatasets(DatasetSearch::Text("m".to_owned()))]
    );
    let result = Ok(page(&[dataset(1, "cpu")]));
    state.on(DataEvent::Datasets { search: DatasetSearch::ALL, result }, at(0));
    assert_eq!(state.list().len(), 2, "an answer to another search");
    found(&mut state, &[dataset(2, "market")]);
    assert_eq!(state.list().len(), 1);
    assert!(state.back());
    assert_eq!(
        effects_of(&mut state, |state| state.reload_after_search(at(2))),
        [Effect::LoadDatasets(DatasetSearch::ALL)]
    );
    assert_eq!(effects_of(&mut state, |state| state.reload_after_search(at(2))), []);
}

#[test]
fn a_failed_reload_keeps_the_old_data() {
    let (mut state, effects) = opened();
    answered(&mut state, &effects, Rows::Raw(vec![row(1, 1.0)]));
    let asked = act(&mut state, Action::Refresh, 5);
    let query = rows_query(&asked);
    state.on(DataEvent::Rows { query, result: Err(Failure::default()) }, at(6));
    assert_eq!((closes(&state), state.rows.note(at(9)).as_str()), (vec![1.0], "stale 9s"));
}

#[test]
fn columns_that_contradict_the_guess_reload_the_rows() {
    let (mut state, effects) = opened();
    let values =
        BTreeMap::from([("a".to_owned(), Value::Float(1.0)), ("b".to_owned(), Value::Float(2.0))]);
    let rows = vec![NamedRow { timestamp: at(1), values }];
    answered(&mut state, &effects, Rows::Raw(rows.clone()));
    assert_eq!(closes(&state), [1.0]);
    let column = |number, name: &str| Column {
        id: number,
        dataset_id: id(1),
        name: name.to_owned(),
        dtype: Dtype::Float,
        created_at: at(0),
    };
    let result = Ok(vec![column(1, "b"), column(2, "a")]);
    let asked = take(&mut state, DataEvent::Columns { dataset: id(1), result }, 0);
    answered(&mut state, &asked, Rows::Raw(rows));
    assert_eq!(closes(&state), [2.0]);
}

#[test]
fn the_public_tag_is_acquired_and_the_list_read_again() {
    let (mut state, _) = opened();
    let want = Effect::AcquireTag { tag: "public".to_owned() };
    assert_eq!(act(&mut state, Action::AcquireTag, 0), [want]);
    let event = DataEvent::Acquired { tag: "public".to_owned(), result: Ok(Acquired::Already) };
    assert!(matches!(take(&mut state, event, 1)[..], [Effect::LoadDatasets { .. }]));
}
