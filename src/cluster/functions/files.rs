//! The store's folder: reading, writing, deleting and scanning its files. Blocks.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use model::function::{FunctionId, Method};
use tracing::warn;
use uuid::Uuid;
use wire::functions::FunctionBody;

use super::{FUNCTION_BYTES_MAX, FUNCTIONS_MAX, Function, FunctionsError};

/// What the names of unfinished files begin with.
const UNFINISHED: &str = ".unfinished-";

/// The ending of records.
const RECORD: &str = "json";

/// The longest record read, in bytes. One has some 200.
const RECORD_BYTES_MAX: u64 = 4096;

/// The folder.
#[derive(Debug, Clone)]
pub(super) struct Files {
    folder: Arc<Path>,
}

impl Files {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns every function whose content is whole; removes those whose is not, and what a crash
    /// left unfinished.
    pub(super) fn scan(&self) -> Result<Vec<Function>, FunctionsError> {
        fs::create_dir_all(&self.folder).map_err(failed("make folder", &self.folder))?;
        let entries = fs::read_dir(&self.folder).map_err(failed("read folder", &self.folder))?;
        let mut functions = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed("read folder", &self.folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(UNFINISHED) {
                fs::remove_file(&path).map_err(failed("delete", &path))?;
            } else if path.extension().is_some_and(|ending| ending == RECORD) {
                match self.checked(&path) {
                    Some(function) if functions.len() < FUNCTIONS_MAX => functions.push(function),
                    Some(_) => {
                        warn!(path = %path.display(), "skipped a function: the store is full");
                    }
                    None => self.discard(&path)?,
                }
            }
        }
        Ok(functions)
    }

    /// Puts a function in place, durably: its content, then its record.
    pub(super) fn write(&self, function: &Function, bytes: &[u8]) -> Result<(), FunctionsError> {
        let folder = self.folder_of(function.id);
        fs::create_dir_all(&folder).map_err(failed("make folder", &folder))?;
        self.replace(&self.content_of(function), bytes)?;
        let record = FunctionBody {
            name: function.name.clone(),
            function_id: function.id.to_string(),
            method: function.method.to_string(),
            bytes: function.size_bytes,
        };
        let record = serde_json::to_vec(&record).unwrap_or_default();
        self.replace(&self.record_of(function.id), &record)
    }

    /// Returns the content of a function, or none if it is damaged or gone.
    pub(super) fn read(&self, function: &Function) -> Result<Option<Vec<u8>>, FunctionsError> {
        let path = self.content_of(function);
        match read_at_most(&path, FUNCTION_BYTES_MAX as u64) {
            Ok(bytes) if function.id.is_of_module(&bytes) => Ok(Some(bytes)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed("read", &path)(source)),
        }
    }

    /// Deletes a function; one that is not there is no error.
    pub(super) fn delete(&self, id: FunctionId) -> Result<(), FunctionsError> {
        let (record, folder) = (self.record_of(id), self.folder_of(id));
        absent_or(fs::remove_file(&record)).map_err(failed("delete", &record))?;
        absent_or(fs::remove_dir_all(&folder)).map_err(failed("delete", &folder))
    }

    /// Returns the function that a record describes, if its content is whole.
    fn checked(&self, record: &Path) -> Option<Function> {
        let bytes = read_at_most(record, RECORD_BYTES_MAX).ok()?;
        let body: FunctionBody = serde_json::from_slice(&bytes).ok()?;
        let function = Function {
            id: body.function_id.parse().ok()?,
            method: body.method.parse::<Method>().ok()?,
            name: body.name,
            size_bytes: body.bytes,
        };
        let is_in_place = record == self.record_of(function.id);
        let content = self.read(&function).ok().flatten()?;
        let is_whole = u64::try_from(content.len()) == Ok(function.size_bytes);
        (is_in_place && is_whole).then_some(function)
    }

    /// Deletes what a record that is not good names by its file name.
    fn discard(&self, record: &Path) -> Result<(), FunctionsError> {
        warn!(path = %record.display(), "removed a damaged function");
        let id = record.file_stem().and_then(|stem| stem.to_str());
        match id.and_then(|id| id.parse::<FunctionId>().ok()) {
            Some(id) => self.delete(id),
            None => fs::remove_file(record).map_err(failed("delete", record)),
        }
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), FunctionsError> {
        let unfinished = self.folder.join(format!("{UNFINISHED}{}", Uuid::new_v4()));
        let written = File::create_new(&unfinished)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&unfinished, path));
        written.map_err(|source| {
            // The next scan deletes it if this fails too.
            drop(fs::remove_file(&unfinished));
            failed("write", path)(source)
        })
    }

    fn record_of(&self, id: FunctionId) -> PathBuf {
        self.folder.join(format!("{id}.{RECORD}"))
    }

    fn folder_of(&self, id: FunctionId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    fn content_of(&self, function: &Function) -> PathBuf {
        self.folder_of(function.id).join(function.method.as_str())
    }
}

fn read_at_most(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    fs::read(path)
}

fn absent_or(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FunctionsError {
    let path = path.to_owned();
    move |source| FunctionsError::Files { step, path, source }
}
