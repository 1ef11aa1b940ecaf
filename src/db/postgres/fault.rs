//! What the database's errors are to a store.

use std::{error::Error as StdError, io};

use sqlx::{
    error::DatabaseError,
    postgres::{PgDatabaseError, PgSeverity},
};
use task::causes::chain;

/// The codes with which a server says that it stops, starts, is full of connections or takes no writes
/// since another one leads: the same request will do a little later.
const PASSING: [&str; 13] = [
    "25006", // read only: it was the leader
    "25P03", // the transaction was idle for too long
    "40001", // serialization failure
    "40P01", // deadlock
    "53000", // out of some resource
    "53200", // out of memory
    "53300", // too many connections
    "55P03", // a lock was not to be had in time
    "57014", // a statement took too long
    "57P01", // the administrator stops it
    "57P02", // it crashed
    "57P03", // it is starting
    "57P05", // the connection was idle for too long
];

/// What an error of the database means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server cannot be reached, refuses this program's user or password, or takes no work now: the
    /// same request will do a little later.
    Unreachable,
    /// Its disk is full.
    Full,
    /// Its files are damaged.
    Corrupt,
    /// The connections were closed.
    Closed,
    /// A statement failed, as it would again.
    Statement,
}

/// The error of work on a connection.
pub trait WorkError: From<sqlx::Error> + Send {
    /// The database's error if that is [`Fault::Unreachable`].
    fn unreachable_cause(&self) -> Option<&sqlx::Error>;

    /// Whether it is [`Fault::Full`].
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

/// Whether the connection is of no use any more. If it was idle, nothing was done on it.
#[must_use]
pub fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(fault) => {
            is_panic(&**fault)
                || fault
                    .code()
                    .is_some_and(|code| code.starts_with("57P") || code.starts_with("08"))
        }
        // A server that is silent is given no more time.
        sqlx::Error::Io(cause) => cause.kind() != io::ErrorKind::TimedOut && !is_unconnected(error),
        sqlx::Error::Protocol(_) => true,
        _ => false,
    }
}

/// Returns true if the server refused the user or the password.
pub(super) fn is_refused_login(error: &sqlx::Error) -> bool {
    has_code_of(error, "28")
}

/// Returns true if the server is a pooler that rejects startup options.
pub(super) fn is_refused_option(error: &sqlx::Error) -> bool {
    has_code_of(error, "08P01")
}

/// Returns true if the database has no such table or schema.
#[must_use]
pub fn is_missing_table(error: &sqlx::Error) -> bool {
    has_code_of(error, "42P01") || has_code_of(error, "3F000")
}

/// Returns true if `error` is of a class, or has a code, that begins so.
fn has_code_of(error: &sqlx::Error, start: &str) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code.starts_with(start))
}

/// Whether a server was never asked, since there was no connection to it: nothing was done.
#[must_use]
pub fn is_unconnected(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(_) => is_refused_login(error),
        sqlx::Error::Io(error) => {
            matches!(error.get_ref(), Some(cause) if cause.is::<NoConnection>())
        }
        _ => false,
    }
}

/// Whether the server has no database of the name in the address.
#[must_use]
pub fn is_no_database(error: &sqlx::Error) -> bool {
    has_code_of(error, "3D000")
}

/// An error of the database as one text: the server's own words, without the line of its sources.
fn describe(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(fault) => fault.message().to_owned(),
        sqlx::Error::Io(error) => chain(error),
        error => chain(error),
    }
}

/// Why a look by itself got no connection.
#[derive(Debug, thiserror::Error)]
#[error("connect to it: {}; `triptych doctor --store` says more", describe(.0))]
struct NoConnection(sqlx::Error);

/// The error of a pool that got no connection because of `cause`. No connection was lost.
pub(super) fn no_connection(cause: sqlx::Error) -> sqlx::Error {
    io::Error::other(NoConnection(cause)).into()
}

/// A statement that a server refused, or another error that the same request would meet again.
#[derive(Debug, thiserror::Error)]
#[error("{}", describe(.0))]
pub struct Refused(sqlx::Error);

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

/// What an operator can do about `error`, where a server refused to serve a user or has no such
/// database.
#[must_use]
pub fn next_step(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(Refused(error)) = error.downcast_ref() {
            return next_step_after(error.as_database_error()?.code().as_deref()?);
        }
        cause = error.source();
    }
    None
}

/// What keeps a server from being used, and what an operator can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The problem, in the words of the server or the system.
    pub text: String,
    /// The advice.
    pub next: &'static str,
}

/// Advice for a server that no connection reaches.
const CHECK_PLACE: &str = "check that it runs, and its host and port";

/// Advice for a connection that fails as TLS begins.
const CHECK_TLS: &str =
    "check PGSSLMODE, the authority in PGSSLROOTCERT, and the server's certificate and its name";

/// Returns the problem behind `error`; `None` if no database is among its causes.
#[must_use]
pub fn diagnose(error: &(dyn StdError + 'static)) -> Option<Diagnosis> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let refused = error.downcast_ref().map(|Refused(error)| error);
        if let Some(found) = refused.or_else(|| error.downcast_ref()) {
            return Some(diagnose_database(found));
        }
        cause = error.source();
    }
    None
}

fn diagnose_database(error: &sqlx::Error) -> Diagnosis {
    let text = describe(error);
    match error {
        sqlx::Error::Database(fault) => {
            let next = fault.code().as_deref().and_then(next_step_after);
            Diagnosis { text, next: next.unwrap_or("look at the server's own log") }
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
        _ => Diagnosis { text, next: CHECK_PLACE },
    }
}

/// What to do about an error of the code `code`.
fn next_step_after(code: &str) -> Option<&'static str> {
    Some(match code {
        "3D000" => "create it with `createdb NAME`, or correct the name at the end of the address",
        "28P01" | "28000" => {
            "check the user in the address, its password in PGPASSWORD or ~/.pgpass, and pg_hba.conf"
        }
        "42501" => {
            "let the owner of the database GRANT the user what it lacks: CREATE ON DATABASE, or the tables"
        }
        _ => return None,
    })
}

/// Whether the server ended, as one does that has no space for its log of commits. What it was asked may
/// be done.
fn is_panic(fault: &dyn DatabaseError) -> bool {
    let fault = fault.try_downcast_ref::<PgDatabaseError>();
    fault.is_some_and(|fault| fault.severity() == PgSeverity::Panic)
}

/// The server did not respond.
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
                // Class 28 refuses who asks: the service's operator, not its caller, can mend it.
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

/// A number of the database as one of ours, where it is not negative.
///
/// # Errors
/// [`sqlx::Error::Decode`] if it does not fit.
pub fn unsigned<T: TryFrom<i64>>(number: i64) -> Result<T, sqlx::Error> {
    let error = || sqlx::Error::Decode(format!("{number} is out of range").into());
    T::try_from(number).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_or_a_database_lacks_has_a_next_step() {
        assert!(next_step_after("3D000").is_some_and(|it| it.contains("createdb")));
        assert!(next_step_after("28P01").is_some_and(|it| it.contains("PGPASSWORD")));
        assert_eq!(next_step_after("22012"), None);
    }
}
