//! Sets of the datasets that share an owner, a tag or a metadata field.
//!
//! A set is stored in blocks of 16 384 ids. A block is a list of offsets while it is sparse and a bitmap
//! once it is dense. Finding the datasets that are visible to a key, among a million, reads some hundred
//! kilobytes. The sets are enough to count and page these datasets and to filter them by a metadata
//! field, without reading the record of any dataset.

use std::collections::BTreeSet;

use db::statement::Statements as _;
use model::dataset::DatasetId;
use model::key::KeyId;
use roaring::RoaringBitmap;
use rusqlite::{Connection, params};

use super::Result;

/// Number of bits of an id within its block. The bitmap of a block has 2 KiB and fits into a page of the
/// file.
const BLOCK_BITS: u32 = 14;

/// Number of bytes of the bitmap of a block.
const BITMAP_BYTES: usize = (1 << BLOCK_BITS) / 8;

/// Number of bits for the block number in the table key of a block. The higher bits contain the number
/// of the term.
const TERM_SHIFT: u32 = 20;

/// A property that several datasets can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) enum Term<'a> {
    /// Datasets of this owner.
    Owner(KeyId),
    /// Datasets with the tag of this id.
    Tag(i64),
    /// Datasets with this metadata field and value.
    Field(&'a str, &'a str),
}

impl Term<'_> {
    /// Returns the kind, the name and the value that identify the term in its table.
    fn key(&self) -> (i64, String, &str) {
        match *self {
            Self::Owner(key) => (1, key.get().to_string(), ""),
            Self::Tag(tag) => (4, tag.to_string(), ""),
            Self::Field(field, value) => (3, field.to_owned(), value),
        }
    }

    /// Returns the number of the term, or `None` if no dataset has it.
    fn find(&self, connection: &Connection) -> Result<Option<i64>> {
        let (kind, name, value) = self.key();
        let sql = "SELECT id FROM terms WHERE kind = ?1 AND name = ?2 AND value = ?3";
        Ok(connection.find(sql, params![kind, name, value], |row| row.get(0))?)
    }

    fn find_or_create(&self, connection: &Connection) -> Result<i64> {
        if let Some(id) = self.find(connection)? {
            return Ok(id);
        }
        let (kind, name, value) = self.key();
        let sql = "INSERT INTO terms (kind, name, value) VALUES (?1, ?2, ?3) RETURNING id";
        Ok(connection.value(sql, params![kind, name, value])?)
    }
}

/// Adds datasets to the set of a term.
pub(in crate::store) fn add(
    connection: &Connection,
    term: &Term<'_>,
    ids: &[DatasetId],
) -> Result<()> {
    let term = term.find_or_create(connection)?;
    let ids: RoaringBitmap = ids.iter().map(|id| to_u32(id.get())).collect::<Result<_>>()?;
    let blocks: BTreeSet<u32> = ids.iter().map(|id| id >> BLOCK_BITS).collect();
    for block in blocks {
        write(connection, term, block, &(read(connection, term, block)? | &ids))?;
    }
    Ok(())
}

/// Removes a dataset from the set of a term.
pub(in crate::store) fn remove(
    connection: &Connection,
    term: &Term<'_>,
    id: DatasetId,
) -> Result<()> {
    let Some(term) = term.find(connection)? else { return Ok(()) };
    let id = to_u32(id.get())?;
    let mut ids = read(connection, term, id >> BLOCK_BITS)?;
    if !ids.remove(id) {
        return Ok(());
    }
    write(connection, term, id >> BLOCK_BITS, &ids)?;
    let sql = "DELETE FROM terms WHERE id = ?1
         AND NOT EXISTS (SELECT 1 FROM postings WHERE id >= ?2 AND id < ?3)";
    connection.run(sql, [term, posting(term, 0), posting(term + 1, 0)])?;
    Ok(())
}

