//! The flags of services that ask for API keys: how often a caller may ask, and who knows the keys.

use std::{error::Error, path::Path};

use accounts::{
    Accounts, KeyHash, KeyLookup, Keys, RemoteKeys, SignUp, Verified,
    gate::{Gate, GateOptions, Limits, Loopback},
    server::{OperatorToken, PortalOptions},
};
use anyhow::Context as _;
use async_trait::async_trait;
use axum::Router;
use clap::Args;
use client::transport::{Token, Transport};
use db::postgres::DatabaseUrl;
use model::key::KeyId;
use stack::data_dir::DataDir;
use task::{clock::Clock, file::permissions, group::Group};
use tracing::warn;
use web::{
    address::AddressSource,
    host_names::{HostName, HostNames},
};

use crate::cli::{
    config::{parsed_variable, variable},
    own_files::{connect_accounts, open_accounts},
};

/// The environment variable that holds the token with which services ask about keys.
pub(crate) const TOKEN_VARIABLE: &str = "TRIPTYCH_ACCOUNTS_TOKEN";

/// Warns of a data directory that other users of the machine can look into.
pub(crate) fn warn_of_open_folder(folder: &Path) {
    if let Some(mode) = permissions(folder).filter(|mode| mode & 0o007 != 0) {
        let folder = folder.display();
        warn!(
            "other users of this machine can look into the data directory {folder}, whose mode is \
             {mode:04o}: chmod 700 {folder}"
        );
    }
}

/// The flags of the gate in front of a service.
#[derive(Debug, Clone, Args)]
pub(crate) struct GateFlags {
    /// Requests in a second that an account may make over time with all its keys, or a key that
    /// belongs to none; 0 for no limit
    #[arg(long, default_value_t = 1000, value_name = "N", help_heading = "Limits")]
    rate: u32,
    /// Requests that it may make at once before the rate holds, 0 for a second's worth
    #[arg(long, default_value_t = 2000, value_name = "N", help_heading = "Limits")]
    burst: u32,
    /// Requests that it may make in a day of UTC, 0 for no limit
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Limits")]
    requests_per_day: u64,
    /// Bytes of bodies, both ways, that it may have in a day of UTC, 0 for no limit
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Limits")]
    bytes_per_day: u64,
    /// Limit nobody who asks from this machine
    #[arg(long, help_heading = "Limits")]
    unlimited_loopback: bool,
    /// Take the last address in X-Forwarded-For for the caller's. Only for a service that nobody
    /// but a proxy can reach
    #[arg(long, help_heading = "Limits")]
    behind_proxy: bool,
    /// A name under which the service is reached, beside localhost and addresses. Requests without a
    /// key (the portal, the health check) that name another host are refused: a web page may have
    /// sent them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    host_name: Vec<HostName>,
    /// Ask the service at this address what keys are good for, in the place of the accounts here; the
    /// token for that comes from `TRIPTYCH_ACCOUNTS_TOKEN`
    #[arg(long, env = "TRIPTYCH_ACCOUNTS", hide_env_values = true, value_name = "URL")]
    accounts: Option<String>,
}

/// The flags of the database of a service.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreFlags {
    /// Keep everything, with accounts and keys, in this PostgreSQL database, which several services may
    /// share, in place of files: `postgres://user@host/name`, with the password in PGPASSWORD or ~/.pgpass
    #[arg(long, env = "TRIPTYCH_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: Option<DatabaseUrl>,
    /// Serve from a standby, which --store names, and write nothing to it: writes get 503
    #[arg(long, requires = "store", conflicts_with = "demo")]
    pub(crate) read_only: bool,
}

