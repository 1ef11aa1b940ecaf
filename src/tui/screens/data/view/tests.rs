mod compare;
mod forecast;
mod mouse;

use std::collections::BTreeMap;
use std::time::Duration;

use model::dataset::{Dataset, DatasetId, Dtype};
use model::resolution::Resolution;
use model::row::{Bucket, Value};
use model::timestamp::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::event::{
    DataEvent, DatasetSearch, Effect, ExportNews, ExportSize, NamedRow, Rows, RowsPage, StreamEvent,
};
use crate::harness::{self, noise};
use crate::keymap::Action;
use crate::screens::Screen;
use crate::screens::data::state::live::RANGES;
use crate::screens::update::on_data;
use crate::state;
use crate::state::overlay::Overlay;
use crate::state::resource::Failure;
use crate::theme::depth::Depth;
use crate::theme::{self, Theme};
use crate::view::Hits;

const NOW: &str = "2026-11-20T14:02:31Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// Returns the effects that `act` requests.
fn effects_of(state: &mut state::State, act: impl FnOnce(&mut state::State)) -> Vec<Effect> {
    state.data.effects.clear();
    act(state);
    std::mem::take(&mut state.data.effects)
}

fn id(number: i64) -> DatasetId {
    DatasetId::new(number).unwrap()
}

fn dataset(number: i64, name: &str, source: &str, frequency: &str) -> Dataset {
    let metadata = [("source", source), ("frequency", frequency)];
    Dataset {
        description: format!("what {name} does"),
        metadata: metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        created_at: "2026-11-01T08:00:00Z".parse().unwrap(),
        updated_at: now() - Duration::from_secs(2),
        ..harness::dataset(number, name, now())
    }
}

/// Returns bars for consecutive minutes, oldest first.
fn bars(n: u32, seed: u64, start: f64) -> Vec<NamedRow> {
    let (mut seed, mut price) = (seed, start);
    let first = Resolution::FiveMinutes.bucket_start(now()) - Duration::from_mins(1) * n;
    (0..n)
        .map(|idx| {
            let open = price;
            let ticks: Vec<f64> = (0..6)
                .map(|_| {
                    price += (noise(&mut seed) - 0.5) * start / 1_500.0;
                    price
                })
                .collect();
            let high = ticks.iter().copied().fold(open, f64::max);
            let low = ticks.iter().copied().fold(open, f64::min);
            let volume = 1.0 + 40.0 * noise(&mut seed).powi(4);
            let values = [
                ("open", open),
                ("high", high),
                ("low", low),
                ("close", price),
                ("volume", volume),
            ]
            .map(|(name, value)| (name.to_owned(), Value::Float((value * 100.0).round() / 100.0)));
            NamedRow {
                timestamp: first + Duration::from_mins(1) * (idx + 1),
                values: values.into(),
            }
        })
        .collect()
}

/// Returns load values for consecutive seconds, oldest first.
fn loads(n: u32, seed: u64) -> Vec<NamedRow> {
    let (mut seed, mut load) = (seed, 30.0_f64);
    (0..n)
        .map(|idx| {
            load = (load + (noise(&mut seed) - 0.5) * 9.0).clamp(1.0, 99.0);
            let values = BTreeMap::from([
                ("load_percent".to_owned(), Value::Float((load * 10.0).round() / 10.0)),
                ("n_cores".to_owned(), Value::Integer(2)),
            ]);
            NamedRow { timestamp: now() - Duration::from_secs(1) * (n - idx), values }
        })
        .collect()
}

fn query(effects: &[Effect]) -> crate::event::RowsQuery {
    let rows = effects.iter().find_map(|effect| match effect {
        Effect::LoadRows(query) => Some(*query),
        _ => None,
    });
    rows.expect("rows are requested")
}

fn give(state: &mut state::State, effects: &[Effect], rows: Rows) {
    let query = query(effects);
    let page = RowsPage { rows, next: None, count: None };
    state.data.on(DataEvent::Rows { query, result: Ok(page) }, now());
}

fn newest_first(mut rows: Vec<NamedRow>) -> Rows {
    rows.reverse();
    Rows::Raw(rows)
}

