use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use rustls::pki_types::UnixTime;
use rustls::{CertificateError, InvalidMessage};

use super::*;
use crate::tests::fake::Fake;

const KEY: &str = "UP-0123456789abcdef01234567";

/// Returns the error of a call to a service that always responds with `status`, with `wait` as
/// `Retry-After`, and with `body`.
async fn refused(status: u16, wait: Option<&'static str>, body: &str) -> ClientError {
    let body = body.to_owned();
    let answer = async move || {
        let mut headers = HeaderMap::new();
        if let Some(wait) = wait {
            headers.insert(RETRY_AFTER, wait.parse().unwrap());
        }
        (StatusCode::from_u16(status).unwrap(), headers, body.clone())
    };
    let fake = Fake::serve(Router::new().fallback(get(answer))).await;
    let transport = Transport::new(&fake.address, None).unwrap();
    transport.get("/x").bytes().await.unwrap_err()
}

#[track_caller]
fn check_address(text: &str, want: Option<&str>) {
    let transport = Transport::new(text, None);
    assert_eq!(transport.as_ref().ok().map(Transport::address), want, "{text}");
}

#[test]
fn trailing_slash_and_query_are_removed_from_the_address() {
    check_address("http://127.0.0.1:8080", Some("http://127.0.0.1:8080"));
    check_address(" http://127.0.0.1:8080/ ", Some("http://127.0.0.1:8080"));
    check_address("http://a.example/deep/api/?x=1#y", Some("http://a.example/deep/api"));
}

#[test]
fn addresses_other_than_http_are_refused() {
    for text in ["", "127.0.0.1:8080", "ftp://a.example", "/api"] {
        check_address(text, None);
    }
}

#[test]
fn last_path_segment_is_removed_only_if_it_has_the_given_name() {
    let strip =
        |text| Transport::new(text, None).unwrap().strip_segment("api").address().to_owned();
    assert_eq!(strip("http://a.example/api/"), "http://a.example");
    assert_eq!(strip("http://a.example/v1/api"), "http://a.example/v1");
    assert_eq!(strip("http://a.example/notapi"), "http://a.example/notapi");
    assert_eq!(strip("http://a.example"), "http://a.example");
}

#[tokio::test]
async fn reasons_of_a_head_are_one_line() {
    let body = r#"{"message": "1 error occurred:\n\t* method is required\n\n"}"#;
    let error = refused(400, None, body).await;
    assert_eq!(error.why(), "1 error occurred: * method is required");
}

#[tokio::test]
async fn key_is_sent_but_hidden_in_debug_output() {
    let echo = |headers: HeaderMap| async move {
        headers.get("x-api-key").map_or(String::new(), |key| key.to_str().unwrap().to_owned())
    };
    let fake = Fake::serve(Router::new().fallback(get(echo))).await;
    let transport = Transport::new(&fake.address, Some(KEY.parse().unwrap())).unwrap();
    let body = transport.get("/").bytes().await.unwrap();
    assert_eq!(body, KEY.as_bytes());
    assert!(!format!("{transport:?}").contains("0123456789abcdef"));
}

