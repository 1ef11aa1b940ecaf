//! Functions: WebAssembly modules named by what they contain.

use std::{fmt, str::FromStr};

use cid::Cid;
use multihash_codetable::{Code, MultihashDigest as _};

/// The multicodec of a raw block: the bytes are the content itself.
const RAW_CODEC: u64 = 0x55;

/// The longest method name taken, in bytes.
const METHOD_BYTES_MAX: usize = 255;

/// What identifies a function: the content id (CID) of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(Cid);

/// The name of the file inside a function that is to run, such as `hello.wasm`.
///
/// A single path segment: it cannot name anything outside the function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(String);

/// Why a text or some bytes are not a function's id or method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionError {
    /// The text is no content id.
    #[error("read `{text}` as a content id (CID) such as bafkrei…")]
    Id {
        /// The text, shortened.
        text: String,
    },
    /// The text is no file name.
    #[error("read `{text}` as a method, which is one file name such as hello.wasm")]
    Method {
        /// The text, shortened.
        text: String,
    },
}

impl FunctionId {
    /// Returns the id of a function that is one module: the version 1 CID of a raw block, by
    /// SHA-256, as any IPFS tool computes it for a file of at most one block.
    #[must_use]
    pub fn of_module(bytes: &[u8]) -> Self {
        Self(Cid::new_v1(RAW_CODEC, Code::Sha2_256.digest(bytes)))
    }

    /// Whether `bytes` are the content that this id names.
    ///
    /// False for content that is not a raw block hashed by SHA-256: such an id names a tree of
    /// blocks, which one piece of bytes cannot prove.
    #[must_use]
    pub fn is_of_module(&self, bytes: &[u8]) -> bool {
        self.0.codec() == RAW_CODEC && self.0.hash() == &Code::Sha2_256.digest(bytes)
    }
}

impl fmt::Display for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FunctionId {
    type Err = FunctionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse()
            .map(Self)
            .map_err(|_| FunctionError::Id { text: text.chars().take(80).collect() })
    }
}

impl Method {
    /// The file name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Method {
    type Err = FunctionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unfit = |c: char| matches!(c, '/' | '\\' | ':') || c.is_control();
        if matches!(text, "" | "." | "..")
            || text.len() > METHOD_BYTES_MAX
            || text.chars().any(unfit)
        {
            return Err(FunctionError::Method { text: text.chars().take(80).collect() });
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
