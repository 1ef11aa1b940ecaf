//! Session cookies, which scripts cannot read.

use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

/// Security of the channel over which a cookie is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The page arrived over TLS, so its cookie is only sent over TLS.
    Tls,
    /// The page arrived in clear text, for example over loopback.
    Clear,
}

/// Returns the value of the cookie called `name`.
#[must_use]
pub fn get<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(found, value)| (found == name).then_some(value))
}

/// Returns a `Set-Cookie` header that stores `value` for the duration `lasts`. The value must consist of
/// letters and digits. The browser sends the cookie with requests to every path of this host. Scripts
/// cannot read it, and it is not sent with requests that other sites cause, except navigation.
#[must_use]
pub fn set(name: &str, value: &str, lasts: Duration, channel: Channel) -> Option<HeaderValue> {
    let secure = if channel == Channel::Tls { "; Secure" } else { "" };
    let seconds = lasts.as_secs();
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Returns a `Set-Cookie` header that deletes the cookie called `name`.
#[must_use]
pub fn clear(name: &str, channel: Channel) -> Option<HeaderValue> {
    set(name, "", Duration::ZERO, channel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_cookie_is_found_among_other_cookies() {
        let headers = HeaderMap::from_iter([
            (COOKIE, HeaderValue::from_static("a=1; session=abc; b=x=y")),
            (COOKIE, HeaderValue::from_static("late=2")),
        ]);
        for (name, want) in
            [("a", Some("1")), ("session", Some("abc")), ("b", Some("x=y")), ("late", Some("2"))]
        {
            assert_eq!(get(&headers, name), want);
        }
        assert_eq!(get(&headers, "sess"), None);
    }

    #[test]
    fn session_cookie_is_hidden_from_scripts_and_other_sites() {
        let text = |header: Option<HeaderValue>| header.unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            text(set("session", "abc", Duration::from_mins(1), Channel::Tls)),
            "session=abc; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure"
        );
        assert_eq!(
            text(clear("session", Channel::Clear)),
            "session=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"
        );
    }
}
