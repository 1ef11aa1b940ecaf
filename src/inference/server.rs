//! Document 3 over HTTP: one file per path, errors in one place.

mod active;
mod bundle_body;
mod consumer;
mod consumer_price;
mod consumer_topics;
mod docs;
mod emissions;
mod error;
mod health;
mod history;
mod latest;
mod latest_network_inferences;
mod leaderboard;
mod network_inferences;
mod next_topic_id;
mod openapi;
mod relearn;
mod signer;
mod source;
mod stream;
mod submissions;
mod topic;
mod topic_epoch;
mod topic_health;
mod topic_settings;
mod topics;
mod value;
mod whitelist;

use std::{fmt, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use accounts::{
    AccountId,
    gate::{Admitted, Gate, GateMessages},
};
use axum::{
    Extension, Router,
    extract::{FromRef, FromRequestParts},
    http::request::Parts,
    routing::{get, post, put},
};
use model::{key::KeyId, topic::Address};
use task::{clock::Clock, group::Group};
use tokio::{sync::Semaphore, time::sleep};
use tracing::info;
use web::{
    middleware::{RequestOptions, add_layers},
    open_files::streams_max,
    serve::{BindError, bind, serve_by},
};
use wire::paths;

pub use self::consumer::Consumers;
use self::{error::ApiError, openapi::Description};
use crate::{
    Inference, InferenceError, InferenceOptions,
    network::{
        addresses::{self, AddressError},
        retention::Retention,
        rows::Rows,
        runner::Runner,
        runs::Runs,
        submission::{Submitter, WorkerQuota},
        topic::Topic,
    },
    store::StoreError,
};

/// The longest body taken, in bytes: a forecast of every inferer that an epoch takes.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// How often the network's file is looked for where it was opened.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a handler may take. Each reads a little from a local file.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What the service is started with.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The address to listen on: `127.0.0.1:0` for a free port.
    pub listen: String,
    /// The network's file.
    pub store: PathBuf,
    /// Who may ask, and how often.
    pub gate: Gate,
    /// How long a block of the local chain takes.
    pub block_time: Duration,
    /// What a topic keeps of its epochs where it does not say itself.
    pub retention: Retention,
    /// The topics to have beside those in the file.
    pub topics: Vec<Topic>,
    /// For whom inferences are signed, and by whom.
    pub consumers: Consumers,
    /// How many workers of one account, or of one key of the operator, an epoch takes.
    pub quota: WorkerQuota,
}

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The network's file or a topic is unfit.
    #[error("open the network")]
    Open(#[from] InferenceError),
    /// The address is not to be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The address cannot be told.
    #[error("tell the address listened on")]
    Address(#[source] io::Error),
}

/// What handlers share.
#[derive(Debug, Clone)]
struct Service {
    inference: Inference,
    /// Where topics read.
    rows: SharedRows,
    /// The newest bundles as they are sent.
    bodies: Arc<emissions::Bodies>,
    actors: Arc<topics::ActorBodies>,
    consumers: Arc<Consumers>,
    quota: WorkerQuota,
    description: Arc<Description>,
    /// Room for endless answers.
    streams: Arc<Semaphore>,
    /// Endless answers end with it.
    group: Group,
}

/// The dataset service, of which nothing is printed.
#[derive(Clone)]
struct SharedRows(Arc<dyn Rows>);

impl fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRows").finish_non_exhaustive()
    }
}

/// Who holds the key of a request.
#[derive(Debug, Clone, Copy)]
struct Holder {
    id: KeyId,
    /// Whose it is; none for one that the operator made.
    account: Option<AccountId>,
}

impl Holder {
    const fn is_operators(self) -> bool {
        self.account.is_none()
    }

    /// Whose submissions count together with those of this key.
    fn submitter(self) -> Submitter {
        self.account.map_or_else(
            || Submitter::Key(self.id.get()),
            |account| Submitter::Account(account.get()),
        )
    }

    /// The address that submits for the key, or for one of its models.
    fn address(self, model: Option<&str>) -> Result<Address, AddressError> {
        addresses::of_key(self.id.get(), model)
    }
}

