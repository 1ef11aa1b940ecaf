//! Allowances: token buckets, and how much a peer may send.

use tokio::time::Instant;

/// How much peers may send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowances {
    /// Streams of one peer.
    pub(crate) streams: Rate,
    /// Gossip messages that one peer wrote and handed over itself.
    pub(crate) gossip: Rate,
    /// Gossip messages of one author that are passed on, or that others hand over.
    pub(crate) authored: Rate,
    /// Gossip messages of others that one peer hands over.
    pub(crate) relayed: Rate,
    /// Gossip messages of all unnamed authors that enter the mesh here.
    pub(crate) entering: Rate,
    /// Gossip messages of all unnamed authors that pass through here.
    pub(crate) passing: Rate,
    /// Offenses of one peer.
    pub(crate) offenses: Rate,
    /// Bytes that unfinished messages of all peers may take.
    pub(crate) unfinished_bytes: usize,
}

/// So many at once, and so many more each second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) burst: u32,
    pub(crate) per_second: u32,
}

/// The allowances of a peer: several times what the busiest head sends to one worker, and a small
/// part of what would keep a node from its work. What one node passes on, 700 a second with what
/// enters, stays below the 1 000 that its receivers take from one relay. A peer that offends once in a
/// second, as a broken but honest one may, is borne.
pub(crate) const ALLOWANCES: Allowances = Allowances {
    streams: Rate { burst: 20_000, per_second: 10_000 },
    gossip: Rate { burst: 4_000, per_second: 2_000 },
    authored: Rate { burst: 200, per_second: 100 },
    relayed: Rate { burst: 2_000, per_second: 1_000 },
    entering: Rate { burst: 400, per_second: 200 },
    passing: Rate { burst: 1_000, per_second: 500 },
    offenses: Rate { burst: 64, per_second: 1 },
    unfinished_bytes: 256 * 1024 * 1024,
};

/// An allowance and how much of it is left.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    left: f64,
    at: Instant,
}

impl Bucket {
    pub(crate) fn full(rate: Rate, now: Instant) -> Self {
        Self { rate, left: f64::from(rate.burst), at: now }
    }

    /// Takes one, if one is left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.take_n(1, now)
    }

    /// Takes `n`, if as many are left.
    pub(crate) fn take_n(&mut self, n: u32, now: Instant) -> bool {
        let refilled = now.saturating_duration_since(self.at).as_secs_f64();
        let refilled = refilled.mul_add(f64::from(self.rate.per_second), self.left);
        self.left = refilled.min(f64::from(self.rate.burst));
        self.at = now;
        let has_enough = self.left >= f64::from(n);
        if has_enough {
            self.left -= f64::from(n);
        }
        has_enough
    }
}
