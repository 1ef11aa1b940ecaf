//! TLS: certificates from files.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore, ServerConfig};
use tracing::warn;

/// Server name that no certificate has. Verifying a certificate for this name fails with an error that
/// lists the names in the certificate.
const OTHER_NAME: &str = "name.invalid";

/// Paths of a certificate and its key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate, followed by its intermediate certificates.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
}

/// Error about a TLS file. The text names the file and the fault.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct TlsError {
    what: String,
    /// Error of the system or the TLS library, unless the text already contains it.
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Noun for the content of the certificate file in error messages.
const CERTIFICATE: &str = "certificate";

/// Noun for the content of the key file in error messages.
const KEY: &str = "private key";

impl TlsError {
    /// Creates the error for the file at `path`, from which `item` cannot be read.
    fn of_file(path: &Path, item: &str, source: pem::Error) -> Self {
        let path = path.display();
        let what = match source {
            pem::Error::Io(source) => {
                return Self { what: format!("cannot read {path}"), source: Some(source.into()) };
            }
            pem::Error::NoItemsFound => {
                let label = item.to_uppercase();
                let form = format!("PEM, which begins with `-----BEGIN {label}`");
                format!("no {item} in {path}: the file has none as {form}")
            }
            _ => format!("{item} in {path} is damaged"),
        };
        Self { what, source: None }
    }

    /// Creates the error for a certificate and key that the TLS library rejected.
    fn of_pair(files: &TlsFiles, source: rustls::Error) -> Self {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        let what = format!("cannot use the certificate in {certificate} with the key in {key}");
        match source {
            rustls::Error::InconsistentKeys(_) => {
                Self { what: format!("{what}: they do not belong together"), source: None }
            }
            rustls::Error::InvalidCertificate(CertificateError::BadEncoding) => {
                let what = format!("{CERTIFICATE} in {certificate} is damaged");
                Self { what, source: None }
            }
            source => Self { what, source: Some(source.into()) },
        }
    }
}

/// TLS configuration of connections. Cheap to clone.
#[derive(derive_more::Debug, Clone)]
#[debug("Tls")]
pub struct Tls(pub(crate) Arc<ServerConfig>);

impl Tls {
    /// Reads a certificate and its key. Logs a warning if no client will accept the certificate. Blocks
    /// briefly.
    ///
    /// # Errors
    /// [`TlsError`] if they cannot be read or used.
    pub fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let certificates = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .and_then(|all| if all.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(all) })
            .map_err(|source| TlsError::of_file(&files.certificate, CERTIFICATE, source))?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|source| TlsError::of_file(&files.key, KEY, source))?;
        let refused_later = refusal(&certificates);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(certificates, key))
            .map_err(|source| TlsError::of_pair(files, source))?;
        if let Some(why) = refused_later {
            let path = files.certificate.display();
            warn!("clients will reject the certificate in {path}: {why}");
        }
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// Returns the reason why every client will reject these certificates, regardless of its trusted roots
/// and of the server's name. Returns `None` if some client might accept them.
fn refusal(certificates: &[CertificateDer<'_>]) -> Option<String> {
    let (own, others) = certificates.split_first()?;
    let parsed = match ParsedCertificate::try_from(own) {
        Ok(parsed) => parsed,
        Err(error) => return Some(error.to_string()),
    };
    // No root is trusted here, so even a valid certificate has an unknown issuer. Any other error means
    // that the certificate is invalid.
    let checked = verify_server_cert_signed_by_trust_anchor(
        &parsed,
        &RootCertStore::empty(),
        others,
        UnixTime::now(),
        ring::default_provider().signature_verification_algorithms.all,
    );
    match checked {
        Ok(()) | Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {}
        Err(error) if error.to_string().contains("CaUsedAsEndEntity") => {
            return Some(
                "it is the certificate of an authority; create one for a server, with openssl req \
                 -x509 -addext basicConstraints=critical,CA:FALSE"
                    .to_owned(),
            );
        }
        Err(error) => return Some(error.to_string()),
    }
    let other = ServerName::try_from(OTHER_NAME).ok()?;
    match verify_server_name(&parsed, &other) {
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            presented,
            ..
        })) if presented.is_empty() => Some(
            "it has no server name; add names, with openssl req -addext \
             subjectAltName=DNS:localhost,IP:127.0.0.1"
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
