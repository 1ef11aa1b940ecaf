//! HTTP API of the network.

mod bundle_body;
mod consumer;
mod emissions;
mod error;
mod openapi;
mod request;
mod stream;
mod submissions;
mod topics;
mod values;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use accounts::gate::{Admitted, Gate, GateMessages, StreamLimit};
use accounts::{AccountId, Keys};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json, Router};
use model::key::KeyId;
use model::topic::Address;
use task::clock::Clock;
use task::group::Group;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::sleep;
use tracing::info;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::extract::BodyError;
use web::metrics::requests::count_requests;
use web::middleware::{Next, RequestOptions, add_layers, wrap};
use web::open_files::streams_max;
use web::query_names::check_query_names;
use web::serve::{BindError, bind, serve_by};
use web::shared_check::SharedCheck;
use wire::inference::network::ServiceHealth;
use wire::paths;

pub use self::consumer::Consumers;
use self::error::{ApiError, ConsumerError, Result};
use crate::network::addresses;
use crate::network::runner::Runner;
use crate::network::submission::{Submitter, WorkerQuota};
use crate::network::topic::{Retention, Topic};
use crate::network::upstream::{Rows, Runs};
use crate::store::{StoreError, StorePlace};
use crate::{Inference, InferenceError, InferenceOptions};

/// Interval at which the service checks that the network's file still exists.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Options of the service.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// Address to listen on. Port 0 selects a free port.
    pub listen: String,
    /// File or database of the network.
    pub store: StorePlace,
    /// Authentication and rate limits.
    pub gate: Gate,
    /// Duration of a block of the local chain.
    pub block_time: Duration,
    /// Default retention of epochs.
    pub retention: Retention,
    /// Built-in topics, in addition to the stored topics.
    pub topics: Vec<Topic>,
    /// Signer, contracts and prices of the consumer API.
    pub consumers: Consumers,
    /// Maximum number of workers per epoch of an account or of an operator's API key.
    pub quota: WorkerQuota,
}

/// Reason why the service cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be opened, or a built-in topic is invalid.
    #[error("cannot open inference store {place}")]
    Open {
        /// File or database of the store.
        place: String,
        /// Reason why the store cannot be opened.
        source: InferenceError,
    },
    /// The service cannot listen on the address.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The address on which the service listens cannot be determined.
    #[error("cannot determine the address of the inference service")]
    Address(#[source] io::Error),
}

/// State that all handlers share.
type App = Arc<Service>;

/// The fields of [`App`].
struct Service {
    inference: Inference,
    /// Keys against which open streams are checked.
    keys: Keys,
    /// Datasets of the topics.
    rows: Arc<dyn Rows>,
    /// Cached JSON of the latest bundles.
    bodies: Arc<emissions::Bodies>,
    consumers: Arc<Consumers>,
    quota: WorkerQuota,
    health: Arc<SharedCheck<Result<()>>>,
    /// Permits of streams.
    streams: Arc<Semaphore>,
    /// Held while a topic learns again, since this needs much memory.
    relearning: Arc<Mutex<()>>,
    /// Limit of open streams per account.
    stream_limit: StreamLimit,
    /// Group of the service's tasks. Streams end when it stops.
    group: Group,
}

/// Holder of a request's API key.
#[derive(Debug, Clone, Copy)]
struct Holder {
    id: KeyId,
    /// Account of the key, or `None` for an operator's key.
    account: Option<AccountId>,
}

impl Holder {
    const fn is_operators(self) -> bool {
        self.account.is_none()
    }

    /// Returns the submitter whose quota applies: the account, or the operator's key.
    fn submitter(self) -> Submitter {
        self.account.map_or_else(
            || Submitter::Key(self.id.get()),
            |account| Submitter::Account(account.get()),
        )
    }

