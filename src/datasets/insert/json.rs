//! Rows as JSON: `{"timestamp":…,"values":{…}}`, or flat, with the values beside the timestamp.
//!
//! Numbers are handed on as they are written, and read once, exactly, as what their column is.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::intake::{Intake, Written};
use crate::{append::AppendError, render::TIMESTAMP};

/// The member of a row that holds its values, where it is not flat.
const VALUES: &str = "values";

/// What is wrong with a row that is no JSON.
type Wrong = &'static str;

/// Takes a list of rows, which is known to be JSON.
pub(super) fn list(intake: &mut Intake, text: &str) -> Result<(), AppendError> {
    let mut scanner = Scanner { text, at: 0 };
    let broken = |what: Wrong| AppendError::Unreadable { what: format!("rows: {what}") };
    if !scanner.eats(b'[') {
        return Err(broken("it must be a list"));
    }
    if scanner.eats(b']') {
        return Ok(());
    }
    loop {
        intake.begin()?;
        if scanner.peek() == Some(b'{') {
            row(intake, &mut scanner).map_err(broken)?;
        } else {
            scanner.value().map_err(broken)?;
            intake.refuse(None, "a row must be an object");
        }
        if !scanner.eats(b',') {
            return if scanner.eats(b']') { Ok(()) } else { Err(broken("it is no JSON")) };
        }
    }
}

/// Takes a row of each line that is not blank.
pub(super) fn lines(intake: &mut Intake, text: &str) -> Result<(), AppendError> {
    for line in text.split('\n') {
        let mut scanner = Scanner { text: line, at: 0 };
        if scanner.peek().is_none() {
            continue;
        }
        intake.begin()?;
        match row(intake, &mut scanner) {
            Err(wrong) => intake.refuse(None, wrong),
            Ok(()) if scanner.peek().is_some() => {
                intake.refuse(None, "there is more in the line than one object");
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Takes a row, which has begun.
fn row(intake: &mut Intake, scanner: &mut Scanner<'_>) -> Result<(), Wrong> {
    if !scanner.eats(b'{') {
        return Err("a row must be an object");
    }
    members(intake, scanner, |intake, scanner, name| {
        if name == TIMESTAMP {
            intake.moment(&scanner.value()?);
        } else if name == VALUES && scanner.peek() == Some(b'{') {
            scanner.at += 1;
            members(intake, scanner, |intake, scanner, name| {
                intake.value(name, scanner.value()?);
                Ok(())
            })?;
        } else {
            intake.value(name, scanner.value()?);
        }
        Ok(())
    })?;
    intake.end();
    Ok(())
}

/// Takes the members of an object that is open, and its end.
fn members(
    intake: &mut Intake,
    scanner: &mut Scanner<'_>,
    mut take: impl FnMut(&mut Intake, &mut Scanner<'_>, &str) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    if scanner.eats(b'}') {
        return Ok(());
    }
    loop {
        if scanner.peek() != Some(b'"') {
            return Err("a member's name must be a text");
        }
        let name = scanner.string()?;
        if !scanner.eats(b':') {
            return Err("there must be a colon after a member's name");
        }
        take(intake, scanner, &name)?;
        if scanner.eats(b',') {
            continue;
        }
        return if scanner.eats(b'}') { Ok(()) } else { Err("the object does not end") };
    }
}

/// Reads JSON from its beginning on.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Steps over `byte`, if it is next.
    fn eats(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn value(&mut self) -> Result<Written<'a>, Wrong> {
        match self.peek() {
            Some(b'"') => self.string().map(Written::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Written::Number),
            Some(b'{' | b'[') => self.nested(),
            _ => {
                let words = [
                    ("true", Written::Truth(true)),
                    ("false", Written::Truth(false)),
                    ("null", Written::Null),
                ];
                let rest = self.rest();
                let found = words.into_iter().find(|(word, _)| rest.starts_with(word));
                let (word, written) = found.ok_or("a value is no JSON")?;
                self.at += word.len();
                Ok(written)
            }
        }
    }

    /// A text, whose opening quote is next.
    fn string(&mut self) -> Result<Cow<'a, str>, Wrong> {
        let start = self.at;
        let mut is_escaped = false;
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_escaped = true;
                    at += 2;
                }
                Some(0..=0x1f) => return Err("a text holds a control character"),
                Some(_) => at += 1,
                None => return Err("a text does not end"),
            }
        }
        self.at = at + 1;
        if is_escaped {
            let quoted = self.text.get(start..=at).unwrap_or_default();
            return serde_json::from_str(quoted).map(Cow::Owned).map_err(|_| "a text is no JSON");
        }
        Ok(Cow::Borrowed(self.text.get(start + 1..at).unwrap_or_default()))
    }

    /// A number, by the grammar of JSON.
    fn number(&mut self) -> Result<&'a str, Wrong> {
        let bytes = self.text.as_bytes();
        let digits = |from: usize| {
            let rest = bytes.get(from..).unwrap_or_default();
            from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let start = self.at;
        let whole = start + usize::from(bytes.get(start) == Some(&b'-'));
        let mut at = digits(whole);
        let mut is_number = at > whole && (at == whole + 1 || bytes.get(whole) != Some(&b'0'));
        if bytes.get(at) == Some(&b'.') {
            let end = digits(at + 1);
            is_number &= end > at + 1;
            at = end;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let end = digits(at + 1 + sign);
            is_number &= end > at + 1 + sign;
            at = end;
        }
        self.at = at;
        if is_number {
            Ok(self.text.get(start..at).unwrap_or_default())
        } else {
            Err("a number is no JSON")
        }
    }

    /// Steps over a list or an object.
    fn nested(&mut self) -> Result<Written<'a>, Wrong> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                self.at += values.byte_offset();
                Ok(Written::Nested)
            }
            _ => Err("a value is no JSON"),
        }
    }
}
