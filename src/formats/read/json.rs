//! A row as a JSON object: flat, or with its values in a separate member.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::cell::Cell;

/// Name of the member with a row's values, in rows that are not flat.
pub const VALUES: &str = "values";

/// Members that services add to a row and that are not values. Such members are only skipped if the row
/// is not flat, since a flat row may have columns with these names.
const ADDED: [&str; 3] = ["id", "dataset_id", "created_at"];

/// Callback for a member of a row: its name and value.
type TakeMember<'a> = &'a mut dyn FnMut(&str, Cell<'_>);

/// Passes the members of a row's object to `take`. If the member `values` is an object, passes its
/// members in place of it, and skips the members that services add to such a row.
///
/// # Errors
/// Description of the syntax error.
pub fn members(object: &[u8], take: &mut dyn FnMut(&str, Cell<'_>)) -> Result<(), String> {
    // The members that services add may precede `values`, so the text is searched for `values` first.
    let skips_added = has_values(object);
    read_row(&mut serde_json::Deserializer::from_slice(object), skips_added, take).map(drop)
}

/// Passes the members of a row's object to `take` like [`members`], but includes the members that
/// services add. Returns the number of members of the object itself, in which `values` counts as one.
///
/// This function is not inlined, since the whole parser must be compiled in one unit: see
/// `codegen-units` in the workspace's `Cargo.toml`.
///
/// # Errors
/// Description of the syntax error.
pub fn all_members(object: &str, take: &mut dyn FnMut(&str, Cell<'_>)) -> Result<usize, String> {
    read_row(&mut serde_json::Deserializer::from_str(object), false, take)
}

/// Passes the items of an array to `take`, each with its index.
///
/// # Errors
/// Description of the syntax error.
pub(super) fn items(array: &[u8], take: &mut dyn FnMut(usize, Cell<'_>)) -> Result<(), String> {
    let mut json = serde_json::Deserializer::from_slice(array);
    let read = json.deserialize_seq(Items { take }).and_then(|()| json.end());
    read.map_err(|error| describe_error(&error))
}

fn read_row<'de>(
    json: &mut serde_json::Deserializer<impl serde_json::de::Read<'de>>,
    skips_added: bool,
    take: TakeMember<'_>,
) -> Result<usize, String> {
    let members = Members { take, is_row: true, skips_added };
    let read = members.deserialize(&mut *json).and_then(|n| json.end().map(|()| n));
    read.map_err(|error| describe_error(&error))
}

/// Returns true if there may be a member called `values` that is an object. A text value that looks the
/// same gives a false positive, which only costs a second check.
fn has_values(object: &[u8]) -> bool {
    let name = format!("\"{VALUES}\"");
    let places = object.windows(name.len()).enumerate();
    let mut found = places.filter(|(_, part)| *part == name.as_bytes());
    found.any(|(at, _)| {
        let rest = object.get(at + name.len()..).unwrap_or_default().trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{"))
    })
}

/// Describes a JSON error without the line, which is always 1.
fn describe_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text.get(..end).unwrap_or(&text).to_owned()
}

/// Passes the members of an object to a callback, and returns their number.
struct Members<'a> {
    /// Called for each member, in order.
    take: TakeMember<'a>,
    /// True for a row, in which the member `values` can be an object.
    is_row: bool,
    /// True if members that services add to a row are skipped.
    skips_added: bool,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<usize, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the values of a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
        let mut n_members = 0;
        while let Some(name) = map.next_key_seed(Name)? {
            if self.skips_added && ADDED.contains(&&*name) {
                map.next_value::<IgnoredAny>()?;
            } else {
                let has_values = self.is_row && name == VALUES;
                map.next_value_seed(Value { name: &name, take: &mut *self.take, has_values })?;
            }
            n_members += 1;
        }
        Ok(n_members)
    }
}

/// Passes the items of an array to a callback.
struct Items<'a> {
    take: &'a mut dyn FnMut(usize, Cell<'_>),
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array with the values of a row")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut idx = 0;
        loop {
            let take = &mut |_: &str, cell: Cell<'_>| (self.take)(idx, cell);
            let item = Value { name: "a row", take, has_values: false };
            if list.next_element_seed(item)?.is_none() {
                return Ok(());
            }
            idx += 1;
        }
    }
}

/// Parses a member's name. Borrows it from the text unless it contains escapes.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

struct Value<'a> {
    name: &'a str,
    take: TakeMember<'a>,
    /// True for the member `values` of a row, which can be an object with the row's values.
    has_values: bool,
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
        let cell = i64::try_from(number).map_or(Cell::Large(number.into()), Cell::Integer);
        (self.take)(self.name, cell);
        Ok(())
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        (self.take)(self.name, Cell::Unfit("value is a list, which columns do not support"));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.has_values {
            let values = Members { take: self.take, is_row: false, skips_added: false };
            return values.visit_map(map).map(drop);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        (self.take)(self.name, Cell::Unfit("value is an object, which columns do not support"));
        Ok(())
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
    fn flat_rows_and_rows_with_a_values_object_are_read_alike() {
        let want = [("timestamp", Cell::Text("t")), ("a", Cell::Integer(1)), ("b", Cell::Absent)];
        check(r#"{"timestamp":"t","a":1,"b":null}"#, Ok(&want));
        check(r#"{"id":7,"dataset_id":3,"timestamp":"t","values":{"a":1,"b":null}}"#, Ok(&want));
        // A column may have the name `values`.
        let column = [("values", Cell::Float(1.5)), ("id", Cell::Boolean(true))];
        check(r#"{"values":1.5,"id":true}"#, Ok(&column));
    }

    #[test]
    fn unsupported_json_values_are_reported_with_the_name_of_their_field() {
        let list = Cell::Unfit("value is a list, which columns do not support");
        let object = Cell::Unfit("value is an object, which columns do not support");
        check(r#"{"a":[1,{"b":2}],"b":1}"#, Ok(&[("a", list), ("b", Cell::Integer(1))]));
        check(r#"{"a":{"b":1,"values":{}}}"#, Ok(&[("a", object)]));
        check(r#"{"values":{"values":{}}}"#, Ok(&[("values", object)]));
        check("[1]", Err("invalid type: sequence, expected an object with the values of a row"));
        check("{\"a\":1} x", Err("trailing characters"));
        let large = Cell::Large(18_446_744_073_709_551_615);
        check(r#"{"a":18446744073709551615}"#, Ok(&[("a", large)]));
        check(r#"{"a":"#, Err("EOF while parsing a value"));
    }
}
