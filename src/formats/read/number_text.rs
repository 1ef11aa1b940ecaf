//! Numbers in texts, with digit group separators and with a point or a comma as the decimal mark.

/// Group separators that are valid with either decimal mark: the space, two no-break spaces, and the
/// apostrophe.
const GROUP_MARKS: [char; 4] = [' ', '\u{a0}', '\u{202f}', '\''];

/// Decimal mark of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumString)]
#[strum(parse_err_ty = String, parse_err_fn = no_decimal)]
pub enum Decimal {
    /// A point, as in 1,234.5.
    #[default]
    #[strum(serialize = ".")]
    Point,
    /// A comma, as in 1.234,5.
    #[strum(serialize = ",")]
    Comma,
}

fn no_decimal(_: &str) -> String {
    "unknown decimal mark; expected `.` or `,`".to_owned()
}

impl Decimal {
    /// Rewrites `text` without group separators and with a decimal point. Returns `None` if it is not a
    /// number with this decimal mark.
    pub(super) fn plain(self, text: &str) -> Option<String> {
        let (mark, group) = match self {
            Self::Point => ('.', ','),
            Self::Comma => (',', '.'),
        };
        let sign = if text.starts_with('-') { "-" } else { "" };
        let number = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (number, exponent) = match number.find(['e', 'E']) {
            Some(at) => number.split_at_checked(at)?,
            None => (number, ""),
        };
        let (whole, fraction) = number.split_once(mark).unwrap_or((number, ""));
        let groups: Vec<_> =
            whole.split(|letter| letter == group || GROUP_MARKS.contains(&letter)).collect();
        let has_groups = groups.len() > 1;
        let is_group = |(idx, part): (usize, &&str)| match idx {
            // Programs write 0.123, but never 0 as the first group of thousands.
            0 => !has_groups || (1..=3).contains(&part.len()) && !part.starts_with('0'),
            _ => part.len() == 3,
        };
        let digits = groups.concat() + fraction;
        let is_number = groups.iter().enumerate().all(is_group)
            && !digits.is_empty()
            && digits.bytes().all(|digit| digit.is_ascii_digit());
        let plain = is_number.then(|| format!("{sign}{}.{fraction}0{exponent}", groups.concat()));
        plain.filter(|plain| plain.parse::<f64>().is_ok())
    }
}

/// Evidence that a text gives for the decimal mark of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkEvidence {
    /// The text has no mark or is not a number.
    Nothing,
    /// The text is a number only with this decimal mark.
    Only(Decimal),
    /// The text is a different number with each decimal mark, such as `1,234`.
    CommaOrGroup,
    /// The text is a different number with each decimal mark, such as `1.234`. Without
    /// other evidence, it usually has a decimal point.
    PointOrGroup,
}

/// Returns the evidence that `text` gives for the decimal mark.
pub(super) fn mark_evidence(text: &str) -> MarkEvidence {
    let text = text.trim();
    match (Decimal::Point.plain(text), Decimal::Comma.plain(text)) {
        (Some(_), None) if text.contains([',', '.']) => MarkEvidence::Only(Decimal::Point),
        (None, Some(_)) => MarkEvidence::Only(Decimal::Comma),
        (Some(_), Some(_)) if text.contains(',') => MarkEvidence::CommaOrGroup,
        (Some(_), Some(_)) if text.contains('.') => MarkEvidence::PointOrGroup,
        _ => MarkEvidence::Nothing,
    }
}

/// Parses a whole number that can have a fraction of zeros or an exponent, such as `12.50e2`. Returns
/// `None` for other texts and for numbers that exceed 64 bits.
pub fn whole_number(text: &str) -> Option<i64> {
    text.parse::<f64>().ok()?;
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    if matches!(significant, "" | "-" | "+") {
        return Some(0);
    }
    let n_zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let n_decimals = i64::try_from(fraction.len()).ok()?;
    let power = exponent.parse::<i64>().ok()?.checked_add(n_zeros - n_decimals)?;
    let factor = 10_i64.checked_pow(u32::try_from(power).ok()?)?;
    significant.parse::<i64>().ok()?.checked_mul(factor)
}

