//! `triptych node`: runs a head or a worker of a function cluster.

pub(crate) mod allowed_peers;
mod flags;
pub(crate) mod layers;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, bail};
use cluster::head::SignaturePolicy;
use cluster::head::server::RestOptions;
use cluster::identity::Identity;
use cluster::network::{Advertised, ConnectionBounds, Connectivity};
use cluster::node::{Node, NodeOptions, RoleOptions, WorkOptions};
use cluster::worker::{ExecutionOptions, ExternalRuntime, LIMITS_DEFAULT};
use content::{Hosts, SourceOptions, StoreLimits};
use model::node::{PeerId, Role};
use runtime::compiler::CompileIn;
use runtime::run::Limits;
use stack::data_dir::{lock_folder, project_dirs};
use task::clock::Clock;
use task::group::Group;
use task::lock::Lock;
use task::private::create_folder;
use tracing::warn;
use web::serve::BindError;
use web::tls::TlsFiles;

pub(crate) use self::flags::NodeCommand;
use self::flags::{FunctionFlags, HeadFlags, NetworkFlags, RunFlags, StateFlags};
use crate::cli::config;
use crate::cli::stop::{self, StopEvents};

/// Default of `--runtime-cli`, the name of the program in the directory of `--runtime-path`.
const RUNTIME_CLI: &str = "bls-runtime";

/// Time beyond the run limit that a head waits for a response. It is for the transmission of the
/// response, and for the worker to report a run that was terminated at the limit.
const RESPONSE_MARGIN: Duration = Duration::from_secs(2);

/// Runs a node until a signal arrives.
///
/// # Errors
/// If the node cannot be started.
pub(crate) async fn run(command: NodeCommand) -> anyhow::Result<()> {
    let identity = match &command.private_key {
        Some(path) => Identity::load(path).context("cannot read the node's identity")?,
        None => Identity::random(),
    };
    let mut process = command.process.clone();
    process.otlp = process.otlp.or(command.unused.collector()?);
    let _log = process.log(&command.role.to_string(), Some(identity.peer_id().to_string()))?;
    for unused in command.unused.warnings() {
        warn!("this node does not support {unused}");
    }
    let state =
        NodeState::choose(command.state, command.private_key.is_some(), identity.peer_id())?;
    let stop_events = command.process.stop_events();
    let websocket = &command.network.websocket;
    let ports = [command.network.port, websocket.websocket_port];
    let ports = ports.into_iter().take(if websocket.websocket { 2 } else { 1 });
    let flags = allowed_peer_flags(command.role, &command.head, &command.runs)?;
    let allowed = allowed_peers::read(flags).context("cannot read the allowed peers")?;
    let flags = flags.to_vec();
    let options = NodeOptions {
        role: role(command.role, &command.head)?,
        identity,
        address: command.network.address,
        port: command.network.port,
        boot_nodes: command.boot_nodes,
        subgroups: command.topic,
        connectivity: Connectivity {
            allowed: allowed.clone(),
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
        check_port_free(options.address, port)?;
    }
    let group = Group::default();
    let started = Node::start(options, &group, Clock::system()).await;
    let node = started.context("cannot start the node")?;
    tokio::select! {
        stopped = stop::wait_for_stop(stop_events) => stopped?,
        () = allowed_peers::follow(&node, flags, allowed) => {}
    }
    tokio::select! {
        () = node.shutdown() => {}
        again = stop::wait_for_stop(StopEvents::LostTerminal) => {
            again?;
            bail!("stopped by a second signal before all functions had finished");
        }
    }
    drop(state);
    Ok(())
}

/// Checks that no process listens on `port`. A node itself could not notice this: it sets
/// `SO_REUSEPORT`, with which the system lets two nodes listen on one port and splits the connections
/// between them.
///
/// # Errors
/// If the port is in use.
pub(crate) fn check_port_free(address: IpAddr, port: u16) -> anyhow::Result<()> {
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
        (Role::Worker, Some(_)) => {
            bail!("a worker cannot serve a REST API\nhint: pass --role head")
        }
        (Role::Head, None) => bail!("a head requires --rest-api, such as --rest-api :8080"),
    }
}

/// Returns the values of the flag with the peers that a node of `role` allows: `--accept` for a head,
/// `--obey` for a worker.
///
/// # Errors
/// If the flag of the other role is given.
fn allowed_peer_flags<'a>(
    role: Role,
    head: &'a HeadFlags,
    runs: &'a RunFlags,
) -> anyhow::Result<&'a [allowed_peers::AllowedPeer]> {
    match role {
        Role::Head if !runs.obey.is_empty() => {
            bail!("--obey is for workers\nhint: a head has --accept")
        }
        Role::Worker if !head.accept.is_empty() => {
            bail!("--accept is for heads\nhint: a worker has --obey")
        }
        Role::Head => Ok(&head.accept),
        Role::Worker => Ok(&runs.obey),
    }
}

