//! Functions in a cluster: directories, uploads and installations.

use std::path::Path;

use axum::Router;
use axum::routing::get;
use model::function::FunctionId;
use model::function::content::{Codec, ContentId};
use tokio::net::TcpListener;

use super::super::*;
use super::support::{get as got, *};
use crate::message::{Code, InstallFunctionResponse, Message};
use content::{Function, Functions, Hosts, NameHints, Requester, StoreLimits, Upload};
use serde_json::{Value, json};

/// Returns a module that is longer than a block and prints another greeting than [`HELLO`].
fn long_module() -> Vec<u8> {
    let mut module = wat::parse_str(HELLO.replace("hello", "howdy")).unwrap();
    // A custom section of 300 kB with a name of one letter.
    module.extend([0, 0xe0, 0xa7, 0x12, 1, b'x']);
    module.resize(module.len() + 300_000 - 2, b'y');
    module
}

/// Writes a directory with data and two modules, one of them of several blocks.
fn write_folder(dir: &Path) {
    std::fs::create_dir_all(dir.join("data")).unwrap();
    std::fs::write(dir.join("hello.wasm"), wat::parse_str(HELLO).unwrap()).unwrap();
    std::fs::write(dir.join("howdy.wasm"), long_module()).unwrap();
    std::fs::write(dir.join("data/table"), b"1,2,3").unwrap();
}

/// Adds the directory of [`write_folder`] to the head.
pub(super) async fn add_folder(cluster: &Cluster) -> Function {
    let path = cluster.dir.path().join("greetings");
    write_folder(&path);
    let Upload { function, car } = Functions::pack_path(&path).await.unwrap();
    let names = NameHints { name: Some(function.name), method: Some(function.method) };
    cluster.head.functions().add_car(names, car).await.unwrap()
}

async fn run(cluster: &Cluster, function: &Function, method: &str, nodes: i64) -> Value {
    let mut request = request(function, nodes);
    request["method"] = json!(method);
    cluster.execute(request).await
}

#[tokio::test]
async fn directory_stored_on_the_head_runs_on_workers_at_the_first_request() {
    let cluster = Cluster::of(&[&[], &[]]).await;
    let folder = add_folder(&cluster).await;
    assert!(folder.kept_bytes > 256 * 1024, "one of its files has several blocks");
    for (method, want) in [("howdy.wasm", "howdy\n"), ("hello.wasm", "hello\n")] {
        let answer = run(&cluster, &folder, method, 2).await;
        assert_eq!(answer["code"], "200", "{answer}");
        assert_eq!(answer["results"][0]["result"]["stdout"], want, "{answer}");
    }
    for worker in &cluster.workers {
        let fetched = worker.functions().get(folder.id).unwrap();
        assert_eq!(fetched, folder);
    }
    let answer = run(&cluster, &folder, "table", 1).await;
    assert_eq!(answer["code"], "404", "{answer}");
}

#[tokio::test]
async fn long_module_can_be_requested_by_its_id_as_a_tree_or_as_a_single_block() {
    let cluster = Cluster::of(&[&[]]).await;
    let module = long_module();
    let howdy = cluster.head.functions().add("howdy.wasm".parse().unwrap(), module.clone()).await;
    let howdy = howdy.unwrap();
    assert!(howdy.id.to_string().starts_with("bafybei"));
    let whole = FunctionId::from_module(&module);
    for id in [whole, howdy.id] {
        let function = Function { id, ..howdy.clone() };
        let answer = run(&cluster, &function, "howdy.wasm", 1).await;
        assert_eq!(answer["results"][0]["result"]["stdout"], "howdy\n", "{answer}");
    }
}

#[tokio::test]
async fn module_runs_under_every_name_of_its_file() {
    let cluster = Cluster::of(&[&[]]).await;
    for name in ["first.wasm", "second.wasm"] {
        let hello = cluster.add(name, HELLO).await;
        for method in [name, "first.wasm"] {
            let answer = run(&cluster, &hello, method, 1).await;
            assert_eq!(answer["code"], "200", "{answer}");
            assert_eq!(answer["results"][0]["result"]["stdout"], "hello\n", "{answer}");
        }
    }
    // The worker keeps the name that came first.
    assert_eq!(cluster.workers[0].functions().list()[0].method.as_str(), "first.wasm");
}

