//! Rules for queries for rows: spans, limits and links to other pages.
//!
//! All of them are pure functions that follow the upstream's API. A comment explains each choice that
//! the documentation of the upstream leaves open.

pub(crate) mod params;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use formats::write::bucket_columns;
use model::dataset::{Column, TIMESTAMP};
use model::page::Limit;
use model::resolution::Resolution;
use model::row::{BucketExtras, COMPLETE};
use model::timestamp::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::value::RawValue;
use tsdb::catalog::DatasetRef;
use tsdb::span::{Order, Span};
use tsdb::store::Sight;
use wire::datasets::{EVENT_CORRECTION, EVENT_DATA};

use self::params::Params;
use crate::error::Invalid;

/// Tolerance when the length of a span is checked. A client can compute the two bounds of a day at
/// different times, so the day can be a second too long.
pub(crate) const SPAN_SLACK: Duration = Duration::from_mins(1);

/// Length of the coarsest documented resolution. There may be no coarser one for longer buckets.
const DAY: Duration = Duration::from_hours(24);

/// Smallest difference between two timestamps.
const STEP: Duration = Duration::from_micros(1);

/// Characters that Go escapes in a query string: all except letters, digits and four marks. A space is
/// written as a plus sign.
pub(crate) const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// First and last timestamp that a query selects. `None` does not limit that side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    pub(crate) start: Option<Timestamp>,
    /// Upper bound: inclusive for raw rows, exclusive for the starts of buckets.
    pub(crate) end: Option<Timestamp>,
}

/// Columns of a response: only those that the request names, or all columns if it names none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SelectedColumns(Option<Vec<String>>);

/// Point in the sequence of all matches at which a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// The page begins after this number of matches.
    Offset(u64),
    /// The page begins after the row with this timestamp, in the order of the query.
    After(Timestamp),
}

/// Query for a page of rows or buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowsQuery {
    pub(crate) dataset: DatasetRef,
    pub(crate) resolution: Resolution,
    pub(crate) bounds: Bounds,
    pub(crate) order: Order,
    pub(crate) limit: Limit,
    pub(crate) position: Position,
    pub(crate) columns: SelectedColumns,
    pub(crate) extras: BucketExtras,
}

/// Returns the maximum time between both bounds: `raw_span_max` for raw rows, otherwise the limit of the
/// upstream's API. `None` is no limit.
const fn span_max(resolution: Resolution, raw_span_max: Option<Duration>) -> Option<Duration> {
    match resolution {
        Resolution::Raw => raw_span_max,
        _ => resolution.span_max(),
    }
}

impl SelectedColumns {
    /// Returns the columns of a dataset's rows, or of its buckets, which include [`COMPLETE`] if
    /// `complete` is true. A column that is not selected has an empty name.
    ///
    /// # Errors
    /// [`Invalid`] if a selected column does not exist.
    pub(crate) fn of<'a>(
        &self,
        sight: &'a Sight,
        resolution: Resolution,
        complete: bool,
    ) -> Result<Cow<'a, [Column]>, Invalid> {
        let is_bucketed = resolution.bucket().is_some();
        let columns = if is_bucketed {
            Cow::Owned(bucket_columns(sight.dataset.id, complete))
        } else {
            Cow::Borrowed(sight.columns.as_slice())
        };
        let Some(names) = &self.0 else { return Ok(columns) };
        let is_known = |name: &String| columns.iter().any(|column| column.name == *name);
        if let Some(name) = names.iter().find(|name| *name != TIMESTAMP && !is_known(name)) {
            let of = if is_bucketed { " of buckets" } else { "" };
            return Err(format!("there is no column {name}{of}").into());
        }
        let mut selected = columns.into_owned();
        for column in &mut selected {
            let is_extra = complete && column.name == COMPLETE;
            if !is_extra && !names.contains(&column.name) {
                column.name.clear();
            }
        }
        Ok(Cow::Owned(selected))
    }

    /// Removes the values of columns that are not selected from rendered events.
    pub(crate) fn filter_events(&self, events: Bytes) -> Bytes {
        let Some(names) = &self.0 else { return events };
        let text = String::from_utf8_lossy(&events);
        let mut filtered = String::with_capacity(text.len());
        let mut is_row = false;
        for line in text.split_inclusive('\n') {
            if let Some(event) = line.strip_prefix("event: ") {
                is_row = [EVENT_DATA, EVENT_CORRECTION].contains(&event.trim_end());
            }
            let row = line.strip_prefix("data: ").filter(|_| is_row);
            let row = row.and_then(|row| serde_json::from_str(row).ok());
            let Some(mut row): Option<BTreeMap<String, &RawValue>> = row else {
                filtered.push_str(line);
                continue;
            };
            row.retain(|name, _| name == TIMESTAMP || names.contains(name));
            let row = serde_json::to_string(&row).unwrap_or_default();
            filtered.extend(["data: ", &row, "\n"]);
        }
        filtered.into()
    }
}

