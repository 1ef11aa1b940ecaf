use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use futures::FutureExt as _;
use model::node::PeerId;
use tempfile::TempDir;
use tokio::time::Instant;

use super::fetch::{FetchError, SEARCH_WITHIN};
use super::pack::tests::content;
use super::*;
/// A network without peers.
struct NoPeers;

impl Peers for NoPeers {
    fn peers(&self) -> &[PeerId] {
        &[]
    }

    async fn ask(
        &self,
        peer: &PeerId,
        _question: &[u8],
        _limits: AnswerLimits,
    ) -> Result<Vec<u8>, AskError> {
        Err(AskError::Failed(format!("{peer} is not there").into()))
    }
}

fn module(n: u8) -> Vec<u8> {
    [b"\0asm\x01\0\0\0".as_slice(), &[n]].concat()
}

async fn open(dir: &TempDir) -> Functions {
    Functions::open(dir.path().join("functions")).await.unwrap()
}

/// Returns an empty store and its directory.
async fn store() -> (TempDir, Functions) {
    let dir = tempfile::tempdir().unwrap();
    let functions = open(&dir).await;
    (dir, functions)
}

fn method(name: &str) -> Method {
    name.parse().unwrap()
}

/// Stores the function at `path` as an upload would.
async fn add_path(functions: &Functions, path: &Path) -> Function {
    let Upload { function, car } = Functions::pack_path(path).await.unwrap();
    let names = NameHints { name: Some(function.name), method: Some(function.method) };
    functions.add_car(names, car).await.unwrap()
}

#[tokio::test]
async fn function_is_stored_under_its_content_id_and_found_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let added = open(&dir).await.add(method("hello.wasm"), module(1)).await.unwrap();
    assert_eq!((added.name.as_str(), added.size_bytes), ("hello", 9));
    assert!(added.id.to_string().starts_with("bafkrei"));
    let mode = fs::metadata(dir.path().join("functions")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "other users cannot read the store");
    let again = open(&dir).await;
    assert_eq!(again.list(), vec![added.clone()]);
    assert_eq!(again.content(added.id).await.unwrap().unwrap(), module(1));
    let path = dir.path().join(format!("functions/{}/hello.wasm", added.id));
    assert_eq!(fs::read(path).unwrap(), module(1));
}

#[tokio::test]
async fn module_keeps_a_name_other_than_its_method() {
    let dir = tempfile::tempdir().unwrap();
    let name = Some("hello, world".to_owned());
    let added = open(&dir).await.add_named(name, method("m.wasm"), module(1)).await.unwrap();
    assert_eq!((added.name.as_str(), added.method.as_str()), ("hello, world", "m.wasm"));
    assert_eq!(open(&dir).await.list(), [added]);
}

#[tokio::test]
async fn functions_are_listed_by_name_and_removed() {
    let (dir, functions) = store().await;
    let b = functions.add(method("b.wasm"), module(1)).await.unwrap();
    let a = functions.add(method("a.wasm"), module(2)).await.unwrap();
    assert_eq!(functions.list(), vec![a.clone(), b.clone()]);
    assert!(functions.remove(a.id).await.unwrap());
    assert!(!functions.remove(a.id).await.unwrap());
    assert_eq!(functions.content(a.id).await.unwrap(), None);
    assert_eq!(open(&dir).await.list(), vec![b]);
}

#[tokio::test]
async fn damaged_function_is_removed_when_it_is_read_or_the_store_opens() {
    let (dir, functions) = store().await;
    let added = functions.add(method("m.wasm"), module(1)).await.unwrap();
    let path = dir.path().join(format!("functions/{}/m.wasm", added.id));
    fs::write(&path, module(2)).unwrap();
    assert_eq!(functions.content(added.id).await.unwrap(), None);
    assert_eq!((functions.get(added.id), path.exists()), (None, false));

    let added = functions.add(method("m.wasm"), module(1)).await.unwrap();
    fs::write(&path, b"short").unwrap();
    fs::write(dir.path().join("functions/.triptych-unfinished-1"), b"").unwrap();
    assert_eq!(open(&dir).await.get(added.id), None);
    assert_eq!(fs::read_dir(dir.path().join("functions")).unwrap().count(), 0);
}

#[tokio::test]
async fn function_that_cannot_be_read_when_the_store_opens_is_not_removed() {
    let (dir, functions) = store().await;
    let added = functions.add(method("m.wasm"), module(1)).await.unwrap();
    let record = dir.path().join(format!("functions/{}.json", added.id));
    let folder = dir.path().join(format!("functions/{}", added.id));
    let path = folder.join("m.wasm");
    let own = fs::read_to_string(&record).unwrap();
    // A record of a later version, and a file that cannot be read.
    fs::write(&record, own.replace("operator", "someone")).unwrap();
    assert_eq!(open(&dir).await.list(), []);
    fs::write(&record, own).unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(open(&dir).await.list(), []);
    fs::remove_dir(&path).unwrap();
    fs::write(&path, module(1)).unwrap();
    assert_eq!(open(&dir).await.list(), [added]);
}

