//! Clock of the local chain. It determines the current block.
//!
//! A block is an interval of time. Heights start at 1 and never decrease, since nonces are heights and
//! must be unique. While the program runs, heights follow a monotonic clock, since the date can be
//! corrected by days. At the start of the program, the date determines how many blocks have passed
//! since the previous run.

use std::sync::Arc;
use std::time::Duration;

use model::timestamp::Timestamp;
use model::topic::BlockHeight;
use parking_lot::RwLock;
use task::clock::{Clock, Stopwatch};

/// Minimum duration of a block. An epoch has at least a few blocks, in which workers have to respond.
pub const BLOCK_TIME_MIN: Duration = Duration::from_millis(10);

/// Minimum backward step of a database's clock that is treated as a correction, in microseconds.
/// Smaller differences occur between two readings on a loaded machine, or while a clock is slewed.
const LEAP_MICROS_MIN: i64 = 2_000_000;

/// Start of a chain and duration of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Start of block 1.
    pub genesis: Timestamp,
    /// Duration of a block.
    pub block_time: Duration,
}

impl Blocks {
    /// Starts a chain at `now`. The block time is raised to [`BLOCK_TIME_MIN`] if it is shorter.
    pub fn starting(now: Timestamp, block_time: Duration) -> Self {
        Self { genesis: now, block_time: block_time.max(BLOCK_TIME_MIN) }
    }

    /// Returns the height at `now`, at least 1.
    pub fn height(&self, now: Timestamp) -> BlockHeight {
        let elapsed = now.since(self.genesis).as_micros() / self.block_time.as_micros().max(1);
        u64::try_from(elapsed).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Returns the start of block `height`.
    pub fn began(&self, height: BlockHeight) -> Timestamp {
        Timestamp::from_micros(self.genesis.micros().saturating_add(self.micros_before(height)))
    }

    /// Changes the block time from `now` on. The height at `now` does not change.
    #[must_use]
    pub fn paced(&self, now: Timestamp, block_time: Duration) -> Self {
        let paced = Self { block_time: block_time.max(BLOCK_TIME_MIN), ..*self };
        if paced == *self { paced } else { paced.rebased(now, self.height(now)) }
    }

    /// Shifts the chain if necessary, so that the height at `now` is at least `height`.
    #[must_use]
    pub fn at_least(&self, now: Timestamp, height: BlockHeight) -> Self {
        if self.height(now) >= height { *self } else { self.rebased(now, height) }
    }

    /// Shifts the chain, so that block `height` starts at `now`.
    fn rebased(&self, now: Timestamp, height: BlockHeight) -> Self {
        let micros = now.micros().saturating_sub(self.micros_before(height));
        Self { genesis: Timestamp::from_micros(micros), ..*self }
    }

    /// Returns the total duration of all blocks before `height`, in microseconds.
    fn micros_before(&self, height: BlockHeight) -> i64 {
        let n_blocks = i64::try_from(height.saturating_sub(1)).unwrap_or(i64::MAX);
        let block_micros = i64::try_from(self.block_time.as_micros()).unwrap_or(i64::MAX);
        n_blocks.saturating_mul(block_micros)
    }
}

/// A chain and its clock. Clones share both.
///
/// Services that share a database use the database's clock, since the clock of a single machine can be
/// wrong, or stop while the machine is suspended.
#[derive(Debug, Clone)]
pub struct Chain {
    clock: Clock,
    pace: Arc<RwLock<Pace>>,
}

/// State from which the current height is computed.
#[derive(Debug, Clone)]
struct Pace {
    blocks: Blocks,
    /// Date at the start of `stopwatch`.
    started_at: Timestamp,
    stopwatch: Stopwatch,
    /// True if the date comes from a database.
    is_shared: bool,
}

impl Pace {
    /// Returns the current date without the corrections of the clock since `stopwatch` was started.
    fn time(&self) -> Timestamp {
        self.started_at + self.stopwatch.elapsed()
    }
}

impl Chain {
    /// Creates a chain with `blocks` on `clock`.
    pub fn new(clock: Clock, blocks: Blocks) -> Self {
        let (started_at, stopwatch) = (clock.now(), clock.stopwatch());
        let pace = Pace { blocks, started_at, stopwatch, is_shared: false };
        Self { clock, pace: Arc::new(RwLock::new(pace)) }
    }

