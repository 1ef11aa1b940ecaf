//! What the database's errors are to a store.

use std::io;

use sqlx::{
    error::DatabaseError,
    postgres::{PgDatabaseError, PgSeverity},
};

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
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        _ => false,
    }
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
