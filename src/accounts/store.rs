//! The accounts file: a SQLite database that several processes open at once.

mod tables;

use std::{fs, io, path::Path, time::Duration};

use model::timestamp::Timestamp;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension as _, Row, Transaction, TransactionBehavior, params,
};

use crate::key::{KeyHash, KeyId, KeyRecord};

/// How long a writer waits for another process to finish its own write, which takes milliseconds.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Why the accounts file failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Its folder could not be made.
    #[error("make the folder of the accounts file")]
    Folder(#[source] io::Error),
    /// It could not be opened or set up.
    #[error("open the accounts file")]
    Open(#[source] rusqlite::Error),
    /// A newer version of the program wrote it.
    #[error("read version {found} of the accounts file, newer than {known}")]
    Newer {
        /// The file's version.
        found: i64,
        /// The newest this program knows.
        known: i64,
    },
    /// A statement failed.
    #[error("read or write keys")]
    Statement(#[from] rusqlite::Error),
}

impl StoreError {
    /// Whether another process was at the file, so that trying again may help.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Open(error) | Self::Statement(error)
            if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
    }
}

/// One connection to the file.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(StoreError::Folder)?;
        }
        let mut connection = Connection::open(path).map_err(StoreError::Open)?;
        prepare(&connection).map_err(StoreError::Open)?;
        tables::set_up(&mut connection)?;
        Ok(Self { connection })
    }

    /// A number that changes when another connection changes the file.
    pub(crate) fn data_version(&self) -> Result<i64, StoreError> {
        let mut statement = self.connection.prepare_cached("PRAGMA data_version")?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }

    pub(crate) fn insert(
        &mut self,
        hash: &KeyHash,
        name: &str,
        now: Timestamp,
    ) -> Result<KeyId, StoreError> {
        let write = self.write()?;
        write.execute(
            "INSERT INTO keys (hash, name, created_at) VALUES (?1, ?2, ?3)",
            params![hash.as_bytes(), name, now.micros()],
        )?;
        let id = KeyId::new(write.last_insert_rowid());
        write.commit()?;
        Ok(id)
    }

    pub(crate) fn find(&self, hash: &KeyHash) -> Result<Option<KeyId>, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT id FROM keys WHERE hash = ?1 AND revoked_at IS NULL")?;
        let id = statement.query_row([hash.as_bytes()], |row| row.get(0)).optional()?;
        Ok(id.map(KeyId::new))
    }

    pub(crate) fn list(&self, limit: u32) -> Result<Vec<KeyRecord>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, name, created_at, revoked_at FROM keys ORDER BY id DESC LIMIT ?1",
        )?;
        let records = statement.query_map([limit], record)?;
        Ok(records.collect::<Result<_, _>>()?)
    }

    pub(crate) fn revoke(&mut self, id: KeyId, now: Timestamp) -> Result<usize, StoreError> {
        let write = self.write()?;
        let n_revoked = write.execute(
            "UPDATE keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
            params![id.get(), now.micros()],
        )?;
        write.commit()?;
        Ok(n_revoked)
    }

    /// Puts `hash` in the place of that of the newest good key called `name`; none if there is none.
    pub(crate) fn renew(
        &mut self,
        hash: &KeyHash,
        name: &str,
    ) -> Result<Option<KeyId>, StoreError> {
        let write = self.write()?;
        let id = write
            .query_row(
                "UPDATE keys SET hash = ?1 WHERE id =
                 (SELECT max(id) FROM keys WHERE name = ?2 AND revoked_at IS NULL) RETURNING id",
                params![hash.as_bytes(), name],
                |row| row.get(0),
            )
            .optional()?;
        write.commit()?;
        Ok(id.map(KeyId::new))
    }

    /// A transaction that takes its turn among the writers at once, not at its first write.
    fn write(&mut self) -> Result<Transaction<'_>, StoreError> {
        Ok(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }
}

/// Sets what holds for this connection, and that the file keeps a write-ahead log.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")
}

fn record(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    Ok(KeyRecord {
        id: KeyId::new(row.get(0)?),
        name: row.get(1)?,
        created_at: Timestamp::from_micros(row.get(2)?),
        revoked_at: row.get::<_, Option<i64>>(3)?.map(Timestamp::from_micros),
    })
}
