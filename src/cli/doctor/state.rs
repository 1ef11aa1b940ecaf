//! Checks of the services' data directory, its files and addresses to serve at.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use accounts::{Accounts, AccountsError};
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
use stack::data_dir::DataDir;
use task::causes::chain;
use task::clock::Clock;
use task::file::permissions;
use tokio::task::spawn_blocking;
use tsdb::store::sqlite::SqliteStore;

use super::Finding;

/// Free space, in MiB, below which a warning is reported. A busy dataset fills it in some days.
const FREE_MIB_MIN: u64 = 1024;

/// Advice for a file that cannot be opened.
const RESTORE: &str = "restore a backup, or move the file away; see `triptych man operate`";

/// Advice for a file on a full disk.
const FREE: &str = "free space on its disk";

/// Observation for a file that can be opened.
const OPENS: &str = "opens";

/// Observation for a file that a running service has locked.
const IN_USE: &str = "is in use by a service";

/// Advice for a data directory that cannot be used.
const OTHER_DIRECTORY: &str = "name another directory with --data-dir";

/// Checks the directory `data_dir`, or the platform's data directory, as services on this machine would
/// use it.
pub(super) async fn check(data_dir: Option<PathBuf>) -> Vec<Finding> {
    let data_dir = match DataDir::locate(data_dir) {
        Ok(data_dir) => data_dir,
        Err(error) => {
            let next = "set HOME, or pass --data-dir";
            return vec![Finding::failed("data directory", &*error, next)];
        }
    };
    let folder = data_dir.folder();
    let what = format!("data directory {}", folder.display());
    let metadata = match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return vec![check_missing(what, folder)];
        }
        Ok(_) => return vec![Finding::wrong(what, "is not a directory", OTHER_DIRECTORY)],
        Err(error) => return vec![Finding::failed(what, &error, OTHER_DIRECTORY)],
    };
    // The files of another user are not opened: opening can create files, which would belong to the
    // current user and be inaccessible to the services.
    if let Some(owner) = other_owner(&metadata) {
        let next = format!(
            "run this as its owner: sudo -u '#{owner}' triptych doctor --data-dir {}",
            folder.display()
        );
        return vec![Finding::warning(
            what,
            format!("belongs to user {owner}: not examined"),
            next,
        )];
    }
    if is_read_only(folder) {
        let next = "find the reason in the system's log, then remount it: mount -o remount,rw";
        return vec![Finding::wrong(what, "its file system is read-only", next)];
    }
    let mut findings = vec![check_folder(what, folder, &metadata)];
    findings.extend(check_files(&data_dir).await);
    findings
}

/// Checks that the missing directory `folder` can be created in its closest existing parent.
fn check_missing(what: String, folder: &Path) -> Finding {
    let parent = folder.ancestors().skip(1).find(|parent| parent.is_dir());
    match parent.map(|parent| (parent, access(parent, Access::WRITE_OK | Access::EXEC_OK))) {
        Some((parent, Err(error))) => {
            let seen = format!(
                "does not exist, and cannot be created in {}: {}",
                parent.display(),
                io::Error::from(error)
            );
            Finding::wrong(what, seen, OTHER_DIRECTORY)
        }
        _ => Finding::ok(what, "does not exist: the first service creates it"),
    }
}

/// Returns true if the file system of `folder` is mounted read-only, as it can be after a disk error.
fn is_read_only(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|disk| disk.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Returns the owner of a file or directory, or `None` if that is the current user.
fn other_owner(folder: &fs::Metadata) -> Option<u32> {
    Some(folder.uid()).filter(|owner| *owner != rustix::process::geteuid().as_raw())
}

fn check_folder(what: String, folder: &Path, metadata: &fs::Metadata) -> Finding {
    if metadata.permissions().readonly() {
        return Finding::wrong(what, "is not writable", "let its owner write: chmod u+w");
    }
    if let Some(mode) = permissions(folder).filter(|mode| mode & 0o007 != 0) {
        let seen = format!("other users of this machine can read it: its mode is {mode:04o}");
        return Finding::warning(what, seen, format!("chmod 700 {}", folder.display()));
    }
    match free_mib(folder) {
        Some(mib @ ..FREE_MIB_MIN) => {
            let next = "free space, or limit rows with `triptych datasets retention`";
            Finding::warning(what, format!("{mib} MiB are free on its disk"), next)
        }
        Some(mib) => Finding::ok(what, format!("{mib} MiB are free on its disk")),
        None => Finding::ok(what, "exists"),
    }
}

/// Returns the free space of the disk with `folder`, or `None` if the system does not report it.
fn free_mib(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize) >> 20)
}

/// Observation for a file that could be opened or is in use, or the text of the error with advice.
type OpenResult = Result<&'static str, (String, &'static str)>;

type OpenFile = fn(&Path) -> OpenResult;

/// Opens each existing file as its service would, which checks its format.
async fn check_files(data_dir: &DataDir) -> Vec<Finding> {
    let stores =
        [(data_dir.datasets(), open_datasets as OpenFile), (data_dir.inference(), open_inference)];
    let mut findings = Vec::new();
    for (path, open) in stores.into_iter().filter(|(path, _)| path.exists()) {
        let file = path.clone();
        let opened = spawn_blocking(move || open(&file)).await;
        findings
            .push(of_file(&path, opened.unwrap_or_else(|error| Err((error.to_string(), RESTORE)))));
    }
    let path = data_dir.accounts();
    if path.exists() {
        let opened = Accounts::open(&path, Clock::system()).await;
        let failure = |error| {
            let is_full = matches!(error, AccountsError::Full);
            (chain(&error), if is_full { FREE } else { RESTORE })
        };
        findings.push(of_file(&path, opened.map(|_| OPENS).map_err(failure)));
    }
    findings
}

fn open_datasets(path: &Path) -> OpenResult {
    match SqliteStore::open(path) {
        Ok(_) => Ok(OPENS),
        Err(tsdb::store::StoreError::InUse) => Ok(IN_USE),
        Err(error @ tsdb::store::StoreError::Full) => Err((chain(&error), FREE)),
        Err(error) => Err((chain(&error), RESTORE)),
    }
}

fn open_inference(path: &Path) -> OpenResult {
    match inference::store::Store::open(&path.to_owned().into()) {
        Ok(_) => Ok(OPENS),
        Err(inference::store::StoreError::InUse) => Ok(IN_USE),
        Err(error @ inference::store::StoreError::DiskFull) => Err((chain(&error), FREE)),
        Err(error) => Err((chain(&error), RESTORE)),
    }
}

fn of_file(path: &Path, opened: OpenResult) -> Finding {
    let what = format!("file {}", path.display());
    match opened {
        Ok(seen) => Finding::ok(what, seen),
        // A file that belongs to another user may be intact, so the advice is to change its owner and
        // not to restore a backup.
        Err(_) if let Some(owner) = fs::metadata(path).ok().as_ref().and_then(other_owner) => {
            let next = format!(
                "give it to the owner of the directory, as root: chown --reference {} {}",
                path.parent().unwrap_or(path).display(),
                path.display()
            );
            Finding::wrong(what, format!("belongs to user {owner}, and cannot be opened"), next)
        }
        Err((error, next)) => Finding::wrong(what, error, next),
    }
}

/// Checks that a service could be served at `address`.
pub(super) async fn check_address(address: &str) -> Finding {
    let what = format!("address {address}");
    match web::serve::bind(address).await {
        Ok(_) => Finding::ok(what, "is free"),
        Err(error) => {
            let next = "stop what listens there, or give the service another address";
            Finding::failed(what, &error, next)
        }
    }
}
