//! The inference file: a SQLite database that holds a chain's topics and epochs.
//!
//! Every change is one transaction that is durable on return, so a stop at any time leaves each
//! epoch either as it was or a whole step further. Absent on purpose: when to take a step, which is
//! for [`crate::network::epoch`] to say. Nothing here is async: callers go to a blocking thread.

mod epochs;
mod error;
mod pairs;
mod past_epochs;
mod record;
mod relearn;
mod retention;
mod tables;
mod topic_record;
mod view;
mod worker_quota;

use std::{ffi::OsString, fs::File, path::Path, sync::Arc, time::Duration};

use db::{
    connection::keep_log_on_close,
    files::DatabaseFiles,
    space::{CHANGE_BYTES, SpaceWatch},
    statement::Statements as _,
    writer::Writer,
};
use model::{
    timestamp::Timestamp,
    topic::{BlockHeight, TopicId},
};
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, params};
use task::{lock, private};

pub use self::error::StoreError;
pub use self::{
    epochs::{EndOptions, StoredLearned},
    relearn::{PastLesson, Relearnable, Relearned},
    retention::EpochTotals,
    view::Bundles,
    worker_quota::NEWCOMERS_MAX,
};
use wire::inference::LabeledValue;

use crate::{
    math::{outlier::Baseline, regret::Losses},
    network::{
        chain::Blocks, epoch::Progress, learned::Learned, selection::Arrival,
        submission::Submission, topic::Topic,
    },
};

/// About what the end of an epoch of 1 000 inferers and 50 forecasters writes. A disk with less free
/// than this is about to be full, whatever the topic.
const EPOCH_BYTES: u64 = 20 << 20;

/// How many epochs of a topic are kept; older ones go when a newer one closes. At twelve seconds an
/// epoch this is a day and a half, and some 50 MB.
pub const EPOCHS_KEPT: u32 = 10_000;

/// The most labels of one nonce where any is taken, by the chain's parameter
/// `max_epoch_label_registry_size`.
pub const LABELS_MAX: u32 = 32_768;

/// Outcome of submitting a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmitOutcome {
    /// It is kept.
    Taken,
    /// The worker had submitted for this nonce; what it sent first stays.
    Repeated,
    /// No such epoch is open.
    NotOpen,
    /// The epoch holds as much as it takes.
    Full {
        /// What there is too much of.
        limit: String,
    },
}

/// Where an epoch is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open = 0,
    Closed = 1,
    Empty = 2,
    Learned = 3,
    GivenUp = 4,
}

/// The newest row there was when an epoch opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Input {
    /// When, in the dataset's time.
    pub at: Timestamp,
    /// The value of the topic's column.
    pub value: f64,
}

/// What is learned from an epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// What came true.
    pub truth: Vec<LabeledValue>,
    /// The losses of every quantity.
    pub losses: Losses,
    /// All that is known after it.
    pub learned: Learned,
}

/// What there is to close an epoch with.
#[derive(Debug, Clone, PartialEq)]
pub struct CloseInput {
    /// Its submissions, by worker.
    pub arrivals: Vec<Arrival>,
    /// The labels that came, in the order of their ids; empty where the topic says them.
    pub labels: Vec<String>,
    /// What was learned before.
    pub learned: Arc<Learned>,
    /// Where values were before.
    pub baseline: Option<Baseline>,
}

/// The file: one connection that writes, and one that reads beside it.
#[derive(Debug)]
pub struct Store {
    writer: Writer<StoreError>,
    reader: Mutex<Connection>,
    files: Arc<DatabaseFiles>,
    /// Keeps other processes from serving the file.
    _in_use: File,
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.files.check() {
            keep_log_on_close(&self.reader.lock());
        }
    }
}

