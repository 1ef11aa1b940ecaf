//! `triptych node`: a head or a worker of a function cluster.

use std::{
    env, fs,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::Args;
use cluster::{
    identity::Identity,
    network::BootNode,
    node::{Node, NodeOptions, RoleOptions},
};
use model::node::{Role, Subgroup};
use runtime::run::Limits;
use task::{clock::Clock, group::Group};

use crate::cli::{config::folders, log, stop};

/// Bytes in a mebibyte.
const MIB: usize = 1024 * 1024;

/// The flags of `node`, named as document 1 and existing nodes name them.
#[derive(Debug, Args)]
pub(crate) struct NodeCommand {
    /// What the node does: `head` serves the REST API and hands out work, `worker` runs functions
    #[arg(long, short, default_value = "worker")]
    role: Role,
    /// Where a head serves its REST API; `:8080` means port 8080 on every interface, 0 any free port
    #[arg(long, value_name = "ADDRESS", required_if_eq("role", "head"))]
    rest_api: Option<String>,
    /// Multiaddresses of nodes to stay connected to, such as /ip4/10.0.0.5/tcp/9527/p2p/12D3KooW…
    #[arg(long, value_name = "MULTIADDRESS", value_delimiter = ',')]
    boot_nodes: Vec<BootNode>,
    /// Subgroups to join beside the general group
    #[arg(long, alias = "topics", value_name = "NAME", value_delimiter = ',')]
    topic: Vec<Subgroup>,
    /// The address the node listens on for others
    #[arg(long, short, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    address: IpAddr,
    /// The TCP port the node listens on for others, 0 for any free one
    #[arg(long, short, default_value_t = 0)]
    port: u16,
    /// The node's private key, a libp2p key file [default: a new identity at each start]
    #[arg(long, value_name = "FILE")]
    private_key: Option<PathBuf>,
    /// Where the node keeps its functions [default: a folder named by the node's identity]
    #[arg(long, value_name = "DIR")]
    function_db: Option<PathBuf>,
    /// Functions that a worker runs at once
    #[arg(long, short, default_value = "10", value_name = "N")]
    concurrency: NonZeroU32,
    /// The longest a function may run, in seconds. A head waits 20 for an answer
    #[arg(long, default_value_t = 18, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    run_limit: u64,
    /// The most memory a function may have, in MiB
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..=4095))]
    memory_limit: u16,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

/// Output of one function that is kept, in MiB. Four of them and their framing fit the longest
/// message between nodes.
const OUTPUT_MIB: usize = 1;

/// Runs a node until it is asked to stop.
///
/// # Errors
/// If the node cannot be started.
pub(crate) async fn run(command: NodeCommand) -> anyhow::Result<()> {
    log::to_stream(log::Output::Stdout, command.process.log_level)?;
    let identity = match &command.private_key {
        Some(path) => Identity::load(path).context("read the node's identity")?,
        None => Identity::random(),
    };
    let functions = Folder::choose(&command, &identity)?;
    let role = match (command.role, command.rest_api) {
        (Role::Worker, None) => RoleOptions::Worker,
        (Role::Head, Some(rest_api)) => RoleOptions::Head { rest_api },
        (Role::Worker, Some(_)) => bail!("serve a REST API from a worker: give --role head"),
        (Role::Head, None) => bail!("start a head without --rest-api, such as --rest-api :8080"),
    };
    let options = NodeOptions {
        role,
        identity,
        address: command.address,
        port: command.port,
        boot_nodes: command.boot_nodes,
        subgroups: command.topic,
        functions_dir: functions.path().to_owned(),
        concurrency: command.concurrency,
        limits: Limits {
            wall: Duration::from_secs(command.run_limit),
            memory_bytes: usize::from(command.memory_limit) * MIB,
            output_bytes: OUTPUT_MIB * MIB,
        },
    };
    let group = Group::default();
    let node = Node::start(options, &group, Clock::system()).await.context("start the node")?;
    let asked = stop::asked(command.process.parent()).await;
    node.shutdown().await;
    asked
}

/// Where a node's functions are.
enum Folder {
    /// Kept after the node has stopped.
    Kept(PathBuf),
    /// Removed when the node stops: nobody can have its identity again.
    Passing(PathBuf),
}

impl Folder {
    fn choose(command: &NodeCommand, identity: &Identity) -> anyhow::Result<Self> {
        if let Some(folder) = &command.function_db {
            return Ok(Self::Kept(folder.clone()));
        }
        let name = identity.peer_id().to_string();
        if command.private_key.is_some() {
            let base = folders()?.data_local_dir().join("nodes");
            return Ok(Self::Kept(base.join(name).join("functions")));
        }
        Ok(Self::Passing(env::temp_dir().join(format!("triptych-{name}"))))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) | Self::Passing(path) => path,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Self::Passing(path) = self {
            // What cannot be removed is left to the system, which owns the folder above.
            drop(fs::remove_dir_all(path));
        }
    }
}
