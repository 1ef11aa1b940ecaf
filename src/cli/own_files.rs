//! The services' own files, opened: accounts, identities and functions, also for the local stack.

use std::path::{Path, PathBuf};

use accounts::Accounts;
use anyhow::Context as _;
use async_trait::async_trait;
use cluster::identity::Identity;
use content::Functions;
use db::postgres::DatabaseUrl;
use model::{key::ApiKey, node::PeerId};
use stack::{
    data_dir::DataDir,
    local::{LocalFunction, Packed},
    start::ServiceFiles,
};
use task::clock::Clock;

use crate::cli::demo;

/// The name of a stack's key among the accounts.
const STACK_KEY_NAME: &str = "local stack";

/// Opens the file of accounts and API keys of `data_dir`.
///
/// # Errors
/// If it cannot be opened: with its name.
pub(crate) async fn open_accounts(data_dir: &DataDir, clock: Clock) -> anyhow::Result<Accounts> {
    let path = data_dir.accounts();
    let opened = Accounts::open(&path, clock).await;
    opened.with_context(|| format!("open the accounts in {}", path.display()))
}

/// Opens the accounts and API keys in the database at `url`, for reads alone if `is_read_only`.
///
/// # Errors
/// If they cannot be opened: with the address.
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
    opened.with_context(|| format!("open the accounts in {url}"))
}

/// The files of services of this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnFiles;

#[async_trait]
impl ServiceFiles for OwnFiles {
    async fn renew_key(&self, data_dir: &DataDir) -> anyhow::Result<ApiKey> {
        let accounts = open_accounts(data_dir, Clock::system()).await?;
        let (_id, key) =
            accounts.renew_key(STACK_KEY_NAME).await.context("make the stack's key")?;
        Ok(key)
    }

    fn load_identity(&self, key: &Path) -> anyhow::Result<PeerId> {
        let identity = Identity::load_or_create(key).context("prepare a node's identity")?;
        Ok(identity.peer_id().clone())
    }

    async fn add_functions(&self, folder: PathBuf) -> anyhow::Result<Vec<LocalFunction>> {
        let store = Functions::open(folder).await.context("open the head's functions")?;
        let mut added = Vec::new();
        for function in demo::FUNCTIONS {
            let method = function.method().parse()?;
            store.add(method, function.module).await.context("add a demo function")?;
            added.push(LocalFunction {
                name: function.name.to_owned(),
                function_id: function.id().to_string(),
                method: function.method(),
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
