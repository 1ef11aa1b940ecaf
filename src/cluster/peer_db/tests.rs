use proptest::prelude::*;
use tempfile::tempdir;

use super::*;

const ADDRESS: &str = "/ip4/10.0.0.1/tcp/9527";

fn id(n: usize) -> PeerId {
    // The base58 alphabet has no digit 0.
    format!("12D3KooWpeer{}", (n + 1).to_string().replace('0', "A")).parse().unwrap()
}

fn clock() -> Clock {
    Clock::manual(Timestamp::from_seconds(1_000_000_000))
}

fn open(dir: &Path) -> PeerDb {
    PeerDb::open(dir, clock()).unwrap()
}

#[test]
fn addresses_with_a_successful_connection_are_listed_first() {
    let dir = tempdir().unwrap();
    let folder = dir.path().join("peers");
    let db = open(&folder);
    db.note(&id(1), vec!["/ip4/127.0.0.1/tcp/1".into(), "/dns4/head/tcp/1".into()], false);
    db.note(&id(2), vec![ADDRESS.into()], true);
    db.note(&id(2), vec!["/ip4/127.0.0.1/tcp/1".into(), ADDRESS.into()], false);
    db.write().unwrap();
    let want = [
        format!("{ADDRESS}/p2p/{}", id(2)),
        format!("/ip4/127.0.0.1/tcp/1/p2p/{}", id(2)),
        format!("/ip4/127.0.0.1/tcp/1/p2p/{}", id(1)),
        format!("/dns4/head/tcp/1/p2p/{}", id(1)),
    ];
    assert_eq!((open(&folder).addresses(), db.records.lock().by_peer.len()), (want.to_vec(), 2));
}

#[test]
fn oldest_peers_without_a_successful_connection_are_evicted_first_at_the_limit() {
    let (dir, clock) = (tempdir().unwrap(), clock());
    let db = PeerDb::open(dir.path(), clock.clone()).unwrap();
    db.note(&id(0), vec![ADDRESS.into()], true);
    for n in 1..=PEERS_MAX + 5 {
        clock.advance(Duration::from_secs(1));
        db.note(&id(n), vec![ADDRESS.into()], false);
    }
    let listed = db.addresses();
    assert_eq!((listed.len(), db.records.lock().by_peer.len()), (PEERS_MAX, PEERS_MAX));
    assert!(listed[0].ends_with(id(0).as_str()), "a reached peer is kept");
    assert!(listed[1].ends_with(id(PEERS_MAX + 5).as_str()), "then the latest peers are kept");
    assert!(!listed.iter().any(|address| address.ends_with(&format!("/{}", id(3)))));
}

#[test]
fn addresses_of_peers_are_limited() {
    let dir = tempdir().unwrap();
    let db = open(dir.path());
    db.note(&id(1), vec!["x".repeat(ADDRESS_BYTES_MAX + 1)], false);
    assert_eq!(db.records.lock().by_peer.len(), 0);
    db.note(&id(1), (1..100).map(|n| format!("/ip4/10.0.0.1/tcp/{n}")).collect(), false);
    assert_eq!(db.addresses().len(), ADDRESSES_MAX);
}

#[test]
fn invalid_peer_file_is_renamed_and_replaced() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(FILE), b"[{\"id\":").unwrap();
    let db = open(dir.path());
    assert_eq!(db.records.lock().by_peer.len(), 0);
    assert!(dir.path().join("peers.json.broken").exists());
    db.note(&id(1), vec![ADDRESS.into()], true);
    db.write().unwrap();
    assert_eq!(open(dir.path()).records.lock().by_peer.len(), 1);
}

#[test]
fn addresses_of_an_earlier_version_are_read() {
    let dir = tempdir().unwrap();
    let record = format!(
        r#"[{{"id": "{0}", "multiaddress": "{ADDRESS}", "last_seen": 1, "is_reached": true,
            "addrinfo": {{"ID": "{0}", "Addrs": ["{ADDRESS}"]}}}}]"#,
        id(1)
    );
    fs::write(dir.path().join(FILE), record).unwrap();
    assert_eq!(open(dir.path()).addresses(), [format!("{ADDRESS}/p2p/{}", id(1))]);
}

#[tokio::test]
async fn unsaved_peers_are_written_when_the_node_stops() {
    let (dir, group) = (tempdir().unwrap(), Group::default());
    let db = open(dir.path());
    db.keep(&group);
    db.note(&id(1), vec![ADDRESS.into()], true);
    group.shutdown().await;
    assert_eq!(open(dir.path()).records.lock().by_peer.len(), 1);
}

proptest! {
    // A case with a full store needs a tenth of a second unoptimized.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn opening_a_peer_file_of_arbitrary_bytes_does_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        drop(decode(&bytes, clock().now()));
    }

    #[test]
    fn valid_peer_records_are_read_within_limits_and_written_back_unchanged(
        records in prop::collection::vec(
            ("[1-9A-Za-z]{0,60}", prop::collection::vec("[ -~]{0,20}", 0..12), any::<i64>(), any::<bool>()),
            0..130,
        ),
    ) {
        let list: Vec<StoredPeer> = records
            .into_iter()
            .map(|(id, addresses, last_seen, is_reached)| StoredPeer {
                id,
                addresses,
                last_seen,
                is_reached,
                ..StoredPeer::default()
            })
            .collect();
        let now = clock().now();
        let read = decode(&serde_json::to_vec(&list).unwrap(), now).unwrap();
        prop_assert!(read.len() <= PEERS_MAX);
        prop_assert!(read.values().all(|record| record.addresses.len() <= ADDRESSES_MAX));
        let encoded = serde_json::to_vec(&read.values().collect::<Vec<_>>()).unwrap();
        prop_assert_eq!(&decode(&encoded, now).unwrap(), &read);
    }
}
