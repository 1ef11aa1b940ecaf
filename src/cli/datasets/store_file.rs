//! `triptych datasets verify`, `backup` and `restore`: maintenance of a store on this machine.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use db::postgres::DatabaseUrl;
use model::count::{counted, counted_short};
use model::escape::escape_line;
use serde_json::json;
use stack::data_dir::DataDir;
use tokio::task::spawn_blocking;
use transfer::event::Reporter as _;
use tsdb::admin;
use tsdb::archive::objects::{ArchiveUrl, Objects};
use tsdb::report::{Progress, Report};
use tsdb::store::postgres::PostgresStore;

use super::progress::{ProgressReporter, share};
use crate::cli::copy_tables::StorePlace;
use crate::cli::output::{print, print_body, tell};

/// Flags that name a store.
#[derive(Debug, Clone, Args)]
pub(super) struct StoreFlags {
    /// Data directory of the services or of a local stack [default: the platform's directory with a
    /// store, if only one of them has a store]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// File of the store, instead of the one in the data directory
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// The flags of `datasets verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyCommand {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Address of the archive, as for `serve`, to verify all of its files, too
    #[arg(long, value_name = "URL")]
    archive: Option<ArchiveUrl>,
    /// Verify the archive of this database instead of a file: `postgres://user@host/name`
    #[arg(long, value_name = "URL", requires = "archive", conflicts_with = "file")]
    database: Option<DatabaseUrl>,
    #[command(flatten)]
    store: StoreFlags,
}

impl StoreFlags {
    /// Returns the path of the store's file. If no flag names a store, this is the only store in the
    /// default directories, whether a local stack is running or not.
    fn path(self) -> anyhow::Result<PathBuf> {
        if let Some(file) = self.file {
            return Ok(file);
        }
        if self.data_dir.is_none()
            && let found = DataDir::with_datasets()?
            && let [one, others @ ..] = found.as_slice()
        {
            let shown = |it: &DataDir| it.folder().display().to_string();
            let all: Vec<_> = found.iter().map(shown).collect();
            let all = all.join(", ");
            ensure!(
                others.is_empty(),
                "several directories have a store: {all}\nhint: pass --data-dir"
            );
            return Ok(one.datasets());
        }
        Ok(DataDir::locate(self.data_dir)?.datasets())
    }

    /// Returns the path of the file to replace. If no flag names a store, this is the store of the
    /// services. If they have none, the only store is that of a local stack, which is not meant.
    fn path_to_replace(self) -> anyhow::Result<PathBuf> {
        let is_named = self.file.is_some() || self.data_dir.is_some();
        let path = self.path()?;
        ensure!(
            is_named || path == DataDir::locate(None)?.datasets(),
            "the services have no store, only a local stack has one: {}\nhint: pass --data-dir with the \
             directory to restore to",
            path.display()
        );
        Ok(path)
    }
}

/// Verifies a store.
///
/// # Errors
/// If the store cannot be read, or has faults.
pub(super) async fn verify(command: VerifyCommand) -> anyhow::Result<()> {
    let VerifyCommand { json, archive, database, store } = command;
    let place = match database {
        Some(url) => StorePlace::Database(url),
        None => StorePlace::Path(store.path()?),
    };
    let shown = place.to_string();
    let mut progress = ProgressReporter::single().begin(format!("verifying {shown}"), 0);
    let (report, progress) = spawn_blocking(move || {
        let report = check_store(&place, archive.as_ref(), &mut |done| {
            // Verification visits each row twice.
            progress.update(done.n_done / 2, Some(share(done.n_done, done.n_all)));
        });
        (report, progress)
    })
    .await?;
    let report = report.with_context(|| format!("cannot verify {shown}"))?;
    progress.finish(report.n_rows, &format!("verified {shown}"));
    print_report(&report, json)?;
    if report.is_sound() {
        return Ok(());
    }
    let faults = counted(report.n_faults, "fault");
    bail!(
        "{shown} has {faults}\nhint: restore the store from a backup or missing objects of the archive, or \
         import the rows again"
    )
}

/// Verifies a store's file, and its archive if one is given. For a database, verifies only the archive.
/// Blocks.
fn check_store(
    place: &StorePlace,
    archive: Option<&ArchiveUrl>,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Report> {
    let archive = archive.map(Objects::open).transpose()?;
    Ok(match (place, archive) {
        (StorePlace::Path(path), archive) => admin::verify(path, archive.as_ref(), progress)?,
        (StorePlace::Database(url), Some(archive)) => {
            admin::verify_archive(&PostgresStore::open_read_only(url)?, &archive)?
        }
        (StorePlace::Database(_), None) => bail!("the archive of the database is not named"),
    })
}

fn print_report(report: &Report, is_json: bool) -> anyhow::Result<()> {
    let faults: Vec<String> = report.faults.iter().map(|fault| escape_line(fault).into()).collect();
    let Report { n_datasets, n_rows, n_buckets, n_archived, n_faults, .. } = report;
    if is_json {
        let report = json!({
            "datasets": n_datasets,
            "rows": n_rows,
            "buckets": n_buckets,
            "archived_months": n_archived,
            "faults": faults,
            "total_faults": n_faults,
        });
        return print_body(&report);
    }
    let (datasets, rows) = (counted(*n_datasets, "dataset"), counted_short(*n_rows, "row"));
    let buckets = counted_short(*n_buckets, "bucket");
    let archived = match n_archived {
        0 => String::new(),
        n => format!(", {}", counted(*n, "archived month")),
    };
    tell(&format!("{datasets}, {rows}, {buckets}{archived}"));
    for fault in faults {
        print(&fault)?;
    }
    Ok(())
}

/// The flags of `datasets backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupCommand {
    /// File to create; an existing file is not replaced
    to: PathBuf,
    #[command(flatten)]
    store: StoreFlags,
}

/// Copies a store.
///
/// # Errors
/// If the target exists or cannot be written completely.
pub(super) async fn backup(command: BackupCommand) -> anyhow::Result<()> {
    let (path, to) = (command.store.path()?, command.to);
    let copied = format!("copied {} to {}", path.display(), to.display());
    let n_bytes = spawn_blocking(move || admin::backup(&path, &to)).await?;
    tell(&format!("{copied}: {} bytes", n_bytes.context("cannot back up the store")?));
    Ok(())
}

/// The flags of `datasets restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreCommand {
    /// The copy, which is not changed
    from: PathBuf,
    /// Confirm: the rows that are stored now are lost
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Replaces a store's file by a backup.
///
/// # Errors
/// If the store to replace is ambiguous, the replacement is not confirmed, a service uses the store, or
/// the backup has faults.
pub(super) async fn restore(command: RestoreCommand) -> anyhow::Result<()> {
    let (from, path) = (command.from, command.store.path_to_replace()?);
    if path.exists() && !command.yes {
        bail!("replacing {} was not confirmed\nhint: pass --yes", path.display());
    }
    let restored = format!("restored {} to {}", from.display(), path.display());
    let report = spawn_blocking(move || admin::restore(&from, &path)).await?;
    let report = report.context("cannot restore the store")?;
    let datasets = counted(report.n_datasets, "dataset");
    tell(&format!("{restored}: {datasets}, {}", counted_short(report.n_rows, "row")));
    Ok(())
}
