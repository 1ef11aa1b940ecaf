//! Accounts in a PostgreSQL database that several services share.
//!
//! As with a file, only one service writes at a time. This is fast enough, since accounts rarely change,
//! and ensures that all data that a writing transaction reads remain valid until its commit.

use std::sync::Arc;
use std::time::Duration;

use db::fault::WorkError;
use db::postgres::DatabaseUrl;
use db::postgres::connections::{Connections, ConnectionsOptions, Figures, Snapshot};
use db::postgres::fault::{Fault, PostgresError};
use db::postgres::schema::SchemaError;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use task::group::Group;
use tokio::sync::oneshot;

use super::sql::{ReadRow, Session};
use super::{Statement, tables};
use crate::AccountsError;

/// Maximum number of connections that a service has to the accounts database.
pub const CONNECTIONS_MAX: u32 = 8;

/// Time limit of a key lookup, for which the request waits.
const FOUND_WITHIN: Duration = Duration::from_secs(5);

/// Statement that keeps out other writers until the end of the transaction. The number is arbitrary and
/// spells `acct`.
const TAKE_TURN: &str = "SELECT pg_advisory_xact_lock(1633903476)";

/// The database. An operation continues even if its caller is dropped.
#[derive(Debug)]
pub(crate) struct DatabaseStore {
    connections: Connections,
    is_read_only: bool,
    tasks: Group,
}

impl DatabaseStore {
    /// Connects to the database. Creates missing tables unless `is_read_only`.
    pub(crate) async fn open(url: &DatabaseUrl, is_read_only: bool) -> Result<Self, AccountsError> {
        // A few connections are enough, since lookups of keys are rare and sequential, and writers wait
        // for one another.
        let (schema, n_max) = (tables::DATABASE, CONNECTIONS_MAX);
        let options = ConnectionsOptions { schema, is_read_only, n_max, n_writers: 6 };
        let connections = Connections::new(url, options);
        connections.open_tables().await?;
        Ok(Self { connections, is_read_only, tasks: Group::default() })
    }

    /// Returns the rows of a read-only statement.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        statement: Statement,
        read: ReadRow<T>,
    ) -> Result<Vec<T>, AccountsError> {
        let (connections, statement) = (self.connections.clone(), Arc::new(statement));
        self.run_to_end(async move {
            let query = connections.read(Snapshot::Transaction, |c| {
                let statement = Arc::clone(&statement);
                async move {
                    let Statement { sql, values } = &*statement;
                    Session::Database(c).all(sql, values, read).await
                }
                .boxed()
            });
            connections.within(FOUND_WITHIN, query).await
        })
        .await
    }

    /// Runs `work` in a transaction in which no other service can write.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(Session<'c>) -> BoxFuture<'c, Result<T, AccountsError>>
        + Send
        + 'static,
    ) -> Result<T, AccountsError> {
        if self.is_read_only {
            return Err(AccountsError::ReadOnly);
        }
        let connections = self.connections.clone();
        self.run_to_end(async move {
            let write = connections.write(|c| {
                async move {
                    sqlx::raw_sql(TAKE_TURN).execute(&mut *c).await?;
                    work(Session::Database(c)).await
                }
                .boxed()
            });
            write.await
        })
        .await
    }

    pub(super) fn figures(&self) -> Figures {
        self.connections.figures()
    }

    /// Checks that every table exists, and that the database accepts writes unless it was opened
    /// read-only.
    pub(super) async fn check(&self) -> Result<(), AccountsError> {
        let connections = self.connections.clone();
        self.run_to_end(async move { connections.check().await }).await
    }

    async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, AccountsError>> + Send + 'static,
    ) -> Result<T, AccountsError> {
        let (reply, answer) = oneshot::channel();
        self.tasks.spawn_to_end("accounts", async move {
            // Sending fails only if the caller has stopped waiting.
            drop(reply.send(work.await));
        });
        answer.await.unwrap_or_else(|_| Err(AccountsError::Statement("task panicked".into())))
    }
}

impl WorkError for AccountsError {
    fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

impl From<sqlx::Error> for AccountsError {
    fn from(error: sqlx::Error) -> Self {
        if let Some(SchemaError::Version(error)) = SchemaError::of(&error) {
            return Self::Format(error.clone());
        }
        match Fault::from(&error) {
            Fault::Unreachable => Self::Unreachable(Box::new(PostgresError::from(error))),
            Fault::Full => Self::Full,
            Fault::Statement => Self::Statement(Box::new(PostgresError::from(error))),
        }
    }
}
