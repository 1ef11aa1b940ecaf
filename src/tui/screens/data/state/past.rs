//! Reading further into the past than one query may span.
//!
//! A service answers a query only within the span that its resolution allows, so that a page with
//! nothing in it is not the end of the data. Days have no such limit: whether there is a day with
//! rows before the span tells the truth, and where to go on.

use std::time::Duration;

use model::{page::Limit, resolution::Resolution, timestamp::Timestamp};

use crate::event::{Order, Rows, RowsQuery};

/// The smallest step between timestamps.
const STEP: Duration = Duration::from_micros(1);

/// Whether there are rows before the oldest one read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum OlderRows {
    /// There may be older rows.
    #[default]
    Unknown,
    /// Not in the span of this query; days before it are asked for.
    Probing(RowsQuery),
    /// There are no older rows.
    Nothing,
}

impl OlderRows {
    /// Searches before the span of `searched`, in which there is nothing; returns the query for that.
    pub(crate) fn probe(&mut self, searched: RowsQuery) -> Option<RowsQuery> {
        let probe = probe_query(&searched);
        *self = if probe.is_some() { Self::Probing(searched) } else { Self::Nothing };
        probe
    }

    /// The query whose span was searched in vain, if `query` probes what is before it.
    pub(crate) fn searched_before(&self, query: &RowsQuery) -> Option<RowsQuery> {
        let Self::Probing(searched) = self else { return None };
        (probe_query(searched).as_ref() == Some(query)).then_some(*searched)
    }

    /// Takes what a probe found; returns the query that goes on there, if there is anything.
    pub(crate) fn take_probe(&mut self, searched: &RowsQuery, rows: &Rows) -> Option<RowsQuery> {
        let next = next_query(searched, rows);
        *self = if next.is_some() { Self::Unknown } else { Self::Nothing };
        next
    }
}

/// As `query`, for the newest rows before `time`, as far back as the resolution allows.
pub(crate) fn query_before(query: RowsQuery, time: Timestamp) -> RowsQuery {
    let end = time - STEP;
    let start = query.resolution.span_max().map(|span| end - span);
    RowsQuery { start, end: Some(end), order: Order::Descending, ..query }
}

/// As `query`, for the oldest rows after `time`.
pub(crate) fn query_after(query: RowsQuery, time: Timestamp) -> RowsQuery {
    let start = time + STEP;
    let end = query.resolution.span_max().map(|span| start + span);
    RowsQuery { start: Some(start), end, order: Order::Ascending, ..query }
}

/// The query for the newest day before the span of `searched`; none where that had no beginning.
fn probe_query(searched: &RowsQuery) -> Option<RowsQuery> {
    let end = searched.start? - STEP;
    let newest = RowsQuery::newest(searched.dataset, Resolution::Day, Limit::clamp(1));
    Some(RowsQuery { end: Some(end), ..newest })
}

/// The query that goes on where [`probe_query`] found a day; none where it found none.
fn next_query(searched: &RowsQuery, found: &Rows) -> Option<RowsQuery> {
    let Rows::Buckets(days) = found else { return None };
    let end = days.first()?.timestamp + Resolution::Day.bucket()?;
    let time = searched.start.map_or(end, |start| start.min(end));
    Some(query_before(*searched, time))
}

#[cfg(test)]
mod tests {
    use model::{dataset::DatasetId, row::Bucket};

    use super::*;

    fn timestamp(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    fn newest(resolution: Resolution) -> RowsQuery {
        RowsQuery::newest(DatasetId::new(1).unwrap(), resolution, Limit::clamp(10))
    }

    fn day(second: i64) -> Bucket {
        let timestamp = timestamp(second);
        Bucket { timestamp, open: 1.0, high: 1.0, low: 1.0, close: 1.0, volume: 0.0, count: 1 }
    }

    #[test]
    fn a_span_without_rows_is_not_the_end_of_the_data() {
        let searched = query_before(newest(Resolution::Raw), timestamp(900_000));
        let asked = probe_query(&searched).unwrap();
        assert_eq!((asked.resolution, asked.limit.get()), (Resolution::Day, 1));
        assert!(asked.end < searched.start);
        let next = next_query(&searched, &Rows::Buckets(vec![day(86_400)])).unwrap();
        assert_eq!(next.end, Some(timestamp(172_800) - STEP), "the whole of that day");
        let next = next_query(&searched, &Rows::Buckets(vec![day(777_600)])).unwrap();
        assert_eq!(next.end, Some(searched.start.unwrap() - STEP), "what was not searched of it");
        assert_eq!(next_query(&searched, &Rows::Buckets(Vec::new())), None);
    }

    #[test]
    fn a_query_of_days_has_no_span() {
        let searched = query_before(newest(Resolution::Day), timestamp(900_000));
        assert_eq!((searched.start, probe_query(&searched)), (None, None));
    }
}
