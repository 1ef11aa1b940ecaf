//! Durable, atomic writes: a file gets its name only after its whole content is on disk.
//!
//! Every file that must survive a crash is written here, except for the files of SQLite, which has
//! a log for this. The content is written to a temporary file with a unique name in the same
//! directory, which has the final mode from the start. This file is synced and renamed. Then the
//! directory is synced.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use tempfile::{Builder, NamedTempFile};

/// Prefix of the names of temporary files. The id of the writing process and random letters
/// follow. If a process is killed while it writes, such a file remains.
pub const UNFINISHED_PREFIX: &str = ".triptych-unfinished-";

/// Time since the last write after which a temporary file counts as abandoned. No download pauses
/// for a day.
const STALE_AFTER: Duration = Duration::from_hours(24);

/// Permissions of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// Only the owner can read and write the file (mode 0600).
    Private,
    /// Mode 0666, reduced by the umask of the process.
    Public,
}

/// Writes `content` to the file at `path`. Replaces an existing file. Blocks on the disk.
///
/// After a crash, the file has either its old or its new content. The directory must exist. If several
/// processes write the same file, the content of the last process remains.
///
/// # Errors
/// If the file cannot be written. An existing file is unchanged then, unless only syncing its directory
/// failed.
pub fn write_atomic(path: &Path, content: &[u8], mode: FileMode) -> io::Result<()> {
    write_draft(path, content, mode)?.commit()
}

/// Like [`write_atomic`], but does not replace an existing file. If several processes write the
/// same file, one of them succeeds.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if the file exists. Otherwise same as [`write_atomic`].
pub fn write_new(path: &Path, content: &[u8], mode: FileMode) -> io::Result<()> {
    write_draft(path, content, mode)?.commit_new()
}

fn write_draft(path: &Path, content: &[u8], mode: FileMode) -> io::Result<AtomicFile> {
    let mut file = AtomicFile::create(path, mode)?;
    file.file().write_all(content)?;
    Ok(file)
}

/// A temporary file that gets its final name by [`Self::commit`]. If it is dropped before that, it
/// is removed.
#[derive(Debug)]
pub struct AtomicFile {
    draft: NamedTempFile,
    path: PathBuf,
}

impl AtomicFile {
    /// Creates an empty temporary file in the directory of `path`. If `path` is a symbolic link, its
    /// target will be replaced.
    ///
    /// # Errors
    /// If `path` exists and is not a regular file, or has no file name, or if its directory is not
    /// writable.
    pub fn create(path: &Path, mode: FileMode) -> io::Result<Self> {
        path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => {
                return Err(io::Error::other("not a regular file"));
            }
            _ => {}
        }
        let mut builder = Builder::new();
        let prefix =
            format!("{UNFINISHED_PREFIX}{}-", writer_id(process_scope(), std::process::id()));
        builder.prefix(&prefix);
        let bits = match mode {
            FileMode::Private => 0o600,
            FileMode::Public => 0o666,
        };
        // Unlike `tempfile_in`, this does not add the path of the temporary file to errors.
        let draft = builder.make_in(folder_of(&path), |draft| {
            File::options().read(true).write(true).create_new(true).mode(bits).open(draft)
        });
        Ok(Self { draft: draft?, path })
    }

    /// Returns the open temporary file.
    pub fn file(&mut self) -> &mut File {
        self.draft.as_file_mut()
    }

    /// Returns the path of the temporary file.
    #[must_use]
    pub fn draft_path(&self) -> &Path {
        self.draft.path()
    }

    /// Syncs the file and renames it to its final name. Replaces an existing file. Root keeps the owner of
    /// the file if it owns the directory, too. Blocks on the disk.
    ///
    /// # Errors
    /// If the file cannot be synced or renamed. The temporary file is removed then. If only syncing the
    /// directory failed, the file has its final name.
    pub fn commit(self) -> io::Result<()> {
        if geteuid().is_root()
            && let (Ok(replaced), Ok(folder)) =
                (fs::metadata(&self.path), fs::metadata(folder_of(&self.path)))
            && replaced.uid() == folder.uid()
        {
            // Not every file system permits this.
            fchown(self.draft.as_file(), Some(replaced.uid()), Some(replaced.gid())).ok();
        }
        self.draft.as_file().sync_all()?;
        self.draft.persist(&self.path).map_err(|error| error.error)?;
        sync_folder(folder_of(&self.path))
    }

    /// Like [`Self::commit`], but does not replace an existing file.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the file exists. Otherwise same as [`Self::commit`].
    pub fn commit_new(self) -> io::Result<()> {
        self.draft.as_file().sync_all()?;
        self.draft.persist_noclobber(&self.path).map_err(|error| error.error)?;
        sync_folder(folder_of(&self.path))
    }
}

