//! WASI preview 2 for components. Calls that add to a guest's files are charged to its quota. All other
//! calls are forwarded to the library.

use bytes::Bytes;
use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, ErrorCode, Filesize, Host, HostDescriptor, HostDirectoryEntryStream,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{
    self, DynInputStream, DynOutputStream, FsError, FsResult, OutputStream, Pollable, StreamError,
    StreamResult,
};

use super::Guest;
use crate::host_call::is_out_of_files;
use crate::quota::{FilesFull, Quota, WRITE_BYTES_MAX};

/// A guest's files, with their quota.
struct ChargedFiles<'a> {
    files: WasiFilesystemCtxView<'a>,
    quota: Option<&'a Quota>,
}

/// Names [`ChargedFiles`] as the state that file functions access.
struct HasChargedFiles;

/// A stream that writes to a file and charges its bytes.
struct ChargedStream {
    stream: DynOutputStream,
    quota: Quota,
}

impl HasData for HasChargedFiles {
    type Data<'a> = ChargedFiles<'a>;
}

/// Adds WASI preview 2 to a linker.
///
/// # Errors
/// The engine's error, which names the function.
pub(crate) fn offer(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    types::add_to_linker::<Guest, HasChargedFiles>(linker, |guest| ChargedFiles {
        files: guest.wasi.filesystem(),
        quota: guest.quota.as_ref(),
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

impl ChargedFiles<'_> {
    /// Charges the quota after a call has completed.
    fn charge(&self, charge: impl FnOnce(&Quota) -> Result<(), FilesFull>) -> FsResult<()> {
        match self.quota {
            Some(quota) => charge(quota).map_err(FsError::trap),
            None => Ok(()),
        }
    }

    /// Wraps a stream so that its bytes are charged.
    fn charged(
        &mut self,
        stream: Resource<DynOutputStream>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let Some(quota) = self.quota else { return Ok(stream) };
        let stream = self.files.table.delete(stream)?;
        let stream: DynOutputStream = Box::new(ChargedStream { stream, quota: quota.clone() });
        Ok(self.files.table.push(stream)?)
    }
}

impl Host for ChargedFiles<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.files.convert_error_code(error)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.files.filesystem_error_code(error)
    }
}

impl HostDirectoryEntryStream for ChargedFiles<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        self.files.read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        HostDirectoryEntryStream::drop(&mut self.files, stream)
    }
}

/// An open file or directory.
type File = Resource<Descriptor>;

/// Forwards those methods of open files that are not charged.
macro_rules! forward {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $returned:ty;)*) => {
        $(async fn $name(&mut self, $($argument: $kind),*) -> $returned {
            self.files.$name($($argument),*).await
        })*
    };
}

impl HostDescriptor for ChargedFiles<'_> {
    async fn set_size(&mut self, file: File, size: Filesize) -> FsResult<()> {
        self.files.set_size(file, size).await?;
        self.charge(|quota| quota.wrote(size))
    }

    async fn write(&mut self, file: File, mut bytes: Vec<u8>, at: Filesize) -> FsResult<Filesize> {
        if self.quota.is_some() {
            bytes.truncate(usize::try_from(WRITE_BYTES_MAX).unwrap_or(usize::MAX));
        }
        let n_written = self.files.write(file, bytes, at).await?;
        self.charge(|quota| quota.wrote(n_written))?;
        Ok(n_written)
    }

    fn write_via_stream(
        &mut self,
        file: File,
        at: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        let stream = self.files.write_via_stream(file, at)?;
        self.charged(stream)
    }

    fn append_via_stream(&mut self, file: File) -> FsResult<Resource<DynOutputStream>> {
        let stream = self.files.append_via_stream(file)?;
        self.charged(stream)
    }

    async fn open_at(
        &mut self,
        folder: File,
        lookup: PathFlags,
        path: String,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<File> {
        if is_out_of_files(self.files.table) {
            // Preview 2 has no error for too many open files.
            return Err(ErrorCode::InsufficientMemory.into());
        }
        let opened = self.files.open_at(folder, lookup, path, how, flags).await?;
        if let Some(quota) = self.quota {
            quota.note_open(self.files.table);
            if how.contains(OpenFlags::CREATE) {
                quota.charge_entry().map_err(FsError::trap)?;
            }
        }
        Ok(opened)
    }

    async fn create_directory_at(&mut self, folder: File, path: String) -> FsResult<()> {
        self.files.create_directory_at(folder, path).await?;
        self.charge(Quota::charge_entry)
    }

    async fn symlink_at(&mut self, folder: File, target: String, path: String) -> FsResult<()> {
        self.files.symlink_at(folder, target, path).await?;
        self.charge(Quota::charge_entry)
    }

    async fn link_at(
        &mut self,
        folder: File,
        lookup: PathFlags,
        path: String,
        new_folder: File,
        new_path: String,
    ) -> FsResult<()> {
        self.files.link_at(folder, lookup, path, new_folder, new_path).await?;
        self.charge(Quota::charge_entry)
    }

    fn drop(&mut self, file: File) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.files, file)
    }

    fn read_via_stream(&mut self, file: File, at: Filesize) -> FsResult<Resource<DynInputStream>> {
        self.files.read_via_stream(file, at)
    }

    forward! {
        advise(file: File, at: Filesize, n_bytes: Filesize, advice: Advice) -> FsResult<()>;
        sync_data(file: File) -> FsResult<()>;
        get_flags(file: File) -> FsResult<DescriptorFlags>;
        get_type(file: File) -> FsResult<DescriptorType>;
        set_times(file: File, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()>;
        read(file: File, n_bytes: Filesize, at: Filesize) -> FsResult<(Vec<u8>, bool)>;
        read_directory(folder: File) -> FsResult<Resource<DirectoryEntryStream>>;
        sync(file: File) -> FsResult<()>;
        stat(file: File) -> FsResult<DescriptorStat>;
        stat_at(folder: File, lookup: PathFlags, path: String) -> FsResult<DescriptorStat>;
        set_times_at(
            folder: File, lookup: PathFlags, path: String, accessed: NewTimestamp,
            modified: NewTimestamp
        ) -> FsResult<()>;
        readlink_at(folder: File, path: String) -> FsResult<String>;
        remove_directory_at(folder: File, path: String) -> FsResult<()>;
        rename_at(folder: File, path: String, new_folder: File, new_path: String) -> FsResult<()>;
        unlink_file_at(folder: File, path: String) -> FsResult<()>;
        is_same_object(file: File, other: File) -> wasmtime::Result<bool>;
        metadata_hash(file: File) -> FsResult<MetadataHashValue>;
        metadata_hash_at(
            folder: File, lookup: PathFlags, path: String
        ) -> FsResult<MetadataHashValue>;
    }
}

impl ChargedStream {
    fn charge(&self, bytes: &Bytes) -> StreamResult<()> {
        let n_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.quota.wrote(n_bytes).map_err(|full| StreamError::Trap(full.into()))
    }
}

#[async_trait]
impl OutputStream for ChargedStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.charge(&bytes)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.stream.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.stream.check_write()
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.charge(&bytes)?;
        self.stream.blocking_write_and_flush(bytes).await
    }

    async fn cancel(&mut self) {
        self.stream.cancel().await;
    }
}

#[async_trait]
impl Pollable for ChargedStream {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}
