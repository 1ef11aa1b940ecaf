//! HTTP downloads of limited size and duration, only from permitted hosts.
//!
//! Addresses in manifests are chosen by strangers, who could make a node send requests to hosts in its
//! own network. Such addresses must lead to public hosts, unless the operator allows all hosts. The IP
//! addresses of a host name are checked whenever a connection is made, also after a redirect. Link-local
//! addresses and addresses at which clouds serve credentials are permitted only if the operator named
//! the host.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::ACCEPT;
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, StatusCode, Url};
use task::process::install_crypto;
use tokio::net::lookup_host;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

use super::fetch::LargeTurn;
use super::turns::duration_at_min_rate;

/// Time limit for connecting. One lost packet can be retransmitted within this time.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);

/// Time limit for the first bytes of a response. Slower hosts would occupy turns that other fetches
/// need.
pub(super) const START_WITHIN: Duration = Duration::from_secs(5);

/// Maximum number of redirects. Gateways use one or two.
const REDIRECTS_MAX: usize = 5;

/// Hosts that functions may be downloaded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hosts {
    /// Hosts on the public internet.
    #[default]
    Public,
    /// All hosts, including this machine and its network.
    Any,
}

/// A failed download.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// The text is not an HTTP or HTTPS address.
    #[error("invalid address `{text}`, expected http or https")]
    Address {
        /// The text, shortened.
        text: String,
    },
    /// The host is not permitted.
    #[error("{host} is {}", if *is_metadata { "a link-local or metadata address" } else { "not a public host" })]
    Private {
        /// True for addresses that are rejected even if private hosts are permitted.
        is_metadata: bool,
        /// Host name or IP address.
        host: String,
    },
    /// The HTTP client could not be set up.
    #[error("cannot create the HTTP client")]
    Prepare(#[source] reqwest::Error),
    /// The connection failed or was lost.
    #[error("cannot connect to {host}")]
    Reach {
        /// Host name or IP address.
        host: String,
        /// Error of the HTTP client.
        source: reqwest::Error,
    },
    /// The host responded with an error status.
    #[error("{host} responded with status {status}")]
    Status {
        /// Host name or IP address.
        host: String,
        /// Status of the response.
        status: StatusCode,
    },
    /// The response is too large.
    #[error("response from {host} exceeds {bytes_max} bytes")]
    TooLong {
        /// Host name or IP address.
        host: String,
        /// Maximum size of a response.
        bytes_max: usize,
    },
    /// The response is slower than the minimum rate.
    #[error("{host} sends too slowly: {n_bytes} bytes after {elapsed:?}")]
    Slow {
        /// Host name or IP address.
        host: String,
        /// Number of bytes that arrived.
        n_bytes: usize,
        /// Time since the request.
        elapsed: Duration,
    },
    /// No turn for a large download became free.
    #[error("download from {host} was refused: too many large functions are being fetched")]
    Crowded {
        /// Host name or IP address.
        host: String,
    },
}

/// Media type and limits of a download.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadLimits {
    /// Accepted media type.
    pub(super) accept: &'static str,
    /// Maximum size of a response.
    pub(super) bytes_max: usize,
    /// Time limit for the first bytes. The rest must arrive at the minimum rate.
    pub(super) start_within: Duration,
}

/// An HTTP client with limits. It loads certificates when it is first used.
#[derive(Debug)]
pub(super) struct WebReader {
    rule: HostRule,
    client: OnceCell<Client>,
}

/// The permitted hosts.
#[derive(Debug, Clone)]
struct HostRule {
    hosts: Hosts,
    /// Hosts named by the operator.
    trusted: Arc<BTreeSet<String>>,
}

impl WebReader {
    /// Creates a reader that may access `hosts` and `trusted`. Trusted hosts do not have to be public.
    pub(super) fn new(hosts: Hosts, trusted: BTreeSet<String>) -> Self {
        let rule = HostRule { hosts, trusted: Arc::new(trusted) };
        Self { rule, client: OnceCell::new() }
    }

    /// Downloads `url`. If the response proves to be large, waits for a turn of `large`. Cancel-safe.
    pub(super) async fn read(
        &self,
        url: &Url,
        wanted: ReadLimits,
        large: &mut LargeTurn<'_>,
    ) -> Result<Bytes, WebError> {
        self.rule.check(url)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let client = self.client.get_or_try_init(async || self.rule.client()).await?;
        read(client, url, &host, wanted, large).await
    }
}

