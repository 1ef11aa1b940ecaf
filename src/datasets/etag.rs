//! Entity tags of responses, for conditional requests.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Entity tag of a response: a hash of everything that determines its bytes. The hash can be computed
/// before the response is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{_0:016x}")]
pub(crate) struct ETag(u64);

/// Entity tags listed in the header `If-None-Match` or `If-Match`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KnownETags {
    tags: Vec<String>,
}

impl ETag {
    /// Computes the entity tag of a response that depends on `parts`.
    pub(crate) fn hash(parts: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl KnownETags {
    /// Parses the value of the header `If-None-Match` or `If-Match`.
    pub(crate) fn parse(header: &str) -> Self {
        let tags = header.split(',').map(|tag| tag.trim().to_owned());
        Self { tags: tags.filter(|tag| !tag.is_empty()).collect() }
    }

    /// Returns the listed text that matches `tag` with any content coding, since all codings decompress
    /// to the same bytes. Returns `None` if no text matches.
    pub(crate) fn find(&self, tag: ETag) -> Option<String> {
        let plain = tag.to_string();
        let is_it = |text: &&String| stem(text.strip_prefix("W/").unwrap_or(text)) == plain;
        if self.tags.iter().any(|text| text == "*") {
            return Some(format!("\"{plain}\""));
        }
        self.tags.iter().find(is_it).cloned()
    }

    /// Returns true if the list is `*` or contains `tag`, the value of an `ETag` header. The suffix for
    /// the content coding is ignored on both sides.
    pub(crate) fn contains(&self, tag: Option<&str>) -> bool {
        let is_it = |text: &String| text == "*" || tag.is_some_and(|tag| stem(tag) == stem(text));
        self.tags.iter().any(is_it)
    }
}

/// Returns the part of a tag before the suffix of the content coding.
fn stem(tag: &str) -> &str {
    let text = tag.trim_matches('"');
    text.split_once('-').map_or(text, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_none_match_finds_a_tag_with_any_content_coding() {
        let tag = ETag::hash((3, "rows"));
        let other = ETag::hash((4, "rows"));
        let header = format!("\"abc\", W/\"{tag}-gzip\"");
        assert_eq!(KnownETags::parse(&header).find(tag), Some(format!("W/\"{tag}-gzip\"")));
        assert_eq!(KnownETags::parse(&header).find(other), None);
        assert_eq!(KnownETags::parse("*").find(tag), Some(format!("\"{tag}\"")));
        assert_eq!(KnownETags::parse("").find(tag), None);
        assert_eq!(KnownETags::default().find(tag), None);
    }

    #[test]
    fn if_match_rejects_weak_tags() {
        let (tag, other) = (ETag::hash(3), ETag::hash(4));
        let text = format!("\"{tag}\"");
        let required = |header: &str| KnownETags::parse(header).contains(Some(&text));
        assert!(required(&text) && required(&format!("\"{other}\", \"{tag}-gzip\"")));
        assert!(!required(&format!("\"{other}\"")) && !required(&format!("W/\"{tag}\"")));
        assert!(required("*") && KnownETags::parse("*").contains(None));
        assert!(!KnownETags::parse(&text).contains(None));
    }
}