/// Returns the Data screen before the service responds.
fn blank() -> state::State {
    let mut state = state::State {
        screen: Screen::Data,
        now: now(),
        size: (120, 30),
        ..state::State::default()
    };
    state.data.show();
    state.data.connect(true);
    state
}
/// Returns the event for a list of datasets.
fn found(datasets: Vec<Dataset>) -> DataEvent {
    DataEvent::Datasets { search: DatasetSearch::ALL, result: Ok(harness::datasets(datasets)) }
}
/// Returns the Data screen with four datasets. The one called `name` is selected, with its rows
/// and its stream.
fn opened(name: &str) -> state::State {
    let mut state = blank();
    let mut datasets = vec![
        dataset(1, "synthetic-btc", "synthetic", "1m"),
        dataset(2, "cpu", "machine", "1s"),
        dataset(3, "memory", "machine", "1s"),
        dataset(4, "synthetic-eth-perpetual-swap", "synthetic", "1m"),
    ];
    datasets.sort_by_key(|dataset| dataset.name != name);
    let effects = effects_of(&mut state, |state| state.data.on(found(datasets.clone()), now()));
    let columns: &[(&str, Dtype)] = match name {
        "cpu" => &[("load_percent", Dtype::Float), ("n_cores", Dtype::Integer)],
        _ => &["open", "high", "low", "close", "volume"].map(|name| (name, Dtype::Float)),
    };
    let result = Ok(harness::columns(datasets[0].id, columns));
    state.data.on(DataEvent::Columns { dataset: datasets[0].id, result }, now());
    let mut rows =
        if name == "cpu" { loads(700, 5) } else { bars(1_200, 7, 67_431.0).split_off(900) };
    let live = rows.split_off(rows.len() - 3);
    give(&mut state, &effects, newest_first(rows));
    let stream = |news| DataEvent::Stream { dataset: datasets[0].id, news };
    state.data.on(stream(StreamEvent::Connected), now() - Duration::from_secs(2));
    state.data.on(stream(StreamEvent::Item(live)), now() - Duration::from_secs(2));
    for seed in 0..3 {
        let effects =
            effects_of(&mut state, |state| state.data.on_timer(crate::event::Timer::Rows, now()));
        let rows = match query(&effects).dataset.get() {
            1 => bars(1_200, 7, 67_431.0).split_off(1_136),
            4 => bars(64, seed, 3_120.0),
            _ => loads(64, seed),
        };
        give(&mut state, &effects, newest_first(rows));
    }
    state
}

/// Selects five-minute buckets and adds two weeks of them.
fn with_buckets(mut state: state::State) -> state::State {
    let effects = effects_of(&mut state, |state| state.data.act(Action::Coarser, now()));
    let fold = |bars: &[NamedRow]| {
        let number = |row: &NamedRow, name: &str| row.values[name].as_f64().unwrap();
        let highs = bars.iter().map(|row| number(row, "high"));
        let lows = bars.iter().map(|row| number(row, "low"));
        Bucket {
            timestamp: Resolution::FiveMinutes.bucket_start(bars[0].timestamp),
            open: number(&bars[0], "open"),
            high: highs.fold(f64::MIN, f64::max),
            low: lows.fold(f64::MAX, f64::min),
            close: number(&bars[bars.len() - 1], "close"),
            volume: bars.iter().map(|row| number(row, "volume")).sum(),
            count: bars.len() as u64,
        }
    };
    let mut bars = bars(1_200, 7, 67_431.0);
    bars.pop();
    let mut buckets: Vec<_> = bars
        .chunk_by(|one, other| {
            let start = |row: &NamedRow| Resolution::FiveMinutes.bucket_start(row.timestamp);
            start(one) == start(other)
        })
        .map(fold)
        .collect();
    buckets.reverse();
    give(&mut state, &effects, Rows::Buckets(buckets));
    state
}

/// Shows the table of rows, with a selection some rows down.
fn with_table(mut state: state::State) -> state::State {
    let mut asked = effects_of(&mut state, |state| state.data.act(Action::RowsTable, now()));
    let mut rows = bars(1_200, 7, 67_431.0);
    rows.reverse();
    while let Some(Effect::LoadTable(query)) = asked.first() {
        let is_wanted = |row: &&NamedRow| query.end.is_none_or(|end| row.timestamp <= end);
        let page: Vec<_> = rows.iter().filter(is_wanted).take(query.limit.get()).cloned().collect();
        let result = Ok(RowsPage { rows: Rows::Raw(page), next: None, count: None });
        asked = effects_of(&mut state, |state| {
            state.data.on(DataEvent::Table { query: *query, result }, now());
        });
    }
    for _ in 0..8 {
        state.data.act(Action::PageDown, now());
    }
    state
}