/// Reads a file that has at most `bytes_max` bytes. Blocks on the disk. Does not hang on endless
/// devices such as `/dev/zero`.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] if the file is larger, and any error of reading it.
pub fn read_at_most(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Returns the permission bits of a file or directory, such as `0o755`. Returns `None` if they
/// cannot be read.
#[must_use]
pub fn permissions(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.permissions().mode() & 0o777)
}

/// Returns true if a write has failed because the disk is full, or a quota or a limit of the file
/// size is exceeded.
#[must_use]
pub fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Removes abandoned temporary files from the directory of `path`: their writer has exited, or the
/// last write was more than a day ago. Otherwise, files of killed processes would fill the disk.
/// Errors are ignored.
pub fn remove_stale(path: &Path) {
    let Ok(entries) = fs::read_dir(folder_of(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED_PREFIX)) else {
            continue;
        };
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_stale = || modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_AFTER));
        if has_exited(rest) || is_stale() {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Returns an id for a process that writes a file. Other machines and containers can share the
/// directory and have processes with the same number, so the id also contains a scope.
fn writer_id(scope: u64, process: u32) -> String {
    format!("{scope:016x}-{process}")
}

/// Returns true if it is certain that a writer has exited. `name` is the name of its temporary file
/// without the prefix. For a process of another scope, this is never certain.
fn has_exited(name: &str) -> bool {
    let mut parts = name.split('-');
    let scope = parts.next().and_then(|text| u64::from_str_radix(text, 16).ok());
    let process = parts.next().and_then(|text| text.parse().ok());
    let (Some(scope), Some(process)) = (scope, process) else { return false };
    scope != 0 && scope == process_scope() && !is_running(process)
}

/// Returns a number for this container and this boot of the machine. Returns 0 if the number cannot be
/// determined.
#[cfg(target_os = "linux")]
fn process_scope() -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let boot = fs::read("/proc/sys/kernel/random/boot_id");
    let processes = fs::read_link("/proc/self/ns/pid");
    let (Ok(boot), Ok(processes)) = (boot, processes) else { return 0 };
    let mut hasher = DefaultHasher::new();
    (boot, processes).hash(&mut hasher);
    hasher.finish()
}

#[cfg(not(target_os = "linux"))]
fn process_scope() -> u64 {
    0
}

