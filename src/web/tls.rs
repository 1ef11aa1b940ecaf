//! TLS: certificates from files, and handshakes beside the acceptance of further connections.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::serve::Listener;
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
use task::group::Group;
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{debug, warn};

use crate::serve::{Bounded, Connection};

/// How long a handshake may take: two round trips over the slowest of lines.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Handshakes at once. More wait in the system's queue.
const HANDSHAKES_MAX: usize = 256;

/// Connections that wait to be served, their handshake done. When there are more, handshakes wait.
const READY_CAPACITY: usize = 64;

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
    /// A file could not be read, or does not hold what it should.
    #[error("read {path}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: pem::Error,
    },
    /// Certificate and key do not go together, or are of no use.
    #[error("use the certificate and its key")]
    Unfit(#[from] rustls::Error),
}

/// What connections are secured with. Cheap to clone.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a certificate and its key, and warns of one that every client refuses. Blocks shortly.
    ///
    /// # Errors
    /// [`TlsError`] if they cannot be read or used.
    pub fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let unread = |path: &PathBuf| {
            let path = path.clone();
            move |source| TlsError::Read { path, source }
        };
        let certificates = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(unread(&files.certificate))?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(unread(&files.key))?;
        if let Some(why) = refusal(&certificates) {
            let path = files.certificate.display();
            warn!("clients will refuse the certificate in {path}: {why}");
        }
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
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

/// Connections whose handshake is done.
#[derive(Debug)]
pub(crate) struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<Connection>, SocketAddr)>,
    address: io::Result<SocketAddr>,
}

impl TlsListener {
    /// Accepts connections on `listener` in tasks of `group`.
    pub(crate) fn start(listener: Bounded, tls: Tls, group: &Group) -> Self {
        let (done, ready) = mpsc::channel(READY_CAPACITY);
        let address = listener.local_addr();
        group.spawn("accept", accept_all(listener, tls, done, group.clone()));
        Self { ready, address }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<Connection>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // Its group has stopped, and with it, soon, whoever waits here.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.address.as_ref().copied().map_err(|error| error.kind().into())
    }
}

async fn accept_all(
    mut listener: Bounded,
    tls: Tls,
    done: mpsc::Sender<(TlsStream<Connection>, SocketAddr)>,
    group: Group,
) {
    let acceptor = TlsAcceptor::from(tls.0);
    let shaking = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(permit) = Arc::clone(&shaking).acquire_owned().await else { return };
        let (stream, peer) = listener.take().await;
        let (acceptor, done) = (acceptor.clone(), done.clone());
        group.spawn("handshake", async move {
            match timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
                // The server may be gone.
                Ok(Ok(stream)) => drop(done.send((stream, peer)).await),
                Ok(Err(error)) => debug!(%peer, %error, "a handshake failed"),
                Err(_) => debug!(%peer, "a handshake took too long"),
            }
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests;