    /// Returns the worker's address for submissions with this key, or for submissions of the key's model
    /// `model`.
    fn address(self, model: Option<&str>) -> Address {
        addresses::of_key(self.id.get(), model)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Holder {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let admitted = parts.extensions.get::<Admitted>();
        admitted
            .map(|Admitted { key, .. }| Self { id: key.id, account: key.account })
            .ok_or_else(ApiError::unknown_key)
    }
}

/// Running service. It stops when its group stops.
#[derive(Debug, Clone)]
pub struct InferenceService {
    /// Address of the service.
    pub address: SocketAddr,
    /// Network of the service.
    pub inference: Inference,
}

impl InferenceService {
    /// Opens the network, starts a runner for each topic, and serves in `group`.
    ///
    /// # Errors
    /// [`StartError`] with the reason. No task remains running in this case.
    pub async fn start(
        options: ServiceOptions,
        runs: Arc<dyn Runs>,
        rows: Arc<dyn Rows>,
        group: &Group,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let ServiceOptions { listen, store, gate, consumers, quota, .. } = options;
        let ServiceOptions { block_time, retention, topics, .. } = options;
        let network = InferenceOptions { block_time, retention, topics };
        let place = store.to_string();
        let inference = Inference::open(store, clock, network).await;
        let inference = inference.map_err(|source| StartError::Open { place, source })?;
        let signer = consumers.signer.account();
        let listener = bind(&listen).await?;
        let address = listener.local_addr().map_err(StartError::Address)?;
        let router = router(inference.clone(), Arc::clone(&rows), &gate, consumers, quota, group);
        serve_by(gate.options().addresses, listener, router, group);
        if !inference.is_read_only() {
            Runner::start_all(&inference, &runs, &rows, group);
        }
        group.spawn("inference file", look_after(inference.clone()));
        group.spawn("other services", inference.clone().follow_services());
        info!(%address, %signer, "inference service listening");
        Ok(Self { address, inference })
    }
}

/// Checks periodically that the network's file still exists. The check logs if the file is missing.
/// Ends when the file has been replaced or the program stops.
async fn look_after(inference: Inference) {
    while !matches!(
        inference.check_file().await,
        Err(InferenceError::Store(StoreError::Replaced) | InferenceError::Stopped)
    ) {
        sleep(LOOK_EVERY).await;
    }
}

/// Returns the router of the service. All paths except those for health, metrics and the description of
/// the API need an API key.
pub fn router(
    inference: Inference,
    rows: Arc<dyn Rows>,
    gate: &Gate,
    consumers: Consumers,
    quota: WorkerQuota,
    group: &Group,
) -> Router {
    let counts = inference.shared.metrics.clone();
    let service = App::new(Service {
        inference,
        keys: gate.keys().clone(),
        rows,
        bodies: Arc::default(),
        consumers: Arc::new(consumers),
        quota,
        health: Arc::default(),
        streams: Arc::new(Semaphore::new(streams_max())),
        relearning: Arc::default(),
        stream_limit: StreamLimit::new(streams_max()),
        group: group.clone(),
    });
    let open = gate.options().hosts.wrap(
        check_names(open_api(), |error| ApiError::from(error).into_response())
            .method_not_allowed_fallback(not_implemented)
            .layer(Extension(gate.clone()))
            .with_state(Arc::clone(&service)),
        error::refusal,
    );
    let keyed = check_names(chain_api(), |error| ApiError::from(error).into_response())
        .merge(check_names(consumer_api(), |error| {
            ConsumerError::from(ApiError::from(error)).into_response()
        }))
        .fallback(not_implemented)
        .method_not_allowed_fallback(not_implemented)
        .with_state(Arc::clone(&service));
    let keyed = wrap(keyed, move |request, next| catch_up(Arc::clone(&service), request, next));
    let words = GateMessages { refuse: error::refused, key_in_query: &[] };
    let router = open.merge(gate.wrap(keyed, words));
    let refuse = error::refusal;
    let options =
        // 256 KiB are enough for a forecast of all inferers of an epoch. No handler reads so much that
        // it needs ten seconds.
        RequestOptions { body_bytes_max: 256 * 1024, response_within: Duration::from_secs(10), refuse };
    count_requests(add_layers(router, options), counts)
}

/// Serves `api` and rejects query parameters that are not described in it.
fn check_names(api: OpenApiRouter<App>, reject: fn(BodyError) -> Response) -> Router<App> {
    let (router, description) = api.split_for_parts();
    check_query_names(router, &description, &[], reject)
}

/// Returns the paths that need no API key.
fn open_api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(metrics))
        .routes(routes!(openapi::get))
        .routes(routes!(openapi::docs))
}

/// Returns the paths that need an API key.
fn keyed_api() -> OpenApiRouter<App> {
    chain_api().merge(consumer_api())
}

/// Returns the paths of the consumer API. Errors of this API have a different form.
fn consumer_api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(consumer::value))
        .routes(routes!(consumer::price))
        .routes(routes!(consumer::topics))
}

/// Returns the chain's queries and our own paths.
fn chain_api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(topics::get))
        .routes(routes!(topics::next_topic_id))
        .routes(routes!(topics::list, topics::create))
        .routes(routes!(topics::create_batch))
        .routes(routes!(topics::settings, topics::update, topics::delete))
        .routes(routes!(consumer::signer))
        .routes(routes!(topics::health))
        .routes(routes!(topics::relearn))
        .routes(routes!(topics::set_active))
        .routes(routes!(topics::add_to_whitelist, topics::remove_from_whitelist))
        .routes(routes!(submissions::post))
        .routes(routes!(values::latest))
        .routes(routes!(stream::get))
        .routes(routes!(values::epoch))
        .routes(routes!(values::history))
        .routes(routes!(values::epochs))
        .routes(routes!(values::leaderboard))
        .merge(emissions::api())
}

/// Returns whether the service works.
#[utoipa::path(get, path = paths::HEALTH, operation_id = "health", tag = "service", security(()),
    responses((status = 200, description = "The service works", body = ServiceHealth)))]
async fn health(
    State(service): State<App>,
    Extension(gate): Extension<Gate>,
) -> Result<Json<ServiceHealth>> {
    let inference = &service.inference;
    let check = async {
        inference.check_file().await?;
        Ok(gate.keys().check_file().await?)
    };
    service.health.get(check).await?;
    let is_read_only = inference.is_read_only();
    let failing_topics = inference.failing_topics().iter().map(|topic| topic.get()).collect();
    Ok(Json(ServiceHealth { failing_topics, is_read_only }))
}

/// Returns metrics as Prometheus text.
#[utoipa::path(get, path = paths::METRICS, operation_id = "metrics", tag = "service", security(()),
    responses((status = 200, description = "Metrics", body = String, content_type = "text/plain")))]
async fn metrics(State(service): State<App>, Extension(gate): Extension<Gate>) -> Response {
    web::metrics::respond(service.inference.render_metrics(gate.keys())).await
}

/// Reloads the list of topics if another service changed it, then handles the request.
async fn catch_up(service: App, request: Request, next: Next) -> Response {
    match service.inference.catch_up().await {
        Ok(()) => next.run(request).await,
        Err(error) => ApiError::from(error).into_response(),
    }
}

async fn not_implemented() -> ApiError {
    ApiError::not_implemented()
}

#[cfg(test)]
mod tests;
