//! Human-readable counts and sizes: `1 row`, `12.5 k`, `2GB`.

/// Returns a count with its noun: `1 row`, `4812 rows`.
#[must_use]
pub fn counted(number: impl TryInto<u64>, one: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {}", pluralize(number, one))
}

/// Returns a shortened count with its noun: `12.5 k rows`.
#[must_use]
pub fn counted_short(number: u64, one: &str) -> String {
    format!("{} {}", format_count(number), pluralize(number, one))
}

fn pluralize(number: u64, one: &str) -> String {
    if number == 1 { one.to_owned() } else { format!("{one}s") }
}

/// Returns a shortened count: whole up to 9999, then in thousands and millions.
#[must_use]
pub fn format_count(number: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let short = number as f64;
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{:.1} k", short / 1e3),
        _ => format!("{:.2} M", short / 1e6),
    }
}

/// Parses a number of bytes with or without a unit: `3000000`, `500MB`, `2 GB`.
///
/// # Errors
/// If the text is invalid.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err("unknown unit, expected kB, MB, GB or TB".to_owned()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected a number of bytes such as 2GB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_counts_are_shortened_and_pluralized() {
        assert_eq!([9_999, 10_000, 2_500_000].map(format_count), ["9999", "10.0 k", "2.50 M"]);
        assert_eq!([0, 1, 2].map(|n| counted(n, "row")), ["0 rows", "1 row", "2 rows"]);
        assert_eq!([1, 12_500].map(|n| counted_short(n, "row")), ["1 row", "12.5 k rows"]);
    }

    #[track_caller]
    fn check(text: &str, want: Option<u64>) {
        assert_eq!(parse_bytes(text).ok(), want, "{text}");
    }

    #[test]
    fn number_of_bytes_can_have_a_unit() {
        check("2GB", Some(2_000_000_000));
        check("500 mb", Some(500_000_000));
        check("999", Some(999));
        check("2 apples", None);
        check("GB", None);
        check("99999999 TB", None);
    }
}
