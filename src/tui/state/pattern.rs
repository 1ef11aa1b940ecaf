//! What is typed into a filter or a search: words that must match, `!word` for one that must not,
//! `field=value`, each a text or a regular expression.

use regex::{Regex, RegexBuilder};

/// The largest compiled expression, in bytes. The default of 10 MB takes a second to compile.
const REGEX_BYTES_MAX: usize = 256 * 1024;

/// Characters of a regular expression; a word without them is a plain text.
const META: &[char] = &['.', '*', '+', '?', '|', '(', '[', '{', '^', '$', '\\'];

/// Words that must all match, whatever the case of letters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pattern(Vec<Word>);

#[derive(Debug, Clone)]
struct Word {
    /// The field that may match instead of a text, and its value.
    field: Option<(String, Matcher)>,
    matcher: Matcher,
    /// True if it must not match.
    is_unwanted: bool,
}

#[derive(Debug, Clone)]
enum Matcher {
    /// A part of the text; only ASCII letters match whatever their case.
    Text(String),
    Regex(Regex),
}

impl Pattern {
    /// Parses words separated by spaces. A word that is no regular expression is a text.
    pub(crate) fn parse(typed: &str) -> Self {
        Self(typed.split_whitespace().map(Word::parse).collect())
    }

    /// Parses a single word, which can contain spaces.
    pub(crate) fn parse_phrase(typed: &str) -> Self {
        Self(if typed.is_empty() { Vec::new() } else { vec![Word::parse(typed)] })
    }

    /// Returns true if it matches everything.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if every word matches one of `texts`, or a name or value of `fields`.
    pub(crate) fn matches<'a>(
        &self,
        texts: &[&str],
        fields: &(impl Iterator<Item = (&'a str, &'a str)> + Clone),
    ) -> bool {
        self.0.iter().all(|word| word.matches(texts, fields.clone()) != word.is_unwanted)
    }

    /// Returns true if it is empty or a single text that must match.
    pub(crate) fn is_plain(&self) -> bool {
        let [word] = self.0.as_slice() else { return self.is_empty() };
        matches!(word, Word { field: None, matcher: Matcher::Text(_), is_unwanted: false })
    }

    /// Returns where in `text` the first wanted word matches, and how many bytes it matches.
    pub(crate) fn find(&self, text: &str) -> Option<(usize, usize)> {
        self.find_at(text, 0)
    }

    /// Returns the first match as [`Self::find`] does, from byte `from` of `text` on.
    pub(crate) fn find_at(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let words = self.0.iter().filter(|word| !word.is_unwanted);
        let found = words.filter_map(|word| word.matcher.find_at(text, from));
        // Letters of several bytes may be cut by a word of their bytes only in part.
        found
            .filter(|(_, length)| *length > 0)
            .min()
            .filter(|(start, length)| text.get(*start..start + length).is_some())
    }
}

impl Word {
    fn parse(word: &str) -> Self {
        let (is_unwanted, word) = match word.strip_prefix(['!', '-']) {
            Some(rest) if !rest.is_empty() => (true, rest),
            _ => (false, word),
        };
        let is_name = |field: &str| !field.is_empty() && !field.contains(META);
        let pair = word.split_once('=').filter(|(field, _)| is_name(field));
        let field = pair.map(|(field, value)| (field.to_owned(), Matcher::new(value)));
        Self { field, matcher: Matcher::new(word), is_unwanted }
    }

    fn matches<'a>(
        &self,
        texts: &[&str],
        mut fields: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> bool {
        let holds = |text: &str| self.matcher.find(text).is_some();
        let is_text = texts.iter().any(|text| holds(text));
        is_text
            || match &self.field {
                Some((field, wanted)) => fields.any(|(name, value)| {
                    name.eq_ignore_ascii_case(field) && wanted.find(value).is_some()
                }),
                None => fields.any(|(name, value)| holds(name) || holds(value)),
            }
    }
}

