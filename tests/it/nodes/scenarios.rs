//! `tests/data/cluster/scenarios.http`: the calls that clients of a head make, and what answers them,
//! to the byte.

use crate::support::{
    scenarios::{Known, check, read_file},
    up::Up,
};

/// Scenarios there are at least: a file that is cut short must not pass.
const N_SCENARIOS_MIN: usize = 35;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_is_answered_to_the_byte() {
    let up = Up::shared();
    let (hello, method) = up.function("hello");
    let known = [("hello", hello), ("method", method)];
    let known: Known = known.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    check(&read_file("cluster"), up.head().base(), known, N_SCENARIOS_MIN).await;
}
