//! The screen from outside: the real program in a terminal, with the stack that it starts itself.

mod data;
mod ends;
mod heads;
mod health;
mod kept;
mod limited;
mod pictures;
mod quiet;
mod terminal;
mod tour;
mod work;

use std::{collections::BTreeSet, time::Duration};

use vt100::Screen;

use crate::support::pty::{Session, text};

/// How long the first frame may take. It waits for nothing but the start of a process, which other
/// tests may hold up.
const PAINT_WITHIN: Duration = Duration::from_secs(30);

/// How long the stack that the screen starts may take to answer.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// How long an answer may take to be shown, once everything runs. The first execution compiles its
/// module, which takes a processor some seconds where the compiler is not optimized.
const SHOWN_WITHIN: Duration = Duration::from_mins(1);

/// The processes of the stack: four nodes and two services.
const N_PROCESSES: usize = 6;

/// Sizes that a terminal is dragged through.
const N_SIZES: u16 = 50;

/// Where the list of datasets ends and the chart begins, on a wide screen.
const CHART_LEFT: u16 = 52;

/// The nodes in the table of the Cluster screen: each peer's short id with its role.
fn nodes(screen: &Screen) -> BTreeSet<(String, String)> {
    let text = text(screen);
    let rows = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("12D3Koo"));
        let peer = words.next()?;
        let role = words.next().filter(|word| ["head", "worker"].contains(word))?;
        Some((peer.to_owned(), role.to_owned()))
    });
    rows.collect()
}

/// Waits until the screen no longer shows `unwanted`.
#[track_caller]
fn wait_gone(session: &Session, unwanted: &str) {
    session.wait_for(&format!("`{unwanted}` is gone"), SHOWN_WITHIN, |screen| {
        (!text(screen).contains(unwanted)).then_some(())
    });
}

/// Waits until the Cluster screen lists the four nodes of the stack, and returns them.
#[track_caller]
fn wait_nodes(session: &Session) -> BTreeSet<(String, String)> {
    session.wait_for("four nodes are listed", READY_WITHIN, |screen| {
        Some(nodes(screen)).filter(|nodes| nodes.len() == 4)
    })
}
