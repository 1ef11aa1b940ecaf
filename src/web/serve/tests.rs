//! Tests with a server on a real port, accessed over a plain connection.

use axum::extract::ConnectInfo;
use axum::response::IntoResponse as _;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::*;
use crate::address::Caller;
use crate::middleware::{RequestOptions, add_layers};

async fn ask(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn address_without_a_host_listens_on_every_interface() {
    assert!(bind(":0").await.unwrap().local_addr().unwrap().ip().is_unspecified());
    assert!(bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().ip().is_loopback());
    let error = bind("nowhere").await.unwrap_err();
    assert!(error.to_string().starts_with("invalid address `nowhere`"), "{error}");
}

#[tokio::test]
async fn port_without_host_accepts_ipv4_and_ipv6_clients_and_shows_plain_ipv4_addresses() {
    let listener = bind(":0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let group = Group::default();
    let caller =
        |ConnectInfo(caller): ConnectInfo<Caller>| async move { caller.0.ip().to_string() };
    serve(listener, Router::new().route("/", get(caller)), &group);
    for host in ["127.0.0.1", "::1"] {
        let mut stream = TcpStream::connect((host, port)).await.unwrap();
        ask(&mut stream, "/").await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with(&format!("\r\n\r\n{host}")), "{answer}");
    }
    group.shutdown().await;
}

#[tokio::test]
async fn port_in_use_is_reported_with_a_remedy() {
    let listener = bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let error = bind(&address).await.unwrap_err();
    assert!(std::error::Error::source(&error).is_none());
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {address}: another program uses this port; stop it, or choose \
             another port"
        )
    );
}

#[tokio::test]
async fn port_is_free_after_the_server_has_stopped() {
    let listener = bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let group = Group::default();
    serve(listener, Router::new().route("/", get(|| async { "here" })), &group);
    let mut stream = TcpStream::connect(address).await.unwrap();
    ask(&mut stream, "/").await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("here"), "{answer}");
    group.shutdown().await;
    bind(&address.to_string()).await.unwrap();
}

#[tokio::test]
async fn connection_beyond_the_global_limit_waits() {
    let listener = bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut listener = LimitedListener::new(listener, 1, NetworkLimit::new(1, |_| true));
    let _clients =
        (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
    let (first, _) = listener.take().await;
    let second = tokio::time::timeout(Duration::from_millis(20), listener.take()).await;
    assert!(second.is_err(), "no permit is free");
    drop(first);
    listener.take().await;
}

#[tokio::test]
async fn reserved_connections_serve_health_checks_at_the_limit() {
    let listener = bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let group = Group::default();
    let options = RequestOptions {
        body_bytes_max: 10,
        response_within: Duration::from_mins(1),
        refuse: |status, reason| (status, reason).into_response(),
    };
    let router = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/health", get(|| async { "healthy" }));
    let limited = LimitedListener::new(listener, 8, NetworkLimit::new(1, |_| true));
    let app = ConnectionApp {
        router: add_layers(router, options),
        forwarded: None,
        group: group.clone(),
    };
    group.spawn_to_end("http", serve_connections(limited, None, app));
    let mut held = Vec::new();
    for _ in 0..7 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
        stream.read_exact(&mut [0; 15]).await.unwrap();
        held.push(stream);
    }
    let whole_answer = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        ask(&mut stream, path).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let rejected = whole_answer("/").await;
    assert!(rejected.starts_with("HTTP/1.1 503 "), "{rejected}");
    let healthy = whole_answer("/health").await;
    assert!(healthy.ends_with("healthy"), "{healthy}");
    held.pop();
    let free = async || match whole_answer("/").await {
        answer if answer.ends_with("here") => Ok(()),
        answer => Err(answer),
    };
    task::wait::until(Duration::from_secs(20), free).await.unwrap();
    group.shutdown().await;
}