#[tokio::test]
async fn error_bodies_of_all_services_are_parsed() {
    for body in [r#"{"message":"no such node"}"#, r#"{"details":null,"error":"no such node"}"#] {
        let error = refused(400, None, body).await;
        assert_eq!((error.status(), error.why().as_str()), (Some(400), "no such node"));
    }
    assert_eq!(refused(404, None, "").await.why(), "Not Found");
    // The name of the status is removed, since the status is shown separately.
    let body = r#"{"details":null,"error":"start must not be after end: bad request"}"#;
    assert_eq!(refused(400, None, body).await.why(), "start must not be after end");
    assert_eq!(refused(400, None, r#"{"error":"bad request"}"#).await.why(), "bad request");
    assert_eq!(refused(500, None, "plain text").await.why(), "plain text");
    assert_eq!(refused(401, None, r#"{"error":"Missing API key"}"#).await.why(), "Missing API key");
}

#[tokio::test]
async fn rate_limit_error_contains_retry_after() {
    let error = refused(429, Some("7"), r#"{"message":"slow down"}"#).await;
    assert!(matches!(error, ClientError::Limited { .. }), "{error:?}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(refused(429, None, "").await.retry_after(), None);
    for status in [409, 503] {
        let error = refused(status, Some("1"), "").await;
        assert!(matches!(error, ClientError::Limited { .. }), "{error:?}");
        let error = refused(status, None, "").await;
        assert!(matches!(error, ClientError::Refused { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn unreachable_address_is_an_error_with_cause() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let transport = Transport::new(&format!("http://{free}"), None).unwrap();
    let error = transport.get("/").bytes().await.unwrap_err();
    assert!(matches!(error, ClientError::Reach { .. }), "{error:?}");
    assert!(error.why().to_lowercase().contains("refused"), "{}", error.why());
    assert!(error.next_step().contains("address"));
}

#[tokio::test]
async fn connection_that_is_closed_before_the_response_is_lost() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let closing = async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 1000]).await.unwrap();
    };
    let transport = Transport::new(&address, None).unwrap();
    let (response, ()) = tokio::join!(transport.post("/").bytes(), closing);
    let error = response.unwrap_err();
    assert!(matches!(error, ClientError::Lost { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("lost the connection to {address}: ")), "{text}");
    assert!(error.next_step().contains("whether it handled the request"));
}

#[tokio::test]
async fn redirect_is_not_followed() {
    for (location, shown) in [
        ("https://elsewhere.example/api/topics/?limit=1", "https://elsewhere.example/api"),
        (
            "http://me:secret@elsewhere.example/login?token=secret",
            "http://…@elsewhere.example/login",
        ),
        ("/login?token=secret#secret", "ADDRESS/login"),
    ] {
        let away = move || async move { (StatusCode::FOUND, [(LOCATION, location)]) };
        let fake = Fake::serve(Router::new().fallback(get(away))).await;
        let base = format!("{}/api/", fake.address);
        let transport = Transport::new(&base, Some(KEY.parse().unwrap())).unwrap();
        let error = transport.get("/topics/").query(&[("limit", 1)]).bytes().await.unwrap_err();
        assert_eq!(error.status(), Some(302));
        let shown = shown.replace("ADDRESS", &fake.address);
        assert_eq!(error.why(), format!("redirect to {shown}"));
        assert!(error.next_step().starts_with("use the address of the redirect"));
    }
    assert_eq!(refused(302, None, "").await.why(), "redirect without an address");
}

#[tokio::test]
async fn error_of_an_unhealthy_service_has_the_state_of_its_database_and_advice() {
    for (status, state, next) in [
        (503, "replaced", "restart the service"),
        (503, "accounts: replaced", "restart the service"),
        (503, "archive missing", "start the service with the --archive"),
        (503, "not writable", "make the database"),
        (503, "accounts: no privilege", "run `triptych doctor --store`"),
        (503, "disconnected", "look at the log"),
        (507, "accounts: full", "free space"),
    ] {
        let body = format!(r#"{{"status":"unhealthy","time":"","database":"{state}"}}"#);
        let error = refused(status, None, &body).await;
        assert_eq!((error.status(), error.why()), (Some(status), format!("database: {state}")));
        assert!(error.next_step().starts_with(next), "{state}: {}", error.next_step());
    }
    let busy = refused(503, Some("1"), r#"{"message":"worker is being replaced"}"#).await;
    assert_eq!(busy.next_step(), "wait, then try again");
}

#[tokio::test]
async fn errors_of_tls_come_with_advice_about_the_address_or_the_certificate() {
    let page = "<html>The plain HTTP request was sent to HTTPS port</html>";
    assert!(refused(400, None, page).await.next_step().contains("at https://"));
    assert_eq!(refused(400, None, "no").await.next_step(), "correct the request");
    let address = "https://a.example".to_owned();
    let (time, name) =
        (UnixTime::since_unix_epoch(Duration::ZERO), || "a.example".try_into().unwrap());
    let not_for_name =
        CertificateError::NotValidForNameContext { expected: name(), presented: Vec::new() };
    let early = CertificateError::NotValidYetContext { time, not_before: time };
    for (why, next) in [
        (CertificateError::UnknownIssuer.into(), "SSL_CERT_FILE"),
        (
            CertificateError::ExpiredContext { time, not_after: time }.into(),
            "renew the certificate",
        ),
        (early.into(), "set the clock"),
        (not_for_name.into(), "use a name"),
        (CertificateError::BadSignature.into(), "SSL_CERT_FILE"),
        (
            rustls::Error::General("invalid peer certificate: Other(CaUsedAsEndEntity)".to_owned()),
            "CA:FALSE",
        ),
        (InvalidMessage::InvalidContentType.into(), "at http://"),
    ] {
        let error = ClientError::Reach { address: address.clone(), why: why.to_string() };
        assert!(error.next_step().contains(next), "{why}: {}", error.next_step());
    }
    let error = ClientError::Lost { address, why: "invalid HTTP version parsed".to_owned() };
    assert!(error.next_step().contains("at https://"), "{}", error.next_step());
}

#[tokio::test]
async fn response_beyond_the_maximum_length_is_rejected() {
    let chunk = bytes::Bytes::from(vec![b'x'; 1024 * 1024]);
    let endless = move || async move {
        let chunks = futures::stream::repeat(chunk).map(Ok::<_, std::convert::Infallible>);
        axum::body::Body::from_stream(chunks)
    };
    let fake = Fake::serve(Router::new().fallback(get(endless))).await;
    let transport = Transport::new(&fake.address, None).unwrap();
    let error = transport.get("/").bytes().await.unwrap_err();
    assert!(matches!(error, ClientError::TooLong { .. }), "{error:?}");
}

#[test]
fn text_stays_a_single_segment_of_a_path() {
    for (text, want) in [("a/b ü?", "a%2Fb%20%C3%BC%3F"), ("...", "..."), ("%2E", "%252E")] {
        let path = format!("/tags/{}/", segment(text).unwrap());
        assert_eq!(path, format!("/tags/{want}/"));
        assert_eq!(Url::parse(&format!("http://a{path}")).unwrap().path(), path);
    }
    for text in [".", ".."] {
        assert_eq!(segment(text).unwrap_err().to_string(), format!("name must not be `{text}`"));
    }
}

#[tokio::test]
async fn another_program_that_responds_to_a_health_check_is_not_a_healthy_service() {
    for body in ["<html>Log in</html>", "null", "{}"] {
        let fake = Fake::serve(Router::new().fallback(get(move || async move { body }))).await;
        let transport = || Transport::new(&fake.address, None).unwrap();
        let results = [
            crate::functions::Functions::new(transport()).health().await,
            crate::datasets::Datasets::new(transport()).health().await,
            crate::inference::Inference::new(transport()).health().await,
        ];
        for error in results.map(Result::unwrap_err) {
            assert_eq!(error.why(), "another program responds at this address", "{body}");
        }
    }
}

#[tokio::test]
async fn moved_service_is_called_at_its_new_address_with_its_new_key() {
    let respond = |headers: HeaderMap| async move {
        let is_known = headers.get(API_KEY_HEADER).is_some_and(|key| key == KEY);
        if is_known { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
    };
    let fake = Fake::serve(Router::new().route("/v1/x", get(respond))).await;
    let address = fake.address.clone();
    let at = |key: Option<&str>| {
        let location = key.map(|key| (address.clone(), Some(key.parse().unwrap())));
        Arc::new(move || location.clone()) as Locate
    };
    let old = Transport::new("http://127.0.0.1:1/v1", None).unwrap();
    let moved = old.with_location(at(Some(KEY)));
    moved.get("/x").bytes().await.unwrap();
    let revoked = moved.with_location(at(Some(&KEY.replace('0', "9"))));
    let error = revoked.get("/x").bytes().await.unwrap_err();
    assert_eq!(error.status(), Some(401), "{error}");
    let restarting = Transport::new(&format!("{}/v1", fake.address), None).unwrap();
    let error = restarting.with_location(at(None)).get("/x").bytes().await.unwrap_err();
    assert!(error.to_string().contains("it is restarting"), "{error}");
}
