//! Whether a child used up its time, or other processes had the processors.

use std::time::Duration;

use task::process::ThreadTimes;

/// Of the time a child wanted a processor, the share it must have had one, in percent, to be at
/// fault itself. The rest is what an otherwise idle machine takes away.
const SHARE_MIN: u32 = 75;

/// Whether a process with these times, which did not end `within` that time, had the processors for
/// most of it.
pub(super) fn is_most_of(times: ThreadTimes, within: Duration) -> bool {
    let wanted = times.ran + times.waited;
    times.ran >= within / 2 && times.ran * 100 >= wanted * SHARE_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_processor_does_not_count_as_its_own_time() {
        let within = Duration::from_secs(3);
        let times = |ran_s, waited_s| ThreadTimes {
            ran: Duration::from_secs(ran_s),
            waited: Duration::from_secs(waited_s),
        };
        assert!(is_most_of(times(3, 0), within));
        assert!(is_most_of(times(11, 1), within));
        assert!(!is_most_of(times(1, 0), within));
        assert!(!is_most_of(times(6, 6), within));
    }
}
