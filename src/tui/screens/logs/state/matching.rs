//! What lines of a log must hold: words, `-words` that they must not hold, and `field=value`.

use crate::local::LocalLog;

/// What is looked for, word by word. All of it must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogQuery(Vec<Word>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    /// The field that must hold it; none for any place of a line.
    field: Option<String>,
    text: String,
    /// Whether it must not be there.
    is_unwanted: bool,
}

impl LogQuery {
    /// Reads what is typed: words apart by spaces.
    pub(crate) fn parse(typed: &str) -> Self {
        let word = |word: &str| {
            let (is_unwanted, word) = match word.strip_prefix('-') {
                Some(rest) if !rest.is_empty() => (true, rest),
                _ => (false, word),
            };
            let pair = word.split_once('=').filter(|(field, _)| !field.is_empty());
            let (field, text) = pair.map_or((None, word), |(field, text)| (Some(field), text));
            Word { field: field.map(str::to_owned), text: text.to_owned(), is_unwanted }
        };
        Self(typed.split_whitespace().map(word).collect())
    }

    /// Whether `log` fits.
    pub(crate) fn matches(&self, log: &LocalLog) -> bool {
        self.0.iter().all(|word| word.matches(log) != word.is_unwanted)
    }

    /// Where in `text` a wanted word begins, and how long it is, in bytes: the first one.
    pub(crate) fn find(&self, text: &str) -> Option<(usize, usize)> {
        let words = self.0.iter().filter(|word| !word.is_unwanted && !word.text.is_empty());
        let found = words.filter_map(|word| Some((find(text, &word.text)?, word.text.len())));
        // Letters of several bytes may be cut by a word of their bytes only in part.
        found.min().filter(|(start, length)| text.get(*start..start + length).is_some())
    }
}

impl Word {
    fn matches(&self, log: &LocalLog) -> bool {
        let holds = |text: &str| find(text, &self.text).is_some();
        let mut fields = log.fields.pairs();
        match &self.field {
            Some(field) => {
                fields.any(|(name, value)| name.eq_ignore_ascii_case(field) && holds(value))
            }
            None => {
                holds(&log.message)
                    || holds(&log.process)
                    || fields.any(|(name, value)| holds(name) || holds(value))
            }
        }
    }
}

/// Where in `text` `wanted` begins, whatever the case of ASCII letters.
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
    use model::timestamp::Timestamp;

    use super::*;
    use crate::local::Level;

    #[track_caller]
    fn check(typed: &str, want: bool) {
        let fields = [("peer", "12D3KooW"), ("exit", "0")];
        let log = LocalLog {
            process: "worker-1".to_owned(),
            level: Level::Info,
            time: Timestamp::default(),
            message: "execution done".to_owned(),
            fields: fields.into_iter().collect(),
        };
        assert_eq!(LogQuery::parse(typed).matches(&log), want, "{typed}");
    }

    #[test]
    fn all_words_must_match() {
        check("", true);
        check("DONE execution", true);
        check("done failed", false);
        check("worker-1", true);
        check("-failed done", true);
        check("-done", false);
        check("- done", true); // A dash alone is looked for: the process has one.
    }

    #[test]
    fn a_field_is_matched_by_its_name() {
        check("exit=0", true);
        check("exit=1", false);
        check("peer=12d3", true);
        check("-peer=12d3", false);
        check("peer=", true);
        check("color=", false);
    }

    #[test]
    fn matches_are_located_for_highlighting() {
        assert_eq!(LogQuery::parse("roll CALL").find("a roll call"), Some((2, 4)));
        assert_eq!(LogQuery::parse("-roll").find("a roll call"), None);
        assert_eq!(LogQuery::parse("ß").find("große"), Some((3, 2)));
    }
}
