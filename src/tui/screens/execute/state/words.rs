//! Several words in one field: apart by spaces, held together by quotes, as in a shell.

/// A quote was opened and not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("close the quote")]
pub(crate) struct OpenQuote;

/// Splits `text` at its spaces. Single and double quotes hold words together, and a backslash takes
/// the letter after it as it is, but in single quotes.
///
/// # Errors
/// [`OpenQuote`] if a quote is not closed.
pub(crate) fn split(text: &str) -> Result<Vec<String>, OpenQuote> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (mark, Some(open)) if mark == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => {
                word.get_or_insert_default().push(letters.next().unwrap_or('\\'));
            }
            (space, None) if space.is_whitespace() => words.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err(OpenQuote);
    }
    words.extend(word);
    Ok(words)
}

/// Joins words so that [`split`] takes them apart again.
pub(crate) fn join<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(quoted).collect();
    quoted.join(" ")
}

/// `word` as a shell takes it for one word.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:=,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Turns `\n`, `\t` and `\\` into what they stand for.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('\\') | None => plain.push('\\'),
            Some(other) => plain.extend(['\\', other]),
        }
    }
    plain
}

/// The opposite of [`unescape`].
pub(crate) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let words = split(text).unwrap();
        assert_eq!(words, want);
        assert_eq!(split(&join(want.iter().copied())).unwrap(), want);
    }

    #[test]
    fn quotes_hold_words_together() {
        check("", &[]);
        check(" a  b ", &["a", "b"]);
        check(r#"a "b c" 'd "e"' f\ g"#, &["a", "b c", r#"d "e""#, "f g"]);
        check("A=1 B='x y'", &["A=1", "B=x y"]);
        check("''", &[""]);
        check(r"it\'s", &["it's"]);
        assert_eq!(split("'open"), Err(OpenQuote));
    }

    #[test]
    fn escapes_round_trip() {
        for text in ["", "a\nb\tc", r"back\slash", r"\n", "end\\"] {
            assert_eq!(unescape(&escape(text)), text);
        }
        assert_eq!(unescape(r"a\nb\x"), "a\nb\\x");
    }
}
