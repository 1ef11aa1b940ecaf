//! Tests of hosts, origins and proxy headers as browsers, proxies and programs send them.

use axum::body::Body;
use axum::extract::Request;

use super::*;

fn request(peer: &str, uri: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo(Caller(peer.parse().unwrap())));
    request
}

fn names() -> HostNames {
    ["Data.Example.org", "box"].into_iter().map(|name| name.parse().unwrap()).collect()
}

#[track_caller]
fn check_local(peer: &str, headers: &[(&str, &str)], want: bool) {
    assert_eq!(names().is_local(&request(peer, "/", headers)), want, "{peer} {headers:?}");
}

#[track_caller]
fn check_known(host: &str, want: bool) {
    let request = request("10.0.0.9:1", "/", &[("host", host)]);
    assert_eq!(names().is_known(&request), want, "{host}");
}

#[test]
fn loopback_request_with_a_local_host_is_local() {
    for host in [
        "localhost",
        "LocalHost:8080",
        "127.0.0.1:8080",
        "127.9.9.9",
        "[::1]:1",
        "box:80",
        "data.example.org",
    ] {
        check_local("127.0.0.1:1", &[("host", host)], true);
        check_local("[::1]:1", &[("host", host)], true);
        check_local("[::ffff:127.0.0.1]:1", &[("host", host)], true);
        check_local("10.0.0.9:1", &[("host", host)], false);
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.9",
        "0.0.0.0",
        "xdata.example.org",
        "head:8080",
        "",
        "a b",
        "\u{e9}",
    ] {
        check_local("127.0.0.1:1", &[("host", host)], false);
    }
    check_local("127.0.0.1:1", &[], false);
    check_local("127.0.0.1:1", &[("host", "localhost"), ("host", "evil.example")], false);
    let absolute = request("127.0.0.1:1", "http://evil.example/", &[("host", "localhost")]);
    assert!(!names().is_local(&absolute));
}

#[test]
fn request_of_a_page_of_another_origin_is_not_local() {
    let host = ("host", "127.0.0.1:8080");
    check_local("127.0.0.1:1", &[host, ("origin", "http://127.0.0.1:8080")], true);
    check_local("127.0.0.1:1", &[host, ("sec-fetch-site", "same-origin")], true);
    check_local("127.0.0.1:1", &[host, ("sec-fetch-site", "none")], true);
    for origin in
        ["http://127.0.0.1:8081", "http://localhost:8080", "https://evil.example", "null", "\u{e9}"]
    {
        check_local("127.0.0.1:1", &[host, ("origin", origin)], false);
    }
    for site in ["cross-site", "same-site", "?"] {
        check_local("127.0.0.1:1", &[host, ("sec-fetch-site", site)], false);
    }
}

#[test]
fn request_forwarded_by_a_proxy_is_not_local() {
    let host = ("host", "127.0.0.1:8080");
    for name in [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Forwarded-Anything",
        "X-Real-IP",
        "Via",
    ] {
        check_local("127.0.0.1:1", &[host, (name, "10.0.0.1")], false);
    }
}

#[test]
fn host_is_accepted_if_it_has_no_dot_or_is_an_address_or_configured() {
    for host in [
        "localhost",
        "localhost:8081",
        "10.0.0.9:8081",
        "192.0.2.7",
        "[2001:db8::1]:1",
        "BOX",
        "head:8080",
        "data.example.org:443",
    ] {
        check_known(host, true);
    }
    for host in [
        "evil.example",
        "10.0.0.9.evil.example",
        "localhost.",
        "head.",
        "",
        "a b",
        "user@localhost@x",
    ] {
        check_known(host, false);
    }
    check_known(&System::host_name().unwrap(), true);
    assert!(names().is_known(&request("10.0.0.9:1", "/", &[])), "every browser sends the header");
    let evil = request("10.0.0.9:1", "/", &[("host", "evil.example")]);
    assert!(HostNames::any().is_known(&evil));
}

#[test]
fn host_name_with_a_port_or_scheme_is_rejected() {
    assert_eq!("Data.Example.org".parse(), Ok(HostName("data.example.org".to_owned())));
    for text in ["", "http://x", "x:80", "x/", "x y", "[::1]"] {
        assert_eq!(text.parse::<HostName>(), Err(HostNameError), "{text}");
    }
}
