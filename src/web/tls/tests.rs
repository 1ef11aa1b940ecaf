use std::path::Path;

use axum::Router;
use axum::routing::get;
use rustls::ClientConfig;
use task::group::Group;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::*;
use crate::address::Caller;
use crate::serve::serve_tls;

fn files() -> TlsFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tls");
    TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") }
}

fn connector() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(files().certificate).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn tls_listener_rejects_plain_requests() {
    let group = Group::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let show_peer = async |axum::extract::ConnectInfo(caller): axum::extract::ConnectInfo<
        Caller,
    >| { caller.0.ip().to_string() };
    let router = Router::new().route("/", get(show_peer));
    serve_tls(listener, Tls::read(&files()).unwrap(), router, &group);

    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // The response is either a TLS alert or the end of the connection.
    drop(plain.read_to_end(&mut answer).await);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");

    let silent = TcpStream::connect(address).await.unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector().connect(name, stream).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("127.0.0.1"), "{answer}");
    drop(silent);
    group.shutdown().await;
}

#[test]
fn certificate_that_every_client_would_reject_is_detected() {
    let check = |name: &str, want: Option<&str>| {
        let path = files().certificate.with_file_name(name);
        let certificates: Vec<_> =
            CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect();
        let why = refusal(&certificates);
        assert_eq!(why.is_some(), want.is_some(), "{name}: {why:?}");
        let (why, want) = (why.unwrap_or_default(), want.unwrap_or_default());
        assert!(why.contains(want), "{name}: {why}");
    };
    check("certificate.pem", None);
    check("authority.pem", Some("CA:FALSE"));
    check("nameless.pem", Some("subjectAltName"));
    check("expired.pem", Some("expired"));
}

#[test]
fn files_without_a_certificate_or_key_are_rejected() {
    let TlsFiles { certificate, key } = files();
    let swapped = TlsFiles { certificate: key.clone(), key: certificate.clone() };
    assert!(Tls::read(&swapped).is_err());
    let missing = TlsFiles { certificate, key: "/nowhere/key.pem".into() };
    let error = Tls::read(&missing).unwrap_err();
    assert_eq!(error.to_string(), "cannot read /nowhere/key.pem");
}

#[test]
fn unusable_certificate_files_are_reported_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let good = files();
    let empty = write("empty.pem", "");
    let damaged =
        write("damaged.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let other_key = write(
        "other.pem",
        "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgpiyp4jsZXJ6xf7VT\n\
         dz7r+kPIraxtk7XKplyDieLeDSmhRANCAAT/60Vwh9Un8j5rLJJbt/q8ccb7T+Qf\n\
         qqUb6i1sMl9EGEFWGREBhohIp/9CYM2Tbc/PbmluiQJU/n4Hj5EN/5fg\n-----END PRIVATE KEY-----\n",
    );
    let check = |certificate: &Path, key: &Path, want: &str| {
        let files = TlsFiles { certificate: certificate.to_owned(), key: key.to_owned() };
        let error = Tls::read(&files).unwrap_err();
        assert!(Error::source(&error).is_none(), "{error:?}");
        assert!(error.to_string().contains(want), "{error}");
    };
    check(&empty, &good.key, "empty.pem: the file has none as PEM");
    check(&good.key, &good.key, "no certificate in");
    check(&good.certificate, &good.certificate, "no private key in");
    check(&damaged, &good.key, "certificate in");
    check(&damaged, &good.key, "damaged.pem is damaged");
    check(&good.certificate, &other_key, "do not belong together");
}
