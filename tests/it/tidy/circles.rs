//! The files of a room import one another one way. A file and those in its folder are one thing:
//! what they take from one another is not counted.

use std::collections::{BTreeMap, BTreeSet};

use super::{check, sources};

/// A file of a room, by its folders and its name; empty for the room's own file.
type Module = Vec<String>;

/// What each file of a room imports of the same room.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn files_import_one_another_one_way() {
    let circles = rooms().into_iter().flat_map(|(room, files)| {
        let imports = imports(&files);
        circles(&imports).into_iter().map(move |circle| format!("{room}: {circle}"))
    });
    check("files of a room import one another one way", circles);
}

#[test]
fn a_circle_is_seen_and_parent_and_child_are_none() {
    let file = |name: &str, text: &str| (module_of(name), text.to_owned());
    let files = BTreeMap::from([
        file("lib.rs", ""),
        file("a.rs", "use crate::{b::{self, C as D}, e::x};"),
        file("b.rs", "mod c;\nuse self::c::F;"),
        file("b/c.rs", "use super::C;\nfn f() { crate::e::y() }"),
        file("e.rs", "use super::a::{G, H};"),
    ]);
    assert_eq!(circles(&imports(&files)), ["a -> e -> a"]);
}

/// The text of each file that is no test, by room. The rooms of the root package are one.
fn rooms() -> BTreeMap<String, BTreeMap<Module, String>> {
    let mut rooms: BTreeMap<String, BTreeMap<Module, String>> = BTreeMap::new();
    for source in sources::rust() {
        let Some(path) = source.path.strip_prefix("src/") else { continue };
        if source.is_test || path.contains("/benches/") {
            continue;
        }
        let (room, path) = match path.split_once('/') {
            Some((room, path)) if room != "cli" && room != "bin" => (room, path),
            _ => ("cli", path),
        };
        let text: Vec<&str> = source.production().lines().map(sources::without_comment).collect();
        rooms.entry(room.to_owned()).or_default().insert(module_of(path), text.join("\n"));
    }
    rooms
}

fn module_of(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    if path == "lib" { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

fn imports(files: &BTreeMap<Module, String>) -> Imports {
    let found = files.iter().map(|(module, text)| {
        let targets = paths(text).into_iter().filter_map(|path| resolve(module, &path, files));
        let others = targets.filter(|target| !is_kin(target, module));
        (module.clone(), others.collect())
    });
    found.collect()
}

/// Whether one of two files lies in the folder of the other.
fn is_kin(a: &[String], b: &[String]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// The file that a path in `module` leads to: the longest part of it that names one.
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

/// The paths of a text: of its `use` items, and those that start at `crate` or `super`.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for item in text.split("use ").skip(1) {
        let item = item.split(';').next().unwrap_or_default();
        spread(&mut Vec::new(), item, &mut found);
    }
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let rest = text.get(at..).unwrap_or_default();
            let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let path = rest.split(|c: char| !is_path(c)).next().unwrap_or_default();
            // The stem of a tree, which is spread above.
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

/// Writes a tree of imports, such as `a::{b, c::{d}}`, as single paths.
fn spread(prefix: &mut Vec<String>, tree: &str, found: &mut Vec<Vec<String>>) {
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
            spread(prefix, inner, found);
        } else {
            let own = parts(branch).into_iter().filter(|part| part != "self");
            found.push(prefix.iter().cloned().chain(own).collect());
        }
        prefix.truncate(n_before);
    }
}

/// A shortest way from each file that leads back to it, once for the files on it.
fn circles(imports: &Imports) -> Vec<String> {
    let mut seen: BTreeSet<Module> = BTreeSet::new();
    let mut circles = Vec::new();
    for start in imports.keys() {
        if seen.contains(start) {
            continue;
        }
        let Some(way) = way_back(start, imports) else { continue };
        let names: Vec<String> = way.iter().map(|module| module.join("/")).collect();
        circles.push(names.join(" -> "));
        seen.extend(way);
    }
    circles
}

fn way_back(start: &Module, imports: &Imports) -> Option<Vec<Module>> {
    let mut ways = vec![vec![start.clone()]];
    let mut reached = BTreeSet::new();
    while !ways.is_empty() {
        let mut further = Vec::new();
        for way in ways {
            for next in imports.get(way.last()?).into_iter().flatten() {
                let longer: Vec<Module> = way.iter().chain([next]).cloned().collect();
                if next == start {
                    return Some(longer);
                }
                if reached.insert(next.clone()) {
                    further.push(longer);
                }
            }
        }
        ways = further;
    }
    None
}