impl Bounds {
    /// Returns the span between the bounds. The end is inclusive for raw rows and exclusive for buckets,
    /// so that a day has 24 hours.
    ///
    /// # Errors
    /// [`Invalid`] if the start is after the end.
    pub(crate) fn span(self, resolution: Resolution) -> Result<Span, Invalid> {
        let first = self.start.unwrap_or(Timestamp::MIN);
        let end = self.end.unwrap_or(Timestamp::MAX);
        if first > end {
            return Err("start must not be after end".into());
        }
        let last = if resolution.bucket().is_some() { end - STEP } else { end };
        Ok(Span { first, last })
    }

    /// Checks the time between the bounds, if both are given.
    ///
    /// With a single bound, the time is not limited, since the query is served page by page. Clients of
    /// the upstream service rely on this.
    ///
    /// # Errors
    /// [`Invalid`] if the time exceeds the limit of the resolution by more than [`SPAN_SLACK`].
    fn check_cap(
        self,
        resolution: Resolution,
        raw_span_max: Option<Duration>,
    ) -> Result<(), Invalid> {
        let (Some(start), Some(end)) = (self.start, self.end) else { return Ok(()) };
        match span_max(resolution, raw_span_max) {
            Some(span_max) if end.since(start) > span_max + SPAN_SLACK => {
                let span_max = go_duration(span_max);
                let is_long = resolution.bucket().is_some_and(|bucket| bucket > DAY);
                let advice = if is_long { "shorter time range" } else { "coarser resolution" };
                Err(Invalid::from(format!(
                    "time range exceeds maximum of {span_max} for resolution={resolution}; use a \
                     {advice}"
                )))
            }
            _ => Ok(()),
        }
    }
}

impl RowsQuery {
    /// Returns true if the query has no bounds, so it covers the most recent rows.
    pub(crate) const fn is_open(&self) -> bool {
        self.bounds.start.is_none()
            && self.bounds.end.is_none()
            && matches!(self.position, Position::Offset(_))
    }

    /// Returns true if the query has both bounds, so its pages can have entity tags.
    pub(crate) const fn is_closed(&self) -> bool {
        self.bounds.start.is_some() && self.bounds.end.is_some()
    }

