//! Classifies errors of PostgreSQL and gives advice for them.

use std::error::Error as StdError;
use std::io;

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use task::causes::{causes, chain};

use super::schema::SchemaError;

/// Codes of temporary errors: the server is stopping or starting, has too many connections, or rejects
/// writes because another server is the leader. The same request can succeed later.
const PASSING: [&str; 13] = [
    "25006", // read only: it was the leader
    "25P03", // the transaction was idle for too long
    "40001", // serialization failure
    "40P01", // deadlock
    "53000", // out of some resource
    "53200", // out of memory
    "53300", // too many connections
    "55P03", // a lock was not available in time
    "57014", // a statement took too long
    "57P01", // the administrator stops it
    "57P02", // it crashed
    "57P03", // it is starting
    "57P05", // the connection was idle for too long
];

/// Class of an error of PostgreSQL, which determines whether the same request can succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server cannot be reached, rejects the user or password, or cannot execute requests now.
    /// The same request can succeed later.
    Unreachable,
    /// The server's disk is full.
    Full,
    /// The server's files are damaged.
    Corrupt,
    /// The pool of connections was closed.
    Closed,
    /// A statement failed for a reason that does not go away.
    Statement,
}

/// Error type of the work that is run on a connection.
pub trait WorkError: From<sqlx::Error> + Send {
    /// Returns the underlying error of the database if its class is [`Fault::Unreachable`].
    fn unreachable_cause(&self) -> Option<&sqlx::Error>;

    /// Returns true if the class of the error is [`Fault::Full`].
    fn is_full(&self) -> bool;
}

impl WorkError for sqlx::Error {
    fn unreachable_cause(&self) -> Option<&sqlx::Error> {
        (Fault::from(self) == Fault::Unreachable).then_some(self)
    }

    fn is_full(&self) -> bool {
        Fault::from(self) == Fault::Full
    }
}

/// Returns true if the connection was lost, so it cannot be used again. The work can be repeated if the
/// connection was lost while idle.
#[must_use]
pub fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(fault) => {
            is_panic(&**fault)
                || fault
                    .code()
                    .is_some_and(|code| code.starts_with("57P") || code.starts_with("08"))
        }
        sqlx::Error::Io(cause) => {
            let is_unconnected =
                matches!(cause.get_ref(), Some(cause) if cause.is::<NoConnection>());
            // A timeout does not count as a lost connection, so that the request is not repeated.
            cause.kind() != io::ErrorKind::TimedOut && !is_unconnected
        }
        sqlx::Error::Protocol(_) => true,
        _ => false,
    }
}

/// Returns true if the server rejected the user or the password.
pub(super) fn is_refused_login(error: &sqlx::Error) -> bool {
    has_code_of(error, "28")
}

/// Returns true if the server is a pooler that rejected a startup option.
pub(super) fn is_refused_option(error: &sqlx::Error) -> bool {
    has_code_of(error, "08P01")
}

/// Returns true if the error code begins with `start`.
fn has_code_of(error: &sqlx::Error, start: &str) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code.starts_with(start))
}

/// Returns true if the database in the address does not exist.
#[must_use]
pub fn is_no_database(error: &sqlx::Error) -> bool {
    has_code_of(error, "3D000")
}

/// Describes an error in the words of the server, without the location in its source code.
pub(super) fn describe(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(fault) => fault.message().to_owned(),
        sqlx::Error::Io(error) => chain(error),
        error => SchemaError::of(error).map_or_else(|| chain(error), SchemaError::to_string),
    }
}

/// Reason why the pool has no connection.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect: {}; run `triptych doctor --store` for details", describe(.0))]
struct NoConnection(sqlx::Error);

/// Returns the error of a pool that could not connect because of `cause`. The returned error does not
/// count as the loss of a connection, after which work is repeated.
pub(super) fn no_connection(cause: sqlx::Error) -> sqlx::Error {
    io::Error::other(NoConnection(cause)).into()
}

/// Error of a database, described in the words of its server.
#[derive(Debug, thiserror::Error)]
#[error("{}", describe(.0))]
pub struct PostgresError(sqlx::Error);