impl Store {
    /// Opens the file at `path`, and creates it and its folder if they are missing.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be opened, or was written by another version. It
    /// [is busy](StoreError::is_busy) after the last store of it was dropped until the thread that
    /// wrote has closed it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(StoreError::Prepare)?;
        }
        let mut lock = OsString::from(path);
        lock.push(".lock");
        let locked = lock::wait_for(Path::new(&lock)).map_err(StoreError::Prepare)?;
        let in_use = locked.ok_or(StoreError::InUse)?;
        let connection = tables::SCHEMA.open(path)?;
        let reader = Mutex::new(tables::SCHEMA.open_read_only(path)?);
        let files = Arc::new(DatabaseFiles::open(path).map_err(StoreError::Prepare)?);
        let space = SpaceWatch::new(path);
        let writer = Writer::start("inference file", connection, Arc::clone(&files), space)
            .map_err(StoreError::Prepare)?;
        Ok(Self { writer, reader, files, _in_use: in_use })
    }

    /// Makes `change`, and returns its result once it is durable.
    fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.run_blocking(CHANGE_BYTES, change)
    }

    /// Whether the file takes writes: it is in its place, and there is space. Where a write found
    /// none, this tries another one of its size from time to time.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check(&self) -> Result<(), StoreError> {
        futures::executor::block_on(self.writer.check())
    }

    /// Lets the file grow to so many pages, as a full disk would.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, n_pages: u32) {
        let sql = format!("PRAGMA max_page_count = {n_pages}");
        self.write(move |write| Ok(write.execute_batch(&sql)?)).unwrap();
    }

    fn reader(&self) -> Result<MutexGuard<'_, Connection>, StoreError> {
        if self.files.is_intact() { Ok(self.reader.lock()) } else { Err(StoreError::Replaced) }
    }

    /// The chain that the file holds, if it has begun.
    ///
    /// # Errors
    /// [`StoreError`] if the file fails; so with all that follow.
    pub fn blocks(&self) -> Result<Option<Blocks>, StoreError> {
        let sql = "SELECT genesis_at, block_micros FROM chain";
        Ok(self.reader()?.find(sql, [], |row| {
            Ok(Blocks {
                genesis: Timestamp::from_micros(row.get(0)?),
                block_time: Duration::from_micros(height(row.get(1)?)),
            })
        })?)
    }

    /// Keeps `blocks` as the chain's.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn put_blocks(&self, blocks: Blocks) -> Result<(), StoreError> {
        let micros = i64::try_from(blocks.block_time.as_micros()).unwrap_or(i64::MAX);
        self.write(move |write| {
            write.execute(
                "INSERT INTO chain (id, genesis_at, block_micros) VALUES (1, ?1, ?2)
                 ON CONFLICT DO UPDATE SET
                    genesis_at = excluded.genesis_at, block_micros = excluded.block_micros",
                params![blocks.genesis.micros(), micros],
            )?;
            Ok(())
        })
    }

    /// The newest epoch ever opened, of any topic.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn newest_nonce(&self) -> Result<Option<BlockHeight>, StoreError> {
        let sql =
            "SELECT max((SELECT max(nonce) FROM epochs WHERE topic_id = topics.id)) FROM topics";
        Ok(self.reader()?.value::<Option<i64>>(sql, [])?.map(height))
    }

    /// Keeps `topic`, in place of the one with its number.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn put_topic(&self, topic: &Topic) -> Result<(), StoreError> {
        let (id, record) = (number(topic.id.get()), topic_record::write_topic(topic)?);
        self.write(move |write| {
            let sql = "INSERT OR REPLACE INTO topics (id, record) VALUES (?1, ?2)";
            write.run(sql, params![id, record])?;
            Ok(())
        })
    }

    /// Deletes `topic` with what it has learned. Its epochs are left to [`Self::drop_leftovers`].
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn delete_topic(&self, topic: TopicId) -> Result<(), StoreError> {
        self.write(move |write| {
            let id = number(topic.get());
            write.execute("UPDATE chain SET newest_deleted = max(newest_deleted, ?1)", [id])?;
            write.execute("DELETE FROM topics WHERE id = ?1", [id])?;
            for table in ["learned", "baselines", "holdings", "snapshots"] {
                write.execute(&format!("DELETE FROM {table} WHERE topic_id = ?1"), [id])?;
            }
            Ok(())
        })
    }

    /// Drops a few epochs of deleted topics: so many that others wait little for their turn. Whether
    /// some may be left.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn drop_leftovers(&self) -> Result<bool, StoreError> {
        self.write(retention::drop_leftovers)
    }

    /// The highest number of a deleted topic; none where there never was one.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn newest_deleted(&self) -> Result<Option<TopicId>, StoreError> {
        let sql = "SELECT newest_deleted FROM chain";
        let newest = self.reader()?.find(sql, [], |row| row.get(0))?;
        Ok(newest.and_then(|number| TopicId::new(height(number))))
    }

    /// All topics, by number.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn topics(&self) -> Result<Vec<Topic>, StoreError> {
        let sql = "SELECT record FROM topics ORDER BY id";
        let records = self.reader()?.all(sql, [], |row| row.get::<_, String>(0))?;
        records.iter().map(|record| topic_record::read_topic(record)).collect()
    }

    /// Where `topic` stands.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn progress(&self, topic: TopicId) -> Result<Progress, StoreError> {
        let reader = self.reader()?;
        let id = [number(topic.get())];
        let sql = "SELECT max(nonce) FROM epochs WHERE topic_id = ?1";
        let last_nonce = reader.value::<Option<i64>>(sql, id)?.map(height);
        let nonces = |state: State| {
            let sql = "SELECT nonce FROM epochs
                       WHERE topic_id = ?1 AND state IN (0, 1) AND state = ?2 ORDER BY nonce";
            reader.all(sql, [number(topic.get()), state as i64], |row| Ok(height(row.get(0)?)))
        };
        let (open, unlearned) = (nonces(State::Open)?, nonces(State::Closed)?);
        Ok(Progress { last_nonce, open, unlearned })
    }

    /// Opens the epoch `nonce`; whether it was not there before.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn open_epoch(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write(move |write| {
            let sql = "INSERT OR IGNORE INTO epochs (topic_id, nonce, state, opened_at)
                       VALUES (?1, ?2, ?3, ?4)";
            let [topic, nonce] = key(topic, nonce);
            Ok(write.run(sql, [topic, nonce, State::Open as i64, at.micros()])? > 0)
        })
    }

    /// Keeps `input` as what the epoch `nonce` was asked with, if none was kept before.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn put_input(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        input: Input,
    ) -> Result<(), StoreError> {
        self.write(move |write| {
            let sql = "UPDATE epochs SET input_at = ?3, input_value = ?4
                       WHERE topic_id = ?1 AND nonce = ?2 AND input_at IS NULL";
            let [topic, nonce] = key(topic, nonce);
            write.run(sql, params![topic, nonce, input.at.micros(), input.value])?;
            Ok(())
        })
    }

    /// What the epoch `nonce` was asked with, if it was.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn input(&self, topic: TopicId, nonce: BlockHeight) -> Result<Option<Input>, StoreError> {
        let sql = "SELECT input_at, input_value FROM epochs
                   WHERE topic_id = ?1 AND nonce = ?2 AND input_at IS NOT NULL";
        Ok(self.reader()?.find(sql, key(topic, nonce), |row| {
            Ok(Input { at: Timestamp::from_micros(row.get(0)?), value: row.get(1)? })
        })?)
    }
}

