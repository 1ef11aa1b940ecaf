//! Durable, atomic file writes: a file has its name only once all of it is on the disk.
//!
//! Every file that must survive a crash is written here: under a temporary name beside its own,
//! which no other writer can have, with its mode from the start, synced, renamed, and the folder
//! synced. SQLite's files are not: they have a log.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::{Builder, NamedTempFile};

/// How the temporary names begin. A process that is killed while it writes leaves such a file. After
/// this come the id of the writer and random letters.
pub const UNFINISHED_PREFIX: &str = ".triptych-unfinished-";

/// An unfinished file that nobody wrote to for this long belongs to a killed process: a day is longer
/// than any download stalls.
const STALE_AFTER: Duration = Duration::from_hours(24);

/// Who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// Its owner alone: mode 0600.
    Private,
    /// Everyone that the process's umask allows: mode 0666 without its bits.
    Public,
}

/// Writes `content` to the file at `path`, and replaces one that is there. Blocks on the disk.
///
/// After a crash at any time the file has either its old content or `content`, whole. The folder
/// must exist. Concurrent writers do not mix: the last one wins.
///
/// # Errors
/// If the file cannot be written; then one that is there stays unchanged.
pub fn write_atomic(path: &Path, content: &[u8], mode: FileMode) -> io::Result<()> {
    write_draft(path, content, mode)?.commit()
}

/// As [`write_atomic`], but never replaces a file: of concurrent writers one succeeds.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if there is a file; else as [`write_atomic`].
pub fn write_new(path: &Path, content: &[u8], mode: FileMode) -> io::Result<()> {
    write_draft(path, content, mode)?.commit_new()
}

fn write_draft(path: &Path, content: &[u8], mode: FileMode) -> io::Result<AtomicFile> {
    let mut file = AtomicFile::create(path, mode)?;
    file.file().write_all(content)?;
    Ok(file)
}

/// A file that is written piece by piece, and gets its name by [`Self::commit`]. Dropped before, it
/// is removed.
#[derive(Debug)]
pub struct AtomicFile {
    draft: NamedTempFile,
    path: PathBuf,
}

impl AtomicFile {
    /// Creates an empty file that is to be called `path`, in the same folder.
    ///
    /// # Errors
    /// If `path` names a folder or nothing, or the folder cannot be written to.
    pub fn create(path: &Path, mode: FileMode) -> io::Result<Self> {
        path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        if fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut builder = Builder::new();
        let prefix =
            format!("{UNFINISHED_PREFIX}{}-", writer_id(process_scope(), std::process::id()));
        builder.prefix(&prefix);
        let bits = match mode {
            FileMode::Private => 0o600,
            FileMode::Public => 0o666,
        };
        builder.permissions(fs::Permissions::from_mode(bits));
        Ok(Self { draft: builder.tempfile_in(folder_of(path))?, path: path.to_owned() })
    }

    /// The open file.
    pub fn file(&mut self) -> &mut File {
        self.draft.as_file_mut()
    }

    /// The path of the file until it has its name, for what writes to it by path.
    #[must_use]
    pub fn draft_path(&self) -> &Path {
        self.draft.path()
    }

    /// Gives the file its name once all of it is on the disk, and replaces one that has it. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// If it cannot be synced or renamed; then nothing is left of it.
    pub fn commit(self) -> io::Result<()> {
        self.draft.as_file().sync_all()?;
        self.draft.persist(&self.path).map_err(|error| error.error)?;
        sync_folder(folder_of(&self.path))
    }

    /// As [`Self::commit`], but never replaces a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is a file; else as [`Self::commit`].
    pub fn commit_new(self) -> io::Result<()> {
        self.draft.as_file().sync_all()?;
        self.draft.persist_noclobber(&self.path).map_err(|error| error.error)?;
        sync_folder(folder_of(&self.path))
    }
}

/// Reads the file at `path`, which may be endless. Blocks on the disk.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] if it has more than `bytes_max` bytes; else if it cannot be read.
pub fn read_at_most(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Returns the permissions of a file or directory as `chmod` has them, such as `0o755`; `None` if it
/// cannot be looked at.
#[must_use]
pub fn permissions(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.permissions().mode() & 0o777)
}

/// Whether a file could not be written because of the disk, a quota or a limit of the file's size.
#[must_use]
pub fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Removes the unfinished files in the folder of `path` whose writer has ended, or that nobody wrote
/// to for a day, as far as that is possible: what killed processes left must not fill the disk.
pub fn remove_stale(path: &Path) {
    let Ok(entries) = fs::read_dir(folder_of(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED_PREFIX)) else {
            continue;
        };
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_stale = || modified.is_ok_and(|at| at.elapsed().is_ok_and(|it| it > STALE_AFTER));
        if has_ended(rest) || is_stale() {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Which process writes a file: where its number counts, and the number. A folder may be shared by
/// machines and by containers, whose processes have the same numbers.
fn writer_id(scope: u64, process: u32) -> String {
    format!("{scope:016x}-{process}")
}

/// Whether the name of an unfinished file, without its prefix, is of a process that is known to
/// have ended: one that counted where this one does.
fn has_ended(name: &str) -> bool {
    let mut parts = name.split('-');
    let scope = parts.next().and_then(|text| u64::from_str_radix(text, 16).ok());
    let process = parts.next().and_then(|text| text.parse().ok());
    let (Some(scope), Some(process)) = (scope, process) else { return false };
    scope != 0 && scope == process_scope() && !is_running(process)
}

/// A number of this start of the machine and this container; 0 where none is known.
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
    // Any other error is of one that is there and belongs to somebody else.
    found != Some(Err(rustix::io::Errno::SRCH))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Waits until the names in `folder` are on the disk, where the system can.
fn sync_folder(folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, Unsupported};
    match File::open(folder)?.sync_all() {
        // Some network and user-space filesystems cannot sync a folder.
        Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread, time::SystemTime};

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
    fn a_file_is_replaced_whole_and_no_draft_is_left() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("state");
        write_atomic(&path, b"a longer first", FileMode::Private).unwrap();
        write_atomic(&path, b"second", FileMode::Private).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(base.path()), ["state"]);
    }

    #[test]
    fn a_private_file_is_its_owners_alone_even_before_it_has_its_name() {
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
    fn a_file_that_is_dropped_or_cannot_be_named_leaves_the_old_one() {
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
        for path in [base.path(), Path::new("/"), Path::new("..")] {
            assert!(write_atomic(path, b"", FileMode::Private).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn unfinished_files_of_processes_that_are_long_dead_are_removed() {
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
        // Of another machine, which alone knows whether it still runs.
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
    fn of_many_writers_at_once_one_makes_a_new_file_and_the_last_replaces_it() {
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
    fn no_space_has_many_codes() {
        let is_full = |code| is_no_space(&io::Error::from_raw_os_error(code));
        // ENOSPC, EDQUOT, EFBIG; EIO.
        assert!(is_full(28) && is_full(122) && is_full(27) && !is_full(5));
    }
}
