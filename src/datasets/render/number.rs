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
#[inline]
pub(crate) fn push_float(to: &mut Vec<u8>, number: f64) {
    let size = number.abs();
    if size < WHOLE_BELOW {
        // There and back is cheaper than asking for a fraction.
        #[expect(clippy::cast_possible_truncation, reason = "it is far below 2^63")]
        let whole = number as i64;
        #[expect(clippy::cast_precision_loss, reason = "it is below 2^53, or was cut off")]
        #[expect(clippy::float_cmp, reason = "only a number that is whole comes back the same")]
        if whole as f64 == number {
            return push_integer(to, whole);
        }
        if size >= FAST_FROM {
            return push_short(to, zmij::Buffer::new().format_finite(number).as_bytes());
        }
    }
    push_rare(to, number);
}

/// Writes a number that is neither of a usual size nor whole.
#[cold]
fn push_rare(to: &mut Vec<u8>, number: f64) {
    let number = if number.is_nan() { 0.0 } else { number.clamp(f64::MIN, f64::MAX) };
    let size = number.abs();
    // Writing a number to memory cannot fail.
    if size == 0.0 || (EXPONENT_BELOW..EXPONENT_FROM).contains(&size) {
        write!(to, "{number}").unwrap_or_default();
    } else {
        let text = format!("{number:e}");
        let text = if size >= EXPONENT_FROM { text.replace('e', "e+") } else { text };
        to.extend_from_slice(text.as_bytes());
    }
}

/// Writes a whole number.
#[inline]
pub(crate) fn push_integer(to: &mut Vec<u8>, number: i64) {
    push_short(to, itoa::Buffer::new().format(number).as_bytes());
}

/// Adds a few bytes. Copies of lengths that the compiler knows cost a fraction of a call, which is
/// most of what a row would take: so there are two of them, which overlap.
#[inline]
pub(crate) fn push_short(to: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        4..8 => push_ends::<4>(to, bytes),
        8..16 => push_ends::<8>(to, bytes),
        16..=32 => push_ends::<16>(to, bytes),
        _ => to.extend_from_slice(bytes),
    }
}

/// Adds bytes of a length from `N` to twice that.
#[inline]
fn push_ends<const N: usize>(to: &mut Vec<u8>, bytes: &[u8]) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
        let last_at = to.len() + bytes.len() - N;
        to.extend_from_slice(first);
        to.truncate(last_at);
        to.extend_from_slice(last);
    }
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
        push_short(to, &self.date);
        let second = seconds.rem_euclid(DAY_SECONDS);
        let [hour, minute, second] = [second / 3600, second / 60 % 60, second % 60].map(two);
        to.extend_from_slice(&[
            hour[0], hour[1], b':', minute[0], minute[1], b':', second[0], second[1],
        ]);
        let micros = moment.micros().rem_euclid(1_000_000);
        if micros != 0 {
            push_fraction(to, micros);
        }
        to.push(b'Z');
    }
}

/// Writes so many millionths of a second, without zeros at the end.
fn push_fraction(to: &mut Vec<u8>, micros: i64) {
    to.push(b'.');
    for pair in [micros / 10_000, micros / 100 % 100, micros % 100] {
        to.extend_from_slice(&two(pair));
    }
    while to.last() == Some(&b'0') {
        to.pop();
    }
}

/// A number below 100 in two digits.
#[inline]
fn two(number: i64) -> [u8; 2] {
    let digit = |number: i64| b'0' + u8::try_from(number % 10).unwrap_or(0);
    [digit(number / 10), digit(number)]
}
