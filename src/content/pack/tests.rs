//! The expected ids were computed by `ipfs-unixfs-importer` 17.1.1 (npm), with `cidVersion` 1 and
//! `rawLeaves`, from the bytes of [`content`].

use super::super::FUNCTION_BYTES_MAX;
use super::super::dag::Tree;
use super::*;

/// Generates pseudorandom bytes that start like a module.
pub(in super::super) fn content(seed: u32, n_bytes: usize) -> Bytes {
    let mut x = seed;
    let mut bytes: Vec<u8> = (0..n_bytes)
        .map(|_| {
            x = x.wrapping_mul(1_103_515_245).wrapping_add(12345);
            x.to_be_bytes()[1]
        })
        .collect();
    let magic = b"\0asm\x01\0\0\0";
    bytes[..8].copy_from_slice(magic);
    bytes.into()
}

/// The tree that the CAR `SMALL` in the tests of `car.rs` contains.
pub(in super::super) fn tree() -> Entry {
    let mut tree = Entry::folder();
    let files = [
        (&["hello.wasm"][..], content(1, 100)),
        (&["data", "model.bin"], content(2, 300 * 1024)),
        (&["data", "deep", "a.txt"], Bytes::from_static(b"a\n")),
        (&["data", "empty"], Bytes::new()),
        (&["Zeta.wasm"], content(3, 50)),
    ];
    for (path, bytes) in files {
        tree.place(path, Entry::File(bytes)).unwrap();
    }
    tree.place(&["none"], Entry::folder()).unwrap();
    tree
}

#[track_caller]
fn check(n_bytes: usize, cut: Cut, want: &str) {
    let bytes = content(u32::try_from(n_bytes).unwrap(), n_bytes);
    let dag = file(&bytes, cut);
    assert_eq!(dag.root.to_string(), want, "{n_bytes} bytes");
    assert_eq!(
        dag.tree(FUNCTION_BYTES_MAX).unwrap(),
        Tree::File(bytes),
        "{n_bytes} bytes are read back"
    );
}

#[test]
fn content_ids_of_files_equal_the_ids_that_ipfs_tools_compute() {
    check(100, CUT, "bafkreibcv43747ebv5vipcdyqvh4rmlhbm6hczelzb3aiwzypuyka6hcii");
    check(262_144, CUT, "bafkreif7ur53gr7gxrh2ifk2zsqaqfw52dwj566lqkpw7vn5rvwdb7bs44");
    check(262_145, CUT, "bafybeicx6f4hewkyuw6j7ujvyswbcoshljckelqhwlv4a5w35hvhie4vaa");
    check(300 * 1024, CUT, "bafybeiefgn7sz7g7ta5jmnrwdw4zwr26dvwjpi2nnksi46xzsujqqxy6km");
    check(1_048_583, CUT, "bafybeibhmyljlgoqq2qk72nh67z5bc2pckauhgjtcbqwx32mqbnaakp6wa");
    check(4 * 1024 * 1024, CUT, "bafybeiaeojlb5wjcmeujruw2seyaoj7erjgj5e65s5zgmzpl5vxk5jxsqu");
    let empty = file(&Bytes::new(), CUT).root.to_string();
    assert_eq!(empty, "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku");
}

#[test]
fn blocks_of_large_files_equal_the_blocks_that_ipfs_tools_create() {
    let cut = Cut { piece_bytes: 16, links_max: 174 };
    check(16 * 174, cut, "bafybeia4hgonfwdxn5v6g4izu6plehgp4oardd6s527fbvdcw6tuuhtbya");
    check(16 * 174 + 1, cut, "bafybeiapedq4imcdf7elgg5okegyn7osgnglx2rjecceeev6bqkxwzmmte");
    let deep = "bafybeicpbm4hi3niy3yxbpdrecxsriflm63tb42oqjfzronvp5j4qzqmt4";
    check(16 * 174 * 174 + 1, cut, deep);
}

#[test]
fn content_id_of_a_directory_equals_the_id_that_ipfs_tools_compute() {
    let dag = tree().to_dag().unwrap();
    let want = "bafybeifucago7woaoqlv4efvrkngfdhjir2px5et4xrrr65irb63hyvilu";
    assert_eq!(dag.root.to_string(), want);
    let Tree::Folder(files) = dag.tree(FUNCTION_BYTES_MAX).unwrap() else { panic!("a folder") };
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let want = ["Zeta.wasm", "data/deep/a.txt", "data/empty", "data/model.bin", "hello.wasm"];
    assert_eq!(paths, want);
    assert_eq!(files[3].bytes, content(2, 300 * 1024));
}

#[track_caller]
fn misplaced(paths: &[&[&str]], want: &str) {
    let mut root = Entry::folder();
    let placed = paths.iter().try_for_each(|path| root.place(path, Entry::File(Bytes::new())));
    let error = placed.unwrap_err().to_string();
    assert!(error.contains(want), "{paths:?}: {error}");
}

#[test]
fn invalid_and_duplicate_paths_are_rejected() {
    misplaced(&[&["..", "a"]], "invalid path `..`");
    misplaced(&[&["a", "."]], "invalid path `.`");
    misplaced(&[&["a/b"]], "invalid path");
    misplaced(&[&["a"], &["a"]], "duplicate path `a`");
    misplaced(&[&["a"], &["a", "b"]], "duplicate path `a/b`");
    misplaced(&[&["a", "b"], &["a"]], "duplicate path `a`");
    misplaced(&[&["a"; 17]], "levels of folders");
}
