//! The operations that read bundles as the chain writes them.

use web::openapi::{Operation, Parameter, query};
use wire::paths::{self, emissions::bundles as of};

use super::{HEIGHT, TOPIC};

/// Which arrays are filled.
const LEAVE_OUT: Parameter = query(
    "leave_out",
    r#"{"type":"string","enum":["all"]}"#,
    "Fills the three arrays about forecasters on a topic with one output, as the chain does. Without \
     it they are empty there.",
);

/// What holds of the resistant form.
const RESISTANT: &str = "Submissions are left out that are further from the topic's last median than 11 \
    times the moving average of the median deviation. Where there are none it is the ordinary bundle. \
    A topic with several labels has no such form: code 3.";

/// What holds of a bundle in v9.
const OLD: &str = "A topic with several labels has no form in `v9`: code 3, which says so.";

/// The operations of this group, in the order of the description.
pub(super) const OPERATIONS: [Operation; 5] = [
    asks!(
        "bundles",
        paths::LATEST_NETWORK_INFERENCES,
        "latest_network_inferences",
        "The newest bundle of a topic.",
        OLD,
        [TOPIC, LEAVE_OUT],
        "Latest"
    ),
    asks!(
        "bundles",
        of::LATEST_OUTLIER_RESISTANT,
        "latest_network_inferences_outlier_resistant",
        "The newest bundle of a topic without outliers.",
        RESISTANT,
        [TOPIC, LEAVE_OUT],
        "Latest"
    ),
    asks!(
        "bundles",
        of::AT_BLOCK,
        "network_inferences_at_block",
        "The bundle of one epoch, as it was made when the epoch closed.",
        OLD,
        [TOPIC, HEIGHT, LEAVE_OUT],
        "AtBlock"
    ),
    asks!(
        "bundles",
        of::AT_BLOCK_OUTLIER_RESISTANT,
        "network_inferences_at_block_outlier_resistant",
        "The bundle of one epoch without outliers.",
        RESISTANT,
        [TOPIC, HEIGHT, LEAVE_OUT],
        "AtBlock"
    ),
    asks!(
        "bundles",
        paths::NETWORK_INFERENCES,
        "network_inferences",
        "Past bundles of a topic, page by page from the newest. Ours.",
        "In the form of `v10`, whatever the version, with every array. `next_to` is what `to` is on the \
         page before; it is null on the oldest.",
        [
            TOPIC,
            query(
                "from",
                r#"{"type":"integer","format":"uint64","minimum":0,"default":0}"#,
                "The first nonce, itself included."
            ),
            query(
                "to",
                r#"{"type":"integer","format":"uint64","minimum":0}"#,
                "The last nonce, itself included: the newest where it does not say."
            ),
            query(
                "limit",
                r#"{"type":"integer","format":"uint64","minimum":0,"default":100}"#,
                "Bundles of a page at most: held between 1 and 1 000."
            )
        ],
        "NetworkInferencesPage"
    ),
];
