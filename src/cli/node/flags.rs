//! Options of a node, with the names that b7s and its existing nodes use.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use clap::Args;
use cluster::head::server::RestToken;
use cluster::network::BootNode;
use content::{GATEWAYS_DEFAULT, Gateway};
use model::node::{Role, Subgroup};
use runtime::options::COMPILE_WITHIN;
use web::host_names::HostName;

use super::allowed_peers::AllowedPeer;
use crate::cli::config::TOKEN_VARIABLE;
use crate::cli::log::Collector;
use crate::cli::parse::parse_pair;
use crate::cli::stop::ProcessFlags;

/// The options of `node`.
#[derive(Debug, Args)]
pub(crate) struct NodeCommand {
    /// Role of the node: `head` serves the REST API and distributes work, `worker` executes
    /// functions
    #[arg(long, short, default_value = "worker")]
    pub(crate) role: Role,
    /// Nodes to stay connected to, such as /ip4/10.0.0.5/tcp/9527/p2p/12D3KooW…
    #[arg(long, value_name = "MULTIADDRESS", value_delimiter = ',')]
    pub(crate) boot_nodes: Vec<BootNode>,
    /// Subgroups to join, in addition to the general group
    #[arg(long, alias = "topics", value_name = "NAME", value_delimiter = ',')]
    pub(crate) topic: Vec<Subgroup>,
    /// Private key of the node, a libp2p key file [default: a new identity at each start]
    #[arg(long, value_name = "FILE")]
    pub(crate) private_key: Option<PathBuf>,
    /// File of options, in YAML as for b7s nodes, or in TOML
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
    /// Address of the REST API; `:8080` means port 8080 on all interfaces, 0 any free port
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) rest_api: Option<String>,
    /// Token that requests must have (`Authorization: Bearer TOKEN`), also from this machine;
    /// better set in the environment, which other users cannot read
    #[arg(long, value_name = "TOKEN", env = TOKEN_VARIABLE, hide_env_values = true)]
    pub(crate) rest_token: Option<RestToken>,
    /// Do not require the token from programs on this machine. Not for a head behind a proxy on
    /// this machine
    #[arg(long, requires = "rest_token")]
    pub(crate) trust_loopback: bool,
    /// Name of the host of the REST API or the metrics, in addition to names without a dot, the
    /// name of this machine and IP addresses. Requests without the token that name another host
    /// are rejected, since a web page may have sent them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) host_name: Vec<HostName>,
    /// Serve the REST API over TLS with this certificate and the certificates of its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Ids of workers to accept. If the REST API requires a token, also ids of nodes that can
    /// request executions over the network. @FILE reads one id per line from a file, and again when
    /// the file changes [default: all workers]
    #[arg(long, value_name = "PEER_ID|@FILE", value_delimiter = ',')]
    pub(crate) accept: Vec<AllowedPeer>,
    /// Give work only to workers that --accept names or `triptych nodes approve` approves. Others
    /// are listed as pending
    #[arg(long)]
    pub(crate) require_approval: bool,
    /// Accept only signed results, which prove their worker; workers of b7s do not sign
    #[arg(long)]
    pub(crate) signed_results: bool,
}

/// Options of the network.
#[derive(Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkFlags {
    /// Address to listen on for other nodes
    #[arg(long, short, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub(crate) address: IpAddr,
    /// TCP port to listen on for other nodes, 0 for any free port
    #[arg(long, short, default_value_t = 0)]
    pub(crate) port: u16,
    /// Address or host name to advertise, for a node behind NAT or with a host name
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true)]
    pub(crate) dialback_address: String,
    /// Port to advertise [default: --port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) dialback_port: u16,
    #[command(flatten)]
    pub(crate) websocket: WebsocketFlags,
    /// Approximate number of connections to keep [default: 2048]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) connection_count: u32,
    /// Keep all connections
    #[arg(long)]
    pub(crate) disable_connection_limits: bool,
    /// Do not dial peers known from earlier starts
    #[arg(long)]
    pub(crate) no_dialback_peers: bool,
    /// Do not discover peers (Kademlia), and connect only to configured peers
    #[arg(long)]
    pub(crate) no_rendezvous: bool,
}

/// Options of the websocket listener.
#[derive(Debug, Args)]
pub(crate) struct WebsocketFlags {
    /// Listen for websockets, too
    #[arg(long, short)]
    pub(crate) websocket: bool,
    /// Port for websockets, 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) websocket_port: u16,
    /// Port of websockets to advertise [default: --websocket-port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) websocket_dialback_port: u16,
}

/// Sources of functions.
#[derive(Debug, Args)]
#[command(next_help_heading = "Functions")]
pub(crate) struct FunctionFlags {
    /// IPFS gateways for functions that no peer has; `none` for none
    #[arg(long, value_name = "URL", value_delimiter = ',', default_values = GATEWAYS_DEFAULT)]
    #[arg(value_parser = gateway)]
    pub(crate) gateways: Vec<Option<Gateway>>,
    /// Allow addresses in manifests to lead to hosts of this machine's own network, except
    /// link-local addresses and addresses at which clouds serve credentials
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,
    /// Host to which addresses in manifests may lead even if it is private or link-local, such as
    /// 169.254.10.1 or files.internal
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// Install only under CIDs, which prove the content
    #[arg(long)]
    pub(crate) require_cid: bool,
}

