//! Values of flags that several commands take.

use model::timestamp::Timestamp;

/// Reads a number of bytes with or without a unit: `3000000`, `500MB`, `2 GB`.
///
/// # Errors
/// If it is none.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err("the unit is kB, MB, GB or TB".to_owned()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "it is a number of bytes such as 2GB".to_owned())
}

/// Reads a timestamp: RFC 3339, or a date alone, which is midnight UTC.
///
/// # Errors
/// If it is none.
pub(crate) fn parse_timestamp(text: &str) -> Result<Timestamp, String> {
    let midnight = || format!("{text}T00:00:00Z").parse();
    text.parse().or_else(|_| midnight()).map_err(|_| {
        "a timestamp is RFC 3339, such as 2026-07-30T21:57:00Z, or a date such as 2026-07-30".into()
    })
}

/// Reads `NAME=VALUE`.
///
/// # Errors
/// If it is none.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<u64>) {
        assert_eq!(parse_bytes(text).ok(), want, "{text}");
    }

    #[test]
    fn bytes_have_a_unit_or_none() {
        check("2GB", Some(2_000_000_000));
        check("500 mb", Some(500_000_000));
        check("999", Some(999));
        check("2 apples", None);
        check("GB", None);
        check("99999999 TB", None);
    }
}
