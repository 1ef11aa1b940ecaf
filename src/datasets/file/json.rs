//! A row as a JSON object: flat, or with its values in a member of their own.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::cell::Cell;

/// The member that holds a row's values where it is not flat.
const VALUES: &str = "values";

/// Members of a row that services add, which are no values of it. Only where it is not flat: a flat
/// row may well have such a column.
const ADDED: [&str; 3] = ["id", "dataset_id", "created_at"];

/// Hands the members of a row's object to `take`: those of its member `values`, if that is an
/// object, in its place.
///
/// # Errors
/// What is wrong with the text.
pub fn members(object: &[u8], take: &mut dyn FnMut(&str, Cell<'_>)) -> Result<(), String> {
    // Members of a row with values of its own come before they are known to be no values.
    let is_nested = memchr_values(object);
    let mut json = serde_json::Deserializer::from_slice(object);
    let members = Members { take, is_nested };
    members.deserialize(&mut json).and_then(|()| json.end()).map_err(|error| shown(&error))
}

/// Whether a member called `values` may hold an object. A text in the row that looks the same only
/// costs a second look.
fn memchr_values(object: &[u8]) -> bool {
    let name = format!("\"{VALUES}\"");
    let places = object.windows(name.len()).enumerate();
    let mut found = places.filter(|(_, part)| *part == name.as_bytes());
    found.any(|(at, _)| {
        let rest = object.get(at + name.len()..).unwrap_or_default().trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{"))
    })
}

/// An error without the line, which is always the first.
fn shown(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text.get(..end).unwrap_or(&text).to_owned()
}

struct Members<'a> {
    take: &'a mut dyn FnMut(&str, Cell<'_>),
    is_nested: bool,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the values of a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name>()? {
            let name = name.0.as_str();
            if self.is_nested && name == VALUES {
                map.next_value_seed(Members { take: &mut *self.take, is_nested: false })?;
            } else if self.is_nested && ADDED.contains(&name) {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Value { name, take: &mut *self.take })?;
            }
        }
        Ok(())
    }
}

/// A member's name. Most are short, and allocated once a member: a tenth of what parsing costs.
struct Name(String);

impl<'de> serde::Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        String::deserialize(json).map(Self)
    }
}

struct Value<'a> {
    name: &'a str,
    take: &'a mut dyn FnMut(&str, Cell<'_>),
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number, a text, true, false or null in `{}`", self.name)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<(), E> {
        (self.take)(self.name, Cell::Boolean(truth));
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        (self.take)(self.name, Cell::Integer(number));
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            #[expect(clippy::cast_precision_loss, reason = "it is no whole number of a column")]
            Err(_) => self.visit_f64(number as f64),
        }
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        (self.take)(self.name, Cell::Float(number));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        (self.take)(self.name, Cell::Text(text));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        (self.take)(self.name, Cell::Absent);
        Ok(())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom(format_args!("`{}` is a list, which no column holds", self.name)))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom(format_args!("`{}` is an object, which no column holds", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(object: &str, want: Result<&[(&str, Cell<'_>)], &str>) {
        let mut found = Vec::new();
        let read = members(object.as_bytes(), &mut |name, cell| {
            found.push(format!("{name}={cell:?}"));
        });
        let want = want.map(|want| {
            want.iter().map(|(name, cell)| format!("{name}={cell:?}")).collect::<Vec<_>>()
        });
        assert_eq!(read.map(|()| found), want.map_err(str::to_owned));
    }

    #[test]
    fn flat_rows_and_rows_with_values_are_the_same() {
        let want = [("timestamp", Cell::Text("t")), ("a", Cell::Integer(1)), ("b", Cell::Absent)];
        check(r#"{"timestamp":"t","a":1,"b":null}"#, Ok(&want));
        check(r#"{"id":7,"dataset_id":3,"timestamp":"t","values":{"a":1,"b":null}}"#, Ok(&want));
        // A column may be called so.
        let column = [("values", Cell::Float(1.5)), ("id", Cell::Boolean(true))];
        check(r#"{"values":1.5,"id":true}"#, Ok(&column));
    }

    #[test]
    fn what_no_column_holds_is_told_with_its_name() {
        check(r#"{"a":[1]}"#, Err("`a` is a list, which no column holds"));
        check(r#"{"a":{"b":1}}"#, Err("`a` is an object, which no column holds"));
        check("[1]", Err("invalid type: sequence, expected an object with the values of a row"));
        check("{\"a\":1} x", Err("trailing characters"));
        check(r#"{"a":"#, Err("EOF while parsing a value"));
    }
}