fn state(
    connection: &Connection,
    topic: TopicId,
    nonce: BlockHeight,
) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT state FROM epochs WHERE topic_id = ?1 AND nonce = ?2";
    Ok(connection.find(sql, key(topic, nonce), |row| row.get(0))?)
}

fn insert(
    write: &Connection,
    topic: TopicId,
    nonce: BlockHeight,
    submission: &Submission,
    is_trusted: bool,
    at: Timestamp,
) -> Result<usize, StoreError> {
    let (own, forecast) = record::write_submission(submission)?;
    let sql = "INSERT OR IGNORE INTO submissions
               (topic_id, nonce, worker, received_at, record, trusted, forecast)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let ([topic, nonce], worker) = (key(topic, nonce), submission.worker.as_str());
    Ok(write.run(sql, params![topic, nonce, worker, at.micros(), own, is_trusted, forecast])?)
}

/// The key of an epoch in every table.
fn key(topic: TopicId, nonce: BlockHeight) -> [i64; 2] {
    [number(topic.get()), number(nonce)]
}

/// A topic's number or a height as SQLite keeps it.
fn number(unsigned: u64) -> i64 {
    i64::try_from(unsigned).unwrap_or(i64::MAX)
}

/// A height as it was kept.
fn height(number: i64) -> BlockHeight {
    u64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests;
