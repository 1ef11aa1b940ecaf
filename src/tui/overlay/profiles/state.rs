//! The form that takes the key of a profile.

use std::fmt;

use model::key::ApiKey;

use crate::state::{field::Field, loadable::Failure};

/// The form that takes a key. What is typed is never shown.
#[derive(Clone)]
pub(crate) struct KeyForm {
    /// The profile that the key belongs to.
    pub(crate) profile: String,
    /// What is typed.
    pub(crate) input: Field,
    pub(crate) step: KeyStep,
}

/// The state of an entered key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyStep {
    /// It is typed.
    Typed,
    /// The key is being checked with a service.
    Tried,
    /// The key was refused, or no service could be reached.
    Refused(Failure),
}

impl KeyForm {
    /// An empty form for the key of `profile`.
    pub(crate) fn new(profile: &str) -> Self {
        let input = Field::edited("");
        Self { profile: profile.to_owned(), input, step: KeyStep::Typed }
    }

    /// The typed key; otherwise sets an error that describes the format.
    pub(crate) fn key(&mut self) -> Option<ApiKey> {
        let key = self.input.value().parse().ok();
        self.step = match key {
            Some(_) => KeyStep::Tried,
            None => KeyStep::Refused(Failure::new(
                "read the key",
                "a key is UP- and 24 hexadecimal digits",
                "",
            )),
        };
        key
    }
}

impl fmt::Debug for KeyForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyForm")
            .field("profile", &self.profile)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}
