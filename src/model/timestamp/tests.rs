use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, shown: &str) {
    assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), shown);
}

#[test]
fn a_fraction_is_shown_only_where_there_is_one() {
    check("2026-07-30T21:57:00Z", "2026-07-30T21:57:00Z");
    check("2026-07-30T21:57:00.000Z", "2026-07-30T21:57:00Z");
    check("2026-07-30T21:57:00.376Z", "2026-07-30T21:57:00.376Z");
    check("2026-07-30T21:57:00.123456789Z", "2026-07-30T21:57:00.123456Z");
}

#[test]
fn an_offset_is_turned_into_utc() {
    check("2026-07-30T23:57:00+02:00", "2026-07-30T21:57:00Z");
}

#[test]
fn what_is_no_timestamp_is_refused() {
    for text in ["", "yesterday", "2026-07-30", "2026-07-30T21:57:00", "1753912620"] {
        assert!(text.parse::<Timestamp>().is_err(), "{text}");
    }
}

#[test]
fn the_outermost_moments_are_shown_and_read_back() {
    for moment in [Timestamp::MIN, Timestamp::MAX] {
        assert_eq!(moment.to_string().parse(), Ok(moment));
    }
}

proptest! {
    #[test]
    fn what_is_shown_is_read_back(micros in -60_000_000_000_000_000_i64..250_000_000_000_000_000) {
        let moment = Timestamp::from_micros(micros);
        prop_assert_eq!(moment.to_string().parse(), Ok(moment));
    }
}
