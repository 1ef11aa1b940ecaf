//! `triptych node`: a head or a worker of a function cluster.

pub(crate) mod allowed_peers;
mod flags;
pub(crate) mod layers;
mod state;

use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, bail};
use cluster::{
    head::{SignaturePolicy, server::RestOptions},
    identity::Identity,
    network::{Advertised, ConnectionBounds, Connectivity, RelayLimits, RelayOptions},
    node::{Node, NodeOptions, RoleOptions, WorkOptions},
    worker::{ExecutionOptions, ExternalRuntime, LIMITS_DEFAULT},
};
use content::{Hosts, SourceOptions, StoreLimits};
use model::node::Role;
use runtime::{bls::MIB_BITS, compiler::CompileIn, run::Limits};
use task::{clock::Clock, group::Group};
use tracing::warn;
use web::{serve::BindError, tls::TlsFiles};

pub(crate) use self::flags::NodeCommand;
use self::{
    flags::{FunctionFlags, HeadFlags, NetworkFlags, RelayFlags, RunFlags},
    state::State,
};
use crate::cli::{
    config,
    stop::{self, StopEvents},
};

/// The program in the folder of `--runtime-path` where `--runtime-cli` does not name it.
const RUNTIME_CLI: &str = "bls-runtime";

/// How much longer a head waits for an answer than a function may run: the answer takes its way,
/// and a run that was cut off should still be heard of.
const ANSWER_MARGIN: Duration = Duration::from_secs(2);

/// Runs a node until it is asked to stop.
///
/// # Errors
/// If the node cannot be started.
pub(crate) async fn run(command: NodeCommand) -> anyhow::Result<()> {
    let identity = match &command.private_key {
        Some(path) => Identity::load(path).context("read the node's identity")?,
        None => Identity::random(),
    };
    let mut process = command.process.clone();
    process.otlp = process.otlp.or(command.unused.collector()?);
    let _log = process.log(&command.role.to_string(), Some(identity.peer_id().to_string()))?;
    for unused in command.unused.warnings() {
        warn!("this node does not do what is asked with {unused}");
    }
    let state = State::choose(command.state, command.private_key.is_some(), identity.peer_id())?;
    let stop_events = command.process.stop_events();
    let websocket = &command.network.websocket;
    let ports = [command.network.port, websocket.websocket_port];
    let ports = ports.into_iter().take(if websocket.websocket { 2 } else { 1 });
    let heed = allowed_peers(command.role, &command.head, &command.runs)?;
    let heeded = allowed_peers::read(&heed).context("read the peers to heed")?;
    let options = NodeOptions {
        role: role(command.role, &command.head)?,
        identity,
        address: command.network.address,
        port: command.network.port,
        boot_nodes: command.boot_nodes,
        subgroups: command.topic,
        connectivity: Connectivity {
            allowed: heeded.clone(),
            relay: relay(command.role, &command.head.relay, &command.network)?,
            ..connectivity(command.role, &command.network, &state)?
        },
        functions_dir: state.functions.clone(),
        sources: sources(command.functions),
        concurrency: command.runs.concurrency,
        limits: limits(&command.runs),
        execution: execution(&command.runs, &state)?,
        work: work(command.head, command.runs),
    };
    for port in ports {
        free(options.address, port)?;
    }
    let group = Group::default();
    let node = Node::start(options, &group, Clock::system()).await.context("start the node")?;
    tokio::select! {
        stopped = stop::wait_for_stop(stop_events) => stopped?,
        () = allowed_peers::follow(&node, heed, heeded) => {}
    }
    tokio::select! {
        () = node.shutdown() => {}
        again = stop::wait_for_stop(StopEvents::LostTerminal) => {
            again?;
            bail!("wait for the functions that run: received a second signal");
        }
    }
    drop(state);
    Ok(())
}

/// Makes sure that nobody listens on `port`. Nodes let their port be used again, so that the system
/// would give two of them on one port each a part of the connections.
///
/// # Errors
/// If somebody does.
pub(crate) fn free(address: IpAddr, port: u16) -> anyhow::Result<()> {
    if port == 0 {
        return Ok(());
    }
    let address = SocketAddr::new(address, port);
    TcpListener::bind(address).map_err(|source| BindError::new(&address.to_string(), source))?;
    Ok(())
}

fn role(role: Role, head: &HeadFlags) -> anyhow::Result<RoleOptions> {
    match (role, &head.rest_api) {
        (Role::Worker, None) => Ok(RoleOptions::Worker),
        (Role::Head, Some(rest_api)) => Ok(RoleOptions::Head { rest_api: rest_api.clone() }),
        (Role::Worker, Some(_)) => bail!("serve a REST API from a worker: give --role head"),
        (Role::Head, None) => bail!("start a head without --rest-api, such as --rest-api :8080"),
    }
}

/// The flags that name the peers a node of `role` heeds.
///
/// # Errors
/// If those of the other role are given.
fn allowed_peers(
    role: Role,
    head: &HeadFlags,
    runs: &RunFlags,
) -> anyhow::Result<Vec<allowed_peers::AllowedPeer>> {
    let (own, (others, flag)) = match role {
        Role::Head => {
            (&head.accept, (&runs.obey, "--obey: it is for workers; a head has --accept"))
        }
        Role::Worker => {
            (&runs.obey, (&head.accept, "--accept: it is for heads; a worker has --obey"))
        }
    };
    if !others.is_empty() {
        bail!("use {flag}");
    }
    Ok(own.clone())
}

