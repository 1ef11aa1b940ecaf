//! Rows as CSV: a header that names `timestamp` and columns, followed by one record per line.

use formats::read::cell::Cell;
use formats::read::csv::CsvReader;
use model::dataset::TIMESTAMP;
use tsdb::catalog::COLUMNS_MAX;

use super::column_builder::ColumnBuilder;
use crate::catalog::NAME_BYTES_MAX;
use crate::error::{Invalid, OperationError, Result};

/// Maximum number of fields: the timestamp and the columns of a dataset.
const FIELDS_MAX: usize = COLUMNS_MAX + 1;

/// Maximum length of the header: the maximum number of fields, each with a name of maximum length in
/// quotes.
const HEADER_BYTES_MAX: usize = FIELDS_MAX * (NAME_BYTES_MAX + 3);

/// Reads the records of a CSV text with a header.
pub(super) fn read_records(builder: &mut ColumnBuilder, text: &str) -> Result<()> {
    check_header_length(text.as_bytes())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = CsvReader::new(text.as_bytes(), b',').with_fields_max(FIELDS_MAX);
    if !read_record(&mut reader)? {
        return Err(unreadable("missing header"));
    }
    let names = reader.fields().into_iter().flatten();
    let names: Vec<String> = names.map(|(name, _)| name.trim().to_owned()).collect();
    check_names(builder, &names)?;
    while read_record(&mut reader)? {
        builder.begin_row()?;
        if reader.n_fields() != names.len() {
            let n_fields = match reader.n_fields() {
                n_fields @ ..=FIELDS_MAX => n_fields.to_string(),
                _ => format!("more than {FIELDS_MAX}"),
            };
            builder.refuse(None, &format!("{n_fields} fields for {} of the header", names.len()));
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

/// Checks the length of the header before any field is stored. The first
/// [`HEADER_BYTES_MAX`] bytes of the text are sufficient.
///
/// # Errors
/// [`Invalid`] if the header is too long for any dataset: it has too many columns, or names that are too
/// long.
pub(super) fn check_header_length(text: &[u8]) -> Result<()> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let begin = text.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(0);
    let text = text.get(begin..).unwrap_or_default();
    let first = text.get(..HEADER_BYTES_MAX).unwrap_or(text);
    let mut reader = CsvReader::new(first, b',').with_fields_max(FIELDS_MAX);
    if read_record(&mut reader)? && reader.n_fields() > FIELDS_MAX {
        return Err(Invalid::from(format!("the header has more than {FIELDS_MAX} fields")).into());
    }
    if first.len() < text.len() && !first.contains(&b'\n') {
        return Err(Invalid::from(format!("the header exceeds {HEADER_BYTES_MAX} bytes")).into());
    }
    Ok(())
}

/// Reads the next record. Returns false at the end of the text.
fn read_record(reader: &mut CsvReader<&[u8]>) -> Result<bool> {
    let is_there = reader.read().map_err(|error| unreadable(&error.to_string()))?;
    reader.fault().map_or(Ok(is_there), |fault| Err(unreadable(fault)))
}

fn unreadable(what: &str) -> OperationError {
    OperationError::malformed(format!("invalid CSV: {what}"))
}

fn check_names(builder: &ColumnBuilder, names: &[String]) -> Result<(), Invalid> {
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