    /// Returns the parameters for links to other pages. If the query has no bounds, they include the
    /// bounds of its `span`. The default span moves with the latest row, so that pages by offset would
    /// skip or repeat rows.
    pub(crate) fn link_params<'a>(&self, params: &'a Params, span: Span) -> Cow<'a, Params> {
        if !self.is_open() || span.first == Timestamp::MIN {
            return Cow::Borrowed(params);
        }
        let is_bucketed = self.resolution.bucket().is_some();
        let end = if is_bucketed { span.last + STEP } else { span.last };
        let others = params.0.iter().filter(|(name, _)| name != "start" && name != "end");
        let mut pairs: Vec<(String, String)> = others.cloned().collect();
        pairs.push(("start".to_owned(), span.first.to_string()));
        pairs.push(("end".to_owned(), end.to_string()));
        Cow::Owned(Params(pairs))
    }

    /// Returns the span that the query covers.
    ///
    /// A query without bounds covers the maximum span of its resolution up to `window_end`, so that it
    /// includes the latest rows of a dataset that lags by a day. If the dataset has no rows,
    /// `window_end` is `None` and the span ends at the current time. A cursor replaces the bound at
    /// which the page would begin, so that a caller that follows cursors never skips a row.
    ///
    /// # Errors
    /// The same as for [`Bounds::span`] and [`Bounds::check_cap`].
    pub(crate) fn span(
        &self,
        window_end: Option<Timestamp>,
        now: Timestamp,
        raw_span_max: Option<Duration>,
    ) -> Result<Span, Invalid> {
        self.bounds.check_cap(self.resolution, raw_span_max)?;
        let mut span = self.bounds.span(self.resolution)?;
        if self.is_open()
            && let Some(span_max) = span_max(self.resolution, raw_span_max)
        {
            span.last = window_end.unwrap_or(now);
            span.first = span.last - span_max + STEP;
        }
        match (self.position, self.order) {
            (Position::Offset(_), _) => {}
            (Position::After(cursor), Order::Ascending) => {
                span.first = span.first.max(cursor + STEP);
            }
            (Position::After(cursor), Order::Descending) => {
                span.last = span.last.min(cursor - STEP);
            }
        }
        Ok(span)
    }
}

/// Formats `duration` as Go does, in whole seconds: `24h0m0s`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Returns the link to the page that begins after the first `offset` rows.
pub(crate) fn link_at_offset(path: &str, params: &Params, offset: u64) -> String {
    render_link(path, &replace_position(params, "offset", &offset.to_string()))
}

/// Returns the link to the page before the page at `offset`, or `None` if there is no earlier page.
pub(crate) fn link_before(
    path: &str,
    params: &Params,
    offset: u64,
    limit: Limit,
) -> Option<String> {
    let limit = u64::try_from(limit.get()).unwrap_or(u64::MAX);
    (offset > 0).then(|| link_at_offset(path, params, offset.saturating_sub(limit)))
}

/// Returns the link to the page that begins after the row with the timestamp `cursor`.
pub(crate) fn link_after(path: &str, params: &Params, cursor: Timestamp) -> String {
    render_link(path, &params_after(params, cursor))
}

/// Returns the link to the same query with the lower bound `start`.
pub(crate) fn link_from(path: &str, params: &Params, start: Timestamp) -> String {
    let mut pairs = params.0.clone();
    pairs.retain(|(name, _)| name != "start");
    pairs.push(("start".to_owned(), start.to_string()));
    render_link(path, &Params(pairs))
}

/// Returns the parameters of the page that begins after the row with the timestamp `cursor`.
pub(crate) fn params_after(params: &Params, cursor: Timestamp) -> Params {
    replace_position(params, "after", &cursor.to_string())
}

/// Returns `params` sorted by name, with the parameter `name` and its `value` in place of the previous
/// position of the page.
fn replace_position(params: &Params, name: &str, value: &str) -> Params {
    let others = params.0.iter().filter(|(key, _)| key != "offset" && key != "after");
    let mut pairs: Vec<(String, String)> = others.cloned().collect();
    pairs.push((name.to_owned(), value.to_owned()));
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    Params(pairs)
}

/// Renders a link with the same escapes as the upstream, which uses Go.
fn render_link(path: &str, params: &Params) -> String {
    let escape = |text: &str| utf8_percent_encode(text, ESCAPED).to_string().replace("%20", "+");
    let pairs = params.0.iter().map(|(key, value)| format!("{}={}", escape(key), escape(value)));
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests;
