//! Accounts in a PostgreSQL database that several services share.
//!
//! As with a file, only one service writes at a time. This is fast enough, since accounts rarely change,
//! and ensures that all data that a writing transaction reads remain valid until its commit.

use std::sync::Arc;
use std::time::Duration;

use db::postgres::DatabaseUrl;
use db::postgres::connections::{Connections, ConnectionsOptions, Figures, Snapshot};
use db::postgres::fault::{Fault, PostgresError, WorkError};
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

/// Options of the connections. A few are enough, since lookups of keys are rare and sequential, and
/// writers wait for one another.
const CONNECTIONS: ConnectionsOptions =
    ConnectionsOptions { schema: tables::DATABASE.name, n_max: CONNECTIONS_MAX, n_writers: 6 };

/// Time limit of a key lookup, for which the request waits.
const FOUND_WITHIN: Duration = Duration::from_secs(5);

/// Statements without an effect that fail if the database does not accept writes or a table is missing.
const CHECK: &str = "UPDATE keys_version SET version = version WHERE false;
     SELECT FROM accounts, keys, sessions, settings LIMIT 0";

/// Statement that fails if a table is missing, for a read-only service.
const LOOK: &str = "SELECT FROM keys_version, accounts, keys, sessions, settings LIMIT 0";

/// Statement that keeps out other writers until the end of the transaction. The number is arbitrary and
/// spells `acct`.
const TAKE_TURN: &str = "SELECT pg_advisory_xact_lock(1633903476)";

/// Access that a service has to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    /// Only reads, as required for a database that does not accept writes, such as a standby.
    ReadOnly,
}

/// The database. An operation continues even if its caller is dropped.
#[derive(Debug)]
pub(crate) struct DatabaseStore {
    connections: Connections,
    access: Access,
    tasks: Group,
}

impl DatabaseStore {
    /// Connects to the database. Creates missing tables if `access` allows writes.
    pub(crate) async fn open(url: &DatabaseUrl, access: Access) -> Result<Self, AccountsError> {
        let connections = Connections::new(url, CONNECTIONS);
        match access {
            Access::ReadWrite => connections.open_tables(tables::DATABASE).await.map(drop)?,
            Access::ReadOnly => {
                let check =
                    connections.read(Snapshot::Transaction, |c| tables::DATABASE.check(c).boxed());
                check.await?;
            }
        }
        Ok(Self { connections, access, tasks: Group::default() })
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
        if self.access == Access::ReadOnly {
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
        let (connections, access) = (self.connections.clone(), self.access);
        self.run_to_end(async move {
            if access == Access::ReadWrite {
                return connections.check(CHECK).await;
            }
            let look = connections.read(Snapshot::Transaction, |c| {
                async move { Ok(sqlx::raw_sql(LOOK).execute(c).await.map(drop)?) }.boxed()
            });
            look.await
        })
        .await
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
    fn unreachable_cause(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Unreachable(cause) => cause.downcast_ref().map(PostgresError::inner),
            _ => None,
        }
    }

    fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

impl From<sqlx::Error> for AccountsError {
    fn from(error: sqlx::Error) -> Self {
        if let Some(&SchemaError::Version { found, known }) = SchemaError::of(&error) {
            return Self::Format { found, known };
        }
        match Fault::from(&error) {
            Fault::Unreachable => Self::Unreachable(Box::new(PostgresError::from(error))),
            Fault::Full => Self::Full,
            Fault::Closed => Self::Stopped,
            Fault::Corrupt | Fault::Statement => {
                Self::Statement(Box::new(PostgresError::from(error)))
            }
        }
    }
}
