//! SQLite and PostgreSQL, as all stores of this program use them.
//!
//! For SQLite, [`connection`] opens a file with its pragmas and schema, [`Writer`](writer::Writer) lets
//! concurrent writers share a commit, [`DatabaseFiles`](files::DatabaseFiles) detects that the files of
//! an open database were replaced, [`Statements`](statement::Statements) runs cached statements, and
//! [`DatabaseFault`](fault::DatabaseFault) classifies errors. [`postgres`] does the same for a server.
//! [`sql`] has the parameters and rows of statements for both engines. [`copy`](mod@copy) copies tables
//! from one engine to the other engine. [`format`](mod@format) chooses the upgrades of tables. Tables
//! and queries themselves belong to the stores.
//!
//! ```no_run
//! # fn example(schema: &db::connection::Schema) -> Result<(), Box<dyn std::error::Error>> {
//! let connection = schema.open("names.db".as_ref())?;
//! connection.execute("INSERT INTO names (name) VALUES (?1)", ["ada"])?;
//! # Ok(())
//! # }
//! ```

pub mod connection;
pub mod copy;
pub mod fault;
pub mod files;
pub mod format;
pub mod postgres;
pub mod sql;
pub mod statement;
pub mod writer;
