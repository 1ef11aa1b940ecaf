//! Fills gaps between buckets, for a page or a download.
//!
//! A filled range has a bucket at every step from its first to its last stored bucket, so the position
//! of a bucket follows from its start. A page only reads and computes its own buckets, even in a long
//! gap.

use model::block::Rows;
use model::dataset::Column;
use model::resolution::Resolution;
use model::row::{Bucket, Fill};
use model::timestamp::Timestamp;
use tsdb::span::{Order, Span};
use tsdb::store::{Count, PageOfRows, PageRead, Sight, Store, StoreError};

use super::RowsPage;
use crate::query::{Position, RowsQuery};

/// Number of buckets that a download computes at a time.
const PIECE_BUCKETS: i64 = 4096;

/// Grid of the starts of all buckets in a range, including buckets in gaps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    /// Start of the first stored bucket, in microseconds since 1970.
    first: i64,
    /// Number of buckets, including buckets in gaps.
    pub(crate) n_buckets: u64,
    /// Length of a bucket, in microseconds.
    step: i64,
    /// Revision at which the first and the last bucket were read, or the lower one if a commit was made
    /// between the two reads.
    revision: u64,
}

impl Grid {
    /// Reads the first and the last bucket of `span`.
    pub(crate) fn find(
        store: &dyn Store,
        sight: &Sight,
        resolution: Resolution,
        span: Span,
    ) -> Result<Self, StoreError> {
        let first = read(store, sight, resolution, span, Order::Ascending, 1)?;
        let last = read(store, sight, resolution, span, Order::Descending, 1)?;
        let revision = first.revision.min(last.revision);
        let step = step(resolution);
        let [first, last] = [&first, &last].map(|page| page.rows.timestamp(0));
        let ends = first.zip(last).map(|(first, last)| (first.micros(), last.micros()));
        Ok(match ends {
            Some((first, last)) => {
                let n_buckets = u64::try_from((last - first) / step + 1).unwrap_or(0);
                Self { first, n_buckets, step, revision }
            }
            None => Self { first: 0, n_buckets: 0, step, revision },
        })
    }

    /// Returns the start of the bucket with index `idx`, or of the last bucket if there are fewer.
    fn time(&self, idx: u64) -> Timestamp {
        let idx = i64::try_from(idx.min(self.n_buckets.saturating_sub(1))).unwrap_or(0);
        Timestamp::from_micros(self.first + idx * self.step)
    }

    /// Returns the number of buckets that start at `time` or earlier.
    fn n_until(&self, time: Timestamp) -> u64 {
        let n_until = (time.micros() - self.first).div_euclid(self.step) + 1;
        u64::try_from(n_until).unwrap_or(0).min(self.n_buckets)
    }
}

/// Reads a page of a filled range. `span` is the whole range, not shortened by the cursor of the query.
pub(super) fn read_page<'a>(
    store: &dyn Store,
    sight: &Sight,
    columns: &'a [Column],
    query: &RowsQuery,
    span: Span,
    current: Timestamp,
) -> Result<RowsPage<'a>, StoreError> {
    let resolution = query.resolution;
    let grid = Grid::find(store, sight, resolution, span)?;
    let n_skipped = match (query.position, query.order) {
        (Position::Offset(skip), _) => skip.min(grid.n_buckets),
        (Position::After(cursor), Order::Ascending) => grid.n_until(cursor),
        (Position::After(cursor), Order::Descending) => {
            let n_before = grid.n_until(Timestamp::from_micros(cursor.micros() - 1));
            grid.n_buckets - n_before
        }
    };
    let limit = u64::try_from(query.limit.get()).unwrap_or(u64::MAX);
    let n_shown = limit.min(grid.n_buckets - n_skipped);
    let mut page = RowsPage {
        dataset: sight.dataset.id,
        columns,
        count: match query.position {
            Position::Offset(_) => grid.n_buckets,
            Position::After(_) => 0,
        },
        rows: Rows::Buckets(Vec::new()),
        next: None,
        revision: grid.revision,
        current,
    };
    if n_shown == 0 {
        return Ok(page);
    }
    let first_idx = match query.order {
        Order::Ascending => n_skipped,
        Order::Descending => grid.n_buckets - n_skipped - n_shown,
    };
    let times = (grid.time(first_idx), grid.time(first_idx + n_shown - 1));
    // The stored buckets of the page, and the nearest stored bucket on each side, from which gaps at its
    // ends are filled.
    let spans = [
        (Span { last: times.0, ..span }, Order::Descending, 1),
        (Span { first: times.0, last: times.1 }, Order::Ascending, query.limit.get()),
        (Span { first: times.1, ..span }, Order::Ascending, 1),
    ];
    let mut known = Vec::new();
    for (span, order, limit) in spans {
        let part = read(store, sight, resolution, span, order, limit)?;
        page.revision = page.revision.min(part.revision);
        if let Rows::Buckets(buckets) = part.rows {
            known.extend(buckets);
        }
    }
    let mut buckets = fill(&known, times.0, times.1, resolution, query.extras.fill);
    if query.order == Order::Descending {
        buckets.reverse();
    }
    let n_passed = n_skipped + n_shown;
    page.next = (n_passed < grid.n_buckets).then(|| match query.position {
        Position::Offset(_) => Position::Offset(n_passed),
        Position::After(_) if query.order == Order::Ascending => Position::After(times.1),
        Position::After(_) => Position::After(times.0),
    });
    page.rows = Rows::Buckets(buckets);
    Ok(page)
}

