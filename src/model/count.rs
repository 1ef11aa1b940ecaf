//! Human-readable counts: `1 row`, `12.5 k`.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_counts_are_shortened_and_pluralized() {
        assert_eq!([9_999, 10_000, 2_500_000].map(format_count), ["9999", "10.0 k", "2.50 M"]);
        assert_eq!([0, 1, 2].map(|n| counted(n, "row")), ["0 rows", "1 row", "2 rows"]);
        assert_eq!([1, 12_500].map(|n| counted_short(n, "row")), ["1 row", "12.5 k rows"]);
    }
}
