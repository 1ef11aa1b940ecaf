//! Rules about our own sources that neither the compiler, clippy nor a manifest checks.
//!
//! They are about the size and the structure of files. Language is reviewed instead of tested. The
//! reasons for the rules are in `.github/CONTRIBUTING.md`.

mod cycles;
mod fences;
mod sources;

use sources::Source;

/// Maximum number of lines of a file.
const LINES_MAX: usize = 600;

/// Maximum number of lines of `src/main.rs`, which only starts the command line.
const MAIN_LINES_MAX: usize = 40;

/// Maximum number of doc lines of the codemap, so that it can be read in one sitting.
const CODEMAP_LINES_MAX: usize = 170;

/// Minimum number of lines of a file that must begin with docs.
const DOCS_FROM_LINES: usize = 150;

/// The only file with unsafe code, since wasmtime can load compiled code in no other way.
const UNSAFE: &str = "src/runtime/load.rs";

/// Prefixes of directories that exist only on a developer's machine.
const MACHINE_FOLDERS: [&str; 5] = ["/home/", "/root/", "/Users/", "/work/", "/tmp/"];

/// Fails, naming every place where `rule` is broken.
#[track_caller]
fn check(rule: &str, broken: impl IntoIterator<Item = String>) {
    let broken: Vec<_> = broken.into_iter().collect();
    assert!(broken.is_empty(), "{rule}; broken in:\n  {}", broken.join("\n  "));
}

/// Fails, naming every line of `sources` for which `is_broken` returns true.
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
fn files_have_at_most_600_lines() {
    let long = sources::rust().into_iter().filter_map(|source| {
        let n_lines = source.text.lines().count();
        let max = if source.path == "src/main.rs" { MAIN_LINES_MAX } else { LINES_MAX };
        (n_lines > max).then(|| format!("{}: {n_lines} of {max}", source.path))
    });
    check("a file has at most 600 lines, main.rs 40", long);
}

#[test]
fn codemap_has_at_most_170_lines() {
    let map = sources::rust().into_iter().find(|source| source.path == "src/lib.rs").unwrap();
    let n_lines = map.text.lines().filter(|line| line.starts_with("//!")).count();
    assert!(n_lines <= CODEMAP_LINES_MAX, "the codemap has {n_lines} lines");
}

#[test]
fn crates_and_long_files_begin_with_docs() {
    let bare = sources::rust().into_iter().filter(|source| {
        let is_long = source.text.lines().count() > DOCS_FROM_LINES;
        let is_documented = source.path.ends_with("/tests.rs") || source.text.starts_with("//!");
        (is_long || source.path.ends_with("/lib.rs")) && !is_documented
    });
    check("a crate or a file of more than 150 lines begins with `//!`", bare.map(|it| it.path));
}

#[test]
fn constants_have_docs() {
    let bare = sources::rust().into_iter().filter(|source| !source.is_test).flat_map(|source| {
        let lines: Vec<_> = source.production().lines().collect();
        let bare = (0..lines.len()).filter(|&index| is_bare_constant(&lines, index));
        bare.map(|index| format!("{}:{}", source.path, index + 1)).collect::<Vec<_>>()
    });
    check("a constant has a `///` above it", bare);
}

/// Returns true if a constant without docs begins at `index`. Exempt are constants of trait
/// implementations, which have the docs of the trait, and constants inside functions.
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
    let before = || lines.iter().take(index).rev();
    let is_attribute = |line: &str| line.starts_with("#[") || line.ends_with(")]");
    let above = before().map(|line| line.trim_start()).find(|line| !is_attribute(line));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let outer = before().find(|other| !other.trim().is_empty() && indent(other) < indent(line));
    let needs_docs =
        outer.is_none_or(|outer| outer.starts_with("impl") && !outer.contains(" for "));
    needs_docs && !above.is_some_and(|line| line.starts_with("///"))
}

#[test]
fn only_one_file_contains_unsafe_code() {
    // The lint `unsafe_code` is denied, so a file with unsafe code must contain its name.
    let names_it = |source: &Source| !source.is_tidy() && source.text.contains("unsafe_code");
    let files = sources::rust().into_iter().filter(names_it).map(|source| source.path);
    check("unsafe code is in one file", files.filter(|path| path != UNSAFE));
}

#[test]
fn tests_do_not_sleep() {
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
fn error_texts_have_no_capital_letter_no_full_stop_and_do_not_repeat_their_source() {
    let broken = sources::rust().into_iter().flat_map(|source| {
        let lines: Vec<_> = source.text.lines().map(str::trim).collect();
        let texts = lines.iter().enumerate().filter_map(|(index, line)| {
            let text = line.strip_prefix("#[error(\"")?.rsplit_once('"')?.0;
            let variant = lines.get(index + 1).copied().unwrap_or_default();
            is_bad_error_text(text, variant)
                .then(|| format!("{}:{}: {text}", source.path, index + 1))
        });
        texts.collect::<Vec<_>>()
    });
    check("an error text is lowercase, has no final stop and does not repeat its source", broken);
}

fn is_bad_error_text(text: &str, variant: &str) -> bool {
    let mut letters = text.chars();
    let is_capital = letters.next().is_some_and(char::is_uppercase)
        && !letters.next().is_some_and(char::is_uppercase);
    let repeats_source = text.contains("{source")
        || (text.contains("{0") && (variant.contains("#[source]") || variant.contains("#[from]")));
    is_capital || text.ends_with('.') || repeats_source
}

#[test]
fn files_name_no_directory_of_a_machine() {
    let named = sources::all().into_iter().filter(|source| !source.is_tidy()).flat_map(|source| {
        let lines = source.text.lines().enumerate().filter(|(_, line)| names_machine(line));
        lines.map(|(index, _)| format!("{}:{}", source.path, index + 1)).collect::<Vec<_>>()
    });
    check("no path of a developer's machine is in the tree", named);
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
fn source_rules_detect_violations() {
    for (want, lines) in [
        (true, &["const A: u8 = 1;"][..]),
        (true, &["/// Why.", "pub const A: u8 = 1;", "pub(crate) const B: u8 = 1;"]),
        (false, &["/// Why.", "#[cfg(unix)]", "pub(crate) static A: u8 = 1;"]),
        (false, &["impl A for B {", "    const C: u8 = 1;"]),
        (true, &["impl B {", "    const C: u8 = 1;"]),
        (false, &["pub const fn f() {}"]),
        (false, &["fn f() {", "    const C: u8 = 1;"]),
    ] {
        assert_eq!(is_bare_constant(lines, lines.len() - 1), want, "{lines:?}");
    }
    for (want, text, variant) in [
        (true, "Invalid row", ""),
        (true, "invalid row.", ""),
        (true, "invalid row: {source}", ""),
        (true, "invalid row: {0}", "Read(#[source] io::Error),"),
        (false, "CID {0} is unknown", "Cid(String),"),
    ] {
        assert_eq!(is_bad_error_text(text, variant), want, "{text}");
    }
    let folder = MACHINE_FOLDERS[0];
    assert!(names_machine(&format!("see {folder}me")) && names_machine(&format!("{folder}me")));
    assert!(!names_machine(&format!("$HOME{folder}me")));
}
