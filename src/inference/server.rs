//! Document 3 over HTTP: one file per path, errors in one place.

mod error;
mod health;
mod history;
mod latest_network_inferences;
mod next_topic_id;
mod topic;
mod topics;

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use accounts::Accounts;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::get,
};
use task::{clock::Clock, group::Group};
use tracing::info;
use web::{
    auth,
    request::{RequestOptions, layered},
    serve::{BindError, bind, serve},
};
use wire::paths;

use self::error::ApiError;
use crate::{
    Inference, InferenceError, InferenceOptions, rows::Rows, runner::Runner, runs::Runs,
    topic::Topic,
};

/// The longest body taken, in bytes. No request has more than a few words yet.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long a handler may take. Each reads a little from a local file.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What the service is started with.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The address to listen on: `127.0.0.1:0` for a free port.
    pub listen: String,
    /// The network's file.
    pub store: PathBuf,
    /// Who may ask.
    pub accounts: Accounts,
    /// How long a block of the local chain takes.
    pub block_time: Duration,
    /// The topics to have beside those in the file.
    pub topics: Vec<Topic>,
}

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The network's file or a topic is unfit.
    #[error("open the network")]
    Open(#[from] InferenceError),
    /// The address is not to be had.
    #[error("listen")]
    Bind(#[from] BindError),
    /// The address cannot be told.
    #[error("tell the address listened on")]
    Address(#[source] io::Error),
}

/// A running service. It stops with its group.
#[derive(Debug, Clone)]
pub struct InferenceService {
    /// Where it listens.
    pub address: SocketAddr,
    /// The network behind it.
    pub inference: Inference,
}

impl InferenceService {
    /// Opens the network, starts a runner for each topic, and serves, all in `group`.
    ///
    /// # Errors
    /// A [`StartError`] that names what failed; then nothing was started.
    pub async fn start(
        options: ServiceOptions,
        runs: Arc<dyn Runs>,
        rows: Arc<dyn Rows>,
        group: &Group,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let ServiceOptions { listen, store, accounts, block_time, topics } = options;
        let network = InferenceOptions { block_time, topics };
        let inference = Inference::open(&store, clock, network).await?;
        let listener = bind(&listen).await?;
        let address = listener.local_addr().map_err(StartError::Address)?;
        serve(listener, router(inference.clone(), accounts), group);
        Runner::start_all(&inference, &runs, &rows, group);
        info!(%address, "inference service listening");
        Ok(Self { address, inference })
    }
}

/// Every path of the service. All but the health check ask for an API key.
pub fn router(inference: Inference, accounts: Accounts) -> Router {
    let keyed = Router::new()
        .route(paths::LATEST_NETWORK_INFERENCES, get(latest_network_inferences::get))
        .route(paths::TOPIC, get(topic::get))
        .route(paths::NEXT_TOPIC_ID, get(next_topic_id::get))
        .route(paths::TOPICS, get(topics::get))
        .route(paths::TOPIC_HISTORY, get(history::get))
        .fallback(not_implemented)
        .method_not_allowed_fallback(not_implemented)
        .with_state(inference)
        .layer(from_fn_with_state(accounts, with_key));
    let router = Router::new().route(paths::HEALTH, get(health::get)).merge(keyed);
    let refuse = error::refusal;
    layered(
        router,
        RequestOptions { body_bytes_max: BODY_BYTES_MAX, answer_within: ANSWER_WITHIN, refuse },
    )
}

async fn not_implemented() -> ApiError {
    ApiError::NotImplemented
}

/// Lets requests with a known key through.
async fn with_key(
    State(accounts): State<Accounts>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let key = auth::api_key(request.headers()).map_err(ApiError::NoKey)?;
    match accounts.verify(&key).await {
        Ok(Some(_)) => Ok(next.run(request).await),
        Ok(None) => Err(ApiError::UnknownKey),
        Err(error) => Err(ApiError::Accounts(error)),
    }
}

#[cfg(test)]
mod tests;