fn connectivity(role: Role, flags: &NetworkFlags, state: &State) -> anyhow::Result<Connectivity> {
    let mut connectivity = Connectivity::for_role(role);
    let websocket = &flags.websocket;
    connectivity.websocket = websocket.websocket.then_some(websocket.websocket_port);
    connectivity.advertised = advertised(flags)?;
    connectivity.connections = match flags.connection_count {
        _ if flags.disable_connection_limits => None,
        0 => connectivity.connections,
        count => Some(ConnectionBounds::around(count)),
    };
    if flags.no_rendezvous {
        connectivity.wanted_peers = 0;
    }
    connectivity.peer_db = Some(state.peers.clone());
    connectivity.is_dialing_back = !flags.no_dialback_peers;
    connectivity.must_reach_boot_nodes = flags.must_reach_boot_nodes;
    Ok(connectivity)
}

/// How the node relays, and who relays for it.
///
/// # Errors
/// If a worker is asked to relay.
fn relay(role: Role, flags: &RelayFlags, network: &NetworkFlags) -> anyhow::Result<RelayOptions> {
    if flags.relay && role == Role::Worker {
        bail!("use --relay: it is for heads; a worker behind NAT has --relay-through");
    }
    let limits = RelayLimits {
        reservations: flags.relay_reservations,
        circuits: flags.relay_circuits,
        circuit_bytes: flags.relay_circuit_limit << MIB_BITS,
        circuit_for: Duration::from_mins(flags.relay_circuit_minutes),
    };
    let through = network.relay_through.clone();
    Ok(RelayOptions { limits: flags.relay.then_some(limits), through })
}

/// The addresses advertised in place of those listened on.
fn advertised(flags: &NetworkFlags) -> anyhow::Result<Vec<Advertised>> {
    let host = flags.dialback_address.as_str();
    let ws = &flags.websocket;
    // b7s nodes say so for none.
    if host.is_empty() || host == "0.0.0.0" {
        if flags.dialback_port != 0 || ws.websocket_dialback_port != 0 {
            bail!("tell others a port without --dialback-address");
        }
        return Ok(Vec::new());
    }
    let or = |port: u16, listened: u16| if port == 0 { listened } else { port };
    let port = or(flags.dialback_port, flags.port);
    let failed = "advertise the address: give --dialback-port, or --port";
    let mut advertised = vec![Advertised::tcp(host, port).context(failed)?];
    if ws.websocket {
        let port = or(ws.websocket_dialback_port, ws.websocket_port);
        let failed = "advertise the address: give --websocket-dialback-port, or --websocket-port";
        advertised.push(Advertised::websocket(host, port).context(failed)?);
    }
    Ok(advertised)
}

fn sources(flags: FunctionFlags) -> SourceOptions {
    SourceOptions {
        gateways: flags.gateways.into_iter().flatten().collect(),
        hosts: if flags.allow_private_hosts { Hosts::Any } else { Hosts::Public },
        allowed_hosts: flags.allow_host.into_iter().collect(),
        requires_cid: flags.require_cid,
        limits: StoreLimits::default(),
    }
}

fn limits(flags: &RunFlags) -> Limits {
    let memory_bytes = match usize::try_from(flags.memory_limit) {
        Ok(0) | Err(_) => LIMITS_DEFAULT.memory_bytes,
        Ok(kilobytes) => kilobytes * 1024,
    };
    let output_bytes = usize::try_from(flags.output_limit << MIB_BITS).unwrap_or(usize::MAX);
    let wall = Duration::from_secs(flags.run_limit);
    Limits { wall, memory_bytes, output_bytes, ..LIMITS_DEFAULT }
}

fn execution(flags: &RunFlags, state: &State) -> anyhow::Result<ExecutionOptions> {
    let name = flags.runtime_cli.as_deref().unwrap_or(Path::new(RUNTIME_CLI));
    Ok(ExecutionOptions {
        workspace: Some(state.workspace.clone()),
        compiled_folder: config::compiled_folder(),
        compile_in: CompileIn::own_child().context("find this program's own file")?,
        compile_within: Duration::from_secs(flags.compile_limit),
        external: flags.runtime_path.as_ref().map(|folder| ExternalRuntime {
            program: folder.join(name),
            variables: flags.runtime_env.iter().cloned().collect(),
        }),
    })
}

fn work(head: HeadFlags, runs: RunFlags) -> WorkOptions {
    let tls = head.tls_certificate.zip(head.tls_key);
    WorkOptions {
        rest: RestOptions {
            token: head.rest_token,
            hosts: head.host_name.into_iter().collect(),
            is_loopback_trusted: head.trust_loopback,
        },
        requires_approval: head.require_approval,
        rest_tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        metrics_api: runs.prometheus_address,
        signatures: if head.signed_results {
            SignaturePolicy::Required
        } else {
            SignaturePolicy::WhereGiven
        },
        answer_within: Duration::from_secs(runs.run_limit) + ANSWER_MARGIN,
        compile_within: Duration::from_secs(runs.compile_limit),
        attributes: runs.attribute.into_iter().collect(),
        ..WorkOptions::usual()
    }
}

#[cfg(test)]
mod tests;
