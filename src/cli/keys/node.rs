//! `triptych keys node`: the private key of a cluster node.

use std::path::Path;

use anyhow::{Context as _, bail};
use cluster::identity::Identity;

/// The private key's file in a folder of `keys node`.
const PRIVATE_FILE: &str = "priv.bin";

/// Makes the identity of a node and writes its files to `folder`, where there is none yet.
///
/// # Errors
/// If there is one, or the folder cannot be written to.
pub(super) fn new(folder: &Path) -> anyhow::Result<Identity> {
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
