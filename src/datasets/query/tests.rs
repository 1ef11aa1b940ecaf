//! Tests of the spans, the errors and the links of queries.

use super::params::*;
use super::*;

/// Current time of the tests, a minute after the latest row.
const NOW: &str = "2026-07-30T12:00:00Z";
const NEWEST: &str = "2026-07-30T11:59:00Z";

fn params(query: &str) -> Params {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    Params(
        pairs
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(k, v)| (k.into(), v.into()))
            .collect(),
    )
}

#[track_caller]
fn check(query: &str, want: Result<(&str, &str), &str>) {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let span = params(&format!("dataset=3&{query}"))
        .rows()
        .and_then(|query| query.span(Some(at(NEWEST)), at(NOW), Resolution::Raw.span_max()));
    let want = want.map(|(first, last)| Span { first: at(first), last: at(last) });
    assert_eq!(span.map_err(|error| error.to_string()), want.map_err(str::to_owned), "{query}");
}

#[test]
fn default_time_range_ends_at_the_newest_row() {
    check("", Ok(("2026-07-29T11:59:00.000001Z", NEWEST)));
    check("resolution=5m", Ok(("2026-07-23T11:59:00.000001Z", NEWEST)));
    check("resolution=1h", Ok(("2026-05-01T11:59:00.000001Z", NEWEST)));
    check("resolution=1d", Ok(("-009999-01-02T01:59:59Z", "9999-12-30T21:59:59.999999Z")));
}

#[test]
fn end_of_the_range_is_included_for_rows_and_excluded_for_buckets() {
    let day = "start=2026-07-29T00:00:00Z&end=2026-07-30T00:00:00Z";
    check(day, Ok(("2026-07-29T00:00:00Z", "2026-07-30T00:00:00Z")));
    let hours = format!("{day}&resolution=1h");
    check(&hours, Ok(("2026-07-29T00:00:00Z", "2026-07-29T23:59:59.999999Z")));
}

#[test]
fn bounds_finer_than_a_microsecond_select_no_row_outside_of_them() {
    let fine = "start=2026-07-29T00:00:00.123456001Z&end=2026-07-29T01:00:00.1234569Z";
    check(fine, Ok(("2026-07-29T00:00:00.123457Z", "2026-07-29T01:00:00.123456Z")));
    let exact = "start=2026-07-29T00:00:00.123456000Z&end=2026-07-29T01:00:00Z";
    check(exact, Ok(("2026-07-29T00:00:00.123456Z", "2026-07-29T01:00:00Z")));
    let early = "start=1969-12-31T23:59:59.1234561Z&end=1969-12-31T23:59:59.9999999Z";
    check(early, Ok(("1969-12-31T23:59:59.123457Z", "1969-12-31T23:59:59.999999Z")));
    let after =
        "start=2026-07-29T00:00:00Z&end=2026-07-29T01:00:00Z&after=2026-07-29T00:30:00.0000001Z";
    check(after, Ok(("2026-07-29T00:30:00.000001Z", "2026-07-29T01:00:00Z")));
    let before = format!("{after}&ordering=-timestamp");
    check(&before, Ok(("2026-07-29T00:00:00Z", "2026-07-29T00:30:00Z")));
}

#[test]
fn time_range_can_exceed_its_maximum_by_at_most_a_minute() {
    let cap = "time range exceeds maximum of 24h0m0s for resolution=raw; use a coarser resolution";
    check("start=2026-07-29T00:00:00Z&end=2026-07-30T00:01:01Z", Err(cap));
    let slack = "2026-07-30T00:01:00Z";
    check(&format!("start=2026-07-29T00:00:00Z&end={slack}"), Ok(("2026-07-29T00:00:00Z", slack)));
    let wide = "start=2026-07-01T00:00:00Z&end=2026-07-30T00:00:00Z&resolution=5m";
    check(
        wide,
        Err("time range exceeds maximum of 168h0m0s for resolution=5m; use a coarser resolution"),
    );
    let wider = "start=2026-01-01T00:00:00Z&end=2026-07-30T00:00:00Z&resolution=1h";
    check(
        wider,
        Err("time range exceeds maximum of 2160h0m0s for resolution=1h; use a coarser resolution"),
    );
    let widest = "start=0001-01-01T00:00:00Z&end=2026-07-30T00:00:00Z&resolution=30d";
    check(
        widest,
        Err(
            "time range exceeds maximum of 1451520h0m0s for resolution=30d; use a shorter time range",
        ),
    );
    check("start=2020-01-01T00:00:00Z", Ok(("2020-01-01T00:00:00Z", "9999-12-30T22:00:00Z")));
}

