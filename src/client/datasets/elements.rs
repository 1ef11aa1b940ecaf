//! Splits a long JSON array, or a sequence of JSON objects, into its objects while the bytes arrive.

/// Maximum size of an object: 20 times the size of a row with a thousand columns.
const ELEMENT_BYTES_MAX: usize = 1024 * 1024;

/// Error in a text that should consist of JSON objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElementsError {
    /// An object exceeds the maximum size.
    #[error("object exceeds {ELEMENT_BYTES_MAX} bytes")]
    TooLong,
    /// The text contains a value other than an object.
    #[error("text contains a value that is not an object")]
    NoObject,
    /// The text is truncated within an object or array.
    #[error("text ends within an object")]
    Unfinished,
}

/// Finds the top-level objects of a text: the elements of an array, or a sequence of objects.
#[derive(Debug, Default)]
pub struct Elements {
    /// Beginning of an incomplete object, from the previous parts of the text.
    begun: Vec<u8>,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// True within an array.
    is_in_array: bool,
}

impl Elements {
    /// Processes the next part of the text. Passes each object to `take` once it is complete.
    ///
    /// # Errors
    /// [`ElementsError`], or any error of `take`.
    pub fn feed<E: From<ElementsError>>(
        &mut self,
        text: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Start of the incomplete object in `text`. If it started in a previous part, its beginning is
        // in `begun`.
        let mut begin = 0;
        for (at, byte) in text.iter().enumerate() {
            if self.depth == 0 {
                self.between(*byte)?;
                begin = at;
            } else if self.within(*byte) {
                let end = text.get(begin..=at).unwrap_or_default();
                if self.begun.len() + end.len() > ELEMENT_BYTES_MAX {
                    return Err(ElementsError::TooLong.into());
                }
                if self.begun.is_empty() {
                    take(end)?;
                } else {
                    self.begun.extend_from_slice(end);
                    take(&self.begun)?;
                    self.begun.clear();
                }
            }
        }
        if self.depth > 0 {
            self.begun.extend_from_slice(text.get(begin..).unwrap_or_default());
            if self.begun.len() > ELEMENT_BYTES_MAX {
                return Err(ElementsError::TooLong.into());
            }
        }
        Ok(())
    }

    /// Checks that the text is complete.
    ///
    /// # Errors
    /// [`ElementsError::Unfinished`] if it ends within an object or array.
    pub const fn end(&self) -> Result<(), ElementsError> {
        if self.depth > 0 || self.is_in_array { Err(ElementsError::Unfinished) } else { Ok(()) }
    }

    fn between(&mut self, byte: u8) -> Result<(), ElementsError> {
        match byte {
            b'{' => self.depth = 1,
            b'[' if !self.is_in_array => self.is_in_array = true,
            b']' if self.is_in_array => self.is_in_array = false,
            b',' | b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => return Err(ElementsError::NoObject),
        }
        Ok(())
    }

    /// Processes a byte within an object. Returns true if it is the last byte of the object.
    const fn within(&mut self, byte: u8) -> bool {
        if self.is_in_string {
            if self.is_escaped {
                self.is_escaped = false;
            } else if byte == b'\\' {
                self.is_escaped = true;
            } else if byte == b'"' {
                self.is_in_string = false;
            }
            return false;
        }
        match byte {
            b'"' => self.is_in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the objects that are found if `text` arrives in parts of `n_bytes`.
    fn objects(text: &str, n_bytes: usize) -> Result<Vec<String>, ElementsError> {
        let mut elements = Elements::default();
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(n_bytes) {
            elements.feed(piece, |object| {
                found.push(String::from_utf8(object.to_vec()).unwrap());
                Ok::<_, ElementsError>(())
            })?;
        }
        elements.end().map(|()| found)
    }

    #[track_caller]
    fn check(text: &str, want: Result<&[&str], ElementsError>) {
        let want = want.map(|want| want.iter().map(|&object| object.to_owned()).collect());
        for n_bytes in 1..=text.len() {
            assert_eq!(objects(text, n_bytes), want, "in pieces of {n_bytes}");
        }
    }

    #[test]
    fn json_objects_are_found_wherever_the_text_is_split() {
        check(r#"[{"a":1},{"b":{"c":[2]}}]"#, Ok(&[r#"{"a":1}"#, r#"{"b":{"c":[2]}}"#]));
        check("{\"a\":\"}\\\"{\"}\n{\"b\":2}\n", Ok(&["{\"a\":\"}\\\"{\"}", "{\"b\":2}"]));
        check("[]", Ok(&[]));
    }

    #[test]
    fn unfinished_text_and_non_objects_are_rejected() {
        check(r#"[{"a":1}"#, Err(ElementsError::Unfinished));
        check(r#"{"a":"#, Err(ElementsError::Unfinished));
        check("[1,2]", Err(ElementsError::NoObject));
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(ELEMENT_BYTES_MAX));
        assert_eq!(objects(&long, 65536), Err(ElementsError::TooLong));
    }
}
