//! The REST API over TLS.

use std::process::Command;

use reqwest::{Certificate, Client};
use serde_json::Value;

use crate::support::ROOT;
use crate::support::cluster::Node;
use crate::support::command::Home;

#[tokio::test]
async fn rest_api_is_served_over_tls() {
    let at = |name: &str| format!("{ROOT}/tests/data/tls/{name}");
    let certificate = at("certificate.pem");
    let head = Node::head(&["--tls-certificate", &certificate, "--tls-key", &at("key.pem")]);
    let address = head.rest_api().replace("http://127.0.0.1", "https://localhost");
    task::process::install_crypto();
    let trusted = Certificate::from_pem(&std::fs::read(&certificate).unwrap()).unwrap();
    let client = Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap();
    let url = format!("{address}/api/v1/health");
    let health: Value = client.get(&url).send().await.unwrap().json().await.unwrap();
    assert_eq!(health["code"], 200);
    assert!(client.get(url.replace("https", "http")).send().await.is_err());
}

#[test]
fn commands_connect_to_a_head_over_tls_and_explain_failures() {
    let at = |name: &str| format!("{ROOT}/tests/data/tls/{name}");
    let certificate = at("certificate.pem");
    let head = Node::head(&["--tls-certificate", &certificate, "--tls-key", &at("key.pem")]);
    let plain = head.rest_api();
    let secure = plain.replace("http://", "https://");
    let list = |home: &Home, head: &str| home.run(&["function", "list", "--head", head]);
    let stranger = Home::new();
    let why = list(&stranger, &secure).err;
    assert!(why.contains("name its file in SSL_CERT_FILE"), "{why}");
    let why = list(&stranger, &plain).err;
    assert!(why.contains("perhaps the service is at https://"), "{why}");
    let open = Node::head(&[]);
    let why = list(&stranger, &open.rest_api().replace("http://", "https://")).err;
    assert!(why.contains("perhaps the service is at http://"), "{why}");
    // The address of a dataset service behind a proxy with TLS fails in the same way.
    let keyed = Home::new().with("TRIPTYCH_API_KEY", "UP-0123456789abcdef01234567");
    for (address, hint) in [(&secure, "name its file in SSL_CERT_FILE"), (&plain, "is at https://")]
    {
        let why = keyed.run(&["datasets", "list", "--datasets", address]).err;
        assert!(why.contains(hint), "{why}");
        let report = keyed.run(&["doctor", "--datasets", address]).out;
        assert!(report.replace("\n         ", " ").contains(hint), "{report}");
    }
    let output = list(&Home::new().with("SSL_CERT_FILE", &certificate), &secure);
    assert_eq!(output.code, 0, "{output:?}");
}

/// Returns the command that creates a certificate, as shown in the help of `node`.
fn recipe() -> String {
    let help = Home::new().run_ok(&["node", "--help"]);
    let lines = help.lines().skip_while(|line| !line.starts_with("  openssl req -x509"));
    let n_lines = lines.clone().take_while(|line| line.ends_with('\\')).count() + 1;
    lines.take(n_lines).collect::<Vec<_>>().join("\n")
}

#[test]
fn certificate_created_by_the_command_in_the_help_is_accepted() {
    let recipe = recipe();
    assert!(recipe.contains("CA:FALSE") && recipe.contains("subjectAltName"), "{recipe}");
    let home = Home::new();
    let (certificate, key) = (home.path("certificate.pem"), home.path("key.pem"));
    let mut shell = Command::new("sh");
    let folder = std::path::Path::new(&certificate).parent().unwrap();
    let created = shell.args(["-ec", &recipe]).current_dir(folder).output().unwrap();
    // If openssl is not installed, only the text of the command is checked.
    if created.status.code() == Some(127) {
        return;
    }
    assert!(created.status.success(), "{created:?}");
    let head = Node::head(&["--tls-certificate", &certificate, "--tls-key", &key]);
    let secure = head.rest_api().replace("http://", "https://");
    home.with("SSL_CERT_FILE", &certificate).run_ok(&["function", "list", "--head", &secure]);
}
