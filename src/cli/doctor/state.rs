//! The data folder of services, its files, and addresses to serve at.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use accounts::Accounts;
use stack::data_dir::{DataDir, services_folder};
use task::{causes::chain, clock::Clock, file::permissions};
use tokio::task::spawn_blocking;
use tsdb::store::sqlite::SqliteStore;

use super::Finding;

/// Free space, in MiB, below which a disk is soon too full to store rows: some days of a busy dataset.
const FREE_MIB_MIN: u64 = 1024;

/// What to do about a file that cannot be opened.
const RESTORE: &str = "restore a backup, or move the file away; see `triptych man operate`";

/// Text for a file that can be opened.
const OPENS: &str = "opens";

/// Text for a file that a service has locked, which has opened it.
const IN_USE: &str = "is in use by a service";

/// Checks the folder `data_dir`, else the platform's own, as services on this machine use it.
pub(super) async fn check(data_dir: Option<PathBuf>) -> Vec<Finding> {
    let folder = match services_folder(data_dir) {
        Ok(folder) => folder,
        Err(error) => {
            return vec![Finding::failed("data folder", &error, "set HOME, or give --data-dir")];
        }
    };
    let what = format!("data folder {}", folder.display());
    let found = match fs::metadata(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return vec![Finding::ok(what, "is not there: the first service makes it")];
        }
        found => found.map_err(|error| error.to_string()),
    };
    let found =
        found.and_then(|it| if it.is_dir() { Ok(it) } else { Err("it is no folder".into()) });
    match found {
        Err(why) => vec![Finding::wrong(what, why, "name another folder with --data-dir")],
        // Files that somebody else opens could be that user's afterwards.
        Ok(it) if let Some(owner) = other_owner(&it) => {
            let next = format!("run this as its owner: runuser -u '#{owner}' -- triptych doctor");
            vec![Finding::warning(what, format!("belongs to user {owner}: not looked into"), next)]
        }
        Ok(it) => {
            let mut findings = vec![check_folder(what, &folder, &it)];
            let data_dir = DataDir::of_services(Some(folder));
            if let Ok(data_dir) = data_dir {
                findings.extend(check_files(&data_dir).await);
            }
            findings
        }
    }
}

/// The user that has the folder, where that is not the one that runs this.
#[cfg(unix)]
fn other_owner(folder: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    Some(folder.uid()).filter(|owner| *owner != rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
const fn other_owner(_folder: &fs::Metadata) -> Option<u32> {
    None
}

fn check_folder(what: String, folder: &Path, metadata: &fs::Metadata) -> Finding {
    if metadata.permissions().readonly() {
        return Finding::wrong(what, "nobody may write to it", "let its owner write: chmod u+w");
    }
    if let Some(mode) = permissions(folder).filter(|mode| mode & 0o007 != 0) {
        let seen = format!("other users of this machine can look into it: its mode is {mode:04o}");
        return Finding::warning(what, seen, format!("chmod 700 {}", folder.display()));
    }
    match free_mib(folder) {
        Some(mib @ ..FREE_MIB_MIN) => {
            let next = "free space, or keep less with `triptych datasets retention`";
            Finding::warning(what, format!("{mib} MiB are free on its disk"), next)
        }
        Some(mib) => Finding::ok(what, format!("{mib} MiB are free on its disk")),
        None => Finding::ok(what, "is there"),
    }
}

/// The free space of the disk of `folder`; `None` where the system does not tell.
#[cfg(unix)]
fn free_mib(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize) >> 20)
}

#[cfg(not(unix))]
const fn free_mib(_folder: &Path) -> Option<u64> {
    None
}

/// What opening a file said: what was seen, or why it cannot be opened.
type Opened = Result<&'static str, String>;

/// Opens each file that is there as its service would, which checks its version.
async fn check_files(data_dir: &DataDir) -> Vec<Finding> {
    let stores = [(data_dir.datasets(), Open::Datasets), (data_dir.inference(), Open::Inference)];
    let mut findings = Vec::new();
    for (path, open) in stores.into_iter().filter(|(path, _)| path.exists()) {
        let file = path.clone();
        let opened = spawn_blocking(move || open.file(&file)).await;
        let opened = opened.unwrap_or_else(|error| Err(error.to_string()));
        findings.push(of_file(&path, opened));
    }
    let path = data_dir.accounts();
    if path.exists() {
        let opened = Accounts::open(&path, Clock::system()).await;
        findings.push(of_file(&path, opened.map(|_| OPENS).map_err(|error| chain(&error))));
    }
    findings
}

/// Whose file is opened.
#[derive(Debug, Clone, Copy)]
enum Open {
    Datasets,
    Inference,
}

impl Open {
    fn file(self, path: &Path) -> Opened {
        use inference::store::StoreError as Inference;
        use tsdb::store::StoreError as Datasets;
        let why = match self {
            Self::Datasets => match SqliteStore::open(path) {
                Ok(_) => return Ok(OPENS),
                Err(Datasets::InUse) => return Ok(IN_USE),
                Err(error) => chain(&error),
            },
            Self::Inference => match inference::store::Store::open(path) {
                Ok(_) => return Ok(OPENS),
                Err(Inference::InUse) => return Ok(IN_USE),
                Err(error) => chain(&error),
            },
        };
        Err(why)
    }
}

fn of_file(path: &Path, opened: Opened) -> Finding {
    let what = format!("file {}", path.display());
    match opened {
        Ok(seen) => Finding::ok(what, seen),
        // What belongs to somebody else is whole, and restoring it would not help.
        Err(_) if let Some(owner) = fs::metadata(path).ok().as_ref().and_then(other_owner) => {
            let next = format!(
                "give it to the owner of the folder, as root: chown --reference {} {}",
                path.parent().unwrap_or(path).display(),
                path.display()
            );
            Finding::wrong(what, format!("belongs to user {owner}, and cannot be opened"), next)
        }
        Err(why) => Finding::wrong(what, format!("cannot {why}"), RESTORE),
    }
}

/// Checks whether a service could be served at `address`.
pub(super) async fn check_address(address: &str) -> Finding {
    let what = format!("address {address}");
    match web::serve::bind(address).await {
        Ok(_) => Finding::ok(what, "is free"),
        Err(error) => {
            let next = "stop what listens there, or give the service another address";
            Finding::wrong(what, format!("cannot {}", chain(&error)), next)
        }
    }
}
