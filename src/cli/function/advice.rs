//! What to do where a head cannot be used, in words of this program's options.

use client::error::ClientError;

use crate::cli::config::TOKEN_VARIABLE;

/// What a head answers where the token is missing or wrong.
const UNAUTHORIZED: u16 = 401;

/// What the causes of a broken line say, and what to do then. They are of several crates, whose
/// types do not tell these apart.
const BROKEN: [(&str, &str); 4] = [
    (
        "CaUsedAsEndEntity",
        "the head shows the certificate of an authority: make it one of a server (openssl req -x509 \
         … -addext basicConstraints=critical,CA:FALSE)",
    ),
    (
        "invalid peer certificate",
        "a certificate of your own is trusted where SSL_CERT_FILE names its file",
    ),
    ("corrupt message of type InvalidContentType", "perhaps the head is at http://, without TLS"),
    ("invalid HTTP version parsed", "perhaps the head is at https://, with TLS"),
];

/// Adds to `error` what to do about it, if that is known.
pub(crate) fn advised(error: anyhow::Error) -> anyhow::Error {
    match advice(&error) {
        Some(advice) => anyhow::anyhow!("{error:#}; {advice}"),
        None => error,
    }
}

fn advice(error: &anyhow::Error) -> Option<String> {
    let failed = error.chain().find_map(|cause| cause.downcast_ref::<ClientError>())?;
    if failed.status() == Some(UNAUTHORIZED) {
        return Some(format!("set {TOKEN_VARIABLE} to the head's token"));
    }
    let text = format!("{error:#}");
    let is_broken = matches!(failed, ClientError::Reach { .. });
    let mut known = BROKEN.iter().filter(|(known, _)| is_broken && text.contains(known));
    known.next().map(|(_, advice)| (*advice).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_comes_with_advice_where_there_is_some() {
        let advice = |status| {
            let refused = ClientError::Refused { status, message: "no".to_owned() };
            advised(anyhow::Error::new(refused).context("list the functions")).to_string()
        };
        assert!(advice(401).ends_with(": no; set TRIPTYCH_REST_TOKEN to the head's token"));
        assert_eq!(advice(404), "list the functions");
    }
}
