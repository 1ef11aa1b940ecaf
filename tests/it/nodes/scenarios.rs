//! Requests to a head, and the exact responses to them, in `tests/data/cluster/scenarios.http`.

use crate::support::scenarios::{Known, check, read_file};
use crate::support::up::Up;

/// Minimum number of scenarios, so that a truncated file does not pass.
const N_SCENARIOS_MIN: usize = 35;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_responses_equal_the_recorded_scenarios_to_the_byte() {
    let up = Up::shared();
    let (hello, method) = up.function("hello");
    let known = [("hello", hello), ("method", method)];
    let known: Known = known.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    check(&read_file("cluster"), up.head().base(), known, N_SCENARIOS_MIN).await;
}
