//! Plain words, as far as a list of words can hold them: names of functions, comments, parameters
//! and re-exports. What a name should be instead is in the glossary of `src/lib.rs`.

use std::collections::HashSet;

use super::{check, check_lines, sources, sources::Source};

/// Participles and prepositions that name no action: a function is a verb with its object.
const BARE_NAMES: [&str; 33] = [
    "aside",
    "asked",
    "at",
    "begun",
    "chosen",
    "else",
    "elsewhere",
    "executed",
    "fell",
    "fetched",
    "found",
    "gathered",
    "given",
    "had",
    "heard",
    "held",
    "here",
    "kept",
    "known",
    "made",
    "of",
    "ran",
    "said",
    "seen",
    "sent",
    "shown",
    "stood",
    "taken",
    "told",
    "where",
    "whole",
    "with",
    "woke",
];

/// Words of comments that have a plain one: "timestamp", "again", "rarely", "is notified",
/// "outcome of", "user-defined", "the rest", "the caller".
const OLD_WORDS: [&str; 20] = [
    "moment",
    "moments",
    "is told",
    "are told",
    "was told",
    "were told",
    "whoever",
    "anew",
    "seldom",
    "what becomes of",
    "what became of",
    "tells of",
    "of one's own",
    "all else",
    "those who",
    "that which",
    "of late",
    "no more than that",
    "had better",
    "what is said of",
];

/// The fewest words of a line that documents something alone.
const DOC_WORDS_MIN: usize = 3;

/// Product code that plain words are asked of.
fn plain_sources() -> impl Iterator<Item = Source> {
    let is_product = |path: &str| path.starts_with("src/") && !path.contains("/benches/");
    sources::rust().into_iter().filter(move |source| is_product(&source.path) && !source.is_test)
}

/// The words of `text`, in lower case, each with a space before and after it.
fn spaced_words(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '\'');
    let words = words.filter(|word| !word.is_empty()).map(str::to_lowercase);
    words.fold(String::from(" "), |line, word| line + &word + " ")
}

/// The comment of a line, without its slashes.
fn comment(line: &str) -> Option<&str> {
    let (_, comment) = line.split_once("//")?;
    Some(comment.trim_start_matches(['/', '!']))
}

/// The name of the function that a line declares.
fn declared_function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| {
        matches!(word, "async" | "const" | "unsafe" | "extern") || word.starts_with("pub")
    });
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    is_declaration.then_some(name)
}

fn is_in_old_words(line: &str) -> bool {
    let Some(comment) = comment(line) else { return false };
    let words = spaced_words(comment);
    OLD_WORDS.iter().any(|old| words.contains(&format!(" {old} ")))
}

/// Whether the line at `index` is a doc of its own that says too little to be one.
fn is_hollow_doc(lines: &[&str], index: usize) -> bool {
    let is_doc = |line: Option<&&str>| line.is_some_and(|line| line.trim().starts_with("///"));
    let Some(doc) = lines[index].trim().strip_prefix("/// ") else { return false };
    let is_alone =
        !is_doc(index.checked_sub(1).and_then(|at| lines.get(at))) && !is_doc(lines.get(index + 1));
    is_alone && doc.split_whitespace().count() < DOC_WORDS_MIN
}

/// The lines, from 1, where a parameter of a function takes a tuple apart.
fn destructured_parameters(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices("): (").filter_map(move |(end, _)| {
        let start = text.get(..end)?.rfind('(')?;
        let names = text.get(start + 1..end)?;
        let is_names = names
            .split(", ")
            .all(|name| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_'));
        let before = text.get(..start)?.trim_end();
        let is_parameter = before.ends_with(['(', ',']);
        let number = text.get(..start)?.matches('\n').count() + 1;
        (is_names && is_parameter && names.contains(',')).then_some(number)
    })
}

/// The first name of a path that a line exports again.
fn exported_root(line: &str) -> Option<&str> {
    let path = line.trim().strip_prefix("pub use ")?;
    path.trim_start_matches("::").split([':', ';', ' ']).next()
}

#[test]
fn functions_are_verbs() {
    let sources: Vec<_> = plain_sources().collect();
    check_lines("a function is a verb with its object", &sources, |line| {
        declared_function(line).is_some_and(|name| BARE_NAMES.contains(&name))
    });
}

#[test]
fn parameters_are_not_destructured() {
    let hits = plain_sources().flat_map(|source| {
        let numbers = destructured_parameters(source.production());
        numbers.map(|number| format!("{}:{number}", source.path)).collect::<Vec<_>>()
    });
    check("a parameter has a name: take a struct, or fewer", hits);
}

#[test]
fn comments_are_in_plain_words() {
    let hits = plain_sources().flat_map(|source| {
        let lines = source.production().lines().enumerate();
        let lines = lines.filter(|(_, line)| is_in_old_words(line));
        let of = |(index, line): (usize, &str)| {
            format!("{}:{}: {}", source.path, index + 1, line.trim())
        };
        lines.map(of).collect::<Vec<_>>()
    });
    check("comments are in plain words", hits);
}

#[test]
fn docs_say_something() {
    let hits = plain_sources().flat_map(|source| {
        let lines: Vec<_> = source.production().lines().collect();
        let hollow = (0..lines.len()).filter(|&index| is_hollow_doc(&lines, index));
        hollow
            .map(|index| format!("{}:{}: {}", source.path, index + 1, lines[index].trim()))
            .collect::<Vec<_>>()
    });
    check("a doc says the unit, the range, the owner or the failure, or it is left out", hits);
}

#[test]
fn nobody_exports_what_others_made() {
    let all = sources::everything();
    let manifest = all.iter().find(|source| source.path == "Cargo.toml").unwrap();
    let (_, dependencies) = manifest.text.split_once("[workspace.dependencies]").unwrap();
    let names = dependencies.lines().filter_map(|line| line.split_once(" = "));
    let crates: HashSet<_> = names.map(|(name, _)| name.trim().replace('-', "_")).collect();
    let hits = plain_sources().flat_map(|source| {
        let is_foreign = |line: &str| {
            exported_root(line).is_some_and(|root| {
                crates.contains(root) && !source.text.contains(&format!("mod {root};"))
            })
        };
        let lines = source.code().filter(|(_, line)| is_foreign(line));
        let places = lines.map(|(number, line)| format!("{}:{number}: {line}", source.path));
        places.collect::<Vec<_>>()
    });
    check("an item has one path: that of the crate that made it", hits);
}

#[test]
fn the_lists_see_what_they_forbid() {
    assert_eq!(declared_function("    pub(crate) async fn told(&self) {"), Some("told"));
    assert_eq!(declared_function("let x = |f| f;"), None);
    assert!(is_in_old_words("/// Rows in the order of their moments."));
    assert!(!is_in_old_words("let momentum = 1; // the force of it"));
    assert!(is_hollow_doc(&["/// Which.", "a: u8,"], 0));
    assert!(!is_hollow_doc(&["/// Rows kept", "/// for a day.", "a: u8,"], 0));
    assert_eq!(
        destructured_parameters("fn f(\n    (a, b): (A, B),\n) {}").collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(destructured_parameters("let (a, b): (A, B) = ab;").count(), 0);
    assert_eq!(exported_root("pub use libp2p::PeerId;"), Some("libp2p"));
}