fn connectivity(
    role: Role,
    flags: &NetworkFlags,
    state: &NodeState,
) -> anyhow::Result<Connectivity> {
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
    Ok(connectivity)
}

/// Returns the addresses to advertise instead of the listen addresses.
fn advertised(flags: &NetworkFlags) -> anyhow::Result<Vec<Advertised>> {
    let host = flags.dialback_address.as_str();
    let ws = &flags.websocket;
    // The files of b7s nodes can contain their default, `0.0.0.0`, which also means that no address is
    // advertised.
    if host.is_empty() || host == "0.0.0.0" {
        if flags.dialback_port != 0 || ws.websocket_dialback_port != 0 {
            bail!("a port to advertise requires --dialback-address");
        }
        return Ok(Vec::new());
    }
    let or = |port: u16, listened: u16| if port == 0 { listened } else { port };
    let port = or(flags.dialback_port, flags.port);
    let failed = "cannot advertise the address: pass --dialback-port, or --port";
    let mut advertised = vec![Advertised::tcp(host, port).context(failed)?];
    if ws.websocket {
        let port = or(ws.websocket_dialback_port, ws.websocket_port);
        let failed =
            "cannot advertise the address: pass --websocket-dialback-port, or --websocket-port";
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
    let output_bytes = usize::try_from(flags.output_limit * 1024 * 1024).unwrap_or(usize::MAX);
    let wall = Duration::from_secs(flags.run_limit);
    Limits { wall, memory_bytes, output_bytes, ..LIMITS_DEFAULT }
}

fn execution(flags: &RunFlags, state: &NodeState) -> anyhow::Result<ExecutionOptions> {
    let name = flags.runtime_cli.as_deref().unwrap_or(Path::new(RUNTIME_CLI));
    Ok(ExecutionOptions {
        workspace: Some(state.workspace.clone()),
        compiled_folder: config::compiled_folder(),
        compile_in: CompileIn::own_child().context("cannot find this program's file")?,
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
        response_within: Duration::from_secs(runs.run_limit) + RESPONSE_MARGIN,
        compile_within: Duration::from_secs(runs.compile_limit),
        attributes: runs.attribute.into_iter().collect(),
        ..WorkOptions::usual()
    }
}

/// Directories of a node. Locks exclude other processes that use them.
#[derive(Debug)]
struct NodeState {
    /// Records of known peers.
    peers: PathBuf,
    /// Store of functions.
    functions: PathBuf,
    /// Working directories of executions.
    workspace: PathBuf,
    /// Directory of a node with a temporary identity. It is removed on drop, since no later node can
    /// have the same identity.
    temporary: Option<PathBuf>,
    /// Locks of the directories. The system releases them when the process exits, even if the process
    /// is killed.
    _locks: (Option<Lock>, Lock),
}

impl NodeState {
    /// Chooses, creates and locks the directories. Those that `flags` do not name are in a directory
    /// named by `peer_id`, which is temporary unless `is_identity_kept`.
    ///
    /// # Errors
    /// If a directory cannot be created, or another process uses it.
    fn choose(flags: StateFlags, is_identity_kept: bool, peer_id: &PeerId) -> anyhow::Result<Self> {
        let StateFlags { db, peer_db, function_db, workspace } = flags;
        let (base, temporary) = match db {
            Some(folder) => (folder, None),
            None if is_identity_kept => {
                (project_dirs()?.data_local_dir().join("nodes").join(peer_id.as_str()), None)
            }
            None => {
                let folder = env::temp_dir().join(format!("triptych-{peer_id}"));
                (folder.clone(), Some(folder))
            }
        };
        let is_base_used = peer_db.is_none() || function_db.is_none() || workspace.is_none();
        let lock = if is_base_used { Some(lock(&base, "--db")?) } else { None };
        let functions = function_db.unwrap_or_else(|| base.join("functions"));
        // The directory of functions has a lock of its own, since commands such as `function add
        // --function-db` use only that directory and lock it, too.
        let functions_lock = self::lock(&functions, "--function-db")?;
        Ok(Self {
            peers: peer_db.unwrap_or_else(|| base.join("peers")),
            functions,
            workspace: workspace.unwrap_or_else(|| base.join("workspace")),
            temporary,
            _locks: (lock, functions_lock),
        })
    }
}

/// Creates and locks a directory. If it is in use, the error suggests `flag`.
fn lock(folder: &Path, flag: &str) -> anyhow::Result<Lock> {
    let shown = folder.display();
    create_folder(folder).with_context(|| format!("cannot create {shown}"))?;
    let lock = lock_folder(folder)?;
    lock.with_context(|| {
        format!("{shown} is in use by another node or command\nhint: pass another {flag}")
    })
}

impl Drop for NodeState {
    fn drop(&mut self) {
        if let Some(path) = &self.temporary {
            // An error is ignored: the system removes old files in its directory of temporary files.
            drop(fs::remove_dir_all(path));
        }
    }
}

#[cfg(test)]
mod tests;
