//! How soon the program shows something, and how soon it is gone.

use std::{process::Command, time::Duration};

use tokio::{runtime::Runtime, time::Instant};
use vt100::Screen;

use crate::{
    SIZE,
    follow::{SHOWN_WITHIN, follow, with_datasets},
    rows::{Row, millis, quantile, told},
    support::{TRIPTYCH, pty::Session},
};

/// Starts of each program.
const N_STARTS: usize = 15;

/// Ends of the program without processes of its own.
const N_ENDS: usize = 5;

/// Cells that hold something once a first frame is seen.
const INK_MIN: usize = 40;

/// Addresses at which nobody is.
const NOWHERE: [&str; 6] = [
    "--head",
    "http://127.0.0.1:9",
    "--datasets",
    "http://127.0.0.1:9/api",
    "--inference",
    "http://127.0.0.1:9",
];

/// Screens of others that are installed here.
pub(crate) fn others() -> impl Iterator<Item = &'static str> {
    let is_installed = |name: &&str| {
        let found =
            Command::new("sh").args(["-c", &format!("command -v {name} >/dev/null")]).status();
        found.is_ok_and(|status| status.success())
    };
    ["btop", "htop"].into_iter().filter(is_installed)
}

/// From the start of the process to its first frame; each program in turn, so that what else the
/// machine does is the same for all.
pub(crate) fn first(_: &Runtime) -> Vec<Row> {
    let mut programs: Vec<(&str, &str, &[&str])> = vec![
        ("first paint, services elsewhere", TRIPTYCH, &NOWHERE),
        ("first paint, the local stack starts", TRIPTYCH, &[]),
    ];
    programs.extend(others().map(|name| (name, name, [].as_slice())));
    let mut takes = vec![Vec::new(); programs.len()];
    for _ in 0..N_STARTS {
        for ((_, program, arguments), takes) in programs.iter().zip(&mut takes) {
            takes.push(painted_after(program, arguments));
        }
    }
    let middle = |name: &str| {
        let idx = programs.iter().position(|(other, ..)| *other == name)?;
        Some(quantile(&takes[idx], 50))
    };
    // Where btop is not installed, the bar of the design.
    let bar = middle("btop").unwrap_or(Duration::from_millis(25));
    programs
        .iter()
        .zip(&takes)
        .map(|((name, program, _), takes)| {
            let value = told(takes, 95);
            if *program == TRIPTYCH {
                let is_met = quantile(takes, 50) <= bar;
                Row::new(name, value, &format!("p50 {} ms at most, as btop", millis(bar)), is_met)
            } else {
                Row::told(&format!("  {name}, first paint"), value)
            }
        })
        .collect()
}

fn painted_after(program: &str, arguments: &[&str]) -> Duration {
    let begun = Instant::now();
    let session = Session::start(program, arguments, SIZE);
    session
        .wait_for("a first frame", SHOWN_WITHIN, |screen| (ink(screen) >= INK_MIN).then_some(()));
    begun.elapsed()
}

/// How many cells hold something.
fn ink(screen: &Screen) -> usize {
    let (_, columns) = screen.size();
    let filled = |row: String| row.chars().filter(|letter| *letter != ' ').count();
    screen.rows(0, columns.get()).map(filled).sum()
}

/// From `q` to the end of the process.
pub(crate) fn quit(runtime: &Runtime) -> Vec<Row> {
    let (service, _) = with_datasets(runtime, 3, 300);
    let alone: Vec<_> = (0..N_ENDS).map(|_| gone_after(&follow(&service))).collect();
    let session = Session::start(TRIPTYCH, &[], SIZE);
    session.wait_text("3 workers · datasets", SHOWN_WITHIN);
    let whole = gone_after(&session);
    let slowest = quantile(&alone, 100);
    vec![
        Row::new(
            "quit to prompt, no children",
            format!("{} ms at most of {}", millis(slowest), alone.len()),
            "50 ms at most",
            slowest <= Duration::from_millis(50),
        ),
        Row::new(
            "quit to prompt, six children",
            format!("{} ms", millis(whole)),
            "2 000 ms at most",
            whole <= Duration::from_secs(2),
        ),
    ]
}

fn gone_after(session: &Session) -> Duration {
    let asked = Instant::now();
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    asked.elapsed()
}