fn drawn(state: &state::State, width: u16, height: u16, name: theme::Name) -> Buffer {
    harness::drawn_by(draw, state, (width, height), &Theme::new(name, Depth::TrueColor)).0
}
/// Returns the text of the screen.
fn text(state: &state::State, width: u16, height: u16) -> String {
    harness::framed_text(&drawn(state, width, height, theme::Name::Dark))
}

#[track_caller]
fn check(name: &str, state: &state::State, width: u16, height: u16) {
    insta::assert_snapshot!(name, text(state, width, height));
}

#[test]
fn export_whose_file_cannot_be_created_asks_for_another_path() {
    let mut state = opened("cpu");
    (state.screen, state.data.is_shown) = (Screen::Data, true);
    let is_asked = |state: &mut state::State, news| {
        state.overlays.clear();
        on_data(state, DataEvent::Export(news));
        matches!(state.overlays.last(), Some(Overlay::Form(form)) if form.value("file") == "/x/cpu.csv")
    };
    state.data.begin_export("/x/cpu.csv", RANGES[1]);
    let failed = |number| {
        let failure = Failure::new("export", "no such file", "");
        ExportNews::NotCreated { dataset: id(number), failure }
    };
    let shown = state.data.selected.unwrap();
    assert!(is_asked(&mut state, failed(shown.get())));
    assert!(!is_asked(&mut state, failed(3)), "another dataset is selected now");
    let refused = ExportNews::Failed(Failure::new("export", "status 403", ""));
    assert!(!is_asked(&mut state, refused), "another path does not help");
    state.data.is_shown = false;
    assert!(!is_asked(&mut state, failed(shown.get())), "another screen is shown now");
}

#[test]
fn candles_are_drawn_at_three_sizes() {
    let mut state = with_buckets(opened("synthetic-btc"));
    check("data_58x14", &state, 58, 14);
    state.data.act(Action::NextPane, now());
    check("data_80x22", &state, 80, 22);
    for _ in 0..20 {
        state.data.act(Action::Earlier, now());
    }
    check("data_160x43", &state, 160, 43);
}

#[test]
fn latest_value_is_hidden_while_the_chart_shows_the_past() {
    let mut state = with_buckets(opened("synthetic-btc"));
    state.data.act(Action::NextPane, now());
    assert!(text(&state, 120, 30).contains("bucket open"));
    for _ in 0..120 {
        state.data.act(Action::Earlier, now());
    }
    check("data_history_120x30", &state, 120, 30);
}

#[test]
fn bucket_is_open_until_its_end_also_if_its_rows_arrive_later() {
    let mut state = with_buckets(opened("synthetic-btc"));
    assert!(text(&state, 120, 30).contains("14:00 bucket open"));
    state.now = "2026-11-20T14:05:10Z".parse().unwrap();
    let mut row = bars(1, 7, 67_431.0).remove(0);
    row.timestamp = "2026-11-20T14:01:00Z".parse().unwrap();
    let news = StreamEvent::Item(vec![row]);
    state.data.on(DataEvent::Stream { dataset: id(1), news }, state.now);
    let text = text(&state, 120, 30);
    assert!(text.contains("live") && !text.contains("bucket open"), "{text}");
}

/// Returns the Data screen with a single dataset that has these columns and rows, latest row
/// first.
fn of_columns(columns: &[(&str, Dtype)], rows: Vec<NamedRow>) -> state::State {
    let mut state = blank();
    let found = found(vec![dataset(1, "states", "imported", "1m")]);
    let effects = effects_of(&mut state, |state| state.data.on(found, now()));
    let result = Ok(harness::columns(id(1), columns));
    state.data.on(DataEvent::Columns { dataset: id(1), result }, now());
    give(&mut state, &effects, newest_first(rows));
    state
}

