//! Renders numbers and timestamps as the upstream program, written in Go, does, as parts of a
//! [`text`](super::text).

use model::row::float_text;
use model::timestamp::Timestamp;

use super::text::{Phrase, put, put_in, put_with};

/// Limit of the fast path, which tries to write floats as decimals. Scaled floats below it have at most
/// fifteen digits. No two decimals with that many digits parse to the same float, so a decimal that
/// round-trips is the shortest one.
const DECIMAL_BELOW: f64 = 9_999_999.0;

/// Scale of the fast path, for eight decimals. Prices and volumes have at most that many.
const SCALE: u64 = 100_000_000;

/// [`SCALE`] as a float.
const SCALE_FLOAT: f64 = 100_000_000.0;

/// Minimum scaled number that Go writes without an exponent.
const SCALED_FROM: u64 = 100;

/// 2^52. When a smaller number is added to it, that number is rounded to an integer, which is then in
/// the lower bits of the sum.
const WHOLE: f64 = 4_503_599_627_370_496.0;

/// Whole floats below this limit are converted to integers exactly.
const WHOLE_BELOW: f64 = 1e15;

/// For smaller numbers, the fast path would write an exponent where Go does not.
const FAST_FROM: f64 = 1e-5;

/// Seconds per day.
const DAY_SECONDS: i64 = 86_400;

/// Eight `0` digits in ASCII.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Upper bound of numbers with at most eight digits.
const EIGHT_BELOW: u64 = 100_000_000;

/// Writes `number` with the fewest digits that round-trip: without `.0` if it is whole, and with an
/// exponent only below 1e-6 and from 1e21 on.
///
/// Rows only have finite numbers. A sum that overflowed is written as the largest finite number.
#[inline]
pub(super) fn put_float(to: &mut Vec<u8>, at: usize, number: f64) -> usize {
    let size = number.abs();
    if size < DECIMAL_BELOW {
        let sum = size * SCALE_FLOAT + WHOLE;
        let scaled = sum.to_bits() ^ WHOLE.to_bits();
        #[expect(clippy::float_cmp, reason = "equal only if the decimal round-trips")]
        let is_decimal = (sum - WHOLE) / SCALE_FLOAT == size;
        if is_decimal && !(1..SCALED_FROM).contains(&scaled) {
            return put_in(to, at, |place| set_decimal(place, number.is_sign_negative(), scaled));
        }
    }
    put_long(to, at, number)
}

/// Writes `scaled` divided by [`SCALE`]. `scaled` must be below 10^15. Returns the number of bytes.
#[inline]
fn set_decimal(place: &mut [u8; 32], is_negative: bool, scaled: u64) -> usize {
    let (whole, rest) = (scaled / SCALE, scaled % SCALE);
    set(place, 0, [b'-']);
    let at = set_whole(place, usize::from(is_negative), whole);
    if rest == 0 {
        return at;
    }
    let digits = digits(rest);
    set(place, at, [b'.']);
    set(place, at + 1, (digits | ZEROS).to_le_bytes());
    at + 1 + n_digits(digits)
}

/// Writes a number below [`EIGHT_BELOW`] without leading zeros. Returns the end position.
#[inline]
fn set_whole(place: &mut [u8; 32], at: usize, number: u64) -> usize {
    let digits = digits(number);
    // The last digit is written even if it is 0.
    let n_before = (digits | 1 << 56).trailing_zeros() / 8;
    set(place, at, ((digits | ZEROS) >> (n_before * 8)).to_le_bytes());
    at + 8 - usize::try_from(n_before).unwrap_or_default()
}

#[inline]
fn set<const N: usize>(place: &mut [u8; 32], at: usize, bytes: [u8; N]) {
    // The digits are copied as an array, since copying a slice is a function call even if its length is
    // known.
    if let Some(place) = place.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = bytes;
    }
}

/// Returns the digits of a number below [`EIGHT_BELOW`], one per byte, with the first digit in the
/// lowest byte.
///
/// Several parts are divided in parallel: first by 10 000, then by 100, then by 10. The factors are
/// reciprocals, which are exact for numbers with so few digits.
#[inline]
const fn digits(number: u64) -> u64 {
    let halves = (number << 32) - ((number * 109_951_163) >> 40) * ((10_000 << 32) - 1);
    let hundreds = ((halves * 10_486) >> 20) & 0x7F_0000_007F;
    let pairs = (halves << 16) - hundreds * ((100 << 16) - 1);
    let tens = ((pairs * 103) >> 10) & 0x0F_000F_000F_000F;
    (pairs << 8) - tens * ((10 << 8) - 1)
}

/// Returns the number of digits without trailing zeros.
#[inline]
const fn n_digits(digits: u64) -> usize {
    8 - (digits.leading_zeros() / 8) as usize
}

