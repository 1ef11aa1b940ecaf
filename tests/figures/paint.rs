//! Time to the first frame and to exit.

use std::process::Command;
use std::time::Duration;

use test_bench::{Row, quantile};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use vt100::Screen;

use crate::SIZE;
use crate::follow::{SHOWN_WITHIN, follow, with_datasets};
use crate::rows::{millis, summary};
use crate::support::TRIPTYCH;
use crate::support::pty::Session;

/// Number of starts of each program.
const N_STARTS: usize = 15;

/// Number of exits of the program without child processes.
const N_EXITS: usize = 5;

/// Minimum number of filled cells of a first frame.
const FILLED_MIN: usize = 40;

/// Addresses without services.
const NOWHERE: [&str; 6] = [
    "--head",
    "http://127.0.0.1:9",
    "--datasets",
    "http://127.0.0.1:9/api",
    "--inference",
    "http://127.0.0.1:9",
];

/// Returns the comparable programs that are installed.
pub(crate) fn others() -> impl Iterator<Item = &'static str> {
    let is_installed = |name: &&str| {
        let found =
            Command::new("sh").args(["-c", &format!("command -v {name} >/dev/null")]).status();
        found.is_ok_and(|status| status.success())
    };
    ["btop", "htop"].into_iter().filter(is_installed)
}

/// Measures the time from the start of the process to its first frame. The programs take turns, so that
/// other load affects all programs.
pub(crate) fn first(_: &Runtime) -> Vec<Row> {
    let mut programs: Vec<(&str, &str, &[&str])> = vec![
        ("first paint, services elsewhere", TRIPTYCH, &NOWHERE),
        ("first paint, the local stack starts", TRIPTYCH, &[]),
    ];
    programs.extend(others().map(|name| (name, name, [].as_slice())));
    let mut times = vec![Vec::new(); programs.len()];
    for _ in 0..N_STARTS {
        for ((_, program, arguments), times) in programs.iter().zip(&mut times) {
            times.push(time_first_frame(program, arguments));
        }
    }
    let median = |name: &str| {
        let idx = programs.iter().position(|(other, ..)| *other == name)?;
        Some(quantile(&times[idx], 50))
    };
    // Bar without btop.
    let bar = median("btop").unwrap_or(Duration::from_millis(25));
    programs
        .iter()
        .zip(&times)
        .map(|((name, program, _), times)| {
            let value = summary(times, 95);
            if *program == TRIPTYCH {
                let is_met = quantile(times, 50) <= bar;
                Row::new(name, value, &format!("p50 {} ms at most, as btop", millis(bar)), is_met)
            } else {
                Row::without_bar(&format!("  {name}, first paint"), value)
            }
        })
        .collect()
}

fn time_first_frame(program: &str, arguments: &[&str]) -> Duration {
    let start = Instant::now();
    let session = Session::start(program, arguments, SIZE);
    session.wait_for("a first frame", SHOWN_WITHIN, |screen| {
        (n_filled(screen) >= FILLED_MIN).then_some(())
    });
    start.elapsed()
}

/// Counts the cells that are not blank.
fn n_filled(screen: &Screen) -> usize {
    let (_, columns) = screen.size();
    let filled = |row: String| row.chars().filter(|letter| *letter != ' ').count();
    screen.rows(0, columns.get()).map(filled).sum()
}

/// Measures the time from `q` to the exit of the process.
pub(crate) fn quit(runtime: &Runtime) -> Vec<Row> {
    let (service, _) = with_datasets(runtime, 3, 300);
    let alone: Vec<_> = (0..N_EXITS).map(|_| time_exit(&follow(&service))).collect();
    let session = Session::start(TRIPTYCH, &[], SIZE);
    session.wait_text("3 workers · datasets", SHOWN_WITHIN);
    let whole = time_exit(&session);
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

fn time_exit(session: &Session) -> Duration {
    let start = Instant::now();
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    start.elapsed()
}