impl GateFlags {
    /// The gate of a service, which the accounts in `data_dir` open, or those in the database of
    /// `store`, or those of another machine; and the accounts, if the service has them.
    ///
    /// # Errors
    /// If the accounts cannot be opened, or the address or token of others is unfit.
    pub(crate) async fn gate(
        &self,
        data_dir: &DataDir,
        StoreFlags { store, read_only }: &StoreFlags,
        clock: &Clock,
        group: &Group,
    ) -> anyhow::Result<(Gate, Option<Accounts>)> {
        warn_of_open_folder(data_dir.folder());
        let (keys, accounts) = match &self.accounts {
            None => {
                let accounts = match store {
                    None => open_accounts(data_dir, clock.clone()).await?,
                    Some(url) => {
                        warn_of_unused(data_dir, url);
                        connect_accounts(url, *read_only, clock.clone()).await?
                    }
                };
                if !read_only {
                    accounts.start_maintenance(group);
                }
                (Keys::Local(accounts.clone()), Some(accounts))
            }
            Some(url) => (Keys::Remote(RemoteKeys::new(Elsewhere::new(url)?)), None),
        };
        let options = GateOptions {
            limits: Limits {
                rate: self.rate,
                burst: self.burst,
                requests_per_day: self.requests_per_day,
                bytes_per_day: self.bytes_per_day,
            },
            loopback: if self.unlimited_loopback { Loopback::Unlimited } else { Loopback::Limited },
            addresses: self.addresses(),
            hosts: self.hosts(),
        };
        let gate = Gate::new(keys, options, clock.clone());
        Ok((gate, accounts))
    }

    /// The names under which the service is reached.
    pub(crate) fn hosts(&self) -> HostNames {
        self.host_name.iter().cloned().collect()
    }

    /// Whose word on a caller's address is taken.
    pub(crate) fn addresses(&self) -> AddressSource {
        addresses(self.behind_proxy)
    }
}

/// Says that keys of the accounts file open nothing where the accounts are in a database.
fn warn_of_unused(data_dir: &DataDir, url: &DatabaseUrl) {
    let path = data_dir.accounts();
    if path.exists() {
        warn!(
            "accounts and keys are those in {url}; those in {} open nothing here: `triptych keys \
             create NAME --database URL` makes a key",
            path.display()
        );
    }
}

/// Whose word on a caller's address is taken, by a flag.
pub(crate) fn addresses(is_behind_proxy: bool) -> AddressSource {
    if is_behind_proxy { AddressSource::Proxy } else { AddressSource::Connection }
}

/// The flags of what serves accounts.
#[derive(Debug, Clone, Args)]
pub(crate) struct PortalFlags {
    /// Whether anyone may sign up, open or closed [default: what `triptych keys sign-up` said, else
    /// open]
    #[arg(long, value_name = "open|closed", help_heading = "Accounts")]
    sign_up: Option<SignUp>,
}

impl PortalFlags {
    /// What serves `accounts` under `hosts`: an API and a page.
    ///
    /// # Errors
    /// If the operator's token is unfit.
    pub(crate) fn router(
        &self,
        accounts: Accounts,
        addresses: AddressSource,
        hosts: HostNames,
    ) -> anyhow::Result<Router> {
        let token = variable(TOKEN_VARIABLE)?.map(|text| OperatorToken::new(&text)).transpose();
        let token = token.with_context(|| format!("use {TOKEN_VARIABLE}"))?;
        let options = PortalOptions { sign_up: self.sign_up, addresses, token, hosts };
        Ok(accounts::server::router(accounts, options))
    }
}

/// Asks the service at `url`, which has the accounts, about a key that nobody has.
///
/// # Errors
/// If there is no token for that, or the service does not answer or refuses it.
pub(crate) async fn ask_for_accounts(url: &str) -> anyhow::Result<()> {
    let nobody = "0".repeat(64);
    Elsewhere::new(url)?.0.verify(nobody).await?;
    Ok(())
}

/// The accounts of another machine.
#[derive(Debug)]
struct Elsewhere(client::accounts::Accounts);

impl Elsewhere {
    fn new(url: &str) -> anyhow::Result<Self> {
        let token: Token = parsed_variable(TOKEN_VARIABLE)?.with_context(|| {
            format!("use --accounts without {TOKEN_VARIABLE}, which is not set")
        })?;
        let transport = Transport::new(url, None).context("use --accounts")?;
        Ok(Self(client::accounts::Accounts::new(transport.with_token(Some(token)))))
    }
}

#[async_trait]
impl KeyLookup for Elsewhere {
    async fn ask(&self, hash: KeyHash) -> Result<Option<Verified>, Box<dyn Error + Send + Sync>> {
        let key = self.0.verify(hash.to_string()).await?;
        Ok(key.map(Verified::from))
    }

    async fn knows(&self, id: KeyId) -> Result<bool, Box<dyn Error + Send + Sync>> {
        Ok(self.0.find_by_id(id.get()).await?.is_some())
    }
}