/// Execution of functions.
#[derive(Debug, Args)]
#[command(next_help_heading = "Runs")]
pub(crate) struct RunFlags {
    /// Number of functions that a worker executes at a time
    #[arg(long, short, default_value = "10", value_name = "N")]
    pub(crate) concurrency: NonZeroU32,
    /// Maximum run time of a function, in seconds. A head waits 2 s longer for the response
    #[arg(long, default_value_t = 18, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) run_limit: u64,
    /// Maximum time to compile a function before its first run, in seconds. A head waits that much
    /// longer for a worker that compiles
    #[arg(long, default_value_t = COMPILE_WITHIN.as_secs(), value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) compile_limit: u64,
    /// Maximum memory of a function, in kB [default: 262144, which are 256 MiB]
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "KB", value_parser = clap::value_parser!(u64).range(0..=4_194_240))]
    pub(crate) memory_limit: u64,
    /// Maximum output of a function, standard output and standard error together. A head accepts a
    /// worker's response if its JSON has at most six times this size
    #[arg(long, default_value_t = 16, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) output_limit: u64,
    /// Ids of heads to obey; @FILE reads one id per line from a file, and again when the file
    /// changes [default: all heads; if --boot-nodes is given, heads that it does not name share
    /// half of the slots]
    #[arg(long, value_name = "PEER_ID|@FILE", value_delimiter = ',')]
    pub(crate) obey: Vec<AllowedPeer>,
    /// Attribute of the worker, by which requests can select workers
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = parse_pair)]
    pub(crate) attribute: Vec<(String, String)>,
    /// Directory of another program that executes functions, with the command line of bls-runtime.
    /// If that program is `triptych`, the node executes them itself
    #[arg(long, value_name = "DIR")]
    pub(crate) runtime_path: Option<PathBuf>,
    /// Name of that program [default: bls-runtime]
    #[arg(long, value_name = "NAME", requires = "runtime_path")]
    pub(crate) runtime_cli: Option<PathBuf>,
    /// Names of environment variables of a request that are passed to the program of
    /// --runtime-path. A request with any other variable fails [default: none]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "runtime_path")]
    pub(crate) runtime_env: Vec<String>,
    /// Address of a worker's metrics, at /metrics; a head serves them with its REST API
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) prometheus_address: Option<String>,
}

/// Directories of a node's state.
#[derive(Debug, Args)]
#[command(next_help_heading = "State")]
pub(crate) struct StateFlags {
    /// Directory of the following directories [default: a directory named by the node's id]
    #[arg(long, value_name = "DIR")]
    pub(crate) db: Option<PathBuf>,
    /// Directory of known peers [default: `peers` in --db]
    #[arg(long, value_name = "DIR")]
    pub(crate) peer_db: Option<PathBuf>,
    /// Directory of functions [default: `functions` in --db]
    #[arg(long, value_name = "DIR")]
    pub(crate) function_db: Option<PathBuf>,
    /// Directory of the working directories of executions [default: `workspace` in --db]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
}

/// Options of b7s nodes that have no effect, or only a limited one, here. They are accepted so that the
/// command line or file of a b7s node can be used unchanged. The log lists those that are not
/// supported.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate switch on the command line")]
pub(crate) struct UnusedFlags {
    #[arg(long, hide = true)]
    must_reach_boot_nodes: bool,
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
    /// Has no effect, since metrics are always served.
    #[arg(long, hide = true)]
    enable_metrics: bool,
}

impl UnusedFlags {
    /// Returns the collector of spans that the options of b7s name. These options contain the
    /// collector's address without `http://`.
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
        Collector::parse(&url).context("invalid --tracing-http-endpoint").map(Some)
    }

    /// Returns a text for each unsupported option that is given, with advice about the alternative.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = &'static str> {
        // In b7s, both 0 and 1 mean that the CPU usage is not limited.
        let is_limited = self.cpu_percentage_limit > 0.0 && self.cpu_percentage_limit < 1.0;
        [
            (
                self.must_reach_boot_nodes,
                "--must-reach-boot-nodes: the log names boot nodes that cannot be reached, which are dialed again",
            ),
            (self.load_attributes, "--load-attributes: pass them with --attribute NAME=VALUE"),
            (is_limited, "--cpu-percentage-limit: pass a lower --concurrency or --run-limit"),
            (
                self.enable_tracing && self.tracing_http_endpoint.is_empty(),
                "--enable-tracing: pass a collector with --otlp http://HOST:4318",
            ),
        ]
        .into_iter()
        .filter_map(|(is_given, text)| is_given.then_some(text))
    }
}

/// Parses the address of an IPFS gateway. Returns `None` for the word `none`, which disables gateways.
fn gateway(text: &str) -> Result<Option<Gateway>, <Gateway as FromStr>::Err> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}