#[test]
fn cursor_replaces_a_bound_that_it_has_passed() {
    let cursor = "after=2020-01-01T00:00:00Z";
    check(cursor, Ok(("2020-01-01T00:00:00.000001Z", "9999-12-30T22:00:00Z")));
    let back = format!("{cursor}&ordering=-timestamp&start=2019-01-01T00:00:00Z");
    check(&back, Ok(("2019-01-01T00:00:00Z", "2019-12-31T23:59:59.999999Z")));
}

#[test]
fn invalid_parameter_is_reported_by_name() {
    check("limit=0", Err("limit must be an integer of at least 1"));
    check("after=2020-01-01T00:00:00Z&offset=1", Err("after and offset exclude each other"));
    check("limit=many", Err("limit must be an integer of at least 1"));
    check("limit=-1", Err("limit must be an integer of at least 1"));
    check("offset=-1", Err("offset must be an integer of at least 0"));
    let wanted = "resolution must be raw, or a length of up to 30 days such as 45s, 5m, 1h or 1d";
    check("resolution=2x", Err(wanted));
    check("ordering=close", Err("ordering must be timestamp or -timestamp"));
    check("start=today", Err("start must be an RFC 3339 timestamp such as 2026-07-30T21:57:00Z"));
    check(
        "start=2026-07-30T00:00:00Z&end=2026-07-29T00:00:00Z",
        Err("start must not be after end"),
    );
    check(
        "start=2026-07-30T00:00:00.0000005Z&end=2026-07-30T00:00:00.0000009Z",
        Err("no microsecond is between start and end"),
    );
    let nothing = params("limit=3").rows().unwrap_err();
    assert_eq!(nothing.to_string(), "one of dataset or dataset_name is required");
    let twice = params("dataset=1&dataset_name=a").dataset().unwrap_err();
    assert_eq!(twice.to_string(), "dataset and dataset_name exclude each other");
    let number = params("dataset=x").rows().unwrap_err();
    assert_eq!(number.to_string(), "dataset must be a positive integer");
}

#[test]
fn page_limit_has_a_default_and_a_maximum() {
    let limit = |query: &str| params(query).rows().unwrap().limit.get();
    assert_eq!((limit("dataset=3"), limit("dataset=3&limit=99999")), (250, 10_000));
    assert_eq!(params("dataset=3").live().unwrap().0.limit.get(), 100);
}

#[test]
fn unescaped_plus_sign_of_a_utc_offset_is_accepted() {
    check(
        "after=2020-01-01T02:00:00 02:00&start=2020-01-01T00:00:00Z",
        Ok(("2020-01-01T00:00:00.000001Z", "9999-12-30T22:00:00Z")),
    );
}

#[test]
fn time_on_the_last_day_of_the_calendar_is_parsed_as_the_maximum() {
    let end = |query: &str| params(query).rows().map(|query| query.bounds.end);
    assert_eq!(end("dataset=1&end=9999-12-31T23:59:59.999Z"), Ok(Some(Timestamp::MAX)));
    assert!(end("dataset=1&end=9999-12-31T25:00:00Z").is_err());
    assert!(end("dataset=1&end=9999-12-31").is_err());
}

#[test]
fn next_link_has_the_same_form_as_upstream() {
    let page = params("dataset_name=tiingo_btcusd_1min&resolution=1h&limit=3&ordering=-timestamp");
    assert_eq!(
        link_at_offset("/api/rows/", &page, 3),
        "/api/rows/?dataset_name=tiingo_btcusd_1min&limit=3&offset=3&ordering=-timestamp&resolution=1h"
    );
    let limit = Limit::clamp(3);
    let before = |offset| link_before("/api/rows/", &page, offset, limit);
    assert_eq!(before(0), None);
    assert!(before(2).unwrap().contains("&offset=0&"));
    assert!(before(9).unwrap().contains("&offset=6&"));
    let page =
        params("after=2026-07-30T21:55:00Z&dataset_name=a b&limit=2&ordering=timestamp&offset=7");
    assert_eq!(
        link_after("/api/rows/", &page, "2026-07-30T21:57:00Z".parse().unwrap()),
        "/api/rows/?after=2026-07-30T21%3A57%3A00Z&dataset_name=a+b&limit=2&ordering=timestamp"
    );
}
