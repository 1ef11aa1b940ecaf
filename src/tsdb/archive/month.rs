//! Calendar months, the unit of the archive.

use std::fmt;

use model::timestamp::Timestamp;

use crate::span::Span;

/// Microseconds per day.
const DAY_MICROS: i64 = 86_400_000_000;

/// A calendar month in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Month {
    /// Number of months since January of year 0.
    number: i64,
}

impl Month {
    /// Returns the month of a timestamp.
    #[must_use]
    pub const fn of(timestamp: Timestamp) -> Self {
        // Converts days to the Gregorian calendar with eras of 400 years that begin in March.
        let days = timestamp.micros().div_euclid(DAY_MICROS) + 719_468;
        let era = days.div_euclid(146_097);
        let day = days.rem_euclid(146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        Self { number: (era * 400 + year) * 12 + month_from_march + 2 }
    }

    /// Returns the first timestamp of the month.
    #[must_use]
    pub const fn start(self) -> Timestamp {
        let from_march = self.number - 2;
        let year = from_march.div_euclid(12);
        let month = from_march.rem_euclid(12);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let day_of_era =
            year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month + 2) / 5;
        let days = era * 146_097 + day_of_era - 719_468;
        Timestamp::from_micros(days * DAY_MICROS)
    }

    /// Returns the following month.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { number: self.number + 1 }
    }

    /// Returns the span of all timestamps in the month.
    #[must_use]
    pub const fn span(self) -> Span {
        let last = Timestamp::from_micros(self.next().start().micros() - 1);
        Span { first: self.start(), last }
    }
}

impl fmt::Display for Month {
    /// Formats the month like `2024-03`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.number.div_euclid(12), self.number.rem_euclid(12) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(timestamp: &str, label: &str, start: &str) {
        let month = Month::of(timestamp.parse().unwrap());
        assert_eq!((month.to_string(), month.start()), (label.to_owned(), start.parse().unwrap()));
        assert_eq!(Month::of(month.span().last), month);
        assert_eq!(month.next().start().micros(), month.span().last.micros() + 1);
    }

    #[test]
    fn timestamp_belongs_to_its_calendar_month() {
        check("2024-02-29T23:59:59.999999Z", "2024-02", "2024-02-01T00:00:00Z");
        check("2024-03-01T00:00:00Z", "2024-03", "2024-03-01T00:00:00Z");
        check("1969-12-31T23:59:59Z", "1969-12", "1969-12-01T00:00:00Z");
        check("2000-01-01T00:00:00Z", "2000-01", "2000-01-01T00:00:00Z");
        check("1900-02-28T12:00:00Z", "1900-02", "1900-02-01T00:00:00Z");
    }
}
