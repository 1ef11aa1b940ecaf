//! Words that belong to one place: a library behind its fence, a rule about what may meet what.

use super::{
    check_lines,
    sources::{self, Source},
};

/// A word, and the only places that may name it.
struct Fence {
    word: &'static str,
    /// Where the fence stands: the start of a path.
    within: &'static str,
    /// Starts of paths that may name it.
    only: &'static [&'static str],
    why: &'static str,
}

/// The fences. Tests of a place are part of it.
const FENCES: &[Fence] = &[
    Fence {
        word: "libp2p",
        within: "src/",
        // The bench compares with a bare swarm; the log quiets it.
        only: &[
            "src/cluster/network",
            "src/cluster/identity",
            "src/cluster/benches/figures/echo",
            "src/cli/log.rs",
        ],
        why: "the network stays inside its handle",
    },
    Fence {
        word: "wasmtime",
        within: "src/",
        only: &["src/runtime/"],
        why: "one room contains the guests",
    },
    Fence {
        word: "'─'",
        within: "src/tui/",
        only: &["src/tui/widget", "src/tui/view/tests"],
        why: "ratatui and the widgets draw borders",
    },
    Fence {
        word: "'│'",
        within: "src/tui/",
        only: &["src/tui/widget", "src/tui/view/tests"],
        why: "ratatui and the widgets draw borders",
    },
    Fence { word: "ratatui", within: "src/", only: &["src/tui/"], why: "one room draws" },
    Fence {
        word: "rusqlite",
        within: "src/",
        only: &[
            "src/db/",
            "src/tsdb/store",
            "src/tsdb/admin/tests.rs",
            "src/tsdb/benches/figures",
            "src/accounts/store",
            "src/accounts/tests",
            "src/inference/store",
        ],
        why: "a store's engine stays inside the store",
    },
    Fence {
        word: "sqlx",
        within: "src/",
        only: &[
            "src/accounts/store",
            "src/accounts/tests",
            "src/db/copy",
            "src/db/postgres",
            "src/db/sql.rs",
            "src/tsdb/store/postgres",
            "src/inference/store/engines",
            "src/inference/store/session.rs",
            "src/tsdb/benches/figures/postgres.rs",
        ],
        why: "a store's engine stays inside the store",
    },
    Fence {
        word: "CREATE TABLE",
        within: "src/",
        only: &[
            "src/tsdb/store/sqlite/tables.rs",
            "src/tsdb/store/postgres/tables.rs",
            "src/tsdb/store/postgres/tests.rs", // of an operator who partitions the rows
            "src/tsdb/benches/figures/peer.rs",
            "src/tsdb/benches/figures/postgres.rs",
            "src/datasets/benches/http/postgres.rs",
            "src/accounts/store/tables.rs",
            "src/inference/store/tables.rs",
            "src/db/", // a table that is dropped at once, and those of tests
        ],
        why: "the schema is one file",
    },
    Fence {
        word: "Color::",
        within: "src/",
        // Tests look at cells as they are drawn.
        only: &["src/tui/theme", "src/tui/terminal/ansi", "src/tui/view/tests"],
        why: "colors come from the theme",
    },
    Fence {
        word: "anyhow",
        within: "src/",
        only: &["src/cli", "src/stack", "src/transfer"],
        why: "errors have types where anything but a person reads them",
    },
    Fence {
        word: "StatusCode",
        within: "src/",
        only: &[
            "src/web/",
            "src/client/",
            "src/accounts/server",
            "src/accounts/gate/tests.rs",
            "src/cluster/head/server",
            "src/content/http",
            "src/content/install/tests.rs",
            "src/datasets/server",
            "src/inference/server",
        ],
        why: "a status is chosen where a request is answered, and read where one is sent",
    },
];

/// Where types may derive serde's traits: the JSON of the documents, and what is stored or sent.
const SERDE: [&str; 20] = [
    "src/wire/",
    "src/task/traces.rs",
    "src/cluster/message",
    "src/content/files.rs",
    "src/content/manifest.rs",
    "src/content/peers.rs",
    "src/cluster/head/node_registry.rs",
    "src/cluster/head/server",
    "src/cluster/peer_db.rs",
    "src/inference/math/cases/tests",
    "src/inference/math/regret.rs", // stored, as the two that follow
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

impl Fence {
    fn is_broken_by(&self, line: &str) -> bool {
        line.match_indices(self.word).any(|(at, _)| {
            let before = line.get(..at).and_then(|before| before.chars().next_back());
            !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        })
    }

    fn holds(&self, source: &Source) -> bool {
        source.path.starts_with(self.within) && !is_in(source, self.only)
    }
}

fn is_in(source: &Source, places: &[&str]) -> bool {
    places.iter().any(|start| source.path.starts_with(start))
}

fn derives_serde(line: &str) -> bool {
    line.contains("derive(") && ["Serialize", "Deserialize"].iter().any(|name| line.contains(name))
}

#[test]
fn every_word_stays_where_it_belongs() {
    let all = sources::rust();
    for fence in FENCES {
        let sources = all.iter().filter(|source| fence.holds(source));
        let rule = format!("`{}` stays inside {:?}: {}", fence.word, fence.only, fence.why);
        check_lines(&rule, sources, |line| fence.is_broken_by(line));
    }
}

#[test]
fn serde_stays_at_the_edge() {
    let sources = sources::rust();
    check_lines(
        "serde is derived where JSON comes in and goes out, and nowhere else",
        sources.iter().filter(|source| source.path.starts_with("src/") && !is_in(source, &SERDE)),
        derives_serde,
    );
}

#[test]
fn a_fence_sees_whole_words() {
    let fence = |word| FENCES.iter().find(|fence| fence.word == word).unwrap();
    assert!(fence("libp2p").is_broken_by("use libp2p::Swarm;"));
    assert!(!fence("Color::").is_broken_by("let a = MyColor::Red;"));
    assert!(derives_serde("#[derive(Debug, Serialize)]") && !derives_serde("#[derive(Debug)]"));
}
