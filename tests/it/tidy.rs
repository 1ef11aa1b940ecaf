//! Rules of the house that no compiler checks, over our own sources.
//!
//! A rule is a table where it can be; a file that breaks one for a reason stands in the table, with
//! the reason. What clippy, rustc and the manifests can check is not repeated here.

mod circles;
mod screen;
mod sources;
mod words;

use sources::Source;

/// The most lines of a file: what one idea takes, with room.
const LINES_MAX: usize = 600;

/// The most lines of the program's `main.rs`: it starts the command line, and nothing else.
const MAIN_LINES_MAX: usize = 40;

/// The most lines of the codemap: what is read in one sitting, of which a third is the glossary and
/// the recipes of changes, to look things up in.
const CODEMAP_LINES_MAX: usize = 170;

/// The one file with unsafe code: the engine loads compiled code in no other way.
const UNSAFE: &str = "src/runtime/load.rs";

/// Words that say nothing of what a file holds.
const EMPTY_NAMES: [&str; 8] =
    ["utils", "util", "common", "manager", "service", "helper", "helpers", "types"];

/// Folders of other people's machines, which no tree of ours names.
const MACHINE_FOLDERS: [&str; 5] = ["/home/", "/root/", "/Users/", "/work/", "/tmp/"];

/// Fails with every place where a rule is broken. A place is a file, and a line from 1 where one
/// line is to blame.
#[track_caller]
fn check(rule: &str, broken: impl IntoIterator<Item = String>) {
    let broken: Vec<_> = broken.into_iter().collect();
    assert!(broken.is_empty(), "{rule}; broken in:\n  {}", broken.join("\n  "));
}

/// Fails with every line of `sources` of which `is_broken` is true.
#[track_caller]
fn check_lines<'a>(
    rule: &str,
    sources: impl IntoIterator<Item = &'a Source>,
    is_broken: impl Fn(&str) -> bool,
) {
    let broken = sources.into_iter().flat_map(|source| {
        let lines = source.code().filter(|(_, line)| is_broken(line));
        lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim()))
    });
    check(rule, broken);
}

#[test]
fn files_are_short() {
    let long = sources::rust().into_iter().filter_map(|source| {
        let n_lines = source.text.lines().count();
        let is_main = source.path.ends_with("main.rs") && !source.is_test;
        let lines_max = if is_main { MAIN_LINES_MAX } else { LINES_MAX };
        (n_lines > lines_max).then(|| format!("{}: {n_lines} of {lines_max}", source.path))
    });
    check("a file has at most 600 lines, main.rs 40", long);
}

#[test]
fn the_codemap_is_read_in_one_sitting() {
    let map = sources::rust().into_iter().filter(|source| source.path == "src/lib.rs");
    let n_lines = map.map(|map| map.text.lines().filter(|line| line.starts_with("//!")).count());
    check(
        "the codemap is short enough to be read in one sitting",
        n_lines.filter(|n_lines| *n_lines > CODEMAP_LINES_MAX).map(|n| format!("{n} lines")),
    );
}

#[test]
fn every_file_says_what_it_holds() {
    // `foo/tests.rs` holds the tests of `foo.rs`: its name says it.
    let silent = sources::rust()
        .into_iter()
        .filter(|source| !source.text.starts_with("//!") && !source.path.ends_with("/tests.rs"));
    check("a file opens with `//!`", silent.map(|source| source.path));
}

#[test]
fn names_say_something() {
    let empty = sources::rust().into_iter().filter(|source| {
        source.stem() == "mod" || source.stem().split('_').any(|word| EMPTY_NAMES.contains(&word))
    });
    check("a file's name says what it holds", empty.map(|source| source.path));
}

#[test]
fn every_constant_says_why() {
    let bare = sources::rust().into_iter().filter(|source| !source.is_test).flat_map(|source| {
        let lines: Vec<_> = source.production().lines().collect();
        let bare = (0..lines.len()).filter(|&index| is_bare_constant(&lines, index));
        bare.map(|index| format!("{}:{}", source.path, index + 1)).collect::<Vec<_>>()
    });
    check("a constant has a `///` above it", bare);
}

/// Whether a constant without docs begins at `index`. One that fulfils a trait has the trait's; one
/// inside a function is explained by it.
fn is_bare_constant(lines: &[&str], index: usize) -> bool {
    let Some(line) = lines.get(index) else { return false };
    let item = line.trim_start();
    let item = item.strip_prefix("pub").map_or(item, |rest| match rest.split_once(") ") {
        Some((_, item)) if rest.starts_with('(') => item,
        _ => rest.trim_start(),
    });
    let is_constant = ["const ", "static "].iter().any(|word| item.starts_with(word));
    let is_other = ["const fn ", "const _", "const {", "const unsafe "];
    if !is_constant || is_other.iter().any(|word| item.starts_with(word)) {
        return false;
    }
    let before = || lines.iter().take(index).rev().map(|line| line.trim_start());
    let is_attribute = |line: &str| line.starts_with("#[") || line.ends_with(")]");
    let is_documented =
        before().find(|line| !is_attribute(line)).is_some_and(|line| line.starts_with("///"));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_outer = |other: &&&str| !other.trim().is_empty() && indent(other) < indent(line);
    let outer = lines.iter().take(index).rev().find(is_outer).copied();
    let is_of_type = |outer: &str| outer.starts_with("impl") && !outer.contains(" for ");
    !is_documented && outer.is_none_or(is_of_type)
}

