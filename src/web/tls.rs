//! TLS: certificates from files.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    CertificateError, RootCertStore, ServerConfig,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject as _},
    },
    server::ParsedCertificate,
};
use tracing::warn;

/// A name that no certificate is for, asked for to learn which names there are.
const OTHER_NAME: &str = "name.invalid";

/// Where a certificate and its key are, both as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read.
    #[error("read {path}", path = path.display())]
    Read {
        /// The file that could not be read.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file holds nothing of what it is to hold, as far as that can be read.
    #[error(
        "find a {item} in {path}: the file has none as PEM, which begins with `-----BEGIN {label}`",
        path = path.display(),
        label = item.to_uppercase()
    )]
    Missing {
        /// The file without the item.
        path: PathBuf,
        /// `certificate` or `private key`.
        item: &'static str,
    },
    /// A file holds what is no certificate or key.
    #[error("use the {item} in {path}, which is damaged", path = path.display())]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// `certificate` or `private key`.
        item: &'static str,
    },
    /// The key is that of another certificate.
    #[error(
        "use the certificate in {certificate} with the key in {key}: they do not belong together",
        certificate = files.certificate.display(),
        key = files.key.display()
    )]
    Mismatch {
        /// The two files that do not match.
        files: TlsFiles,
    },
    /// TLS refused certificate and key for another reason.
    #[error(
        "use the certificate in {certificate} with the key in {key}",
        certificate = files.certificate.display(),
        key = files.key.display()
    )]
    Unfit {
        /// The two files that were refused.
        files: TlsFiles,
        /// The error of the TLS library.
        #[source]
        source: rustls::Error,
    },
}

/// What errors call the content of a file of certificates.
const CERTIFICATE: &str = "certificate";

/// What errors call the content of a file of a key.
const KEY: &str = "private key";

impl TlsError {
    /// That `item` could not be had out of `path`.
    fn of_file(path: &Path, item: &'static str, source: pem::Error) -> Self {
        let path = path.to_owned();
        match source {
            pem::Error::Io(source) => Self::Read { path, source },
            pem::Error::NoItemsFound => Self::Missing { path, item },
            _ => Self::Damaged { path, item },
        }
    }

    /// That TLS refused what is in `files`.
    fn of_pair(files: &TlsFiles, source: rustls::Error) -> Self {
        match source {
            rustls::Error::InconsistentKeys(_) => Self::Mismatch { files: files.clone() },
            rustls::Error::InvalidCertificate(CertificateError::BadEncoding) => {
                Self::Damaged { path: files.certificate.clone(), item: CERTIFICATE }
            }
            source => Self::Unfit { files: files.clone(), source },
        }
    }
}

/// What connections are secured with. Cheap to clone.
#[derive(derive_more::Debug, Clone)]
#[debug("Tls")]
pub struct Tls(pub(crate) Arc<ServerConfig>);

impl Tls {
    /// Reads a certificate and its key, and warns of one that every client refuses. Blocks shortly.
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
            warn!("clients will refuse the certificate in {path}: {why}");
        }
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// Returns why clients refuse these certificates, whatever they trust and whatever the server is
/// called; none if they may accept them.
fn refusal(certificates: &[CertificateDer<'_>]) -> Option<String> {
    let (own, others) = certificates.split_first()?;
    let parsed = match ParsedCertificate::try_from(own) {
        Ok(parsed) => parsed,
        Err(error) => return Some(error.to_string()),
    };
    // Without roots, a certificate that is fine by itself fails for its issuer alone.
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
                "it is that of an authority; make it one of a server, with openssl req -x509 by \
                 -addext basicConstraints=critical,CA:FALSE"
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
            "it names no server; add its names, with openssl req by -addext \
             subjectAltName=DNS:localhost,IP:127.0.0.1"
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
