//! The options of a node, named as document 1 and existing nodes name them.

use std::{
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    path::PathBuf,
    str::FromStr,
};

use anyhow::Context as _;
use clap::Args;
use cluster::{head::server::RestToken, network::BootNode};
use content::{GATEWAYS_DEFAULT, Gateway};
use model::node::{Role, Subgroup};
use runtime::options::COMPILE_WITHIN;
use web::host_names::HostName;

use super::allowed_peers::AllowedPeer;
use crate::cli::{config::TOKEN_VARIABLE, log::Collector, parse::parse_pair, stop::ProcessFlags};

/// The options of `node`.
#[derive(Debug, Args)]
pub(crate) struct NodeCommand {
    /// What the node does: `head` serves the REST API and hands out work, `worker` runs functions
    #[arg(long, short, default_value = "worker")]
    pub(crate) role: Role,
    /// Nodes to stay connected to, such as /ip4/10.0.0.5/tcp/9527/p2p/12D3KooW…
    #[arg(long, value_name = "MULTIADDRESS", value_delimiter = ',')]
    pub(crate) boot_nodes: Vec<BootNode>,
    /// Subgroups to join beside the general group
    #[arg(long, alias = "topics", value_name = "NAME", value_delimiter = ',')]
    pub(crate) topic: Vec<Subgroup>,
    /// The node's private key, a libp2p key file [default: a new identity at each start]
    #[arg(long, value_name = "FILE")]
    pub(crate) private_key: Option<PathBuf>,
    /// A file of options, in YAML as of b7s nodes, or in TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) process: ProcessFlags,
    #[command(flatten)]
    pub(crate) head: HeadFlags,
    #[command(flatten)]
    pub(crate) network: NetworkFlags,
    #[command(flatten)]
    pub(crate) functions: FunctionFlags,
    #[command(flatten)]
    pub(crate) runs: RunFlags,
    #[command(flatten)]
    pub(crate) state: StateFlags,
    #[command(flatten)]
    pub(crate) unused: UnusedFlags,
}

/// Options of a head.
#[derive(Debug, Args)]
#[command(next_help_heading = "Head")]
pub(crate) struct HeadFlags {
    /// Where the REST API is served; `:8080` means port 8080 on every interface, 0 any free port
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) rest_api: Option<String>,
    /// What requests must bear (`Authorization: Bearer TOKEN`), those of this machine's own programs
    /// too; better given in the environment, where fewer see it
    #[arg(long, value_name = "TOKEN", env = TOKEN_VARIABLE, hide_env_values = true)]
    pub(crate) rest_token: Option<RestToken>,
    /// Let programs of this machine do without the token. Not for a head that a proxy on this
    /// machine passes requests on to
    #[arg(long, requires = "rest_token")]
    pub(crate) trust_loopback: bool,
    /// A name under which the REST API or the metrics are reached, beside localhost and addresses.
    /// Requests without the token that name another host are refused: a web page may have sent them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) host_name: Vec<HostName>,
    /// Serve the REST API over TLS: the certificate, in PEM, followed by those that vouch for it
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Workers to take, and clients to execute for where there is a token, by their ids; @FILE for
    /// those in a file, one per line, which is read again when it changes [default: all workers]
    #[arg(long, value_name = "PEER_ID|@FILE", value_delimiter = ',')]
    pub(crate) accept: Vec<AllowedPeer>,
    /// Give work only to workers that --accept names or `triptych nodes approve` approves; others wait,
    /// and are listed as pending
    #[arg(long)]
    pub(crate) require_approval: bool,
    /// Take signed results alone, whose worker is certain; workers of b7s sign none
    #[arg(long)]
    pub(crate) signed_results: bool,
    #[command(flatten)]
    pub(crate) relay: RelayFlags,
}

