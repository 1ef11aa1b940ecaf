use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::*;

#[test]
fn cache_entry_is_loaded_only_if_unchanged_and_under_its_name() {
    let bytes = entry("name", &[7; 100]);
    assert_eq!(checked("name", bytes.clone()).unwrap().bytes(), [7; 100]);
    assert!(checked("other", bytes.clone()).is_none());
    for byte_idx in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[byte_idx] ^= 1;
        assert!(checked("name", damaged).is_none(), "byte {byte_idx}");
        assert!(checked("name", bytes[..byte_idx].to_vec()).is_none(), "first {byte_idx}");
    }
}

#[test]
fn cache_directory_that_others_can_write_to_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    Disk::open(folder.path()).unwrap();
    for shared in [folder.path().to_owned(), folder.path().join("code")] {
        for mode in [0o770, 0o707, 0o777] {
            fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
            let error = Disk::open(folder.path()).unwrap_err();
            assert!(matches!(error, DiskError::Shared { .. }), "{mode:o}: {error}");
        }
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
        Disk::open(folder.path()).unwrap();
    }
}

#[test]
fn least_recently_used_cache_entries_are_removed_first() {
    let folder = tempfile::tempdir().unwrap();
    for (name, age_s) in [("old", 300), ("used", 10), ("new", 100)] {
        let path = folder.path().join(name);
        fs::write(&path, [0; 40]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    }
    let left = |bytes_max| {
        shrink(folder.path(), bytes_max).unwrap();
        let entries = fs::read_dir(folder.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(left(120), BTreeSet::from(["old", "used", "new"].map(str::to_owned)));
    assert_eq!(left(119), BTreeSet::from(["used", "new"].map(str::to_owned)));
    assert_eq!(left(50), BTreeSet::from(["used".to_owned()]));
}

/// Two caches in this process represent two processes with the same directory.
#[test]
fn lookup_waits_while_another_process_compiles_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (Disk::open(folder.path()).unwrap(), Disk::open(folder.path()).unwrap());
    let engine = Engine::default();
    let program = Program::new(wat::parse_str("(module)").unwrap());
    let turn = one.find_or_take_turn(&engine, &program, &|| true).err().unwrap();
    assert!(turn.is_some());
    assert!(!other.holds(&engine, &program));
    let unwanted = other.find_or_take_turn(&engine, &program, &|| false);
    assert!(matches!(unwanted, Err(None)));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.find_or_take_turn(&engine, &program, &|| true));
        let code = engine.precompile_module(&program.bytes).unwrap();
        one.keep(&engine, &program, &CompiledCode::trusted(code));
        assert!(waiting.join().unwrap().is_ok());
    });
    drop(turn);
    assert!(other.holds(&engine, &program));
    assert!(one.find_or_take_turn(&engine, &program, &|| true).is_ok());
}
