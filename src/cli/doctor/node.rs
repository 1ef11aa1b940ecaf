//! Checks of a node's file of options: key, certificate, lists of peers, ports and boot nodes.

use std::path::Path;

use anyhow::Context as _;
use cluster::identity::Identity;
use cluster::network::BootNode;
use futures::future::join_all;
use web::tls::{Tls, TlsFiles};

use super::state::check_address;
use super::{Finding, endpoints};
use crate::cli::node::{NodeCommand, allowed_peers, check_port_free};
use crate::cli::{Command, NODE, parse};

/// Checks the node options in the file `path`.
pub(super) async fn check(path: &Path) -> Vec<Finding> {
    let what = format!("node options {}", path.display());
    let arguments = ["triptych".into(), NODE.into(), "--config".into(), path.into()];
    let node = match parse(arguments.to_vec()) {
        Ok(cli) => match cli.command {
            Some(Command::Node(node)) => node,
            _ => return Vec::new(),
        },
        Err(error) => {
            let next = "correct the file; `triptych node --help` lists the options";
            return vec![Finding::failed(what, &*error, next)];
        }
    };
    let mut findings = vec![Finding::ok(what, format!("options of a {}", node.role))];
    findings.extend(check_files(&node));
    let ports = [node.network.port, node.network.websocket.websocket_port];
    for port in ports.into_iter().filter(|port| *port != 0) {
        let what = format!("port {port}");
        findings.push(match check_port_free(node.network.address, port) {
            Ok(()) => Finding::ok(what, "is free"),
            Err(error) => {
                Finding::failed(what, &*error, "stop that node, or choose another --port")
            }
        });
    }
    for address in [&node.head.rest_api, &node.runs.prometheus_address].into_iter().flatten() {
        findings.push(check_address(address).await);
    }
    match node.process.otlp.clone().map_or_else(|| node.unused.collector(), |it| Ok(Some(it))) {
        Ok(None) => {}
        Ok(Some(collector)) => findings.push(endpoints::check_collector(&collector).await),
        Err(error) => findings.push(Finding::failed("collector", &*error, "correct it")),
    }
    findings.extend(join_all(node.boot_nodes.iter().map(check_boot_node)).await);
    findings
}

fn check_files(node: &NodeCommand) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |what: &str, read: anyhow::Result<String>, next: &str| {
        findings.push(match read {
            Ok(seen) => Finding::ok(what, seen),
            Err(error) => Finding::failed(what, &*error, next),
        });
    };
    if let Some(path) = &node.private_key {
        let read = Identity::load(path).context("cannot read the identity");
        let next = "make one with `triptych keys node -o FOLDER`";
        note("private key", read.map(|it| format!("belongs to {}", it.peer_id())), next);
    }
    if let (Some(certificate), Some(key)) = (&node.head.tls_certificate, &node.head.tls_key) {
        let files = TlsFiles { certificate: certificate.clone(), key: key.clone() };
        let read =
            Tls::read(&files).context("cannot use the certificate").map(|_| "is valid".into());
        note("certificate", read, "`triptych node --help` says how to create one");
    }
    for (what, flags) in [("--accept", &node.head.accept), ("--obey", &node.runs.obey)] {
        if !flags.is_empty() {
            let read = allowed_peers::read(flags);
            let seen = read.map(|it| format!("names {} nodes", it.map_or(0, |it| it.len())));
            note(what, seen, "correct the list");
        }
    }
    findings
}

/// Checks that the address of a boot node accepts connections, whatever listens there.
async fn check_boot_node(node: &BootNode) -> Finding {
    let what = format!("boot node {node}");
    let text = node.to_string();
    let mut parts = text.split('/').skip(2);
    let (Some(host), Some("tcp"), Some(port)) = (parts.next(), parts.next(), parts.next()) else {
        return Finding::warning(what, "is not an address and a port", "");
    };
    let next = "check that the node runs, its --port, and what is between";
    let Ok(port) = port.parse::<u16>() else { return Finding::wrong(what, "has no port", next) };
    endpoints::check_port(what, host, port, next).await
}
