//! `POST /api/v1/functions/install`, sent by `triptych function install`: installs by content id, or by
//! the address of a manifest.

use crate::support::cluster::Node;
use crate::support::command::Home;
use crate::support::server;
use crate::support::up::Up;

#[tokio::test]
async fn function_is_installed_by_the_nodes_of_a_group() {
    let up = Up::shared();
    let home = Home::new().with("TRIPTYCH_HEAD", up.text("head"));
    let (hello, _) = up.function("hello");
    let installed = home.run_ok(&["function", "install", hello, "--subgroup", "gpu"]);
    assert_eq!(installed, format!("{hello}\n"));
    let why = home.run_err(&["function", "install", "not-a-cid"]);
    assert!(why.contains("not-a-cid"), "{why}");
    let why = Home::new().run_err(&["function", "install", hello]);
    assert!(why.contains("--head"), "{why}");
}

#[tokio::test]
async fn function_is_installed_from_its_manifest_and_called_by_its_address() {
    let manifest = format!("{}/manifest.json", server::serve_files("install"));
    let head = Node::head(&["--allow-private-hosts"]);
    let _worker = Node::worker(&head, &["--allow-private-hosts"]);
    head.has_workers(1).await;
    let home = Home::new().with("TRIPTYCH_HEAD", &head.rest_api());
    let id = home.run_ok(&["function", "install", &manifest]);
    let id = id.trim();
    assert!(id.len() == 64 && id.chars().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    let output = home.run_ok(&["function", "run", id, "--method", "hello.wasm", "--raw"]);
    assert_eq!(output, "Hello from WebAssembly\n");
}

#[tokio::test]
async fn nodes_download_from_private_addresses_only_if_allowed() {
    let manifest = format!("{}/manifest.json", server::serve_files("install"));
    let head = Node::head(&[]);
    let _worker = Node::worker(&head, &[]);
    head.has_workers(1).await;
    let home = Home::new().with("TRIPTYCH_HEAD", &head.rest_api());
    let why = home.run_err(&["function", "install", &manifest]);
    assert!(why.contains(&format!("install {manifest}: code ")), "{why}");
}

#[tokio::test]
async fn nodes_that_require_a_cid_reject_a_function_whose_id_is_not_a_cid() {
    let manifest = format!("{}/manifest.json", server::serve_files("install"));
    let flags = ["--allow-private-hosts", "--require-cid"];
    let head = Node::head(&flags);
    let _worker = Node::worker(&head, &flags);
    head.has_workers(1).await;
    let home = Home::new().with("TRIPTYCH_HEAD", &head.rest_api());
    let why = home.run_err(&["function", "install", &manifest]);
    assert!(why.contains("is not a CID, which this node requires"), "{why}");
    assert_eq!(home.run(&["function", "list"]).out, "", "no function was stored");
}
