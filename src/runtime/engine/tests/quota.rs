//! Guests that try to exceed their quota of files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::files::{CREATE, FEW, check, creator, with_files};
use super::*;
use crate::files::FolderCleanup;

/// Writes 64 KiB of the guest's memory to file `$to`, by a vector at address 500.
const FILL: &str = "
    (func $fill (param $to i32)
        (i32.store (i32.const 500) (i32.const 0)) (i32.store (i32.const 504) (i32.const 65536))
        (if (call $write (local.get $to) (i32.const 500) (i32.const 1) (i32.const 600))
            (then unreachable)))
    (func $remove (param $n i32)
        (call $name (local.get $n))
        (if (call $unlink (i32.const 3) (i32.const 0) (i32.const 4)) (then unreachable)))";

/// Returns a command with `body`, which can use [`CREATE`], [`FILL`] and the locals `$n`, `$m` and
/// `$file`.
fn writer(body: &str) -> Program {
    module(&format!(
        "(memory (export \"memory\") 2) {CREATE} {FILL}
        (func (export \"_start\") (local $n i32) (local $m i32) (local $file i32) {body})"
    ))
}

/// Repeats `body` until the counter `$n` reaches `times`.
fn repeat(times: u32, body: &str) -> String {
    format!(
        "(local.set $n (i32.const 0)) (loop $on {body} (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $on (i32.lt_u (local.get $n) (i32.const {times}))))"
    )
}

/// Runs a command, and the component made of it. Checks both outcomes.
async fn check_both(program: &Program, ended: RunEnd) {
    check(program, ended).await;
    check(&component(program), ended).await;
}

/// The quota in this test is 64 times 64 KiB.
#[tokio::test]
async fn unlinked_file_is_counted_while_it_is_open() {
    let opened = "(local.set $file (call $create (i32.const 0))) (call $remove (i32.const 0))";
    let endless = format!("{opened} (loop $on (call $fill (local.get $file)) (br $on))");
    check_both(&writer(&endless), RunEnd::FilesFull(FEW)).await;
    let many = repeat(30, &format!("{opened} {}", "(call $fill (local.get $file))".repeat(4)));
    check_both(&writer(&many), RunEnd::FilesFull(FEW)).await;
    // Closed files do not count as open.
    let closed = "(drop (call $close (local.get $file)))";
    let one = "(call $fill (local.get $file))".repeat(32);
    check_both(&writer(&repeat(20, &format!("{opened} {one} {closed}"))), RunEnd::Exited).await;
}

#[tokio::test]
async fn replaced_file_is_counted_while_it_is_open() {
    // Two names in memory: 0 is "aaaa" and 1 is "baaa". Renaming needs both, the second one at address
    // 8.
    let body = repeat(
        30,
        "(local.set $file (call $create (i32.const 0)))
        (call $fill (local.get $file)) (call $fill (local.get $file)) (call $fill (local.get $file))
        (drop (call $close (call $create (i32.const 1))))
        (call $name (i32.const 0)) (i64.store (i32.const 8) (i64.load (i32.const 0)))
        (call $name (i32.const 1))
        (if (call $rename (i32.const 3) (i32.const 0) (i32.const 4) (i32.const 3) (i32.const 8)
            (i32.const 4)) (then unreachable))",
    );
    check_both(&writer(&body), RunEnd::FilesFull(FEW)).await;
}

#[tokio::test]
async fn overwritten_bytes_are_counted_once() {
    let again = "(if (call $seek (local.get $file) (i64.const 0) (i32.const 0) (i32.const 1000))
        (then unreachable))";
    let body = format!("{} {again}", "(call $fill (local.get $file))".repeat(48));
    let program =
        writer(&format!("(local.set $file (call $create (i32.const 0))) {}", repeat(20, &body)));
    check_both(&program, RunEnd::Exited).await;
}

#[tokio::test]
async fn sparse_file_is_counted_by_its_allocated_blocks() {
    // Writes one byte in every fourth cluster. 4 MiB have 1024 clusters.
    let put = "(i32.store (i32.const 500) (i32.const 0)) (i32.store (i32.const 504) (i32.const 1))
        (if (call $put (local.get $file) (i32.const 500) (i32.const 1)
            (i64.mul (i64.extend_i32_u (local.get $n)) (i64.const 16384)) (i32.const 600))
            (then unreachable))";
    let program = |times| {
        writer(&format!("(local.set $file (call $create (i32.const 0))) {}", repeat(times, put)))
    };
    check_both(&program(900), RunEnd::Exited).await;
    check_both(&program(1100), RunEnd::FilesFull(FEW)).await;
}

#[tokio::test]
async fn hole_in_a_file_is_not_counted_until_it_is_filled() {
    let sparse = "(local.set $file (call $create (i32.const 0)))
        (if (call $resize (local.get $file) (i64.const 1073741824)) (then unreachable))
        (if (call $resize (local.get $file) (i64.const 0)) (then unreachable))
        (if (call $resize (local.get $file) (i64.const 1073741824)) (then unreachable))";
    check_both(&writer(sparse), RunEnd::Exited).await;
    let filled = format!("{sparse} (loop $on (call $fill (local.get $file)) (br $on))");
    check_both(&writer(&filled), RunEnd::FilesFull(FEW)).await;
}

#[tokio::test]
async fn removed_files_and_directories_are_not_counted() {
    let body = "(drop (call $close (call $create (i32.const 0)))) (call $remove (i32.const 0))";
    check_both(&writer(&repeat(1000, body)), RunEnd::Exited).await;
}

/// The limit is exceeded by at most one write, which has at most 1 MiB.
#[tokio::test]
async fn large_write_exceeds_the_disk_limit_by_at_most_a_mebibyte() {
    let program = module(&format!(
        "(memory (export \"memory\") 192) {CREATE}
        (func (export \"_start\") (local $file i32)
            (local.set $file (call $create (i32.const 0)))
            (i32.store (i32.const 500) (i32.const 65536))
            (i32.store (i32.const 504) (i32.const 12000000))
            (loop $on
                (if (call $write (local.get $file) (i32.const 500) (i32.const 1) (i32.const 600))
                    (then unreachable))
                ;; As many as were written were asked for, as far as the guest can see.
                (if (i32.ne (i32.load (i32.const 504)) (i32.const 12000000)) (then unreachable))
                (if (i32.gt_u (i32.load (i32.const 600)) (i32.const 12000000)) (then unreachable))
                (br $on)))"
    ));
    for program in [component(&program), program] {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("fs");
        let run = with_files(&folder, FolderCleanup::Keep);
        let finished = caching_runtime(1).execute(&program, run).await.unwrap();
        assert_eq!(finished.ended, RunEnd::FilesFull(FEW), "{}", text(&finished.stderr));
        let kept: u64 = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512)
            .sum();
        let n_over = kept.saturating_sub(FEW.bytes_max);
        assert!(kept > FEW.bytes_max && n_over <= 1024 * 1024 + 8192, "{n_over} bytes over");
    }
}

#[tokio::test]
async fn writes_to_standard_output_do_not_count_as_disk_usage() {
    let program = creator(
        "(i32.store (i32.const 500) (i32.const 0)) (i32.store (i32.const 504) (i32.const 100))
        (drop (call $close (call $create (i32.const 0))))
        (loop $on (drop (call $write (i32.const 1) (i32.const 500) (i32.const 1) (i32.const 600)))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $on (i32.lt_u (local.get $n) (i32.const 600))))",
    );
    check_both(&program, RunEnd::Exited).await;
}
