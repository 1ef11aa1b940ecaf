//! SQLite and PostgreSQL, as every store of this program uses them.
//!
//! Of SQLite, [`connection`] opens a file with its pragmas and its one schema,
//! [`Writer`](writer::Writer) shares a commit among the writers that wait for one,
//! [`DatabaseFiles`](files::DatabaseFiles) notices that the files of an open database were
//! replaced, [`space`] tracks whether the disk has room, [`Statements`](statement::Statements) runs
//! statements that are prepared once, and [`DatabaseFault`](fault::DatabaseFault) says what an
//! error means. [`postgres`] is its counterpart for a server. [`sql`] has the values and rows of
//! statements that run on either, and [`copy`](mod@copy) moves the rows of a room from one to the
//! other. [`format`](mod@format) upgrades their tables. Deliberately absent: tables and queries, which
//! belong to the stores.

pub mod connection;
pub mod copy;
pub mod fault;
pub mod files;
pub mod format;
pub mod postgres;
pub mod space;
pub mod sql;
pub mod statement;
pub mod writer;
