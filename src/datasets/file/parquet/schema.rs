//! What the end of a Parquet file says of it: its columns, its row groups, and where they are.

use super::{
    super::FileError,
    thrift::{Bytes, Tree},
};

/// How values stand in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Physical {
    Boolean,
    Int32,
    Int64,
    Int96,
    Float,
    Double,
    ByteArray,
}

/// What they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// What they are.
    Plain,
    /// A whole number without a sign.
    Unsigned,
    /// Days since 1970.
    Days,
    /// Milliseconds, microseconds or nanoseconds since 1970.
    Millis,
    Micros,
    Nanos,
}

/// A column of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnSchema {
    pub(super) name: String,
    pub(super) physical: Physical,
    pub(super) meaning: Meaning,
    pub(super) is_optional: bool,
}

/// Where a column of a row group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) offset_bytes: u64,
    pub(super) size_bytes: usize,
    pub(super) codec: i64,
}

/// Rows that are stored together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowGroup {
    pub(super) n_rows: u64,
    /// One for each column.
    pub(super) chunks: Vec<Chunk>,
}

/// What the file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schema {
    pub(super) columns: Vec<ColumnSchema>,
    pub(super) groups: Vec<RowGroup>,
}

impl Schema {
    /// Reads the metadata of a file.
    ///
    /// # Errors
    /// [`FileError::Form`] if it is damaged, or has columns that no dataset could have.
    pub(super) fn of(metadata: &[u8]) -> Result<Self, FileError> {
        let damaged = || FileError::form("its metadata is damaged");
        let tree = Bytes(metadata).tree().ok_or_else(damaged)?;
        let elements = tree.list(2).and_then(<[_]>::split_first);
        let (_root, elements) = elements.ok_or_else(damaged)?;
        let columns = elements.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let groups = tree.list(4).ok_or_else(damaged)?;
        let groups = groups.iter().map(|group| row_group(group).ok_or_else(damaged));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        if groups.iter().any(|group| group.chunks.len() != columns.len()) {
            return Err(damaged());
        }
        Ok(Self { columns, groups })
    }
}

fn column(element: &Tree<'_>) -> Result<ColumnSchema, FileError> {
    let name = element.text(4).unwrap_or_default().to_owned();
    let refuse = |what: &str| FileError::form(format!("column {name} {what}, which is not read"));
    if element.integer(5).is_some_and(|n_children| n_children > 0) {
        return Err(refuse("is nested"));
    }
    if element.integer(3) == Some(2) {
        return Err(refuse("is a list"));
    }
    let physical = match element.integer(1) {
        Some(0) => Physical::Boolean,
        Some(1) => Physical::Int32,
        Some(2) => Physical::Int64,
        Some(3) => Physical::Int96,
        Some(4) => Physical::Float,
        Some(5) => Physical::Double,
        Some(6) => Physical::ByteArray,
        _ => return Err(refuse("holds bytes of a fixed length")),
    };
    let logical = element.member(10);
    let is_logical = |id| logical.is_some_and(|logical| logical.member(id).is_some());
    let converted = element.integer(6);
    if is_logical(5) || converted == Some(5) {
        return Err(refuse("holds decimals"));
    }
    let meaning = if let Some(stamp) = logical.and_then(|logical| logical.member(8)) {
        let unit = stamp.member(2);
        let is_unit = |id| unit.is_some_and(|unit| unit.member(id).is_some());
        match () {
            () if is_unit(1) => Meaning::Millis,
            () if is_unit(2) => Meaning::Micros,
            () if is_unit(3) => Meaning::Nanos,
            () => return Err(refuse("holds moments of an unknown unit")),
        }
    } else if is_logical(6) {
        Meaning::Days
    } else {
        let integer = logical.and_then(|logical| logical.member(10));
        match converted {
            Some(6) => Meaning::Days,
            Some(9) => Meaning::Millis,
            Some(10) => Meaning::Micros,
            Some(11..=14) => Meaning::Unsigned,
            _ if integer.and_then(|integer| integer.truth(2)) == Some(false) => Meaning::Unsigned,
            _ => Meaning::Plain,
        }
    };
    Ok(ColumnSchema { name, physical, meaning, is_optional: element.integer(3) == Some(1) })
}

fn row_group(group: &Tree<'_>) -> Option<RowGroup> {
    let chunk = |chunk: &Tree<'_>| {
        let is_elsewhere = chunk.text(1).is_some_and(|path| !path.is_empty());
        let chunk = chunk.member(3).filter(|_| !is_elsewhere)?;
        let data = chunk.size(9)?;
        // Some writers say 0 where there is no dictionary.
        let begin = chunk.size(11).filter(|offset| *offset > 0).map_or(data, |it| it.min(data));
        let size_bytes = chunk.size(7)?;
        Some(Chunk { offset_bytes: begin as u64, size_bytes, codec: chunk.integer(4)? })
    };
    let chunks = group.list(1)?.iter().map(chunk).collect::<Option<_>>()?;
    Some(RowGroup { n_rows: group.size(3)? as u64, chunks })
}
