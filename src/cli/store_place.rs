//! Where a store that is copied is: a file, or a database.

use std::{
    convert::Infallible,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::bail;
use db::postgres::DatabaseUrl;
use model::address::redact_address;
use stack::data_dir::DataDir;

/// The file of a room's store in the services' data folder.
type FileIn = fn(&DataDir) -> PathBuf;

/// Where a store is.
#[derive(Debug, Clone)]
pub(crate) enum StorePlace {
    Database(DatabaseUrl),
    /// A file, or the data folder with it.
    Path(PathBuf),
}

impl FromStr for StorePlace {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Self::Path(text.into()), Self::Database))
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(url) => url.fmt(f),
            Self::Path(path) => redact_address(&path.to_string_lossy()).fmt(f),
        }
    }
}

impl StorePlace {
    /// The place with a folder replaced by the store's file in it, `file_in`. A path to copy to that ends
    /// in `.db` is a file, any other one a folder, which is made.
    fn resolve(self, is_source: bool, file_in: FileIn) -> anyhow::Result<Self> {
        let Self::Path(path) = self else { return Ok(self) };
        let looks_like_url = path.to_str().is_some_and(|text| text.contains("://"));
        if looks_like_url {
            bail!(
                "open the store: its address is not that of a PostgreSQL database, such as postgres://user@host/name"
            );
        }
        let is_file = path.is_file() || path.extension().is_some_and(|ending| ending == "db");
        if is_file {
            return Ok(Self::Path(path));
        }
        if is_source && !path.is_dir() {
            let path = path.to_string_lossy();
            bail!("find a store in {}: there is no such file or folder", redact_address(&path));
        }
        Ok(Self::Path(file_in(&DataDir::of_services(Some(path))?)))
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Path(one), Self::Path(other)) => {
                let real = |path: &Path| path.canonicalize().ok();
                one == other || (real(one).is_some() && real(one) == real(other))
            }
            _ => self.to_string() == other.to_string(),
        }
    }
}

/// The places to copy from and to, with folders replaced by `file_in` them.
///
/// # Errors
/// If they are the same, or there is no file to copy from.
pub(crate) fn resolve_places(
    from: StorePlace,
    to: StorePlace,
    file_in: FileIn,
) -> anyhow::Result<(StorePlace, StorePlace)> {
    let (from, to) = (from.resolve(true, file_in)?, to.resolve(false, file_in)?);
    if from.is_same(&to) {
        bail!("copy {from} onto itself: name two stores");
    }
    if matches!(&from, StorePlace::Path(path) if !path.is_file()) {
        bail!("find a store in {from}: there is no such file");
    }
    Ok((from, to))
}