#[tokio::test]
async fn files_of_a_function_that_was_not_stored_completely_are_removed() {
    let (dir, functions) = store().await;
    let added = functions.add(method("m.wasm"), module(1)).await.unwrap();
    let folder = dir.path().join(format!("functions/{}", added.id));
    fs::write(folder.join(".triptych-unfinished-1"), b"").unwrap();
    let without_record = ["content.car", "m.wasm"].map(|file| {
        let id = FunctionId::from_module(file.as_bytes());
        let other = dir.path().join(format!("functions/{id}"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join(file), b"").unwrap();
        other
    });
    assert_eq!(open(&dir).await.list(), [added]);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    assert!(without_record.iter().all(|other| !other.exists()));
}

#[tokio::test]
async fn files_other_than_modules_and_content_with_another_id_are_rejected() {
    let (_dir, functions) = store().await;
    let refused = functions.add(method("m.wasm"), b"#!/bin/sh".to_vec()).await;
    assert!(matches!(refused, Err(FunctionsError::NotModule { .. })), "{refused:?}");
    let id = FunctionId::from_module(&module(1)).content().unwrap();
    let refused =
        VerifiedFunction::of_kept(id, NameHints::default(), module(2).into(), FUNCTION_BYTES_MAX);
    assert!(matches!(refused, Err(FunctionsError::Mismatch { .. })), "{refused:?}");
    assert_eq!(functions.list(), vec![]);
}

/// Writes a directory with a module of several blocks, a second module and data.
fn write_folder(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("scale");
    fs::create_dir_all(path.join("data/none")).unwrap();
    fs::write(path.join("scale.wasm"), content(1, 300 * 1024)).unwrap();
    fs::write(path.join("check.wasm"), content(2, 100)).unwrap();
    fs::write(path.join("data/table"), content(3, 1000)).unwrap();
    fs::write(path.join(".hidden"), b"x").unwrap();
    path
}

#[tokio::test]
async fn large_module_is_found_by_its_id_as_a_tree_or_as_a_single_block() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = content(307_200, 300 * 1024);
    let path = dir.path().join("big.wasm");
    fs::write(&path, &bytes).unwrap();
    let functions = open(&dir).await;
    let added = add_path(&functions, &path).await;
    // Computed by `ipfs-unixfs-importer`, like the ids in the tests of `pack.rs`.
    let want = "bafybeiefgn7sz7g7ta5jmnrwdw4zwr26dvwjpi2nnksi46xzsujqqxy6km";
    assert_eq!((added.id.to_string().as_str(), added.size_bytes), (want, 300 * 1024));
    assert_eq!(functions.add(method("big.wasm"), bytes.to_vec()).await.unwrap(), added);
    let whole = FunctionId::from_module(&bytes);
    for functions in [functions, open(&dir).await] {
        for id in [added.id, whole] {
            assert_eq!(functions.get(id), Some(added.clone()));
            assert_eq!(functions.content(id).await.unwrap().unwrap(), bytes);
        }
        let answer = functions.answer(Requester::Unknown, whole.to_string().as_bytes()).await;
        assert_eq!(answer.content, bytes, "a peer that asks for one block is given it");
    }
    // A module that was requested by its id as a single block is stored under this id.
    let (_elsewhere, other) = store().await;
    let id = whole.content().unwrap();
    let checked =
        VerifiedFunction::of_kept(id, NameHints::default(), bytes, FUNCTION_BYTES_MAX).unwrap();
    let kept = other.keep(checked, Requester::Unknown).await.unwrap();
    assert_eq!((kept.id, kept.kind), (whole, Kind::Module));
}

#[tokio::test]
async fn directory_is_stored_and_found_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let added = add_path(&open(&dir).await, &write_folder(&dir)).await;
    assert!(added.id.to_string().starts_with("bafybei"));
    assert_eq!((added.name.as_str(), added.method.as_str()), ("scale", "scale.wasm"));
    let functions = open(&dir).await;
    assert_eq!(functions.list(), vec![added.clone()]);
    for (name, want) in [
        ("scale.wasm", Some(content(1, 300 * 1024))),
        ("check.wasm", Some(content(2, 100))),
        ("data", None),
        ("other.wasm", None),
    ] {
        assert_eq!(added.runs(&method(name)), want.is_some(), "{name}");
        assert_eq!(functions.module(added.id, &method(name)).await.unwrap(), want, "{name}");
    }
    let files = functions.detail(added.id).await.unwrap().unwrap().files;
    let files: Vec<(&str, u64, bool)> =
        files.iter().map(|file| (file.path.as_str(), file.bytes, file.runs)).collect();
    let want =
        [("check.wasm", 100, true), ("data/table", 1000, false), ("scale.wasm", 300 * 1024, true)];
    assert_eq!(files, want);
}

