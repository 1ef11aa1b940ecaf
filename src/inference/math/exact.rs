//! Serialization of floating-point numbers as decimal texts. Each text is the shortest that parses to
//! the same number.
//!
//! JSON numbers might differ in the last bit after a round trip. The epoch could then not be
//! reproduced. Use the trait as `#[serde(with = "Exact")]`.

use std::collections::BTreeMap;
use std::fmt;

use model::topic::Address;
use serde::de::{self, DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that contains numbers and serializes them as texts.
pub trait Exact: Sized {
    /// Serializes the value.
    ///
    /// # Errors
    /// The error of the serializer.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Deserializes a value. Texts must be borrowed from the input.
    ///
    /// # Errors
    /// The error of the deserializer, also for a text that is not a number.
    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Adapter that implements serde's traits for a value inside an option, list or map.
pub(crate) struct Text<T>(pub(crate) T);

impl<T: Exact> Serialize for Text<&T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Exact> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

impl Exact for f64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&str as Deserialize>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl<T: Exact> Exact for Option<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Serialize::serialize(&self.as_ref().map(Text), serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(<Option<Text<T>> as Deserialize>::deserialize(deserializer)?.map(|Text(value)| value))
    }
}

impl<T: Exact> Exact for Vec<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Text))
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = <Vec<Text<T>> as Deserialize>::deserialize(deserializer)?;
        Ok(values.into_iter().map(|Text(value)| value).collect())
    }
}

impl<T: Exact> Exact for BTreeMap<Address, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, value)| (name.as_str(), Text(value))))
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ActorsReader(&Self::new()).deserialize(deserializer)
    }
}

/// Deserializes values by address. The input should be sorted by address. Clones an address that is a
/// key of the given map instead of allocating it, since an epoch of a thousand inferers and fifty
/// forecasters contains 50 000 repetitions.
pub(crate) struct ActorsReader<'k, T>(pub(crate) &'k BTreeMap<Address, T>);

impl<'de, T: Exact> DeserializeSeed<'de> for ActorsReader<'_, T> {
    type Value = BTreeMap<Address, T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Exact> Visitor<'de> for ActorsReader<'_, T> {
    type Value = BTreeMap<Address, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("values by address")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut known = self.0.keys().peekable();
        let mut values = Vec::with_capacity(self.0.len());
        while let Some((text, Text(value))) = map.next_entry::<&str, Text<T>>()? {
            while known.next_if(|name| name.as_str() < text).is_some() {}
            let name = match known.next_if(|name| name.as_str() == text) {
                Some(name) => name.clone(),
                None => text.parse().map_err(de::Error::custom)?,
            };
            values.push((name, value));
        }
        Ok(values.into_iter().collect())
    }
}
