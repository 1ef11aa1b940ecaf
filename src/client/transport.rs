//! HTTP connection to one service, with its address, API key, time limits and limits of response sizes.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use model::address::redact_address;
use model::dataset::DatasetId;
use model::escape::escape_line;
use model::idempotency::IdempotencyKey;
use model::key::ApiKey;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use task::process::install_crypto;
use task::traces::{Carrier, TRACEPARENT, TRACESTATE};
use wire::accounts::Secret;
use wire::datasets::{HealthBody, RowRefusal};
use wire::error::DatasetsError;
use wire::paths::{API_KEY_HEADER, IDEMPOTENCY_KEY_HEADER, LAST_EVENT_ID_HEADER};

use crate::datasets::seen_revisions::SeenRevisions;
use crate::error::{ClientError, innermost};

/// Time after which an unused connection is closed. The services close unused connections after 30 s,
/// and a request that is sent at the same time gets no response.
const IDLE_WITHIN: Duration = Duration::from_secs(20);

/// Time limit for connecting. It is enough to retransmit a lost packet.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Default time limit until a response is complete.
pub(crate) const RESPONSE_WITHIN: Duration = Duration::from_secs(30);

/// Time limit until the response to an insert is complete. The service gives up earlier.
pub(crate) const INSERT_WITHIN: Duration = Duration::from_mins(2);

/// Maximum size of a response: ten times the size of a page of 10 000 rows with a dozen columns.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of characters of an error message from a service that are displayed.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// Connection to one service. Clones share the underlying connections.
#[derive(Clone, derive_more::Debug)]
pub struct Transport {
    http: Client,
    base: Url,
    key: Option<ApiKey>,
    token: Option<Token>,
    #[debug(skip)]
    locate: Option<Locate>,
}

/// Returns the current address and key of a service that can change both, or `None` while the service is
/// not running.
pub type Locate = Arc<dyn Fn() -> Option<(String, Option<ApiKey>)> + Send + Sync>;

/// Token of a head, sent as `Authorization: Bearer <token>`. `Debug` does not show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token(HeaderValue);

impl FromStr for Token {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let value = HeaderValue::from_str(&format!("Bearer {}", text.trim()));
        let mut value = value.map_err(|_| ClientError::Token)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// A request that is being prepared, with its time limit.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) transport: &'a Transport,
    /// True if the service can be restarting with another key.
    is_moving: bool,
    builder: RequestBuilder,
    /// Time limit; `None` for a stream, which is endless.
    within: Option<Duration>,
    /// Revisions seen so far and the dataset that the request reads. The request sends the latest
    /// revision, and the response updates it.
    seeing: Option<(&'a SeenRevisions, DatasetId)>,
}

impl Transport {
    /// Returns a connection to the service at `base`, which may end in `/`. Every call sends `key`.
    ///
    /// Connects with the first call. Redirects are not followed, since the key is only for this address.
    ///
    /// # Errors
    /// [`ClientError::Address`] if `base` is not an `http` or `https` address,
    /// [`ClientError::Credentials`] if it contains a user name or password, [`ClientError::Prepare`] if
    /// it is `https` and the system has no certificates.
    pub fn new(base: &str, key: Option<ApiKey>) -> Result<Self, ClientError> {
        let unfit =
            || ClientError::Address { text: redact_address(base).chars().take(200).collect() };
        let mut url: Url = base.trim().parse().map_err(|_| unfit())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(unfit());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ClientError::Credentials);
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        url.set_query(None);
        url.set_fragment(None);

        install_crypto();
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_WITHIN)
            .pool_idle_timeout(IDLE_WITHIN)
            .tcp_nodelay(true)
            .user_agent("triptych");
        if is_loopback(&url) {
            // A proxy from the environment is not used, since it cannot connect to loopback addresses
            // of this machine.
            builder = builder.no_proxy();
        }
        if url.scheme() == "http" {
            // Reading the system's certificates is slow, and plain HTTP does not need them.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(ClientError::Prepare)?;
        Ok(Self { http, base: url, key, token: None, locate: None })
    }

    /// Returns this transport with `token`, which every call then sends.
    #[must_use]
    pub fn with_token(self, token: Option<Token>) -> Self {
        Self { token, ..self }
    }