/// Writes a number that is not a decimal with few digits.
#[inline(never)]
fn put_long(to: &mut Vec<u8>, at: usize, number: f64) -> usize {
    let size = number.abs();
    if size < WHOLE_BELOW {
        // Converting back and forth is faster than checking for a fraction.
        #[expect(clippy::cast_possible_truncation, reason = "it is far below 2^63")]
        let whole = number as i64;
        #[expect(clippy::cast_precision_loss, reason = "it is below 2^53, or was cut off")]
        #[expect(clippy::float_cmp, reason = "equal only for a whole number")]
        if whole as f64 == number {
            return put_integer(to, at, whole);
        }
        if size >= FAST_FROM {
            return put_short(to, at, zmij::Buffer::new().format_finite(number).as_bytes());
        }
    }
    put_rare(to, at, number)
}

/// Writes a number that is not whole and is unusually large or small.
#[cold]
fn put_rare(to: &mut Vec<u8>, at: usize, number: f64) -> usize {
    let number = if number.is_nan() { 0.0 } else { number.clamp(f64::MIN, f64::MAX) };
    put_with(to, at, |to| to.extend_from_slice(float_text(number).as_bytes()))
}

/// Writes a whole number.
#[inline]
pub(super) fn put_integer(to: &mut Vec<u8>, at: usize, number: i64) -> usize {
    if let Ok(number) = u64::try_from(number)
        && number < EIGHT_BELOW
    {
        return put_in(to, at, |place| set_whole(place, 0, number));
    }
    put_short(to, at, itoa::Buffer::new().format(number).as_bytes())
}

/// Writes the text of a number, of at most 32 bytes.
fn put_short(to: &mut Vec<u8>, at: usize, bytes: &[u8]) -> usize {
    put_in(to, at, |place| {
        match bytes.len() {
            8..16 => set_ends::<8>(place, bytes),
            16..=32 => set_ends::<16>(place, bytes),
            _ => place.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
        }
        bytes.len()
    })
}

/// Copies between `N` and twice `N` bytes with two copies of `N` bytes that overlap.
#[inline]
fn set_ends<const N: usize>(place: &mut [u8; 32], bytes: &[u8]) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
        set(place, 0, *first);
        set(place, bytes.len() - N, *last);
    }
}

/// Writes timestamps. Caches the last date, since consecutive timestamps usually have the same date.
#[derive(Debug, Clone, Default)]
pub(super) struct TimestampWriter {
    day: Option<i64>,
    /// Last date and its separator, as in `2026-07-30T`.
    date: Phrase,
    /// True if a whole second is written with a fraction, too.
    pub(super) has_fractions: bool,
}

impl TimestampWriter {
    /// Writes `timestamp` in quotes.
    pub(super) fn put(&mut self, to: &mut Vec<u8>, at: usize, timestamp: Timestamp) -> usize {
        let at = put(to, at, b"\"");
        let at = self.put_bare(to, at, timestamp);
        put(to, at, b"\"")
    }

    /// Writes `timestamp` as RFC 3339 in UTC, with a fraction if it has one.
    #[inline]
    pub(super) fn put_bare(&mut self, to: &mut Vec<u8>, at: usize, timestamp: Timestamp) -> usize {
        let seconds = timestamp.seconds();
        let day = seconds.div_euclid(DAY_SECONDS);
        if self.day != Some(day) {
            self.begin(day);
        }
        let at = self.date.put(to, at);
        let second = seconds.rem_euclid(DAY_SECONDS).unsigned_abs();
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let [h, hh, m, mm, s, ss, ..] =
            (digits(hour * 1_000_000 + minute * 10_000 + second % 60 * 100) | ZEROS).to_le_bytes();
        let at = put(to, at, &[h, hh, b':', m, mm, b':', s, ss]);
        let micros = timestamp.micros().rem_euclid(1_000_000).unsigned_abs();
        let at = match micros {
            0 if self.has_fractions => put(to, at, b".0"),
            0 => at,
            _ => put_fraction(to, at, micros),
        };
        put(to, at, b"Z")
    }

    #[cold]
    fn begin(&mut self, day: i64) {
        let midnight = Timestamp::from_seconds(day.saturating_mul(DAY_SECONDS)).to_string();
        let date = midnight.split('T').next().unwrap_or_default();
        self.date = Phrase::new(&[date.as_bytes(), b"T"].concat());
        self.day = Some(day);
    }
}

/// Writes a fraction in millionths of a second, without trailing zeros.
fn put_fraction(to: &mut Vec<u8>, at: usize, micros: u64) -> usize {
    let digits = digits(micros * 100);
    let at = put(to, at, b".");
    put(to, at, &(digits | ZEROS).to_le_bytes());
    at + n_digits(digits)
}
