//! The operations that read what was submitted, as the chain writes it.

use web::openapi::{Operation, Parameter, part};
use wire::paths::emissions::submissions as of;

use super::{ADDRESS, HEIGHT, TOPIC};

/// Path parameter: the worker's address.
const WORKER: Parameter = part("worker", ADDRESS, "The worker's address.");

/// The operations of this group, in the order of the description.
pub(super) const OPERATIONS: [Operation; 5] = [
    asks!(
        "submissions",
        of::INFERENCES,
        "inferences_at_block",
        "The inferences of one epoch.",
        "None while its window is open: who looks at the others' values first could repeat them.",
        [TOPIC, HEIGHT],
        "InferencesAtBlock"
    ),
    asks!(
        "submissions",
        of::LATEST_INFERENCES,
        "latest_inferences",
        "The inferences of the newest epoch that closed.",
        "",
        [TOPIC],
        "LatestInferences"
    ),
    asks!(
        "submissions",
        of::FORECASTS,
        "forecasts_at_block",
        "The forecasts of one epoch.",
        "None while its window is open.",
        [TOPIC, HEIGHT],
        "ForecastsAtBlock"
    ),
    asks!(
        "submissions",
        of::LATEST_INPUT_INFERENCE,
        "latest_input_inference",
        "The newest inference of a worker.",
        "",
        [TOPIC, WORKER],
        "LatestInputInference"
    ),
    asks!(
        "submissions",
        of::LATEST_INFERENCE,
        "latest_inference",
        "The same as it was called up to `v9`.",
        "",
        [TOPIC, WORKER],
        "LatestInference"
    ),
];