#[test]
fn texts_of_a_dataset_are_shown_in_list_chart_and_tape() {
    let rows = ["up", "down", "up"].into_iter().zip(0_u32..).map(|(text, idx)| NamedRow {
        timestamp: now() - Duration::from_mins(1) * (5 - idx),
        values: BTreeMap::from([
            ("ok".to_owned(), Value::Boolean(text == "up")),
            ("state".to_owned(), Value::String(text.to_owned())),
        ]),
    });
    let columns = [("state", Dtype::String), ("ok", Dtype::Boolean)];
    check("data_texts_120x30", &of_columns(&columns, rows.collect()), 120, 30);
}

#[test]
fn chart_of_a_column_without_values_names_the_column() {
    let rows = (0..3_u32).map(|idx| NamedRow {
        timestamp: now() - Duration::from_mins(1) * (3 - idx),
        values: BTreeMap::from([("price".to_owned(), Value::Float(1.5))]),
    });
    let state = of_columns(&[("close", Dtype::Float), ("price", Dtype::Float)], rows.collect());
    let shown = text(&state, 120, 30);
    assert!(shown.contains("the latest rows have no values in column close"), "{shown}");
}

#[test]
fn long_column_name_leaves_room_for_its_values() {
    let name = "x".repeat(200);
    let rows = (0..3_u32).map(|idx| NamedRow {
        timestamp: now() - Duration::from_mins(1) * (5 - idx),
        values: BTreeMap::from([(name.clone(), Value::Float(1.25 + f64::from(idx)))]),
    });
    let state = of_columns(&[(&name, Dtype::Float)], rows.collect());
    let shown = text(&state, 120, 30);
    let head = shown.lines().find(|line| line.contains("xxx… 3.25")).unwrap_or_default();
    assert!(head.contains("▲ +2.00") && head.contains("H 3.25"), "{shown}");
}

#[test]
fn values_without_open_high_low_and_close_are_drawn_as_a_line() {
    check("data_line_120x30", &opened("cpu"), 120, 30);
}

#[test]
fn rows_are_drawn_as_a_table() {
    check("data_table_120x30", &with_table(opened("synthetic-btc")), 120, 30);
}

#[test]
fn loading_empty_stale_failed_and_paused_screens_are_drawn() {
    let failure = |why: &str| Failure {
        what: "list the datasets".to_owned(),
        why: why.to_owned(),
        next: "is it running?".to_owned(),
        ..Failure::default()
    };
    let with = |event| {
        let mut state = blank();
        state.data.on(event, now());
        state
    };
    let refused = Err(failure("connection refused"));
    let refused = DataEvent::Datasets { search: DatasetSearch::ALL, result: refused };
    let mut stale = with_buckets(opened("synthetic-btc"));
    let effects = effects_of(&mut stale, |state| state.data.act(Action::Refresh, now()));
    let rows = DataEvent::Rows { query: query(&effects), result: Err(failure("it broke")) };
    stale.data.on(rows, now());
    let news = StreamEvent::Lost { why: failure("it broke"), retry_in: Duration::from_secs(2) };
    stale.data.on(DataEvent::Stream { dataset: id(1), news }, now());
    stale.data.pane = Pane::Chart;
    let mut pinned = opened("synthetic-btc");
    pinned.data.act(Action::Pin, now());
    pinned.data.act(Action::Indicators, now());
    let mut paused = opened("cpu");
    paused.data.act(Action::Pause, now());
    paused.data.export.progress = Some(ExportSize::default());
    let states = vec![
        ("loading", blank()),
        ("empty", with(found(Vec::new()))),
        ("pinned", pinned),
        ("stale", stale),
        ("failed", with(refused)),
        ("paused_export", paused),
    ];
    for (name, state) in states {
        check(&format!("data_{name}"), &state, 160, 43);
    }
}

