//! Distinguishes requests of programs on this machine from requests that another site made a browser
//! send.
//!
//! A connection from loopback is not sufficient evidence: a proxy on this machine forwards requests of
//! other machines, and a browser on this machine sends requests for pages of other sites. If the host
//! name of such a page is made to resolve to this machine (DNS rebinding), the page can even read the
//! responses. Only the `Host` header reveals this. Therefore, requests without a key or token are only
//! allowed if they have a known host name. Names without a dot are known, such as the name of this
//! machine or of a container: only the resolver of the caller's network can make them resolve.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::header::{FORWARDED, HOST, VIA};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Version};
use axum::response::Response;
use sysinfo::System;

use crate::address::{AddressSource, Caller, forwarded};
use crate::{middleware, origin};

/// Prefix of the headers in which proxies forward details of a request.
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// Headers in which proxies and delivery networks in front of a service send the client's address.
const CLIENT_HEADERS: [&str; 6] = [
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x_forwarded_for",
];

/// Maximum length of a host name according to RFC 1035.
const NAME_BYTES_MAX: usize = 253;

/// Error text for a request with an unknown host name.
pub const UNKNOWN_HOST: &str = "the Host of this request is not a known name of this service; \
     use its address, or have its operator add the name with --host-name";

/// Name of a host, in lower case, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

/// Error for a text that is not the name of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a host name without a scheme or port, such as data.example.org")]
pub struct HostNameError;

/// Host names of a service, in addition to names without a dot, the name of this machine and all IP
/// addresses. Cheap to clone.
///
/// IP addresses are always accepted: a site's owner can make its host name resolve to another machine,
/// but cannot redirect an IP address.
#[derive(Debug, Clone, Default)]
pub struct HostNames {
    names: Arc<[HostName]>,
    is_any: bool,
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(is_fit) {
            return Err(HostNameError);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl FromIterator<HostName> for HostNames {
    fn from_iter<I: IntoIterator<Item = HostName>>(names: I) -> Self {
        Self { names: names.into_iter().collect(), is_any: false }
    }
}

impl HostNames {
    /// Accepts every host name. This is safe only for a service over TLS, since browsers reject its
    /// certificate on pages with another host name.
    #[must_use]
    pub fn any() -> Self {
        Self { names: Arc::default(), is_any: true }
    }

    /// Returns true if the host name of a request is known. A request without a host name is accepted,
    /// too, since it cannot come from a browser.
    #[must_use]
    pub fn is_known<B>(&self, request: &axum::http::Request<B>) -> bool {
        self.is_any || hosts(request).all(|host| host.is_some_and(|host| self.knows(&host)))
    }

    /// Returns true if a request certainly comes from a program on this machine, or from a page of this
    /// service. Such a request must arrive over loopback and name a loopback host or a configured name.
    /// It must neither come from a page of another origin nor be forwarded by a proxy. HTTP/1.0 is
    /// excluded, since proxies that add no header use it.
    #[must_use]
    pub fn is_local<B>(&self, request: &axum::http::Request<B>) -> bool {
        let peer = request.extensions().get::<ConnectInfo<Caller>>();
        let is_near = |ConnectInfo(Caller(peer)): &ConnectInfo<Caller>| is_loopback(peer.ip());
        let mut hosts = hosts(request).peekable();
        peer.is_some_and(is_near)
            && request.version() > Version::HTTP_10
            && hosts.peek().is_some()
            && hosts.all(|host| host.is_some_and(|host| self.is_own(&host)))
            && !origin::is_foreign(request.headers())
            && !is_passed_on(request.headers())
    }

    /// Like [`Self::is_local`], but for a service that may be behind a proxy, according to `addresses`.
    /// Behind a proxy, returns true if the proxy's header contains a loopback address. A missing or
    /// invalid header counts as remote, even if the proxy is on this machine.
    #[must_use]
    pub fn is_local_by<B>(
        &self,
        addresses: AddressSource,
        request: &axum::http::Request<B>,
    ) -> bool {
        match addresses {
            AddressSource::Connection => self.is_local(request),
            AddressSource::Proxy => forwarded(request.headers()).is_some_and(is_loopback),
        }
    }

    /// Adds a check of the host name to `router`, for routes that do not need a key. `refuse` creates
    /// the response to a rejected request.
    pub fn wrap(&self, router: Router, refuse: fn(StatusCode, &'static str) -> Response) -> Router {
        let names = self.clone();
        middleware::wrap(router, move |request, next| {
            let is_known = names.is_known(&request);
            async move {
                if is_known {
                    next.run(request).await
                } else {
                    refuse(StatusCode::FORBIDDEN, UNKNOWN_HOST)
                }
            }
        })
    }

    fn knows(&self, host: &Authority) -> bool {
        let is_machine = |name: String| name.eq_ignore_ascii_case(host.host());
        !host.host().contains('.')
            || address(host).is_some()
            || self.is_named(host)
            || System::host_name().is_ok_and(is_machine)
    }

    fn is_own(&self, host: &Authority) -> bool {
        address(host).is_some_and(is_loopback) || self.is_named(host)
    }

    fn is_named(&self, host: &Authority) -> bool {
        let host = host.host();
        host.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|name| host.eq_ignore_ascii_case(&name.0))
    }
}

/// Returns the hosts in the target and in the `Host` headers of a request. An invalid host is `None`.
fn hosts<B>(request: &axum::http::Request<B>) -> impl Iterator<Item = Option<Authority>> {
    let of_header = |value: &axum::http::HeaderValue| value.to_str().ok()?.parse().ok();
    let of_headers = request.headers().get_all(HOST).iter().map(of_header);
    let all = request.uri().authority().cloned().map(Some).into_iter().chain(of_headers);
    all.map(|host| host.filter(is_plain))
}

/// Returns true if `host` is only a name or address, with an optional port. It must have no user, and
/// brackets only around an IPv6 address.
fn is_plain(host: &Authority) -> bool {
    let (text, name) = (host.as_str(), host.host());
    let is_bracketed = name.starts_with('[');
    !text.contains('@')
        && (text.len() == name.len() || host.port_u16().is_some())
        && is_bracketed == address(host).is_some_and(|address| address.is_ipv6())
}

fn address(host: &Authority) -> Option<IpAddr> {
    let host = host.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Returns true if a header shows that a proxy has forwarded the request.
fn is_passed_on(headers: &HeaderMap) -> bool {
    let is_of_proxy =
        |name: &str| CLIENT_HEADERS.contains(&name) || name.starts_with(FORWARDED_PREFIX);
    headers.contains_key(FORWARDED)
        || headers.contains_key(VIA)
        || headers.keys().any(|name| is_of_proxy(name.as_str()))
}

#[cfg(test)]
mod tests;
