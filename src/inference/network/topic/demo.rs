//! The topics of the local stack: one on the machine's own load, one on the synthetic market.
//!
//! Each is a file of settings, as a key hands them in. Epochs are the shortest the chain allows, half
//! of each is for submitting. The lag of the first covers its horizon of a minute at one block a
//! second; the market's thirty simulated minutes take thirty blocks, and a lag of three epochs.
//! Actors are few, so two experienced ones are enough to set the regret of newcomers. Losses below
//! 0.01 are luck: an error of a tenth of a percent, or a truth that was believed with 93 %. Predictors
//! read more rows than the longest window any of them looks back on. Of the load's models, averages
//! are right while work comes and goes, momentum while it swells, persistence in between; one is lucky
//! at best, and one late. The market's specialists are sure of themselves, and right in one regime
//! only.

use model::topic::TopicId;

use super::{Topic, settings};

/// The settings of each topic, in the order of their numbers.
const FILES: [&str; 2] = [
    include_str!("../../../../assets/topics/load.json"),
    include_str!("../../../../assets/topics/market.json"),
];

/// The two topics of the local stack.
#[expect(clippy::expect_used, reason = "the files are part of the program, and a test reads them")]
pub fn demo_topics() -> Vec<Topic> {
    let topic = |(number, text): (u64, &str)| {
        let settings = serde_json::from_str(text).expect("read the settings");
        let topic = settings::topic(TopicId::new(number)?, None, settings);
        Some(topic.expect("take the settings"))
    };
    (1..).zip(FILES).filter_map(topic).collect()
}
