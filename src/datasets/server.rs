//! The service over HTTP: one file for each path, named after its last fixed segment.
//!
//! A handler reads its request, calls the façade, and writes what came of it.

mod acquire;
mod bulk_download;
mod bulk_insert;
mod check;
mod columns;
mod dataset;
mod dataset_tags;
mod datasets;
mod error;
mod health;
mod live;
mod rows;
mod search;
mod stream;
mod tags;

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use accounts::{Accounts, KeyId};
use axum::{
    Router,
    extract::FromRequestParts,
    http::{HeaderMap, request::Parts},
    routing::{get, post},
};
use model::key::ApiKey;
use task::{clock::Clock, group::Group};
use tokio::sync::Semaphore;
use tracing::info;
use web::{
    request::{RequestOptions, layered},
    serve::{BindError, bind, serve},
};
use wire::{datasets::Envelope, paths};

use self::error::ApiError;
use crate::{
    Datasets, aside,
    source::{
        load::{self, LoadOptions},
        market::{self, MarketOptions},
    },
    store::{StoreError, sqlite::SqliteStore},
};

/// The longest request body taken: an insert of 100 000 rows of seven columns has about half of it.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Kibibytes of insert bodies taken at a time: two of the longest, or thousands of small ones. As
/// rows a body takes about five times its length of memory.
const INSERTS_KIB_MAX: usize = 2 * BODY_BYTES_MAX / 1024;

/// How long a request may take until its answer begins. Clients of the upstream wait 15 to 300
/// seconds.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// How long a stream is silent at most, by document 2.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(30);

/// How to run the service.
#[derive(Debug, Clone)]
pub struct DatasetsOptions {
    /// Where to listen, such as `127.0.0.1:0` or `:8081`.
    pub listen: String,
    /// The store's file, created if it is missing.
    pub store_path: PathBuf,
    /// Who may come in.
    pub accounts: Accounts,
    /// The machine's load as datasets, if wanted.
    pub load: Option<LoadOptions>,
    /// A synthetic market as datasets, if wanted.
    pub market: Option<MarketOptions>,
    /// How often a stream sends a heartbeat: 30 seconds by document 2. Tests ask for less.
    pub heartbeat_every: Duration,
}

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store did not open.
    #[error("open the store in {}", path.display())]
    Store {
        /// Its file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: StoreError,
    },
    /// The address is not to be had.
    #[error("bind the dataset service")]
    Bind(#[from] BindError),
    /// The address is not known.
    #[error("learn the address of the dataset service")]
    Address(#[source] io::Error),
}

/// The dataset service, running.
#[derive(Debug, Clone)]
pub struct DatasetsService {
    address: SocketAddr,
}

impl DatasetsService {
    /// Opens the store and serves it in tasks of `group`, until the group stops.
    ///
    /// On return the service answers. The sources that `options` ask for fill their datasets in the
    /// background.
    ///
    /// # Errors
    /// [`StartError`]; then nothing is left running.
    pub async fn start(
        options: DatasetsOptions,
        group: &Group,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let listener = bind(&options.listen).await?;
        let address = listener.local_addr().map_err(StartError::Address)?;
        let path = options.store_path.clone();
        let opened = aside(move || SqliteStore::open(&path)).await.and_then(|opened| opened);
        let store =
            opened.map_err(|source| StartError::Store { path: options.store_path, source })?;
        let datasets = Datasets::new(Arc::new(store), clock.clone(), group);
        if let Some(load) = options.load {
            group.spawn("load", load::run(datasets.clone(), load, clock.clone()));
        }
        if let Some(market) = options.market {
            group.spawn("market", market::run(datasets.clone(), market, clock.clone()));
        }
        let app = App {
            datasets,
            accounts: options.accounts,
            clock,
            group: group.clone(),
            heartbeat_every: options.heartbeat_every,
            inserts: inserts(),
        };
        serve(listener, router(app), group);
        info!(%address, "dataset service listening");
        Ok(Self { address })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base address for clients: it ends in `/api`, by document 2.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/api", self.address)
    }
}

/// What every handler has.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) datasets: Datasets,
    pub(crate) accounts: Accounts,
    pub(crate) clock: Clock,
    pub(crate) group: Group,
    pub(crate) heartbeat_every: Duration,
    /// Room for insert bodies, in kibibytes.
    pub(crate) inserts: Arc<Semaphore>,
}

/// Room for [`INSERTS_KIB_MAX`].
fn inserts() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(INSERTS_KIB_MAX))
}

/// Every path of the service.
pub(crate) fn router(app: App) -> Router {
    let router = Router::new()
        .route(paths::TAGS_ACQUIRE, post(acquire::post))
        .route(paths::TAGS, get(tags::get))
        .route(paths::DATASETS, get(datasets::get).post(datasets::post))
        .route(paths::DATASETS_SEARCH, get(search::get))
        .route(paths::DATASET, get(dataset::get))
        .route(paths::DATASET_TAGS, get(dataset_tags::get).post(dataset_tags::post))
        .route(paths::COLUMNS, get(columns::get))
        .route(paths::ROWS, get(rows::get))
        .route(paths::ROWS_BULK_INSERT, post(bulk_insert::post))
        .route(paths::ROWS_BULK_DOWNLOAD, get(bulk_download::get))
        .route(paths::ROWS_LIVE, get(live::get))
        .route(paths::ROWS_STREAM, get(stream::get))
        .route(paths::ACCESS_CHECK, post(check::post))
        .route(paths::HEALTH, get(health::get))
        .fallback(async || ApiError::NoPath)
        .method_not_allowed_fallback(async || ApiError::NoMethod)
        .with_state(app);
    let options = RequestOptions {
        body_bytes_max: BODY_BYTES_MAX,
        answer_within: ANSWER_WITHIN,
        refuse: error::refusal,
    };
    layered(router, options)
}

/// The key that a request was sent with.
#[derive(Debug, Clone, Copy)]
struct Caller(KeyId);

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        Self::of_headers(&parts.headers, app).await
    }
}

impl Caller {
    async fn of_headers(headers: &HeaderMap, app: &App) -> Result<Self, ApiError> {
        Self::of_key(&web::auth::api_key(headers)?, app).await
    }

    async fn of_key(key: &ApiKey, app: &App) -> Result<Self, ApiError> {
        app.accounts.verify(key).await?.map(Self).ok_or(ApiError::KeyUnknown)
    }
}

/// An envelope of everything there is.
fn whole<T>(results: Vec<T>) -> Envelope<T> {
    let count = i64::try_from(results.len()).unwrap_or(i64::MAX);
    Envelope { count, next: None, previous: None, results }
}

#[cfg(test)]
pub(crate) mod tests;
