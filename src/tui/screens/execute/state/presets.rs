//! Presets of the form in the user's file, and quoting of words in a field.
//!
//! No secret is stored: if the name of a variable suggests a secret, only the name is stored.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use wire::functions::ExecuteRequest;

use crate::state::runs::{Input, Source};

/// Maximum number of presets.
const PRESETS_MAX: usize = 200;

/// Parts of names that suggest a secret.
const SECRETS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// A saved form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preset {
    /// Request that the preset fills in.
    pub(crate) request: ExecuteRequest,
    /// Source of standard input.
    pub(crate) input: Input,
}

/// The user's presets, by name.
pub(crate) type Presets = BTreeMap<String, Preset>;

/// Saves `preset` as `name`, or removes the preset `name`. Returns the names of the variables that
/// were stored without a value, or `None` if the preset was removed.
///
/// # Errors
/// A message for the user if there are too many presets.
pub(crate) fn change_preset(
    presets: &mut Presets,
    name: &str,
    preset: Option<Preset>,
) -> Result<Option<Vec<String>>, String> {
    let Some(mut preset) = preset else {
        presets.remove(name);
        return Ok(None);
    };
    if presets.len() >= PRESETS_MAX && !presets.contains_key(name) {
        return Err(format!("there are {PRESETS_MAX} presets already: remove one first"));
    }
    let left_out = forget_secrets(&mut preset.request);
    presets.insert(name.to_owned(), preset);
    Ok(Some(left_out))
}

/// Clears the values of variables of `request` with names that suggest a secret. Returns these
/// names.
fn forget_secrets(request: &mut ExecuteRequest) -> Vec<String> {
    let variables = request.config.env_vars.as_deref_mut().unwrap_or_default();
    let is_secret = |name: &str| {
        let name = name.to_uppercase();
        SECRETS.iter().any(|part| name.contains(part))
    };
    let secrets = variables.iter_mut().filter(|it| is_secret(&it.name) && !it.value.is_empty());
    secrets
        .map(|variable| {
            variable.value.clear();
            variable.name.clone()
        })
        .collect()
}

/// Serializes the file of presets.
pub(crate) fn write_presets(presets: &Presets) -> String {
    let one = |preset: &Preset| {
        let mut value = json!({ "request": preset.request });
        if let (Some((source, text)), Value::Object(members)) = (preset.input.text(), &mut value) {
            let kind = if source == Source::File { "file" } else { "rows" };
            members.insert("stdin".to_owned(), json!({ kind: text }));
        }
        value
    };
    let all: Map<String, Value> =
        presets.iter().map(|(name, preset)| (name.clone(), one(preset))).collect();
    serde_json::to_string_pretty(&Value::Object(all)).unwrap_or_default() + "\n"
}

/// Parses a file of presets.
///
/// # Errors
/// A message for the user if the file is invalid.
pub(crate) fn read_presets(text: &str) -> Result<Presets, String> {
    let all: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let one = |(name, mut value): (String, Value)| {
        let request = serde_json::from_value(value["request"].take())
            .map_err(|error| format!("preset \"{name}\": {error}"))?;
        let text = |kind: &str| value.get("stdin")?.get(kind)?.as_str();
        let input = match (text("file"), text("rows")) {
            (Some(path), _) => Input::read(Source::File, path)?,
            (None, Some(rows)) => Input::read(Source::Rows, rows)?,
            (None, None) => Input::Typed,
        };
        Ok((name, Preset { request, input }))
    };
    all.into_iter().take(PRESETS_MAX).map(one).collect()
}

/// Splits `text` into words at spaces. Text within single or double quotes is part of one word. A
/// backslash escapes the next character, except within single quotes.
///
/// # Errors
/// A message for the user if a quote is not closed.
pub(crate) fn split_words(text: &str) -> Result<Vec<String>, &'static str> {
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
        return Err("quotation mark is not closed");
    }
    words.extend(word);
    Ok(words)
}

/// Joins `words` to a text that [`split_words`] splits into the same words.
pub(crate) fn join_words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(quoted).collect();
    quoted.join(" ")
}

/// Quotes `word` for a shell, if necessary.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:=,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Replaces the escape sequences `\n`, `\t` and `\\` by the characters that they stand for.
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

/// Escapes line breaks, tabs and backslashes; [`unescape`] reverts this.
pub(crate) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod presets_tests {
    use wire::functions::{EnvVar, ExecuteConfig};

    use super::*;

    fn preset(input: Input) -> Preset {
        let variable = |name: &str| EnvVar { name: name.to_owned(), value: "x".to_owned() };
        let env_vars = Some(vec![variable("COLOR"), variable("my_api_key")]);
        let config = ExecuteConfig { number_of_nodes: 2, env_vars, ..ExecuteConfig::default() };
        Preset { request: ExecuteRequest { config, ..ExecuteRequest::default() }, input }
    }

    #[test]
    fn presets_round_trip_without_secrets() {
        let mut presets = Presets::default();
        for (name, input) in [
            ("typed", Input::Typed),
            ("file", Input::File("a.csv".to_owned())),
            ("rows", Input::read(Source::Rows, "btc 24h").unwrap()),
        ] {
            let left_out = change_preset(&mut presets, name, Some(preset(input))).unwrap();
            assert_eq!(left_out, Some(vec!["my_api_key".to_owned()]));
        }
        let text = write_presets(&presets);
        assert_eq!(read_presets(&text).as_ref(), Ok(&presets), "{text}");
        let variables = presets["file"].request.config.environment();
        assert_eq!((variables["COLOR"].as_str(), variables["my_api_key"].as_str()), ("x", ""));
    }

    #[test]
    fn preset_without_a_request_is_rejected() {
        assert!(read_presets("[]").is_err() && read_presets(r#"{"a": {}}"#).is_err());
    }
}

#[cfg(test)]
mod words_tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let words = split_words(text).unwrap();
        assert_eq!(words, want);
        assert_eq!(split_words(&join_words(want.iter().copied())).unwrap(), want);
    }

    #[test]
    fn quotes_group_words_to_one_argument() {
        check("", &[]);
        check(" a  b ", &["a", "b"]);
        check(r#"a "b c" 'd "e"' f\ g"#, &["a", "b c", r#"d "e""#, "f g"]);
        check("A=1 B='x y'", &["A=1", "B=x y"]);
        check("''", &[""]);
        check(r"it\'s", &["it's"]);
        assert!(split_words("'open").is_err());
    }

    #[test]
    fn escaped_text_round_trips() {
        for text in ["", "a\nb\tc", r"back\slash", r"\n", "end\\"] {
            assert_eq!(unescape(&escape(text)), text);
        }
        assert_eq!(unescape(r"a\nb\x"), "a\nb\\x");
    }
}
