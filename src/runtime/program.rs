//! What is executed: a module's bytes, named by what they contain.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// The bytes of a module and their hash. Cheap to clone.
///
/// The hash is computed here and nowhere else, so a compiled module is never taken for another.
#[derive(Clone, derive_more::Debug)]
#[debug("Program({} bytes)", bytes.len())]
pub struct Program {
    pub(crate) key: ProgramKey,
    pub(crate) bytes: Arc<[u8]>,
}

/// The SHA-256 of a module's bytes.
pub(crate) type ProgramKey = [u8; 32];

impl Program {
    /// Takes the bytes of a WebAssembly module or component, in the binary format. They are not
    /// looked at yet.
    #[must_use]
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { key: Sha256::digest(&bytes).into(), bytes }
    }

    /// Whether it is a component, by its first bytes: after the magic, a module says version 1 in
    /// layer 0, a component is of layer 1.
    pub(crate) fn is_component(&self) -> bool {
        self.bytes.get(6..8) == Some(&[1, 0])
    }
}
