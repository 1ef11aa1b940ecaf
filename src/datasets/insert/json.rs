//! Rows as JSON: `{"timestamp":…,"values":{…}}`, or flat, with the values as siblings of the timestamp.
//!
//! `serde_json` parses 2.4 to 3.2 million rows of seven numbers per second and thread. The parser
//! borrows names and texts from the body. A hand-written scanner, sonic-rs and simd-json reached only
//! 0.7 to 0.95 of this speed (`cargo bench -p datasets --bench http -- formats`).

use std::fmt;

use formats::read::json::all_members;
use model::dataset::TIMESTAMP;
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::column_builder::ColumnBuilder;
use crate::error::{OperationError, Result};

/// Reads a list of rows. `text` is known to be valid JSON.
pub(super) fn read_list(builder: &mut ColumnBuilder, text: &str) -> Result<()> {
    let mut stopped = None;
    let mut json = serde_json::Deserializer::from_str(text);
    let read = json.deserialize_seq(RowList { builder, stopped: &mut stopped });
    match (stopped, read) {
        (Some(error), _) => Err(error),
        (None, Err(_)) => Err(OperationError::malformed("rows must be a list")),
        (None, Ok(())) => Ok(()),
    }
}

/// Reads a row from each line that is not blank.
pub(super) fn read_lines(builder: &mut ColumnBuilder, text: &str) -> Result<()> {
    let mut lines = text.split('\n').map(str::trim_ascii).filter(|line| !line.is_empty());
    lines.try_for_each(|line| read_row(builder, line, false))
}

/// Reads a row. An invalid row is rejected, which is not an error. If `needs_values` is true, so is a row
/// that has only a timestamp, since it would erase the stored row. A line can be such a row, because the
/// service writes a row without values in this form.
///
/// # Errors
/// [`OperationError::TooMany`].
fn read_row(builder: &mut ColumnBuilder, text: &str, needs_values: bool) -> Result<()> {
    builder.begin_row()?;
    if !text.starts_with('{') {
        builder.refuse(None, "a row must be an object");
        return Ok(());
    }
    let (mut n_timestamps, mut has_values) = (0, false);
    let read = all_members(text, &mut |name, cell| {
        n_timestamps += usize::from(name == TIMESTAMP);
        has_values |= name != TIMESTAMP;
        builder.push_field(name, cell);
    });
    match read {
        Err(what) => builder.refuse(None, &what),
        Ok(n_members) => {
            builder.end_row();
            if needs_values && !has_values && n_members == n_timestamps {
                builder.refuse(None, "values are missing; a row without any needs \"values\":{}");
            }
        }
    }
    Ok(())
}

/// Deserializer that visits the rows of a list one by one. All rows of a body of maximum length would
/// occupy gigabytes.
struct RowList<'a> {
    builder: &'a mut ColumnBuilder,
    /// Error that ended the visit early.
    stopped: &'a mut Option<OperationError>,
}

impl<'de> Visitor<'de> for RowList<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element::<&RawValue>()? {
            if let Err(error) = read_row(self.builder, row.get(), true) {
                *self.stopped = Some(error);
                return Err(A::Error::custom("the list is too long"));
            }
        }
        Ok(())
    }
}