impl Matcher {
    fn new(text: &str) -> Self {
        let regex = || {
            let mut builder = RegexBuilder::new(text);
            builder.case_insensitive(true).size_limit(REGEX_BYTES_MAX).build().ok()
        };
        let regex = if text.contains(META) { regex() } else { None };
        regex.map_or_else(|| Self::Text(text.to_owned()), Self::Regex)
    }

    fn find(&self, text: &str) -> Option<(usize, usize)> {
        self.find_at(text, 0)
    }

    /// Returns the first match from byte `from` of `text` on. `^` matches only the start of `text`.
    fn find_at(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        match self {
            Self::Text(wanted) => {
                let start = find(text.get(from..)?, wanted)?;
                Some((from + start, wanted.len()))
            }
            Self::Regex(regex) => {
                regex.find_at(text, from).map(|found| (found.start(), found.len()))
            }
        }
    }
}

/// Returns where in `text` `wanted` begins, whatever the case of ASCII letters.
fn find(text: &str, wanted: &str) -> Option<usize> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    let Some((first, _)) = wanted.split_first() else { return Some(0) };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    // The first byte rules most positions out: all lines are searched for each frame.
    let last = text.len().checked_sub(wanted.len())?;
    let starts = text.get(..=last)?.iter().enumerate();
    let mut starts = starts.filter(|(_, byte)| **byte == lower || **byte == upper);
    let is_here = |start: usize| {
        text.get(start..start + wanted.len()).is_some_and(|part| part.eq_ignore_ascii_case(wanted))
    };
    starts.find(|(start, _)| is_here(*start)).map(|(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, want: bool) {
        let fields = [("peer", "12D3KooW"), ("exit", "0")];
        let texts = ["execution done", "worker-1"];
        assert_eq!(Pattern::parse(typed).matches(&texts, &fields.into_iter()), want, "{typed}");
    }

    #[test]
    fn all_words_must_match() {
        check("", true);
        check("DONE execution", true);
        check("done failed", false);
        check("worker-1", true);
        check("!failed done", true);
        check("!done", false);
        check("-failed -exec", false);
        check("- done", true); // A dash alone is looked for: the process has one.
        check("! done", false);
    }

    #[test]
    fn regular_expressions_match() {
        check("exec.*done", true);
        check("^worker-[12]$", true);
        check("EXEC.+N", true);
        check("!^done", true);
        check("fail|done", true);
        check("!fail|done", false);
        check("exit=^0$", true);
        check("exit=[1-9]", false);
        check("done(", false); // No expression, and no text of the line.
    }

    #[test]
    fn single_text_is_plain() {
        for (typed, want) in [
            ("", true),
            ("btc", true),
            ("a b", false),
            ("!btc", false),
            ("b.c", false),
            ("a=b", false),
        ] {
            assert_eq!(Pattern::parse(typed).is_plain(), want, "{typed}");
        }
    }

    #[test]
    fn a_field_is_matched_by_its_name() {
        check("exit=0", true);
        check("exit=1", false);
        check("peer=12d3", true);
        check("!peer=12d3", false);
        check("peer=", true);
        check("color=", false);
        assert!(Pattern::parse("a=1,b=2").matches(&["a=1,b=2"], &std::iter::empty()));
    }

    #[test]
    fn matches_are_located_for_highlighting() {
        assert_eq!(Pattern::parse("roll CALL").find("a roll call"), Some((2, 4)));
        assert_eq!(Pattern::parse("r.*l").find("a roll call"), Some((2, 9)));
        assert_eq!(Pattern::parse("!roll").find("a roll call"), None);
        assert_eq!(Pattern::parse("x*").find("a roll call"), None);
        assert_eq!(Pattern::parse("ß").find("große"), Some((3, 2)));
        assert_eq!(Pattern::parse("^a").find_at("aaa", 1), None);
        assert_eq!(Pattern::parse("A").find_at("abab", 1), Some((2, 1)));
    }
}
