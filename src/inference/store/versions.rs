//! How services of one database learn of each other's changes: a number for each topic that changes
//! with what they keep in memory of it, and one that changes with the list of topics.
//!
//! The row of such a number is also the lock of its topic: only one service at a time opens an epoch of
//! it, closes one, or learns. A file has one service, and none of this.

use std::collections::BTreeMap;

use model::{timestamp::Timestamp, topic::TopicId};

use super::{
    Store, StoreError, blocks, height, number,
    session::{Session, values},
};
use crate::network::chain::Blocks;

/// Stands for the list of topics, which are numbered from 1.
const TOPICS: i64 = 0;

/// Gives a number to each topic that has none, and has services read the list again.
pub(super) const ADD_ALL: &str = "
INSERT INTO versions (topic_id, version) SELECT id, 0 FROM topics ON CONFLICT DO NOTHING;
UPDATE versions SET version = version + 1 WHERE topic_id = 0;
";

/// What to do where another service has the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Wait until it is free.
    Wait,
    /// Leave to that service what is to be done.
    Skip,
}

/// The numbers of a database, at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// The date of the database.
    pub at: Timestamp,
    /// The chain, if it has begun.
    pub blocks: Option<Blocks>,
    /// The number of the list of topics.
    pub list: i64,
    /// Each topic's number.
    pub topics: BTreeMap<TopicId, i64>,
}

/// Takes the lock of `topic` until the end of the transaction; whether it was taken. It is not where the
/// topic was deleted.
pub(super) fn lock(session: &Session<'_>, topic: TopicId, turn: Turn) -> Result<bool, StoreError> {
    if !session.is_shared() {
        return Ok(true);
    }
    let sql = match turn {
        Turn::Wait => "SELECT 1 FROM versions WHERE topic_id = ?1 FOR UPDATE",
        Turn::Skip => "SELECT 1 FROM versions WHERE topic_id = ?1 FOR UPDATE SKIP LOCKED",
    };
    Ok(session.find(sql, [number(topic.get())], |_| Ok(()))?.is_some())
}

/// Has other services read again what they keep of `topic`.
pub(super) fn change(session: &Session<'_>, topic: TopicId) -> Result<(), StoreError> {
    if session.is_shared() {
        let sql = "UPDATE versions SET version = version + 1 WHERE topic_id = ?1";
        session.run(sql, [number(topic.get())])?;
    }
    Ok(())
}

/// Has other services read the list of topics again. No other one changes it until the end of the
/// transaction; it must be `known`, if that is some.
pub(super) fn change_topics(session: &Session<'_>, known: Option<i64>) -> Result<(), StoreError> {
    let sql = "UPDATE versions SET version = version + 1
               WHERE topic_id = ?1 AND version = coalesce(?2, version)";
    if session.is_shared() && session.run(sql, [Some(TOPICS), known])? == 0 {
        return Err(StoreError::Raced);
    }
    Ok(())
}

/// Keeps a number for `topic`, which is new or not.
pub(super) fn add(session: &Session<'_>, topic: TopicId) -> Result<(), StoreError> {
    if session.is_shared() {
        let sql = "INSERT INTO versions (topic_id, version) VALUES (?1, 0) ON CONFLICT DO NOTHING";
        session.run(sql, [number(topic.get())])?;
    }
    Ok(())
}

/// Deletes the number of `topic`, once no other service has its lock.
pub(super) fn delete(session: &Session<'_>, topic: TopicId) -> Result<(), StoreError> {
    if session.is_shared() {
        session.run("DELETE FROM versions WHERE topic_id = ?1", [number(topic.get())])?;
    }
    Ok(())
}

impl Store {
    /// The number that changes with what is kept in memory of `topic`, or of the list of topics without
    /// one; none where only this store changes it.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn version(&self, topic: Option<TopicId>) -> Result<Option<i64>, StoreError> {
        if !self.is_shared() {
            return Ok(None);
        }
        let id = topic.map_or(TOPICS, |topic| number(topic.get()));
        let sql = "SELECT version FROM versions WHERE topic_id = ?1";
        let version = self.read(|session| session.find(sql, [id], |row| row.get(0)))?;
        Ok(Some(version.unwrap_or_default()))
    }

    /// The numbers of all topics; none where only this store changes them.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn versions(&self) -> Result<Option<Versions>, StoreError> {
        if !self.is_shared() {
            return Ok(None);
        }
        let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
                            genesis_at, block_micros
                     FROM versions LEFT JOIN chain ON id = 1 WHERE topic_id = 0";
        let sql = "SELECT topic_id, version FROM versions";
        let read = |session: &Session<'_>| {
            let clock = session.find(clock, values![], |row| {
                let (at, genesis): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
                let blocks =
                    genesis.zip(row.get(2)?).map(|(genesis, micros)| blocks(genesis, micros));
                Ok((Timestamp::from_micros(at), blocks))
            })?;
            let (at, blocks) = clock.unwrap_or_default();
            let mut versions = Versions { at, blocks, list: 0, topics: BTreeMap::new() };
            for (id, version) in
                session.all(sql, values![], |row| Ok((row.get(0)?, row.get(1)?)))?
            {
                match TopicId::new(height(id)) {
                    Some(topic) => drop(versions.topics.insert(topic, version)),
                    None => versions.list = version,
                }
            }
            Ok(versions)
        };
        self.read(read).map(Some)
    }
}
