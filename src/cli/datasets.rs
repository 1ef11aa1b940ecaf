//! `triptych datasets`: serve datasets, look at them, and take rows in and out.
//!
//! All but `serve` and the upkeep of stores speak HTTP to a service, as anyone could.
//! Standard output carries the result and nothing else; messages go to standard error.

mod archive_flags;
mod catalog;
pub(crate) mod connection;
mod copy;
mod export;
mod follow;
mod import;
mod mirror;
mod progress;
mod replay;
mod rows;
mod serve;
mod store_file;

use clap::Subcommand;

/// The subcommands of `datasets`.
#[derive(Debug, Subcommand)]
pub(crate) enum DatasetsCommand {
    /// Serve datasets: rows, buckets, bulk downloads and streams
    Serve(serve::ServeCommand),
    /// List the datasets that the key sees: number, name, description
    #[command(alias = "ls")]
    List(catalog::ListCommand),
    /// Show a dataset: its columns, tags and newest row
    Show(catalog::ShowCommand),
    /// Print rows or buckets of a dataset, the newest first
    Rows(rows::RowsCommand),
    /// Create a dataset, and print its number
    Create(catalog::CreateCommand),
    /// Delete a dataset with all its rows, or rows of a range
    #[command(alias = "rm")]
    Delete(catalog::DeleteCommand),
    /// List the columns of a dataset; add, rename and delete some
    Columns(catalog::ColumnsCommand),
    /// Show how long and how many rows of a dataset are kept, or change it
    Retention(catalog::RetentionCommand),
    /// List tags, acquire one, or change those of a dataset
    Tags(catalog::TagsCommand),
    /// Send the rows of files to a dataset, which is created if need be
    Import(import::ImportCommand),
    /// Write a range of a dataset to a file or to standard output
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportCommand),
    /// Send the history of a dataset or a file again as if it were live
    Replay(replay::ReplayCommand),
    /// Print each new row of a dataset, without gap or repeat
    #[command(visible_alias = "watch")]
    Follow(follow::FollowCommand),
    /// Copy datasets from another service of this API, and keep them up to date
    Mirror(mirror::MirrorCommand),
    /// Copy datasets from one store to another: files on this machine, or PostgreSQL databases
    Copy(copy::CopyCommand),
    /// Check a store's file on this machine against itself
    Verify(store_file::VerifyCommand),
    /// Copy a store's file on this machine, also while a service writes to it
    Backup(store_file::BackupCommand),
    /// Put a copy that `backup` made in the place of a store's file
    Restore(store_file::RestoreCommand),
}

/// Runs a subcommand of `datasets`.
///
/// # Errors
/// What it could not do.
pub(crate) async fn run(command: DatasetsCommand) -> anyhow::Result<()> {
    match command {
        DatasetsCommand::Serve(command) => serve::run(command).await,
        DatasetsCommand::List(command) => catalog::list(command).await,
        DatasetsCommand::Show(command) => catalog::show(command).await,
        DatasetsCommand::Rows(command) => rows::run(command).await,
        DatasetsCommand::Create(command) => catalog::create(command).await,
        DatasetsCommand::Delete(command) => catalog::delete(command).await,
        DatasetsCommand::Columns(command) => catalog::columns(command).await,
        DatasetsCommand::Retention(command) => catalog::retention(command).await,
        DatasetsCommand::Tags(command) => catalog::tags(command).await,
        DatasetsCommand::Import(command) => import::run(command).await,
        DatasetsCommand::Export(command) => export::run(command).await,
        DatasetsCommand::Replay(command) => replay::run(command).await,
        DatasetsCommand::Follow(command) => follow::run(command).await,
        DatasetsCommand::Mirror(command) => mirror::run(command).await,
        DatasetsCommand::Copy(command) => copy::run(command).await,
        DatasetsCommand::Verify(command) => store_file::verify(command).await,
        DatasetsCommand::Backup(command) => store_file::backup(command).await,
        DatasetsCommand::Restore(command) => store_file::restore(command).await,
    }
}
