use super::*;

/// Private key of the Ed25519 example in the libp2p peer id specification.
const SPECIFIED_KEY: &str = "080112407e0830617c4a7de83925dfb2694556b12936c477a0e1feb2e148ec9da60fee7d1ed1e8fae2c4a144b8be8fd4b47bf3d3b34b871c3cacf6010f0e42d474fce27e";

/// Peer id of that key: base58 of `00 24` (a multihash that contains 36 bytes unchanged) and of the
/// encoded public key.
const SPECIFIED_PEER_ID: &str = "12D3KooWBtg3aaRMjxwedh83aGiUkwSxDwUZkzuJcfaqUmo7R3pq";

fn specified_key() -> Vec<u8> {
    let digit = |byte: &[u8]| u8::from_str_radix(str::from_utf8(byte).unwrap(), 16).unwrap();
    SPECIFIED_KEY.as_bytes().chunks(2).map(digit).collect()
}

#[test]
fn key_file_of_the_specification_has_the_specified_peer_id() {
    let dir = tempfile::tempdir().unwrap();
    let (given, written) = (dir.path().join("given"), dir.path().join("written"));
    fs::write(&given, specified_key()).unwrap();
    let identity = Identity::load(&given).unwrap();
    assert_eq!(identity.peer_id().as_str(), SPECIFIED_PEER_ID);
    identity.write_new(&written).unwrap();
    assert_eq!(fs::read(&written).unwrap(), specified_key());
}

#[test]
fn created_identity_is_stored_in_a_private_file_and_read_on_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("priv.bin");
    let made = Identity::load_or_create(&path).unwrap();
    let found = Identity::load_or_create(&path).unwrap();
    assert_eq!(made.peer_id(), found.peer_id());
    assert_eq!(fs::metadata(&path).unwrap().len(), 68);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn existing_key_file_is_never_overwritten_and_an_invalid_key_file_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("priv.bin");
    fs::write(&path, b"nonsense").unwrap();
    assert!(matches!(
        Identity::load_or_create(&path),
        Err(IdentityError::File { step: "decode", .. })
    ));
    for content in ["", "nonsense"] {
        let other = dir.path().join("other.bin");
        fs::write(&other, content).unwrap();
        let Err(IdentityError::File { source, .. }) = Identity::load(&other) else {
            panic!("{content:?} is decoded")
        };
        assert_eq!(source.to_string(), "not a private key of a libp2p node (Ed25519)");
    }
    assert!(matches!(
        Identity::random().write_new(&path),
        Err(IdentityError::File { step: "write", .. })
    ));
    assert_eq!(fs::read(&path).unwrap(), b"nonsense");
}

#[test]
fn debug_output_hides_the_key() {
    let identity = Identity::random();
    assert_eq!(format!("{identity:?}"), format!("Identity({:?})", identity.peer_id()));
}

#[test]
fn written_key_files_equal_the_files_of_b7s_keyforge_and_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("keys");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("priv.bin"), specified_key()).unwrap();
    let identity = Identity::load(&folder.join("priv.bin")).unwrap();
    identity.write_keyforge(&folder).unwrap();
    assert_eq!(identity.peer_id().as_str(), SPECIFIED_PEER_ID);
    let written = |name: &str| fs::read(folder.join(name)).unwrap();
    let public = written("pub.bin");
    // The public key is the second half of the private key. `08 01 12 20` is its type and length.
    assert_eq!(public, [&[8, 1, 18, 32], &specified_key()[36..]].concat());
    assert_eq!(written("pubkey.txt"), b"CAESIB7R6PrixKFEuL6P1LR789OzS4ccPKz2AQ8OQtR0/OJ+");
    for name in ["identity", "peerid.txt"] {
        assert_eq!(written(name), SPECIFIED_PEER_ID.as_bytes());
    }
    assert_eq!(written("priv.bin"), specified_key());
    let other = Identity::random().write_keyforge(&folder);
    assert!(
        matches!(&other, Err(IdentityError::Other { peer, .. }) if peer.as_str() == SPECIFIED_PEER_ID)
    );

    let fresh = dir.path().join("fresh").join("keys");
    let made = Identity::random();
    made.write_keyforge(&fresh).unwrap();
    assert_eq!(Identity::load(&fresh.join("priv.bin")).unwrap().peer_id(), made.peer_id());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(fresh.join("priv.bin")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn endless_key_file_is_rejected() {
    let endless = Path::new("/dev/zero");
    if endless.exists() {
        assert!(matches!(Identity::load(endless), Err(IdentityError::File { step: "read", .. })));
    }
}

proptest::proptest! {
    #[test]
    fn decoding_arbitrary_bytes_as_a_key_does_not_panic(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
    ) {
        if let Ok(identity) = Identity::decode(&bytes) {
            proptest::prop_assert!(identity.peer_id().as_str().len() > 40);
        }
    }

    #[test]
    fn decoding_a_damaged_key_does_not_panic(at in 0..68_usize, byte in proptest::num::u8::ANY) {
        let mut bytes = specified_key();
        bytes[at] = byte;
        drop(Identity::decode(&bytes));
    }
}