impl From<sqlx::Error> for PostgresError {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

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

/// Advice if a server cannot be reached.
const CHECK_PLACE: &str = "check that it runs, and its host and port";

/// Advice for an error that only the server's log explains.
const CHECK_LOG: &str = "look at the server's own log";

/// Advice if a TLS handshake failed.
const CHECK_TLS: &str =
    "check PGSSLMODE, the authority in PGSSLROOTCERT, and the server's certificate and its name";

/// Returns the fault of the database among `error` and its causes, or `None` if no database caused it.
#[must_use]
pub fn diagnose(error: &(dyn StdError + 'static)) -> Option<Diagnosis> {
    let error = database_error(error)?;
    SchemaError::of(error).is_none().then(|| diagnose_database(error))
}

/// Returns the error of the database among `error` and its causes.
fn database_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e sqlx::Error> {
    causes(error).find_map(|cause| {
        let described = cause.downcast_ref().map(PostgresError::inner);
        described.or_else(|| cause.downcast_ref())
    })
}

/// Reason why a server rejects a statement until its operator corrects it. The statement had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The database or its server is read-only.
    ReadOnly,
    /// The user lacks a privilege on the tables.
    Privilege,
}

impl Rejection {
    /// Returns the reason if the database rejected a write, according to `error` and its causes.
    #[must_use]
    pub fn of(error: &(dyn StdError + 'static)) -> Option<Self> {
        let error = database_error(error)?;
        if let Some(SchemaError::Privileges { .. }) = SchemaError::of(error) {
            return Some(Self::Privilege);
        }
        match error.as_database_error()?.code()?.as_ref() {
            "25006" => Some(Self::ReadOnly),
            "42501" => Some(Self::Privilege),
            _ => None,
        }
    }

    /// Returns the reason for a client of the service, with the next step.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::ReadOnly => {
                "the service's database is read-only: nothing was stored; retry once it accepts writes"
            }
            Self::Privilege => {
                "the service's user lacks a privilege in its database; its operator can find it with \
                 `triptych doctor --store`"
            }
        }
    }

    /// Returns the state of the database for a health check.
    #[must_use]
    pub const fn state(self) -> &'static str {
        match self {
            Self::ReadOnly => "not writable",
            Self::Privilege => "no privilege",
        }
    }
}

fn diagnose_database(error: &sqlx::Error) -> Diagnosis {
    let text = describe(error);
    match error {
        sqlx::Error::Database(fault) => {
            let next = fault.code().as_deref().and_then(next_step_after);
            Diagnosis { text, next: next.unwrap_or(CHECK_LOG) }
        }
        sqlx::Error::Tls(_) => Diagnosis { text: format!("TLS failed: {text}"), next: CHECK_TLS },
        sqlx::Error::Io(cause) => match cause.get_ref().and_then(|cause| cause.downcast_ref()) {
            Some(NoConnection(error)) => diagnose_database(error),
            None if cause.kind() == io::ErrorKind::InvalidData => {
                Diagnosis { text: format!("TLS failed: {text}"), next: CHECK_TLS }
            }
            None => Diagnosis { text: format!("cannot connect to it: {text}"), next: CHECK_PLACE },
        },
        sqlx::Error::Configuration(_) => Diagnosis { text, next: "correct its address" },
        error if Fault::from(error) == Fault::Unreachable => Diagnosis { text, next: CHECK_PLACE },
        _ => Diagnosis { text, next: CHECK_LOG },
    }
}

/// Returns the advice for an error with this code.
fn next_step_after(code: &str) -> Option<&'static str> {
    Some(match code {
        "3D000" => "create it with `createdb NAME`, or correct the name at the end of the address",
        "28P01" | "28000" => {
            "check the user in the address, its password in PGPASSWORD or in ~/.pgpass with mode 0600, and pg_hba.conf"
        }
        "42501" => {
            "let the owner of the database GRANT the user CREATE ON DATABASE, or access to the tables"
        }
        _ => return None,
    })
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
                Some("XX001" | "XX002") => Self::Corrupt,
                // Class 28 means that the server rejected the login. This counts as temporary, since the
                // operator of the service can correct it.
                Some(code)
                    if PASSING.contains(&code)
                        || code.starts_with("08")
                        || code.starts_with("28") =>
                {
                    Self::Unreachable
                }
                _ => Self::Statement,
            },
            Error::Io(_)
            | Error::Tls(_)
            | Error::Protocol(_)
            | Error::PoolTimedOut
            | Error::WorkerCrashed => Self::Unreachable,
            Error::PoolClosed => Self::Closed,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_for_a_missing_database_or_wrong_password_include_advice() {
        assert!(next_step_after("3D000").is_some_and(|it| it.contains("createdb")));
        assert!(next_step_after("28P01").is_some_and(|it| it.contains("PGPASSWORD")));
        assert_eq!(next_step_after("22012"), None);
    }
}