#[tokio::test]
async fn damaged_directory_is_removed() {
    let (dir, functions) = store().await;
    let added = add_path(&functions, &write_folder(&dir)).await;
    let path = dir.path().join(format!("functions/{}/content.car", added.id));
    let mut car = fs::read(&path).unwrap();
    let last = car.len() - 1;
    car[last] ^= 1;
    fs::write(&path, car).unwrap();
    assert_eq!(functions.module(added.id, &added.method).await.unwrap(), None);
    assert_eq!((functions.get(added.id), path.exists()), (None, false));
}

#[tokio::test]
async fn response_to_a_peer_contains_the_whole_function() {
    let (dir, functions) = store().await;
    let module = dir.path().join("one.wasm");
    fs::write(&module, content(4, 64)).unwrap();
    for path in [write_folder(&dir), module] {
        let added = add_path(&functions, &path).await;
        assert_eq!(added, Functions::pack_path(&path).await.unwrap().function);
        let again = functions.upload(added.id).await.unwrap().unwrap();
        assert_eq!(again.function, added);
    }
}

#[tokio::test]
async fn module_runs_under_any_method_with_and_without_a_name() {
    let (dir, functions) = store().await;
    let id = keep(&functions, 1, &Requester::Unknown).await;
    let unnamed = open(&dir).await.get(id).unwrap();
    assert!(unnamed.runs(&method("any.wasm")) && unnamed.method.as_str() == "module.wasm");
    let named = functions.add(method("m.wasm"), module(1)).await.unwrap();
    assert!(named.runs(&method("any.wasm")) && named.method.as_str() == "m.wasm");
}

/// Opens a store with low limits.
async fn small(dir: &TempDir, limits: StoreLimits) -> Functions {
    let sources = SourceOptions { limits, ..SourceOptions::default() };
    Functions::open_with(dir.path().join("functions"), sources).await.unwrap()
}

/// Stores module `n` on behalf of `requester`.
async fn keep(functions: &Functions, n: u8, requester: &Requester) -> FunctionId {
    let id = FunctionId::from_module(&module(n)).content().unwrap();
    let checked =
        VerifiedFunction::of_kept(id, NameHints::default(), module(n).into(), FUNCTION_BYTES_MAX)
            .unwrap();
    functions.keep(checked, requester.clone()).await.unwrap().id
}

fn kept(functions: &Functions) -> BTreeSet<FunctionId> {
    functions.list().into_iter().map(|function| function.id).collect()
}

#[tokio::test]
async fn store_full_of_pinned_functions_rejects_new_functions() {
    let dir = tempfile::tempdir().unwrap();
    let functions = small(&dir, StoreLimits { functions: 10, bytes: 17 }).await;
    let added = functions.add(method("small.wasm"), module(1)).await.unwrap();
    let refused = functions.add(method("more.wasm"), module(2)).await;
    assert!(matches!(refused, Err(FunctionsError::Full)), "{refused:?}");
    assert_eq!(functions.add(method("small.wasm"), module(1)).await.unwrap(), added);
    assert_eq!(kept(&functions), [added.id].into());
}

#[tokio::test]
async fn evicted_functions_are_deleted_in_an_order_that_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let limits = StoreLimits { functions: 4, ..StoreLimits::default() };
    let functions = small(&dir, limits).await;
    let peer = |name: &str| Requester::Peer(name.parse().unwrap());
    let pinned = functions.add(method("pinned.wasm"), module(0)).await.unwrap().id;
    let used = keep(&functions, 1, &peer("12D3KooWa")).await;
    let unused = keep(&functions, 2, &peer("12D3KooWb")).await;
    let late = keep(&functions, 3, &peer("12D3KooWc")).await;
    let noted = functions.note_use(used, &peer("12D3KooWa"), true).unwrap();
    functions.save(noted).await.unwrap();
    drop(functions);
    // File systems have coarse clocks, so the times of use are set explicitly.
    for (n, id) in [unused, late].into_iter().enumerate() {
        let record = dir.path().join(format!("functions/{id}.json"));
        let record = fs::File::options().write(true).open(record).unwrap();
        let saved_at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(n as u64);
        record.set_modified(saved_at).unwrap();
    }

    let functions = small(&dir, limits).await;
    assert_eq!(functions.usage().functions, 4);
    let first = keep(&functions, 4, &peer("12D3KooWd")).await;
    assert_eq!(kept(&functions), [pinned, used, late, first].into());
    assert!(!dir.path().join(format!("functions/{unused}.json")).exists());
    assert!(!dir.path().join(format!("functions/{unused}")).exists());
    let second = keep(&functions, 5, &Requester::Named("12D3KooWe".parse().unwrap())).await;
    assert_eq!(kept(&functions), [pinned, used, first, second].into());
    assert_eq!(kept(&small(&dir, limits).await), kept(&functions));

    assert_eq!(functions.remove_unpinned().await.unwrap().functions, 3);
    assert_eq!(kept(&small(&dir, limits).await), [pinned].into());
}

