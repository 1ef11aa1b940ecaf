//! The service over HTTP, with a file for each group of paths.
//!
//! A handler parses its request, calls an operation of [`Datasets`] and renders the response.

mod bulk_download;
mod bulk_insert;
mod columns;
mod datasets;
mod error;
mod headers;
mod openapi;
mod rows;
mod status;
mod stream;
mod tags;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use accounts::gate::{Admitted, Gate, GateMessages, StreamLimit};
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path};
use axum::http::Uri;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json, Router};
use db::postgres::DatabaseUrl;
use model::key::KeyId;
use serde::de::DeserializeOwned;
use task::clock::Clock;
use task::group::Group;
use tracing::{info, warn};
use tsdb::store::StoreError;
use tsdb::store::engine::Engine;
use tsdb::store::postgres::PostgresStore;
use tsdb::store::sqlite::SqliteStore;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;
use web::cors::{ReaderSites, allow_readers};
use web::metrics::requests::count_requests;
use web::middleware::{RequestOptions, add_layers, wrap};
use web::open_files::streams_max;
use web::query_names::check_query_names;
use web::response::Created;
use web::serve::{BindError, bind, serve_by};
use web::shared_check::SharedCheck;
use wire::datasets::{Envelope, MessageBody};
use wire::paths;

use self::status::Health;
use crate::archive::{self, ArchiveStorage};
use crate::download_cache::DownloadCache;
use crate::error::{BODY_BYTES_MAX, OperationError};
use crate::key_limit::KeyLimit;
use crate::query::params::Params;
use crate::source::load::{self, LoadOptions};
use crate::source::market::{self, MarketOptions};
use crate::{Datasets, ReadOptions, replicas, retention, run_blocking};

/// Maximum length of a body without rows, enough for a thousand datasets with long descriptions. Such a
/// body is parsed on a thread that also serves other requests.
const SMALL_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum time until the response to a request begins. Clients of the upstream wait 15 to 300 seconds.
const RESPONSE_WITHIN: Duration = Duration::from_mins(1);

/// Interval of heartbeats, as in the upstream's API.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(30);

/// Options of the dataset service.
#[derive(Debug, Clone)]
pub struct DatasetsOptions {
    /// Address to listen on, such as `127.0.0.1:0` or `:8081`.
    pub listen: String,
    /// Path of the store's file, which is created if it is missing. Even if the rows are in a database,
    /// temporary files and caches are next to this path.
    pub store_path: PathBuf,
    /// Database that stores the rows instead of the file.
    pub database: Option<DatabaseUrl>,
    /// True to open the database read-only, for example because it is a standby.
    pub is_read_only: bool,
    /// Archive for old rows. `None` leaves all rows in the store.
    pub archive: Option<ArchiveStorage>,
    /// Gate that authenticates callers and limits their rates.
    pub gate: Gate,
    /// Interval of polls for commits of other services with the same database.
    pub poll_every: Duration,
    /// Pages and API of the accounts, which are served in addition to the service's paths and need no
    /// key.
    pub portal: Option<Router>,
    /// Source that records the load of the machine in datasets; `None` disables it.
    pub load: Option<LoadOptions>,
    /// Source that writes a synthetic market to datasets; `None` disables it.
    pub market: Option<MarketOptions>,
    /// Limits and caches of reads.
    pub reads: ReadOptions,
    /// Web sites with pages that can read responses with a key.
    pub reader_sites: Vec<ReaderSites>,
}

/// Reason why the dataset service could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be opened.
    #[error("cannot open dataset store {location}")]
    Store {
        /// Path of the store's file, or address of its database.
        location: String,
        /// Reason why the store could not be opened.
        #[source]
        source: StoreError,
    },
    /// The service cannot listen on the address.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The address of the listening socket cannot be determined.
    #[error("cannot determine the address of the dataset service")]
    Address(#[source] io::Error),
}

/// A running dataset service.
#[derive(Debug, Clone)]
pub struct DatasetsService {
    address: SocketAddr,
}

