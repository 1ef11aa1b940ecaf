//! Records of commits that removed or replaced rows, in the tables of an engine.

use model::block::Block;
use model::dataset::DatasetId;
use model::timestamp::Timestamp;

use super::session::{Row, Session, Values};
use super::time::{EARLIEST, Time};
use super::{Result, StoreError};
use crate::span::Span;

/// Minimum number of the latest records of a dataset that are kept. A reader that is further behind
/// cannot resume. A record needs some 60 bytes, and one bit for each row of a commit that replaced rows.
const KEPT: i64 = 4096;

/// Number of records after which older records are deleted.
const TRIM_EVERY: i64 = 64;

/// A commit that removed or replaced rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// Revision of the dataset after the commit.
    pub revision: u64,
    /// Highest row number at the commit. Later rows have higher numbers.
    pub last_row: i64,
    /// Timestamps from which the commit removed all rows. `None` if it added rows.
    pub removed: Option<Span>,
    /// A bit for each added row, which is set if the row replaced a stored row. The first bit is for
    /// `last_row`, the next for the row number before it, and so on, lowest bit of a byte first. Bits
    /// after the last set bit can be omitted.
    replaced: Vec<u8>,
}

impl RowChange {
    /// Creates the record of a commit that removed the rows of `span`.
    pub(super) const fn removal(revision: u64, last_row: i64, span: Span) -> Self {
        Self { revision, last_row, removed: Some(span), replaced: Vec::new() }
    }

    /// Creates the record of a commit that added `rows`. `stored` has the timestamps of earlier rows and
    /// is sorted. Returns `None` if no row was replaced.
    pub(super) fn replacement(revision: u64, rows: &Block, stored: &[Timestamp]) -> Option<Self> {
        let last_row = *rows.ids.last()?;
        let mut replaced = Vec::new();
        let added = rows.ids.iter().zip(&rows.times);
        for (number, _) in added.filter(|(_, time)| stored.binary_search(time).is_ok()) {
            let (byte_idx, bit) = bit_of(last_row, *number)?;
            replaced.resize(replaced.len().max(byte_idx + 1), 0);
            *replaced.get_mut(byte_idx)? |= bit;
        }
        (!replaced.is_empty()).then_some(Self { revision, last_row, removed: None, replaced })
    }

    /// Returns true if the row with this number replaced a stored row in this commit.
    #[must_use]
    pub fn has_replaced(&self, number: i64) -> bool {
        let Some((byte_idx, bit)) = bit_of(self.last_row, number) else { return false };
        self.replaced.get(byte_idx).is_some_and(|byte| byte & bit != 0)
    }
}

/// Returns the index of a byte and the bit in it that belong to the row `number`. Returns `None` if the
/// number is higher than `last_row`.
fn bit_of(last_row: i64, number: i64) -> Option<(usize, u8)> {
    let idx = usize::try_from(last_row.checked_sub(number)?).ok()?;
    Some((idx / 8, 1 << (idx % 8)))
}

/// Records a change and sometimes deletes old records.
pub(super) async fn record<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    change: &RowChange,
) -> Result<()> {
    let RowChange { revision, last_row, removed, replaced } = change;
    let first = removed.map(|span| span.first).filter(|first| *first > EARLIEST).map(Time);
    let last = removed.map(|span| Time(span.last));
    let sql = "INSERT INTO datasets.row_changes
             (dataset, n, revision, last_row, first_ts, last_ts, replaced)
         SELECT ?1, coalesce(max(n), 0) + 1, ?2, ?3, ?4, ?5, ?6
         FROM datasets.row_changes WHERE dataset = ?1 RETURNING n";
    let revision = revision.cast_signed();
    let values: Values<'_> = &[&dataset.get(), &revision, last_row, &first, &last, replaced];
    let n = s.all(sql, values, |row| row.get::<i64>(0)).await?;
    for n in n.into_iter().filter(|n| n % TRIM_EVERY == 0) {
        let sql = "DELETE FROM datasets.row_changes WHERE dataset = ?1 AND n <= ?2";
        s.run(sql, &[&dataset.get(), &(n - KEPT)]).await?;
    }
    Ok(())
}

/// Implements [`Catalog::row_changes`](super::Catalog::row_changes) for both engines.
pub(super) async fn read<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    after: (u64, i64),
    limit: usize,
) -> Result<Option<Vec<RowChange>>> {
    let (after, after_row) = (after.0.cast_signed(), after.1);
    let sql = "SELECT n, revision FROM datasets.row_changes WHERE dataset = ?1 ORDER BY n LIMIT 1";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let oldest: Vec<(i64, i64)> = s.all(sql, &[&dataset.get()], read).await?;
    if oldest.iter().any(|(n, revision)| *n > 1 && *revision > after) {
        return Ok(None);
    }
    // Revisions and row numbers ascend, so the reader lacks all records after the last one that exceeds
    // neither of its two positions. That one is usually among the latest.
    let sql = "SELECT revision, last_row, first_ts, last_ts, replaced FROM datasets.row_changes
         WHERE dataset = ?1 AND n > coalesce((
             SELECT n FROM datasets.row_changes
             WHERE dataset = ?1 AND revision <= ?2 AND last_row <= ?3 ORDER BY n DESC LIMIT 1), 0)
         ORDER BY n LIMIT ?4";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(Some(s.all(sql, &[&dataset.get(), &after, &after_row, &limit], change_of).await?))
}

fn change_of(row: &Row<'_>) -> Result<RowChange> {
    let time = |idx| Ok::<_, StoreError>(row.get::<Option<Time>>(idx)?.map(|Time(at)| at));
    let first = time(2)?.unwrap_or(Timestamp::MIN);
    let removed = time(3)?.map(|last| Span { first, last });
    let revision = row.get_unsigned(0)?.unwrap_or_default();
    Ok(RowChange { revision, last_row: row.get(1)?, removed, replaced: row.get(4)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_of_a_row_change_contains_the_numbers_of_replaced_rows() {
        let mut rows = Block::new(&[]);
        rows.times = (0..40).map(Timestamp::from_seconds).collect();
        rows.ids = (1001..=1040).collect();
        let stored = [0, 1, 20, 39, 50].map(Timestamp::from_seconds);
        let change = RowChange::replacement(7, &rows, &stored).unwrap();
        let replaced = (0..2000).filter(|number| change.has_replaced(*number)).collect::<Vec<_>>();
        assert_eq!(replaced, [1001, 1002, 1021, 1040]);
        assert_eq!(RowChange::replacement(7, &rows, &stored[4..]), None);
        let last = RowChange::replacement(7, &rows, &stored[3..]).unwrap();
        assert_eq!(last.replaced, [1], "one bit for the last row");
    }
}
