//! Files of the store: reading, writing, deleting and scanning. All calls block.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use std::{fs, io};

use bytes::Bytes;
use model::function::content::Codec;
use model::function::{FunctionId, Method};
use serde::{Deserialize, Serialize};
use task::causes::chain;
use task::file::{FileMode, UNFINISHED_PREFIX, read_at_most, write_atomic};
use task::private::create_folder;
use tracing::warn;
use wire::functions::FunctionBody;

use super::error::file_error;
use super::kept::{Custody, InstallSource, Requester};
use super::verify::{NameHints, VerifiedFunction};
use super::{CAR_BYTES_MAX, FUNCTION_BYTES_MAX, Function, FunctionsError, Kind};

/// File name extension of the records of functions.
const RECORD: &str = "json";

/// File name extension of the records of addresses.
const ADDRESS: &str = "address";

/// Maximum size of a record: some 200 bytes, plus an address of up to 2048.
const RECORD_BYTES_MAX: usize = 4096;

/// Name of the file that contains the blocks of a function with more than one block.
const CAR: &str = "content.car";

/// A function's record on disk: its public description and internal properties.
#[derive(Serialize, Deserialize)]
struct FunctionRecord {
    #[serde(flatten)]
    body: FunctionBody,
    /// Party that caused the function to be stored. Missing in records of earlier versions.
    #[serde(default)]
    kept_for: KeptFor,
    /// Id of the party in `kept_for`, if it is a peer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    peer: String,
    /// True after the function ran on this node.
    #[serde(default)]
    has_run: bool,
}

/// Kinds of [`Requester`] as written in records.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeptFor {
    #[default]
    Unknown,
    Operator,
    Named,
    Peer,
}

impl FunctionRecord {
    fn new(function: &Function, custody: &Custody) -> Self {
        let (kept_for, peer) = match &custody.requester {
            Requester::Unknown => (KeptFor::Unknown, ""),
            Requester::Operator => (KeptFor::Operator, ""),
            Requester::Named(peer) => (KeptFor::Named, peer.as_str()),
            Requester::Peer(peer) => (KeptFor::Peer, peer.as_str()),
        };
        Self { body: function.body(), kept_for, peer: peer.to_owned(), has_run: custody.has_run }
    }

    fn custody(&self) -> Custody {
        let requester = match (self.kept_for, self.peer.parse()) {
            (KeptFor::Operator, _) => Requester::Operator,
            (KeptFor::Named, Ok(peer)) => Requester::Named(peer),
            (KeptFor::Peer, Ok(peer)) => Requester::Peer(peer),
            _ => Requester::Unknown,
        };
        Custody { requester, has_run: self.has_run }
    }
}

#[derive(Serialize, Deserialize)]
struct AddressRecord {
    id: String,
    address: String,
    function_id: String,
}

/// A function with intact files.
#[derive(Debug)]
pub(super) struct ScannedFunction {
    pub(super) function: Function,
    /// Id of the function's only module as one raw block; `None` for a directory.
    pub(super) raw_id: Option<FunctionId>,
    pub(super) custody: Custody,
    /// Time at which the record was last written.
    saved_at: SystemTime,
}

/// Result of a scan of the directory.
#[derive(Debug, Default)]
pub(super) struct ScanResult {
    /// Verified functions, least recently used first.
    pub(super) functions: Vec<ScannedFunction>,
    pub(super) addresses: Vec<InstallSource>,
}

/// Directory of the store. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct FunctionFiles {
    folder: Arc<Path>,
}

