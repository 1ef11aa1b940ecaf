//! Guests with a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::files::{Files, FilesLimits, FolderCleanup};

/// Low limits, so that tests reach them quickly.
pub(super) const FEW: FilesLimits = FilesLimits { n_files_max: 200, bytes_max: 4 * 1024 * 1024 };

pub(super) fn with_files(folder: &Path, afterwards: FolderCleanup) -> Run {
    let files = Files { folder: folder.to_owned(), afterwards, limits: Some(FEW), function: None };
    Run { files: Some(files), ..bare(LIMITS) }
}

/// Runs `program` in a directory. Checks its outcome and that no files are left.
pub(super) async fn check(program: &Program, ended: RunEnd) -> RunOutcome {
    let root = tempfile::tempdir().unwrap();
    let run = with_files(&root.path().join("t/1/fs"), FolderCleanup::Remove);
    let finished = caching_runtime(1).execute(program, run).await.unwrap();
    let told = text(&finished.stderr);
    assert_eq!(finished.ended, ended, "{} {told}", finished.exit_code);
    if ended == RunEnd::FilesFull(FEW) {
        assert_eq!(told, "runtime: limit of 200 files or of 4194304 bytes in files reached\n");
    }
    assert!(!root.path().join("t/1/fs").exists());
    finished
}

/// Returns a command that opens `path` for reading and exits with the error number.
fn opener(path: &str) -> Program {
    let n_bytes = path.len();
    module(&format!(
        r#"(memory (export "memory") 1) (data (i32.const 0) "{path}")
        (func (export "_start") (call $exit (call $open (i32.const 3) (i32.const 1) (i32.const 0)
            (i32.const {n_bytes}) (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0)
            (i32.const 1000))))"#
    ))
}

/// Functions `$name`, which writes four letters that encode `$n` to address 0, and `$create`, which
/// creates and opens a file of this name and returns its descriptor.
pub(super) const CREATE: &str = r"
    (func $name (param $n i32) (local $i i32)
        (loop $next
            (i32.store8 (local.get $i) (i32.add (i32.const 97) (i32.and (local.get $n) (i32.const 15))))
            (local.set $n (i32.shr_u (local.get $n) (i32.const 4)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (i32.const 4)))))
    (func $create (param $n i32) (result i32)
        (call $name (local.get $n))
        (if (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 1)
            (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 1000)) (then unreachable))
        (i32.load (i32.const 1000)))";

/// Returns a command with two pages of memory and `body`, which can use [`CREATE`] and a local `$n`.
pub(super) fn creator(body: &str) -> Program {
    module(&format!(
        "(memory (export \"memory\") 2) {CREATE} (func (export \"_start\") (local $n i32) {body})"
    ))
}

#[tokio::test]
async fn guest_writes_files_in_its_directory() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("fs");
    // Writes the three bytes at address 2000, by a vector at address 500.
    let program = creator(
        "(i32.store (i32.const 500) (i32.const 2000)) (i32.store (i32.const 504) (i32.const 3))
        (i32.store (i32.const 2000) (i32.const 0x636261))
        (if (call $write (call $create (i32.const 0)) (i32.const 500) (i32.const 1) (i32.const 600))
            (then unreachable))",
    );
    let run = with_files(&folder, FolderCleanup::Keep);
    let finished = runtime(1).execute(&program, run).await.unwrap();
    assert_eq!((finished.ended, finished.exit_code), (RunEnd::Exited, 0));
    assert_eq!(fs::read(folder.join("aaaa")).unwrap(), b"abc");
    assert_eq!(check(&program, RunEnd::Exited).await.exit_code, 0);
}

#[tokio::test]
async fn paths_of_a_guest_do_not_lead_out_of_its_directory() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("fs");
    fs::create_dir(&folder).unwrap();
    fs::write(root.path().join("secret"), "x").unwrap();
    fs::write(folder.join("mine"), "x").unwrap();
    symlink(root.path(), folder.join("out")).unwrap();
    symlink("../secret", folder.join("up")).unwrap();
    symlink("/etc/passwd", folder.join("passwd")).unwrap();
    symlink("mine", folder.join("link")).unwrap();
    let runtime = runtime(1);
    for (path, is_opened) in [
        ("mine", true),
        ("link", true),
        ("../secret", false),
        ("./../secret", false),
        ("x/../../secret", false),
        ("/etc/passwd", false),
        ("/proc/self/environ", false),
        ("out/secret", false),
        ("up", false),
        ("passwd", false),
        ("..", false),
    ] {
        let run = with_files(&folder, FolderCleanup::Keep);
        let finished = runtime.execute(&opener(path), run).await.unwrap();
        assert_eq!(finished.ended, RunEnd::Exited);
        assert_eq!(finished.exit_code == 0, is_opened, "{path}: error {}", finished.exit_code);
    }
}

