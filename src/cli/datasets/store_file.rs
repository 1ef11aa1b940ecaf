//! `triptych datasets verify`, `backup` and `restore`: upkeep of a store on this machine.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use db::postgres::DatabaseUrl;
use model::{
    count::{counted, counted_short},
    escape::escape_line,
};
use serde_json::json;
use stack::{data_dir::DataDir, running::running_folder};
use tokio::task::spawn_blocking;
use transfer::event::Reporter as _;
use tsdb::{
    admin,
    archive::objects::{ArchiveUrl, Objects},
    report::{Progress, Report},
    store::postgres::PostgresStore,
};

use super::progress::Drawn;
use crate::cli::{
    output::{print, print_body, tell},
    store_place::StorePlace,
};

/// The flags that name a store.
#[derive(Debug, Clone, Args)]
pub(super) struct StoreFlags {
    /// The services' data folder [default: the platform's folder for data]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// This file, not the one of the data folder
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// The flags of `datasets verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyCommand {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Read all files of the archive, too: its address, as `serve` has it
    #[arg(long, value_name = "URL")]
    archive: Option<ArchiveUrl>,
    /// Verify the archive of this database: `postgres://user@host/name`
    #[arg(long, value_name = "URL", requires = "archive", conflicts_with_all = ["data_dir", "file"])]
    database: Option<DatabaseUrl>,
    #[command(flatten)]
    store: StoreFlags,
}

impl StoreFlags {
    /// The store's file.
    ///
    /// # Errors
    /// If the data folder is not known, or cannot be made.
    pub(super) fn path(self) -> anyhow::Result<PathBuf> {
        match self.file {
            Some(file) => Ok(file),
            None => Ok(DataDir::of_services(self.data_dir)?.datasets()),
        }
    }

    /// As [`Self::path`], to read: if no flag names a store, that of the local stack that runs, as
    /// other commands use its services.
    ///
    /// # Errors
    /// As [`Self::path`].
    pub(super) fn path_to_read(self) -> anyhow::Result<PathBuf> {
        let is_named = self.file.is_some() || self.data_dir.is_some();
        let stack = if is_named { None } else { running_folder() };
        Self { data_dir: self.data_dir.or(stack), ..self }.path()
    }
}

/// Checks a store.
///
/// # Errors
/// If the store cannot be read, or is not as it should be.
pub(super) async fn verify(command: VerifyCommand) -> anyhow::Result<()> {
    let VerifyCommand { json, archive, database, store } = command;
    let place = match database {
        Some(url) => StorePlace::Database(url),
        None => StorePlace::Path(store.path_to_read()?),
    };
    let shown = place.to_string();
    let mut progress = Drawn::alone().begin(format!("verifying {shown}"), 0);
    let (report, progress) = spawn_blocking(move || {
        let report = check_store(&place, archive.as_ref(), &mut |done| {
            // Each row is looked at twice.
            #[expect(clippy::cast_precision_loss, reason = "a share for people")]
            let share = Some(done.n_done as f64 / done.n_all.max(1) as f64);
            progress.update(done.n_done / 2, share);
        });
        (report, progress)
    })
    .await?;
    let report = report.context("verify")?;
    progress.finish(report.n_rows, &format!("verified {shown}"));
    print_report(&report, json)?;
    if report.is_sound() {
        return Ok(());
    }
    let faults = counted(report.n_faults, "fault");
    bail!("find {shown} sound: {faults}; restore a backup, or import again")
}

/// Verifies a file, and its archive if that is given; of a database only the archive. Blocks.
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
        (StorePlace::Database(_), None) => bail!("name the archive of the database"),
    })
}

fn print_report(report: &Report, is_json: bool) -> anyhow::Result<()> {
    let faults: Vec<String> =
        report.faults.iter().map(|fault| escape_line(&fault.to_string()).into()).collect();
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
    /// The file to make; one that is there is left as it is
    to: PathBuf,
    #[command(flatten)]
    store: StoreFlags,
}

/// Copies a store.
///
/// # Errors
/// If there is a file already, or it cannot be written whole.
pub(super) async fn backup(command: BackupCommand) -> anyhow::Result<()> {
    let (path, to) = (command.store.path_to_read()?, command.to);
    let done = format!("copied {} to {}", path.display(), to.display());
    let n_bytes = spawn_blocking(move || admin::backup(&path, &to)).await?;
    tell(&format!("{done}: {} bytes", n_bytes.context("back up")?));
    Ok(())
}

/// The flags of `datasets restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreCommand {
    /// The copy, which stays as it is
    from: PathBuf,
    /// Mean it: what is stored now is lost
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Replaces a store by a copy of it.
///
/// # Errors
/// If it is not meant, a service uses the store, or the copy is not sound.
pub(super) async fn restore(command: RestoreCommand) -> anyhow::Result<()> {
    let (from, path) = (command.from, command.store.path()?);
    if path.exists() && !command.yes {
        bail!("replace {} unless it is meant: say so with --yes", path.display());
    }
    let done = format!("restored {} to {}", from.display(), path.display());
    let report = spawn_blocking(move || admin::restore(&from, &path)).await?;
    let report = report.context("restore")?;
    let datasets = counted(report.n_datasets, "dataset");
    tell(&format!("{done}: {datasets}, {}", counted_short(report.n_rows, "row")));
    Ok(())
}
