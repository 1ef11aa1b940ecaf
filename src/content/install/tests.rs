//! Functions from the web: packages installed from the address of their manifest, and trees from
//! gateways.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use model::function::content::{Codec, ContentId};
use serde_json::json;
use tar::EntryType;
use task::group::Group;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::super::archive::tests::{archive, sum};
use super::super::fetch::FetchTurns;
use super::super::pack::Entry;
use super::super::pack::tests::content;
use super::super::{ContentError, Hosts, Kind, SourceOptions, Upload};
use super::*;

/// Contents of a test web server by path.
type Site = Arc<Vec<(&'static str, Bytes)>>;

async fn serve(group: &Group, router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    group.spawn("site", async move { axum::serve(listener, router).await.unwrap() });
    address
}

async fn site(group: &Group, files: Vec<(&'static str, Bytes)>) -> String {
    let found = async |State(site): State<Site>, Path(path): Path<String>| {
        let file = site.iter().find(|(name, _)| *name == path);
        match file {
            Some((_, bytes)) => Body::from(bytes.clone()).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    };
    serve(group, Router::new().route("/{*path}", get(found)).with_state(Arc::new(files))).await
}

async fn store(dir: &TempDir, sources: SourceOptions) -> Functions {
    Functions::open_with(dir.path().join("functions"), sources).await.unwrap()
}

async fn reopened(dir: &TempDir) -> Functions {
    store(dir, any_host()).await
}

/// Fetches a function from the gateways of `store`.
async fn fetched(store: &Functions, id: ContentId) -> Option<VerifiedFunction> {
    let claim = Claim { requester: Requester::Operator, purpose: Purpose::Run };
    let until = Instant::now() + SEARCH_WITHIN;
    store.fetch_from_gateways(id, &mut store.0.turns.large(&claim, until)).await
}

/// Returns the ids other than CIDs under which the manifest of `id` was installed.
fn by_manifest(store: &Functions, id: FunctionId) -> Vec<FunctionId> {
    store.0.kept.read().ids_by_manifest(id)
}

fn any_host() -> SourceOptions {
    SourceOptions { gateways: Vec::new(), hosts: Hosts::Any, ..SourceOptions::default() }
}

fn manifest(address: &str, sum: &str) -> Bytes {
    let place = json!({"url": address, "checksum": sum});
    json!({"name": "greeter", "runtime": place}).to_string().into_bytes().into()
}

fn greeter() -> Bytes {
    let module = content(1, 40);
    archive(&[("greet.wasm", EntryType::Regular, &module), ("x", EntryType::Regular, b"x")]).into()
}

#[tokio::test]
async fn function_is_installed_from_the_address_of_its_manifest() {
    let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
    let archive = greeter();
    let files = vec![
        ("f/manifest.json", manifest("greeter.tar.gz", &sum(&archive))),
        ("greeter.tar.gz", archive),
    ];
    let address = format!("{}/f/manifest.json", site(&group, files).await);
    let store = store(&dir, any_host()).await;
    let function = install(&store, &address).await.unwrap();
    assert_eq!((function.name.as_str(), function.method.as_str()), ("greeter", "greet.wasm"));
    let id = FunctionId::from_address(&address);
    assert_eq!(store.get(id), Some(function.clone()), "found by the address, as b7s names it");
    let mut folder = Entry::folder();
    folder.place(&["greet.wasm"], Entry::File(content(1, 40))).unwrap();
    folder.place(&["x"], Entry::File(Bytes::from_static(b"x"))).unwrap();
    assert_eq!(function.id, folder.to_dag().unwrap().root.into(), "named by its content");

    group.shutdown().await;
    assert_eq!(install(&store, &address).await.unwrap(), function, "kept, so not read again");
    let again = reopened(&dir).await;
    assert_eq!(again.get(id), Some(function.clone()), "also after a restart");
    assert_eq!(again.content(id).await.unwrap().unwrap(), content(1, 40));
    assert!(again.remove(id).await.unwrap());
    assert_eq!(reopened(&dir).await.get(id), None);
}

/// Has the operator install a function from `address`, under the id that b7s derives from the address.
async fn install(store: &Functions, address: &str) -> Result<Function, InstallError> {
    install_as(store, FunctionId::from_address(address), address).await
}

/// Has the operator install function `id` from `address`.
async fn install_as(
    store: &Functions,
    id: FunctionId,
    address: &str,
) -> Result<Function, InstallError> {
    store.install_from(id, address, &Requester::Operator).await
}

#[track_caller]
fn refused<T: std::fmt::Debug>(installed: Result<T, InstallError>, want: &str) {
    let text = task::causes::chain(&installed.unwrap_err());
    assert!(text.contains(want), "{text}");
}

/// Two files of 3 MiB each, compressed to some kilobytes.
#[tokio::test]
async fn small_archive_of_large_files_needs_a_turn_of_large_functions() {
    let zeros = vec![0; 3 << 20];
    let module = [&b"\0asm"[..], &zeros].concat();
    let entries = [("a.wasm", EntryType::Regular, &module[..]), ("b", EntryType::Regular, &zeros)];
    let archive = Bytes::from(archive(&entries));
    let manifest_bytes = manifest("a", &sum(&archive));
    let verify = move |bytes_max| {
        let (archive, manifest_bytes) = (archive.clone(), manifest_bytes.clone());
        let manifest = Manifest::read(&manifest_bytes)?;
        Package { manifest, manifest_bytes, archive }.checked(bytes_max)
    };
    let turns = FetchTurns::default();
    let stranger = Requester::Peer("12D3KooWstranger1".parse().unwrap());
    let claim = Claim { requester: stranger, purpose: Purpose::Install };
    let mut held = turns.large(&claim, Instant::now() + SEARCH_WITHIN);
    assert_eq!(
        held.verify(verify.clone()).await.unwrap().unwrap().contents.size_bytes(),
        (6 << 20) + 4
    );
    let refused = turns.large(&claim, Instant::now()).verify(verify.clone()).await;
    assert!(matches!(refused, Err(Crowded)), "{refused:?}");
    let many = |_| Err(ContentError::TooMuch { what: "files", max: 9 }.into());
    let refused = turns.large(&claim, Instant::now()).verify(many).await;
    assert!(matches!(refused, Ok(Err(FunctionsError::Content(_)))), "needs no turn: {refused:?}");
    drop(held);
    assert!(turns.large(&claim, Instant::now()).verify(verify).await.unwrap().is_ok());
}

#[tokio::test]
async fn downloaded_archive_with_another_checksum_is_rejected() {
    let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
    let link = archive(&[("a.wasm", EntryType::Symlink, b"")]);
    let files = vec![
        ("wrong", manifest("a", &sum(b"b"))),
        ("none", manifest("missing", &sum(b"b"))),
        ("link", manifest("link.tar.gz", &sum(&link))),
        ("text", manifest("a", &sum(b"a"))),
        ("html", Bytes::from_static(b"<html>")),
        ("a", Bytes::from_static(b"a")),
        ("link.tar.gz", link.into()),
    ];
    let site = site(&group, files).await;
    let store = store(&dir, any_host()).await;
    for (path, want) in [
        ("wrong", "archive does not match its checksum"),
        ("none", "404"),
        ("link", "neither file nor folder"),
        ("text", "invalid archive"),
        ("html", "invalid manifest"),
    ] {
        refused(install(&store, &format!("{site}/{path}")).await, want);
    }
    refused(install(&store, "file:///etc/passwd").await, "expected http or https");
    assert_eq!(store.list(), []);
    let public = Functions::open(dir.path().join("public")).await.unwrap();
    refused(install(&public, &site).await, "not a public host");
}

#[tokio::test]
async fn function_with_a_freely_chosen_name_is_installed_unless_a_cid_is_required() {
    let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
    let archive = greeter();
    let sum = sum(&archive);
    let files = vec![
        ("m", manifest("a.tar.gz", &sum)),
        ("other", manifest("a.tar.gz", &sum)),
        ("wrong", manifest("a.tar.gz", &super::super::archive::tests::sum(b"x"))),
        ("a.tar.gz", archive),
    ];
    let site = site(&group, files).await;
    let id = FunctionId::parse_any("whatever-cid").unwrap();
    let kept = store(&dir, any_host()).await;
    let address = format!("{site}/m");
    let wrong = install_as(&kept, id, &format!("{site}/wrong")).await;
    refused(wrong, "archive does not match its checksum");
    let function = install_as(&kept, id, &address).await.unwrap();
    assert_eq!(kept.get(id), Some(function.clone()));
    assert_eq!(by_manifest(&kept, function.id), [id]);
    let other = install_as(&kept, id, &format!("{site}/other")).await;
    refused(other, "is already installed from");
    assert_eq!(reopened(&dir).await.get(id), Some(function.clone()), "also after a restart");

    // If the id is a CID, the content of a manifest is verified against it.
    let proved = tempfile::tempdir().unwrap();
    let proved = store(&proved, SourceOptions { requires_cid: true, ..any_host() }).await;
    refused(install_as(&proved, id, &address).await, "is not a CID");
    let other = FunctionId::from_module(b"other");
    refused(install_as(&proved, other, &address).await, "match");
    let same = install_as(&proved, function.id, &address).await.unwrap();
    assert_eq!((same.id, by_manifest(&proved, same.id)), (function.id, Vec::new()));
    let module = FunctionId::from_module(&content(1, 40));
    let alone = install_as(&proved, module, &address).await.unwrap();
    assert_eq!((alone.id, alone.method.as_str()), (module, "greet.wasm"));
}

/// Starts a gateway that serves these CARs and counts its requests in `n`.
async fn gateway(group: &Group, cars: Vec<(String, Bytes)>, n: &Arc<AtomicUsize>) -> SourceOptions {
    let (cars, n) = (Arc::new(cars), Arc::clone(n));
    let found = async move |Path(id): Path<String>, query: axum::extract::RawQuery| {
        n.fetch_add(1, Ordering::Relaxed);
        assert_eq!(query.0.unwrap(), "format=car&dag-scope=all");
        let car = cars.iter().find(|(name, _)| *name == id);
        match car {
            Some((_, car)) => Body::from(car.clone()).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    };
    let router = Router::new().route("/ipfs/{id}", get(found));
    let gateway = serve(group, router).await.parse().unwrap();
    SourceOptions { gateways: vec![gateway], hosts: Hosts::Public, ..SourceOptions::default() }
}

/// Packs a directory with a module and data that need several blocks.
async fn folder(dir: &TempDir) -> Upload {
    let path = dir.path().join("counter");
    std::fs::create_dir_all(path.join("data")).unwrap();
    std::fs::write(path.join("counter.wasm"), content(1, 300 * 1024)).unwrap();
    std::fs::write(path.join("data/table"), content(2, 100)).unwrap();
    Functions::pack_path(&path).await.unwrap()
}

#[tokio::test]
async fn function_is_fetched_from_the_first_gateway_with_valid_content() {
    let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
    let Upload { function, car } = folder(&dir).await;
    let id = function.id.to_string();
    let mut damaged = car.to_vec();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let n = Arc::new(AtomicUsize::new(0));
    let mut sources = SourceOptions::default();
    let short = car.slice(..58);
    for cars in
        [vec![], vec![(id.clone(), damaged.into())], vec![(id.clone(), short)], vec![(id, car)]]
    {
        sources.gateways.extend(gateway(&group, cars, &n).await.gateways);
    }
    let store = store(&dir, sources).await;
    let checked = fetched(&store, function.id.content().unwrap()).await.unwrap();
    let kept = store.keep(checked, Requester::Operator).await.unwrap();
    assert_eq!((kept.id, n.load(Ordering::Relaxed)), (function.id, 4));
    assert!(matches!(&kept.kind, Kind::Folder(methods) if methods.len() == 1));
    assert_eq!(store.content(kept.id).await.unwrap().unwrap(), content(1, 300 * 1024));
    let absent = ContentId::from_block(Codec::Raw, b"absent");
    assert!(fetched(&store, absent).await.is_none());
}

#[tokio::test]
async fn package_on_a_gateway_can_refer_to_an_archive_at_another_address() {
    let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
    let archive = greeter();
    let site = site(&group, vec![("away.tar.gz", archive.clone())]).await;
    let mut package = Entry::folder();
    let manifest = manifest(&format!("{site}/away.tar.gz"), &sum(&archive));
    package.place(&["manifest.json"], Entry::File(manifest)).unwrap();
    let dag = package.to_dag().unwrap();
    let car = dag.car(None).unwrap();
    let cars = vec![(dag.root.to_string(), car)];
    let sources = gateway(&group, cars, &Arc::default()).await;
    // The archive is on the gateway's host, which is permitted.
    let store = store(&dir, sources).await;
    let checked = fetched(&store, dag.root).await.unwrap();
    let function = store.keep(checked, Requester::Operator).await.unwrap();
    assert_eq!((function.id.content().unwrap(), function.name.as_str()), (dag.root, "greeter"));
    assert_eq!(store.content(function.id).await.unwrap().unwrap(), content(1, 40));
    let upload = store.upload(function.id).await.unwrap().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Functions::open(elsewhere.path().join("functions")).await.unwrap();
    let given = other.add_car(NameHints::default(), upload.car).await.unwrap();
    assert_eq!(given.id, function.id, "it is handed on with its archive");
}

#[test]
fn gateway_without_an_http_address_is_rejected() {
    for text in ["https://ipfs.io", "http://127.0.0.1:8080/below"] {
        assert_eq!(text.parse::<super::super::Gateway>().unwrap().to_string(), text);
    }
    for text in ["ipfs.io", "ftp://ipfs.io", "", "file:///x"] {
        assert!(text.parse::<super::super::Gateway>().is_err(), "{text}");
    }
    for text in super::super::GATEWAYS_DEFAULT {
        text.parse::<super::super::Gateway>().unwrap();
    }
}