    /// Returns this transport for a service that can restart with another host, port and key, which
    /// `locate` then returns. While it returns `None`, a rejected key is an error of an unreachable
    /// service.
    #[must_use]
    pub fn with_location(self, locate: Locate) -> Self {
        Self { locate: Some(locate), ..self }
    }

    /// Returns the base address, without a trailing slash.
    #[must_use]
    pub fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Removes the last segment of the address if it is `segment`.
    pub(crate) fn strip_segment(mut self, segment: &str) -> Self {
        let path = self.base.path().trim_end_matches('/');
        if let Some(shorter) = path.strip_suffix(segment).and_then(|path| path.strip_suffix('/')) {
            let shorter = shorter.to_owned();
            self.base.set_path(&shorter);
        }
        self
    }

    /// Prepares a GET request for `path`.
    pub(crate) fn get(&self, path: &str) -> Request<'_> {
        self.call(Method::GET, path)
    }

    /// Prepares a POST request to `path`.
    pub(crate) fn post(&self, path: &str) -> Request<'_> {
        self.call(Method::POST, path)
    }

    /// Prepares a PATCH request to `path`.
    pub(crate) fn patch(&self, path: &str) -> Request<'_> {
        self.call(Method::PATCH, path)
    }

    /// Prepares a DELETE request to `path`.
    pub(crate) fn delete(&self, path: &str) -> Request<'_> {
        self.call(Method::DELETE, path)
    }

    /// Prepares a request to `path` with the key and the token.
    pub(crate) fn call(&self, method: Method, path: &str) -> Request<'_> {
        let (mut url, mut key) = (self.base.clone(), self.key.clone());
        let located = self.locate.as_ref().map(|locate| locate());
        let is_moving = matches!(located, Some(None));
        if let Some((address, new_key)) = located.flatten()
            && let Ok(mut moved) = address.parse::<Url>()
        {
            moved.set_path(self.base.path());
            (url, key) = (moved, new_key);
        }
        let address = url.as_str().trim_end_matches('/');
        let mut builder = self.http.request(method, format!("{address}{path}"));
        if let Some(key) = key
            && let Ok(mut value) = HeaderValue::from_str(key.reveal())
        {
            value.set_sensitive(true);
            builder = builder.header(API_KEY_HEADER, value);
        }
        if let Some(token) = &self.token {
            builder = builder.header(AUTHORIZATION, token.0.clone());
        }
        if let Some(carrier) = Carrier::of_current_span() {
            builder = builder.header(TRACEPARENT, carrier.traceparent);
            if !carrier.tracestate.is_empty() {
                builder = builder.header(TRACESTATE, carrier.tracestate);
            }
        }
        Request { transport: self, is_moving, builder, within: Some(RESPONSE_WITHIN), seeing: None }
    }

    /// Reads a complete response of at most [`BODY_BYTES_MAX`] bytes.
    async fn read_body(
        &self,
        response: Response,
        within: Duration,
    ) -> Result<Vec<u8>, ClientError> {
        let mut chunks = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|source| self.broken(source, within))?;
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(ClientError::TooLong { limit_bytes: BODY_BYTES_MAX });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Describes the redirect in `response`. The address is shown without the path of the request, since
    /// it can then replace the address of the service.
    fn redirect_of(&self, response: &Response) -> String {
        let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
        let Some(to) = location.and_then(|it| response.url().join(it).ok()) else {
            return "redirect without an address".to_owned();
        };
        let to = redact_address(to.as_str());
        let path = response.url().path();
        let path = path.strip_prefix(self.base.path().trim_end_matches('/')).unwrap_or(path);
        format!("redirect to {}", shortened(to.strip_suffix(path).unwrap_or(&to)))
    }

    /// Creates an error for a response without data for the time `within`.
    pub(crate) fn silent(&self, within: Duration) -> ClientError {
        ClientError::TimedOut { address: self.address().to_owned(), within }
    }

    /// Converts an error of the HTTP library, which occurred in a call with the time limit `within`.
    pub(crate) fn broken(&self, source: reqwest::Error, within: Duration) -> ClientError {
        let address = self.base.origin().ascii_serialization();
        let is_sent = !source.is_connect() && !source.is_builder();
        let is_timeout = source.is_timeout();
        let why = innermost(&source.without_url());
        match (is_sent, is_timeout) {
            (true, true) => ClientError::TimedOut { address, within },
            (true, false) => ClientError::Lost { address, why },
            (false, _) => ClientError::Reach { address, why },
        }
    }
}

