//! Identity of a node: its Ed25519 key, in the key file format of every libp2p node.

use std::path::{Path, PathBuf};
use std::{fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use libp2p::identity::{DecodingError, Keypair, PublicKey};
use model::node::PeerId;
use task::file::{FileMode, read_at_most, write_atomic, write_new};

/// Private key of a node and its peer id.
///
/// Its `Debug` output contains only the peer id.
#[derive(Clone, derive_more::Debug)]
#[debug("Identity({peer_id:?})")]
pub struct Identity {
    keypair: Keypair,
    peer_id: PeerId,
}

/// Error for a key file that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file could not be read, decoded as a key of a supported kind (Ed25519), or written.
    #[error("cannot {step} key file {path}")]
    File {
        /// Failed step, as a verb.
        step: &'static str,
        /// Path of the key file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The directory contains another key.
    #[error("key file {path} already contains the key of {peer}")]
    Other {
        /// Path of the key file.
        path: PathBuf,
        /// Peer id of the existing key.
        peer: PeerId,
    },
}

impl IdentityError {
    fn file(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { step, path, source }
    }
}

impl Identity {
    /// Generates a new identity.
    pub fn random() -> Self {
        Self::from_keypair(Keypair::generate_ed25519())
    }

    /// Reads the identity from the key file `path`.
    ///
    /// # Errors
    /// Returns [`IdentityError`] if the file cannot be read or has no key of a supported kind.
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        // An Ed25519 key file has 68 bytes. The limit is higher so that an RSA key of a few thousand
        // bytes is rejected for its kind.
        let bytes = read_at_most(path, 64 * 1024).map_err(IdentityError::file("read", path))?;
        // The reasons of libp2p name its build options, and a kind of key that the file does not have.
        Self::decode(&bytes).map_err(|_| {
            let reason = "not a private key of a libp2p node (Ed25519)";
            IdentityError::file("decode", path)(io::Error::other(reason))
        })
    }

    /// Writes the key to a new file that only its owner can read.
    ///
    /// # Errors
    /// Returns [`IdentityError::File`], also if the file exists: a key is never overwritten.
    pub fn write_new(&self, path: &Path) -> Result<(), IdentityError> {
        let encoded = self.keypair.to_protobuf_encoding().map_err(io::Error::other);
        encoded
            .and_then(|encoded| write_new(path, &encoded, FileMode::Private))
            .map_err(IdentityError::file("write", path))
    }

    /// Reads the identity from `path`, or generates one and writes it to `path` so that the node keeps
    /// its peer id.
    ///
    /// # Errors
    /// As [`Self::load`] and [`Self::write_new`].
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        Self::load_or(path, Self::random)
    }

    fn load_or(path: &Path, generate: impl FnOnce() -> Self) -> Result<Self, IdentityError> {
        match Self::load(path) {
            Err(IdentityError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let identity = generate();
                identity.write_new(path)?;
                Ok(identity)
            }
            loaded => loaded,
        }
    }

    /// Writes the same files as keyforge to the directory `dir`, which is created if missing:
    /// `priv.bin` (the private key), `pub.bin` (the public key), `pubkey.txt` (the public key in
    /// base64), `identity` and `peerid.txt` (the peer id). The texts have no line endings.
    ///
    /// # Errors
    /// Returns [`IdentityError::Other`] if the directory contains another key, which is never
    /// overwritten, and [`IdentityError::File`] if a file cannot be written.
    pub fn write_keyforge(&self, dir: &Path) -> Result<(), IdentityError> {
        fs::create_dir_all(dir).map_err(IdentityError::file("write", dir))?;
        // Name of the private key file in a directory that keyforge writes.
        let private = dir.join("priv.bin");
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
                .map_err(IdentityError::file("write", &path))?;
        }
        Ok(())
    }

    /// Returns the peer id.
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

    /// Decodes a private key in the format of key files.
    fn decode(bytes: &[u8]) -> Result<Self, DecodingError> {
        Keypair::from_protobuf_encoding(bytes).map(Self::from_keypair)
    }

    fn from_keypair(keypair: Keypair) -> Self {
        let peer_id = model_peer_id(keypair.public().to_peer_id());
        Self { keypair, peer_id }
    }
}

/// Returns true if `peer` is the full id of a node. A truncated id identifies no peer.
pub fn is_whole(peer: &PeerId) -> bool {
    peer.as_str().parse::<libp2p::PeerId>().is_ok()
}

/// Returns true if `signature` is a valid signature of `bytes` by `peer`.
///
/// Returns false for long RSA peer ids, which do not contain the public key.
pub fn is_signed_by(peer: &PeerId, bytes: &[u8], signature: &[u8]) -> bool {
    let Ok(id) = peer.as_str().parse::<libp2p::PeerId>() else { return false };
    let hash = id.as_ref();
    // The id contains the key itself only with multihash code 0 (identity), which all short keys such
    // as Ed25519 have. Other ids are hashes.
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
