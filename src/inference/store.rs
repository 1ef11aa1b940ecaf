//! Store of a network's topics and epochs: the inference file, which is a SQLite database, or a schema
//! of a PostgreSQL database.
//!
//! Both engines share records, rules and statements. An engine starts and commits a transaction, in
//! which `Session` runs the statements. Each change is one transaction that is durable once the
//! function returns. A crash therefore leaves each step of an epoch either not done or complete.
//! [`crate::network::epoch`] decides when steps are due. All operations block.

mod engines;
mod epochs;
mod error;
mod record;
mod retention;
mod tables;
mod versions;
mod view;
mod worker_quota;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use db::copy::CopiedTables;
use db::postgres::DatabaseUrl;
use db::postgres::connections::Figures;
use model::timestamp::Timestamp;
use model::topic::{BlockHeight, TopicId};
use wire::inference::LabeledValue;

use self::engines::{LockMode, Session, StoreDatabase, StoreFile, values};
pub use self::epochs::{EndOptions, PastLesson, Relearnable, Relearned, StoredLearned};
pub use self::error::{Result, StoreError};
pub use self::retention::EpochTotals;
use self::versions::IfLocked;
pub use self::versions::Versions;
pub use self::view::{Bundles, EpochActor};
pub use self::worker_quota::NEWCOMERS_MAX;
use crate::math::outlier::Baseline;
use crate::math::regret::Losses;
use crate::network::chain::Blocks;
use crate::network::epoch::EpochProgress;
use crate::network::learned::Learned;
use crate::network::selection::Arrival;
use crate::network::submission::Submission;
use crate::network::topic::Topic;

/// Maximum number of stored epochs per topic. Older epochs are deleted. This covers a day and a half of
/// epochs of twelve seconds and needs some 50 MB.
pub const EPOCHS_KEPT: u32 = 10_000;

/// Outcome of storing a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmitOutcome {
    /// The submission was stored.
    Taken,
    /// The worker already submitted for this nonce. The first payload remains stored.
    Repeated,
    /// The epoch is not open.
    NotOpen,
    /// A limit is reached.
    Full {
        /// Description of the reached limit.
        limit: String,
    },
}

/// State of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EpochState {
    Open = 0,
    Closed = 1,
    Empty = 2,
    Learned = 3,
    GivenUp = 4,
}

/// Row of the topic's dataset that was the latest at the opening of an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Input {
    /// Timestamp of the row.
    pub at: Timestamp,
    /// Value of the topic's column in the row.
    pub value: f64,
}

/// Result of learning from an epoch, to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// Values that the topic predicts, once they are known.
    pub truth: Vec<LabeledValue>,
    /// Losses of all values.
    pub losses: Losses,
    /// Learned state after this epoch.
    pub learned: Learned,
}

/// Data from which an epoch is closed.
#[derive(Debug, Clone, PartialEq)]
pub struct CloseInput {
    /// Submissions by worker.
    pub arrivals: Vec<Arrival>,
    /// Submitted labels in the order of their ids. Empty for a topic with a single output.
    pub labels: Vec<String>,
    /// Learned state before this epoch.
    pub learned: Arc<Learned>,
    /// Median and spread of earlier values, or `None` if there are none.
    pub baseline: Option<Baseline>,
}

/// Location of a store.
#[derive(Debug, Clone, derive_more::Display, derive_more::From)]
pub enum StorePlace {
    /// File that only one process can use at a time.
    #[display("{}", _0.display())]
    File(PathBuf),
    /// Database that several services can share.
    Database(DatabaseUrl),
    /// Database that does not accept writes, such as a standby. Writes fail with
    /// [`StoreError::ReadOnly`].
    #[from(skip)]
    ReadOnly(DatabaseUrl),
}

/// Store of a network's topics and epochs.
#[derive(Debug)]
pub struct Store(Engine);

#[derive(Debug)]
enum Engine {
    File(StoreFile),
    Database(StoreDatabase),
}