/// Records of an earlier version do not contain the requester. Functions with such records remain after
/// an update, but can be evicted, so a store that was filled by an attack accepts new functions.
#[tokio::test]
async fn full_store_of_an_earlier_version_accepts_new_functions() {
    let dir = tempfile::tempdir().unwrap();
    let functions = small(&dir, StoreLimits::default()).await;
    for n in 0..4 {
        let id = functions.add(method("m.wasm"), module(n)).await.unwrap().id;
        let path = dir.path().join(format!("functions/{id}.json"));
        let record = fs::read(&path).unwrap();
        let mut record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        record.as_object_mut().unwrap().remove("kept_for").unwrap();
        fs::write(path, record.to_string()).unwrap();
    }
    let limits = StoreLimits { functions: 4, ..StoreLimits::default() };
    let functions = small(&dir, limits).await;
    assert_eq!(functions.usage().functions, 4);
    keep(&functions, 9, &Requester::Peer("12D3KooWa".parse().unwrap())).await;
    assert_eq!(functions.usage().functions, 4);
}

#[tokio::test]
async fn caller_that_waits_for_another_fetch_of_the_same_function_times_out() {
    let (_dir, functions) = store().await;
    let id = FunctionId::from_module(b"missing");
    let until = Instant::now() + SEARCH_WITHIN;
    let _turn = functions.lock_fetch(id, &Requester::Unknown, until).await.unwrap();
    tokio::time::pause();
    let got = functions.obtain(id, &Requester::Unknown, &NoPeers).await;
    assert!(matches!(got, Err(FetchError::TimedOut { .. })), "{got:?}");
    let got = functions.install_from(id, "http://127.0.0.1/", &Requester::Unknown).await;
    assert!(matches!(got, Err(InstallError::Fetch(FetchError::TimedOut { .. }))), "{got:?}");
}

#[tokio::test]
async fn locks_of_completed_fetches_are_removed() {
    let (_dir, functions) = store().await;
    for n in 0_u32..100 {
        let id = FunctionId::from_module(&n.to_be_bytes());
        let until = Instant::now() + SEARCH_WITHIN;
        let lock = || functions.lock_fetch(id, &Requester::Unknown, until);
        let held = lock().await.unwrap();
        assert!(lock().now_or_never().is_none(), "one fetch at a time");
        drop(held);
        drop(lock().await.unwrap());
    }
    assert_eq!(functions.0.fetch_locks.lock().len(), 1);
}

/// Stores a module of `n_bytes` bytes and returns its id as a request.
async fn stored_request(functions: &Functions, n: u32, n_bytes: usize) -> String {
    let added = functions.add(method("m.wasm"), content(n, n_bytes).to_vec()).await.unwrap();
    added.id.to_string()
}

#[tokio::test]
async fn peers_that_do_not_read_large_functions_delay_neither_small_functions_nor_refusals() {
    let (_dir, functions) = store().await;
    let small = stored_request(&functions, 1, 1000).await;
    let large = stored_request(&functions, 2, 5 * 1024 * 1024).await;
    let ask = |n: usize, question: &str| {
        let peer = Requester::Peer(format!("12D3KooWpeer{}", n + 1).parse().unwrap());
        let (functions, question) = (functions.clone(), question.to_owned());
        async move { functions.answer(peer, question.as_bytes()).await }
    };
    let mut unread = Vec::new();
    for n in 0..12 {
        unread.push(ask(n / 2, &large).await);
    }
    let refused = tokio::time::timeout(Duration::from_millis(100), ask(6, &large)).await;
    assert!(refused.is_err(), "all turns are taken");
    assert!(ask(6, "missing").now_or_never().is_some());
    unread.push(ask(0, &small).await);
    unread.clear();
    assert!(!ask(0, &large).await.content.is_empty());
}