#[test]
fn nothing_is_left_undone_or_waved_through() {
    let marks = ["todo!(", "unimplemented!(", "#[allow(", "#![allow(", "#[ignore]"];
    check_lines(
        "nothing is left undone, allowed without a reason, or ignored without one",
        sources::rust().iter().filter(|source| !source.is_tidy()),
        |line| marks.iter().any(|mark| line.contains(mark)),
    );
}

/// The lint `unsafe_code` is denied, so unsafe code has to name it to be excepted.
#[test]
fn unsafe_code_is_in_one_file() {
    let excepted = sources::rust().into_iter().filter(|source| {
        !source.is_tidy() && source.path != UNSAFE && source.text.contains("unsafe_code")
    });
    check("unsafe code stands in one file alone", excepted.map(|source| source.path));
}

#[test]
fn no_test_sleeps() {
    let tests = sources::rust();
    let tests = tests.iter().filter(|source| {
        source.path.starts_with("tests/it/") && !source.path.starts_with("tests/it/support/")
    });
    check_lines(
        "a test waits for a condition, with a deadline",
        tests.filter(|source| !source.is_tidy()),
        |line| line.contains("sleep("),
    );
}

#[test]
fn error_texts_are_fragments() {
    let broken = sources::rust().into_iter().flat_map(|source| {
        let lines: Vec<_> = source.text.lines().map(str::trim).collect();
        let texts = lines.iter().enumerate().filter_map(|(index, line)| {
            let text = line.strip_prefix("#[error(\"")?;
            let text = text.rsplit_once('"')?.0;
            let variant = lines.get(index + 1).copied().unwrap_or_default();
            is_no_fragment(text, variant).then(|| format!("{}:{}: {text}", source.path, index + 1))
        });
        texts.collect::<Vec<_>>()
    });
    check("an error's text is a lowercase fragment without its cause", broken);
}

fn is_no_fragment(text: &str, variant: &str) -> bool {
    let mut letters = text.chars();
    let is_capital = letters.next().is_some_and(char::is_uppercase)
        && !letters.next().is_some_and(char::is_uppercase);
    let tells_cause = text.contains("{source")
        || (text.contains("{0") && (variant.contains("#[source]") || variant.contains("#[from]")));
    is_capital || text.ends_with('.') || tells_cause
}

#[test]
fn the_tree_names_no_machine() {
    let named =
        sources::everything().into_iter().filter(|source| !source.is_tidy()).flat_map(|source| {
            let lines = source.text.lines().enumerate().filter(|(_, line)| names_machine(line));
            lines.map(|(index, _)| format!("{}:{}", source.path, index + 1)).collect::<Vec<_>>()
        });
    check("no path of someone's machine stands in the tree", named);
}

fn names_machine(line: &str) -> bool {
    MACHINE_FOLDERS.iter().any(|folder| {
        line.match_indices(folder).any(|(at, _)| {
            let before = line.as_bytes().get(at.wrapping_sub(1)).copied().unwrap_or(b' ');
            !before.is_ascii_alphanumeric() && !b"._-}~$".contains(&before)
        })
    })
}

#[test]
fn there_are_no_emoji() {
    let is_emoji = |letter: char| matches!(letter, '\u{1f000}'..='\u{1faff}' | '\u{fe0f}');
    // Tests draw what others may send.
    let is_test = |source: &Source| source.path.ends_with("/tests.rs");
    let shown = sources::everything().into_iter();
    let shown = shown.filter(|source| !is_test(source) && source.text.contains(is_emoji));
    check("text needs no pictures", shown.map(|source| source.path));
}

#[test]
fn the_rules_see_what_breaks_them() {
    assert!(is_bare_constant(&["const A: u8 = 1;"], 0));
    assert!(is_bare_constant(
        &["/// Why.", "pub const A: u8 = 1;", "pub(crate) const B: u8 = 1;"],
        2
    ));
    assert!(!is_bare_constant(&["/// Why.", "#[cfg(unix)]", "pub(crate) static A: u8 = 1;"], 2));
    assert!(!is_bare_constant(&["impl A for B {", "    const C: u8 = 1;"], 1));
    assert!(is_bare_constant(&["impl B {", "    const C: u8 = 1;"], 1));
    assert!(!is_bare_constant(&["pub const fn f() {}"], 0));
    assert!(!is_bare_constant(&["fn f() {", "    const C: u8 = 1;"], 1));

    assert!(is_no_fragment("Read the row", ""));
    assert!(is_no_fragment("read the row.", ""));
    assert!(is_no_fragment("read the row: {source}", ""));
    assert!(is_no_fragment("read the row: {0}", "Read(#[source] io::Error),"));
    assert!(!is_no_fragment("CID {0} is none", "Cid(String),"));

    let folder = MACHINE_FOLDERS[0];
    assert!(names_machine(&format!("see {folder}me")) && names_machine(&format!("{folder}me")));
    assert!(!names_machine(&format!("$HOME{folder}me")));
}
