//! Flags of services that require API keys. They set the rate limits, and where keys are checked.

use std::error::Error;
use std::path::Path;

use accounts::gate::{Gate, GateOptions, Limits, Loopback};
use accounts::server::{OperatorToken, PortalOptions};
use accounts::{Accounts, KeyHash, KeyLookup, Keys, RemoteKeys, SignUp, Verified};
use anyhow::Context as _;
use async_trait::async_trait;
use axum::Router;
use clap::Args;
use client::transport::{Token, Transport};
use db::postgres::DatabaseUrl;
use model::key::KeyId;
use stack::data_dir::DataDir;
use task::clock::Clock;
use task::file::permissions;
use task::group::Group;
use tracing::warn;
use web::address::AddressSource;
use web::host_names::{HostName, HostNames};

use crate::cli::config::{parsed_variable, variable};
use crate::cli::own_files::{connect_accounts, open_accounts};

/// Environment variable with the token that authorizes a service to have keys checked by the service
/// that stores the accounts.
pub(crate) const TOKEN_VARIABLE: &str = "TRIPTYCH_ACCOUNTS_TOKEN";

/// Logs a warning if other users of the machine can access the data directory `folder`.
pub(crate) fn warn_of_open_folder(folder: &Path) {
    if let Some(mode) = permissions(folder).filter(|mode| mode & 0o007 != 0) {
        let folder = folder.display();
        warn!(
            "other users of this machine can read the data directory {folder}, whose mode is {mode:04o}: chmod 700 \
             {folder}"
        );
    }
}

/// Flags of the gate in front of a service.
#[derive(Debug, Clone, Args)]
pub(crate) struct GateFlags {
    /// Average number of requests per second of an account with all its keys, or of a key without
    /// an account; 0 for no limit
    #[arg(long, default_value_t = 1000, value_name = "N", help_heading = "Limits")]
    rate: u32,
    /// Number of requests of an account or key in a burst, before the rate applies; 0 for the
    /// requests of one second
    #[arg(long, default_value_t = 2000, value_name = "N", help_heading = "Limits")]
    burst: u32,
    /// Requests of an account or key per UTC day; 0 for no limit
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Limits")]
    requests_per_day: u64,
    /// Bytes of request and response bodies of an account or key per UTC day; 0 for no limit
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Limits")]
    bytes_per_day: u64,
    /// Do not limit callers on this machine
    #[arg(long, help_heading = "Limits")]
    unlimited_loopback: bool,
    /// Use the last address in X-Forwarded-For as the caller's address. Only for a service that can
    /// only be reached through a proxy
    #[arg(long, help_heading = "Limits")]
    behind_proxy: bool,
    /// Name of the service's host, in addition to names without a dot, the name of this machine and
    /// IP addresses. Requests without a key (the portal, the health check) that name another host
    /// are rejected, since a web page may have sent them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    host_name: Vec<HostName>,
    /// Check keys at the service at this address instead of with the accounts here; the token for
    /// that comes from `TRIPTYCH_ACCOUNTS_TOKEN`
    #[arg(long, env = "TRIPTYCH_ACCOUNTS", hide_env_values = true, value_name = "URL")]
    accounts: Option<String>,
}

/// Flags of a service's database.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreFlags {
    /// Store everything, with accounts and keys, in this PostgreSQL database, which several
    /// services can share, instead of files: `postgres://user@host/name`, with the password in
    /// PGPASSWORD or ~/.pgpass
    #[arg(long, env = "TRIPTYCH_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: Option<DatabaseUrl>,
    /// Serve from the standby that --store names, without writing to it. Writes are rejected with
    /// 503
    #[arg(long, requires = "store", conflicts_with = "demo")]
    pub(crate) read_only: bool,
}

