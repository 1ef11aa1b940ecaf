//! Why a function is not kept or its content not read.

use std::{
    io,
    path::{Path, PathBuf},
};

use model::function::{FunctionId, Method, content::ContentId};

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionsError {
    /// A file could not be read or written.
    #[error("{step} {path}")]
    Files {
        /// What was being done.
        step: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The content is no WebAssembly module in the binary format.
    #[error("find a WebAssembly module in {method}")]
    NotModule {
        /// The file's name.
        method: Method,
    },
    /// The content is not what its id names.
    #[error("match {size_bytes} bytes of content with {id}")]
    Mismatch {
        /// The id that the content was claimed to have.
        id: FunctionId,
        /// How long the content is.
        size_bytes: usize,
    },
    /// The content is longer than [`super::FUNCTION_BYTES_MAX`].
    #[error("keep a function of {size_bytes} bytes")]
    TooLarge {
        /// How long it is.
        size_bytes: usize,
    },
    /// The content is no function.
    #[error("read the content of a function")]
    Content(#[from] ContentError),
    /// The store is at [`super::FUNCTIONS_MAX`] or [`super::STORE_BYTES_MAX`].
    #[error("keep one more function: the store is full")]
    Full,
    /// The program is stopping.
    #[error("finish work on the store before the program stopped")]
    Stopped,
}

/// Why some content is no function. What it names came from others, and is shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// The bytes are not in the expected format.
    #[error("read {what}")]
    Malformed {
        /// The format that was expected.
        what: &'static str,
    },
    /// A block's bytes are not those that its id names.
    #[error("match the bytes of a block with {id}")]
    Mismatch {
        /// The id that the block was claimed to have.
        id: ContentId,
    },
    /// A block that another one links to is not there.
    #[error("find block {id}")]
    Missing {
        /// The id that the link names.
        id: ContentId,
    },
    /// The content has a part that functions may not have.
    #[error("accept {what}, which functions may not have")]
    Unsupported {
        /// The part of the content that is refused, with its article.
        what: &'static str,
    },
    /// The content exceeds a limit.
    #[error("take more than {max} {what}")]
    TooMuch {
        /// What was counted, in the plural.
        what: &'static str,
        /// The most of it that is taken.
        max: usize,
    },
    /// A file's path leaves its folder, or has a name that is none.
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
    /// No file at the top of the folder is a WebAssembly module.
    #[error("find a WebAssembly module among {n_files} files")]
    NoModule {
        /// How many files there are.
        n_files: usize,
    },
    /// The manifest is no JSON of the expected shape.
    #[error("read the manifest")]
    Manifest(#[from] serde_json::Error),
    /// The archive is no tar.gz, or broken.
    #[error("unpack the archive")]
    Archive(#[from] io::Error),
    /// The manifest names an archive that is not part of the content.
    #[error("find the archive at {address}")]
    ArchiveElsewhere {
        /// The archive's address in the manifest.
        address: String,
        /// Its SHA-256, as the id of a block.
        block: ContentId,
    },
    /// The archive is not the one that the manifest names.
    #[error("match the archive with its checksum in the manifest")]
    Checksum,
}

/// Shortens a text of others for an error.
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(120).collect()
}

/// Words a failed step on a file or folder.
pub(super) fn file_error(
    step: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> FunctionsError {
    let path = path.to_owned();
    move |source| FunctionsError::Files { step, path, source }
}
