//! Two heads of one cluster on one screen: all nodes that either head knows, a cordon on both heads, an
//! execution on one head, and the failure of the other head.

use vt100::Screen;

use super::{PAINT_WITHIN, SHOWN_WITHIN};
use crate::support::TUI;
use crate::support::cluster::Node;
use crate::support::command::{Home, demo};
use crate::support::pty::{Session, WIDE, text};

/// Returns the last characters of a peer id, as the table of nodes shows them.
fn end(id: &str) -> &str {
    id.split_at(id.len() - 6).1
}

/// Waits until the row of node `id` contains all of `words`.
#[track_caller]
fn wait_row(session: &Session, id: &str, words: &[&str]) {
    let is_row = |line: &str| line.contains(end(id)) && words.iter().all(|it| line.contains(it));
    let found = |screen: &Screen| text(screen).lines().any(is_row).then_some(());
    session.wait_for(&format!("{words:?} in the row of {id}"), SHOWN_WITHIN, found);
}

#[tokio::test]
async fn screen_shows_nodes_of_two_heads_and_of_the_remaining_head_after_a_failure() {
    let [first, second] = [Node::head(&[]), Node::head(&[])];
    let worker = Node::worker(&first, &["--boot-nodes", &second.address()]);
    let other = Node::worker(&second, &[]);
    first.has_workers(1).await;
    second.has_workers(2).await;
    let heads = [&first, &second].map(Node::rest_api);

    let session = Session::start(TUI, &["--head", &heads.join(",")], WIDE);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session.wait_text("heads ● 2/2 live", SHOWN_WITHIN);
    wait_row(&session, &worker.id(), &["worker", "2/2"]);
    wait_row(&session, &first.id(), &["head"]);
    wait_row(&session, &second.id(), &["head"]);
    wait_row(&session, &other.id(), &["worker"]);

    // At first, only the second head has cordoned the worker. The key press then cordons the worker on
    // both heads.
    let home = Home::new().with("TRIPTYCH_HEAD", &heads[1]);
    home.run_ok(&["nodes", "cordon", &worker.id()]);
    wait_row(&session, &worker.id(), &["cordoned 1/2"]);
    session.press("/");
    session.type_text(end(&worker.id()));
    session.press("enter c");
    session.wait_text("Cordon this node?", SHOWN_WITHIN);
    session.press("y");
    // The row of the second head has changed, not only the notice of the first head.
    wait_row(&session, &worker.id(), &["2/2", " cordoned  "]);
    session.press("c");
    session.wait_text("gets work again", SHOWN_WITHIN);
    session.press("esc");

    first.kill();
    session.wait_text("heads ◐ 1/2 live", SHOWN_WITHIN);
    session.wait_text(&format!("✗ {}", heads[0]), SHOWN_WITHIN);
    wait_row(&session, &worker.id(), &["worker", "1/2"]);
    session.press("e ctrl-u");
    session.type_text(&demo("hello.wasm"));
    session.press("tab");
    session.wait_text("uploaded hello", SHOWN_WITHIN);
    session.press("tab tab ctrl-u 1 ctrl-r");
    let host = heads[1].trim_start_matches("http://");
    session.wait_text(&format!("at {host}"), SHOWN_WITHIN);
    session.wait_text("1 peer took part", SHOWN_WITHIN);
    session.press("1");
    session.wait_text("Local processes", SHOWN_WITHIN);
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    session.assert_restored();
}