/// Returns the datasets that have all of `terms`. There must be at least one term.
pub(super) fn all_of(connection: &Connection, terms: &[Term<'_>]) -> Result<RoaringBitmap> {
    let sets = terms.iter().map(|term| any_of(connection, &[*term]));
    sets.reduce(|a, b| Ok(a? & b?)).unwrap_or_else(|| Ok(RoaringBitmap::new()))
}

/// Returns the datasets that have at least one of `terms`.
pub(super) fn any_of(connection: &Connection, terms: &[Term<'_>]) -> Result<RoaringBitmap> {
    let mut found = RoaringBitmap::new();
    for term in terms {
        let Some(term) = term.find(connection)? else { continue };
        let mut statement = connection
            .prepare_cached("SELECT id, body FROM postings WHERE id >= ?1 AND id < ?2")?;
        let mut rows = statement.query([posting(term, 0), posting(term + 1, 0)])?;
        while let Some(row) = rows.next()? {
            let block = row.get::<_, i64>(0)? & ((1 << TERM_SHIFT) - 1);
            // Fails if the ids of the block exceed 32 bits. Truncated ids would belong to another block.
            let block = to_u32(block << BLOCK_BITS)? >> BLOCK_BITS;
            found |= decode(block, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?);
        }
    }
    Ok(found)
}

/// Converts a dataset id. An id above `u32::MAX` is an error.
pub(super) fn to_u32(id: i64) -> Result<u32> {
    Ok(u32::try_from(id).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, id))?)
}

/// Returns the table key of a block of a term.
fn posting(term: i64, block: u32) -> i64 {
    (term << TERM_SHIFT) | i64::from(block)
}

/// Reads the ids in a block of a term's set.
fn read(connection: &Connection, term: i64, block: u32) -> Result<RoaringBitmap> {
    let sql = "SELECT body FROM postings WHERE id = ?1";
    let found = connection
        .find(sql, [posting(term, block)], |row| Ok(decode(block, row.get_ref(0)?.as_blob()?)))?;
    Ok(found.unwrap_or_default())
}

/// Writes a block of a term's set, with the `ids` that belong to the block.
fn write(connection: &Connection, term: i64, block: u32, ids: &RoaringBitmap) -> Result<()> {
    let (id, body) = (posting(term, block), encode(block, ids));
    if body.is_empty() {
        connection.run("DELETE FROM postings WHERE id = ?1", [id])?;
    } else {
        let sql = "INSERT OR REPLACE INTO postings (id, body) VALUES (?1, ?2)";
        connection.run(sql, params![id, body])?;
    }
    Ok(())
}

/// Encodes the ids of a block as a list of offsets, or as a bitmap if it is shorter.
fn encode(block: u32, ids: &RoaringBitmap) -> Vec<u8> {
    let first = block << BLOCK_BITS;
    let ids = ids.range(first..=first | ((1 << BLOCK_BITS) - 1));
    let offsets = ids.filter_map(|id| u16::try_from(id - first).ok());
    let list: Vec<u8> = offsets.clone().flat_map(u16::to_le_bytes).collect();
    if list.len() < BITMAP_BYTES {
        return list;
    }
    let mut bitmap = vec![0; BITMAP_BYTES];
    for offset in offsets {
        if let Some(byte) = bitmap.get_mut(usize::from(offset / 8)) {
            *byte |= 1 << (offset % 8);
        }
    }
    bitmap
}

fn decode(block: u32, body: &[u8]) -> RoaringBitmap {
    let first = block << BLOCK_BITS;
    if body.len() == BITMAP_BYTES {
        return RoaringBitmap::from_lsb0_bytes(first, body);
    }
    let offsets = body.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
    let offsets = offsets.map(u32::from).filter(|offset| *offset < 1 << BLOCK_BITS);
    offsets.map(|offset| first | offset).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn block_of_postings_round_trips(
            block in 0..5_000_u32,
            dense in (0..16_000_u32, 1..3_000_u32, 1..3_u32),
            sparse in prop::collection::btree_set(0..1_u32 << BLOCK_BITS, 0..50),
        ) {
            let first = block << BLOCK_BITS;
            let (start, n, step) = dense;
            let offsets = (0..n).map(|idx| start + idx * step).chain(sparse);
            let ids: RoaringBitmap = offsets.map(|offset| first + offset).collect();
            let body = encode(block, &ids);
            prop_assert!(body.len() <= BITMAP_BYTES);
            let within: RoaringBitmap = ids.iter().filter(|id| id >> BLOCK_BITS == block).collect();
            prop_assert_eq!(decode(block, &body), within);
        }
    }
}