#[tokio::test]
async fn concurrent_requests_forwarded_for_one_network_are_limited() {
    let group = Group::default();
    let app = |n_max| ConnectionApp {
        router: Router::new(),
        forwarded: Some(NetworkLimit::of_forwarded(n_max)),
        group: group.clone(),
    };
    let app = app(2);
    let admit = |path: &str, address: &str| {
        let request = hyper::Request::builder().uri(path).header("x-forwarded-for", address);
        app.admit(&request.body(()).unwrap(), false)
    };
    let _two = [admit("/a", "192.0.2.7").unwrap(), admit("/a", "192.0.2.8").unwrap()];
    assert!(admit("/a", "192.0.2.9").is_err());
    assert!(admit("/health", "192.0.2.9").is_ok() && admit("/metrics", "192.0.2.9").is_ok());
    assert!(admit("/a", "198.51.100.1").is_ok());
    let own = hyper::Request::builder().uri("/a").body(()).unwrap();
    assert!(app.admit(&own, false).is_ok(), "the proxy itself");
}

#[tokio::test]
async fn connection_beyond_its_networks_limit_is_closed() {
    let listener = bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut listener = LimitedListener::new(listener, 2, NetworkLimit::new(1, |_| false));
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(TcpStream::connect(address).await.unwrap());
    }
    let (first, _) = listener.take().await;
    let more = tokio::time::timeout(Duration::from_millis(20), listener.take()).await;
    assert!(more.is_err(), "the other connections are from the same network");
    for client in clients.iter_mut().skip(1) {
        assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0, "closed");
    }
    drop(first);
    let _later = TcpStream::connect(address).await.unwrap();
    listener.take().await;
}

/// Sends only `bytes` and reads `n_answers` responses. Returns how long the connection then stays open.
async fn lasts(bytes: &[u8], n_answers: usize) -> Duration {
    let listener = bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let group = Group::default();
    serve(listener, Router::new().route("/", get(|| async { "here" })), &group);
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answers = Vec::new();
    while answers.windows(4).filter(|part| part == b"here").count() < n_answers {
        stream.read_buf(&mut answers).await.unwrap();
    }
    tokio::time::pause();
    let began = Instant::now();
    drop(stream.read_to_end(&mut Vec::new()).await);
    let lasted = began.elapsed();
    tokio::time::resume();
    group.stop();
    lasted
}

#[tokio::test]
async fn each_request_on_a_connection_has_a_time_limit() {
    let whole = "GET / HTTP/1.1\r\nhost: here\r\n\r\n";
    let begun = "GET / HTTP/1.1\r\nhost: he";
    for (sent, n_answers) in [
        (String::new(), 0),
        ("GET / HT".to_owned(), 0),
        (begun.to_owned(), 0),
        (whole.to_owned(), 1),
        (format!("{whole}{begun}"), 1),
        (format!("{whole}{whole}G"), 2),
    ] {
        let lasted = lasts(sent.as_bytes(), n_answers).await;
        let limit = connection::HEAD_WITHIN;
        assert!(lasted > limit / 2 && lasted < limit * 2, "{sent:?}: {lasted:?}");
    }
}

#[tokio::test]
async fn http_2_connection_is_closed_immediately() {
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings].concat();
    let lasted = lasts(&sent, 0).await;
    assert!(lasted < connection::HEAD_WITHIN / 2, "{lasted:?}");
}

#[tokio::test]
async fn endless_request_does_not_delay_the_stop_for_long() {
    let listener = bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let group = Group::default();
    let (began, begins) = tokio::sync::watch::channel(false);
    let endless = move || async move {
        began.send_replace(true);
        std::future::pending::<&'static str>().await
    };
    serve(listener, Router::new().route("/", get(endless)), &group);
    let mut stream = TcpStream::connect(address).await.unwrap();
    ask(&mut stream, "/").await;
    begins.clone().wait_for(|began| *began).await.unwrap();
    tokio::time::pause();
    let stopping = Instant::now();
    group.shutdown().await;
    assert!(stopping.elapsed() >= DRAIN_MAX && stopping.elapsed() < DRAIN_MAX * 2);
}
