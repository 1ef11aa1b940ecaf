//! The profiles: which there are, which is in use, and how its key is kept.

use crate::{
    local::Addresses,
    profiles::{KeyPlace, Profile},
};

/// The name under which a key is kept where no profile is in use.
pub const NO_PROFILE: &str = "default";

/// The profiles there are.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    /// All, by name.
    pub list: Vec<Profile>,
    /// The one in use; none for addresses given otherwise, or for the stack of this machine.
    pub current: Option<String>,
    /// Addresses of flags or the environment, if they name no profile.
    pub given: Option<Addresses>,
    /// Whether a stack can be started on this machine.
    pub has_local: bool,
    /// Where the key in use is kept.
    pub key_place: Option<KeyPlace>,
    /// The profile that is being opened.
    pub opening: Option<String>,
}

/// Services that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// The stack of this machine.
    Local,
    /// The addresses of flags or the environment.
    Given(&'a Addresses),
    /// A profile of the configuration file.
    Profile(&'a Profile),
}

impl Choice<'_> {
    /// The name under which its key is kept; `None` for the local stack, which makes its own.
    pub(crate) const fn name(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Given(_) => Some(NO_PROFILE),
            Self::Profile(profile) => Some(profile.name.as_str()),
        }
    }
}

impl Profiles {
    /// Returns what can be chosen, in the order of the list.
    pub(crate) fn choices(&self) -> Vec<Choice<'_>> {
        let local = self.has_local.then_some(Choice::Local);
        let given = self.given.as_ref().map(Choice::Given);
        let listed = self.list.iter().map(Choice::Profile);
        local.into_iter().chain(given).chain(listed).collect()
    }

    /// The name under which the key in use is kept.
    pub(crate) fn key_name(&self) -> &str {
        self.current.as_deref().unwrap_or(NO_PROFILE)
    }

    /// Returns true if `choice` is in use, by the addresses that are in use.
    pub(crate) fn is_in_use(&self, choice: Choice<'_>, in_use: &Addresses) -> bool {
        let is_given = self.current.is_none()
            && self.given.as_ref().is_some_and(|given| {
                let of =
                    |it: &Addresses| (it.heads.clone(), it.datasets.clone(), it.inference.clone());
                of(given) == of(in_use) || self.opening.as_deref() == Some(NO_PROFILE)
            });
        match choice {
            Choice::Local => self.current.is_none() && !is_given,
            Choice::Given(_) => is_given,
            Choice::Profile(profile) => self.current.as_ref() == Some(&profile.name),
        }
    }
}
