//! Removes secrets from addresses of services, for logs and output.

use std::borrow::Cow;

/// Placeholder for the parts that are omitted.
pub const REDACTED: &str = "…";

/// Removes user, password and query from the address `text`.
///
/// `http://me:secret@host/a?token=b` becomes `http://…@host/a`. A text without `://` is unchanged
/// unless it begins with a user and a password.
#[must_use]
pub fn redact_address(text: &str) -> Cow<'_, str> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let user = rest.rsplit_once('@');
    Cow::Owned(match user.filter(|(user, _)| !scheme.is_empty() || user.contains(':')) {
        // Either the `?` or `#` is part of the password, or the `@` is part of the query. Since this is
        // unknown, the whole rest is omitted.
        Some((user, _)) if user.contains(['?', '#']) => format!("{scheme}{REDACTED}"),
        Some((_, rest)) => format!("{scheme}{REDACTED}@{}", without_query(rest)),
        None if scheme.is_empty() => return Cow::Borrowed(text),
        None => format!("{scheme}{}", without_query(rest)),
    })
}

fn without_query(text: &str) -> &str {
    text.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(redact_address(text), want);
    }

    #[test]
    fn user_password_and_query_of_an_address_are_redacted() {
        check("http://127.0.0.1:8080/api", "http://127.0.0.1:8080/api");
        check("http://me:secret@host/a?token=b", "http://…@host/a");
        check("http://secret@host", "http://…@host");
        check("https://host/a?token=b#c", "https://host/a");
        check("postgres://me:p@ss@host:abc/name", "postgres://…@host:abc/name");
        check("postgres://me:secret@[::1", "postgres://…@[::1");
        check("http://me:a?b@host", "http://…");
        check("http://host?token=a@b", "http://…");
        check("me:secret@host/name", "…@host/name");
    }

    #[test]
    fn address_without_a_secret_is_unchanged() {
        for text in ["", "nowhere", "./me@work/rows.db", "what?", "http://"] {
            check(text, text);
        }
    }
}
