//! A file for a download, which is renamed to its final name when the download is complete.

use std::io;
use std::path::Path;

use task::file::{AtomicFile, FileMode, remove_stale};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio::task::spawn_blocking;

/// A temporary file. It is removed unless [`Self::finish`] gives it its final name.
#[derive(Debug)]
pub struct DownloadFile {
    file: File,
    draft: AtomicFile,
}

impl DownloadFile {
    /// Creates a temporary file in the directory of `path`. An existing file at `path` is unchanged
    /// until [`Self::finish`].
    ///
    /// # Errors
    /// If `path` is a directory, or its directory is not writable.
    pub async fn create(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        let creating = move || {
            remove_stale(&path);
            let mut draft = AtomicFile::create(&path, FileMode::Public)?;
            let file = File::from_std(draft.file().try_clone()?);
            Ok(Self { file, draft })
        };
        spawn_blocking(creating).await?
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// If they cannot be written.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes).await
    }

    /// Syncs the file and gives it its final name.
    ///
    /// # Errors
    /// If it cannot be written completely. The temporary file is then removed.
    pub async fn finish(mut self) -> io::Result<()> {
        self.file.flush().await?;
        let draft = self.draft;
        spawn_blocking(move || draft.commit()).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn downloaded_file_appears_only_when_complete() {
        let folder = std::env::temp_dir().join(format!("triptych-saved-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rows.csv");
        let mut file = DownloadFile::create(&path).await.unwrap();
        file.write(b"half").await.unwrap();
        drop(file);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the temporary file is removed");
        let mut file = DownloadFile::create(&path).await.unwrap();
        file.write(b"whole").await.unwrap();
        assert!(!path.exists());
        file.finish().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert!(DownloadFile::create(&folder).await.is_err(), "a directory is not a file");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
