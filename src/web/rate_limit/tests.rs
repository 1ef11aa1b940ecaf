//! Events against a paused clock.

use super::*;

const RATE: Rate = Rate { every: Duration::from_millis(100), burst: 3 };

#[tokio::test(start_paused = true)]
async fn a_burst_is_free_at_once_and_then_one_in_each_interval() {
    let throttle = RateLimiter::new(RATE);
    let n_left = || throttle.take("a").map(|taken| taken.n_left);
    assert_eq!([n_left(), n_left(), n_left()], [Ok(2), Ok(1), Ok(0)]);
    assert_eq!(n_left(), Err(Duration::from_millis(100)));
    assert_eq!(throttle.wait(&"a"), Some(Duration::from_millis(100)));
    assert_eq!(throttle.take("b").map(|taken| taken.n_left), Ok(2), "each has its own");
    tokio::time::advance(Duration::from_millis(60)).await;
    assert_eq!(n_left(), Err(Duration::from_millis(40)));
    tokio::time::advance(Duration::from_millis(40)).await;
    assert_eq!(throttle.wait(&"a"), None);
    assert_eq!(n_left(), Ok(0));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(n_left(), Ok(2), "no more than the burst is saved up");
    throttle.reset(&"a");
    assert_eq!(n_left(), Ok(2));
}

#[tokio::test(start_paused = true)]
async fn waiting_as_told_is_enough_at_any_rate() {
    for (every_ms, burst) in [(1, 1), (7, 2), (1000, 1), (3, 100)] {
        let rate = Rate { every: Duration::from_millis(every_ms), burst };
        let throttle = RateLimiter::new(rate);
        let (began, mut n_taken) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(5) {
            match throttle.take(()) {
                Ok(_) => n_taken += 1,
                Err(wait) => tokio::time::advance(wait).await,
            }
        }
        let most = 5000 / every_ms + u64::from(burst);
        assert!((most - 1..=most).contains(&n_taken), "{n_taken} of {most} at {rate:?}");
    }
}

#[test]
fn a_map_forgets_those_used_least_lately() {
    let mut recent = Recent::default();
    for key in 0..RECENT_MAX * 3 {
        *recent.entry(key, || 0) += 1;
        // One that is used all the time stays.
        *recent.entry(usize::MAX, || 0) += 1;
        assert!(recent.len() <= RECENT_MAX);
    }
    assert_eq!(recent.peek(&usize::MAX), Some(&(RECENT_MAX * 3)));
    assert_eq!(recent.peek(&0), None);
}

#[test]
fn a_wait_is_told_in_whole_seconds_that_suffice() {
    for (ms, want) in [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (30_000, 30)] {
        assert_eq!(seconds(Duration::from_millis(ms)), want);
    }
}