impl Store {
    /// Opens the store at `place`. Creates missing tables, and the directory of a file if it is
    /// missing.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be opened, the database is unreachable, or the tables have
    /// another version. After a store was dropped, its file is in use until the writer thread has closed
    /// it, for which this waits briefly.
    pub fn open(place: &StorePlace) -> Result<Self> {
        Ok(Self(match place {
            StorePlace::File(path) => Engine::File(StoreFile::open(path)?),
            StorePlace::Database(url) => Engine::Database(StoreDatabase::open(url, false)?),
            StorePlace::ReadOnly(url) => Engine::Database(StoreDatabase::open(url, true)?),
        }))
    }

    /// Returns the tables that are copied between a file and a database.
    #[must_use]
    pub fn copied_tables() -> CopiedTables {
        CopiedTables {
            file: tables::SCHEMA,
            database: tables::shared(),
            finish: versions::ADD_ALL,
            is_locked: true,
        }
    }

    /// Returns true if other services can use the same store at the same time.
    pub const fn is_shared(&self) -> bool {
        matches!(self.0, Engine::Database(_))
    }

    /// Runs `change` in a transaction and returns its result once the transaction is durable.
    fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Session<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match &self.0 {
            Engine::File(file) => file.write(change),
            Engine::Database(database) => database.write(change),
        }
    }

    /// Runs `read`. In a database, all its statements see the same snapshot. In a file, each statement
    /// sees the latest commit.
    fn read<T>(&self, read: impl Fn(&Session<'_>) -> Result<T>) -> Result<T> {
        match &self.0 {
            Engine::File(file) => file.read(read),
            Engine::Database(database) => database.read(read),
        }
    }

    /// Checks that the store can be written. After a write failed for lack of space, tries a small
    /// write.
    ///
    /// # Errors
    /// [`StoreError`] with the reason why it cannot be written.
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Engine::File(file) => file.check(),
            Engine::Database(database) => database.check(),
        }
    }

    /// Returns true if the store is read-only.
    pub fn is_read_only(&self) -> bool {
        matches!(&self.0, Engine::Database(database) if database.is_read_only())
    }

    /// Returns figures of the database's connections, or `None` for a file.
    pub fn database(&self) -> Option<Figures> {
        match &self.0 {
            Engine::File(_) => None,
            Engine::Database(database) => Some(database.figures()),
        }
    }

    /// Limits the file to `n_pages`, to simulate a full disk.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, n_pages: u32) {
        let sql = format!("PRAGMA max_page_count = {n_pages}");
        self.write(move |session| session.run_batch(&sql)).unwrap();
    }

    /// Returns the stored chain, or `None` if it has not started yet.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, as for all methods below.
    pub fn blocks(&self) -> Result<Option<Blocks>> {
        let sql = "SELECT genesis_at, block_micros FROM chain";
        self.read(|session| {
            session.find(sql, values![], |row| Ok(blocks(row.get(0)?, row.get(1)?)))
        })
    }

    /// Stores `blocks` as the chain, in place of the stored chain.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn put_blocks(&self, blocks: Blocks) -> Result<()> {
        self.insert_blocks(
            blocks,
            "(id) DO UPDATE SET
                 genesis_at = excluded.genesis_at, block_micros = excluded.block_micros",
        )
    }

    fn insert_blocks(&self, blocks: Blocks, on_conflict: &str) -> Result<()> {
        let micros = i64::try_from(blocks.block_time.as_micros()).unwrap_or(i64::MAX);
        let sql = format!(
            "INSERT INTO chain (id, genesis_at, block_micros) VALUES (1, ?1, ?2)
             ON CONFLICT {on_conflict}"
        );
        self.write(move |session| session.run(&sql, [blocks.genesis.micros(), micros]).map(drop))
    }

    /// Stores `blocks` as the chain if there is no chain yet. Returns the stored chain.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn begin(&self, blocks: Blocks) -> Result<Blocks> {
        self.insert_blocks(blocks, "DO NOTHING")?;
        Ok(self.blocks()?.unwrap_or(blocks))
    }

    /// Returns the highest nonce of all topics, or `None` if there are no epochs.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn newest_nonce(&self) -> Result<Option<BlockHeight>> {
        let sql =
            "SELECT max((SELECT max(nonce) FROM epochs WHERE topic_id = topics.id)) FROM topics";
        let newest = self.read(|session| session.value::<Option<i64>>(sql, values![]))?;
        Ok(newest.map(height))
    }

    /// Stores either all or none of `topics` in place of the topics with the same ids, if the list of
    /// topics still has the version `known`. If `known` is `None`, the version is not checked.
    ///
    /// # Errors
    /// [`StoreError::Raced`] if the list has another version. Otherwise as [`Self::blocks`].
    pub fn put_topics<'t>(
        &self,
        topics: impl IntoIterator<Item = &'t Topic>,
        known: Option<i64>,
        inputs: Inputs,
    ) -> Result<()> {
        let record = |topic: &Topic| Ok((topic.id, record::write_topic(topic)?));
        let records = topics.into_iter().map(record).collect::<Result<Vec<_>>>()?;
        self.write(move |session| {
            session.mark_list_changed(known)?;
            for (topic, record) in &records {
                session.add_version(*topic)?;
                let id = number(topic.get());
                let sql = "INSERT INTO topics (id, record) VALUES (?1, ?2)
                           ON CONFLICT (id) DO UPDATE SET record = excluded.record";
                session.run(sql, values![id, record.as_str()])?;
                if inputs == Inputs::Drop {
                    let sql = "UPDATE epochs SET input_at = NULL, input_value = NULL
                               WHERE topic_id = ?1 AND state IN (0, 1)";
                    session.run(sql, [id])?;
                }
            }
            Ok(())
        })
    }

    /// Deletes `topic` and its learned state, if the list of topics still has the version `known`. The
    /// topic's epochs are deleted later by [`Self::drop_leftovers`].
    ///
    /// # Errors
    /// As [`Self::put_topics`].
    pub fn delete_topic(&self, topic: TopicId, known: Option<i64>) -> Result<()> {
        self.write(move |session| {
            session.mark_list_changed(known)?;
            session.delete_version(topic)?;
            let id = number(topic.get());
            let sql = "UPDATE chain SET newest_deleted = ?1 WHERE newest_deleted < ?1";
            session.run(sql, [id])?;
            session.run("DELETE FROM topics WHERE id = ?1", [id])?;
            for table in ["learned", "baselines", "holdings", "snapshots"] {
                session.run(&format!("DELETE FROM {table} WHERE topic_id = ?1"), [id])?;
            }
            Ok(())
        })
    }

    /// Returns the highest id of a deleted topic, or `None` if no topic was deleted.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn newest_deleted(&self) -> Result<Option<TopicId>> {
        let sql = "SELECT newest_deleted FROM chain";
        let newest = self.read(|session| session.find(sql, values![], |row| row.get(0)))?;
        Ok(newest.and_then(|number| TopicId::new(height(number))))
    }

    /// Returns all topics, sorted by id.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn topics(&self) -> Result<Vec<Topic>> {
        let sql = "SELECT record FROM topics ORDER BY id";
        self.read(|session| {
            session.all(sql, values![], |row| record::read_topic(&row.get::<String>(0)?))
        })
    }

    /// Returns the progress of `topic`'s epochs.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn progress(&self, topic: TopicId) -> Result<EpochProgress> {
        self.read(|session| {
            let id = number(topic.get());
            let sql = "SELECT max(nonce) FROM epochs WHERE topic_id = ?1";
            let last_nonce = session.value::<Option<i64>>(sql, [id])?.map(height);
            let nonces = |state: EpochState| {
                let sql = "SELECT nonce FROM epochs
                           WHERE topic_id = ?1 AND state IN (0, 1) AND state = ?2 ORDER BY nonce";
                session.all(sql, [id, state as i64], |row| Ok(height(row.get(0)?)))
            };
            let (open, unlearned) = (nonces(EpochState::Open)?, nonces(EpochState::Closed)?);
            Ok(EpochProgress { last_nonce, open, unlearned })
        })
    }

    /// Opens the epoch `nonce` of `topic`. Returns false without opening it if the topic has a later
    /// epoch, or an epoch that opened less than `epoch_length` blocks earlier.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn open_epoch(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        epoch_length: BlockHeight,
        at: Timestamp,
    ) -> Result<bool> {
        self.write(move |session| {
            if !session.lock_topic(topic, IfLocked::Wait)? {
                return Ok(false);
            }
            let sql = "INSERT INTO epochs (topic_id, nonce, state, opened_at)
                       SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS
                           (SELECT 1 FROM epochs WHERE topic_id = ?1 AND nonce > ?5)";
            let ([id, at_nonce], from) =
                (key(topic, nonce), number(nonce) - number(epoch_length.max(1)));
            let values = [id, at_nonce, EpochState::Open as i64, at.micros(), from];
            let is_new = session.run(sql, values)? > 0;
            if is_new {
                session.mark_changed(topic)?;
            }
            Ok(is_new)
        })
    }

    /// Stores `input` as the input of the epoch `nonce`, unless the epoch already has an input.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn put_input(&self, topic: TopicId, nonce: BlockHeight, input: Input) -> Result<()> {
        self.write(move |session| {
            let sql = "UPDATE epochs SET input_at = ?3, input_value = ?4
                       WHERE topic_id = ?1 AND nonce = ?2 AND input_at IS NULL";
            let [topic, nonce] = key(topic, nonce);
            session.run(sql, values![topic, nonce, input.at.micros(), input.value]).map(drop)
        })
    }

    /// Returns the input of the epoch `nonce`, or `None` if it has none.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn input(&self, topic: TopicId, nonce: BlockHeight) -> Result<Option<Input>> {
        let sql = "SELECT input_at, input_value FROM epochs
                   WHERE topic_id = ?1 AND nonce = ?2 AND input_at IS NOT NULL";
        self.read(|session| {
            session.find(sql, key(topic, nonce), |row| {
                Ok(Input { at: Timestamp::from_micros(row.get(0)?), value: row.get(1)? })
            })
        })
    }
}

