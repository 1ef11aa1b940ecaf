//! Patterns that are typed into a filter or a search.
//!
//! A pattern consists of words. All words must match, except that `!word` must not match.
//! `field=value` matches the value of a field. Each word is a regular expression, or a plain text
//! if it is not a valid one.

use regex::{Regex, RegexBuilder};

/// Characters with a meaning in regular expressions. A word without any of them is plain text.
const META: &[char] = &['.', '*', '+', '?', '|', '(', '[', '{', '^', '$', '\\'];

/// A pattern. Case is ignored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pattern(Vec<Word>);

#[derive(Debug, Clone)]
struct Word {
    /// Expression for the whole word. `None` if the word is too long to compile, so it matches nothing.
    regex: Option<Regex>,
    /// Name of a field and expression for its value, if the word has the form `field=value`. Both
    /// the field and the whole word can match.
    field: Option<(String, Option<Regex>)>,
    /// True if the pattern matches only where this word does not.
    is_negated: bool,
}

impl Pattern {
    /// Parses words separated by spaces.
    pub(crate) fn parse(typed: &str) -> Self {
        Self(typed.split_whitespace().map(Word::parse).collect())
    }

    /// Parses a single word, which can contain spaces.
    pub(crate) fn parse_phrase(typed: &str) -> Self {
        Self(if typed.is_empty() { Vec::new() } else { vec![Word::parse(typed)] })
    }

    /// Returns true if the pattern matches everything.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if each word matches one of `texts`, or a name or a value in `fields`. Negated
    /// words must match none.
    pub(crate) fn matches<'a>(
        &self,
        texts: &[&str],
        fields: &(impl Iterator<Item = (&'a str, &'a str)> + Clone),
    ) -> bool {
        self.0.iter().all(|word| word.matches(texts, fields.clone()) != word.is_negated)
    }

    /// Returns true if `typed` is empty or a single plain text that is not negated.
    pub(crate) fn is_plain(typed: &str) -> bool {
        typed.split_whitespace().count() < 2
            && !typed.trim().starts_with(['!', '-'])
            && !typed.contains('=')
            && !typed.contains(META)
    }

    /// Returns the start and the length in bytes of the first match in `text` of any word that is
    /// not negated, from byte `from` on. `^` matches only at the start of `text`.
    pub(crate) fn find_at(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let words = self.0.iter().filter(|word| !word.is_negated);
        let found = words.filter_map(|word| word.regex.as_ref()?.find_at(text, from));
        found.map(|found| (found.start(), found.len())).filter(|(_, length)| *length > 0).min()
    }
}

impl Word {
    fn parse(word: &str) -> Self {
        let (is_negated, word) = match word.strip_prefix(['!', '-']) {
            Some(rest) if !rest.is_empty() => (true, rest),
            _ => (false, word),
        };
        let is_name = |field: &str| !field.is_empty() && !field.contains(META);
        let pair = word.split_once('=').filter(|(field, _)| is_name(field));
        let field = pair.map(|(field, value)| (field.to_owned(), compile(value)));
        Self { regex: compile(word), field, is_negated }
    }

    fn matches<'a>(
        &self,
        texts: &[&str],
        mut fields: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> bool {
        let is_match = |regex: &Option<Regex>, text: &str| {
            regex.as_ref().is_some_and(|regex| regex.is_match(text))
        };
        texts.iter().any(|text| is_match(&self.regex, text))
            || match &self.field {
                Some((field, wanted)) => fields.any(|(name, value)| {
                    name.eq_ignore_ascii_case(field) && is_match(wanted, value)
                }),
                None => fields.any(|(name, value)| {
                    is_match(&self.regex, name) || is_match(&self.regex, value)
                }),
            }
    }
}

/// Compiles `text` as a regular expression, or as plain text if it is not a valid one.
fn compile(text: &str) -> Option<Regex> {
    // With the default size limit of 10 MB, compiling can take a second.
    let build = |text: &str| {
        RegexBuilder::new(text).case_insensitive(true).size_limit(256 * 1024).build().ok()
    };
    build(text).or_else(|| build(&regex::escape(text)))
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
    fn pattern_of_several_words_matches_lines_with_all_of_them() {
        check("", true);
        check("DONE execution", true);
        check("done failed", false);
        check("worker-1", true);
        check("!failed done", true);
        check("!done", false);
        check("-failed -exec", false);
        check("- done", true); // A dash on its own is text, which the process name contains.
        check("! done", false);
    }

    #[test]
    fn pattern_with_special_characters_is_a_regular_expression() {
        check("exec.*done", true);
        check("^worker-[12]$", true);
        check("EXEC.+N", true);
        check("!^done", true);
        check("fail|done", true);
        check("!fail|done", false);
        check("exit=^0$", true);
        check("exit=[1-9]", false);
        check("done(", false); // Not a valid expression, and not in the text.
    }

    #[test]
    fn pattern_of_one_plain_word_is_recognized() {
        for (typed, want) in [
            ("", true),
            ("btc", true),
            ("a b", false),
            ("!btc", false),
            ("b.c", false),
            ("a=b", false),
        ] {
            assert_eq!(Pattern::is_plain(typed), want, "{typed}");
        }
    }

    #[test]
    fn pattern_with_an_equals_sign_matches_a_field_by_name() {
        check("exit=0", true);
        check("exit=1", false);
        check("peer=12d3", true);
        check("!peer=12d3", false);
        check("peer=", true);
        check("color=", false);
        assert!(Pattern::parse("a=1,b=2").matches(&["a=1,b=2"], &std::iter::empty()));
    }

    #[test]
    fn matches_of_a_pattern_are_located_in_the_text() {
        assert_eq!(Pattern::parse("roll CALL").find_at("a roll call", 0), Some((2, 4)));
        assert_eq!(Pattern::parse("r.*l").find_at("a roll call", 0), Some((2, 9)));
        assert_eq!(Pattern::parse("!roll").find_at("a roll call", 0), None);
        assert_eq!(Pattern::parse("x*").find_at("a roll call", 0), None);
        assert_eq!(Pattern::parse("ß").find_at("große", 0), Some((3, 2)));
        assert_eq!(Pattern::parse("^a").find_at("aaa", 1), None);
        assert_eq!(Pattern::parse("A").find_at("abab", 1), Some((2, 1)));
    }
}