impl GateFlags {
    /// Creates the gate of a service. The accounts are in `data_dir`, in the database of `store`, or at
    /// the service of `--accounts`. Also returns the accounts, unless another service has them.
    ///
    /// # Errors
    /// If the accounts cannot be opened, or the address or token of the other service is invalid.
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
                        warn_of_unused_keys(data_dir, url);
                        connect_accounts(url, *read_only, clock.clone()).await?
                    }
                };
                if !read_only {
                    accounts.start_maintenance(group);
                }
                (Keys::Local(accounts.clone()), Some(accounts))
            }
            Some(url) => (Keys::Remote(RemoteKeys::new(AccountsService::new(url)?)), None),
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

    /// Returns the names of the service's host that requests without a key may name.
    pub(crate) fn hosts(&self) -> HostNames {
        self.host_name.iter().cloned().collect()
    }

    /// Returns the source of callers' addresses.
    pub(crate) fn addresses(&self) -> AddressSource {
        addresses(self.behind_proxy)
    }
}

/// Warns that the keys of the accounts file are unused if the accounts are in a database.
fn warn_of_unused_keys(data_dir: &DataDir, url: &DatabaseUrl) {
    let path = data_dir.accounts();
    if path.exists() {
        warn!(
            "accounts and keys are those in {url}, and those in {} are unused: `triptych keys create NAME \
             --database URL` creates a key",
            path.display()
        );
    }
}

/// Returns the source of callers' addresses.
pub(crate) fn addresses(is_behind_proxy: bool) -> AddressSource {
    if is_behind_proxy { AddressSource::Proxy } else { AddressSource::Connection }
}

/// Flags of a service with accounts.
#[derive(Debug, Clone, Args)]
pub(crate) struct PortalFlags {
    /// Let anyone sign up, open or closed [default: the setting of `triptych keys sign-up`, else
    /// open, or closed once `inference serve` was started on the same accounts]
    #[arg(long, value_name = "open|closed", help_heading = "Accounts")]
    sign_up: Option<SignUp>,
}

impl PortalFlags {
    /// Returns the routes of the accounts' API and of their portal.
    ///
    /// # Errors
    /// If the operator's token is invalid.
    pub(crate) fn router(
        &self,
        accounts: Accounts,
        addresses: AddressSource,
        hosts: HostNames,
    ) -> anyhow::Result<Router> {
        let token = variable(TOKEN_VARIABLE)?.map(|text| OperatorToken::new(&text)).transpose();
        let token = token.with_context(|| format!("invalid {TOKEN_VARIABLE}"))?;
        let options = PortalOptions { sign_up: self.sign_up, addresses, token, hosts };
        Ok(accounts::server::router(accounts, options))
    }
}

/// Checks that the service of accounts at `url` accepts the token in the environment, by having it
/// check an API key that nobody has.
///
/// # Errors
/// If no token is set, or the request fails.
pub(crate) async fn check_accounts_service(url: &str) -> anyhow::Result<()> {
    let unknown = "0".repeat(64);
    AccountsService::new(url)?.0.verify(unknown).await?;
    Ok(())
}

/// Client of the service that stores the accounts.
#[derive(Debug)]
struct AccountsService(client::accounts::Accounts);

impl AccountsService {
    fn new(url: &str) -> anyhow::Result<Self> {
        let token: Token = parsed_variable(TOKEN_VARIABLE)?
            .with_context(|| format!("--accounts requires a token\nhint: set {TOKEN_VARIABLE}"))?;
        let transport = Transport::new(url, None).context("invalid --accounts")?;
        Ok(Self(client::accounts::Accounts::new(transport.with_token(Some(token)))))
    }
}

#[async_trait]
impl KeyLookup for AccountsService {
    async fn look_up(
        &self,
        hash: KeyHash,
    ) -> Result<Option<Verified>, Box<dyn Error + Send + Sync>> {
        let key = self.0.verify(hash.to_string()).await?;
        Ok(key.map(Verified::from))
    }

    async fn knows(&self, id: KeyId) -> Result<bool, Box<dyn Error + Send + Sync>> {
        Ok(self.0.find_by_id(id.get()).await?.is_some())
    }
}
