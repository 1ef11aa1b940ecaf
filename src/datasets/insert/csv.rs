//! Rows as CSV: a header that names `timestamp` and columns, and a record in each line after it.
//!
//! As RFC 4180 has it: fields between commas, in double quotes where they hold a comma, a quote
//! (then doubled) or the end of a line.

use std::borrow::Cow;

use formats::read::cell::Cell;
use model::dataset::TIMESTAMP;

use super::column_builder::ColumnBuilder;
use crate::append::AppendError;

/// A field: its text, and whether it was in quotes.
type Field<'a> = (Cow<'a, str>, bool);

/// Takes the records of a text with a header.
pub(super) fn read_records(builder: &mut ColumnBuilder, text: &str) -> Result<(), AppendError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { text, at: 0 };
    let unreadable = |what: &str| AppendError::Unreadable { what: format!("as CSV: {what}") };
    let mut fields = Vec::new();
    if !reader.record(&mut fields).map_err(unreadable)? {
        return Err(unreadable("it has no header"));
    }
    let names: Vec<String> = fields.iter().map(|(name, _)| name.trim().to_owned()).collect();
    check_header(builder, &names)?;
    while reader.record(&mut fields).map_err(unreadable)? {
        // A blank line.
        if let [(field, false)] = fields.as_slice()
            && field.is_empty()
        {
            continue;
        }
        builder.begin_row()?;
        if fields.len() != names.len() {
            let reason = format!("{} fields for {} of the header", fields.len(), names.len());
            builder.refuse(None, &reason);
            continue;
        }
        for (name, (field, is_quoted)) in names.iter().zip(&fields) {
            if !field.is_empty() || name == TIMESTAMP {
                builder.push_field(name, Cell::Bare(field));
            } else if *is_quoted {
                builder.push_field(name, Cell::Text(field));
            }
        }
        builder.end_row();
    }
    Ok(())
}

fn check_header(builder: &ColumnBuilder, names: &[String]) -> Result<(), AppendError> {
    let wrong = |what: String| AppendError::Columns { what };
    if !names.iter().any(|name| name == TIMESTAMP) {
        return Err(wrong(format!("the header has no {TIMESTAMP}")));
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair.first() == pair.last()) {
        return Err(wrong(format!(
            "the header names {} twice",
            pair.first().copied().map_or("", String::as_str)
        )));
    }
    match names.iter().find(|name| *name != TIMESTAMP && !builder.accepts(name)) {
        Some(name) => Err(wrong(format!("there is no column {name}"))),
        None => Ok(()),
    }
}

/// Reads records from the beginning on.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads a record into `fields`; whether there was one.
    fn record(&mut self, fields: &mut Vec<Field<'a>>) -> Result<bool, &'static str> {
        fields.clear();
        if self.at >= self.text.len() {
            return Ok(false);
        }
        loop {
            let field = match self.byte() {
                Some(b'"') => (self.quoted()?, true),
                _ => (Cow::Borrowed(self.bare()), false),
            };
            fields.push(field);
            match self.byte() {
                Some(b',') => self.at += 1,
                Some(b'\r') if self.text.as_bytes().get(self.at + 1) == Some(&b'\n') => {
                    self.at += 2;
                    return Ok(true);
                }
                Some(b'\n') => {
                    self.at += 1;
                    return Ok(true);
                }
                None => return Ok(true),
                Some(_) => return Err("there is more in a field than what is in quotes"),
            }
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// A field without quotes, up to a comma or the end of the line.
    fn bare(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.bytes().position(|byte| matches!(byte, b',' | b'\n')).unwrap_or(rest.len());
        let field = rest.get(..end).unwrap_or_default();
        let is_line_end = rest.as_bytes().get(end) != Some(&b',');
        let field = if is_line_end { field.strip_suffix('\r').unwrap_or(field) } else { field };
        self.at += field.len();
        // A carriage return at the very end of the text belongs to no field.
        if end == rest.len() {
            self.at = self.text.len();
        }
        field
    }

    /// A field in quotes, of which the first is next.
    fn quoted(&mut self) -> Result<Cow<'a, str>, &'static str> {
        let mut field = Cow::Borrowed("");
        loop {
            self.at += 1;
            let rest = self.text.get(self.at..).unwrap_or_default();
            let end = rest.find('"').ok_or("a field in quotes does not end")?;
            let part = rest.get(..end).unwrap_or_default();
            if field.is_empty() {
                field = Cow::Borrowed(part);
            } else {
                field += part;
            }
            self.at += end + 1;
            if self.byte() != Some(b'"') {
                return Ok(field);
            }
            field += "\"";
        }
    }
}
