use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;

use super::*;
use crate::tests::fake::Fake;

const KEY: &str = "UP-0123456789abcdef01234567";

/// Returns the error of a call to a service that always responds with `status`, with `wait` as
/// `Retry-After`, and with `body`.
async fn refused(status: u16, wait: Option<&'static str>, body: &'static str) -> ClientError {
    let answer = move || async move {
        let mut headers = HeaderMap::new();
        if let Some(wait) = wait {
            headers.insert(RETRY_AFTER, wait.parse().unwrap());
        }
        (StatusCode::from_u16(status).unwrap(), headers, body)
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
    let away = || async { (StatusCode::FOUND, [(LOCATION, "http://elsewhere.example/")]) };
    let fake = Fake::serve(Router::new().fallback(get(away))).await;
    let transport = Transport::new(&fake.address, Some(KEY.parse().unwrap())).unwrap();
    let error = transport.get("/").bytes().await.unwrap_err();
    assert_eq!(error.status(), Some(302));
    assert_eq!(error.why(), "redirect to http://elsewhere.example/");
    assert_eq!(error.next_step(), "use the address of the redirect");
}

#[tokio::test]
async fn error_of_an_unhealthy_service_has_the_state_of_its_database_and_advice() {
    for (status, wait, body, why, next) in [
        (503, Some("1"), r#"{"database":"replaced"}"#, "database: replaced", "restart the service"),
        (
            503,
            Some("1"),
            r#"{"database":"disconnected"}"#,
            "database: disconnected",
            "look at the log",
        ),
        (507, None, r#"{"database":"accounts: full"}"#, "database: accounts: full", "free space"),
    ] {
        let error = refused(status, wait, body).await;
        assert_eq!(error.why(), why);
        assert!(error.next_step().starts_with(next), "{why}: {}", error.next_step());
    }
}

#[tokio::test]
async fn errors_of_tls_come_with_advice_about_the_address_or_the_certificate() {
    let page = "<html>The plain HTTP request was sent to HTTPS port</html>";
    assert!(refused(400, None, page).await.next_step().contains("at https://"));
    assert_eq!(refused(400, None, "no").await.next_step(), "correct the request");
    let address = "https://a.example".to_owned();
    for (why, next) in [
        ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "CA:FALSE"),
        ("received corrupt message of type InvalidContentType", "at http://"),
    ] {
        let error = ClientError::Reach { address: address.clone(), why: why.to_owned() };
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
