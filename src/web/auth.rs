//! Reads the API key of a request. The crate `accounts` verifies it.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use model::key::{ApiKey, KeyError};
use wire::paths::API_KEY_HEADER;

/// Error for request headers without a valid API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoKey {
    /// There is no header with a key.
    #[error("missing {API_KEY_HEADER} header")]
    Missing,
    /// The content of the header is not a key.
    #[error("invalid {API_KEY_HEADER} header")]
    Unreadable(#[source] KeyError),
}

/// Prefix of a key in the `Authorization` header, by RFC 6750. Tools that read files over HTTP can send
/// this header.
const BEARER: &str = "Bearer ";

/// Returns the key in the `X-API-Key` header, or else in `Authorization: Bearer`. Other schemes of
/// `Authorization` are ignored.
///
/// # Errors
/// [`NoKey::Missing`] if the request has neither header, [`NoKey::Unreadable`] if the content is not a
/// key.
pub fn api_key(headers: &HeaderMap) -> Result<ApiKey, NoKey> {
    let text = match (headers.get(API_KEY_HEADER), headers.get(AUTHORIZATION)) {
        (Some(key), _) => key.to_str().map_err(|_| NoKey::Unreadable(KeyError))?,
        (None, Some(authorization)) => {
            let text = authorization.to_str().unwrap_or_default();
            match text.split_at_checked(BEARER.len()) {
                Some((scheme, key)) if scheme.eq_ignore_ascii_case(BEARER) => key,
                _ => return Err(NoKey::Missing),
            }
        }
        (None, None) => return Err(NoKey::Missing),
    };
    if text.trim().is_empty() {
        return Err(NoKey::Missing);
    }
    text.parse().map_err(NoKey::Unreadable)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, want: Result<&str, NoKey>) {
        let name: HeaderName = name.parse().unwrap();
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
        let got = api_key(&headers);
        assert_eq!(got.as_ref().map(ApiKey::reveal).map_err(|error| *error), want);
    }

    #[test]
    fn name_of_the_key_header_is_case_insensitive() {
        let key = "UP-0123456789abcdef01234567";
        check("X-API-Key", key, Ok(key));
        check("x-api-key", key, Ok(key));
        check("X-Api-KEY", key, Ok(key));
    }

    #[test]
    fn bearer_token_is_a_key_and_other_schemes_are_ignored() {
        let key = "UP-0123456789abcdef01234567";
        check("Authorization", &format!("Bearer {key}"), Ok(key));
        check("authorization", &format!("bearer {key}"), Ok(key));
        check("Authorization", "Bearer let me in", Err(NoKey::Unreadable(KeyError)));
        check("Authorization", "Basic dTpw", Err(NoKey::Missing));
        let [header, bearer] =
            [key, "Bearer UP-000000000000000000000000"].map(HeaderValue::from_static);
        let both = [(API_KEY_HEADER.parse().unwrap(), header), (AUTHORIZATION, bearer)];
        assert_eq!(api_key(&HeaderMap::from_iter(both)).unwrap().reveal(), key);
    }

    #[test]
    fn empty_key_header_counts_as_missing_and_text_that_is_no_key_as_invalid() {
        check("X-API-Key", "", Err(NoKey::Missing));
        check("Authorization", "UP-0123456789abcdef01234567", Err(NoKey::Missing));
        check("X-API-Key", "let me in", Err(NoKey::Unreadable(KeyError)));
    }
}
