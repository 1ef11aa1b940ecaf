//! The files of a function.
//!
//! A directory without a module at its top but with a manifest is a package, as b7s nodes install it:
//! the files of its archive are added to the files of the directory. The archive is either a file of the
//! directory, or a separate block identified by the checksum in the manifest.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use model::function::Method;
use model::function::content::ContentId;

use super::MAGIC;
use super::archive::unpack;
use super::dag::{Dag, File, Tree};
use super::error::{ContentError, shorten};
use super::manifest::{self, Manifest};
use super::pack::Entry;

/// The files of a verified function. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    files: ContentFiles,
    /// Function name in the manifest; `None` without a manifest or without a name in it.
    pub(super) name: Option<String>,
    /// Block of the archive, if it is not part of the tree.
    pub(super) archive: Option<ContentId>,
}

#[derive(Debug, Clone)]
enum ContentFiles {
    Module(Bytes),
    /// Files of a directory, followed by files that were unpacked from its archive.
    Folder(Arc<[File]>),
}

impl Contents {
    /// Creates the contents of a single module.
    pub(super) fn from_module(bytes: Bytes) -> Result<Self, ContentError> {
        if !is_module(&bytes) {
            return Err(ContentError::NoModule { n_files: 1 });
        }
        Ok(Self { files: ContentFiles::Module(bytes), name: None, archive: None })
    }

    /// Collects the files of a tree. For a package, adds the files of its archive. Each of
    /// the two has at most `bytes_max` bytes of files.
    pub(super) fn of_dag(dag: &Dag, bytes_max: usize) -> Result<Self, ContentError> {
        let mut files = match dag.tree(bytes_max)? {
            Tree::File(bytes) => return Self::from_module(bytes),
            Tree::Folder(files) => files,
        };
        let (mut name, mut archive) = (None, None);
        let found = files.iter().find(|file| file.path == manifest::FILE_NAME);
        let is_plain = files.iter().any(is_runnable);
        if let Some(manifest) = found.filter(|_| !is_plain) {
            let manifest = Manifest::read(&manifest.bytes)?;
            let (bytes, beside) = find_archive(&manifest, &files, dag)?;
            archive = beside;
            name = Some(manifest.name).filter(|name| !name.is_empty());
            append_files(&unpack(&bytes, bytes_max)?, &mut files)?;
        }
        if !files.iter().any(is_runnable) {
            return Err(ContentError::NoModule { n_files: files.len() });
        }
        Ok(Self { files: ContentFiles::Folder(files.into()), name, archive })
    }

    /// Returns the module called `method`. A function that is a single file has this module under any
    /// name.
    pub(crate) fn module(&self, method: &Method) -> Option<Bytes> {
        match &self.files {
            ContentFiles::Module(bytes) => Some(bytes.clone()),
            ContentFiles::Folder(files) => {
                let is_method = |file: &&File| file.path == method.as_str() && is_runnable(file);
                files.iter().find(is_method).map(|file| file.bytes.clone())
            }
        }
    }

    /// Returns the files of a directory, or `None` for a single module.
    pub(super) fn folder(&self) -> Option<&[File]> {
        match &self.files {
            ContentFiles::Module(_) => None,
            ContentFiles::Folder(files) => Some(files),
        }
    }

    /// Returns the size of all files.
    pub(super) fn size_bytes(&self) -> usize {
        match &self.files {
            ContentFiles::Module(bytes) => bytes.len(),
            ContentFiles::Folder(files) => files.iter().map(|file| file.bytes.len()).sum(),
        }
    }
}

/// Returns true for a WebAssembly module or component in the binary format.
pub(super) fn is_module(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Returns true if the file can be called as a method: a module at the top of its directory.
pub(super) fn is_runnable(file: &File) -> bool {
    !file.path.contains('/') && is_module(&file.bytes)
}

/// Returns the archive named by a manifest, with the id of its block if it is not part of the tree.
fn find_archive(
    manifest: &Manifest,
    files: &[File],
    dag: &Dag,
) -> Result<(Bytes, Option<ContentId>), ContentError> {
    let path = manifest.archive_path();
    if let Some(file) = files.iter().find(|file| Some(&file.path) == path.as_ref()) {
        let is_right = manifest.block.names(&file.bytes);
        return if is_right { Ok((file.bytes.clone(), None)) } else { Err(ContentError::Checksum) };
    }
    match dag.blocks.get(&manifest.block) {
        Some(bytes) => Ok((bytes.clone(), Some(manifest.block))),
        None => Err(ContentError::ArchiveElsewhere {
            address: manifest.archive.clone(),
            block: manifest.block,
        }),
    }
}

/// Appends the files of `entry` that are not in `files` yet. Rejects a file with the path of a directory,
/// since such files cannot be written to a disk.
fn append_files(entry: &Entry, files: &mut Vec<File>) -> Result<(), ContentError> {
    let known: BTreeSet<String> = files.iter().map(|file| file.path.clone()).collect();
    let mut waiting = vec![(String::new(), entry)];
    while let Some((path, entry)) = waiting.pop() {
        match entry {
            Entry::File(bytes) if !known.contains(&path) => {
                let below = format!("{path}/");
                if known.range(below.clone()..).next().is_some_and(|it| it.starts_with(&below)) {
                    return Err(ContentError::Twice { path: shorten(&path) });
                }
                files.push(File { path, bytes: bytes.clone() });
            }
            Entry::File(_) => {}
            Entry::Folder(_) if known.contains(&path) => {
                return Err(ContentError::Twice { path: shorten(&path) });
            }
            Entry::Folder(entries) => waiting.extend(entries.iter().rev().map(|(name, entry)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                (path, entry)
            })),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
