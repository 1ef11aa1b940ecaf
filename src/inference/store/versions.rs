//! Versions by which services that share a database notice each other's changes. Each topic has a
//! version, a number that changes whenever data of the topic that services cache changes. The list of
//! topics also has a version.
//!
//! The row of a version is also the lock of its topic, so that only one service at a time opens, closes
//! or learns from one of its epochs. Not applicable to a file, which has a single service.

use std::collections::BTreeMap;

use model::timestamp::Timestamp;
use model::topic::TopicId;

use super::engines::{Session, values};
use super::{Result, Store, StoreError, blocks, height, number};
use crate::network::chain::Blocks;

/// Id of the row for the list of topics. Ids of topics start at 1.
const TOPICS: i64 = 0;

/// Adds missing versions of topics and makes services reload the list.
pub(super) const ADD_ALL: &str = "
INSERT INTO versions (topic_id, version) SELECT id, 0 FROM topics ON CONFLICT DO NOTHING;
UPDATE versions SET version = version + 1 WHERE topic_id = 0;
";

/// Behavior if another service holds the lock of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfLocked {
    /// Wait for the lock.
    Wait,
    /// Do nothing and leave the operation to that service.
    Skip,
}

/// All versions of a database at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// Current time of the database.
    pub at: Timestamp,
    /// The chain, if it has started.
    pub blocks: Option<Blocks>,
    /// Version of the list of topics.
    pub list: i64,
    /// Version of each topic.
    pub topics: BTreeMap<TopicId, i64>,
}

impl Store {
    /// Returns the version of `topic`, or that of the list of topics if `topic` is `None`. Returns
    /// `None` for a file.
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
    /// Locks `topic` until the end of the transaction. Returns false if another service holds the lock and
    /// it was to be skipped, or if the topic was deleted.
    pub(super) fn lock_topic(&self, topic: TopicId, turn: IfLocked) -> Result<bool> {
        if !self.is_shared() {
            return Ok(true);
        }
        let sql = match turn {
            IfLocked::Wait => "SELECT 1 FROM versions WHERE topic_id = ?1 FOR UPDATE",
            IfLocked::Skip => "SELECT 1 FROM versions WHERE topic_id = ?1 FOR UPDATE SKIP LOCKED",
        };
        Ok(self.find(sql, [number(topic.get())], |_| Ok(()))?.is_some())
    }

    /// Makes other services reload `topic`.
    pub(super) fn mark_changed(&self, topic: TopicId) -> Result<()> {
        if self.is_shared() {
            let sql = "UPDATE versions SET version = version + 1 WHERE topic_id = ?1";
            self.run(sql, [number(topic.get())])?;
        }
        Ok(())
    }

    /// Makes other services reload the list of topics and locks it until the end of the transaction. Fails
    /// unless its version is `known`, if given.
    pub(super) fn mark_list_changed(&self, known: Option<i64>) -> Result<()> {
        let sql = "UPDATE versions SET version = version + 1
                   WHERE topic_id = ?1 AND version = coalesce(?2, version)";
        if self.is_shared() && self.run(sql, [Some(TOPICS), known])? == 0 {
            return Err(StoreError::Raced);
        }
        Ok(())
    }

    /// Adds a version for `topic`, unless it has one.
    pub(super) fn add_version(&self, topic: TopicId) -> Result<()> {
        if self.is_shared() {
            let sql =
                "INSERT INTO versions (topic_id, version) VALUES (?1, 0) ON CONFLICT DO NOTHING";
            self.run(sql, [number(topic.get())])?;
        }
        Ok(())
    }

    /// Deletes the version of `topic`, once no other service holds its lock.
    pub(super) fn delete_version(&self, topic: TopicId) -> Result<()> {
        if self.is_shared() {
            self.run("DELETE FROM versions WHERE topic_id = ?1", [number(topic.get())])?;
        }
        Ok(())
    }
}
