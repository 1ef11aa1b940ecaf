//! Errors of the function store.

use std::io;
use std::path::{Path, PathBuf};

use model::function::content::ContentId;
use model::function::{FunctionId, Method};

/// An error of the function store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionsError {
    /// A file could not be read or written.
    #[error("cannot {step} {}", path.display())]
    Files {
        /// Operation that failed, such as `read`.
        step: &'static str,
        /// File or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The content is not a WebAssembly module in the binary format.
    #[error("{method} is not a WebAssembly module")]
    NotModule {
        /// Name of the file.
        method: Method,
    },
    /// The content does not match its id.
    #[error("content of {size_bytes} bytes does not match id {id}")]
    Mismatch {
        /// The expected id.
        id: FunctionId,
        /// Size of the content.
        size_bytes: usize,
    },
    /// The content is not a function.
    #[error("invalid function content")]
    Content(#[from] ContentError),
    /// The limits of the store are reached and no function can be evicted.
    #[error("function store is full, and no function can be evicted")]
    Full,
    /// The program is stopping.
    #[error("process is shutting down")]
    Stopped,
}

/// A reason why content is not a function. Texts from the content are shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// The bytes are not in the expected format.
    #[error("invalid {what}")]
    Malformed {
        /// The expected format.
        what: &'static str,
    },
    /// The bytes of a block do not match its id.
    #[error("block does not match its id {id}")]
    Mismatch {
        /// The expected id.
        id: ContentId,
    },
    /// A linked block is missing.
    #[error("block {id} is missing")]
    Missing {
        /// Id of the block.
        id: ContentId,
    },
    /// The content contains something that functions cannot have.
    #[error("{what} is not supported")]
    Unsupported {
        /// Noun with an article that describes the rejected content.
        what: &'static str,
    },
    /// The content exceeds a limit.
    #[error("more than {max} {what}")]
    TooMuch {
        /// Plural noun for the counted items.
        what: &'static str,
        /// Limit that the content exceeds.
        max: usize,
    },
    /// The content or its files exceed a limit, which can be lower than
    /// [`FUNCTION_BYTES_MAX`](crate::FUNCTION_BYTES_MAX).
    #[error("content exceeds {max} bytes")]
    TooLarge {
        /// Limit that the content exceeds.
        max: usize,
    },
    /// The path of a file leaves its directory or contains an invalid name.
    #[error("invalid path `{path}`")]
    Path {
        /// The path, shortened.
        path: String,
    },
    /// Two files have the same path.
    #[error("duplicate path `{path}`")]
    Twice {
        /// The path, shortened.
        path: String,
    },
    /// No file at the top of the directory is a WebAssembly module.
    #[error("no WebAssembly module among {n_files} files")]
    NoModule {
        /// Number of files.
        n_files: usize,
    },
    /// The manifest is not JSON of the expected shape.
    #[error("invalid manifest")]
    Manifest(#[from] serde_json::Error),
    /// The archive is damaged or not a tar.gz.
    #[error("invalid archive")]
    Archive(#[from] io::Error),
    /// The manifest names an archive that is not part of the content.
    #[error("archive {address} of the manifest is missing in the function's content")]
    ArchiveElsewhere {
        /// Address of the archive in the manifest.
        address: String,
        /// SHA-256 of the archive, as the id of a block.
        block: ContentId,
    },
    /// The archive does not match the checksum in the manifest.
    #[error("archive does not match its checksum in the manifest")]
    Checksum,
}

/// Shortens a text from a peer or archive for an error.
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(120).collect()
}

/// Returns a function that wraps an I/O error of the operation `step` on `path`.
pub(super) fn file_error(
    step: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> FunctionsError {
    let path = path.to_owned();
    move |source| FunctionsError::Files { step, path, source }
}