/// Fills the gaps between the buckets of a download, which must arrive in ascending order.
#[derive(Debug)]
pub(crate) struct Filler {
    fill: Fill,
    resolution: Resolution,
    last: Option<Bucket>,
}

impl Filler {
    pub(crate) const fn new(fill: Fill, resolution: Resolution) -> Self {
        Self { fill, resolution, last: None }
    }

    /// Passes the given buckets, and buckets for the gaps before them, to `write` in pieces, until
    /// `write` returns false. Returns the last result of `write`.
    pub(crate) fn feed(
        &mut self,
        buckets: &[Bucket],
        mut write: impl FnMut(&Rows) -> bool,
    ) -> bool {
        let known: Vec<Bucket> = self.last.into_iter().chain(buckets.iter().copied()).collect();
        let (Some(first), Some(last)) = (known.first(), known.last()) else { return true };
        let step = step(self.resolution);
        let mut from = first.timestamp.micros();
        if self.last.is_some() {
            from += step;
        }
        while from <= last.timestamp.micros() {
            let until = last.timestamp.micros().min(from + (PIECE_BUCKETS - 1) * step);
            let times = (Timestamp::from_micros(from), Timestamp::from_micros(until));
            if !write(&Rows::Buckets(fill(&known, times.0, times.1, self.resolution, self.fill))) {
                return false;
            }
            from = until + step;
        }
        self.last = Some(*last);
        true
    }
}

/// Returns a bucket for each step from `first` to `last`: the known bucket or, in a gap, a bucket
/// derived from its neighbors.
fn fill(
    known: &[Bucket],
    first: Timestamp,
    last: Timestamp,
    resolution: Resolution,
    fill: Fill,
) -> Vec<Bucket> {
    let mut filled = Vec::new();
    let mut idx = 0;
    let mut time = first;
    while time <= last {
        while known.get(idx).is_some_and(|bucket| bucket.timestamp < time) {
            idx += 1;
        }
        let (before, after) = (idx.checked_sub(1).and_then(|idx| known.get(idx)), known.get(idx));
        filled.push(match after {
            Some(bucket) if bucket.timestamp == time => *bucket,
            _ => inserted(before, after, time, fill),
        });
        time = Timestamp::from_micros(time.micros() + step(resolution));
    }
    filled
}

/// Returns a bucket for a step in the gap between two known buckets.
fn inserted(
    before: Option<&Bucket>,
    after: Option<&Bucket>,
    timestamp: Timestamp,
    fill: Fill,
) -> Bucket {
    let price = match (fill, before, after) {
        (Fill::Previous, Some(before), _) => before.close,
        (Fill::Linear, Some(before), Some(after)) => {
            let gap = after.timestamp.since(before.timestamp).as_secs_f64();
            let share = timestamp.since(before.timestamp).as_secs_f64() / gap;
            // The difference of the closes can exceed the range of floats, but not that of their halves.
            let (before, after) = (before.close / 2.0, after.close / 2.0);
            (before + (after - before) * share) * 2.0
        }
        _ => f64::NAN,
    };
    let [open, high, low, close] = [price; 4];
    Bucket { timestamp, open, high, low, close, volume: 0.0, count: 0 }
}

/// Returns the length of a bucket in microseconds.
fn step(resolution: Resolution) -> i64 {
    let length = resolution.bucket().unwrap_or_default();
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX).max(1)
}

fn read(
    store: &dyn Store,
    sight: &Sight,
    resolution: Resolution,
    span: Span,
    order: Order,
    limit: usize,
) -> Result<PageOfRows, StoreError> {
    let read = PageRead { resolution, span, order, skip: 0, limit, count: Count::Nothing };
    store.page_at(sight, &read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_between_extreme_closes_is_interpolated() {
        let bucket = |seconds, close: f64| {
            let (timestamp, [open, high, low]) = (Timestamp::from_seconds(seconds), [close; 3]);
            Bucket { timestamp, open, high, low, close, volume: 0.0, count: 1 }
        };
        let (before, after) = (bucket(0, -1e308), bucket(4, 1e308));
        let closes = (1..4).map(|seconds| {
            let at = Timestamp::from_seconds(seconds);
            inserted(Some(&before), Some(&after), at, Fill::Linear).close
        });
        assert_eq!(closes.collect::<Vec<_>>(), [-5e307, 0.0, 5e307]);
    }
}
