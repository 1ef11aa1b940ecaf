//! Tests of compiled code on disk.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::*;

/// Runs hello in a new runtime, which represents another process, and checks whether the program was
/// compiled or found.
async fn check(folder: &Path, limits: Limits, (n_compiled, n_found): (usize, usize)) {
    let options = RuntimeOptions {
        compiled_folder: Some(folder.to_owned()),
        ..RuntimeOptions::for_runs(NonZeroU32::MIN, CompileIn::ThisProcess)
    };
    let runtime = Runtime::new(options).unwrap();
    let finished = runtime.execute(&demo("hello"), bare(limits)).await.unwrap();
    assert_eq!(text(&finished.stdout), "Hello from WebAssembly\n");
    assert_eq!(runtime.compilations(), Compilations { n_compiled, n_found });
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("code")).unwrap();
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
    check(folder.path(), LIMITS, (1, 0)).await;
    check(folder.path(), LIMITS, (0, 1)).await;
    check(folder.path(), LIMITS, (0, 1)).await;
    assert_eq!(entries(folder.path()).len(), 1);
}

#[tokio::test]
async fn engines_with_different_fuel_settings_do_not_share_compiled_code() {
    let folder = folder();
    let fueled = Limits { fuel: Some(u64::MAX), ..LIMITS };
    check(folder.path(), LIMITS, (1, 0)).await;
    check(folder.path(), fueled, (1, 0)).await;
    check(folder.path(), fueled, (0, 1)).await;
    assert_eq!(entries(folder.path()).len(), 2);
}

#[tokio::test]
async fn damaged_code_is_compiled_again() {
    let folder = folder();
    check(folder.path(), LIMITS, (1, 0)).await;
    let path = entries(folder.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let cut = whole[..middle].to_vec();
    for damaged in [flipped, cut, Vec::new(), b"nonsense".to_vec()] {
        fs::write(&path, damaged).unwrap();
        check(folder.path(), LIMITS, (1, 0)).await;
        check(folder.path(), LIMITS, (0, 1)).await;
    }
}

/// The entry of one program must not be accepted under the name of another.
#[tokio::test]
async fn code_of_another_program_is_rejected() {
    let folder = folder();
    check(folder.path(), LIMITS, (1, 0)).await;
    let path = entries(folder.path()).remove(0);
    let hello = fs::read(&path).unwrap();
    let options = RuntimeOptions {
        compiled_folder: Some(folder.path().to_owned()),
        ..RuntimeOptions::for_runs(NonZeroU32::MIN, CompileIn::ThisProcess)
    };
    let seven = command("(call $exit (i32.const 7))");
    Runtime::new(options.clone()).unwrap().execute(&seven, bare(LIMITS)).await.unwrap();
    for entry in entries(folder.path()) {
        fs::write(entry, &hello).unwrap();
    }
    let runtime = Runtime::new(options).unwrap();
    assert_eq!(runtime.execute(&seven, bare(LIMITS)).await.unwrap().exit_code, 7);
    assert_eq!(runtime.compilations(), Compilations { n_compiled: 1, n_found: 0 });
}

#[tokio::test]
async fn compiled_component_is_found_in_the_cache() {
    let (folder, hello) = (folder(), component(&demo("hello")));
    for want in
        [Compilations { n_compiled: 1, n_found: 0 }, Compilations { n_compiled: 0, n_found: 1 }]
    {
        let options = RuntimeOptions {
            compiled_folder: Some(folder.path().to_owned()),
            ..RuntimeOptions::for_runs(NonZeroU32::MIN, CompileIn::ThisProcess)
        };
        let runtime = Runtime::new(options).unwrap();
        assert_eq!(runtime.execute(&hello, bare(LIMITS)).await.unwrap().exit_code, 0);
        assert_eq!(runtime.compilations(), want);
    }
}

#[tokio::test]
async fn cache_directory_that_others_can_write_is_not_used() {
    let folder = folder();
    check(folder.path(), LIMITS, (1, 0)).await;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    check(folder.path(), LIMITS, (1, 0)).await;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    check(folder.path(), LIMITS, (0, 1)).await;
}

#[tokio::test]
async fn program_is_compiled_again_if_the_cache_directory_cannot_be_created() {
    check(Path::new("/proc/none"), LIMITS, (1, 0)).await;
}

/// Two runtimes with one directory represent two processes on the same machine.
#[tokio::test]
async fn runtimes_of_one_machine_compile_a_program_once() {
    let folder = folder();
    let runtime = || {
        let options = RuntimeOptions {
            compiled_folder: Some(folder.path().to_owned()),
            ..RuntimeOptions::for_runs(NonZeroU32::MIN, CompileIn::ThisProcess)
        };
        Runtime::new(options).unwrap()
    };
    let (one, other, hello) = (runtime(), runtime(), demo("hello"));
    assert!(!one.is_compiled(&hello, false));
    let how = || Preparation { client: Arc::default(), has_fuel: false, is_patient: true };
    let (first, second) = tokio::join!(one.prepare(&hello, how()), other.prepare(&hello, how()));
    first.and(second).unwrap();
    assert!(one.is_compiled(&hello, false) && other.is_compiled(&hello, false));
    let counts = [one, other].map(|runtime| runtime.compilations());
    let (compiled, found) =
        (Compilations { n_compiled: 1, n_found: 0 }, Compilations { n_compiled: 0, n_found: 1 });
    assert!(counts == [compiled, found] || counts == [found, compiled], "{counts:?}");
}
