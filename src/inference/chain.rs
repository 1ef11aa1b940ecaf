//! The local chain's clock: which block it is.
//!
//! Nothing is mined: a block is a stretch of time. Heights start at 1 and never go back, since
//! nonces are heights and no nonce may be used twice.

use std::time::Duration;

use model::{timestamp::Timestamp, topic::BlockHeight};
use task::clock::Clock;

/// The shortest block time taken. Epochs have at least a few blocks, and an answer takes a while.
pub const BLOCK_TIME_MIN: Duration = Duration::from_millis(10);

/// When a chain's first block was, and how long each takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// When block 1 began.
    pub genesis: Timestamp,
    /// How long a block takes.
    pub block_time: Duration,
}

impl Blocks {
    /// Starts a chain at `now`, with blocks of at least [`BLOCK_TIME_MIN`].
    pub fn starting(now: Timestamp, block_time: Duration) -> Self {
        Self { genesis: now, block_time: block_time.max(BLOCK_TIME_MIN) }
    }

    /// The height at `now`, 1 or more.
    pub fn height(&self, now: Timestamp) -> BlockHeight {
        let elapsed = now.since(self.genesis).as_micros() / self.block_time.as_micros().max(1);
        u64::try_from(elapsed).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// When block `height` begins.
    pub fn began(&self, height: BlockHeight) -> Timestamp {
        Timestamp::from_micros(self.genesis.micros().saturating_add(self.micros_before(height)))
    }

    /// The same chain at `now`, from here on with blocks of `block_time`: the height goes on.
    #[must_use]
    pub fn paced(&self, now: Timestamp, block_time: Duration) -> Self {
        let paced = Self { block_time: block_time.max(BLOCK_TIME_MIN), ..*self };
        if paced == *self {
            return *self;
        }
        let micros = now.micros().saturating_sub(paced.micros_before(self.height(now)));
        Self { genesis: Timestamp::from_micros(micros), ..paced }
    }

    /// How long all blocks before `height` take, in microseconds.
    fn micros_before(&self, height: BlockHeight) -> i64 {
        let n_blocks = i64::try_from(height.saturating_sub(1)).unwrap_or(i64::MAX);
        let block_micros = i64::try_from(self.block_time.as_micros()).unwrap_or(i64::MAX);
        n_blocks.saturating_mul(block_micros)
    }
}

/// A chain and what tells its time. Clones tell the same.
#[derive(Debug, Clone)]
pub struct Chain {
    clock: Clock,
    blocks: Blocks,
}

impl Chain {
    /// A chain whose blocks are told by `clock`.
    pub const fn new(clock: Clock, blocks: Blocks) -> Self {
        Self { clock, blocks }
    }

    /// The height now.
    pub fn height(&self) -> BlockHeight {
        self.blocks.height(self.clock.now())
    }

    /// The date.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How long a block takes.
    pub const fn block_time(&self) -> Duration {
        self.blocks.block_time
    }

    /// How long until block `height` begins; zero if it has.
    pub fn until(&self, height: BlockHeight) -> Duration {
        self.blocks.began(height).since(self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn the_first_block_is_number_one() {
        let blocks = Blocks::starting(at(100), Duration::from_secs(5));
        assert_eq!([99, 100, 104, 105].map(|s| blocks.height(at(s))), [1, 1, 1, 2]);
        assert_eq!(blocks.began(2), at(105));
    }

    #[test]
    fn heights_go_on_where_the_pace_changes() {
        let blocks = Blocks::starting(at(0), Duration::from_secs(1));
        assert_eq!(blocks.height(at(1000)), 1001);
        let slower = blocks.paced(at(1000), Duration::from_secs(5));
        assert_eq!(slower.height(at(1000)), 1001);
        assert_eq!(slower.height(at(1005)), 1002);
        assert_eq!(blocks.paced(at(1000), Duration::from_secs(1)), blocks);
    }

    #[test]
    fn a_clock_tells_how_long_a_block_is_away() {
        let clock = Clock::manual(at(0));
        let chain = Chain::new(clock.clone(), Blocks::starting(at(0), Duration::from_secs(1)));
        assert_eq!(chain.until(4), Duration::from_secs(3));
        clock.advance(Duration::from_secs(10));
        assert_eq!((chain.height(), chain.until(4)), (11, Duration::ZERO));
    }
}
