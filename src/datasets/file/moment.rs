//! Moments as files hold them: RFC 3339 and what is nearly that, or a number since 1970.

use std::str::FromStr;

use model::timestamp::Timestamp;

use super::cell::Cell;

/// Past these the number of seconds, milliseconds and microseconds since 1970 is read as the next
/// finer unit: in each unit the year 5138, which is 1973 in the next.
const COARSE_MAX: [f64; 3] = [1e11, 1e14, 1e17];

/// What a number counts since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds, of which thousands are kept.
    Nanos,
}

/// A text names no unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a unit of time is s, ms, us or ns")]
pub struct UnitError;

impl FromStr for TimeUnit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "s" => Ok(Self::Seconds),
            "ms" => Ok(Self::Millis),
            "us" => Ok(Self::Micros),
            "ns" => Ok(Self::Nanos),
            _ => Err(UnitError),
        }
    }
}

impl TimeUnit {
    /// The unit in which `number` is a moment of our times.
    #[must_use]
    pub fn of(number: f64) -> Self {
        let [seconds, millis, micros] = COARSE_MAX;
        match number.abs() {
            number if number < seconds => Self::Seconds,
            number if number < millis => Self::Millis,
            number if number < micros => Self::Micros,
            _ => Self::Nanos,
        }
    }

    /// The moment `number` units after 1970.
    pub(super) fn moment(self, number: i64) -> Option<Timestamp> {
        checked(match self {
            Self::Seconds => number.checked_mul(1_000_000)?,
            Self::Millis => number.checked_mul(1_000)?,
            Self::Micros => number,
            Self::Nanos => number.div_euclid(1_000),
        })
    }

    fn moment_of_float(self, number: f64) -> Option<Timestamp> {
        let micros = match self {
            Self::Seconds => number * 1e6,
            Self::Millis => number * 1e3,
            Self::Micros => number,
            Self::Nanos => number / 1e3,
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is too large is held, and refused"
        )]
        let micros = micros.is_finite().then_some(micros.round() as i64);
        checked(micros?)
    }
}

/// The moment that `cell` holds, a number of it counted in `unit` or, without one, in what its size
/// tells.
///
/// # Errors
/// What is wrong with it.
pub fn moment(cell: Cell<'_>, unit: Option<TimeUnit>) -> Result<Timestamp, String> {
    let in_unit = |number: f64| unit.unwrap_or_else(|| TimeUnit::of(number));
    let found = match cell {
        Cell::Moment(moment) => Some(moment),
        #[expect(clippy::cast_precision_loss, reason = "only its size is asked for")]
        Cell::Integer(number) => in_unit(number as f64).moment(number),
        Cell::Float(number) => in_unit(number).moment_of_float(number),
        Cell::Text(text) | Cell::Bare(text) => {
            let text = text.trim();
            let number: Option<f64> = text.parse().ok();
            match number {
                Some(number) => match text.parse() {
                    Ok(whole) => in_unit(number).moment(whole),
                    Err(_) => in_unit(number).moment_of_float(number),
                },
                None => of_text(text),
            }
        }
        Cell::Absent | Cell::Boolean(_) => None,
    };
    found.ok_or_else(|| format!("{} is no moment", cell.shown()))
}

/// What a number in `cell` is in size, if it is one.
pub(super) fn number(cell: Cell<'_>) -> Option<f64> {
    match cell {
        Cell::Text(text) => Cell::Bare(text).float(),
        cell => cell.float(),
    }
}

/// Reads a date, with or without a time, with or without an offset; without one it is UTC.
fn of_text(text: &str) -> Option<Timestamp> {
    /// The length of `2026-07-30`.
    const DATE_CHARS: usize = 10;
    if let Ok(moment) = text.parse() {
        return Some(moment);
    }
    let text = text.strip_suffix("UTC").map_or(text, str::trim_end);
    if text.len() == DATE_CHARS {
        return format!("{text}T00:00:00Z").parse().ok();
    }
    format!("{text}Z").parse().ok()
}

fn checked(micros: i64) -> Option<Timestamp> {
    let moment = Timestamp::from_micros(micros);
    (moment.micros() == micros).then_some(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: Cell<'_>, unit: Option<TimeUnit>, want: &str) {
        let got = moment(cell, unit).map_or_else(|reason| reason, |moment| moment.to_string());
        assert_eq!(got, want, "{cell:?}");
    }

    #[test]
    fn numbers_are_read_in_the_unit_of_their_size() {
        let want = "2026-07-30T21:57:00Z";
        let seconds: i64 = want.parse::<Timestamp>().unwrap().seconds();
        check(Cell::Integer(seconds), None, want);
        check(Cell::Integer(seconds * 1_000), None, want);
        check(Cell::Integer(seconds * 1_000_000), None, want);
        check(Cell::Integer(seconds * 1_000_000_000), None, want);
        check(Cell::Bare(&format!("{seconds}.5")), None, "2026-07-30T21:57:00.5Z");
        check(Cell::Integer(100), Some(TimeUnit::Millis), "1970-01-01T00:00:00.1Z");
        check(Cell::Bare("-1"), None, "1969-12-31T23:59:59Z");
    }

    #[test]
    fn texts_are_read_with_or_without_time_and_offset() {
        for text in [
            "2026-07-30T21:57:00Z",
            "2026-07-30T23:57:00+02:00",
            "2026-07-30 21:57:00",
            "2026-07-30T21:57",
            "2026-07-30 21:57:00 UTC",
            "2026-07-30 21:57:00+00:00",
        ] {
            check(Cell::Bare(text), None, "2026-07-30T21:57:00Z");
        }
        check(Cell::Text("2026-07-30"), None, "2026-07-30T00:00:00Z");
        check(Cell::Bare("30.07.2026"), None, "`30.07.2026` is no moment");
        check(Cell::Bare("1e300"), None, "`1e300` is no moment");
    }
}
