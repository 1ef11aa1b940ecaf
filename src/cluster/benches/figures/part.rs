//! Parts that run in other processes: a head, a worker, an external runtime.

use std::collections::BTreeSet;
use std::env;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use cluster::identity::Identity;
use cluster::network::{BootNode, ConnectionBounds, Connectivity};
use cluster::node::{Node, NodeOptions, RoleOptions, WorkOptions};
use cluster::worker::{CONCURRENCY_DEFAULT, ExecutionOptions, ExternalRuntime, LIMITS_DEFAULT};
use content::SourceOptions;
use model::node::Role;
use runtime::compiler::CompileIn;
use task::clock::Clock;
use task::group::Group;
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::nodes::KEY;
use crate::process::{BOOT, CONNECTIONS, FOLDER, PORT, RUNTIME, SLOTS};
use crate::{Outcome, echo, stubs};

/// Name under which this program is the external runtime. Workers pass it no variables, so it is
/// recognized by its name.
pub(crate) const RUNTIME_NAME: &str = "bls-runtime";

/// Directory of compiled functions.
const COMPILED: &str = "compiled";

/// Returns true if this program was started as the external runtime.
pub(crate) fn is_runtime() -> bool {
    own_path().file_name().is_some_and(|name| name == RUNTIME_NAME)
}

/// Returns the executor for a part: one thread for workers, as in the program.
pub(crate) fn driver(part: Option<&str>) -> io::Result<Runtime> {
    let mut driver = match part {
        Some("worker") => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    driver.enable_all().build()
}

/// Runs the command line of the external runtime.
pub(crate) fn runtime() -> ExitCode {
    let code = runtime::bls::run(env::args().skip(1), CompileIn::ThisProcess);
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Runs the part of this name.
pub(crate) async fn serve(part: &str) -> Outcome<ExitCode> {
    match part {
        "head" => head().await,
        "worker" => worker().await,
        "echo" => echo::serve().await,
        "stubs" => stubs::serve().await,
        _ => Err(format!("unknown part {part}").into()),
    }
}

/// Runs a head.
async fn head() -> Outcome<ExitCode> {
    let group = Group::default();
    let options = options(RoleOptions::Head { rest_api: "127.0.0.1:0".to_owned() })?;
    let node = Node::start(options, &group, Clock::system()).await?;
    let rest = node.api_address().ok_or("head has no REST API")?;
    print_line(&format!("{rest} {}", node.addresses().first().ok_or("head has no address")?))?;
    answer_all().await
}

/// Runs a worker.
async fn worker() -> Outcome<ExitCode> {
    let group = Group::default();
    let node = Node::start(options(RoleOptions::Worker)?, &group, Clock::system()).await?;
    print_line(node.peer_id().as_str())?;
    answer_all().await
}

/// Writes a line for the parent process.
pub(crate) fn print_line(line: &str) -> Outcome<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Responds to each line of input with the current number of tasks of the runtime, until the input is
/// closed.
async fn answer_all() -> Outcome<ExitCode> {
    let mut lines = BufReader::new(stdin()).lines();
    while lines.next_line().await?.is_some() {
        print_line(&Handle::current().metrics().num_alive_tasks().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn options(role: RoleOptions) -> Outcome<NodeOptions> {
    let folder = PathBuf::from(env::var(FOLDER)?);
    std::fs::create_dir_all(&folder)?;
    let kind = if role == RoleOptions::Worker { Role::Worker } else { Role::Head };
    Ok(NodeOptions {
        role,
        // The key is stored, so that a restarted worker is the same node.
        identity: Identity::load_or_create(&folder.join(KEY))?,
        address: Ipv4Addr::LOCALHOST.into(),
        port: env::var(PORT).map_or(Ok(0), |port| port.parse())?,
        boot_nodes: boot_nodes()?,
        connectivity: connectivity(kind)?,
        subgroups: Vec::new(),
        functions_dir: folder.join("functions"),
        sources: SourceOptions::default(),
        concurrency: match env::var(SLOTS) {
            Ok(number) => number.parse()?,
            Err(_) => CONCURRENCY_DEFAULT,
        },
        limits: LIMITS_DEFAULT,
        execution: ExecutionOptions {
            workspace: Some(folder.join("workspace")),
            compiled_folder: Some(folder.join(COMPILED)),
            compile_in: CompileIn::ThisProcess,
            external: env::var_os(RUNTIME).map(|program| ExternalRuntime {
                program: program.into(),
                variables: BTreeSet::new(),
            }),
            ..ExecutionOptions::default()
        },
        work: WorkOptions::usual(),
    })
}

fn connectivity(role: Role) -> Outcome<Connectivity> {
    let usual = Connectivity::for_role(role);
    let Ok(number) = env::var(CONNECTIONS) else { return Ok(usual) };
    Ok(Connectivity { connections: Some(ConnectionBounds::around(number.parse()?)), ..usual })
}

/// Returns the boot nodes in the environment.
pub(crate) fn boot_nodes() -> Outcome<Vec<BootNode>> {
    let boot = env::var(BOOT).unwrap_or_default();
    let addresses = boot.split(',').filter(|address| !address.is_empty());
    Ok(addresses.map(str::parse).collect::<Result<_, _>>()?)
}

fn own_path() -> PathBuf {
    env::args_os().next().map(PathBuf::from).unwrap_or_default()
}