/// Options of a head that relays.
#[derive(Debug, Args)]
pub(crate) struct RelayFlags {
    /// Relay connections to workers behind NAT, which name this head with --relay-through. Where
    /// --accept or --require-approval is given, only for nodes that they name
    #[arg(long)]
    pub(crate) relay: bool,
    /// Workers that may be reached through this head at once
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) relay_reservations: u32,
    /// Connections through this head at once; one node may open half of them
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) relay_circuits: u32,
    /// The most that such a connection carries, in MiB, before it is opened again
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) relay_circuit_limit: u64,
    /// The longest that such a connection stands, in minutes, before it is opened again
    #[arg(long, value_name = "MINUTES", default_value_t = 360, value_parser = clap::value_parser!(u64).range(1..=43_200))]
    pub(crate) relay_circuit_minutes: u64,
}

/// Options of the network.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkFlags {
    /// The address the node listens on for others
    #[arg(long, short, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub(crate) address: IpAddr,
    /// The TCP port the node listens on for others, 0 for any free one
    #[arg(long, short, default_value_t = 0)]
    pub(crate) port: u16,
    /// The address or host name under which others reach the node, behind NAT or a name
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true)]
    pub(crate) dialback_address: String,
    /// The port under which others reach it [default: --port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) dialback_port: u16,
    #[command(flatten)]
    pub(crate) websocket: WebsocketFlags,
    /// Heads with --relay through which others reach this node, behind NAT, and it reaches nodes behind
    /// NAT; it stays connected to them as to --boot-nodes
    #[arg(long, value_name = "MULTIADDRESS", value_delimiter = ',')]
    pub(crate) relay_through: Vec<BootNode>,
    /// About how many connections to keep [default: 2048]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) connection_count: u32,
    /// Keep every connection that comes
    #[arg(long)]
    pub(crate) disable_connection_limits: bool,
    /// Do not dial the peers known from earlier starts
    #[arg(long)]
    pub(crate) no_dialback_peers: bool,
    /// Fail to start unless every boot node is reached
    #[arg(long)]
    pub(crate) must_reach_boot_nodes: bool,
    /// Do not discover peers (Kademlia): connect to configured ones alone
    #[arg(long)]
    pub(crate) no_rendezvous: bool,
}

/// Options of the websocket listener.
#[derive(Debug, Args)]
pub(crate) struct WebsocketFlags {
    /// Listen for websockets too
    #[arg(long, short)]
    pub(crate) websocket: bool,
    /// The port for websockets, 0 for any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) websocket_port: u16,
    /// The port under which others reach the websocket listener [default: --websocket-port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) websocket_dialback_port: u16,
}

/// Where functions come from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Functions")]
pub(crate) struct FunctionFlags {
    /// IPFS gateways asked for functions that no peer has; `none` for none
    #[arg(long, value_name = "URL", value_delimiter = ',', default_values = GATEWAYS_DEFAULT)]
    #[arg(value_parser = gateway)]
    pub(crate) gateways: Vec<Option<Gateway>>,
    /// Let addresses that others give name hosts of this machine's own network too, except link-local
    /// ones and those where clouds serve the credentials of a machine
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,
    /// A host that addresses may name whatever it is, such as 169.254.10.1 or files.internal
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// Install nothing under an id that is no CID: only a CID proves what a manifest leads to
    #[arg(long)]
    pub(crate) require_cid: bool,
}

/// How functions are run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Runs")]
pub(crate) struct RunFlags {
    /// Functions that a worker runs at once
    #[arg(long, short, default_value = "10", value_name = "N")]
    pub(crate) concurrency: NonZeroU32,
    /// The longest a function may run, in seconds. A head waits 2 more for the answer
    #[arg(long, default_value_t = 18, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) run_limit: u64,
    /// The longest that a function is compiled before its first run, in seconds. A head waits as much
    /// longer for a worker that compiles
    #[arg(long, default_value_t = COMPILE_WITHIN.as_secs(), value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) compile_limit: u64,
    /// The most memory a function may have, in kB [default: 262144, which are 256 MiB]
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "KB", value_parser = clap::value_parser!(u64).range(0..=4_194_240))]
    pub(crate) memory_limit: u64,
    /// The most a function may write to its output, both streams together. A head takes no more of
    /// a worker either
    #[arg(long, default_value_t = 16, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) output_limit: u64,
    /// Heads to obey, by their ids; @FILE for those in a file, one per line, which is read again when
    /// it changes [default: all; where there are --boot-nodes, all others share half of the slots]
    #[arg(long, value_name = "PEER_ID|@FILE", value_delimiter = ',')]
    pub(crate) obey: Vec<AllowedPeer>,
    /// What the worker declares of itself, its labels: requests may select workers that do
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = parse_pair)]
    pub(crate) attribute: Vec<(String, String)>,
    /// Run functions with another program, called as bls-runtime is: its folder
    #[arg(long, value_name = "DIR")]
    pub(crate) runtime_path: Option<PathBuf>,
    /// The name of that program [default: bls-runtime]
    #[arg(long, value_name = "NAME", requires = "runtime_path")]
    pub(crate) runtime_cli: Option<PathBuf>,
    /// Environment variables of a request that this program receives, by name; a request with any
    /// other fails [default: none]. `triptych` as the program passes all to the function, and reads
    /// none itself
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "runtime_path")]
    pub(crate) runtime_env: Vec<String>,
    /// Where a worker serves its metrics, at /metrics; a head serves them with its REST API
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) prometheus_address: Option<String>,
}

