//! `triptych keys`: API keys of the services on this machine, and keys of nodes.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use accounts::{Accounts, KeyId};
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use cluster::identity::Identity;
use task::clock::Clock;

use crate::cli::place::Place;

/// What fails where standard output takes nothing.
const PRINT: &str = "print to standard output";

/// Shown below the help of `keys node`.
const NODE_EXAMPLES: &str = "\
Examples:
  triptych keys node -o worker-1
  triptych node --private-key worker-1/priv.bin --boot-nodes MULTIADDRESS

The files are those of b7s' keyforge. Only their owner may read priv.bin, the private key.";

/// The private key's file in a folder of `keys node`.
const PRIVATE_FILE: &str = "priv.bin";

/// The subcommands of `keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print it, this once: only its hash is kept
    Create {
        /// What the key is for
        name: String,
        #[command(flatten)]
        file: KeysFile,
    },
    /// List the keys: number, state, creation, name
    List {
        #[command(flatten)]
        file: KeysFile,
    },
    /// Revoke a key for good
    Revoke {
        /// The key's number, as `list` shows it
        id: i64,
        #[command(flatten)]
        file: KeysFile,
    },
    /// Make the private key of a cluster node, and print its peer id
    #[command(after_help = NODE_EXAMPLES)]
    Node {
        /// The folder to write to: priv.bin, pub.bin, pubkey.txt, identity, peerid.txt. One that
        /// holds a key already is left as it is
        #[arg(long, short, value_name = "DIR")]
        output: PathBuf,
    },
}

/// Which accounts file.
#[derive(Debug, Args)]
pub(crate) struct KeysFile {
    /// The services' data folder [default: the platform's folder for data]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl KeysFile {
    async fn open(self) -> anyhow::Result<Accounts> {
        Place::services(self.data_dir)?.accounts(Clock::system()).await
    }
}

/// Runs a subcommand of `keys`.
///
/// # Errors
/// If the accounts file fails, or there is no such key.
pub(crate) async fn run(command: KeysCommand) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match command {
        KeysCommand::Create { name, file } => {
            let (_id, key) = file.open().await?.create_key(&name).await.context("create a key")?;
            writeln!(out, "{}", key.reveal()).context(PRINT)?;
        }
        KeysCommand::List { file } => {
            for key in file.open().await?.list().await.context("list the keys")? {
                let state = if key.revoked_at.is_some() { "revoked" } else { "valid" };
                let (id, created_at, name) = (key.id.get(), key.created_at, key.name);
                writeln!(out, "{id:>6}  {state:<7}  {created_at}  {name}").context(PRINT)?;
            }
        }
        KeysCommand::Revoke { id, file } => {
            let accounts = file.open().await?;
            if !accounts.revoke(KeyId::new(id)).await.context("revoke the key")? {
                bail!("revoke key {id}: there is none of that number that is not revoked");
            }
        }
        KeysCommand::Node { output } => {
            let identity = new_node(&output)?;
            writeln!(out, "{}", identity.peer_id()).context(PRINT)?;
        }
    }
    Ok(())
}

/// Makes the identity of a node and writes its files to `folder`, where there is none yet.
fn new_node(folder: &Path) -> anyhow::Result<Identity> {
    let private = folder.join(PRIVATE_FILE);
    if private.exists() {
        let held =
            Identity::load(&private).with_context(|| format!("replace {}", private.display()));
        bail!("write a key to {}: it holds the key of {}", folder.display(), held?.peer_id());
    }
    let identity = Identity::random();
    identity.write_keyforge(folder).context("write a node's key")?;
    Ok(identity)
}
