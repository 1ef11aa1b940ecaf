//! `triptych datasets`: serve datasets, look at them, import and export rows.
//!
//! All commands except `serve` and the maintenance of stores send HTTP requests to a service, as any
//! client could. Results are printed to standard output, messages to standard error.

mod catalog;
pub(crate) mod connection;
mod copy;
mod export;
mod follow;
mod import;
mod mirror;
pub(crate) mod progress;
mod rows;
mod serve;
mod store_file;

use clap::Subcommand;

/// The subcommands of `datasets`.
#[derive(Debug, Subcommand)]
pub(crate) enum DatasetsCommand {
    /// Serve datasets: rows, buckets, bulk downloads and streams
    Serve(serve::ServeCommand),
    /// List the datasets that the key can see: number, name, description
    #[command(alias = "ls")]
    List(catalog::ListCommand),
    /// Show a dataset: its columns, tags and latest row
    Show(catalog::ShowCommand),
    /// Count the rows of a dataset by day, and estimate the size of an export
    Coverage(catalog::CoverageCommand),
    /// Print rows or buckets of a dataset, latest first
    Rows(rows::RowsCommand),
    /// Create a dataset and print its number
    Create(catalog::CreateCommand),
    /// Delete a dataset with all its rows, or rows of a range
    #[command(alias = "rm")]
    Delete(catalog::DeleteCommand),
    /// List the columns of a dataset; add, rename and delete columns
    Columns(catalog::ColumnsCommand),
    /// Show or change the retention of a dataset: the maximum age and size of its rows
    Retention(catalog::RetentionCommand),
    /// List tags, acquire or give up a tag, or change the tags of a dataset
    Tags(catalog::TagsCommand),
    /// Import rows of files into a dataset, which is created if necessary
    Import(import::ImportCommand),
    /// Export a range of a dataset to a file or to standard output
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportCommand),
    /// Print each new row of a dataset, without gaps or duplicates
    #[command(visible_alias = "watch")]
    Follow(follow::FollowCommand),
    /// Copy datasets from another service with this API, and keep them up to date
    Mirror(mirror::MirrorCommand),
    /// Copy datasets from one store to another: files on this machine, or PostgreSQL databases
    Copy(copy::CopyCommand),
    /// Check the consistency of a store's file on this machine
    Verify(store_file::VerifyCommand),
    /// Copy a store's file on this machine, also while a service writes to it
    Backup(store_file::BackupCommand),
    /// Replace a store's file, by default that of the services, by a copy made by `backup`
    Restore(store_file::RestoreCommand),
}

/// Runs a subcommand of `datasets`.
///
/// # Errors
/// Errors of the subcommand.
pub(crate) async fn run(command: DatasetsCommand) -> anyhow::Result<()> {
    match command {
        DatasetsCommand::Serve(command) => serve::run(command).await,
        DatasetsCommand::List(command) => catalog::list(command).await,
        DatasetsCommand::Show(command) => catalog::show(command).await,
        DatasetsCommand::Coverage(command) => catalog::coverage(command).await,
        DatasetsCommand::Rows(command) => rows::run(command).await,
        DatasetsCommand::Create(command) => catalog::create(command).await,
        DatasetsCommand::Delete(command) => catalog::delete(command).await,
        DatasetsCommand::Columns(command) => catalog::columns(command).await,
        DatasetsCommand::Retention(command) => catalog::retention(command).await,
        DatasetsCommand::Tags(command) => catalog::tags(command).await,
        DatasetsCommand::Import(command) => import::run(command).await,
        DatasetsCommand::Export(command) => export::run(command).await,
        DatasetsCommand::Follow(command) => follow::run(command).await,
        DatasetsCommand::Mirror(command) => mirror::run(command).await,
        DatasetsCommand::Copy(command) => copy::run(command).await,
        DatasetsCommand::Verify(command) => store_file::verify(command).await,
        DatasetsCommand::Backup(command) => store_file::backup(command).await,
        DatasetsCommand::Restore(command) => store_file::restore(command).await,
    }
}
