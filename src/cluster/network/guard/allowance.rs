//! How much a peer may send.

use web::rate_limit::Rate;

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

/// The allowances of a peer: several times what the busiest head sends to one worker, and a small
/// part of what would keep a node from its work. What one node passes on, 700 a second with what
/// enters, stays below the 1 000 that its receivers take from one relay. A peer that offends once in a
/// second, as a broken but honest one may, is borne.
pub(crate) const ALLOWANCES: Allowances = Allowances {
    streams: Rate::per_second(10_000, 20_000),
    gossip: Rate::per_second(2_000, 4_000),
    authored: Rate::per_second(100, 200),
    relayed: Rate::per_second(1_000, 2_000),
    entering: Rate::per_second(200, 400),
    passing: Rate::per_second(500, 1_000),
    offenses: Rate::per_second(1, 64),
    unfinished_bytes: 256 * 1024 * 1024,
};
