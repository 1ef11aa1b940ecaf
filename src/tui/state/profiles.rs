//! The profiles: which there are, which is in use, and how its key is kept.

use crate::profiles::{KeyPlace, Profile};

/// The name under which a key is kept where no profile is in use.
pub const NO_PROFILE: &str = "default";

/// The profiles there are.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    /// All, by name.
    pub list: Vec<Profile>,
    /// The one in use; none for addresses given otherwise, or for the stack of this machine.
    pub current: Option<String>,
    /// Whether a stack can be started on this machine.
    pub has_local: bool,
    /// Where the key in use is kept.
    pub key_place: Option<KeyPlace>,
    /// The profile that is being opened.
    pub opening: Option<String>,
}

impl Profiles {
    /// What can be chosen, in the order of the list; none is the stack of this machine.
    pub(crate) fn choices(&self) -> Vec<Option<&Profile>> {
        let local = self.has_local.then_some(None);
        local.into_iter().chain(self.list.iter().map(Some)).collect()
    }

    /// The name under which the key in use is kept.
    pub(crate) fn key_name(&self) -> &str {
        self.current.as_deref().unwrap_or(NO_PROFILE)
    }
}
