//! The topics of the local stack: the price of the synthetic market, and its direction.
//!
//! Each is a file of settings, as a key hands them in. Epochs are the shortest the chain allows, half
//! of each is for submitting. The market swings and drifts in turns, a few minutes each, and no model
//! is right in both: the last cycle repeats itself in a swing, a trend continues in a drift. The others
//! are mediocre, erratic or late. The naive value always carries models that are wrong at the moment.
//! Forecasters notice which ones and take weight from them, so the combined value is better within ten
//! minutes.
//!
//! Regrets move slowly (`alpha_regret`) and are divided by a wide scale (`epsilon`): a regime is shorter
//! than what weights would need to follow it, and luck in the first epochs must not decide them.
//! Actors are few, so two experienced ones are enough to set the regret of newcomers. A price within a
//! dollar counts as exact (`loss_floor`). The direction's losses are no logarithms, since a probability
//! of nearly 1 would count as infinitely better than one of 0.9. Values have a range: no price is
//! negative, and no probability exceeds 1.

use model::topic::TopicId;

use super::{Topic, settings};

/// The settings of each topic, in the order of their numbers.
const FILES: [&str; 2] = [
    include_str!("../../../../assets/topics/price.json"),
    include_str!("../../../../assets/topics/direction.json"),
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
