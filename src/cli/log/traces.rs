//! Traces: sends the spans of this service to a collector, by OTLP over HTTP.
//!
//! Spans are sent every few seconds on a separate thread. If the collector is down or slow, spans wait
//! up to a maximum number, and further spans are dropped. The environment variables of OpenTelemetry
//! for sampling (`OTEL_TRACES_SAMPLER`), batches and headers apply.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use async_trait::async_trait;
use model::address::redact_address;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, ResponseExt as _};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use reqwest::Url;
use reqwest::blocking::Client;
use task::causes::chain;
use tracing::{info, warn};

/// Path at which a collector receives spans.
const PATH: &str = "v1/traces";

/// Maximum time of a request to the collector. A request contains the spans of five seconds, so a
/// collector that takes longer could never catch up.
const SENT_WITHIN: Duration = Duration::from_secs(5);

/// Maximum time to send the last spans when the service stops.
const LAST_WITHIN: Duration = Duration::from_secs(2);

/// Address of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collector(Box<Url>);

impl Collector {
    /// Parses the address of a collector. An address without a path gets the path for spans.
    ///
    /// # Errors
    /// If the address is not an HTTP address, or contains a user or a password. The error does not
    /// contain the address.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let url = text.parse::<Url>().ok();
        let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let mut url = url.filter(is_http).context("expected http://host:4318, or https")?;
        if !url.username().is_empty() || url.password().is_some() {
            bail!(
                "address contains a user or password, which belong in OTEL_EXPORTER_OTLP_HEADERS"
            );
        }
        if url.path() == "/" {
            url.set_path(PATH);
        }
        Ok(Self(Box::new(url)))
    }

    /// Returns the address that spans are sent to.
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the host and the port. An IPv6 address has no brackets.
    pub(crate) fn host_and_port(&self) -> (&str, u16) {
        let host = self.0.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (host, self.0.port_or_known_default().unwrap_or_default())
    }

    /// Returns the address without its query, which can contain a token.
    pub(crate) fn redacted(&self) -> Cow<'_, str> {
        redact_address(self.as_str())
    }
}

/// Name of a service in its spans.
#[derive(Debug, Clone)]
pub(crate) struct ServiceName {
    /// Role: `head`, `worker`, `datasets`, `inference`.
    pub(crate) role: String,
    /// Name of the instance, if it has one.
    pub(crate) instance: Option<String>,
}

/// Guard that sends the remaining spans when it is dropped.
pub(crate) struct TracesGuard(SdkTracerProvider);

/// Starts sending the spans of `service`.
///
/// # Errors
/// If the client cannot be created.
pub(super) fn start(
    collector: &Collector,
    service: ServiceName,
) -> anyhow::Result<(SdkTracer, TracesGuard)> {
    task::process::install_crypto();
    let address = collector.as_str().to_owned();
    let mut builder = Client::builder().timeout(SENT_WITHIN).user_agent("triptych");
    if address.starts_with("http:") {
        // Without TLS, no certificates of the system need to be loaded.
        builder = builder.tls_certs_only([]);
    }
    // A blocking client panics if it is created in an asynchronous context, so a new thread creates
    // it.
    let built = std::thread::spawn(|| builder.build()).join();
    let http = built.map_err(|_| anyhow!("the thread of the collector's client panicked"))?;
    let http = http.context("cannot create a client for the collector")?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Sender {
            http,
            shown: collector.redacted().into_owned(),
            is_failing: AtomicBool::new(false),
        })
        .with_endpoint(address)
        .build()
        .context("cannot send spans")?;
    let mut attributes = vec![
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.role", service.role),
    ];
    attributes.extend(service.instance.map(|id| KeyValue::new("service.instance.id", id)));
    let resource =
        Resource::builder().with_service_name("triptych").with_attributes(attributes).build();
    let provider =
        SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
    global::set_text_map_propagator(TraceContextPropagator::new());
    Ok((provider.tracer("triptych"), TracesGuard(provider)))
}

impl Drop for TracesGuard {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST_WITHIN) {
            warn!(cause = chain(&error), "failed to send the last spans");
        }
    }
}

/// HTTP client that sends spans. It logs when sending begins to fail and when it succeeds again.
#[derive(Debug)]
struct Sender {
    http: Client,
    /// Address for messages.
    shown: String,
    is_failing: AtomicBool,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = match self.http.send_bytes(request).await {
            Ok(response) => response.error_for_status(),
            Err(error) => Err(without_url(error)),
        };
        let was_failing = self.is_failing.swap(sent.is_err(), Ordering::Relaxed);
        let collector = &self.shown;
        match &sent {
            Err(error) if !was_failing => {
                let cause = chain(error.as_ref());
                warn!(collector, cause, "spans cannot be sent and are dropped");
            }
            Ok(_) if was_failing => info!(collector, "spans are sent again"),
            _ => {}
        }
        sent
    }
}

/// Removes the address of the collector from `error`, since the query of the address can contain a
/// token.
fn without_url(error: HttpError) -> HttpError {
    match error.downcast::<reqwest::Error>() {
        Ok(error) => error.without_url().into(),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_TOKEN: &str = "http://127.0.0.1:1/?token=hunter2";

    #[test]
    fn collector_address_with_a_user_is_rejected_and_its_token_is_hidden() {
        for text in
            ["http://me:hunter2@host", "http://hunter2@host", "ftp://me:hunter2@host", "h:a"]
        {
            let error = format!("{:#}", Collector::parse(text).unwrap_err());
            assert!(!error.contains("hunter2"), "{error}");
        }
        let collector = Collector::parse(WITH_TOKEN).unwrap();
        assert_eq!(collector.redacted(), "http://127.0.0.1:1/v1/traces");
        assert_eq!(collector.as_str(), "http://127.0.0.1:1/v1/traces?token=hunter2");
        assert_eq!(Collector::parse("https://[::1]").unwrap().host_and_port(), ("::1", 443));
    }

    #[test]
    fn error_of_the_collector_contains_no_token() {
        task::process::install_crypto();
        let http = Client::builder().tls_certs_only([]).no_proxy().build().unwrap();
        let sender = Sender { http, shown: String::new(), is_failing: AtomicBool::new(false) };
        let request = Request::post(WITH_TOKEN).body(Bytes::new()).unwrap();
        let sent = futures::executor::block_on(sender.send_bytes(request));
        let why = chain(sent.unwrap_err().as_ref());
        assert!(why.contains("refused") && !why.contains("hunter2"), "{why}");
    }
}