impl FromRef<Service> for Inference {
    fn from_ref(service: &Service) -> Self {
        service.inference.clone()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Holder {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let admitted = parts.extensions.get::<Admitted>();
        admitted
            .map(|Admitted(key)| Self { id: key.id, account: key.account })
            .ok_or(ApiError::UnknownKey)
    }
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
        let ServiceOptions { listen, store, gate, block_time, retention, topics, consumers, quota } =
            options;
        let network = InferenceOptions { block_time, retention, topics };
        let inference = Inference::open(&store, clock, network).await?;
        let signer = consumers.signer.account();
        let listener = bind(&listen).await?;
        let address = listener.local_addr().map_err(StartError::Address)?;
        let router = router(inference.clone(), Arc::clone(&rows), &gate, consumers, quota, group);
        serve_by(gate.addresses(), listener, router, group);
        Runner::start_all(&inference, &runs, &rows, group);
        group.spawn("inference file", look_after(inference.clone()));
        info!(%address, %signer, "inference service listening");
        Ok(Self { address, inference })
    }
}

/// Looks each second whether the network's file is in its place, which logs that it is not.
async fn look_after(inference: Inference) {
    while !matches!(
        inference.check_file().await,
        Err(InferenceError::Store(StoreError::Replaced) | InferenceError::Stopped)
    ) {
        sleep(LOOK_EVERY).await;
    }
}

/// Every path of the service. All but the health check and the description ask for an API key.
pub fn router(
    inference: Inference,
    rows: Arc<dyn Rows>,
    gate: &Gate,
    consumers: Consumers,
    quota: WorkerQuota,
    group: &Group,
) -> Router {
    let service = Service {
        inference,
        rows: SharedRows(rows),
        bodies: Arc::default(),
        actors: Arc::default(),
        consumers: Arc::new(consumers),
        quota,
        description: Arc::new(Description::new(gate.limits(), quota)),
        streams: Arc::new(Semaphore::new(streams_max())),
        group: group.clone(),
    };
    let open = Router::new()
        .route(paths::HEALTH, get(health::get).layer(Extension(gate.clone())))
        .route(paths::OPENAPI, get(openapi::get))
        .route(paths::DOCS, get(docs::get))
        .with_state(service.clone());
    let open = gate.hosts().wrap(open, error::refusal);
    let keyed = Router::new()
        .route(paths::LATEST_NETWORK_INFERENCES, get(latest_network_inferences::get))
        .route(paths::TOPIC, get(topic::get))
        .route(paths::NEXT_TOPIC_ID, get(next_topic_id::get))
        .route(paths::NETWORK_INFERENCES, get(network_inferences::get))
        .route(paths::TOPICS, get(topics::get).post(topic_settings::create))
        .route(paths::TOPIC_SETTINGS, put(topic_settings::update).delete(topic_settings::delete))
        .route(paths::SIGNER, get(signer::get))
        .route(paths::TOPIC_HEALTH, get(topic_health::get))
        .route(paths::TOPIC_RELEARN, post(relearn::post))
        .route(paths::TOPIC_ACTIVE, put(active::put))
        .route(paths::TOPIC_WHITELISTED, put(whitelist::put).delete(whitelist::delete))
        .route(paths::TOPIC_SUBMISSIONS, post(submissions::post))
        .route(paths::TOPIC_LATEST, get(latest::get))
        .route(paths::TOPIC_VALUE, get(value::get))
        .route(paths::TOPIC_STREAM, get(stream::get))
        .route(paths::TOPIC_EPOCH, get(topic_epoch::get))
        .route(paths::CONSUMER, get(consumer::get))
        .route(paths::CONSUMER_PRICE, get(consumer_price::get))
        .route(paths::CONSUMER_TOPICS, get(consumer_topics::get))
        .route(paths::TOPIC_HISTORY, get(history::get))
        .route(paths::TOPIC_LEADERBOARD, get(leaderboard::get))
        .merge(emissions::router())
        .fallback(not_implemented)
        .method_not_allowed_fallback(not_implemented)
        .with_state(service);
    let words = GateMessages { refuse: error::refused, key_in_query: &[] };
    let router = open.merge(gate.wrap(keyed, words));
    let refuse = error::refusal;
    add_layers(
        router,
        RequestOptions { body_bytes_max: BODY_BYTES_MAX, answer_within: ANSWER_WITHIN, refuse },
    )
}

async fn not_implemented() -> ApiError {
    ApiError::NotImplemented
}

#[cfg(test)]
mod tests;
