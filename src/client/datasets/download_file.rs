//! A file for a download, which is renamed to its final name when the download is complete.

use std::path::Path;
use std::{fs, io};

use task::file::{AtomicFile, FileMode, remove_stale};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio::task::spawn_blocking;

/// A temporary file, which is removed unless [`Self::finish`] gives it its final name. Or a device or a
/// pipe, which is written directly.
#[derive(Debug)]
pub struct DownloadFile {
    file: File,
    /// `None` for a device or a pipe.
    draft: Option<AtomicFile>,
}

impl DownloadFile {
    /// Creates a temporary file in the directory of `path`, or opens the device or pipe at `path`. An
    /// existing file at `path` is unchanged until [`Self::finish`].
    ///
    /// # Errors
    /// If `path` is a directory, or its directory is not writable.
    pub async fn create(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        let creating = move || {
            if fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
                let device = fs::OpenOptions::new().write(true).open(&path)?;
                return Ok(Self { file: File::from_std(device), draft: None });
            }
            remove_stale(&path);
            let mut draft = AtomicFile::create(&path, FileMode::Public)?;
            let file = File::from_std(draft.file().try_clone()?);
            Ok(Self { file, draft: Some(draft) })
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
        match self.draft {
            Some(draft) => spawn_blocking(move || draft.commit()).await?,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn downloaded_file_appears_only_when_complete() {
        let folder = std::env::temp_dir().join(format!("triptych-saved-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rows.csv");
        let mut file = DownloadFile::create(&path).await.unwrap();
        file.write(b"half").await.unwrap();
        drop(file);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "the temporary file is removed");
        let mut file = DownloadFile::create(&path).await.unwrap();
        file.write(b"whole").await.unwrap();
        assert!(!path.exists());
        file.finish().await.unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert!(DownloadFile::create(&folder).await.is_err(), "a directory is not a file");
        let link = folder.join("link.csv");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut file = DownloadFile::create(&link).await.unwrap();
        file.write(b"through the link").await.unwrap();
        file.finish().await.unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"through the link");
        let device = folder.join("null");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        let file = DownloadFile::create(&device).await.unwrap();
        assert!(file.draft.is_none(), "a device is written directly");
        file.finish().await.unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
