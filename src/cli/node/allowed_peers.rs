//! Peers that a node allows. They are named on the command line or in files, which are read again when
//! they change.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cluster::identity::is_whole;
use cluster::network::AllowedPeers;
use cluster::node::Node;
use model::node::PeerId;
use model::parse::ParseError;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::cli::parse::{STDIO, read_text};

/// Interval between reads of the files. It is short, so that a node that is added to a file is soon
/// allowed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Maximum size of a file with ids, in bytes: enough for some thousands of ids.
const FILE_BYTES_MAX: usize = 1024 * 1024;

/// A peer to allow, or a file with the ids of such peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AllowedPeer {
    /// One peer by its id.
    Peer(PeerId),
    /// A file with one id per line. Empty lines and lines that begin with # are ignored.
    File(PathBuf),
}

impl FromStr for AllowedPeer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix('@') {
            Some("") => Err("no file after @".to_owned()),
            Some(STDIO) => {
                Err("standard input cannot be read again when it changes, expected a file"
                    .to_owned())
            }
            Some(path) => Ok(Self::File(path.into())),
            None => whole_id(text).map(Self::Peer),
        }
    }
}

/// Parses the complete id of a node. Rejects a truncated id, since it would match no peer.
pub(crate) fn whole_id(text: &str) -> Result<PeerId, String> {
    let id: PeerId = text.parse().map_err(|error: ParseError| error.to_string())?;
    is_whole(&id).then_some(id).ok_or_else(|| "incomplete id: ids begin with 12D3KooW".to_owned())
}

/// Returns the peers that `flags` name directly or in files. Without flags returns `None`, which allows
/// all peers.
///
/// # Errors
/// If a file cannot be read or contains an invalid id.
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
                let shown = path.display();
                // A second read of a pipe, such as /dev/stdin, would find no ids.
                ensure!(!path.exists() || path.is_file(), "{shown} is not a regular file");
                let text = read_text(path, FILE_BYTES_MAX)?;
                for (idx, line) in text.lines().map(str::trim).enumerate() {
                    if line.is_empty() || line.starts_with('#') {
                        continue;
                    }
                    let id = whole_id(line).map_err(anyhow::Error::msg);
                    peers.insert(id.with_context(|| format!("{shown}:{}", idx + 1))?);
                }
            }
        }
    }
    Ok(Some(peers))
}

/// Updates the allowed peers of `node` whenever a file among `flags` changes. Never returns.
pub(super) async fn follow(node: &Node, flags: Vec<AllowedPeer>, mut allowed: AllowedPeers) {
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
                if now != allowed {
                    info!("the allowed peers have changed");
                    node.set_allowed(now.clone());
                    allowed = now;
                }
            }
            Err(error) if is_readable => {
                is_readable = false;
                warn!("cannot read the allowed peers, which remain unchanged: {error:#}");
            }
            Err(_) => {}
        }
    }
}
