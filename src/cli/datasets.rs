//! `triptych datasets`: serve datasets, look at them, and take rows in and out.
//!
//! All but `serve` and the upkeep of stores speak HTTP to a service, as anyone could.
//! Standard output carries the result and nothing else; messages go to standard error.

mod archive_flags;
mod backup;
mod columns;
pub(crate) mod connection;
mod copy;
mod create;
mod delete;
mod export;
mod follow;
mod import;
mod list;
mod mirror;
mod progress;
mod replay;
mod restore;
mod retention;
mod rows;
mod serve;
mod show;
mod tags;
mod verify;

use clap::Subcommand;

/// The subcommands of `datasets`.
#[derive(Debug, Subcommand)]
pub(crate) enum DatasetsCommand {
    /// Serve datasets: rows, buckets, bulk downloads and streams
    Serve(serve::ServeCommand),
    /// List the datasets that the key sees: number, name, description
    #[command(alias = "ls")]
    List(list::ListCommand),
    /// Show a dataset: its columns, tags and newest row
    Show(show::ShowCommand),
    /// Print rows or buckets of a dataset, the newest first
    Rows(rows::RowsCommand),
    /// Create a dataset, and print its number
    Create(create::CreateCommand),
    /// Delete a dataset with all its rows, or rows of a range
    #[command(alias = "rm")]
    Delete(delete::DeleteCommand),
    /// List the columns of a dataset; add, rename and delete some
    Columns(columns::ColumnsCommand),
    /// Show how long and how many rows of a dataset are kept, or change it
    Retention(retention::RetentionCommand),
    /// List tags, acquire one, or change those of a dataset
    Tags(tags::TagsCommand),
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
    Verify(verify::VerifyCommand),
    /// Copy a store's file on this machine, also while a service writes to it
    Backup(backup::BackupCommand),
    /// Put a copy that `backup` made in the place of a store's file
    Restore(restore::RestoreCommand),
}

/// Runs a subcommand of `datasets`.
///
/// # Errors
/// What it could not do.
pub(crate) async fn run(command: DatasetsCommand) -> anyhow::Result<()> {
    match command {
        DatasetsCommand::Serve(command) => serve::run(command).await,
        DatasetsCommand::List(command) => list::run(command).await,
        DatasetsCommand::Show(command) => show::run(command).await,
        DatasetsCommand::Rows(command) => rows::run(command).await,
        DatasetsCommand::Create(command) => create::run(command).await,
        DatasetsCommand::Delete(command) => delete::run(command).await,
        DatasetsCommand::Columns(command) => columns::run(command).await,
        DatasetsCommand::Retention(command) => retention::run(command).await,
        DatasetsCommand::Tags(command) => tags::run(command).await,
        DatasetsCommand::Import(command) => import::run(command).await,
        DatasetsCommand::Export(command) => export::run(command).await,
        DatasetsCommand::Replay(command) => replay::run(command).await,
        DatasetsCommand::Follow(command) => follow::run(command).await,
        DatasetsCommand::Mirror(command) => mirror::run(command).await,
        DatasetsCommand::Copy(command) => copy::run(command).await,
        DatasetsCommand::Verify(command) => verify::run(command).await,
        DatasetsCommand::Backup(command) => backup::run(command).await,
        DatasetsCommand::Restore(command) => restore::run(command).await,
    }
}
