//! Parses values of flags that several commands share, and reads the files that flags name.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use model::timestamp::Timestamp;

/// Argument that stands for standard input or output in place of a path.
pub(crate) const STDIO: &str = "-";

/// Reads the text of the file at `path`, or of standard input if `path` is [`STDIO`].
///
/// # Errors
/// If the text cannot be read, is not UTF-8, or has more than `bytes_max` bytes.
pub(crate) fn read_text(path: &Path, bytes_max: usize) -> anyhow::Result<String> {
    let (source, name): (Box<dyn io::Read>, String) = if path.as_os_str() == STDIO {
        (Box::new(io::stdin()), "standard input".to_owned())
    } else {
        let name = path.display().to_string();
        (Box::new(fs::File::open(path).with_context(|| format!("cannot read {name}"))?), name)
    };
    let mut bytes = Vec::new();
    let read = source.take(bytes_max as u64 + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {name}"))?;
    if bytes.len() > bytes_max {
        bail!("{name} has more than {bytes_max} bytes");
    }
    String::from_utf8(bytes).with_context(|| format!("{name} is not text"))
}

/// Reads the text of the file at `path`. Returns `None` if the file does not exist.
///
/// # Errors
/// If the file exists but cannot be read.
pub(crate) fn read_optional(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Parses a timestamp in the form of RFC 3339, or a date, which means midnight UTC.
///
/// # Errors
/// If the text is invalid.
pub(crate) fn parse_timestamp(text: &str) -> Result<Timestamp, String> {
    let midnight = || format!("{text}T00:00:00Z").parse();
    text.parse().or_else(|_| midnight()).map_err(|_| {
        "expected RFC 3339, such as 2026-07-30T21:57:00Z, or a date such as 2026-07-30".into()
    })
}

/// Parses the first timestamp of a range like [`parse_timestamp`]. Rounds it up to a microsecond, so that
/// no row before it is selected.
///
/// # Errors
/// If the text is invalid.
pub(crate) fn parse_start(text: &str) -> Result<Timestamp, String> {
    Ok(parse_timestamp(text)?.rounded_up(text))
}

/// Parses `NAME=VALUE`.
///
/// # Errors
/// If the text is invalid.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
