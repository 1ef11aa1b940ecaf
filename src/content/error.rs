//! Errors of the function store.

use std::{
    io,
    path::{Path, PathBuf},
};

use model::function::{FunctionId, Method, content::ContentId};

/// An error of the function store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionsError {
    /// A file could not be read or written.
    #[error("{step} {path}")]
    Files {
        /// The operation.
        step: &'static str,
        /// File or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The content is not a WebAssembly module in the binary format.
    #[error("find a WebAssembly module in {method}")]
    NotModule {
        /// Name of the file.
        method: Method,
    },
    /// The content does not match its id.
    #[error("match {size_bytes} bytes of content with {id}")]
    Mismatch {
        /// The expected id.
        id: FunctionId,
        /// Size of the content.
        size_bytes: usize,
    },
    /// The content exceeds [`super::FUNCTION_BYTES_MAX`].
    #[error("keep a function of {size_bytes} bytes")]
    TooLarge {
        /// Size of the content.
        size_bytes: usize,
    },
    /// The content is not a function.
    #[error("read the content of a function")]
    Content(#[from] ContentError),
    /// The limits of the store are reached and nothing can be evicted.
    #[error("keep one more function: the store is full")]
    Full,
    /// The program is stopping.
    #[error("finish work on the store before the program stopped")]
    Stopped,
}

/// A reason why content is not a function. Texts from the content are shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// The bytes are not in the expected format.
    #[error("read {what}")]
    Malformed {
        /// The expected format.
        what: &'static str,
    },
    /// The bytes of a block do not match its id.
    #[error("match the bytes of a block with {id}")]
    Mismatch {
        /// The expected id.
        id: ContentId,
    },
    /// A linked block is missing.
    #[error("find block {id}")]
    Missing {
        /// Id of the block.
        id: ContentId,
    },
    /// The content has a part that functions cannot have.
    #[error("accept {what}, which functions may not have")]
    Unsupported {
        /// The rejected part, with its article.
        what: &'static str,
    },
    /// The content exceeds a limit.
    #[error("take more than {max} {what}")]
    TooMuch {
        /// The limited items, in the plural.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The path of a file leaves its directory or contains an invalid name.
    #[error("place a file at `{path}`")]
    Path {
        /// The path, shortened.
        path: String,
    },
    /// Two files have the same path.
    #[error("place two files at `{path}`")]
    Twice {
        /// The path, shortened.
        path: String,
    },
    /// No file at the top of the directory is a WebAssembly module.
    #[error("find a WebAssembly module among {n_files} files")]
    NoModule {
        /// Number of files.
        n_files: usize,
    },
    /// The manifest is not JSON of the expected shape.
    #[error("read the manifest")]
    Manifest(#[from] serde_json::Error),
    /// The archive is damaged or not a tar.gz.
    #[error("unpack the archive")]
    Archive(#[from] io::Error),
    /// The manifest names an archive that is not part of the content.
    #[error("find the archive at {address}")]
    ArchiveElsewhere {
        /// Address of the archive in the manifest.
        address: String,
        /// Its SHA-256, as the id of a block.
        block: ContentId,
    },
    /// The archive does not match the checksum in the manifest.
    #[error("match the archive with its checksum in the manifest")]
    Checksum,
}

/// Shortens a foreign text for an error.
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(120).collect()
}

/// Creates an error for an operation on a file or directory.
pub(super) fn file_error(
    step: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> FunctionsError {
    let path = path.to_owned();
    move |source| FunctionsError::Files { step, path, source }
}
