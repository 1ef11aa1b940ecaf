//! Versions by which services that share a database notice each other's changes. The version of a topic
//! is a number that increases whenever the topic's cached data changes. The list of topics also has a
//! version.
//!
//! The row of a topic's version is also the lock of the topic, so only one service at a time opens,
//! closes or learns from the topic's epochs. A file has no versions, since only one service uses it.

use std::collections::BTreeMap;

use model::timestamp::Timestamp;
use model::topic::TopicId;

use super::engines::{Session, values};
use super::{Result, Store, StoreError, blocks, height, number};
use crate::network::chain::Blocks;

/// Id of the row for the list of topics. It differs from all topic ids, which start at 1.
const TOPICS: i64 = 0;

/// SQL that adds missing versions of topics, and increases the version of the list so that services
/// reload it.
pub(super) const ADD_ALL: &str = "
INSERT INTO versions (topic_id, version) SELECT id, 0 FROM topics ON CONFLICT DO NOTHING;
UPDATE versions SET version = version + 1 WHERE topic_id = 0;
";

/// Behavior if another service holds the lock of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfLocked {
    /// Wait for the lock.
    Wait,
    /// Leave the operation to the other service.
    Skip,
}

/// All versions in a database at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// Current time of the database.
    pub at: Timestamp,
    /// The chain, or `None` if it has not started yet.
    pub blocks: Option<Blocks>,
    /// Version of the list of topics.
    pub list: i64,
    /// Version of each topic.
    pub topics: BTreeMap<TopicId, i64>,
}

impl Store {
    /// Returns the version of `topic`, or the version of the list of topics if `topic` is `None`.
    /// Returns `None` for a file.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn version(&self, topic: Option<TopicId>) -> Result<Option<i64>> {
        if !self.is_shared() {
            return Ok(None);
        }
        let id = topic.map_or(TOPICS, |topic| number(topic.get()));
        let sql = "SELECT version FROM versions WHERE topic_id = ?1";
        let version = self.read(|session| session.find(sql, [id], |row| row.get(0)))?;
        Ok(Some(version.unwrap_or_default()))
    }

    /// Returns all versions, or `None` for a file.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn versions(&self) -> Result<Option<Versions>> {
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

impl Session<'_> {
    /// Locks `topic` until the end of the transaction. Returns false if the topic was deleted, or if
    /// another service holds the lock and `turn` is [`IfLocked::Skip`].
    pub(super) fn lock_topic(&self, topic: TopicId, turn: IfLocked) -> Result<bool> {
        let sql = match turn {
            // A file has a single writer.
            _ if !self.is_shared() => "SELECT 1 FROM topics WHERE id = ?1",
            IfLocked::Wait => "SELECT 1 FROM versions WHERE topic_id = ?1 FOR UPDATE",
            IfLocked::Skip => "SELECT 1 FROM versions WHERE topic_id = ?1 FOR UPDATE SKIP LOCKED",
        };
        Ok(self.find(sql, [number(topic.get())], |_| Ok(()))?.is_some())
    }

    /// Increases the version of `topic`, so that other services reload its data.
    pub(super) fn mark_changed(&self, topic: TopicId) -> Result<()> {
        if self.is_shared() {
            let sql = "UPDATE versions SET version = version + 1 WHERE topic_id = ?1";
            self.run(sql, [number(topic.get())])?;
        }
        Ok(())
    }

    /// Increases the version of the list of topics, so that other services reload the list, and locks
    /// the list until the end of the transaction. Fails if `known` is given and is not the current
    /// version.
    pub(super) fn mark_list_changed(&self, known: Option<i64>) -> Result<()> {
        let sql = "UPDATE versions SET version = version + 1
                   WHERE topic_id = ?1 AND version = coalesce(?2, version)";
        if self.is_shared() && self.run(sql, [Some(TOPICS), known])? == 0 {
            return Err(StoreError::Raced);
        }
        Ok(())
    }

    /// Adds a version for `topic` if it has no version.
    pub(super) fn add_version(&self, topic: TopicId) -> Result<()> {
        if self.is_shared() {
            let sql =
                "INSERT INTO versions (topic_id, version) VALUES (?1, 0) ON CONFLICT DO NOTHING";
            self.run(sql, [number(topic.get())])?;
        }
        Ok(())
    }

    /// Waits until no other service holds the lock of `topic`, then deletes its version.
    pub(super) fn delete_version(&self, topic: TopicId) -> Result<()> {
        if self.is_shared() {
            self.run("DELETE FROM versions WHERE topic_id = ?1", [number(topic.get())])?;
        }
        Ok(())
    }
}
