//! Access to the services' accounts files, and the files with which the local stack starts: its key,
//! identities of nodes and demo functions.

use std::path::{Path, PathBuf};

use accounts::Accounts;
use anyhow::Context as _;
use async_trait::async_trait;
use cluster::identity::Identity;
use content::Functions;
use db::postgres::DatabaseUrl;
use model::function::FunctionId;
use model::key::ApiKey;
use model::node::PeerId;
use stack::data_dir::DataDir;
use stack::local::{LocalFunction, Packed};
use stack::start::ServiceFiles;
use task::clock::Clock;

/// Name of the API key that is created for the local stack.
const STACK_KEY_NAME: &str = "local stack";

/// A demo function.
struct DemoFunction {
    name: &'static str,
    module: &'static [u8],
}

/// Demo functions. The first is the one that is suggested to new users. The sources are in
/// `assets/functions/`.
const DEMO_FUNCTIONS: [DemoFunction; 4] = [
    DemoFunction { name: "hello", module: include_bytes!("../../assets/functions/hello.wasm") },
    DemoFunction { name: "whoami", module: include_bytes!("../../assets/functions/whoami.wasm") },
    DemoFunction {
        name: "ohlcv-stats",
        module: include_bytes!("../../assets/functions/ohlcv-stats.wasm"),
    },
    DemoFunction { name: "predict", module: include_bytes!("../../assets/functions/predict.wasm") },
];

/// Opens the accounts and API keys of `data_dir`.
///
/// # Errors
/// If the file cannot be opened.
pub(crate) async fn open_accounts(data_dir: &DataDir, clock: Clock) -> anyhow::Result<Accounts> {
    let path = data_dir.accounts();
    let opened = Accounts::open(&path, clock).await;
    opened.with_context(|| format!("cannot open the accounts in {}", path.display()))
}

/// Opens the accounts and API keys in the database at `url`, without writing if `is_read_only`.
///
/// # Errors
/// If the accounts in the database cannot be opened.
pub(crate) async fn connect_accounts(
    url: &DatabaseUrl,
    is_read_only: bool,
    clock: Clock,
) -> anyhow::Result<Accounts> {
    let opened = if is_read_only {
        Accounts::connect_read_only(url, clock).await
    } else {
        Accounts::connect(url, clock).await
    };
    opened.with_context(|| format!("cannot open the accounts in {url}"))
}

/// Implements the access of the local stack to files of services.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnFiles;

#[async_trait]
impl ServiceFiles for OwnFiles {
    async fn renew_key(&self, data_dir: &DataDir) -> anyhow::Result<ApiKey> {
        let accounts = open_accounts(data_dir, Clock::system()).await?;
        let (_id, key) =
            accounts.renew_key(STACK_KEY_NAME).await.context("cannot create the stack's key")?;
        Ok(key)
    }

    fn load_identity(&self, key: &Path) -> anyhow::Result<PeerId> {
        let identity = Identity::load_or_create(key).context("cannot create a node's identity")?;
        Ok(identity.peer_id().clone())
    }

    async fn add_functions(&self, folder: PathBuf) -> anyhow::Result<Vec<LocalFunction>> {
        let store = Functions::open(folder).await.context("cannot open the head's functions")?;
        let mut added = Vec::new();
        for DemoFunction { name, module } in DEMO_FUNCTIONS {
            let method = format!("{name}.wasm");
            let stored = store.add(method.parse()?, module).await;
            stored.with_context(|| format!("cannot add demo function {name}"))?;
            added.push(LocalFunction {
                name: name.to_owned(),
                function_id: FunctionId::from_module(module).to_string(),
                method,
            });
        }
        Ok(added)
    }

    async fn pack(&self, path: &Path) -> anyhow::Result<Packed> {
        let upload = Functions::pack_path(path).await?;
        let function = upload.function;
        Ok(Packed {
            name: function.name,
            function_id: function.id.to_string(),
            method: function.method.to_string(),
            car: upload.car.to_vec(),
        })
    }
}
