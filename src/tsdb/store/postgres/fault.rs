//! What the database's errors are to this store.

use db::postgres::{
    fault::{Fault, Refused, WorkError, is_no_database},
    schema::SchemaError,
};

use super::StoreError;

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
        if let Some((found, known)) = SchemaError::raised_format(&error) {
            return Self::Format { found, known };
        }
        if is_no_database(&error) {
            return Self::Unreachable(Box::new(error));
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
