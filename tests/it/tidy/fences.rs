//! Dependencies and constructs that may be used only in some parts of the tree.

use super::{check_lines, sources};

/// A rule: a part of the tree, a word, the paths below that part in which the word may be used
/// (including their tests), and the reason.
type Fence = (&'static str, &'static str, &'static [&'static str], &'static str);

/// All fences.
const FENCES: &[Fence] = &[
    (
        "src/",
        "libp2p",
        // Two files outside the network and the identities are allowed: the bench, which compares with a
        // bare swarm, and the log, which names libp2p to limit the messages of libp2p.
        &[
            "src/cluster/network",
            "src/cluster/identity",
            "src/cluster/benches/figures/echo",
            "src/cli/log.rs",
        ],
        "the rest of the cluster uses the handle of the network",
    ),
    ("src/", "wasmtime", &["src/runtime/"], "one crate contains the guests"),
    ("src/", "ratatui", &["src/tui/"], "one crate draws"),
    ("src/tui/", "'─'", BORDERS, "ratatui and the widgets draw borders"),
    ("src/tui/", "'│'", BORDERS, "ratatui and the widgets draw borders"),
    // Exception: tests check the colors of cells.
    ("src/", "Color::", &["src/tui/theme", "src/tui/view/tests"], "colors come from the theme"),
    (
        "src/",
        "rusqlite",
        &[
            "src/db/",
            "src/tsdb/store",
            "src/tsdb/admin/tests.rs",
            "src/tsdb/benches/figures",
            "src/accounts/store",
            "src/accounts/tests",
            "src/inference/store",
        ],
        "only stores use a database",
    ),
    (
        "src/",
        "sqlx",
        &[
            "src/db/",
            "src/tsdb/store",
            "src/tsdb/benches/figures/postgres.rs",
            "src/accounts/store",
            "src/accounts/tests",
            "src/inference/store/",
        ],
        "only stores use a database",
    ),
    (
        "src/",
        "StatusCode",
        &[
            "src/web/",
            "src/client/",
            "src/accounts/server",
            "src/alerts/notify.rs",
            "src/accounts/gate/tests.rs",
            "src/cluster/head/server",
            "src/content/http",
            "src/content/install/tests.rs",
            "src/datasets/error.rs",
            "src/datasets/server",
            "src/inference/server",
        ],
        "only servers and clients of HTTP know its status codes",
    ),
];

/// Words that must not be used in a part of the screen's code: the part, the word and the reason.
const SCREEN: [(&str, &str, &str); 5] = [
    ("state", "async", "the state does no I/O"),
    ("update", "async", "an update does no I/O"),
    ("state", "client::", "the state uses the types of event.rs"),
    ("update", "client::", "an update uses the types of event.rs"),
    ("view", "&mut State", "drawing changes nothing"),
];

/// Paths of code that may draw borders.
const BORDERS: &[&str] = &["src/tui/widget", "src/tui/view/tests"];

/// Paths of code that may derive serde's traits, for JSON of the APIs, stored records and messages.
const SERDE: [&str; 20] = [
    "src/wire/",
    "src/alerts/", // files of rules and messages
    "src/task/traces.rs",
    "src/cluster/message",
    "src/content/files.rs",
    "src/content/manifest.rs",
    "src/content/peers.rs",
    "src/cluster/head/node_registry.rs",
    "src/cluster/head/server",
    "src/cluster/peer_db.rs",
    "src/inference/math/regret.rs", // stored, as the next two
    "src/inference/network/close.rs",
    "src/inference/network/learned.rs",
    "src/inference/store",
    "src/cli/config.rs",
    "src/stack/detached_nodes.rs",
    "src/stack/local.rs",
    "src/stack/process.rs",
    "src/transfer/import/checkpoint.rs",
    "src/transfer/mirror/copy.rs",
];

fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

/// Returns the part of the screen to which the file at `path` belongs: `state`, `update` or `view`.
fn screen_part(path: &str) -> Option<&str> {
    let mut names = path.strip_prefix("src/tui/")?.trim_end_matches(".rs").split('/');
    match names.next()? {
        // The files of a single pane may contain both updates and views.
        "screens" | "overlay" => {
            names.find(|name| ["state", "update", "view"].contains(name)).or(Some("update"))
        }
        "app" => Some("update"),
        first => Some(first).filter(|name| ["state", "view"].contains(name)),
    }
}

/// Returns true if `line` contains `word`. The end of a longer name does not count.
fn contains(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.split_at(at).0.chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

fn derives_serde(line: &str) -> bool {
    line.contains("derive(") && ["Serialize", "Deserialize"].iter().any(|name| line.contains(name))
}

#[test]
fn restricted_words_are_used_only_in_their_allowed_files() {
    let all = sources::rust();
    for (within, word, only, reason) in FENCES {
        let sources = all.iter().filter(|it| it.path.starts_with(within) && !is_in(&it.path, only));
        let rule = format!("`{word}` below {within} is only for {only:?}: {reason}");
        check_lines(&rule, sources, |line| contains(line, word));
    }
}

#[test]
fn screen_modules_use_only_their_allowed_dependencies() {
    let all = sources::rust();
    for (part, word, reason) in SCREEN {
        let sources = all.iter().filter(|source| screen_part(&source.path) == Some(part));
        let rule = format!("no `{word}` in a `{part}` of the screen: {reason}");
        check_lines(&rule, sources, |line| line.contains(word));
    }
}

#[test]
fn serde_is_derived_only_for_documents_stored_records_and_messages() {
    let sources = sources::rust();
    check_lines(
        "serde's traits are derived only for the JSON of the documents, stored records and messages",
        sources.iter().filter(|it| it.path.starts_with("src/") && !is_in(&it.path, &SERDE)),
        derives_serde,
    );
}

#[test]
fn check_of_sources_recognizes_whole_words_and_layers_of_screen_modules() {
    assert!(contains("use libp2p::Swarm;", "libp2p"));
    assert!(!contains("let a = MyColor::Red;", "Color::"));
    assert!(derives_serde("#[derive(Debug, Serialize)]") && !derives_serde("#[derive(Debug)]"));
    for (path, want) in [
        ("src/tui/app/perform.rs", Some("update")),
        ("src/tui/state.rs", Some("state")),
        ("src/tui/screens/data/state/chart.rs", Some("state")),
        ("src/tui/screens/data/view.rs", Some("view")),
        ("src/tui/overlay/update.rs", Some("update")),
        ("src/tui/screens/cluster/start.rs", Some("update")),
        ("src/tui/effects/calls.rs", None),
        ("src/cluster/head.rs", None),
    ] {
        assert_eq!(screen_part(path), want, "{path}");
    }
}