impl DatasetsService {
    /// Opens the store and serves it in tasks of `group` until the group stops.
    ///
    /// On return, the service accepts requests. The sources in `options` then write to their datasets in
    /// the background.
    ///
    /// # Errors
    /// [`StartError`]. All tasks that were started have been stopped.
    pub async fn start(
        options: DatasetsOptions,
        group: &Group,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let listener = bind(&options.listen).await?;
        let address = listener.local_addr().map_err(StartError::Address)?;
        let (store, archive) = open_store(&options).await?;
        let cache = open_download_cache(&options).await;
        let file = options.database.is_none().then(|| options.store_path.into());
        let datasets = Datasets {
            download_cache: cache.into(),
            raw_span_max: options.reads.raw_span_max,
            file,
            ..Datasets::new(store, clock.clone(), group)
        };
        if let Some(load) = options.load {
            group.spawn("load", load::run(datasets.clone(), load, clock.clone()));
        }
        if let Some(market) = options.market {
            group.spawn("market", market::run(datasets.clone(), market, clock.clone()));
        }
        if datasets.store.shared().is_some() {
            group.spawn("replicas", replicas::run(datasets.clone(), options.poll_every));
        }
        if !datasets.is_read_only() {
            group.spawn("retention", retention::run(datasets.clone(), clock.clone()));
        }
        if let Some(archive) = archive {
            let counts = datasets.metrics.clone();
            group.spawn("archive", archive::run(archive, clock.clone(), counts));
        }
        let app = Arc::new(Shared {
            datasets,
            gate: options.gate,
            clock,
            group: group.clone(),
            inserts: bulk_insert::new_limit(),
            streams: StreamLimit::new(streams_max()),
            health: Arc::default(),
        });
        let addresses = app.gate.options().addresses;
        let router = router(app, options.portal, &options.reader_sites);
        serve_by(addresses, listener, router, group);
        info!(%address, "dataset service listening");
        Ok(Self { address })
    }

    /// Returns the address that the service listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Opens the store in its database or file.
async fn open_store(options: &DatasetsOptions) -> Result<archive::Opened, StartError> {
    let (path, database) = (options.store_path.clone(), options.database.clone());
    let location = match &database {
        Some(database) => database.to_string(),
        None => path.display().to_string(),
    };
    let is_read_only = options.is_read_only;
    let storage = options.archive.clone();
    let open = move || {
        let store: Arc<dyn Engine> = match database {
            Some(database) if is_read_only => Arc::new(PostgresStore::open_read_only(&database)?),
            Some(database) => Arc::new(PostgresStore::open(&database)?),
            None => Arc::new(SqliteStore::open(&path)?),
        };
        archive::open(store, storage.as_ref())
    };
    let opened = run_blocking(open).await.and_then(|opened| opened);
    opened.map_err(|source| StartError::Store { location, source })
}

/// Opens the cache of compressed pieces. If this fails, returns a disabled cache, so each download is
/// compressed again.
async fn open_download_cache(options: &DatasetsOptions) -> DownloadCache {
    let path = options.store_path.with_extension("pieces");
    let bytes_max = options.reads.piece_bytes_max;
    match run_blocking(move || DownloadCache::open(&path, bytes_max)).await {
        Ok(Ok(cache)) => cache,
        Ok(Err(error)) => {
            warn!(%error, "failed to open the download cache; downloads are compressed each time");
            DownloadCache::default()
        }
        Err(_) => DownloadCache::default(),
    }
}

/// Paths with the key in the query string, for clients that cannot send headers: a browser's
/// `EventSource`, and polars when it scans files over HTTP.
const KEY_IN_QUERY: [(&str, &str); 2] =
    [(paths::ROWS_STREAM, stream::KEY_PARAM), (paths::ROWS_BULK_DOWNLOAD, stream::KEY_PARAM)];

/// State that all handlers share.
pub(crate) type App = Arc<Shared>;

/// State of the service that its handlers use through [`App`].
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) datasets: Datasets,
    pub(crate) gate: Gate,
    pub(crate) clock: Clock,
    pub(crate) group: Group,
    /// Limit of the memory for bodies of inserts.
    pub(crate) inserts: KeyLimit,
    /// Limit of the number of streams of each account.
    pub(crate) streams: StreamLimit,
    /// Health check with a recent outcome that concurrent callers share.
    health: Arc<SharedCheck<Health>>,
}