#[tokio::test]
async fn function_is_uploaded_shown_run_and_removed() {
    let cluster = Cluster::of(&[&[]]).await;
    let address = cluster.head.api_address().unwrap();
    let path = cluster.dir.path().join("greetings");
    write_folder(&path);
    let upload = Functions::pack_path(&path).await.unwrap();
    let id = upload.function.id.to_string();
    // The upload is much longer than the maximum body of a request to execute.
    let car = "application/vnd.ipld.car";
    let line = "POST /api/v1/functions?name=greetings&method=hello.wasm";
    let (status, added) = send(address, line, car, &upload.car).await;
    assert_eq!((status, &added["function_id"]), (200, &json!(id)), "{added}");
    assert_eq!((&added["name"], &added["method"]), (&json!("greetings"), &json!("hello.wasm")));
    let (_, listed) = got(address, "/api/v1/functions").await;
    assert_eq!(listed["functions"], json!([added]));
    let (_, detail) = got(address, &format!("/api/v1/functions/{id}")).await;
    assert_eq!(detail["files"][0], json!({"path": "data/table", "bytes": 5, "runs": false}));
    assert_eq!(detail["files"][1]["runs"], true);
    let answer = run(&cluster, &upload.function, "hello.wasm", 1).await;
    assert_eq!(answer["code"], "200", "{answer}");

    let line = format!("DELETE /api/v1/functions/{id}");
    assert_eq!(send(address, &line, "", "").await, (200, added));
    let (status, answer) = send(address, &line, "", "").await;
    assert_eq!(
        (status, &answer["message"]),
        (404, &json!("this head holds no function with this id"))
    );
    assert_eq!(got(address, &format!("/api/v1/functions/{id}")).await.0, 404);
}

#[tokio::test]
async fn invalid_function_upload_is_rejected_with_the_reason() {
    let cluster = Cluster::of(&[]).await;
    let address = cluster.head.api_address().unwrap();
    let module = wat::parse_str(HELLO).unwrap();
    let (car, wasm) = ("application/vnd.ipld.car", "application/wasm");
    let post = async |query: &str, kind: &str, body: &[u8]| {
        send(address, &format!("POST /api/v1/functions{query}"), kind, body).await
    };
    let check = |(status, answer): (u16, Value), want: &str| {
        let message = answer["message"].as_str().unwrap().to_owned();
        assert!(status == 400 && message.contains(want), "{status} {message}");
    };
    check(post("", car, &module).await, "invalid CAR of version 1");
    check(post("?method=..%2Fa", wasm, &module).await, "method: `../a` is not a method");
    let (status, added) = post("?method=a.wasm", wasm, &module).await;
    let id = FunctionId::from_module(&module).to_string();
    assert_eq!((status, &added["function_id"]), (200, &json!(id)));
}

pub(super) async fn install(cluster: &Cluster, body: Value) -> (u16, Value) {
    let line = "POST /api/v1/functions/install";
    let address = cluster.head.api_address().unwrap();
    send(address, line, "application/json", &body.to_string()).await
}

#[tokio::test]
async fn function_of_one_worker_is_installed_on_the_head_and_other_workers() {
    let cluster = Cluster::of(&[&[], &[]]).await;
    let module = wat::parse_str(HELLO).unwrap();
    let has = cluster.workers[0].functions();
    let hello = has.add("hello.wasm".parse().unwrap(), module).await.unwrap();
    let installed = install(&cluster, json!({"cid": hello.id.to_string()})).await;
    assert_eq!(installed, (200, json!({"code": "200"})));
    let nodes = [&cluster.head, &cluster.workers[1]];
    until_true(|| nodes.iter().all(|node| node.functions().get(hello.id).is_some())).await;
}

#[tokio::test]
async fn failed_installation_returns_the_reasons_of_the_nodes() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = cluster.workers[0].peer_id();
    let cid = FunctionId::from_module(b"nowhere").to_string();
    let (status, answer) = install(&cluster, json!({"cid": cid})).await;
    assert_eq!((status, &answer["code"]), (200, &json!("500")), "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("the head: "), "{message}");
    assert!(
        message.contains(&format!("{worker} refused: no node or gateway provided the function")),
        "{message}"
    );
}

