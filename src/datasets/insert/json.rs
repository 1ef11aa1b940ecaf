//! Rows as JSON: `{"timestamp":…,"values":{…}}`, or flat, with the values beside the timestamp.
//!
//! Read by `serde_json`, names and texts out of the body itself: of 2.4 to 3.2 million rows of seven
//! numbers a second that it parses on a thread, our own scanner, sonic-rs and simd-json parsed 0.7 to
//! 0.95 times as many.

use std::fmt;

use formats::read::{
    cell::Cell,
    json::{Level, Members, shown},
};
use model::dataset::TIMESTAMP;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::intake::Intake;
use crate::append::AppendError;

/// Takes a list of rows, which is known to be JSON.
pub(super) fn list(intake: &mut Intake, text: &str) -> Result<(), AppendError> {
    let broken = |what: &str| AppendError::Unreadable { what: format!("rows: {what}") };
    if !text.trim_ascii_start().starts_with('[') {
        return Err(broken("it must be a list"));
    }
    let mut ended = None;
    let mut json = serde_json::Deserializer::from_str(text);
    let read = json.deserialize_seq(List { intake, ended: &mut ended });
    match (ended, read) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(broken(&shown(&error))),
        (None, Ok(())) => Ok(()),
    }
}

/// Takes a row of each line that is not blank.
pub(super) fn lines(intake: &mut Intake, text: &str) -> Result<(), AppendError> {
    for line in text.split('\n') {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        intake.begin()?;
        let mut json = serde_json::Deserializer::from_str(line);
        let read = Row(&mut *intake).deserialize(&mut json).and_then(|()| json.end());
        if let Err(error) = read {
            intake.refuse(None, &shown(&error));
        }
    }
    Ok(())
}

/// A list of rows.
struct List<'a> {
    intake: &'a mut Intake,
    /// Why it is not read to its end, if that is not its form.
    ended: &'a mut Option<AppendError>,
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let Self { intake, ended } = self;
        while rows.next_element_seed(Next { intake: &mut *intake, ended: &mut *ended })?.is_some() {
        }
        Ok(())
    }
}

/// The next row of a list.
struct Next<'a> {
    intake: &'a mut Intake,
    ended: &'a mut Option<AppendError>,
}

impl<'de> DeserializeSeed<'de> for Next<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        if let Err(error) = self.intake.begin() {
            *self.ended = Some(error);
            return Err(D::Error::custom("there are too many rows"));
        }
        Row(self.intake).deserialize(json)
    }
}

/// A row that has begun.
struct Row<'a>(&'a mut Intake);

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the values of a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let intake = self.0;
        let take = &mut |name: &str, cell: Cell<'_>| {
            if name == TIMESTAMP {
                intake.typed_timestamp(cell);
            } else {
                intake.typed_value(name, cell);
            }
        };
        Members { take, level: Level::Row { skips_added: false } }.visit_map(map)?;
        intake.end();
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        self.refuse();
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.refuse();
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.refuse();
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.refuse();
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.refuse();
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.refuse();
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.refuse();
        Ok(())
    }
}

impl Row<'_> {
    /// Refuses what is no row, and goes on.
    fn refuse(self) {
        self.0.refuse(None, "a row must be an object");
    }
}