impl<'a> Request<'a> {
    /// Adds query parameters.
    pub(crate) fn query(self, query: &(impl Serialize + ?Sized)) -> Self {
        Self { builder: self.builder.query(query), ..self }
    }

    /// Sets `body` as JSON.
    pub(crate) fn body(self, body: &impl Serialize) -> Self {
        Self { builder: self.builder.json(body), ..self }
    }

    /// Sets `body` with the media type `media_type`.
    pub(crate) fn bytes_body(self, media_type: &'static str, body: Vec<u8>) -> Self {
        Self { builder: self.builder.header(CONTENT_TYPE, media_type).body(body), ..self }
    }

    /// Sends the cookie of a session.
    pub(crate) fn session(self, cookie: &Secret) -> Self {
        let Ok(mut value) = HeaderValue::from_str(&cookie.0) else { return self };
        value.set_sensitive(true);
        Self { builder: self.builder.header(COOKIE, value), ..self }
    }

    /// Adds an idempotency key, by which the service recognizes a repeated request.
    pub(crate) fn named(self, key: &IdempotencyKey) -> Self {
        // The key is quoted, as the draft of this header requires.
        let builder = self.builder.header(IDEMPOTENCY_KEY_HEADER, format!("\"{key}\""));
        Self { builder, ..self }
    }

    /// Requests the events of a stream that follow the event with this `id`.
    pub(crate) fn after_event(self, id: &str) -> Self {
        // An id that cannot be sent in a header is ignored.
        let Ok(id) = HeaderValue::from_str(id) else { return self };
        Self { builder: self.builder.header(LAST_EVENT_ID_HEADER, id), ..self }
    }

    /// Makes the request send the latest revision of `dataset` in `seen`, so that the response includes
    /// it. The response then updates `seen`.
    pub(crate) fn seeing(self, seen: &'a SeenRevisions, dataset: DatasetId) -> Self {
        let seeing = Some((seen, dataset));
        Self { builder: seen.ask(self.builder, dataset), seeing, ..self }
    }

    /// Sets the time limit; `None` for a stream.
    pub(crate) fn within(self, within: Option<Duration>) -> Self {
        Self { within, ..self }
    }

    /// Sends the request. Returns a successful response once its headers have arrived.
    pub(crate) async fn open(self) -> Result<Response, ClientError> {
        let Self { transport, is_moving, mut builder, within, seeing } = self;
        if let Some(within) = within {
            builder = builder.timeout(within);
        }
        let within = within.unwrap_or(RESPONSE_WITHIN);
        let response = builder.send().await.map_err(|source| transport.broken(source, within))?;
        if response.status().is_success() {
            if let Some((seen, dataset)) = seeing {
                seen.note(&response, dataset);
            }
            return Ok(response);
        }
        let (status, retry_after) = (response.status(), retry_after(&response));
        if status.is_redirection() {
            let message = transport.redirect_of(&response);
            return Err(ClientError::Refused { status: status.as_u16(), message });
        }
        if status == StatusCode::UNAUTHORIZED && is_moving {
            let why = "it is restarting".to_owned();
            return Err(ClientError::Reach { address: transport.address().to_owned(), why });
        }
        let body = transport.read_body(response, within).await.unwrap_or_default();
        Err(refusal(status, retry_after, &body))
    }

    /// Sends the request and reads the complete response.
    pub(crate) async fn bytes(self) -> Result<Vec<u8>, ClientError> {
        let (transport, within) = (self.transport, self.within.unwrap_or(RESPONSE_WITHIN));
        transport.read_body(self.open().await?, within).await
    }

    /// Sends the request and parses the response as JSON. `what` names the response in errors.
    pub(crate) async fn json<T: DeserializeOwned>(
        self,
        what: &'static str,
    ) -> Result<T, ClientError> {
        parse(&self.bytes().await?, what)
    }

