use std::fs;

use tempfile::TempDir;

use super::*;

fn module(n: u8) -> Vec<u8> {
    [b"\0asm\x01\0\0\0".as_slice(), &[n]].concat()
}

async fn open(dir: &TempDir) -> Functions {
    Functions::open(dir.path().join("functions")).await.unwrap()
}

fn method(name: &str) -> Method {
    name.parse().unwrap()
}

#[tokio::test]
async fn a_function_is_kept_under_its_content_id_and_found_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let added = open(&dir).await.add(method("hello.wasm"), module(1)).await.unwrap();
    assert_eq!((added.name.as_str(), added.size_bytes), ("hello", 9));
    assert!(added.id.to_string().starts_with("bafkrei"));
    let again = open(&dir).await;
    assert_eq!(again.list(), vec![added.clone()]);
    assert_eq!(again.content(added.id).await.unwrap().unwrap(), module(1));
    let path = dir.path().join(format!("functions/{}/hello.wasm", added.id));
    assert_eq!(fs::read(path).unwrap(), module(1));
}

#[tokio::test]
async fn functions_are_listed_by_name_and_removed_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let functions = open(&dir).await;
    let b = functions.add(method("b.wasm"), module(1)).await.unwrap();
    let a = functions.add(method("a.wasm"), module(2)).await.unwrap();
    assert_eq!(functions.list(), vec![a.clone(), b.clone()]);
    assert!(functions.remove(a.id).await.unwrap());
    assert!(!functions.remove(a.id).await.unwrap());
    assert_eq!(functions.content(a.id).await.unwrap(), None);
    assert_eq!(open(&dir).await.list(), vec![b]);
}

#[tokio::test]
async fn a_damaged_function_is_removed_when_it_is_read_and_when_the_store_opens() {
    let dir = tempfile::tempdir().unwrap();
    let functions = open(&dir).await;
    let added = functions.add(method("m.wasm"), module(1)).await.unwrap();
    let path = dir.path().join(format!("functions/{}/m.wasm", added.id));
    fs::write(&path, module(2)).unwrap();
    assert_eq!(functions.content(added.id).await.unwrap(), None);
    assert_eq!((functions.get(added.id), path.exists()), (None, false));

    let added = functions.add(method("m.wasm"), module(1)).await.unwrap();
    fs::write(&path, b"short").unwrap();
    fs::write(dir.path().join("functions/.unfinished-1"), b"").unwrap();
    assert_eq!(open(&dir).await.get(added.id), None);
    assert_eq!(fs::read_dir(dir.path().join("functions")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_no_module_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = open(&dir).await.add(method("m.wasm"), b"#!/bin/sh".to_vec()).await;
    assert!(matches!(refused, Err(FunctionsError::NotModule { .. })), "{refused:?}");
}

#[tokio::test]
async fn content_of_another_id_is_never_kept() {
    let dir = tempfile::tempdir().unwrap();
    let functions = open(&dir).await;
    let id = FunctionId::of_module(&module(1));
    let refused = functions.keep(id, method("m.wasm"), module(2).into()).await;
    assert!(matches!(refused, Err(FunctionsError::Mismatch { .. })), "{refused:?}");
    assert_eq!(functions.list(), vec![]);
}
