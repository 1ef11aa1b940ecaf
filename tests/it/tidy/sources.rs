//! Our own sources, read from the tree. No git is needed.

use std::{fs, path::Path};

use crate::support::ROOT;

/// Folders that are not ours to keep tidy, or hold no text.
const SKIPPED: [&str; 5] = ["target", ".git", "node_modules", "screenshots", "snapshots"];

/// Endings of files that hold text.
const TEXTS: [&str; 10] = ["rs", "toml", "md", "sh", "c", "h", "mjs", "json", "yml", "lock"];

/// A file of the tree.
pub(super) struct Source {
    /// Its path from the root, with `/` on every platform.
    pub(super) path: String,
    /// What it holds.
    pub(super) text: String,
    /// Whether all of it is tests.
    pub(super) is_test: bool,
}

impl Source {
    /// Its name without the ending.
    pub(super) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.split('.').next().unwrap_or_default()
    }

    /// Whether it holds the rules themselves, which name what they forbid.
    pub(super) fn is_tidy(&self) -> bool {
        self.path.starts_with("tests/it/tidy")
    }

    /// Its text up to the tests at its end.
    pub(super) fn production(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default()
    }

    /// The paths, without the ending, of modules that it has for tests alone.
    fn test_modules(&self) -> impl Iterator<Item = String> {
        let path = self.path.trim_end_matches(".rs");
        let folder = match path.rsplit_once('/') {
            Some((folder, "lib" | "main")) => folder,
            _ => path,
        };
        let modules = self.text.split("#[cfg(test)]\n").skip(1).filter_map(move |rest| {
            let line = rest.lines().next()?.strip_suffix(';')?;
            let name = line.split_once("mod ")?.1;
            Some(format!("{folder}/{name}"))
        });
        modules.collect::<Vec<_>>().into_iter()
    }

    /// Its lines, from 1, each without the comment at its end.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, without_comment(line)))
    }
}

/// Cuts off a comment. What follows a colon is no comment but the rest of a URL.
pub(super) fn without_comment(line: &str) -> &str {
    let starts = line.match_indices("//").map(|(at, _)| at);
    let mut comments = starts.filter(|&at| !line.get(..at).unwrap_or_default().ends_with(':'));
    comments.next().and_then(|at| line.get(..at)).unwrap_or(line)
}

/// Every Rust source of the rooms and the tests.
pub(super) fn rust() -> Vec<Source> {
    let mut found = Vec::new();
    for folder in ["src", "tests"] {
        walk(&Path::new(ROOT).join(folder), &|ending| ending == "rs", &mut found);
    }
    assert!(found.len() > 100, "the sources are found: {}", found.len());
    let test_modules: Vec<_> = found.iter().flat_map(Source::test_modules).collect();
    for source in &mut found {
        let is_of = |module: &String| {
            source
                .path
                .strip_prefix(module.as_str())
                .is_some_and(|rest| rest.starts_with(['.', '/']))
        };
        source.is_test = source.path.starts_with("tests/") || test_modules.iter().any(is_of);
    }
    found
}

/// Every text of the tree.
pub(super) fn everything() -> Vec<Source> {
    let mut found = Vec::new();
    walk(Path::new(ROOT), &|ending| TEXTS.contains(&ending), &mut found);
    assert!(found.iter().any(|source| source.path == "README.md"));
    found
}

fn walk(folder: &Path, is_wanted: &dyn Fn(&str) -> bool, found: &mut Vec<Source>) {
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !SKIPPED.contains(&name) {
                walk(&path, is_wanted, found);
            }
        } else if is_wanted(path.extension().and_then(|ending| ending.to_str()).unwrap_or_default())
        {
            let shown = path.strip_prefix(ROOT).unwrap_or(&path).display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            found.push(Source { path: shown.replace('\\', "/"), text, is_test: false });
        }
    }
}

#[test]
fn test_modules_are_found() {
    let source = |path: &str, text: &str| Source {
        path: path.to_owned(),
        text: text.to_owned(),
        is_test: false,
    };
    let modules = |path, text| source(path, text).test_modules().collect::<Vec<_>>();
    assert_eq!(modules("src/a/b.rs", "mod x;\n#[cfg(test)]\nmod c;\n"), ["src/a/b/c"]);
    assert_eq!(modules("src/a/lib.rs", "#[cfg(test)]\npub(crate) mod c;\n"), ["src/a/c"]);
    assert!(modules("src/a/b.rs", "#[cfg(test)]\nmod tests {\n").is_empty());
}

#[test]
fn comments_are_cut_off() {
    assert_eq!(without_comment("let a = 1; // one"), "let a = 1; ");
    assert_eq!(without_comment("let a = \"http://b\";"), "let a = \"http://b\";");
    assert_eq!(without_comment("/// A doc."), "");
}