/// A b7s worker fetches a function without the head, and reports that it is installed.
#[tokio::test]
async fn installation_succeeds_if_a_b7s_worker_reports_the_function_as_installed() {
    let cluster = Cluster::of(&[]).await;
    let cid = FunctionId::from_module(b"elsewhere").to_string();
    let (want, url) = (cid.clone(), format!("https://{cid}.ipfs.w3s.link/manifest.json"));
    cluster
        .replying(None, move |_, received| {
            let Message::InstallFunction(install) = received else { return None };
            assert_eq!((&install.cid, &install.manifest_url), (&want, &url));
            Some(Message::InstallFunctionResponse(InstallFunctionResponse {
                code: Code::ACCEPTED,
                message: "installed".to_owned(),
                cid: install.cid,
            }))
        })
        .await;
    let installed = install(&cluster, json!({"cid": cid})).await;
    assert_eq!(installed, (200, json!({"code": "200"})));
}

/// A package at an address is called by the hash of the address, as clients of b7s do.
#[tokio::test]
async fn function_is_installed_from_an_address_and_called_by_its_hash() {
    let archive = {
        use flate2::Compression;
        use flate2::write::GzEncoder;
        let module = wat::parse_str(HELLO).unwrap();
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(module.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, "hello.wasm", &module[..]).unwrap();
        tar.into_inner().unwrap().finish().unwrap()
    };
    let sum = ContentId::from_block(Codec::Raw, &archive).bytes();
    let sum = sum[4..].iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let place = json!({"uri": "hello.tar.gz", "checksum": sum});
    let manifest = json!({"name": "hello", "deployment": place}).to_string();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/manifest.json", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/manifest.json", get(async || manifest))
        .route("/hello.tar.gz", get(async || archive));
    let site = Group::default();
    site.spawn("site", async move { axum::serve(listener, router).await.unwrap() });

    let mut cluster = Cluster::headed_by(|options| options.sources.hosts = Hosts::Any).await;
    cluster.add_worker_of_store(StoreLimits::default()).await;
    assert_eq!(install(&cluster, json!({"uri": address})).await, (200, json!({"code": "200"})));
    let id = FunctionId::from_address(&address);
    let held = cluster.workers[0].functions();
    until_true(|| held.get(id).is_some()).await;
    until_true(|| cluster.head.functions().get(id).is_some()).await;
    let (_, again) = install(&cluster, json!({"uri": address})).await;
    let message = again["message"].as_str().unwrap();
    assert!(message.starts_with("already installed as bafy"), "{again}");
    let by_hash = json!({"function_id": id.to_string(), "method": "hello.wasm"});
    let answer = cluster.execute(by_hash).await;
    assert_eq!(answer["results"][0]["result"]["stdout"], "hello\n", "{answer}");

    // A worker that fetched the function by its content id does not know the hash of the address.
    cluster.add_worker_with(|_| {}).await;
    let function = cluster.head.functions().get(id).unwrap();
    let answer = cluster.execute(request(&function, 2)).await;
    assert_eq!(answer["code"], "200", "{answer}");
    let (_, evicted) = send(
        cluster.head.api_address().unwrap(),
        "POST /api/v1/functions/evict",
        "application/json",
        &json!({"cid": id.to_string()}).to_string(),
    )
    .await;
    for node in evicted["nodes"].as_array().unwrap() {
        assert_eq!((&node["functions"], &node["left"]), (&json!(1), &json!(0)), "{evicted}");
    }
    let held = cluster.workers[0].functions();

    // Only the worker knows the name under which a client had it install the function.
    let name = FunctionId::parse_any("whatever-cid").unwrap();
    let request = json!({"function_id": "whatever-cid", "method": "hello.wasm"});
    let answer = cluster.execute(request.clone()).await;
    assert_eq!(answer["code"], "408", "{answer}");
    assert!(answer.to_string().contains("`whatever-cid` is not a content id (CID)"), "{answer}");
    held.install_from(name, &address, &Requester::Operator).await.unwrap();
    let answer = cluster.execute(request).await;
    assert_eq!(answer["results"][0]["result"]["stdout"], "hello\n", "{answer}");
}
