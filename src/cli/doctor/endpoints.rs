//! Checks of addresses that services connect to other than databases: the collector of spans and the
//! service with the accounts.

use std::time::Duration;

use clap::Args;
use client::transport::install_crypto;
use model::address::redact_address;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Finding, Severity};
use crate::cli::gate::check_accounts_service;
use crate::cli::log::Collector;
use crate::cli::stop::OTLP_VARIABLE;

/// Addresses, as for services.
#[derive(Debug, Args)]
pub(super) struct EndpointFlags {
    /// Service with the accounts, as for `triptych datasets serve --accounts`
    #[arg(long, env = "TRIPTYCH_ACCOUNTS", hide_env_values = true, value_name = "URL")]
    accounts: Option<String>,
    /// Collector of spans, as for every service
    #[arg(
        long, env = OTLP_VARIABLE, hide_env_values = true, value_name = "URL",
        value_parser = Collector::parse
    )]
    otlp: Option<Collector>,
}

/// Content type of spans. The body of a request without spans is empty.
const OTLP_TYPE: &str = "application/x-protobuf";

/// Maximum time to connect: a round trip to the other side of the world and a lost packet.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Checks that `host` accepts connections at `port`, whatever listens there.
async fn check_port(what: String, host: &str, port: u16, next: &str) -> Finding {
    match timeout(CONNECT_WITHIN, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Finding::ok(what, "accepts connections"),
        Ok(Err(error)) => Finding::wrong(what, format!("cannot connect: {error}"), next),
        Err(_) => Finding::wrong(what, "does not respond", next),
    }
}

/// Checks the addresses that are given.
pub(super) async fn check(flags: &EndpointFlags) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(url) = &flags.accounts {
        findings.push(check_accounts(url).await);
    }
    if let Some(collector) = &flags.otlp {
        findings.push(check_collector(collector).await);
    }
    findings
}

/// Checks that the collector accepts connections and a request without spans.
async fn check_collector(collector: &Collector) -> Finding {
    let what = format!("collector {}", collector.redacted());
    let (host, port) = collector.host_and_port();
    let next = "check that it runs, and --otlp or TRIPTYCH_OTLP";
    let reached = check_port(what.clone(), host, port, next).await;
    if reached.state != Severity::Ok {
        return reached;
    }
    install_crypto();
    let sent = async {
        let client = reqwest::Client::builder().timeout(CONNECT_WITHIN).build()?;
        let request = client.post(collector.as_str()).header("content-type", OTLP_TYPE);
        request.body(Vec::new()).send().await
    };
    match sent.await.map(|response| response.status().as_u16()) {
        Ok(200..300) => Finding::ok(what, "accepts spans"),
        // A collector might require headers, but another program might require a key just as well.
        Ok(status @ (401 | 403)) => Finding::warning(
            what,
            format!("responds {status}"),
            "check OTEL_EXPORTER_OTLP_HEADERS, and that this is the address of a collector",
        ),
        Ok(status) => {
            let seen = format!("responds {status} to OTLP over HTTP: it is another program");
            Finding::wrong(what, seen, "name the port and path of OTLP over HTTP: 4318, /v1/traces")
        }
        Err(error) => {
            let next = "name the port of OTLP over HTTP, usually 4318";
            Finding::failed(what, &error.without_url(), next)
        }
    }
}

/// Checks that the service at `url` accepts the token of the environment.
async fn check_accounts(url: &str) -> Finding {
    let what = format!("accounts at {}", redact_address(url));
    match check_accounts_service(url).await {
        Ok(()) => Finding::ok(what, "responds, and accepts the token"),
        Err(error) => {
            let next = "check that it runs, and that TRIPTYCH_ACCOUNTS_TOKEN is the same there";
            Finding::failed(what, &*error, next)
        }
    }
}