#[tokio::test]
async fn links_of_a_guest_do_not_lead_out_of_its_directory() {
    // Creates the link "l" to "../.." and exits with the error of opening "l/etc".
    let program = module(
        r#"(memory (export "memory") 1) (data (i32.const 0) "../..l/etc")
        (func (export "_start")
            (drop (call $symlink (i32.const 0) (i32.const 5) (i32.const 3) (i32.const 5)
                (i32.const 1)))
            (call $exit (call $open (i32.const 3) (i32.const 1) (i32.const 5) (i32.const 5)
                (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 1000))))"#,
    );
    assert_ne!(check(&program, RunEnd::Exited).await.exit_code, 0);
}

#[tokio::test]
async fn guest_that_creates_endless_files_is_stopped() {
    let program = creator(
        "(loop $on (drop (call $close (call $create (local.get $n))))
        (local.set $n (i32.add (local.get $n) (i32.const 1))) (br $on))",
    );
    let finished = check(&program, RunEnd::FilesFull(FEW)).await;
    assert_eq!(finished.exit_code, 255);
}

#[tokio::test]
async fn guest_that_writes_an_endless_file_is_stopped() {
    let program = creator(
        "(i32.store (i32.const 500) (i32.const 0)) (i32.store (i32.const 504) (i32.const 65536))
        (local.set $n (call $create (i32.const 0)))
        (loop $on (drop (call $write (local.get $n) (i32.const 500) (i32.const 1) (i32.const 600)))
        (br $on))",
    );
    check(&program, RunEnd::FilesFull(FEW)).await;
}

/// Opens files until the host refuses and exits with their number.
const OPENS_ALL: &str = "(loop $on (call $name (local.get $n))
        (if (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 1)
            (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 1000))
            (then (call $exit (local.get $n))))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $on (i32.lt_u (local.get $n) (i32.const 100))))";

/// Each open file of the guest is an open file of the host. The guest's directory is one of the 64
/// handles.
#[tokio::test]
async fn guest_cannot_open_more_than_63_files_in_addition_to_its_directory() {
    const TOO_MANY_FILES: i32 = 33;
    let counts = creator(OPENS_ALL);
    assert_eq!(check(&counts, RunEnd::Exited).await.exit_code, 63);
    let tells = creator(&format!(
        "{} (call $exit (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4)
            (i32.const 1) (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 1000)))",
        OPENS_ALL.replace("(call $exit (local.get $n))", "(br 2)").replacen(
            "(loop",
            "(block (loop",
            1
        ) + ")"
    ));
    assert_eq!(check(&tells, RunEnd::Exited).await.exit_code, TOO_MANY_FILES);
}

#[tokio::test]
async fn component_continues_after_it_failed_to_open_too_many_files() {
    let closes = OPENS_ALL.replace(
        "(call $exit (local.get $n))",
        "(call $exit (i32.ne (local.get $n) (i32.const 63)))",
    );
    assert_eq!(check(&component(&creator(&closes)), RunEnd::Exited).await.exit_code, 0);
}

#[tokio::test]
async fn guest_that_nests_endless_directories_is_stopped() {
    // Creates and enters the directory "d" and closes the previous directory.
    let program = module(
        r#"(memory (export "memory") 1) (data (i32.const 0) "d")
        (func (export "_start") (local $in i32) (local $last i32)
            (local.set $in (i32.const 3))
            (loop $on
                (if (call $mkdir (local.get $in) (i32.const 0) (i32.const 1)) (then unreachable))
                (local.set $last (local.get $in))
                (if (call $open (local.get $in) (i32.const 0) (i32.const 0) (i32.const 1)
                    (i32.const 2) (i64.const 2) (i64.const 2) (i32.const 0)
                    (i32.const 1000)) (then unreachable))
                (local.set $in (i32.load (i32.const 1000)))
                (if (i32.ne (local.get $last) (i32.const 3))
                    (then (drop (call $close (local.get $last)))))
                (br $on)))"#,
    );
    check(&program, RunEnd::FilesFull(FEW)).await;
}

#[tokio::test]
async fn component_can_use_the_directory_like_a_module() {
    let program = component(&opener("missing"));
    assert_eq!(check(&program, RunEnd::Exited).await.exit_code, 1);
}

#[tokio::test]
async fn no_directory_is_created_for_a_guest_that_imports_no_file_functions() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("fs");
    let program = Program::new(
        wat::parse_str(r#"(module (memory (export "memory") 1) (func (export "_start")))"#)
            .unwrap(),
    );
    let run = with_files(&folder, FolderCleanup::Keep);
    runtime(1).execute(&program, run).await.unwrap();
    assert!(!folder.exists());
}

#[tokio::test]
async fn error_of_a_trap_in_a_host_call_names_the_call() {
    let trapped = RunEnd::Trapped(None);
    let program = module(
        r#"(func (export "_start")
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 0))))"#,
    );
    let finished = check(&program, trapped).await;
    let no_memory = "runtime: trap in a host call: fd_write: missing required memory export\n";
    assert_eq!(text(&finished.stderr), no_memory);
}
