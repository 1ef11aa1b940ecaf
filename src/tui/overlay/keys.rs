//! The keys that continue a key sequence.

pub(crate) mod view;
