//! Classifies errors of PostgreSQL and gives advice for them.

use std::error::Error as StdError;
use std::io;

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use task::causes::{causes, chain};

use super::schema::SchemaError;
use crate::fault::WorkError;

/// Codes of temporary errors, or their classes: the connection failed (08), the server rejected the login
/// (28), which the operator of the service can correct, the server lacks resources (53) or an operator
/// intervened (57), the database is read-only since another server leads, the transaction was idle for
/// too long, could not be serialized or had a deadlock, or a lock was not available in time. The same
/// request can succeed later.
const PASSING: [&str; 9] = ["08", "28", "53", "57", "25006", "25P03", "40001", "40P01", "55P03"];

/// Class of an error of PostgreSQL, which determines whether the same request can succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server cannot be reached, rejects the user or password, or cannot execute requests now.
    /// The same request can succeed later.
    Unreachable,
    /// The server's disk is full.
    Full,
    /// A statement failed for a reason that does not go away.
    Statement,
}

impl WorkError for sqlx::Error {
    fn is_full(&self) -> bool {
        Fault::from(self) == Fault::Full
    }
}

/// Returns true if the class of the error is [`Fault::Unreachable`].
pub(super) fn is_unreachable(error: &(dyn StdError + 'static)) -> bool {
    database_error(error).map(Fault::from) == Some(Fault::Unreachable)
}

/// Returns true if an open connection was lost, so that another connection can succeed immediately.
pub(super) fn is_connection_lost(error: &(dyn StdError + 'static)) -> bool {
    database_error(error).is_some_and(|error| match error {
        // The other kinds are failures to open a connection.
        sqlx::Error::Io(cause) => {
            use io::ErrorKind::{ConnectionRefused, NotFound, TimedOut};
            !matches!(cause.kind(), ConnectionRefused | NotFound | TimedOut)
        }
        sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        error => ["08003", "08006", "57P01", "57P02"].iter().any(|code| has_code(error, code)),
    })
}

/// Returns true if the error code begins with `start`.
#[must_use]
pub fn has_code(error: &sqlx::Error, start: &str) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code.starts_with(start))
}

/// Describes an error in the words of the server, without the location in its source code.
pub(super) fn describe(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(fault) => fault.message().to_owned(),
        sqlx::Error::Io(error) => chain(error),
        error => SchemaError::of(error).map_or_else(|| chain(error), SchemaError::to_string),
    }
}

/// Error of a database, described in the words of its server.
#[derive(Debug, derive_more::From, thiserror::Error)]
#[error("{}", describe(.0))]
pub struct PostgresError(sqlx::Error);

impl PostgresError {
    /// Returns the error of the driver.
    #[must_use]
    pub const fn inner(&self) -> &sqlx::Error {
        &self.0
    }

    /// Returns true if a record with the same unique value exists.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        self.0.as_database_error().is_some_and(DatabaseError::is_unique_violation)
    }
}

/// Fault of a server, with advice for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// Description of the fault in the words of the server or of the system.
    pub text: String,
    /// Next step to correct the fault.
    pub next: &'static str,
}

/// Returns the fault of the database among `error` and its causes, or `None` if no database caused it.
#[must_use]
pub fn diagnose(error: &(dyn StdError + 'static)) -> Option<Diagnosis> {
    let error = database_error(error).filter(|error| SchemaError::of(error).is_none())?;
    let code = error.as_database_error().and_then(DatabaseError::code);
    let is_tls = match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(cause) => cause.kind() == io::ErrorKind::InvalidData,
        _ => false,
    };
    let start = match error {
        _ if is_tls => "TLS failed: ",
        sqlx::Error::Io(_) => "cannot connect to it: ",
        _ => "",
    };
    let next = match code.as_deref() {
        Some("3D000") => {
            "create it with `createdb NAME`, or correct the name at the end of the address"
        }
        Some("28P01" | "28000") => {
            "check the user in the address, its password in PGPASSWORD or in ~/.pgpass with mode 0600, and pg_hba.conf"
        }
        Some("42501") => {
            "let the owner of the database GRANT the user CREATE ON DATABASE, or access to the tables"
        }
        None if is_tls => {
            "check PGSSLMODE, the authority in PGSSLROOTCERT, and the server's certificate and its name"
        }
        None if matches!(error, sqlx::Error::Configuration(_)) => "correct its address",
        None if Fault::from(error) == Fault::Unreachable => {
            "check that it runs, and its host and port"
        }
        _ => "look at the server's own log",
    };
    Some(Diagnosis { text: format!("{start}{}", describe(error)), next })
}

/// Returns the error of the database among `error` and its causes.
fn database_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e sqlx::Error> {
    causes(error).find_map(|cause| {
        let described = cause.downcast_ref().map(PostgresError::inner);
        described.or_else(|| cause.downcast_ref())
    })
}

/// Reason why a server rejects a statement until its operator corrects it. The statement had no effect.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Reason for a client of the service, with the next step.
    pub text: &'static str,
    /// State of the database for a health check.
    pub state: &'static str,
}

impl Rejection {
    /// The database or its server is read-only.
    pub const READ_ONLY: Self = Self {
        text: "the service's database is read-only: nothing was stored; retry once it accepts writes",
        state: "not writable",
    };

    /// The user lacks a privilege on the tables.
    pub const PRIVILEGE: Self = Self {
        text: "the service's user lacks a privilege in its database; its operator can find it with \
               `triptych doctor --store`",
        state: "no privilege",
    };

    /// Returns the reason if the database rejected a write, according to `error` and its causes.
    #[must_use]
    pub fn of(error: &(dyn StdError + 'static)) -> Option<Self> {
        let error = database_error(error)?;
        if let Some(SchemaError::Privileges(_)) = SchemaError::of(error) {
            return Some(Self::PRIVILEGE);
        }
        match error.as_database_error()?.code()?.as_ref() {
            "25006" => Some(Self::READ_ONLY),
            "42501" => Some(Self::PRIVILEGE),
            _ => None,
        }
    }
}

/// Returns true if the server crashed, as it does without space for its write-ahead log. The request
/// might have been executed.
fn is_panic(fault: &dyn DatabaseError) -> bool {
    let fault = fault.try_downcast_ref::<PgDatabaseError>();
    fault.is_some_and(|fault| fault.severity() == PgSeverity::Panic)
}

/// Returns the error of a server that does not respond.
#[must_use]
pub fn timed_out() -> sqlx::Error {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

impl From<&sqlx::Error> for Fault {
    fn from(error: &sqlx::Error) -> Self {
        use sqlx::Error;
        match error {
            Error::Database(fault) if is_panic(&**fault) => Self::Unreachable,
            Error::Database(fault) => match fault.code().as_deref() {
                Some("53100") => Self::Full,
                Some(code) if PASSING.iter().any(|start| code.starts_with(start)) => {
                    Self::Unreachable
                }
                _ => Self::Statement,
            },
            Error::Io(_)
            | Error::Tls(_)
            | Error::Protocol(_)
            | Error::PoolTimedOut
            | Error::WorkerCrashed => Self::Unreachable,
            _ => Self::Statement,
        }
    }
}

/// Converts a number from the database to an unsigned type.
///
/// # Errors
/// [`sqlx::Error::Decode`] if the number is out of range.
pub fn unsigned<T: TryFrom<i64>>(number: i64) -> Result<T, sqlx::Error> {
    let error = || sqlx::Error::Decode(format!("{number} is out of range").into());
    T::try_from(number).map_err(|_| error())
}
