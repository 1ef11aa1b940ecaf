use std::collections::BTreeMap;
use std::time::Duration;

use model::dataset::DatasetId;
use model::page::Limit;

use crate::harness::flat_candle;
use crate::screens::data::state::rows::*;

const HOUR: i64 = 3_600;

fn at(second: i64) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000 + second)
}

fn row(second: i64) -> NamedRow {
    let values = BTreeMap::from([("value".to_owned(), Value::Integer(second))]);
    NamedRow { timestamp: at(second), values }
}

fn newest() -> RowsQuery {
    RowsQuery::newest(DatasetId::new(1).unwrap(), Resolution::Raw, Limit::clamp(PAGE_ROWS))
}

/// Returns a table that has requested its first page, and the query for it.
fn opened() -> (Table, Option<RowsQuery>) {
    (Table { asked: Some(newest()), ..Table::default() }, Some(newest()))
}

/// Returns the response of a service that has rows at these seconds.
fn answer(rows: &[i64], query: RowsQuery, now: Timestamp) -> RowsPage {
    if query.resolution == Resolution::Day {
        let last =
            rows.iter().rev().map(|second| at(*second)).find(|time| Some(*time) <= query.end);
        let day = last.map(|time| flat_candle(Resolution::Day.bucket_start(time), 0.0));
        return RowsPage {
            rows: Rows::Buckets(day.into_iter().collect()),
            next: None,
            count: None,
        };
    }
    let end = query.end.unwrap_or(now);
    let start = query.start.unwrap_or(end - Duration::from_hours(24));
    assert!(
        end.since(start) <= Resolution::Raw.span_max().unwrap(),
        "the span exceeds the limit of the service"
    );
    let within = rows.iter().filter(|second| (start..=end).contains(&at(**second)));
    let mut found: Vec<_> = within.map(|second| row(*second)).collect();
    if query.order == Order::Descending {
        found.reverse();
    }
    found.truncate(query.limit.get());
    RowsPage { rows: Rows::Raw(found), next: None, count: None }
}

/// Responds to queries of the table until there are no more.
fn served(table: &mut Table, mut query: Option<RowsQuery>, rows: &[i64], now: Timestamp) {
    while let Some(asked) = query {
        let page = answer(rows, asked, now);
        query = table.take(asked, Ok(page), now);
    }
}

fn seconds(table: &Table) -> Vec<i64> {
    let micros = |row: &NamedRow| row.timestamp.since(at(0)).as_secs().cast_signed();
    table.rows.iter().map(micros).collect()
}

#[test]
fn scrolling_down_reads_every_row_once_and_ends_at_the_oldest() {
    let rows: Vec<i64> = (0..3_000).collect();
    let (mut table, query) = opened();
    served(&mut table, query, &rows, at(3_000));
    while !(table.older == OlderRows::Nothing && table.selected_idx() + 1 == table.rows.len()) {
        let query = table.move_by(100, newest());
        served(&mut table, query, &rows, at(3_000));
    }
    assert!(seconds(&table).into_iter().eq((0..3_000).rev()));
}

#[test]
fn gap_longer_than_the_maximum_time_range_is_skipped() {
    let rows = [0, 10, 20, 90 * 24 * HOUR, 90 * 24 * HOUR + 1];
    let (mut table, query) = opened();
    served(&mut table, query, &rows, at(91 * 24 * HOUR));
    for _ in 0..5 {
        let query = table.move_by(1, newest());
        served(&mut table, query, &rows, at(91 * 24 * HOUR));
    }
    assert!(seconds(&table).into_iter().eq(rows.into_iter().rev()));
    assert_eq!(table.older, OlderRows::Nothing);
}

#[test]
fn rows_of_a_dataset_without_recent_rows_are_shown() {
    let (mut table, query) = opened();
    served(&mut table, query, &[0, 10], at(1_000 * 24 * HOUR));
    assert_eq!(seconds(&table), [10, 0]);
}

#[test]
fn newest_rows_are_dropped_when_scrolled_far_down_and_loaded_again_when_scrolled_up() {
    let rows: Vec<i64> = (0..20_000).collect();
    let (mut table, query) = opened();
    served(&mut table, query, &rows, at(20_000));
    for _ in 0..110 {
        let query = table.move_by(100, newest());
        served(&mut table, query, &rows, at(20_000));
        assert!(table.rows.len() <= ROWS_KEPT_MAX);
    }
    assert!(table.has_newer);
    let here = table.chosen;
    table.add_live_rows(&[row(20_000)]);
    assert_eq!(table.chosen, here, "visible rows do not move");
    for _ in 0..120 {
        let query = table.move_by(-100, newest());
        served(&mut table, query, &rows, at(20_000));
    }
    let kept = seconds(&table);
    assert_eq!((kept.first(), table.chosen.is_none()), (Some(&19_999), true));
    assert!(kept.windows(2).all(|pair| pair[0] == pair[1] + 1), "no row is missing or repeated");
}

#[test]
fn live_rows_are_inserted_first_and_corrections_replace_their_rows() {
    let (mut table, query) = opened();
    served(&mut table, query, &[1, 2, 3], at(4));
    let query = table.move_by(1, newest());
    served(&mut table, query, &[1, 2, 3], at(4));
    let mut corrected = row(2);
    corrected.values.insert("value".to_owned(), Value::Integer(99));
    table.add_live_rows(&[row(4), corrected]);
    assert_eq!(seconds(&table), [4, 3, 2, 1]);
    assert_eq!(table.rows[2].values["value"], Value::Integer(99));
    assert_eq!(table.selected_idx(), 2, "the selected row has the same timestamp at another index");
}

#[test]
fn live_rows_during_a_request_are_added_after_its_page() {
    let (mut table, query) = opened();
    table.add_live_rows(&[row(4)]);
    served(&mut table, query, &[1, 2, 3], at(4));
    assert_eq!(seconds(&table), [4, 3, 2, 1]);
    let rows: Vec<i64> = (-10_000..5).collect();
    let query = table.move_by(3, newest());
    let more: Vec<_> = (5..).take(ROWS_KEPT_MAX).map(row).collect();
    table.add_live_rows(&more);
    served(&mut table, query, &rows, at(5));
    let kept = seconds(&table);
    assert!(kept.windows(2).all(|pair| pair[0] == pair[1] + 1), "no row is missing: {kept:?}");
}

#[test]
fn first_row_of_an_empty_dataset_is_added() {
    let (mut table, query) = opened();
    served(&mut table, query, &[], at(4));
    assert_eq!(table.older, OlderRows::Nothing);
    table.add_live_rows(&[row(4)]);
    table.add_live_rows(&[row(6), row(5)]);
    assert_eq!(seconds(&table), [6, 5, 4]);
}