#[test]
fn dataset_row_is_clickable_where_it_is_drawn() {
    let theme = Theme::new(theme::Name::Mono, Depth::None);
    let (buf, hits) = harness::drawn_by(draw, &opened("synthetic-btc"), (160, 43), &theme);
    let row = buf.area.positions().find(|place| {
        let x = |n| buf.cell((place.x + n, place.y)).map_or("", |cell| cell.symbol());
        (x(0), x(1), x(2)) == ("m", "e", "m")
    });
    let row = row.unwrap();
    assert_eq!(hits.target_at(row.x, row.y), Some(Target::Row { pane: 0, row: 2 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn data_screen_is_drawn_at_any_size_without_panic(
        (width, height) in (0..200u16, 0..60u16),
        name in prop::sample::select(vec!["cpu", "synthetic-btc"]),
        keys in prop::collection::vec(prop::sample::select(vec![
            Action::NextPane, Action::ZoomOut, Action::ZoomIn, Action::Earlier, Action::Down,
            Action::NextChart, Action::RowsTable, Action::Indicators, Action::Filter, Action::Pause,
            Action::Coarser, Action::Finer, Action::MetadataFilter, Action::Pin, Action::Export,
            Action::Open, Action::Compare,
        ]), 0..12),
        is_zoomed in any::<bool>(),
    ) {
        let mut state = opened(name);
        state.is_zoomed = is_zoomed;
        for key in keys {
            state.data.act(key, now());
        }
        drawn(&state, width, height, theme::Name::Dark);
    }

    #[test]
    fn data_screen_is_drawn_with_any_data_without_panic(
        (width, height) in (1..170u16, 1..50u16),
        values in prop::collection::vec(prop::num::f64::ANY, 0..40),
        name in "\\PC{0,24}",
        keys in prop::collection::vec(prop::sample::select(vec![
            Action::NextChart, Action::RowsTable, Action::Indicators, Action::Pin, Action::Earlier,
            Action::ZoomIn, Action::ZoomOut, Action::Open, Action::Compare,
        ]), 0..6),
    ) {
        let mut state = blank();
        let found = found(vec![dataset(1, &name, &name, "1m")]);
        let effects = effects_of(&mut state, |state| state.data.on(found, now()));
        let row = |(idx, value): (u32, &f64)| NamedRow {
            timestamp: now() - Duration::from_mins(1) * idx,
            values: BTreeMap::from([
                (name.clone(), Value::Float(*value)),
                ("text".to_owned(), Value::String(name.clone())),
            ]),
        };
        let rows: Vec<_> = (0..).zip(&values).map(row).collect();
        give(&mut state, &effects, Rows::Raw(rows.clone()));
        for key in keys {
            let asked = effects_of(&mut state, |state| state.data.act(key, now()));
            if let Some(Effect::LoadTable(query)) = asked.first() {
                let result = Ok(RowsPage { rows: Rows::Raw(rows.clone()), next: None, count: None });
                state.data.on(DataEvent::Table { query: *query, result }, now());
            }
        }
        let news = StreamEvent::Item(rows);
        state.data.on(DataEvent::Stream { dataset: id(1), news }, now());
        drawn(&state, width, height, theme::Name::Dark);
    }
}

#[test]
fn gap_between_raw_rows_is_marked_with_its_length() {
    let mut rows = bars(60, 3, 67_000.0);
    for row in rows.iter_mut().take(30) {
        row.timestamp = row.timestamp - Duration::from_hours(6);
    }
    let mut state = opened("synthetic-btc");
    let effects = effects_of(&mut state, |state| state.data.act(Action::Refresh, now()));
    assert!(!text(&state, 160, 43).contains('╎'));
    state.data.chart = crate::screens::data::state::chart::Chart::new(Resolution::Raw);
    give(&mut state, &effects, newest_first(rows));
    let shown = text(&state, 160, 43);
    assert!(shown.contains("╎6h"), "{shown}");
}

#[test]
fn chart_of_percent_is_scaled_from_0_to_100() {
    let mut state = opened("cpu");
    let Some(page) = state.data.datasets.value_mut() else {
        panic!("the list is visible");
    };
    let unit = ("unit".to_owned(), "percent".to_owned());
    page.datasets.iter_mut().find(|it| it.name == "cpu").unwrap().metadata.extend([unit]);
    let shown = text(&state, 160, 43);
    let axis = |label: &str| shown.lines().any(|line| line.ends_with(&format!(" {label} ││")));
    assert!(axis("20") && axis("80"), "{shown}");
    assert!(shown.contains("load_percent ") && shown.contains(" % "), "name and unit:\n{shown}");
}

#[test]
fn chart_shows_the_name_of_the_next_column_when_the_column_changes() {
    let mut state = opened("cpu");
    assert!(text(&state, 160, 43).contains("load_percent "));
    let effects = effects_of(&mut state, |state| state.data.act(Action::NextColumn, now()));
    give(&mut state, &effects, newest_first(loads(300, 9)));
    let shown = text(&state, 160, 43);
    assert!(shown.contains("n_cores 2 "), "a constant has no decimals:\n{shown}");
    state.data.act(Action::Coarser, now());
    assert_eq!(
        state.data.chart.resolution(),
        Resolution::Raw,
        "buckets contain the default column"
    );
    state.data.act(Action::NextColumn, now());
    assert!(state.data.shape().unwrap().value_column() == Some("load_percent"));
}

#[test]
fn columns_are_loaded_again_when_a_row_has_a_new_column() {
    let mut state = opened("cpu");
    let dataset = state.data.selected.unwrap();
    let stream = |rows| DataEvent::Stream { dataset, news: StreamEvent::Item(rows) };
    let asked = |effects: &[Effect]| {
        effects.iter().filter(|it| matches!(it, Effect::LoadColumns { .. })).count()
    };
    let mut row = loads(1, 5).remove(0);
    row.timestamp = now();
    let known = row.clone();
    row.values.insert("iowait".to_owned(), Value::Float(1.5));
    // After the second row, columns are being read.
    for (row, n_asked) in [(known, 0), (row.clone(), 1), (row, 0)] {
        let effects = effects_of(&mut state, |state| state.data.on(stream(vec![row]), now()));
        assert_eq!(asked(&effects), n_asked);
    }
    let effects = effects_of(&mut state, |state| state.data.act(Action::Refresh, now()));
    assert_eq!(asked(&effects), 1, "or after a manual refresh");
}

#[test]
fn numbers_above_a_chart_with_gaps_cover_the_drawn_candles() {
    let mut rows = bars(300, 7, 67_431.0);
    rows.drain(290..294);
    let columns = ["open", "high", "low", "close", "volume"].map(|name| (name, Dtype::Float));
    let mut state = of_columns(&columns, rows);
    state.data.zoom.density = crate::widget::candles::Density::Wide;
    let shown = text(&state, 160, 43);
    let theme = Theme::new(theme::Name::Dark, Depth::TrueColor);
    let (_, hits) = harness::drawn_by(draw, &state, (160, 43), &theme);
    let times = (0..160).filter_map(|x| match hits.target_at(x, 12) {
        Some(Target::Time(time)) => Some(time),
        _ => None,
    });
    let first = state.data.candle_at(times.min().unwrap()).unwrap();
    let open = format!("O {}", format::grouped(first.open, 2));
    assert!(shown.contains(&open), "{open} {shown}");
}

#[test]
fn crosshair_remains_in_view_across_gaps() {
    let rows = (0..).zip(bars(300, 7, 67_431.0)).filter(|(idx, _)| idx % 9 < 6);
    let columns = ["open", "high", "low", "close", "volume"].map(|name| (name, Dtype::Float));
    let mut state = of_columns(&columns, rows.map(|(_, row)| row).collect());
    state.data.zoom.density = crate::widget::candles::Density::Wide;
    let theme = Theme::new(theme::Name::Dark, Depth::TrueColor);
    for _ in 0..40 {
        state.data.act(Action::Earlier, now());
        let (_, hits) = harness::drawn_by(draw, &state, (160, 43), &theme);
        let crosshair = state.data.crosshair.map(Target::Time);
        assert!((0..160).any(|x| hits.target_at(x, 12) == crosshair), "{crosshair:?}");
    }
}

#[test]
fn column_is_not_called_empty_before_its_rows_are_loaded() {
    let mut state = of_columns(&[("close", Dtype::Float), ("open", Dtype::Float)], bars(9, 7, 1.0));
    let news = StreamEvent::Item(bars(9, 7, 1.0));
    state.data.on(DataEvent::Stream { dataset: id(1), news }, now());
    state.data.act(Action::NextColumn, now());
    let shown = text(&state, 120, 30);
    assert!(shown.contains("loading") && !shown.contains("no values in column"), "{shown}");
}
