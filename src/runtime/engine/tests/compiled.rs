//! Tests of compiled code on disk.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use task::wait::until;

use super::*;

/// Effect of a run on the entries in the directory of compiled code.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    /// The program was compiled and its code was stored.
    Stored,
    /// The code was found, which sets the modification time of its entry.
    Found,
    /// No entry was read or written.
    Nothing,
}

/// Runs `program` in a new runtime, which represents another process. Checks its exit code and its effect
/// on the directory.
async fn check(folder: &Path, (program, exit_code): (&Program, i32), limits: Limits, want: Effect) {
    // Open files, whose inodes are not reused.
    let before: Vec<File> = entries(folder)
        .iter()
        .map(|path| File::options().write(true).open(path).unwrap())
        .collect();
    for file in &before {
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    let runtime = Runtime::new(options(folder)).unwrap();
    let finished = runtime.execute(program, bare(limits)).await.unwrap();
    assert_eq!(finished.exit_code, exit_code);
    let inodes: BTreeSet<u64> = before.iter().map(|file| file.metadata().unwrap().ino()).collect();
    let after: Vec<_> = entries(folder).iter().map(|path| path.metadata().unwrap()).collect();
    let is_used = |entry: &fs::Metadata| entry.modified().unwrap() != SystemTime::UNIX_EPOCH;
    let effect = if after.iter().any(|entry| !inodes.contains(&entry.ino())) {
        Effect::Stored
    } else if after.iter().any(is_used) {
        Effect::Found
    } else {
        Effect::Nothing
    };
    assert_eq!(effect, want);
}

fn options(folder: &Path) -> RuntimeOptions {
    RuntimeOptions { compiled_folder: Some(folder.to_owned()), ..super::options(1) }
}

/// Returns a program and its exit code.
fn seven() -> (Program, i32) {
    (command("(call $exit (i32.const 7))"), 7)
}

async fn check_seven(folder: &Path, limits: Limits, want: Effect) {
    let (program, exit_code) = seven();
    check(folder, (&program, exit_code), limits, want).await;
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("code")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

#[tokio::test]
async fn runtimes_share_compiled_code() {
    let folder = folder();
    check_seven(folder.path(), LIMITS, Effect::Stored).await;
    check_seven(folder.path(), LIMITS, Effect::Found).await;
    check_seven(folder.path(), LIMITS, Effect::Found).await;
    assert_eq!(entries(folder.path()).len(), 1);
}

#[tokio::test]
async fn engines_with_different_fuel_settings_do_not_share_compiled_code() {
    let folder = folder();
    let fueled = Limits { fuel: Some(u64::MAX), ..LIMITS };
    check_seven(folder.path(), LIMITS, Effect::Stored).await;
    check_seven(folder.path(), fueled, Effect::Stored).await;
    check_seven(folder.path(), fueled, Effect::Found).await;
    assert_eq!(entries(folder.path()).len(), 2);
}

#[tokio::test]
async fn damaged_code_is_compiled_again() {
    let folder = folder();
    check_seven(folder.path(), LIMITS, Effect::Stored).await;
    let path = entries(folder.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let cut = whole[..middle].to_vec();
    for damaged in [flipped, cut, Vec::new(), b"nonsense".to_vec()] {
        fs::write(&path, damaged).unwrap();
        check_seven(folder.path(), LIMITS, Effect::Stored).await;
        check_seven(folder.path(), LIMITS, Effect::Found).await;
    }
}

/// The entry of one program must not be accepted under the name of another.
#[tokio::test]
async fn code_of_another_program_is_rejected() {
    let folder = folder();
    check_seven(folder.path(), LIMITS, Effect::Stored).await;
    let seven = fs::read(entries(folder.path()).remove(0)).unwrap();
    let eight = command("(call $exit (i32.const 8))");
    check(folder.path(), (&eight, 8), LIMITS, Effect::Stored).await;
    for entry in entries(folder.path()) {
        fs::write(entry, &seven).unwrap();
    }
    check(folder.path(), (&eight, 8), LIMITS, Effect::Stored).await;
}

#[tokio::test]
async fn compiled_component_is_found_in_the_cache() {
    let (folder, hello) = (folder(), component(&command("")));
    for want in [Effect::Stored, Effect::Found] {
        check(folder.path(), (&hello, 0), LIMITS, want).await;
    }
}

#[tokio::test]
async fn repeated_runs_compile_a_program_once() {
    let (folder, (seven, _)) = (folder(), seven());
    let runtime = Runtime::new(options(folder.path())).unwrap();
    runtime.execute(&seven, bare(LIMITS)).await.unwrap();
    fs::remove_file(entries(folder.path()).remove(0)).unwrap();
    for _ in 0..2 {
        runtime.execute(&seven, bare(LIMITS)).await.unwrap();
    }
    assert!(entries(folder.path()).is_empty());
}

/// The second error has the same source as the first, so the program was not compiled again.
#[tokio::test]
async fn program_with_an_unknown_import_is_refused_later_and_its_code_is_not_kept() {
    let folder = folder();
    let text = r#"(module (import "env" "now" (func)) (func (export "_start")))"#;
    let program = Program::new(wat::parse_str(text).unwrap());
    let runtime = Runtime::new(options(folder.path())).unwrap();
    let mut sources = Vec::new();
    for _ in 0..2 {
        let error = runtime.execute(&program, bare(LIMITS)).await.unwrap_err();
        let RunError::Program(ProgramError::Import { source }) = error else { panic!("{error}") };
        sources.push(source);
        assert!(entries(folder.path()).is_empty());
    }
    assert!(Arc::ptr_eq(&sources[0], &sources[1]));
}

#[tokio::test]
async fn program_is_compiled_again_if_the_cache_directory_cannot_be_created() {
    check_seven(Path::new("/proc/none"), LIMITS, Effect::Nothing).await;
}

/// Two runtimes with one directory represent two processes on the same machine. The second cannot
/// compile, so it fails unless it waits for the first.
#[tokio::test]
async fn runtimes_of_one_machine_compile_a_program_once() {
    let (folder, hello) = (folder(), demo("hello"));
    let one = Runtime::new(options(folder.path())).unwrap();
    let compile_in = CompileIn::Child { program: "/bin/false".into() };
    let other = Runtime::new(RuntimeOptions { compile_in, ..options(folder.path()) }).unwrap();
    assert!(!one.is_compiled(&hello, false));
    let how = || Preparation { client: Arc::default(), has_fuel: false, is_patient: true };
    let waiting = async {
        until(LIMITS.wall, || async { has_begun(folder.path()) }).await.unwrap();
        other.prepare(&hello, how()).await
    };
    let (first, second) = tokio::join!(one.prepare(&hello, how()), waiting);
    first.and(second).unwrap();
    assert!(one.is_compiled(&hello, false) && other.is_compiled(&hello, false));
}

/// Returns `Ok` if a compilation is in progress or done.
fn has_begun(folder: &Path) -> Result<(), &'static str> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_locked = |path: PathBuf| {
        path.is_file()
            && matches!(File::open(path).unwrap().try_lock(), Err(TryLockError::WouldBlock))
    };
    if !entries(folder).is_empty() || files.into_iter().any(is_locked) {
        Ok(())
    } else {
        Err("not begun")
    }
}
