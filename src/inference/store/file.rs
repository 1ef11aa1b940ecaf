//! The embedded engine: a SQLite file, with one connection that writes and one that reads beside it.

use std::{ffi::OsString, path::Path, sync::Arc};

use db::{connection::keep_log_on_close, files::DatabaseFiles, space::SpaceWatch, writer::Writer};
use parking_lot::Mutex;
use rusqlite::Connection;
use task::{
    lock::{self, Lock},
    private,
};

use super::{StoreError, session::Session, tables};

/// The file, for one process at a time.
#[derive(Debug)]
pub(super) struct StoreFile {
    writer: Writer<StoreError>,
    reader: Mutex<Connection>,
    files: Arc<DatabaseFiles>,
    /// Keeps other processes from serving the file.
    _in_use: Lock,
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        if !self.files.check() {
            keep_log_on_close(&self.reader.lock());
        }
    }
}

impl StoreFile {
    /// Opens the file at `path`, and creates it and its folder if they are missing.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
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
        let writer = Writer::start(&tables::SCHEMA, connection, Arc::clone(&files), space)
            .map_err(StoreError::Prepare)?;
        Ok(Self { writer, reader, files, _in_use: in_use })
    }

    /// Makes `change`, which writes about `n_bytes`, and returns its result once it is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        n_bytes: u64,
        change: impl FnOnce(&Session<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.run_blocking(n_bytes, move |write| change(&Session::from(write)))
    }

    /// Runs `read` beside the writer.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Session<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if !self.files.is_intact() {
            return Err(StoreError::Replaced);
        }
        read(&Session::from(&*self.reader.lock()))
    }

    /// Whether the file takes writes.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        futures::executor::block_on(self.writer.check())
    }
}
