use super::*;

const OURS: Limits =
    Limits { wall: Duration::from_secs(10), memory_bytes: 1000, output_bytes: 100, fuel: None };

#[track_caller]
fn check(ours: Limits, asked: RequestedLimits, want: Limits) {
    assert_eq!(ours.lowered(asked), want);
}

#[test]
fn limits_that_a_request_does_not_name_are_unchanged() {
    check(OURS, RequestedLimits::default(), OURS);
}

#[test]
fn request_for_lower_limits_is_granted() {
    let asked = RequestedLimits {
        wall: Some(Duration::from_secs(3)),
        memory_bytes: Some(500),
        fuel: Some(7),
    };
    let want = Limits { wall: Duration::from_secs(3), memory_bytes: 500, fuel: Some(7), ..OURS };
    check(OURS, asked, want);
}

#[test]
fn request_for_higher_limits_is_not_granted() {
    let ours = Limits { fuel: Some(7), ..OURS };
    let asked = RequestedLimits {
        wall: Some(Duration::MAX),
        memory_bytes: Some(usize::MAX),
        fuel: Some(u64::MAX),
    };
    check(ours, asked, ours);
}
