//! Reading from the web: whole answers, of a bounded size, within a bounded time, and only from hosts
//! that may be asked.
//!
//! Addresses of manifests come from others, who could have a node ask hosts of its own network for
//! them. So such addresses must lead to public hosts, unless the operator allows any: the IP addresses
//! of a name are checked as the connection is made, and again at every redirect.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::{
    Client, StatusCode, Url,
    dns::{Name, Resolve, Resolving},
    header::ACCEPT,
    redirect::{Attempt, Policy},
};
use tokio::{net::lookup_host, sync::OnceCell, time::timeout};

/// How long a connection may take: a lost packet and its second try.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);

/// How many redirects are followed. Gateways use one or two.
const REDIRECTS_MAX: usize = 5;

/// Which hosts addresses may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hosts {
    /// Those of the public internet.
    #[default]
    Public,
    /// Any, also this machine and its own network.
    Any,
}

/// Why something was not read from the web.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// It is not an address of the web.
    #[error("read `{text}` as an http or https address")]
    Address {
        /// The text, shortened.
        text: String,
    },
    /// The host is not a public one.
    #[error("ask {host}, which is not a public host")]
    Private {
        /// The host's name or number.
        host: String,
    },
    /// The HTTP client could not be built.
    #[error("prepare HTTP")]
    Prepare(#[source] reqwest::Error),
    /// The host was not reached, or the connection broke.
    #[error("reach {host}")]
    Reach {
        /// The host's name or number.
        host: String,
        /// What went wrong.
        source: reqwest::Error,
    },
    /// The host refused.
    #[error("get more than status {status} from {host}")]
    Status {
        /// The host's name or number.
        host: String,
        /// What it answered.
        status: StatusCode,
    },
    /// The answer is longer than is taken.
    #[error("take more than {bytes_max} bytes from {host}")]
    TooLong {
        /// The host's name or number.
        host: String,
        /// How much is taken.
        bytes_max: usize,
    },
    /// It took too long.
    #[error("read all from {host} within {within:?}")]
    TimedOut {
        /// The host's name or number.
        host: String,
        /// How long it was given.
        within: Duration,
    },
}

/// What to ask for, and how much of an answer to take.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadLimits {
    /// The media type asked for.
    pub(super) accept: &'static str,
    /// The most bytes taken.
    pub(super) bytes_max: usize,
    /// The longest time it may take.
    pub(super) within: Duration,
}

/// An HTTP reader with limits. It loads certificates at its first use.
#[derive(Debug)]
pub(super) struct WebReader {
    rule: HostRule,
    client: OnceCell<Client>,
}

/// Which hosts may be asked.
#[derive(Debug, Clone)]
struct HostRule {
    hosts: Hosts,
    /// Hosts that the operator named.
    trusted: Arc<BTreeSet<String>>,
}

impl WebReader {
    /// Returns a reader of `hosts`, and of those in `trusted`, even if these are not public.
    pub(super) fn new(hosts: Hosts, trusted: BTreeSet<String>) -> Self {
        let rule = HostRule { hosts, trusted: Arc::new(trusted) };
        Self { rule, client: OnceCell::new() }
    }

    /// Returns what is at `url`, whole. Cancel-safe.
    pub(super) async fn read(&self, url: &Url, wanted: ReadLimits) -> Result<Bytes, WebError> {
        self.rule.check(url)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let client = self.client.get_or_try_init(async || self.rule.client()).await?;
        let within = wanted.within;
        let reading = read(client, url, &host, wanted);
        timeout(within, reading).await.map_err(|_| WebError::TimedOut { host, within })?
    }
}

async fn read(
    client: &Client,
    url: &Url,
    host: &str,
    wanted: ReadLimits,
) -> Result<Bytes, WebError> {
    let reach = |error: reqwest::Error| WebError::Reach {
        host: host.to_owned(),
        source: error.without_url(),
    };
    let request = client.get(url.clone()).header(ACCEPT, wanted.accept);
    let response = request.send().await.map_err(reach)?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(WebError::Status { host: host.to_owned(), status });
    }
    let bytes_max = wanted.bytes_max;
    let too_long = || WebError::TooLong { host: host.to_owned(), bytes_max };
    let mut whole = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(reach)?;
        if whole.len() + chunk.len() > bytes_max {
            return Err(too_long());
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

impl HostRule {
    fn client(&self) -> Result<Client, WebError> {
        if rustls::crypto::CryptoProvider::get_default().is_none()
            && rustls::crypto::ring::default_provider().install_default().is_err()
        {
            tracing::debug!("another thread installed a provider of cryptography first");
        }
        let rule = self.clone();
        let redirects = Policy::custom(move |attempt| rule.follow_redirect(attempt));
        Client::builder()
            .redirect(redirects)
            // A proxy would look names up itself, past the check of what they stand for.
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

    /// Checks the URL alone. Names are resolved later, by [`Resolver`].
    fn check(&self, url: &Url) -> Result<(), WebError> {
        let wrong = || WebError::Address { text: url.as_str().chars().take(200).collect() };
        let host = url.host_str().ok_or_else(wrong)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong());
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_private = bare.parse().is_ok_and(|ip| !is_public(ip));
        if is_private && !self.is_free(host) {
            return Err(WebError::Private { host: host.to_owned() });
        }
        Ok(())
    }

    fn is_free(&self, host: &str) -> bool {
        self.hosts == Hosts::Any || self.trusted.contains(host)
    }
}

/// Resolves names to addresses that the rule allows.
impl Resolve for HostRule {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let is_free = self.is_free(&host);
        Box::pin(async move {
            let found = lookup_host((host.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| is_free || is_public(address.ip())).collect();
            if allowed.is_empty() {
                let reason = format!("{host} is not a public host");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason).into());
            }
            Ok(Box::new(allowed.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

/// Whether an address belongs to the public internet.
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
        // Multicast, reserved and broadcast.
        || a >= 224)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    if let Some(mapped) = ip.to_ipv4() {
        // `::1` and `::` are among these, as 0.0.0.1 and 0.0.0.0.
        return is_public_v4(mapped);
    }
    // The global unicast range, without what tunnels to IPv4 (6to4 and Teredo) and documentation.
    (segments[0] & 0xe000) == 0x2000
        && segments[0] != 0x2002
        && !(segments[0] == 0x2001 && matches!(segments[1], 0 | 0xdb8))
}

#[cfg(test)]
mod tests;
