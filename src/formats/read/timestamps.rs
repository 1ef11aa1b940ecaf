//! Timestamps as files hold them: RFC 3339 and what is nearly that, or a number since 1970.

use model::timestamp::Timestamp;

use super::{
    cell::Cell,
    time_text::{ReadTime, TimeTexts, digits},
};

/// Past these the number of seconds, milliseconds and microseconds since 1970 is read as the next
/// finer unit: in each unit the year 5138, which is 1973 in the next.
const COARSE_MAX: [f64; 3] = [1e11, 1e14, 1e17];

/// What a number counts since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnitError, parse_err_fn = no_unit)]
pub enum TimeUnit {
    /// Seconds, with or without a fraction.
    #[strum(serialize = "s")]
    Seconds,
    /// Thousandths of a second.
    #[strum(serialize = "ms")]
    Millis,
    /// Millionths of a second.
    #[strum(serialize = "us")]
    Micros,
    /// Nanoseconds, of which thousands are kept.
    #[strum(serialize = "ns")]
    Nanos,
    /// Nothing: its digits are a date, as of 20260101, or a second, as of 20260101153000.
    Date,
}

/// A text names no unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a unit of time is s, ms, us or ns; or date, for 20260101")]
pub struct UnitError;

const fn no_unit(_: &str) -> UnitError {
    UnitError
}

impl TimeUnit {
    /// The unit in which `number` is a timestamp of our times: a date where its digits are one, which
    /// as seconds would be of 1970.
    #[must_use]
    pub fn guess(number: f64) -> Self {
        let [seconds, millis, micros] = COARSE_MAX;
        if Cell::Float(number).integer().and_then(digits).is_some() {
            return Self::Date;
        }
        match number.abs() {
            number if number < seconds => Self::Seconds,
            number if number < millis => Self::Millis,
            number if number < micros => Self::Micros,
            _ => Self::Nanos,
        }
    }

    /// The timestamp `number` units after 1970, or the date it is written as.
    fn timestamp(self, number: i64, texts: &TimeTexts) -> Option<ReadTime> {
        let at = match self {
            Self::Seconds => checked(number.checked_mul(1_000_000)?),
            Self::Millis => checked(number.checked_mul(1_000)?),
            Self::Micros => checked(number),
            Self::Nanos => checked(number.div_euclid(1_000)),
            Self::Date => texts.read_digits(number),
        };
        Some(ReadTime { at: at?, is_cut: self == Self::Nanos && number % 1_000 != 0 })
    }

    fn timestamp_of_float(self, number: f64, texts: &TimeTexts) -> Option<ReadTime> {
        let micros = match self {
            Self::Seconds => number * 1e6,
            Self::Millis => number * 1e3,
            Self::Micros => number,
            Self::Nanos => number / 1e3,
            Self::Date => return self.timestamp(Cell::Float(number).integer()?, texts),
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is too large is held, and refused"
        )]
        let micros = micros.is_finite().then_some(micros.round() as i64);
        Some(ReadTime { at: checked(micros?)?, is_cut: false })
    }
}

/// The timestamp that `cell` holds, a number of it counted in `unit` or, without one, in what its
/// size tells. Texts, and with a format numbers too, are read as `texts` says.
///
/// # Errors
/// What is wrong with it.
pub(super) fn timestamp(
    cell: Cell<'_>,
    unit: Option<TimeUnit>,
    texts: &TimeTexts,
) -> Result<ReadTime, String> {
    let in_unit = |number: f64| unit.unwrap_or_else(|| TimeUnit::guess(number));
    let found = match cell {
        Cell::Time(time) => return texts.resolve(time),
        Cell::Integer(number) if texts.format.is_some() => return texts.read(&number.to_string()),
        #[expect(clippy::cast_precision_loss, reason = "only its size is asked for")]
        Cell::Integer(number) => in_unit(number as f64).timestamp(number, texts),
        Cell::Float(number) => in_unit(number).timestamp_of_float(number, texts),
        Cell::Text(text) | Cell::Bare(text) => {
            let number: Option<f64> = text.trim().parse().ok();
            match number.filter(|_| texts.format.is_none()) {
                Some(number) => match text.trim().parse() {
                    Ok(whole) => in_unit(number).timestamp(whole, texts),
                    Err(_) => in_unit(number).timestamp_of_float(number, texts),
                },
                None => return texts.read(text),
            }
        }
        Cell::Unfit(reason) => return Err(reason.to_owned()),
        Cell::Absent | Cell::Boolean(_) | Cell::Large(_) => None,
    };
    found.ok_or_else(|| format!("{} is no timestamp", cell.describe()))
}

/// What a number in `cell` is in size, if it is one.
pub(super) fn number(cell: Cell<'_>) -> Option<f64> {
    match cell {
        Cell::Text(text) => Cell::Bare(text).float(),
        cell => cell.float(),
    }
}

fn checked(micros: i64) -> Option<Timestamp> {
    let timestamp = Timestamp::from_micros(micros);
    (timestamp.micros() == micros).then_some(timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: Cell<'_>, unit: Option<TimeUnit>, want: &str) {
        let got = timestamp(cell, unit, &TimeTexts::default());
        let got = got.map_or_else(|reason| reason, |read| read.at.to_string());
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
        check(Cell::Bare("20260101"), None, "2026-01-01T00:00:00Z");
        check(Cell::Float(20_260_101_153_000.0), None, "2026-01-01T15:30:00Z");
        check(Cell::Bare("20260101"), Some(TimeUnit::Seconds), "1970-08-23T11:48:21Z");
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
        check(Cell::Bare("1e300"), None, "`1e300` is no timestamp");
    }
}