/// Where a node keeps what it keeps.
#[derive(Debug, Args)]
#[command(next_help_heading = "State")]
pub(crate) struct StateFlags {
    /// The folder of all the following [default: one named by the node's id]
    #[arg(long, value_name = "DIR")]
    pub(crate) db: Option<PathBuf>,
    /// Where the node remembers its peers [default: `peers` in --db]
    #[arg(long, value_name = "DIR")]
    pub(crate) peer_db: Option<PathBuf>,
    /// Where it keeps functions [default: `functions` in --db]
    #[arg(long, value_name = "DIR")]
    pub(crate) function_db: Option<PathBuf>,
    /// Where executions have their folders while they run [default: `workspace` in --db]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
}

/// Options of b7s nodes that have no effect here. They are read, so that a node's command line or
/// file can stay as it is; the log says which were given.
#[derive(Debug, Args)]
pub(crate) struct UnusedFlags {
    #[arg(long, hide = true, alias = "attributes")]
    pub(crate) load_attributes: bool,
    #[arg(long, hide = true, default_value_t = 0.0)]
    pub(crate) cpu_percentage_limit: f64,
    #[arg(long, hide = true)]
    pub(crate) enable_tracing: bool,
    #[arg(long, hide = true, default_value = "")]
    tracing_grpc_endpoint: String,
    #[arg(long, hide = true, default_value = "")]
    tracing_http_endpoint: String,
    #[arg(long, hide = true, default_value = "")]
    tracing_exporter_batch_timeout: String,
    /// Metrics are always there.
    #[arg(long, hide = true)]
    enable_metrics: bool,
}

impl UnusedFlags {
    /// The collector of spans, where b7s's options ask for one: it is named without `http://`.
    ///
    /// # Errors
    /// As [`Collector::parse`].
    pub(crate) fn collector(&self) -> anyhow::Result<Option<Collector>> {
        let endpoint = self.tracing_http_endpoint.as_str();
        if !self.enable_tracing || endpoint.is_empty() {
            return Ok(None);
        }
        let has_scheme = endpoint.contains("://");
        let url = if has_scheme { endpoint.to_owned() } else { format!("http://{endpoint}") };
        Collector::parse(&url).context("use --tracing-http-endpoint").map(Some)
    }

    /// Returns what was requested and is not done, with what to do instead.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = &'static str> {
        // 1 and 0 mean no limit.
        let is_limited = self.cpu_percentage_limit > 0.0 && self.cpu_percentage_limit < 1.0;
        [
            (self.load_attributes, "--load-attributes: give them with --attribute NAME=VALUE"),
            (is_limited, "--cpu-percentage-limit: give a lower --concurrency or --run-limit"),
            (
                self.enable_tracing && self.tracing_http_endpoint.is_empty(),
                "--enable-tracing: give a collector with --otlp http://HOST:4318",
            ),
        ]
        .into_iter()
        .filter_map(|(is_asked, text)| is_asked.then_some(text))
    }
}

/// Reads the address of an IPFS gateway, or the word for none.
fn gateway(text: &str) -> Result<Option<Gateway>, <Gateway as FromStr>::Err> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}
