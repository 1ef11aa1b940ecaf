//! Tags of answers, by which callers tell whether what they have is still what they would get.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher as _},
};

/// The tag of an answer: bytes that differ have tags that differ.
///
/// It is made of all that the bytes depend on, so that it is known before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tag(u64);

/// The tags that a caller has, as `If-None-Match` lists them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    tags: Vec<String>,
}

impl Tag {
    /// The tag of an answer that depends on `parts`.
    pub(crate) fn of(parts: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Seen {
    /// Reads the value of a header.
    pub(crate) fn of(header: &str) -> Self {
        let tags = header.split(',').map(|tag| tag.trim().to_owned());
        Self { tags: tags.filter(|tag| !tag.is_empty()).collect() }
    }

    /// The caller's own text for `tag`, if it has it: in any coding, since each of them unpacks to
    /// the same.
    pub(crate) fn find(&self, tag: Tag) -> Option<String> {
        let plain = tag.to_string();
        let is_it = |text: &&String| {
            let text = text.strip_prefix("W/").unwrap_or(text).trim_matches('"');
            let stem = text.split_once('-').map_or(text, |(stem, _)| stem);
            stem == plain
        };
        if self.tags.iter().any(|text| text == "*") {
            return Some(format!("\"{plain}\""));
        }
        self.tags.iter().find(is_it).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_in_any_coding_and_nothing_else_is() {
        let tag = Tag::of((3, "rows"));
        let other = Tag::of((4, "rows"));
        let header = format!("\"abc\", W/\"{tag}-gzip\"");
        assert_eq!(Seen::of(&header).find(tag), Some(format!("W/\"{tag}-gzip\"")));
        assert_eq!(Seen::of(&header).find(other), None);
        assert_eq!(Seen::of("*").find(tag), Some(format!("\"{tag}\"")));
        assert_eq!(Seen::of("").find(tag), None);
        assert_eq!(Seen::default().find(tag), None);
    }
}
