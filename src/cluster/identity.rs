//! Who a node is: its Ed25519 key, kept in the key file format that every libp2p node reads.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use libp2p::identity::{DecodingError, Keypair};
use model::node::PeerId;

/// The longest key file read, in bytes. An Ed25519 one has 68; an RSA one, which is refused with its
/// reason, a few thousand.
const KEY_FILE_BYTES_MAX: u64 = 64 * 1024;

/// A node's private key and the peer id it proves.
///
/// Secret: its `Debug` shows the peer id alone.
#[derive(Clone)]
pub struct Identity {
    keypair: Keypair,
    peer_id: PeerId,
}

/// Why a key file was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file could not be read.
    #[error("read key file {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file is far longer than a key.
    #[error("read key file {path}, which is longer than any key")]
    TooLong {
        /// Which file.
        path: PathBuf,
    },
    /// The file holds no private key of a kind that is supported (Ed25519).
    #[error("decode key file {path} as a libp2p private key")]
    Decode {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: DecodingError,
    },
    /// The key could not be encoded.
    #[error("encode a private key for {path}")]
    Encode {
        /// Where it was to go.
        path: PathBuf,
        /// Why not.
        #[source]
        source: DecodingError,
    },
    /// The file exists already, or could not be written.
    #[error("write key file {path}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl Identity {
    /// Makes a new identity.
    #[must_use]
    pub fn random() -> Self {
        Self::of(Keypair::generate_ed25519())
    }

    /// Reads the identity in the key file `path`.
    ///
    /// # Errors
    /// [`IdentityError`] if it cannot be read or holds no key of a supported kind.
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        let unread = |source| IdentityError::Read { path: path.to_owned(), source };
        if fs::metadata(path).map_err(unread)?.len() > KEY_FILE_BYTES_MAX {
            return Err(IdentityError::TooLong { path: path.to_owned() });
        }
        let bytes = fs::read(path).map_err(unread)?;
        Keypair::from_protobuf_encoding(&bytes)
            .map(Self::of)
            .map_err(|source| IdentityError::Decode { path: path.to_owned(), source })
    }

    /// Writes the key to a new file that its owner alone may read.
    ///
    /// # Errors
    /// [`IdentityError::Write`] also if the file exists: a key is never overwritten.
    pub fn write_new(&self, path: &Path) -> Result<(), IdentityError> {
        let encoded = self
            .keypair
            .to_protobuf_encoding()
            .map_err(|source| IdentityError::Encode { path: path.to_owned(), source })?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options
            .open(path)
            .and_then(|mut file| file.write_all(&encoded).and_then(|()| file.sync_all()))
            .map_err(|source| IdentityError::Write { path: path.to_owned(), source })
    }

    /// Reads the identity in `path`, or makes one and writes it there, so that a node keeps its peer
    /// id from run to run.
    ///
    /// # Errors
    /// As [`Self::load`] and [`Self::write_new`].
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        match Self::load(path) {
            Err(IdentityError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let identity = Self::random();
                identity.write_new(path)?;
                Ok(identity)
            }
            loaded => loaded,
        }
    }

    /// The peer id that the key proves.
    #[must_use]
    pub fn peer_id(&self) -> &PeerId {
        &self.peer_id
    }

    pub(crate) fn keypair(&self) -> &Keypair {
        &self.keypair
    }

    fn of(keypair: Keypair) -> Self {
        let peer_id = named(keypair.public().to_peer_id());
        Self { keypair, peer_id }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.peer_id).finish()
    }
}

/// Returns the id of a libp2p peer in the words of the model.
#[expect(clippy::expect_used, reason = "a peer id is displayed in base58, far below the bound")]
pub(crate) fn named(peer: libp2p::PeerId) -> PeerId {
    peer.to_base58().parse().expect("a libp2p peer id is base58 text")
}

#[cfg(test)]
mod tests;
