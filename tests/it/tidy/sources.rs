//! The files of the repository, read from its directory without git.

use std::fs;
use std::path::Path;

use crate::support::ROOT;

/// Directories that contain no text written by us.
const SKIPPED: [&str; 5] = ["target", ".git", "node_modules", "screenshots", "snapshots"];

/// Extensions of text files.
const TEXTS: [&str; 10] = ["rs", "toml", "md", "sh", "c", "h", "mjs", "json", "yml", "lock"];

/// A text file.
pub(super) struct Source {
    /// Path from the root, with `/` on every platform.
    pub(super) path: String,
    /// Content.
    pub(super) text: String,
    /// True if the file contains only tests.
    pub(super) is_test: bool,
}

impl Source {
    /// Returns true if the file contains these rules, which have to name what they forbid.
    pub(super) fn is_tidy(&self) -> bool {
        self.path.starts_with("tests/it/tidy")
    }

    /// Returns the text of the file before the tests at its end.
    pub(super) fn production(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default()
    }

    /// Returns the lines without comments, each with its number, starting at 1.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, without_comment(line)))
    }

    /// Returns the paths, without extension, of the modules that this file declares only for tests.
    fn test_modules(&self) -> Vec<String> {
        let path = self.path.trim_end_matches(".rs");
        let folder = match path.rsplit_once('/') {
            Some((folder, "lib" | "main")) => folder,
            _ => path,
        };
        let modules = self.text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
            let line = rest.lines().next()?.strip_suffix(';')?;
            Some(format!("{folder}/{}", line.split_once("mod ")?.1))
        });
        modules.collect()
    }
}

/// Removes a comment from a line. Slashes after a colon belong to a URL.
pub(super) fn without_comment(line: &str) -> &str {
    let mut slashes = line.match_indices("//").map(|(at, _)| line.split_at(at).0);
    slashes.find(|before| !before.ends_with(':')).unwrap_or(line)
}

/// Returns every Rust file.
pub(super) fn rust() -> Vec<Source> {
    let mut found = Vec::new();
    for folder in ["src", "tests"] {
        walk(&Path::new(ROOT).join(folder), &["rs"], &mut found);
    }
    assert!(found.len() > 100, "the sources are found: {}", found.len());
    let modules: Vec<_> = found.iter().flat_map(Source::test_modules).collect();
    for source in &mut found {
        let is_below = |module: &String| {
            let rest = source.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest.starts_with(['.', '/']))
        };
        source.is_test = source.path.starts_with("tests/") || modules.iter().any(is_below);
    }
    found
}

/// Returns every text file.
pub(super) fn all() -> Vec<Source> {
    let mut found = Vec::new();
    walk(Path::new(ROOT), &TEXTS, &mut found);
    assert!(found.iter().any(|source| source.path == "README.md"));
    found
}

fn walk(folder: &Path, extensions: &[&str], found: &mut Vec<Source>) {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in entries {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.and_then(|part| part.to_str()).unwrap_or_default().to_owned()
        };
        if path.is_dir() {
            if !SKIPPED.contains(&text(path.file_name()).as_str()) {
                walk(&path, extensions, found);
            }
        } else if extensions.contains(&text(path.extension()).as_str()) {
            let shown = path.strip_prefix(ROOT).unwrap_or(&path).display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            found.push(Source { path: shown.replace('\\', "/"), text, is_test: false });
        }
    }
}

#[test]
fn test_modules_are_found_in_sources() {
    for (path, text, want) in [
        ("src/a/b.rs", "mod x;\n#[cfg(test)]\nmod c;\n", &["src/a/b/c"][..]),
        ("src/a/lib.rs", "#[cfg(test)]\npub(crate) mod c;\n", &["src/a/c"]),
        ("src/a/b.rs", "#[cfg(test)]\nmod tests {\n", &[]),
    ] {
        let source = Source { path: path.to_owned(), text: text.to_owned(), is_test: false };
        assert_eq!(source.test_modules(), want);
    }
}

#[test]
fn comments_are_removed_from_source_lines() {
    assert_eq!(without_comment("let a = 1; // one"), "let a = 1; ");
    assert_eq!(without_comment("let a = \"http://b\";"), "let a = \"http://b\";");
    assert_eq!(without_comment("/// A doc."), "");
}
