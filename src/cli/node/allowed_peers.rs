//! The peers that a node allows: named on the command line, or in files that are read again.

use std::{collections::BTreeSet, fs, path::PathBuf, str::FromStr, time::Duration};

use anyhow::{Context as _, bail};
use cluster::{identity::is_whole, network::AllowedPeers, node::Node};
use model::{node::PeerId, parse::ParseError};
use tokio::time::sleep;
use tracing::{info, warn};

/// How often the files are looked at: a node that was added is to be of use soon.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The longest file of ids read, in bytes: some thousands of them.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A peer to allow, or a file of such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AllowedPeer {
    /// One peer by its id.
    Peer(PeerId),
    /// A file with one id per line. Empty lines and lines that begin with # do not count.
    File(PathBuf),
}

impl FromStr for AllowedPeer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix('@') {
            Some("") => Err("no file is named after @".to_owned()),
            Some(path) => Ok(Self::File(path.into())),
            None => whole_id(text).map(Self::Peer),
        }
    }
}

/// Reads the id of a node. A truncated id would match no peer.
pub(crate) fn whole_id(text: &str) -> Result<PeerId, String> {
    let id: PeerId = text.parse().map_err(|error: ParseError| error.to_string())?;
    is_whole(&id)
        .then_some(id)
        .ok_or_else(|| "it is not whole: such ids begin with 12D3KooW".to_owned())
}

/// Reads the peers to heed: everybody where nothing is named.
///
/// # Errors
/// If a file cannot be read, or a line of it is no id: with its number.
pub(crate) fn read(flags: &[AllowedPeer]) -> anyhow::Result<AllowedPeers> {
    if flags.is_empty() {
        return Ok(None);
    }
    let mut peers = BTreeSet::new();
    for flag in flags {
        match flag {
            AllowedPeer::Peer(peer) => {
                peers.insert(peer.clone());
            }
            AllowedPeer::File(path) => {
                let size = fs::metadata(path).map(|file| file.len());
                let size = size.with_context(|| format!("read {}", path.display()))?;
                if size > FILE_BYTES_MAX {
                    bail!("read {}: it is longer than {FILE_BYTES_MAX} bytes", path.display());
                }
                let text = fs::read_to_string(path);
                let text = text.with_context(|| format!("read {}", path.display()))?;
                for (idx, line) in text.lines().map(str::trim).enumerate() {
                    if line.is_empty() || line.starts_with('#') {
                        continue;
                    }
                    let id = whole_id(line).map_err(anyhow::Error::msg);
                    let number = idx + 1;
                    peers.insert(id.with_context(|| format!("read {}:{number}", path.display()))?);
                }
            }
        }
    }
    Ok(Some(peers))
}

/// Has `node` heed the peers in the files among `flags` as they change. Runs until it is dropped.
pub(super) async fn follow(node: &Node, flags: Vec<AllowedPeer>, mut heeded: AllowedPeers) {
    if !flags.iter().any(|flag| matches!(flag, AllowedPeer::File(_))) {
        return std::future::pending().await;
    }
    let mut is_readable = true;
    loop {
        sleep(LOOK_EVERY).await;
        let flags = flags.clone();
        let read = tokio::task::spawn_blocking(move || read(&flags)).await;
        match read.map_err(anyhow::Error::from).and_then(|read| read) {
            Ok(now) => {
                is_readable = true;
                if now != heeded {
                    info!("the peers that this node heeds have changed");
                    node.set_allowed(now.clone()).await;
                    heeded = now;
                }
            }
            Err(error) if is_readable => {
                is_readable = false;
                warn!("keep heeding the same peers: {error:#}");
            }
            Err(_) => {}
        }
    }
}
