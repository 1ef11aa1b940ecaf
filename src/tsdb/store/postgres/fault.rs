//! What the database's errors are to this store.

use db::postgres::{
    connections::WrongDatabase,
    fault::{Fault, Refused, WorkError, is_no_database, is_unconnected},
    schema::SchemaError,
};

use super::StoreError;
use crate::store::Cause;

/// One of several servers failed.
#[derive(Debug, thiserror::Error)]
#[error("use the server {name}")]
struct OnServer {
    name: String,
    source: Cause,
}

impl StoreError {
    /// The same of the server `name`, where it is lost.
    pub(super) fn on_server(self, name: &str) -> Self {
        let on_server = |source| -> Cause { Box::new(OnServer { name: name.to_owned(), source }) };
        match self {
            Self::Unreachable(cause) => Self::Unreachable(on_server(cause)),
            Self::WrongServer(cause) => Self::WrongServer(on_server(cause)),
            error => error,
        }
    }

    /// Whether a server is of no use now, and others are.
    pub(super) const fn is_server_lost(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::WrongServer(_))
    }

    /// Whether a server is lost and was not asked: nothing was done there.
    pub(super) fn is_unasked(&self) -> bool {
        matches!(self, Self::WrongServer(_)) || self.unreachable_cause().is_some_and(is_unconnected)
    }
}

impl WorkError for StoreError {
    fn unreachable_cause(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Unreachable(cause) => cause.downcast_ref(),
            _ => None,
        }
    }

    fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::Configuration(cause) = &error
            && cause.is::<WrongDatabase>()
        {
            return Self::WrongServer(Box::new(error));
        }
        if is_no_database(&error) {
            return Self::WrongServer(Box::new(Refused::from(error)));
        }
        match Fault::from(&error) {
            Fault::Unreachable => Self::Unreachable(Box::new(error)),
            Fault::Full => Self::Full,
            Fault::Corrupt => Self::Corrupt(Box::new(Refused::from(error))),
            Fault::Closed => Self::Closed,
            Fault::Statement => Self::Statement(Box::new(Refused::from(error))),
        }
    }
}

impl From<SchemaError> for StoreError {
    fn from(error: SchemaError) -> Self {
        match error {
            SchemaError::Version { found, known } => Self::Format { found, known },
            SchemaError::Database(error) => error.into(),
            error => Self::Statement(Box::new(error)),
        }
    }
}
