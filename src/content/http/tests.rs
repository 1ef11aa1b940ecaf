use axum::Router;
use axum::body::Body;
use axum::response::Redirect;
use axum::routing::get;
use task::group::Group;
use tokio::net::TcpListener;

use super::*;
use crate::fetch::FetchTurns;
use crate::kept::Requester;
use crate::turns::{Claim, Purpose};

#[track_caller]
fn check(ip: &str, want: bool) {
    assert_eq!(is_public(ip.parse().unwrap()), want, "{ip}");
}

#[test]
fn private_and_reserved_ip_addresses_are_not_public() {
    for ip in ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1"] {
        check(ip, true);
    }
    for ip in [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "192.0.0.1",
        "198.18.0.1",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "2002:7f00:1::",
        "2001:db8::1",
        "64:ff9b::7f00:1",
    ] {
        check(ip, false);
    }
}

const WANTED: ReadLimits = ReadLimits { accept: "*/*", bytes_max: 10, start_within: START_WITHIN };

/// Downloads `url` with `reader`.
async fn read(reader: &WebReader, url: &str) -> Result<Bytes, WebError> {
    read_within(reader, url, WANTED).await
}

async fn read_within(reader: &WebReader, url: &str, wanted: ReadLimits) -> Result<Bytes, WebError> {
    let turns = FetchTurns::default();
    let peer = "12D3KooWpeer".parse().unwrap();
    let claim = Claim { requester: Requester::Peer(peer), purpose: Purpose::Install };
    let turn = &mut turns.large(&claim, Instant::now() + START_WITHIN);
    reader.read(&url.parse().unwrap(), wanted, turn).await
}

/// A body of five bytes that is never completed.
fn drips() -> impl futures::Stream<Item = Result<Bytes, std::convert::Infallible>> {
    futures::stream::iter([Ok(Bytes::from_static(b"01234"))]).chain(futures::stream::pending())
}

/// Number of parts of the steady body. Sending them takes longer than the time limit of a search.
const N_PIECES: usize = 80;

/// A body slightly faster than the minimum rate.
fn steady() -> impl futures::Stream<Item = Result<Bytes, std::convert::Infallible>> {
    futures::stream::iter(0..N_PIECES).then(|_| async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        Ok(Bytes::from(vec![0; 64 * 1024]))
    })
}

async fn served(group: &Group) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let away = format!("http://localhost:{}/short", address.port());
    let router = Router::new()
        .route("/short", get(async || "0123456789"))
        .route("/long", get(async || "0123456789a"))
        .route("/steady", get(async || Body::from_stream(steady())))
        .route("/drip", get(async || Body::from_stream(drips())))
        .route("/metadata", get(async || Redirect::temporary("http://169.254.169.254/latest")))
        .route("/metadata6", get(async || Redirect::temporary("http://[fe80::1]/latest")))
        .route("/away", get(async move || Redirect::temporary(&away)))
        .route("/round", get(async || Redirect::temporary("/round")))
        .route("/file", get(async || Redirect::temporary("file:///etc/passwd")));
    group.spawn("served", async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}").parse().unwrap()
}

#[tokio::test]
async fn only_permitted_hosts_are_contacted_even_after_a_redirect() {
    let group = Group::default();
    let base = served(&group).await;
    let at = |path: &str| base.join(path).unwrap().to_string();
    let public = WebReader::new(Hosts::Public, BTreeSet::new());
    let refused = read(&public, &at("short")).await;
    assert!(matches!(refused, Err(WebError::Private { .. })), "{refused:?}");
    let named = at("short").replace("127.0.0.1", "localhost");
    let refused = read(&public, &named).await.unwrap_err();
    assert_eq!(refused.to_string(), "localhost is not a public host");

    let trusting = WebReader::new(Hosts::Public, BTreeSet::from(["127.0.0.1".to_owned()]));
    assert_eq!(read(&trusting, &at("short")).await.unwrap(), "0123456789");
    let refused = read(&trusting, &at("away")).await.unwrap_err();
    assert_eq!(refused.to_string(), "localhost is not a public host", "the host redirected to");
    let any = WebReader::new(Hosts::Any, BTreeSet::new());
    assert_eq!(read(&any, &at("away")).await.unwrap(), "0123456789");
}

#[tokio::test]
async fn redirect_to_a_metadata_address_is_rejected_unless_its_host_is_allowed() {
    let group = Group::default();
    let base = served(&group).await;
    let any = WebReader::new(Hosts::Any, BTreeSet::new());
    for (path, host) in [("metadata", "169.254.169.254"), ("metadata6", "[fe80::1]")] {
        let rejected = read(&any, base.join(path).unwrap().as_str()).await.unwrap_err();
        let want = format!("{host} is a link-local or metadata address");
        assert_eq!(rejected.to_string(), want);
    }
    let direct = read(&any, "http://100.100.100.200/latest/meta-data").await.unwrap_err();
    assert!(matches!(direct, WebError::Private { is_metadata: true, .. }), "{direct:?}");

    let trusted = BTreeSet::from(["169.254.169.254".to_owned()]);
    let allowing = HostRule { hosts: Hosts::Public, trusted: Arc::new(trusted) };
    allowing.check(&"http://169.254.169.254/x".parse().unwrap()).unwrap();
    allowing.check(&"http://169.254.169.253/x".parse().unwrap()).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn large_body_is_read_at_a_low_steady_rate() {
    let group = Group::default();
    let base = served(&group).await;
    let any = WebReader::new(Hosts::Any, BTreeSet::new());
    let wanted = ReadLimits { bytes_max: N_PIECES * 64 * 1024, ..WANTED };
    let whole = read_within(&any, base.join("steady").unwrap().as_str(), wanted).await.unwrap();
    assert_eq!(whole.len(), wanted.bytes_max);
}

/// A body that stops arriving must not hold its turn until the time limit of the search.
#[tokio::test(start_paused = true)]
async fn response_below_the_minimum_rate_is_rejected() {
    let (n_bytes, elapsed) = (5, START_WITHIN + duration_at_min_rate(5));
    let group = Group::default();
    let base = served(&group).await;
    let any = WebReader::new(Hosts::Any, BTreeSet::new());
    let slow = read(&any, base.join("drip").unwrap().as_str()).await.unwrap_err();
    let WebError::Slow { n_bytes: got, elapsed: after, .. } = slow else { panic!("{slow:?}") };
    assert_eq!((got, after.as_secs()), (n_bytes, elapsed.as_secs()));
}

#[tokio::test]
async fn too_long_response_missing_file_and_redirect_loop_are_rejected() {
    let group = Group::default();
    let base = served(&group).await;
    let any = WebReader::new(Hosts::Any, BTreeSet::new());
    let read = async |path: &str| read(&any, base.join(path).unwrap().as_str()).await.unwrap_err();
    assert!(matches!(read("long").await, WebError::TooLong { bytes_max: 10, .. }));
    let missing = read("missing").await;
    assert!(matches!(missing, WebError::Status { status: StatusCode::NOT_FOUND, .. }));
    assert!(matches!(read("round").await, WebError::Reach { .. }));
    let away = read("file").await;
    assert!(matches!(away, WebError::Reach { .. } | WebError::Status { .. }), "{away:?}");
    assert!(matches!(read("ftp://example.com/x").await, WebError::Address { .. }));
}
