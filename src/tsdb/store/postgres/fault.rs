//! What the database's errors are to a store.

use std::io;

use super::{Result, StoreError};

/// The codes with which a server says that it stops, starts, is full of connections or takes no writes
/// since another one leads: the same request will do a little later.
const PASSING: [&str; 12] = [
    "25006", // read only: it was the leader
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

/// Whether the connection is of no use any more, and nothing was done on it.
pub(super) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(fault) => {
            fault.code().is_some_and(|code| code.starts_with("57P") || code.starts_with("08"))
        }
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        _ => false,
    }
}

/// The server did not respond.
pub(super) fn timed_out() -> StoreError {
    StoreError::Unreachable(Box::new(io::Error::from(io::ErrorKind::TimedOut)))
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error;
        match &error {
            Error::Database(fault) => match fault.code().as_deref() {
                Some("53100") => Self::Full,
                Some("XX001" | "XX002") => Self::Corrupt(Box::new(error)),
                Some(code) if PASSING.contains(&code) || code.starts_with("08") => {
                    Self::Unreachable(Box::new(error))
                }
                _ => Self::Statement(Box::new(error)),
            },
            Error::Io(_)
            | Error::Tls(_)
            | Error::Protocol(_)
            | Error::PoolTimedOut
            | Error::WorkerCrashed => Self::Unreachable(Box::new(error)),
            Error::PoolClosed => Self::Closed,
            _ => Self::Statement(Box::new(error)),
        }
    }
}

/// A number of the database as one of ours, where it is not negative.
pub(super) fn unsigned<T: TryFrom<i64>>(number: i64) -> Result<T> {
    let error = || sqlx::Error::Decode(format!("{number} is out of range").into());
    T::try_from(number).map_err(|_| error().into())
}