    /// Like [`Self::json`], but converts the parsed body from `B` to `T`.
    pub(crate) async fn json_as<B, T>(self, what: &'static str) -> Result<T, ClientError>
    where
        B: DeserializeOwned,
        T: TryFrom<B, Error: std::error::Error + Send + Sync + 'static>,
    {
        let body: B = self.json(what).await?;
        body.try_into().map_err(|error| ClientError::shape(what, error))
    }

    /// Sends a health check. The response must have `field`, since another program on this port can
    /// respond to any request with success.
    pub(crate) async fn health(self, field: &'static str) -> Result<(), ClientError> {
        let what = "the health of this service";
        match self.json::<serde_json::Value>(what).await {
            Ok(body) if body.get(field).is_some() => Ok(()),
            Ok(_) | Err(ClientError::Shape { .. }) => {
                Err(ClientError::shape(what, "another program responds at this address"))
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the request and ignores the body of the response if it is successful.
    pub(crate) async fn done(self) -> Result<(), ClientError> {
        self.bytes().await.map(drop)
    }
}

/// Returns true if the host of `url` is a loopback address or `localhost`.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Escapes `text` as a single segment of a path.
///
/// # Errors
/// [`ClientError::Name`] for `.` and `..`, since URL libraries resolve them even if they are encoded.
pub(crate) fn segment(text: &str) -> Result<String, ClientError> {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    if matches!(text, "." | "..") {
        return Err(ClientError::Name { name: text.to_owned() });
    }
    Ok(text.bytes().map(byte).collect())
}

/// Parses `body` as JSON. `what` names the body in errors.
pub(crate) fn parse<T: DeserializeOwned>(
    body: &[u8],
    what: &'static str,
) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|source| ClientError::shape(what, source))
}

/// Returns the number of seconds in `Retry-After`. The other form of the header, a date, is ignored.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// Creates an error from the error body of any of the three services.
fn refusal(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> ClientError {
    if let Ok(HealthBody { database, .. }) = serde_json::from_slice(body) {
        return ClientError::Unhealthy { status: status.as_u16(), database: shortened(&database) };
    }
    let message = message_of(body)
        .map(|message| without_reason(message, status))
        .or_else(|| status.canonical_reason().map(str::to_owned))
        .unwrap_or_else(|| "no reason given".to_owned());
    // A conflict with `Retry-After` means that the same request is already in progress.
    let is_limit = match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::CONFLICT => retry_after.is_some(),
        _ => false,
    };
    let refusals = refusals_of(body);
    if is_limit {
        ClientError::Limited { message, retry_after }
    } else if !refusals.is_empty() {
        ClientError::Rows { status: status.as_u16(), message, refusals }
    } else {
        ClientError::Refused { status: status.as_u16(), message }
    }
}

/// Parses the index of each rejected row of an insert, and the reason for its rejection.
fn refusals_of(body: &[u8]) -> Vec<(usize, String)> {
    let error = serde_json::from_slice::<DatasetsError>(body).ok();
    let details = error.and_then(|error| error.details).unwrap_or_default();
    let rows =
        if details.is_array() { details } else { details.get("rows").cloned().unwrap_or_default() };
    let rows: Vec<RowRefusal> = serde_json::from_value(rows).unwrap_or_default();
    rows.into_iter().map(|row| (row.row, escape_line(&row.reason).into())).collect()
}

/// Removes the name of the status from the end of a message, since the status is shown separately.
fn without_reason(message: String, status: StatusCode) -> String {
    let reason = status.canonical_reason().unwrap_or_default().to_lowercase();
    match message.strip_suffix(&reason).and_then(|said| said.strip_suffix(": ")) {
        Some(said) if !said.is_empty() => said.to_owned(),
        _ => message,
    }
}

fn message_of(body: &[u8]) -> Option<String> {
    let text = match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(json) => json.get("message").or_else(|| json.get("error"))?.as_str()?.to_owned(),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    Some(shortened(&text)).filter(|text| !text.is_empty())
}

/// Returns a text of a service as one line, for display. A head separates its reasons by line feeds and
/// tabs.
fn shortened(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = text.chars().take(MESSAGE_CHARS_MAX).collect();
    escape_line(&text).into()
}

#[cfg(test)]
mod tests;