fn is_running(process: i32) -> bool {
    let found = rustix::process::Pid::from_raw(process).map(rustix::process::test_kill_process);
    // On all other errors, the process exists, but belongs to another user.
    found != Some(Err(rustix::io::Errno::SRCH))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Syncs the directory `folder`, so that the names of its files are on disk.
fn sync_folder(folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, Unsupported};
    match File::open(folder)?.sync_all() {
        // Some network file systems and file systems in user space cannot sync a directory.
        Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;
    use std::time::SystemTime;

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[track_caller]
    fn check_mode(path: &Path, want: u32) {
        assert_eq!(mode_of(path), want, "{}", path.display());
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn file_that_root_replaces_keeps_its_owner() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        for path in [folder.path(), &path] {
            std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
        }
        AtomicFile::create(&path, FileMode::Private).unwrap().commit().unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.uid(), metadata.gid(), metadata.len()), (65_534, 65_534, 0));
    }

    #[test]
    fn writing_replaces_the_file_and_leaves_no_temporary_file() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("state");
        write_atomic(&path, b"a longer first", FileMode::Private).unwrap();
        write_atomic(&path, b"second", FileMode::Private).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(base.path()), ["state"]);
    }

    #[test]
    fn private_file_is_created_with_its_final_permissions() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("key");
        fs::write(&path, "old").unwrap();
        let file = AtomicFile::create(&path, FileMode::Private).unwrap();
        check_mode(file.draft_path(), 0o600);
        file.commit().unwrap();
        check_mode(&path, 0o600);
        write_atomic(&path, b"", FileMode::Public).unwrap();
        let made = base.path().join("made by the system");
        drop(File::create(&made).unwrap());
        check_mode(&path, mode_of(&made));
    }

    #[test]
    fn dropped_or_failed_write_leaves_the_old_file() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("state");
        fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path, FileMode::Private).unwrap();
        file.file().write_all(b"half").unwrap();
        drop(file);
        let error = write_new(&path, b"new", FileMode::Private).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(base.path()), ["state"]);
        let error = write_atomic(&base.path().join("none/x"), b"", FileMode::Private).unwrap_err();
        assert_eq!(error.to_string(), "No such file or directory (os error 2)");
        for path in [base.path(), Path::new("/"), Path::new("..")] {
            assert!(write_atomic(path, b"", FileMode::Private).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn unfinished_files_of_dead_processes_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("copy");
        let running = AtomicFile::create(&path, FileMode::Private).unwrap();
        for name in [format!("{UNFINISHED_PREFIX}1"), ".old".to_owned()] {
            let old = File::create(base.path().join(name)).unwrap();
            old.set_modified(SystemTime::now() - 2 * STALE_AFTER).unwrap();
        }
        remove_stale(&path);
        let ended = std::process::Command::new("true").spawn().unwrap();
        let process = ended.id();
        drop(ended.wait_with_output());
        let name = format!("{UNFINISHED_PREFIX}{}-x", writer_id(process_scope(), process));
        fs::write(base.path().join(name), b"").unwrap();
        // The process can run on another machine, so the file is not removed.
        let other = format!("{UNFINISHED_PREFIX}{}-x", writer_id(1, process));
        fs::write(base.path().join(&other), b"").unwrap();
        remove_stale(&path);
        fs::remove_file(base.path().join(other)).unwrap();
        running.commit().unwrap();
        let mut left = names(base.path());
        left.sort();
        assert_eq!(left, [".old", "copy"]);
    }

    #[test]
    fn concurrent_writers_do_not_mix_their_contents() {
        const N_WRITERS: u8 = 16;
        let base = tempfile::tempdir().unwrap();
        let (new, shared) = (base.path().join("new"), base.path().join("shared"));
        let start = Barrier::new(N_WRITERS.into());
        let write = |number: u8| {
            let content = vec![number; 10_000];
            start.wait();
            write_atomic(&shared, &content, FileMode::Private).unwrap();
            write_new(&new, &content, FileMode::Private).is_ok()
        };
        let n_new = thread::scope(|scope| {
            let writers = (0..N_WRITERS).map(|number| {
                scope.spawn({
                    let write = &write;
                    move || write(number)
                })
            });
            let writers: Vec<_> = writers.collect();
            let made = writers.into_iter().map(|writer| writer.join().unwrap());
            made.filter(|is_made| *is_made).count()
        });
        assert_eq!(n_new, 1);
        for path in [new, shared] {
            let content = fs::read(&path).unwrap();
            assert!(content.len() == 10_000 && content.iter().all(|it| *it == content[0]));
        }
        assert_eq!(names(base.path()).len(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn errors_for_quota_and_file_size_limit_are_no_space_errors() {
        let is_full = |code| is_no_space(&io::Error::from_raw_os_error(code));
        // The error numbers of ENOSPC, EDQUOT and EFBIG, and of EIO.
        assert!(is_full(28) && is_full(122) && is_full(27) && !is_full(5));
    }
}
