//! Who a node is: its Ed25519 key, kept in the key file format that every libp2p node reads.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use libp2p::identity::{DecodingError, Keypair, PublicKey};
use model::node::PeerId;
use task::file::{FileMode, read_at_most, write_atomic, write_new};

/// The private key's file in a folder that keyforge writes.
const PRIVATE_FILE: &str = "priv.bin";

/// A node's private key and the peer id it proves.
///
/// Secret: its `Debug` shows the peer id alone.
#[derive(Clone, derive_more::Debug)]
#[debug("Identity({peer_id:?})")]
pub struct Identity {
    keypair: Keypair,
    peer_id: PeerId,
}

/// Why a key file was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file could not be read, or is far longer than a key.
    #[error("read key file {path}")]
    Read {
        /// Path of the key file.
        path: PathBuf,
        /// The cause of the failure.
        source: io::Error,
    },
    /// The folder holds the key of somebody else.
    #[error("keep the key file {path}, which holds the key of {peer}")]
    Other {
        /// Path of the key file.
        path: PathBuf,
        /// Whose key it holds.
        peer: PeerId,
    },
    /// The file holds no private key of a kind that is supported (Ed25519).
    #[error("decode key file {path} as a libp2p private key")]
    Decode {
        /// Path of the key file.
        path: PathBuf,
        /// The cause of the failure.
        source: DecodingError,
    },
    /// The file exists already, or could not be written.
    #[error("write key file {path}")]
    Write {
        /// Path of the key file.
        path: PathBuf,
        /// The cause of the failure.
        source: io::Error,
    },
}

impl Identity {
    /// Makes a new identity.
    pub fn random() -> Self {
        Self::from_keypair(Keypair::generate_ed25519())
    }

    /// Reads the identity in the key file `path`.
    ///
    /// # Errors
    /// [`IdentityError`] if it cannot be read or holds no key of a supported kind.
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        let unread = |source| IdentityError::Read { path: path.to_owned(), source };
        // An Ed25519 key file has 68 bytes. One with an RSA key, which is refused with a reason, has a few
        // thousand.
        let bytes = read_at_most(path, 64 * 1024).map_err(unread)?;
        Self::decode(&bytes)
            .map_err(|source| IdentityError::Decode { path: path.to_owned(), source })
    }

    /// Writes the key to a new file that its owner alone may read.
    ///
    /// # Errors
    /// [`IdentityError::Write`] also if the file exists: a key is never overwritten.
    pub fn write_new(&self, path: &Path) -> Result<(), IdentityError> {
        let encoded = self.keypair.to_protobuf_encoding().map_err(io::Error::other);
        encoded
            .and_then(|encoded| write_new(path, &encoded, FileMode::Private))
            .map_err(|source| IdentityError::Write { path: path.to_owned(), source })
    }

    /// Reads the identity in `path`, or makes one and writes it there, so that a node keeps its peer
    /// id from run to run.
    ///
    /// # Errors
    /// As [`Self::load`] and [`Self::write_new`].
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        Self::load_or(path, Self::random)
    }

    fn load_or(path: &Path, made: impl FnOnce() -> Self) -> Result<Self, IdentityError> {
        match Self::load(path) {
            Err(IdentityError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let identity = made();
                identity.write_new(path)?;
                Ok(identity)
            }
            loaded => loaded,
        }
    }

    /// Writes the files that keyforge writes to the folder `dir`, which is made if it is not there:
    /// `priv.bin` (the key, private), `pub.bin` (the public key), `pubkey.txt` (its base64),
    /// `identity` and `peerid.txt` (the peer id). Without line ends.
    ///
    /// # Errors
    /// [`IdentityError::Other`] if the folder holds another key, which is never overwritten;
    /// [`IdentityError::Write`] if a file cannot be written.
    pub fn write_keyforge(&self, dir: &Path) -> Result<(), IdentityError> {
        let unwritten =
            |path: &Path, source| IdentityError::Write { path: path.to_owned(), source };
        fs::create_dir_all(dir).map_err(|source| unwritten(dir, source))?;
        let private = dir.join(PRIVATE_FILE);
        let held = Self::load_or(&private, || self.clone())?;
        if held.peer_id != self.peer_id {
            return Err(IdentityError::Other { path: private, peer: held.peer_id });
        }
        let public = self.keypair.public().encode_protobuf();
        let (text, peer_id) = (BASE64.encode(&public), self.peer_id.as_str().as_bytes());
        let files: [(&str, &[u8]); 4] = [
            ("pub.bin", &public),
            ("pubkey.txt", text.as_bytes()),
            ("identity", peer_id),
            ("peerid.txt", peer_id),
        ];
        for (name, content) in files {
            let path = dir.join(name);
            write_atomic(&path, content, FileMode::Public)
                .map_err(|source| unwritten(&path, source))?;
        }
        Ok(())
    }

    /// The peer id that the key proves.
    pub fn peer_id(&self) -> &PeerId {
        &self.peer_id
    }

    /// Signs `bytes` with the key.
    #[expect(clippy::expect_used, reason = "no other kind of key is read, and these always sign")]
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.keypair.sign(bytes).expect("an Ed25519 key signs")
    }

    pub(crate) fn keypair(&self) -> &Keypair {
        &self.keypair
    }

    /// Reads a private key in the encoding of key files.
    fn decode(bytes: &[u8]) -> Result<Self, DecodingError> {
        Keypair::from_protobuf_encoding(bytes).map(Self::from_keypair)
    }

    fn from_keypair(keypair: Keypair) -> Self {
        let peer_id = model_peer_id(keypair.public().to_peer_id());
        Self { keypair, peer_id }
    }
}

/// Whether `peer` is the whole id of a node. A truncated one matches no peer.
pub fn is_whole(peer: &PeerId) -> bool {
    peer.as_str().parse::<libp2p::PeerId>().is_ok()
}

/// Whether `signature` is that of `peer` under `bytes`.
///
/// False also for peers whose id does not hold their public key: the long RSA ones.
pub fn is_signed_by(peer: &PeerId, bytes: &[u8], signature: &[u8]) -> bool {
    let Ok(id) = peer.as_str().parse::<libp2p::PeerId>() else { return false };
    let hash = id.as_ref();
    // With multihash code 0 (identity), the id is the key itself, as for short keys.
    if hash.code() != 0 {
        return false;
    }
    PublicKey::try_decode_protobuf(hash.digest())
        .is_ok_and(|public_key| public_key.verify(bytes, signature))
}

#[expect(clippy::expect_used, reason = "a peer id is displayed in base58, far below the bound")]
pub(crate) fn model_peer_id(peer: libp2p::PeerId) -> PeerId {
    peer.to_base58().parse().expect("a libp2p peer id is base58 text")
}

#[cfg(test)]
mod tests;
