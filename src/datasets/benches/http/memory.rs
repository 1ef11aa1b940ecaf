//! Reference for the duration of a page: an axum handler in its own process, which responds with bytes
//! from memory.

use std::env;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use parking_lot::RwLock;
use test_bench::http::{Connection, Request};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::Outcome;

/// Environment variable that makes this program run as the reference process.
const PART: &str = "FIGURES_MEMORY";

/// Pages that the reference process serves, by index.
type Pages = Arc<RwLock<Vec<Bytes>>>;

/// The reference process, which is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    _child: Child,
    address: SocketAddr,
}

/// Returns true if this process is to run as the reference process.
pub(crate) fn is_reference() -> bool {
    env::var_os(PART).is_some()
}

/// Serves pages from memory until the process is killed.
pub(crate) async fn serve() -> Outcome<ExitCode> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    let router = Router::new()
        .route("/pages/", post(add))
        .route("/pages/{idx}/", get(answer))
        .with_state(Pages::default());
    axum::serve(listener, router).await?;
    Ok(ExitCode::SUCCESS)
}

async fn add(State(pages): State<Pages>, page: Bytes) {
    pages.write().push(page);
}

async fn answer(State(pages): State<Pages>, Path(idx): Path<usize>) -> impl IntoResponse {
    let page = pages.read().get(idx).cloned().unwrap_or_default();
    ([(CONTENT_TYPE, "application/json")], page)
}

impl Memory {
    /// Starts the reference process.
    pub(crate) async fn start() -> Outcome<Self> {
        let mut command = Command::new(env::current_exe()?);
        let mut child = command.env(PART, "1").stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdout = child.stdout.take().ok_or("a yardstick without output")?;
        let line = BufReader::new(stdout).lines().next_line().await?;
        let address = line.ok_or("a yardstick that did not start")?.parse()?;
        Ok(Self { _child: child, address })
    }

    /// Opens a connection to the reference process.
    pub(crate) async fn connect(&self) -> Outcome<Connection> {
        Connection::open(self.address).await
    }
}

/// Sends `page` to the reference process, which adds the page to its pages.
pub(crate) async fn hold(connection: &mut Connection, page: &[u8]) -> Outcome<()> {
    let request = Request::post("/pages/", "", "application/json", page);
    connection.send(&request).await?.ok()?;
    Ok(())
}
