//! Which requests come from a program of this machine, and which a browser was lured into.
//!
//! A connection from loopback says little: a proxy on this machine passes on requests of others, and
//! a browser on it sends what pages of other sites ask for. A page whose name resolves to this
//! machine (DNS rebinding) even reads the answers; only the `Host` gives it away. So what is allowed
//! without a key or token is allowed only under a known host name.

use std::{net::IpAddr, str::FromStr, sync::Arc};

use axum::{
    Router,
    extract::ConnectInfo,
    http::{
        HeaderMap, StatusCode, Version,
        header::{FORWARDED, HOST, VIA},
        uri::Authority,
    },
    response::Response,
};

use crate::{
    address::{AddressSource, Caller, forwarded},
    middleware, origin,
};

/// The beginning of the headers in which proxies pass on where a request came from.
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// Headers in which proxies and networks in front of services name the client.
const CLIENT_HEADERS: [&str; 6] = [
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x_forwarded_for",
];

/// The longest name of a host, by RFC 1035.
const NAME_BYTES_MAX: usize = 253;

/// The refusal of a request with an unknown host name.
pub const UNKNOWN_HOST: &str = "the Host of this request is no known name of this service; \
     use its address, or have its operator add the name with --host-name";

/// The name of a host, in lower case, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

/// A text is not the name of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read a host name without a scheme or port, such as data.example.org")]
pub struct HostNameError;

/// The names under which a service is reached, beside `localhost` and any IP address. Cheap to
/// clone.
///
/// An address needs no entry: a page can take a name of its own to another machine, but not an
/// address.
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
    /// Every name: for a service over TLS, whose certificate a page of another name does not get
    /// past.
    #[must_use]
    pub fn any() -> Self {
        Self { names: Arc::default(), is_any: true }
    }

    /// Whether a request is under a known name, or under none, which no browser sends.
    #[must_use]
    pub fn is_known<B>(&self, request: &axum::http::Request<B>) -> bool {
        self.is_any || hosts(request).all(|host| host.is_some_and(|host| self.knows(&host)))
    }

    /// Whether a request surely comes from a program of this machine, or from a page of this very
    /// service: over loopback, to a loopback host or a configured name, from no page of another
    /// origin, and passed on by no proxy. HTTP/1.0 is what proxies speak that add no header.
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

    /// The same where `addresses` says who the callers are: behind a proxy, by its word. Where that
    /// cannot be read it is not known, though the proxy itself may be on this machine.
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

    /// Puts a check of the host name around what `router` allows without a key. `refuse` words the
    /// refusal.
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
        address(host).is_some() || self.is_named(host)
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

/// The hosts that a request names, in its target and its `Host` headers; none for one that is no
/// host.
fn hosts<B>(request: &axum::http::Request<B>) -> impl Iterator<Item = Option<Authority>> {
    let of_header = |value: &axum::http::HeaderValue| value.to_str().ok()?.parse().ok();
    let of_headers = request.headers().get_all(HOST).iter().map(of_header);
    let all = request.uri().authority().cloned().map(Some).into_iter().chain(of_headers);
    all.map(|host| host.filter(is_plain))
}

/// Whether a host is a name or an address and a port at most: no user, no brackets around what is
/// no IPv6 address, and a port that is one.
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

/// Whether a proxy says that it passed the request on.
fn is_passed_on(headers: &HeaderMap) -> bool {
    let is_of_proxy =
        |name: &str| CLIENT_HEADERS.contains(&name) || name.starts_with(FORWARDED_PREFIX);
    headers.contains_key(FORWARDED)
        || headers.contains_key(VIA)
        || headers.keys().any(|name| is_of_proxy(name.as_str()))
}

#[cfg(test)]
mod tests;
