//! Numbers and moments as the upstream, written in Go, prints them.

use std::io::Write as _;

use model::timestamp::Timestamp;

/// Below this, every whole float is written exactly by way of an integer.
const WHOLE_BELOW: f64 = 1e15;

/// From here on Go writes an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// Below this Go writes an exponent, too.
const EXPONENT_BELOW: f64 = 1e-6;

/// Below this the fast path would write an exponent where Go does not.
const FAST_FROM: f64 = 1e-5;

/// Seconds in a day.
const DAY_SECONDS: i64 = 86_400;

/// Writes `number` in the fewest digits that read back the same: without `.0` where it is whole,
/// with an exponent only below 1e-6 and from 1e21.
///
/// Rows hold finite numbers only; a sum that overflowed is written as the largest number there is.
pub(crate) fn push_float(to: &mut Vec<u8>, number: f64) {
    let number = if number.is_nan() { 0.0 } else { number.clamp(f64::MIN, f64::MAX) };
    let size = number.abs();
    if size < WHOLE_BELOW && number.fract() == 0.0 {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and far below 2^63")]
        push_integer(to, number as i64);
    } else if (FAST_FROM..WHOLE_BELOW).contains(&size) {
        // Writing a number to memory cannot fail.
        serde_json::to_writer(to, &number).unwrap_or_default();
    } else if (EXPONENT_BELOW..EXPONENT_FROM).contains(&size) {
        write!(to, "{number}").unwrap_or_default();
    } else {
        let text = format!("{number:e}");
        let text = if size >= EXPONENT_FROM { text.replace('e', "e+") } else { text };
        to.extend_from_slice(text.as_bytes());
    }
}

/// Writes a whole number.
pub(crate) fn push_integer(to: &mut Vec<u8>, number: i64) {
    serde_json::to_writer(to, &number).unwrap_or_default();
}

/// Writes moments; remembers the last day, which is most often the next one's day, too.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moments {
    day: Option<i64>,
    /// `2026-07-30T`
    date: Vec<u8>,
}

impl Moments {
    /// Writes `moment` in quotes.
    pub(crate) fn push(&mut self, to: &mut Vec<u8>, moment: Timestamp) {
        to.push(b'"');
        self.push_bare(to, moment);
        to.push(b'"');
    }

    /// Writes `moment` as RFC 3339 in UTC, with as much of a fraction as it has.
    pub(crate) fn push_bare(&mut self, to: &mut Vec<u8>, moment: Timestamp) {
        let seconds = moment.seconds();
        let day = seconds.div_euclid(DAY_SECONDS);
        if self.day != Some(day) {
            let midnight = Timestamp::from_seconds(day.saturating_mul(DAY_SECONDS)).to_string();
            let date = midnight.split('T').next().unwrap_or_default();
            self.date = [date.as_bytes(), b"T"].concat();
            self.day = Some(day);
        }
        to.extend_from_slice(&self.date);
        let second = seconds.rem_euclid(DAY_SECONDS);
        push_two(to, second / 3600);
        to.push(b':');
        push_two(to, second / 60 % 60);
        to.push(b':');
        push_two(to, second % 60);
        let micros = moment.micros().rem_euclid(1_000_000);
        if micros != 0 {
            let fraction = format!(".{micros:06}");
            to.extend_from_slice(fraction.trim_end_matches('0').as_bytes());
        }
        to.push(b'Z');
    }
}

/// Writes a number below 100 in two digits.
fn push_two(to: &mut Vec<u8>, number: i64) {
    let digit = |number: i64| b'0' + u8::try_from(number % 10).unwrap_or(0);
    to.extend_from_slice(&[digit(number / 10), digit(number)]);
}
