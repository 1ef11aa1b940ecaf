//! The files of a crate must not import one another in cycles. Imports between a file and the files in
//! its own directory do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{check, sources};

/// Path of a file in its crate, without its extension. Empty for `lib.rs`.
type Module = Vec<String>;

/// For each file, the files of the same crate that it imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn files_of_a_crate_import_without_cycles() {
    let cycles = crates().into_iter().flat_map(|(name, files)| {
        let cycles = cycles(&imports(&files)).into_iter();
        cycles.map(move |cycle| format!("{name}: {cycle}"))
    });
    check("files of a crate import one another without cycles", cycles);
}

#[test]
fn cycles_are_found_except_between_parent_and_child() {
    let file = |name: &str, text: &str| (module_of(name), text.to_owned());
    let files = BTreeMap::from([
        file("lib.rs", ""),
        file("a.rs", "use crate::{b::{self, C as D}, e::x};"),
        file("b.rs", "mod c;\nuse self::c::F;"),
        file("b/c.rs", "use super::C;\nfn f() { crate::e::y() }"),
        file("e.rs", "use super::a::{G, H};"),
    ]);
    assert_eq!(cycles(&imports(&files)), ["a -> e -> a"]);
}

/// Returns the text of each file by crate, without tests. The root package counts as one crate.
fn crates() -> BTreeMap<String, BTreeMap<Module, String>> {
    let mut crates: BTreeMap<String, BTreeMap<Module, String>> = BTreeMap::new();
    for source in sources::rust() {
        let Some(path) = source.path.strip_prefix("src/") else { continue };
        if source.is_test || path.contains("/benches/") {
            continue;
        }
        let (name, path) = match path.split_once('/') {
            Some((name, path)) if name != "cli" && name != "bin" => (name, path),
            _ => ("cli", path),
        };
        let text: Vec<&str> = source.production().lines().map(sources::without_comment).collect();
        crates.entry(name.to_owned()).or_default().insert(module_of(path), text.join("\n"));
    }
    crates
}

fn module_of(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    if path == "lib" { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

fn imports(files: &BTreeMap<Module, String>) -> Imports {
    let found = files.iter().map(|(module, text)| {
        let targets = paths(text).into_iter().filter_map(|path| resolve(module, &path, files));
        let others = targets.filter(|target| !are_related(target, module));
        (module.clone(), others.collect())
    });
    found.collect()
}

/// Returns true if one file is in the directory of the other file.
fn are_related(a: &[String], b: &[String]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// Returns the file to which `path` leads when it is used in `module`: the longest prefix of the path
/// that names a file.
fn resolve(module: &[String], path: &[String], files: &BTreeMap<Module, String>) -> Option<Module> {
    let n_up = path.iter().take_while(|part| *part == "super").count();
    let (mut target, rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), path.get(1..)?),
        "self" => (module.to_vec(), path.get(1..)?),
        "super" => (module.get(..module.len().checked_sub(n_up)?)?.to_vec(), path.get(n_up..)?),
        _ => (module.to_vec(), path),
    };
    let mut named = files.contains_key(&target).then(|| target.clone());
    for part in rest {
        target.push(part.clone());
        if files.contains_key(&target) {
            named = Some(target.clone());
        }
    }
    named
}

/// Returns the paths in `use` items, and all other paths that start with `crate` or `super`.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for item in text.split("use ").skip(1) {
        let item = item.split(';').next().unwrap_or_default();
        expand(&mut Vec::new(), item, &mut found);
    }
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let rest = text.get(at..).unwrap_or_default();
            let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let path = rest.split(|c: char| !is_path(c)).next().unwrap_or_default();
            // The prefix of an import tree is skipped, since the tree was expanded above.
            if !path.ends_with("::") {
                found.push(parts(path));
            }
        }
    }
    found
}

fn parts(path: &str) -> Vec<String> {
    let named = path.split(" as ").next().unwrap_or_default().split("::").map(str::trim);
    named.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Expands an import tree, such as `a::{b, c::{d}}`, into its paths.
fn expand(prefix: &mut Vec<String>, tree: &str, found: &mut Vec<Vec<String>>) {
    let mut depth = 0_usize;
    let branches = tree.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    for branch in branches.map(str::trim).filter(|branch| !branch.is_empty()) {
        let n_before = prefix.len();
        if let Some((stem, rest)) = branch.split_once('{') {
            prefix.extend(parts(stem));
            let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
            expand(prefix, inner, found);
        } else {
            let own = parts(branch).into_iter().filter(|part| part != "self");
            found.push(prefix.iter().cloned().chain(own).collect());
        }
        prefix.truncate(n_before);
    }
}

/// Returns cycles of imports: for each file that is not on an earlier cycle, a shortest cycle through
/// this file.
fn cycles(imports: &Imports) -> Vec<String> {
    let mut seen: BTreeSet<Module> = BTreeSet::new();
    let mut cycles = Vec::new();
    for start in imports.keys() {
        if seen.contains(start) {
            continue;
        }
        let Some(cycle) = shortest_cycle(start, imports) else { continue };
        let names: Vec<String> = cycle.iter().map(|module| module.join("/")).collect();
        cycles.push(names.join(" -> "));
        seen.extend(cycle);
    }
    cycles
}

fn shortest_cycle(start: &Module, imports: &Imports) -> Option<Vec<Module>> {
    let mut paths = VecDeque::from([vec![start.clone()]]);
    let mut reached = BTreeSet::new();
    while let Some(path) = paths.pop_front() {
        for next in imports.get(path.last()?).into_iter().flatten() {
            let longer: Vec<Module> = path.iter().chain([next]).cloned().collect();
            if next == start {
                return Some(longer);
            }
            if reached.insert(next.clone()) {
                paths.push_back(longer);
            }
        }
    }
    None
}