/// Returns true if `text` is a whole number and `number`, which was parsed from it, has a different
/// value.
///
/// Some programs fill digits beyond the precision of a float with zeros (12345678901234567000). Such
/// numbers count as equal, since they round-trip.
pub(super) fn is_rounded_integer(text: &str, number: f64, decimal: Decimal) -> bool {
    let Some(plain) = decimal.plain(text.trim()) else { return false };
    let Some((whole, rest)) = plain.trim_start_matches('-').split_once('.') else { return false };
    if rest.bytes().any(|byte| byte != b'0') {
        return false;
    }
    let (whole, size) = (whole.trim_start_matches('0'), number.abs());
    whole != size.to_string() && whole != format!("{size:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, point: Option<f64>, comma: Option<f64>) {
        let read = |decimal: Decimal| decimal.plain(text).map(|plain| plain.parse().unwrap());
        assert_eq!((read(Decimal::Point), read(Decimal::Comma)), (point, comma), "{text}");
    }

    #[test]
    fn digit_group_separators_are_accepted_only_in_valid_positions() {
        check("1,234.5", Some(1234.5), None);
        check("-1.234,5", None, Some(-1234.5));
        check("1,5", None, Some(1.5));
        check("1.5", Some(1.5), None);
        check("1,234", Some(1234.0), Some(1.234));
        check("1 234 567", Some(1_234_567.0), Some(1_234_567.0));
        check("+1.5e3", Some(1500.0), None);
        for text in ["", "-", "1,23,456.0", ".", "1..2", "inf", "1e", "a"] {
            assert!(!matches!(mark_evidence(text), MarkEvidence::Only(_)), "{text}");
        }
    }

    #[test]
    fn decimal_mark_is_detected_from_an_unambiguous_number() {
        let cases = [
            ("1,234.5", MarkEvidence::Only(Decimal::Point)),
            ("1,5", MarkEvidence::Only(Decimal::Comma)),
            ("1,234", MarkEvidence::CommaOrGroup),
            ("1.234", MarkEvidence::PointOrGroup),
            ("0,234", MarkEvidence::Only(Decimal::Comma)),
            ("-0.234", MarkEvidence::Only(Decimal::Point)),
            ("7", MarkEvidence::Nothing),
        ];
        for (text, want) in cases {
            assert_eq!(mark_evidence(text), want, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_parsed_with_all_their_digits() {
        for (text, want) in [
            ("-12.50e2", Some(-1250)),
            ("+1200e-2", Some(12)),
            ("1.5", None),
            ("1e-1", None),
            ("-0.000", Some(0)),
            ("0e400", Some(0)),
            ("9223372036854775807.0", Some(i64::MAX)),
            ("-922337203685477580.8E1", Some(i64::MIN)),
            ("9223372036854775808.0", None),
            ("1e400", None),
            ("1e99999999999999999999", None),
            ("inf", None),
            ("NaN", None),
            ("1e", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(whole_number(text), want, "{text}");
        }
    }

    #[test]
    fn integer_that_a_float_cannot_represent_is_detected() {
        #[track_caller]
        fn check(text: &str, want: bool) {
            let number = Decimal::Point.plain(text).unwrap().parse().unwrap();
            assert_eq!(is_rounded_integer(text, number, Decimal::Point), want, "{text}");
        }
        check("9007199254740993", true);
        check("-9,007,199,254,740,993", true);
        check("9007199254740992", false);
        check("1152921504606846976", false);
        check("12345678901234567000", false);
        check("18446744073709551615", true);
        check("9007199254740993.5", false);
        check("9.007199254740993e15", false);
    }
}