async fn read(
    client: &Client,
    url: &Url,
    host: &str,
    wanted: ReadLimits,
    large: &mut LargeTurn<'_>,
) -> Result<Bytes, WebError> {
    let mut began = Instant::now();
    let slow = |began: Instant, n_bytes: usize| WebError::Slow {
        host: host.to_owned(),
        n_bytes,
        elapsed: began.elapsed(),
    };
    let reach = |error: reqwest::Error| {
        let source = error.without_url();
        rejected(&source).unwrap_or_else(|| WebError::Reach { host: host.to_owned(), source })
    };
    let request = client.get(url.clone()).header(ACCEPT, wanted.accept);
    let response = timeout_at(began + wanted.start_within, request.send()).await;
    let response = response.map_err(|_| slow(began, 0))?.map_err(reach)?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(WebError::Status { host: host.to_owned(), status });
    }
    let bytes_max = wanted.bytes_max;
    let too_long = || WebError::TooLong { host: host.to_owned(), bytes_max };
    let mut whole = Vec::new();
    let mut chunks = response.bytes_stream();
    loop {
        let end = began + wanted.start_within + duration_at_min_rate(whole.len());
        let chunk = timeout_at(end, chunks.next()).await.map_err(|_| slow(began, whole.len()))?;
        let Some(chunk) = chunk else { return Ok(whole.into()) };
        let chunk = chunk.map_err(reach)?;
        if whole.len() + chunk.len() > bytes_max {
            return Err(too_long());
        }
        whole.extend_from_slice(&chunk);
        let paused = Instant::now();
        let crowded = |_| WebError::Crowded { host: host.to_owned() };
        large.hold(whole.len()).await.map_err(crowded)?;
        began += paused.elapsed();
    }
}

/// Returns the reason if a request failed because a redirect led to a forbidden host, or because the
/// host has no permitted IP address.
fn rejected(error: &reqwest::Error) -> Option<WebError> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(WebError::Private { is_metadata, host }) = error.downcast_ref() {
            return Some(WebError::Private { is_metadata: *is_metadata, host: host.clone() });
        }
        cause = error.source();
    }
    None
}

impl HostRule {
    fn client(&self) -> Result<Client, WebError> {
        install_crypto();
        let rule = self.clone();
        let redirects = Policy::custom(move |attempt| rule.follow_redirect(attempt));
        Client::builder()
            .redirect(redirects)
            // A proxy would resolve host names itself and thereby bypass the check of their addresses.
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT_WITHIN)
            .dns_resolver(self.clone())
            .user_agent("triptych")
            .build()
            .map_err(WebError::Prepare)
    }

    fn follow_redirect(&self, attempt: Attempt<'_>) -> reqwest::redirect::Action {
        if attempt.previous().len() > REDIRECTS_MAX {
            return attempt.error("too many redirects");
        }
        match self.check(attempt.url()) {
            Ok(()) => attempt.follow(),
            Err(error) => attempt.error(error),
        }
    }

    /// Checks a URL. The IP addresses of its host name are checked later, by [`Self::resolve`].
    fn check(&self, url: &Url) -> Result<(), WebError> {
        let wrong = || WebError::Address { text: url.as_str().chars().take(200).collect() };
        let host = url.host_str().ok_or_else(wrong)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong());
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse() {
            Ok(ip) => self.check_address(host, ip),
            Err(_) => Ok(()),
        }
    }

    /// Checks an IP address of `host`.
    fn check_address(&self, host: &str, ip: IpAddr) -> Result<(), WebError> {
        let is_metadata = is_metadata(ip);
        let is_allowed = !is_metadata && (self.hosts == Hosts::Any || is_public(ip));
        if is_allowed || self.trusted.contains(host) {
            return Ok(());
        }
        Err(WebError::Private { is_metadata, host: host.to_owned() })
    }
}

/// Resolves names to permitted addresses.
impl Resolve for HostRule {
    fn resolve(&self, name: Name) -> Resolving {
        let (rule, host) = (self.clone(), name.as_str().to_owned());
        Box::pin(async move {
            let (mut allowed, mut rejected) = (Vec::<SocketAddr>::new(), None);
            for address in lookup_host((host.as_str(), 0)).await? {
                match rule.check_address(&host, address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(error) => rejected = Some(error),
                }
            }
            match rejected.filter(|_| allowed.is_empty()) {
                Some(error) => Err(error.into()),
                None => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// Returns true for link-local addresses and other addresses at which clouds serve credentials and
/// configuration to virtual machines.
fn is_metadata(ip: IpAddr) -> bool {
    /// Metadata servers of Alibaba Cloud, Azure and Oracle Cloud.
    const SERVERS_V4: [Ipv4Addr; 3] = [
        Ipv4Addr::new(100, 100, 100, 200),
        Ipv4Addr::new(168, 63, 129, 16),
        Ipv4Addr::new(192, 0, 0, 192),
    ];
    /// Metadata servers of AWS and Google Cloud.
    const SERVERS_V6: [Ipv6Addr; 2] = [
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    ];
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_link_local() || SERVERS_V4.contains(&ip),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || SERVERS_V6.contains(&ip),
    }
}

/// Returns true for addresses on the public internet.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = (a, b, c) == (192, 0, 0);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || a == 0
        || is_shared
        || is_protocol
        || is_benchmark
        // Multicast, reserved and broadcast addresses.
        || a >= 224)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    if let Some(mapped) = ip.to_ipv4() {
        // This also rejects `::1` and `::`, which `to_ipv4` maps to the private addresses 0.0.0.1 and
        // 0.0.0.0.
        return is_public_v4(mapped);
    }
    // Global unicast, except tunnels to IPv4 (6to4 and Teredo) and addresses for documentation.
    (segments[0] & 0xe000) == 0x2000
        && segments[0] != 0x2002
        && !(segments[0] == 0x2001 && matches!(segments[1], 0 | 0xdb8))
}

#[cfg(test)]
mod tests;
