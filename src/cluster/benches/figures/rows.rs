//! The choice of figures and the table of results.

use std::process::ExitCode;
use std::time::Duration;

use test_bench::{Row, exit_code, note, print_table};

use crate::nodes::Nodes;
use crate::{Outcome, first_call, heads, idle, latency, pressure, rate, soak, stubs};

/// Figures, in order.
const NAMES: [&str; 14] = [
    "one",
    "rate",
    "many",
    "first",
    "slow",
    "stopped",
    "joined",
    "idle",
    "heads",
    "head-killed",
    "large",
    "stubs",
    "restart",
    "soak",
];

/// Default duration of the soak, in seconds.
const SOAK_S_DEFAULT: u64 = 60;

/// Selected figures and options.
struct Selection {
    names: Vec<String>,
    soak: Duration,
    n_stubs: usize,
    nodes: Nodes,
}

impl Selection {
    fn read(mut arguments: impl Iterator<Item = String>) -> Outcome<Self> {
        let (mut names, mut soak_s, mut nodes) = (Vec::new(), SOAK_S_DEFAULT, Nodes::Own);
        let mut n_stubs = stubs::N_STUBS;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo passes this to every bench.
                "--bench" => {}
                "--soak-s" => {
                    let number = arguments.next().ok_or("--soak-s takes a number")?.parse()?;
                    soak_s = number;
                }
                "--stubs" => {
                    n_stubs = arguments.next().ok_or("--stubs takes a number")?.parse()?;
                }
                "--program" => {
                    nodes = Nodes::Of(arguments.next().ok_or("--program takes a path")?.into());
                }
                name if NAMES.contains(&name) => names.push(argument),
                _ => {
                    return Err(format!(
                        "unknown argument {argument}, expected one of {}",
                        NAMES.join(", ")
                    )
                    .into());
                }
            }
        }
        if names.is_empty() {
            names.extend(NAMES.map(str::to_owned));
        }
        Ok(Self { names, soak: Duration::from_secs(soak_s), n_stubs, nodes })
    }
}

/// Measures the figures in `arguments`, or all figures, and prints the table. Fails if any figure misses
/// its limit.
pub(crate) async fn measure(arguments: impl Iterator<Item = String>) -> Outcome<ExitCode> {
    let asked = Selection::read(arguments)?;
    let mut rows = Vec::new();
    for name in &asked.names {
        note(&format!("== {name}"))?;
        let nodes = &asked.nodes;
        let row = match name.as_str() {
            "one" => latency::one(nodes).await,
            "rate" => rate::both(nodes).await,
            "many" => latency::many(nodes).await,
            "first" => first_call::first_call(nodes).await,
            "slow" => pressure::slow(nodes).await,
            "stopped" => pressure::stopped(nodes).await,
            "joined" => pressure::joined(nodes).await,
            "idle" => idle::idle(nodes).await,
            "heads" => heads::heads(nodes, &mut rows).await,
            "head-killed" => heads::killed(nodes).await,
            "large" => latency::large(nodes).await,
            "stubs" => stubs::idle(nodes, asked.n_stubs, &mut rows).await,
            "restart" => stubs::restart(nodes).await,
            _ => soak::soak(nodes, asked.soak, &mut rows).await,
        };
        // A figure that fails does not prevent the measurement of other figures.
        rows.push(row.unwrap_or_else(|error| Row::failed(name, &error)));
    }
    note("")?;
    Ok(exit_code(print_table(&rows)?))
}