/// Returns all routes of the service. The routes of `portal` do not pass through the gate. Pages of
/// `sites` can read the responses of all other routes.
pub(crate) fn router(app: App, portal: Option<Router>, sites: &[ReaderSites]) -> Router {
    let gate = app.gate.clone();
    let counts = app.datasets.metrics.clone();
    let check_names = |(router, api)| {
        let reject = |error| OperationError::from(error).into_response();
        check_query_names(router, &api, &[paths::DATASETS_SEARCH], reject)
    };
    let open = check_names(open_api().split_for_parts())
        .method_not_allowed_fallback(async || error::NO_METHOD);
    let open = wrap(open, headers::compress)
        .layer(Extension(status::HasPortal(portal.is_some())))
        .with_state(Arc::clone(&app));
    let open = gate.options().hosts.wrap(open, error::refusal);
    let keyed = check_names(keyed_api().split_for_parts())
        .fallback(
            async |uri: Uri| {
                if uri.path().ends_with('/') { error::NO_PATH } else { error::NO_SLASH }
            },
        )
        .method_not_allowed_fallback(async || error::NO_METHOD)
        .layer(DefaultBodyLimit::max(SMALL_BODY_BYTES_MAX))
        .with_state(app);
    let keyed = wrap(wrap(keyed, headers::compress), headers::check_match);
    let options = RequestOptions {
        body_bytes_max: BODY_BYTES_MAX,
        response_within: RESPONSE_WITHIN,
        refuse: error::refusal,
    };
    let words = GateMessages { refuse: error::refused, key_in_query: &KEY_IN_QUERY };
    let read = allow_readers(gate.wrap(keyed, words).merge(open), sites);
    let router = read.merge(portal.unwrap_or_default());
    count_requests(add_layers(router, options), counts)
}

/// Returns the routes that need no key.
fn open_api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(status::root))
        .routes(routes!(status::health))
        .routes(routes!(status::metrics))
        .routes(routes!(openapi::get))
        .routes(routes!(status::docs))
}

/// Returns the routes that need a key.
fn keyed_api() -> OpenApiRouter<App> {
    let inserts = DefaultBodyLimit::max(BODY_BYTES_MAX);
    OpenApiRouter::new()
        .routes(routes!(tags::acquire))
        .routes(routes!(tags::release))
        .routes(routes!(tags::list))
        .routes(routes!(tags::list_holders, tags::give))
        .routes(routes!(tags::take))
        .routes(routes!(datasets::list, datasets::create))
        .routes(routes!(datasets::search))
        .routes(routes!(datasets::get, datasets::patch, datasets::put, datasets::delete))
        .routes(routes!(datasets::coverage))
        .routes(routes!(tags::list_of_dataset, tags::add))
        .routes(routes!(tags::remove))
        .routes(routes!(columns::get, columns::post, columns::patch, columns::delete))
        .routes(routes!(rows::get, rows::delete))
        .routes(routes!(bulk_insert::post).layer(inserts))
        .routes(routes!(bulk_download::bulk_download))
        .routes(routes!(bulk_download::live))
        .routes(routes!(stream::get))
        .routes(routes!(datasets::check_access))
}

/// Key that a request was authenticated with.
#[derive(Debug)]
struct Caller {
    app: App,
    key: KeyId,
}

impl FromRequestParts<App> for Caller {
    type Rejection = OperationError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, OperationError> {
        let admitted = parts.extensions.get::<Admitted>().ok_or(error::KEY_INVALID)?;
        Ok(Self { app: Arc::clone(app), key: admitted.key.id })
    }
}

/// Parses the query string.
fn read_params(uri: &Uri) -> Result<Params, OperationError> {
    Ok(Params(web::extract::pairs(uri)?))
}

/// Parameters of a path.
#[derive(Debug, Clone)]
struct PathParams<T>(T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = OperationError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, OperationError> {
        let found = Path::from_request_parts(parts, state).await;
        // Fails only if the path is not valid UTF-8, since any decoded text is accepted.
        found.map(|Path(open)| Self(open)).map_err(|_| error::PATH_NO_TEXT)
    }
}

/// Returns an envelope with all results, without links to other pages.
fn single_page<T>(results: Vec<T>) -> Envelope<T> {
    let count = i64::try_from(results.len()).unwrap_or(i64::MAX);
    Envelope { count, next: None, previous: None, results }
}

/// Returns the response to a request that adds something: status 201 and the text `new` if it was added,
/// or status 200 and the text `old` if it already existed.
fn added_response(is_new: bool, [new, old]: [&str; 2]) -> Response {
    let message = if is_new { new } else { old }.to_owned();
    let body = MessageBody { message };
    if is_new { Created(body).into_response() } else { Json(body).into_response() }
}

#[cfg(test)]
pub(crate) mod tests;