impl FunctionFiles {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns all functions with intact content. Removes damaged functions, and files that a crash left.
    /// Functions that cannot be read now, such as those of another user or version, are left out. They do
    /// not count toward the limits of the store.
    pub(super) fn scan(&self) -> Result<ScanResult, FunctionsError> {
        create_folder(&self.folder).map_err(file_error("create the directory", &self.folder))?;
        let entries =
            fs::read_dir(&self.folder).map_err(file_error("read the directory", &self.folder))?;
        let mut found = ScanResult::default();
        for entry in entries {
            let path = entry.map_err(file_error("read the directory", &self.folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let ending = path.extension().and_then(|ending| ending.to_str());
            if name.starts_with(UNFINISHED_PREFIX) {
                fs::remove_file(&path).map_err(file_error("delete", &path))?;
            } else if let Ok(id) = name.parse() {
                self.remove_unfinished(id);
            } else if ending == Some(ADDRESS) {
                found.addresses.extend(read_address(&path));
            } else if ending == Some(RECORD) {
                match self.checked(&path) {
                    Ok(Some(known)) => found.functions.push(known),
                    Ok(None) => self.discard(&path)?,
                    Err(error) => warn!(error = chain(&error), "left out a function"),
                }
            }
        }
        found.functions.sort_by_key(|known| known.saved_at);
        Ok(found)
    }

    /// Durably writes the content of a function and then its record.
    pub(super) fn write(
        &self,
        function: &Function,
        bytes: &[u8],
        custody: &Custody,
    ) -> Result<(), FunctionsError> {
        let folder = self.folder_of(function.id);
        fs::create_dir_all(&folder).map_err(file_error("create the directory", &folder))?;
        replace(&self.content_of(function), bytes)?;
        self.write_record(function, custody)
    }

    /// Durably writes the record of a function. The file's modification time is set to the function's
    /// time of last use.
    pub(super) fn write_record(
        &self,
        function: &Function,
        custody: &Custody,
    ) -> Result<(), FunctionsError> {
        let record = FunctionRecord::new(function, custody);
        let record = serde_json::to_vec(&record).unwrap_or_default();
        replace(&self.record_of(function.id), &record)
    }

    /// Durably records the address from which a function was installed.
    pub(super) fn write_address(&self, address: &InstallSource) -> Result<(), FunctionsError> {
        let id = address.id;
        let function_id = address.function.to_string();
        let record =
            AddressRecord { id: id.to_string(), address: address.address.clone(), function_id };
        let record = serde_json::to_vec(&record).unwrap_or_default();
        replace(&self.address_of(id), &record)
    }

    /// Deletes the record of an address, if it exists.
    pub(super) fn delete_address(&self, id: FunctionId) -> Result<(), FunctionsError> {
        let path = self.address_of(id);
        ignore_absent(fs::remove_file(&path)).map_err(file_error("delete", &path))
    }

    /// Returns a function with its content, or `None` if it is damaged or missing.
    pub(super) fn read(
        &self,
        function: &Function,
    ) -> Result<Option<VerifiedFunction>, FunctionsError> {
        let path = self.content_of(function);
        let bytes = match read_at_most(&path, CAR_BYTES_MAX) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(file_error("read", &path)(source)),
        };
        let (name, method) = (function.name.clone(), function.method.clone());
        let label = NameHints { name: Some(name), method: Some(method) };
        let verified = |id| VerifiedFunction::of_kept(id, label, bytes, FUNCTION_BYTES_MAX);
        let checked = function.id.content().map(verified);
        Ok(checked.and_then(Result::ok).filter(|checked| checked.function.id == function.id))
    }

    /// Deletes a function, if it exists.
    pub(super) fn delete(&self, id: FunctionId) -> Result<(), FunctionsError> {
        let (record, folder) = (self.record_of(id), self.folder_of(id));
        ignore_absent(fs::remove_file(&record)).map_err(file_error("delete", &record))?;
        ignore_absent(fs::remove_dir_all(&folder)).map_err(file_error("delete", &folder))
    }

    /// Returns the function described by the record at `path`, or `None` if its content is damaged or
    /// missing.
    fn checked(&self, path: &Path) -> Result<Option<ScannedFunction>, FunctionsError> {
        let invalid = |error| file_error("read", path)(io::Error::other(error));
        let bytes = read_at_most(path, RECORD_BYTES_MAX).map_err(file_error("read", path))?;
        let record: FunctionRecord = serde_json::from_slice(&bytes)
            .map_err(|error| file_error("read", path)(error.into()))?;
        let custody = record.custody();
        let body = record.body;
        let function = Function {
            id: body.function_id.parse().map_err(invalid)?,
            method: body.method.parse::<Method>().map_err(invalid)?,
            name: body.name,
            size_bytes: body.bytes,
            kept_bytes: 0,
            kind: Kind::Module,
        };
        let is_in_place = path == self.record_of(function.id);
        let Some(verified) = self.read(&function)? else { return Ok(None) };
        let VerifiedFunction { function: read, raw_id, .. } = verified;
        let is_whole = read.size_bytes == function.size_bytes;
        let written = fs::metadata(path).and_then(|record| record.modified());
        let saved_at = written.unwrap_or(SystemTime::UNIX_EPOCH);
        let known = ScannedFunction { function: read, raw_id, custody, saved_at };
        Ok((is_in_place && is_whole).then_some(known))
    }

    /// Removes unfinished files of a function, and all of its files if it has no record, as far as
    /// possible.
    fn remove_unfinished(&self, id: FunctionId) {
        let has_record = self.record_of(id).exists();
        let folder = self.folder_of(id);
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|it| it.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(UNFINISHED_PREFIX) || !has_record {
                drop(fs::remove_file(&path));
            }
        }
        // Fails if the directory contains a function.
        drop(fs::remove_dir(&folder));
    }

    /// Deletes an invalid record and the content that it belongs to.
    fn discard(&self, record: &Path) -> Result<(), FunctionsError> {
        warn!(path = %record.display(), "removed a damaged function");
        let id = record.file_stem().and_then(|stem| stem.to_str());
        match id.and_then(|id| id.parse::<FunctionId>().ok()) {
            Some(id) => self.delete(id),
            None => fs::remove_file(record).map_err(file_error("delete", record)),
        }
    }

    fn record_of(&self, id: FunctionId) -> PathBuf {
        self.folder.join(format!("{id}.{RECORD}"))
    }

    fn folder_of(&self, id: FunctionId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    fn address_of(&self, id: FunctionId) -> PathBuf {
        self.folder.join(format!("{id}.{ADDRESS}"))
    }

    fn content_of(&self, function: &Function) -> PathBuf {
        let is_block = function.id.content().is_some_and(|id| id.codec() == Codec::Raw);
        let name = if is_block { function.method.as_str() } else { CAR };
        self.folder_of(function.id).join(name)
    }
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), FunctionsError> {
    write_atomic(path, bytes, FileMode::Public).map_err(file_error("write", path))
}

/// Returns the address in a record.
fn read_address(record: &Path) -> Option<InstallSource> {
    let bytes = read_at_most(record, RECORD_BYTES_MAX).ok()?;
    let body: AddressRecord = serde_json::from_slice(&bytes).ok()?;
    let id = FunctionId::parse_any(&body.id).ok()?;
    let is_right = !id.is_address_hash() || id == FunctionId::from_address(&body.address);
    let is_in_place = record.file_stem().and_then(|stem| stem.to_str()) == Some(body.id.as_str());
    let function = body.function_id.parse().ok()?;
    (is_right && is_in_place).then_some(InstallSource { id, address: body.address, function })
}

fn ignore_absent(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
