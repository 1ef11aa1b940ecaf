//! `triptych keys node`: writes identities of nodes, in the format of keyforge.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::cluster::Node;
use crate::support::command::Home;

#[test]
fn node_key_is_created_once_and_used_by_a_node() {
    let home = Home::new();
    let id = home.run_ok(&["keys", "node", "-o", "worker"]);
    let id = id.trim();
    assert!(id.starts_with("12D3KooW") && id.len() == 52, "{id}");
    let read = |name: &str| std::fs::read(home.path(&format!("worker/{name}"))).unwrap();
    let (private, public) = (read("priv.bin"), read("pub.bin"));
    // Both files are protobufs of the key type (Ed25519), followed by the seed and the public key, or
    // only by the public key.
    assert_eq!((private.len(), private.get(..4)), (68, Some(&[8, 1, 18, 64][..])));
    assert_eq!((public.len(), public.get(..4)), (36, Some(&[8, 1, 18, 32][..])));
    assert_eq!(private.get(36..), public.get(4..));
    for name in ["identity", "peerid.txt"] {
        assert_eq!(read(name), id.as_bytes(), "{name}");
    }
    assert!(read("pubkey.txt").starts_with(b"CAESI"), "the base64 of pub.bin");
    let metadata = std::fs::metadata(home.path("worker/priv.bin")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);

    let why = home.run_err(&["keys", "node", "-o", "worker"]);
    assert!(why.contains(id), "{why}");
    assert_eq!((read("priv.bin"), read("pub.bin")), (private, public));

    let key = home.path("worker/priv.bin");
    let head = Node::head(&["--private-key", &key]);
    assert_eq!(head.id(), id);
    assert!(head.address().ends_with(&format!("/p2p/{id}")), "{}", head.address());
}

#[test]
fn creating_a_node_key_does_not_overwrite_an_existing_file() {
    let home = Home::new();
    home.write("worker/priv.bin", b"precious");
    let why = home.run_err(&["keys", "node", "-o", "worker"]);
    assert!(why.contains("priv.bin"), "{why}");
    assert_eq!(std::fs::read(home.path("worker/priv.bin")).unwrap(), b"precious");
}
