use super::*;

#[track_caller]
fn check(resolution: &str, timestamp: &str, start: &str) {
    let resolution: Resolution = resolution.parse().unwrap();
    assert_eq!(resolution.bucket_start(timestamp.parse().unwrap()).to_string(), start);
}

#[test]
fn a_bucket_starts_on_its_own_grid_in_utc() {
    check("raw", "2026-07-30T21:57:01.5Z", "2026-07-30T21:57:01.5Z");
    check("5m", "2026-07-30T21:59:59.999Z", "2026-07-30T21:55:00Z");
    check("15m", "2026-07-30T21:59:59.999Z", "2026-07-30T21:45:00Z");
    check("4h", "2026-07-30T23:59:59Z", "2026-07-30T20:00:00Z");
    check("1h", "2026-07-30T21:00:00Z", "2026-07-30T21:00:00Z");
    check("1d", "2026-07-30T23:59:59Z", "2026-07-30T00:00:00Z");
    check("1h", "1969-12-31T23:30:00Z", "1969-12-31T23:00:00Z");
}

#[test]
fn each_bucket_is_a_whole_multiple_of_the_finer_one() {
    let lengths = Resolution::ALL.map(|r| r.bucket().map_or(1, |length| length.as_secs()));
    assert!(lengths.windows(2).all(|pair| pair[1] % pair[0] == 0));
}

#[test]
fn a_coarser_resolution_serves_a_wider_span() {
    let spans = Resolution::ALL.map(Resolution::span_max);
    assert!(spans[..5].is_sorted() && spans[..5].iter().all(Option::is_some));
    assert_eq!(spans[5], None);
}

#[test]
fn each_bucket_is_folded_from_a_finer_one() {
    for resolution in Resolution::ALL {
        assert!(resolution.source().is_none_or(|finer| finer < resolution));
    }
}

#[test]
fn names_are_read_back() {
    for resolution in Resolution::ALL {
        assert_eq!(resolution.to_string().parse(), Ok(resolution));
    }
    assert!("7m".parse::<Resolution>().is_err());
}
