//! The screen as a user sees it: the program in a terminal, with the local stack that it starts.

mod data;
mod ends;
mod forms;
mod heads;
mod health;
mod kept;
mod limited;
mod pictures;
mod quiet;
mod recorded;
mod terminal;
mod tour;
mod work;

use std::collections::BTreeSet;
use std::time::Duration;

use vt100::Screen;

use crate::support::pty::{Session, text};

/// Maximum time until the first frame, which needs only the start of a process.
const PAINT_WITHIN: Duration = Duration::from_secs(30);

/// Maximum time until the services of the local stack respond.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// Maximum time until a change is visible once all services run. The first execution compiles its
/// module, which takes some seconds with a compiler that was built without optimizations.
const SHOWN_WITHIN: Duration = Duration::from_mins(1);

/// Number of the stack's processes: four nodes and two services.
const N_PROCESSES: usize = 6;

/// Number of sizes that a terminal has in turn while it is resized with the mouse.
const N_SIZES: u16 = 50;

/// Column at which the chart of the Data screen begins on a wide terminal.
const CHART_LEFT: u16 = 52;

/// Returns the shortened peer ids and the roles in the table of the Cluster screen.
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

/// Waits until `unwanted` is not on the screen.
#[track_caller]
fn wait_gone(session: &Session, unwanted: &str) {
    session.wait_for(&format!("`{unwanted}` is gone"), SHOWN_WITHIN, |screen| {
        (!text(screen).contains(unwanted)).then_some(())
    });
}

/// Waits until the Cluster screen lists the four nodes of the stack. Returns these nodes.
#[track_caller]
fn wait_nodes(session: &Session) -> BTreeSet<(String, String)> {
    session.wait_for("four nodes are listed", READY_WITHIN, |screen| {
        Some(nodes(screen)).filter(|nodes| nodes.len() == 4)
    })
}
