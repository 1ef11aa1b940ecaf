use axum::{Router, response::Redirect, routing::get};
use task::group::Group;
use tokio::net::TcpListener;

use super::*;

#[track_caller]
fn check(ip: &str, want: bool) {
    assert_eq!(is_public(ip.parse().unwrap()), want, "{ip}");
}

#[test]
fn addresses_of_one_s_own_network_are_not_public() {
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

const WANTED: ReadLimits =
    ReadLimits { accept: "*/*", bytes_max: 10, within: Duration::from_secs(10) };

async fn served(group: &Group) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let away = format!("http://localhost:{}/short", address.port());
    let router = Router::new()
        .route("/short", get(async || "0123456789"))
        .route("/long", get(async || "0123456789a"))
        .route("/away", get(async move || Redirect::temporary(&away)))
        .route("/round", get(async || Redirect::temporary("/round")))
        .route("/file", get(async || Redirect::temporary("file:///etc/passwd")));
    group.spawn("served", async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}").parse().unwrap()
}

#[tokio::test]
async fn only_hosts_that_may_be_asked_are_asked_also_after_a_redirect() {
    let group = Group::default();
    let base = served(&group).await;
    let at = |path: &str| base.join(path).unwrap();
    let public = WebReader::new(Hosts::Public, BTreeSet::new());
    let refused = public.read(&at("short"), WANTED).await;
    assert!(matches!(refused, Err(WebError::Private { .. })), "{refused:?}");
    let named = at("short").as_str().replace("127.0.0.1", "localhost");
    let refused = public.read(&named.parse().unwrap(), WANTED).await;
    assert!(matches!(refused, Err(WebError::Reach { .. })), "{refused:?}");

    let trusting = WebReader::new(Hosts::Public, BTreeSet::from(["127.0.0.1".to_owned()]));
    assert_eq!(trusting.read(&at("short"), WANTED).await.unwrap(), "0123456789");
    let refused = trusting.read(&at("away"), WANTED).await;
    assert!(matches!(refused, Err(WebError::Reach { .. })), "{refused:?}");
    let any = WebReader::new(Hosts::Any, BTreeSet::new());
    assert_eq!(any.read(&at("away"), WANTED).await.unwrap(), "0123456789");
}

#[tokio::test]
async fn answers_that_are_too_long_or_missing_or_go_round_are_refused() {
    let group = Group::default();
    let base = served(&group).await;
    let any = WebReader::new(Hosts::Any, BTreeSet::new());
    let read = async |path: &str| any.read(&base.join(path).unwrap(), WANTED).await.unwrap_err();
    assert!(matches!(read("long").await, WebError::TooLong { bytes_max: 10, .. }));
    let missing = read("missing").await;
    assert!(matches!(missing, WebError::Status { status: StatusCode::NOT_FOUND, .. }));
    assert!(matches!(read("round").await, WebError::Reach { .. }));
    let away = read("file").await;
    assert!(matches!(away, WebError::Reach { .. } | WebError::Status { .. }), "{away:?}");
    assert!(matches!(read("ftp://example.com/x").await, WebError::Address { .. }));
}
