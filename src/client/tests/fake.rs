//! Fake services: an axum router on a free port that stops when its handle is dropped.

use axum::Router;
use task::group::Group;
use tokio::net::TcpListener;

/// Handle of a running fake service.
pub(crate) struct Fake {
    pub(crate) address: String,
    group: Group,
}

impl Fake {
    /// Serves `router` on a free port.
    pub(crate) async fn serve(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let group = Group::default();
        group.spawn("fake", async move { axum::serve(listener, router).await.unwrap() });
        Self { address, group }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.group.stop();
    }
}
