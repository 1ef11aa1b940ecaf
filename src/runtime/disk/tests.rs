use super::*;

#[test]
fn an_entry_is_read_as_it_was_written_or_not_at_all() {
    let entry = Entry { name: "modules/x/abc".into(), code: vec![7; 100] };
    let bytes = entry.bytes();
    let read = Entry::checked(&bytes).unwrap();
    assert_eq!((read.name, read.code), (entry.name, entry.code));
    for byte_idx in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[byte_idx] ^= 1;
        assert!(Entry::checked(&damaged).is_none(), "byte {byte_idx}");
        assert!(Entry::checked(&bytes[..byte_idx]).is_none(), "first {byte_idx}");
    }
}

#[test]
fn an_entry_cannot_name_a_file_elsewhere() {
    for name in ["../x", "/etc/x", "a/../../x"] {
        let entry = Entry { name: name.into(), code: Vec::new() };
        assert!(Entry::checked(&entry.bytes()).is_none(), "{name}");
    }
}

#[test]
fn entries_used_longest_ago_go_first() {
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
