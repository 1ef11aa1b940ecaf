//! Tests of a service that loses its connection to the database between a commit and its response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::join_all;
use task::wait::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::*;

/// Maximum time of each wait, long enough for a busy machine.
const WITHIN: Duration = Duration::from_secs(30);

/// Proxy to a database server. If requested, it delays the first commit, and closes the connection of
/// the second commit instead of passing on the server's response.
struct Proxy {
    server: SocketAddr,
    is_armed: AtomicBool,
    n_commits: AtomicUsize,
    /// Semaphore with a permit once the first commit can pass.
    released: Semaphore,
}

impl Proxy {
    /// Starts the proxy and returns its address.
    async fn start(server: SocketAddr, group: &Group) -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Arc::new(Self {
            server,
            is_armed: AtomicBool::new(false),
            n_commits: AtomicUsize::new(0),
            released: Semaphore::new(0),
        });
        let (forwarding, connections) = (Arc::clone(&proxy), group.clone());
        group.spawn("proxy", async move {
            while let Ok((client, _)) = listener.accept().await {
                let proxy = Arc::clone(&forwarding);
                connections.spawn("connection", async move { proxy.forward(client).await });
            }
        });
        (proxy, address)
    }

    /// Forwards a connection until either side closes it.
    async fn forward(&self, mut client: TcpStream) {
        let mut server = TcpStream::connect(self.server).await.unwrap();
        let (mut request, mut response) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                n = client.read(&mut request) => {
                    let Ok(n @ 1..) = n else { return };
                    let place = self.place_of_commit(&request[..n]);
                    if place == Some(0) {
                        self.released.acquire().await.unwrap().forget();
                    }
                    if server.write_all(&request[..n]).await.is_err() {
                        return;
                    }
                    if place == Some(1) {
                        drop(server.read(&mut response).await);
                        return;
                    }
                }
                n = server.read(&mut response) => {
                    let Ok(n @ 1..) = n else { return };
                    if client.write_all(&response[..n]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Returns the number of earlier commits if the request is a commit.
    fn place_of_commit(&self, request: &[u8]) -> Option<usize> {
        let is_commit = request.ends_with(b"COMMIT\0");
        let is_counted = is_commit && self.is_armed.load(Ordering::SeqCst);
        is_counted.then(|| self.n_commits.fetch_add(1, Ordering::SeqCst))
    }
}

#[tokio::test]
async fn append_is_not_retried_if_its_commit_was_not_confirmed() {
    let Some(url) = test_postgres::new_database() else { return };
    let (scheme, at) = url.rsplit_once('@').unwrap();
    let (at, name) = at.split_once('/').unwrap();
    let base = Service::start().await;
    let (proxy, address) = Proxy::start(at.parse().unwrap(), &base.group).await;
    let service = replica_at(&base, &format!("{scheme}@{address}/{name}?sslmode=disable")).await;
    let columns = json!([{"name": "close", "dtype": "float"}]);
    let body = json!({"name": "cut", "columns": columns});
    let (status, created) = service.post(&service.owner, "/api/datasets/", &body).await;
    assert_eq!(status, 201, "{created}");
    let id = DatasetId::new(created["id"].as_i64().unwrap()).unwrap();
    let insert = async |minute: usize| {
        let rows = json!([{"timestamp": timestamp_of(minute), "values": {"close": 1.0}}]);
        let body = json!({"dataset": id.get(), "rows": rows});
        service.post(&service.owner, "/api/rows/bulk_insert/", &body).await
    };
    proxy.is_armed.store(true, Ordering::SeqCst);
    let queued = async |n: usize| {
        let look = || async {
            let n_queued = service.app.datasets.appends.n_queued(id);
            if n_queued == n { Ok(()) } else { Err(n_queued) }
        };
        until(WITHIN, look).await.unwrap();
    };
    let together = async {
        until(WITHIN, || async {
            (proxy.n_commits.load(Ordering::SeqCst) == 1).then_some(()).ok_or("no commit")
        })
        .await
        .unwrap();
        let release = async {
            queued(2).await;
            proxy.released.add_permits(1);
        };
        // Both rows are late, so that appending them needs a transaction instead of a single statement.
        let (responses, ()) = tokio::join!(join_all([insert(1), insert(2)]), release);
        responses
    };
    let (first, responses) = tokio::join!(insert(9), together);
    assert_eq!(first, (201, json!({"inserted": 1})));
    assert_eq!(
        responses.iter().map(|(status, _)| *status).collect::<Vec<_>>(),
        [503, 503],
        "{responses:?}"
    );
    let text = responses[1].1.to_string();
    assert!(text.contains("may or may not be stored"), "{text}");
    let page =
        format!("/api/rows/?dataset={id}&start={FIRST}&end={}&resolution=raw", timestamp_of(600));
    let response = service.send(&service.owner, "GET", &page, Body::empty()).await;
    assert_eq!(response.headers()["X-Revision"], "2");
    let (_, rows) = json_of(response).await;
    assert_eq!(rows["results"].as_array().map(Vec::len), Some(3), "{rows}");
}
