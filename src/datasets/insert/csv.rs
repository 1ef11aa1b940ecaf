//! Rows as CSV: a header that names `timestamp` and columns, and a record in each line after it.

use formats::read::{cell::Cell, csv::CsvReader};
use model::dataset::TIMESTAMP;

use super::column_builder::ColumnBuilder;
use crate::error::{OperationError, Result, Unfit};

/// Takes the records of a text with a header.
pub(super) fn read_records(builder: &mut ColumnBuilder, text: &str) -> Result<()> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = CsvReader::new(text.as_bytes(), b',');
    if !read_record(&mut reader)? {
        return Err(unreadable("it has no header"));
    }
    let names = reader.fields().into_iter().flatten();
    let names: Vec<String> = names.map(|(name, _)| name.trim().to_owned()).collect();
    check_header(builder, &names)?;
    while read_record(&mut reader)? {
        builder.begin_row()?;
        if reader.n_fields() != names.len() {
            let reason = format!("{} fields for {} of the header", reader.n_fields(), names.len());
            builder.refuse(None, &reason);
            continue;
        }
        for (name, (field, is_quoted)) in names.iter().zip(reader.fields().into_iter().flatten()) {
            if !field.is_empty() || name == TIMESTAMP {
                builder.push_field(name, Cell::Bare(field));
            } else if is_quoted {
                builder.push_field(name, Cell::Text(field));
            }
        }
        builder.end_row();
    }
    Ok(())
}

/// Reads the next record; whether there was one.
fn read_record(reader: &mut CsvReader<&[u8]>) -> Result<bool> {
    let is_there = reader.read().map_err(|error| unreadable(&error.to_string()))?;
    reader.fault().map_or(Ok(is_there), |fault| Err(unreadable(fault)))
}

fn unreadable(what: &str) -> OperationError {
    OperationError::Unreadable { what: format!("as CSV: {what}") }
}

fn check_header(builder: &ColumnBuilder, names: &[String]) -> Result<(), Unfit> {
    if !names.iter().any(|name| name == TIMESTAMP) {
        return Err(format!("the header has no {TIMESTAMP}").into());
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    if let Some([name, _]) = sorted.array_windows().find(|[name, next]| name == next) {
        return Err(format!("the header names {name} twice").into());
    }
    match names.iter().find(|name| *name != TIMESTAMP && !builder.accepts(name)) {
        Some(name) => Err(format!("there is no column {name}").into()),
        None => Ok(()),
    }
}