/// What happens to the inputs of epochs that are open or wait for their ground truth when their topic
/// changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inputs {
    /// The inputs stay.
    Keep,
    /// The epochs end without a ground truth, since the topic predicts another quantity.
    Drop,
}

/// Converts a stored chain from its start and the duration of a block, both in microseconds.
fn blocks(genesis: i64, block_time: i64) -> Blocks {
    Blocks {
        genesis: Timestamp::from_micros(genesis),
        block_time: Duration::from_micros(height(block_time)),
    }
}

/// Returns the key of an epoch, which is the same in all tables.
fn key(topic: TopicId, nonce: BlockHeight) -> [i64; 2] {
    [number(topic.get()), number(nonce)]
}

/// Converts an id or a height to the type of the columns.
fn number(unsigned: u64) -> i64 {
    i64::try_from(unsigned).unwrap_or(i64::MAX)
}

/// Converts a stored height or id.
fn height(number: i64) -> BlockHeight {
    u64::try_from(number).unwrap_or_default()
}

impl Session<'_> {
    /// Locks the epoch `nonce` until the end of the transaction and returns true if it is in `state`.
    fn is_in(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        state: EpochState,
        lock: LockMode,
    ) -> Result<bool> {
        let sql = "SELECT state FROM epochs WHERE topic_id = ?1 AND nonce = ?2";
        let sql = format!("{sql}{}", self.locking(lock));
        let found: Option<i64> = self.find(&sql, key(topic, nonce), |row| row.get(0))?;
        Ok(found == Some(state as i64))
    }

    fn insert(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        submission: &Submission,
        is_trusted: bool,
        at: Timestamp,
    ) -> Result<usize> {
        let (own, forecast) = record::write_submission(submission)?;
        let sql = "INSERT INTO submissions
                   (topic_id, nonce, worker, received_at, record, trusted, forecast)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
        let ([topic, nonce], worker) = (key(topic, nonce), submission.worker.as_str());
        let trusted = i64::from(is_trusted);
        self.run(sql, values![topic, nonce, worker, at.micros(), own, trusted, forecast])
    }
}

#[cfg(test)]
mod tests;
