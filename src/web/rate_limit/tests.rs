//! Tests with a paused clock.

use super::*;

const RATE: Rate = Rate { every: Duration::from_millis(100), burst: 3 };

#[tokio::test(start_paused = true)]
async fn burst_of_requests_is_available_at_first_and_then_one_request_per_interval() {
    let limiter = RateLimiter::new(RATE);
    let n_left = || limiter.take("a").map(|taken| taken.n_left);
    assert_eq!([n_left(), n_left(), n_left()], [Ok(2), Ok(1), Ok(0)]);
    assert_eq!(n_left(), Err(Duration::from_millis(100)));
    assert_eq!(limiter.wait(&"a"), Some(Duration::from_millis(100)));
    assert_eq!(limiter.take("b").map(|taken| taken.n_left), Ok(2), "each key has its own burst");
    tokio::time::advance(Duration::from_millis(60)).await;
    assert_eq!(n_left(), Err(Duration::from_millis(40)));
    tokio::time::advance(Duration::from_millis(40)).await;
    assert_eq!(limiter.wait(&"a"), None);
    assert_eq!(n_left(), Ok(0));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(n_left(), Ok(2), "at most a whole burst accumulates");
    limiter.reset(&"a");
    assert_eq!(n_left(), Ok(2));
}

#[tokio::test(start_paused = true)]
async fn request_is_admitted_after_the_returned_wait_for_every_configured_rate() {
    for (every_ms, burst) in [(1, 1), (7, 2), (1000, 1), (3, 100)] {
        let rate = Rate { every: Duration::from_millis(every_ms), burst };
        let limiter = RateLimiter::new(rate);
        let (began, mut n_taken) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(5) {
            match limiter.take(()) {
                Ok(_) => n_taken += 1,
                Err(wait) => tokio::time::advance(wait).await,
            }
        }
        let most = 5000 / every_ms + u64::from(burst);
        assert!((most - 1..=most).contains(&n_taken), "{n_taken} of {most} at {rate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn least_recently_used_key_is_forgotten_at_the_limit() {
    let limiter = RateLimiter::new(Rate { every: Duration::from_secs(1), burst: 1 });
    let n_keys = CALLERS_MAX.get() * 3;
    for key in 0..n_keys {
        assert!(limiter.take(key).is_ok());
    }
    assert!(limiter.take(n_keys - 1).is_err());
    assert!(limiter.take(0).is_ok(), "the key is forgotten");
}

#[test]
fn retry_after_is_rounded_up_to_whole_seconds() {
    for (ms, want) in [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (30_000, 30)] {
        assert_eq!(retry_seconds(Duration::from_millis(ms)), want);
    }
}

#[tokio::test(start_paused = true)]
async fn log_lines_beyond_the_limit_are_counted_instead_of_written() {
    let mut log = LogLimit::default();
    let n_logged = (0..1000).filter(|_| log.admit(Instant::now(), 16).0).count();
    assert_eq!(n_logged, 16);
    tokio::time::advance(LOGGED_EVERY).await;
    assert_eq!(log.admit(Instant::now(), 16), (true, 984));
    assert_eq!(log.admit(Instant::now(), 16), (true, 0));
}
