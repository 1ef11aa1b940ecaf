//! A program: the bytes of a module, identified by their hash.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// The bytes of a module and their hash. Cheap to clone.
///
/// The hash is computed only here, so that a compiled module is never confused with another.
#[derive(Clone, derive_more::Debug)]
#[debug("Program({} bytes)", bytes.len())]
pub struct Program {
    pub(crate) key: ProgramKey,
    pub(crate) bytes: Arc<[u8]>,
}

/// The SHA-256 of a module's bytes.
pub(crate) type ProgramKey = [u8; 32];

impl Program {
    /// Creates a program from the bytes of a WebAssembly module or component in the binary format,
    /// which are not checked.
    #[must_use]
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { key: Sha256::digest(&bytes).into(), bytes }
    }

    /// Returns true if the header is the header of a component. The layer, which follows the magic and
    /// the version, is 1 for a component and 0 for a module.
    pub(crate) fn is_component(&self) -> bool {
        self.bytes.get(6..8) == Some(&[1, 0])
    }
}
