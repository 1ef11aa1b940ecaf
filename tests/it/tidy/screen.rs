//! What the parts of the screen may do: a state and an update do no I/O, a view changes nothing.
//!
//! The parts are `src/tui/{app,state,view}` and, in a folder of `screens/` or `overlay/`, the files
//! and folders named `state`, `update` and `view`.

use super::{check_lines, sources};

/// A word that a part of the screen must not contain.
struct Rule {
    /// The part: `state`, `update` or `view`.
    part: &'static str,
    word: &'static str,
    why: &'static str,
}

/// The rules for each part.
const RULES: [Rule; 5] = [
    Rule { part: "state", word: "async", why: "the state does no I/O" },
    Rule { part: "update", word: "async", why: "an update does no I/O" },
    Rule { part: "state", word: "client::", why: "the state uses the types of event.rs" },
    Rule { part: "update", word: "client::", why: "an update uses the types of event.rs" },
    Rule { part: "view", word: "&mut State", why: "drawing changes nothing" },
];

/// The part of the screen that the file at `path` belongs to; none for what is not a part.
fn part(path: &str) -> Option<&str> {
    let path = path.strip_prefix("src/tui/")?;
    let mut names = path.trim_end_matches(".rs").split('/');
    let first = match names.next()? {
        "screens" | "overlay" => {
            return names.find(|name| ["state", "update", "view"].contains(name));
        }
        first => first,
    };
    match first {
        "app" => Some("update"),
        "state" | "view" => Some(first),
        _ => None,
    }
}

#[test]
fn each_part_of_the_screen_keeps_to_its_job() {
    let all = sources::rust();
    for rule in RULES {
        let sources = all.iter().filter(|source| part(&source.path) == Some(rule.part));
        let text = format!("no `{}` in a `{}` of the screen: {}", rule.word, rule.part, rule.why);
        check_lines(&text, sources, |line| line.contains(rule.word));
    }
}

#[test]
fn a_part_is_known_by_its_path() {
    for (path, want) in [
        ("src/tui/app/perform.rs", Some("update")),
        ("src/tui/state.rs", Some("state")),
        ("src/tui/screens/data/state/chart.rs", Some("state")),
        ("src/tui/screens/data/view.rs", Some("view")),
        ("src/tui/overlay/update.rs", Some("update")),
        ("src/tui/effects/calls.rs", None),
        ("src/cluster/head.rs", None),
    ] {
        assert_eq!(part(path), want, "{path}");
    }
}