    /// Adopts the `date` and `blocks` of a database. If the database's clock was set back, shifts the
    /// chain so that heights do not decrease, and returns the shifted blocks, which the caller must
    /// store. A chain on a manual clock does not adopt the date.
    pub fn follow(&self, date: Timestamp, blocks: Blocks) -> Option<Blocks> {
        let mut pace = self.pace.write();
        let time = if self.clock.is_manual() { pace.time() } else { date };
        let before = pace.time();
        let behind = before.micros().saturating_sub(time.micros());
        // A date slightly in the past is due to a delayed response of the database. Such a date is not
        // adopted.
        let is_late = pace.is_shared && (0..LEAP_MICROS_MIN).contains(&behind);
        let is_back = pace.is_shared && pace.blocks == blocks && behind >= LEAP_MICROS_MIN;
        let height = pace.blocks.height(before);
        if !is_late {
            let stopwatch = self.clock.stopwatch();
            *pace = Pace { blocks, started_at: time, stopwatch, is_shared: true };
        }
        pace.blocks = blocks;
        let moved = blocks.at_least(time, height);
        if !is_back || moved == blocks {
            return None;
        }
        pace.blocks = moved;
        Some(moved)
    }

    /// Returns the current height.
    pub fn height(&self) -> BlockHeight {
        let pace = self.pace.read();
        pace.blocks.height(pace.time())
    }

    /// Returns the current date: from the database, or from the local clock without a shared database.
    pub fn now(&self) -> Timestamp {
        let pace = self.pace.read();
        if pace.is_shared { pace.time() } else { self.clock.now() }
    }

    /// Returns the duration of a block.
    pub fn block_time(&self) -> Duration {
        self.pace.read().blocks.block_time
    }

    /// Returns the time until block `height` starts, or zero if it has started.
    pub fn until(&self, height: BlockHeight) -> Duration {
        let pace = self.pace.read();
        pace.blocks.began(height).since(pace.time())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn first_block_has_height_one() {
        let blocks = Blocks::starting(timestamp(100), Duration::from_secs(5));
        assert_eq!([99, 100, 104, 105].map(|s| blocks.height(timestamp(s))), [1, 1, 1, 2]);
        assert_eq!(blocks.began(2), timestamp(105));
    }

    #[test]
    fn block_height_continues_when_the_block_time_changes() {
        let blocks = Blocks::starting(timestamp(0), Duration::from_secs(1));
        assert_eq!(blocks.height(timestamp(1000)), 1001);
        let slower = blocks.paced(timestamp(1000), Duration::from_secs(5));
        assert_eq!(slower.height(timestamp(1000)), 1001);
        assert_eq!(slower.height(timestamp(1005)), 1002);
        assert_eq!(blocks.paced(timestamp(1000), Duration::from_secs(1)), blocks);
    }

    #[test]
    fn time_until_a_block_height_is_computed() {
        let clock = Clock::manual(timestamp(0));
        let chain =
            Chain::new(clock.clone(), Blocks::starting(timestamp(0), Duration::from_secs(1)));
        assert_eq!(chain.until(4), Duration::from_secs(3));
        clock.advance(Duration::from_secs(10));
        assert_eq!((chain.height(), chain.until(4)), (11, Duration::ZERO));
    }

    #[test]
    fn clock_correction_does_not_change_the_block_height() {
        let clock = Clock::manual(timestamp(1000));
        let chain =
            Chain::new(clock.clone(), Blocks::starting(timestamp(0), Duration::from_secs(1)));
        clock.advance(Duration::from_secs(10));
        for date in [1010, 10, 200_000] {
            clock.set(timestamp(date));
            assert_eq!((chain.height(), chain.until(1012)), (1011, Duration::from_secs(1)));
        }
    }

    #[test]
    fn clock_of_the_database_is_followed_only_forward() {
        let date = timestamp(1_000_000);
        let blocks = Blocks::starting(date, Duration::from_hours(1));
        let chain = Chain::new(Clock::system(), Blocks::starting(timestamp(0), blocks.block_time));
        assert_eq!(chain.follow(date, blocks), None, "the machine's clock is ignored");
        assert_eq!(chain.height(), 1);
        assert!(chain.now().since(date) < Duration::from_hours(1));
        // The machine was suspended for two hours, in which its own clock stopped.
        let later = date + Duration::from_mins(150);
        assert_eq!((chain.follow(later, blocks), chain.height()), (None, 3));
        let late = timestamp(later.seconds() - 1);
        assert_eq!(chain.follow(late, blocks), None, "the response was delayed");
        assert!(chain.now() >= later);
        // The database's new leader has a clock that is a day behind.
        let yesterday = timestamp(later.seconds() - 86_400);
        let moved = chain.follow(yesterday, blocks).unwrap();
        assert_eq!((chain.height(), moved.height(yesterday)), (3, 3));
        assert_eq!(chain.follow(yesterday, moved), None);
        assert_eq!(chain.height(), 3);
    }

    #[test]
    fn block_height_continues_from_the_newest_nonce_if_the_clock_is_behind() {
        let blocks = Blocks::starting(timestamp(0), Duration::from_secs(1));
        assert_eq!(blocks.at_least(timestamp(100), 90), blocks);
        let later = blocks.at_least(timestamp(100), 5000);
        assert_eq!([100, 101, 112].map(|s| later.height(timestamp(s))), [5000, 5001, 5012]);
    }
}
