//! Calendar months, the unit of the archive.

use std::fmt;

use jiff::ToSpan as _;
use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use model::timestamp::Timestamp;

use crate::span::{Span, just_before};

/// A calendar month in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Month {
    /// First day of the month.
    first: Date,
}

impl Month {
    /// Returns the month of a timestamp.
    #[must_use]
    pub fn of(timestamp: Timestamp) -> Self {
        // Cannot fail: jiff supports all timestamps.
        let at = jiff::Timestamp::from_microsecond(timestamp.micros()).unwrap_or_default();
        Self { first: Offset::UTC.to_datetime(at).date().first_of_month() }
    }

    /// Returns the first timestamp of the month.
    #[must_use]
    pub fn start(self) -> Timestamp {
        let start = Offset::UTC.to_timestamp(self.first.to_datetime(Time::midnight()));
        // Fails only at the ends of the calendar, which begins and ends within a month.
        let end = if self.first.year() < 0 { Timestamp::MIN } else { Timestamp::MAX };
        start.map_or(end, |start| Timestamp::from_micros(start.as_microsecond()))
    }

    /// Returns the following month, or the end of the calendar.
    #[must_use]
    pub fn next(self) -> Self {
        Self { first: self.first.saturating_add(1.month()) }
    }

    /// Returns the span of all timestamps in the month.
    #[must_use]
    pub fn span(self) -> Span {
        Span { first: self.start(), last: just_before(self.next().start()) }
    }
}

impl fmt::Display for Month {
    /// Formats the month like `2024-03`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.first.year(), self.first.month())
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
        for end in [Timestamp::MIN, Timestamp::MAX] {
            let span = Month::of(end).span();
            assert!(span.first <= end && end.micros() <= span.last.micros() + 1, "{span:?}");
        }
    }
}
