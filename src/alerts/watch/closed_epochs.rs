//! Finds the epochs of a topic that closed without a bundle, which no stream reports.

use std::time::Duration;

use client::inference::Inference;
use model::topic::TopicId;
use tokio::time::sleep;
use wire::inference::TopicSummary;

use super::{FactSource, summary_of};
use crate::state::Fact;

/// Shortest and longest interval at which a topic is polled for epochs without a bundle.
const EPOCHS_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Number of polls per epoch, so that each closed epoch is seen twice before the next one closes.
const POLLS_PER_EPOCH: u64 = 3;

impl FactSource {
    /// Polls the topic for epochs that closed without a bundle.
    pub(super) async fn poll_closed_epochs(&self, inference: &Inference, topic: TopicId) {
        let mut epochs = ClosedEpochs::default();
        loop {
            let mut pause = EPOCHS_EVERY.1;
            let list = inference.topics().await.ok();
            let summary = list.as_ref().and_then(|list| summary_of(list, topic));
            match list.as_ref().zip(summary) {
                Some((list, summary)) => {
                    let epoch_ms = list.block_time_ms.saturating_mul(summary.epoch_length);
                    pause = Duration::from_millis(epoch_ms / POLLS_PER_EPOCH);
                    if let Some((nonce, n_epochs)) = epochs.count(summary, list.block_height) {
                        let fact = Fact::NoBundle { topic, nonce, n_epochs };
                        if self.facts.send(fact).await.is_err() {
                            return;
                        }
                    }
                }
                // Epochs during an outage are not counted. The stream reports the failure.
                None => epochs = ClosedEpochs::default(),
            }
            sleep(pause.clamp(EPOCHS_EVERY.0, EPOCHS_EVERY.1)).await;
        }
    }
}

/// Counts the epochs of a topic that close without a bundle.
#[derive(Debug, Default)]
struct ClosedEpochs {
    /// Nonce of the latest epoch that had closed at the previous poll.
    previous: Option<u64>,
    /// Nonce of the latest epoch that was counted, or that closed before the first poll.
    counted: Option<u64>,
}

impl ClosedEpochs {
    /// Returns the nonce of the latest epoch without a bundle and the number of epochs that closed
    /// without a bundle since they were last counted.
    ///
    /// An epoch is counted at the second poll after it closed, since its bundle can still be in
    /// transfer at the first. No epochs are counted while the topic is paused or after the service
    /// has opened no epoch for a while, since there were no epochs to take part in.
    fn count(&mut self, topic: &TopicSummary, height: u64) -> Option<(u64, u64)> {
        let length = topic.epoch_length.max(1);
        if topic.is_paused || height >= topic.next_epoch_height.saturating_add(length) {
            *self = Self::default();
            return None;
        }
        let next_to_close = topic.open_nonce.unwrap_or(topic.next_epoch_height);
        let closed = self.previous.replace(next_to_close.saturating_sub(length))?;
        let counted = self.counted.replace(closed)?.max(topic.last_nonce.unwrap_or(0));
        let n_epochs = closed.saturating_sub(counted).div_ceil(length);
        (n_epochs > 0).then_some((closed, n_epochs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_that_close_without_a_bundle_are_counted_once() {
        let topic = |next_epoch_height, open_nonce, last_nonce| {
            let topic = serde_json::json!({
                "topic_id": 1, "name": "", "topic_type": "", "labels": [], "dataset": "",
                "dataset_id": null, "column": "", "subgroup": null, "problem": null,
                "epoch_length": 10, "worker_submission_window": 5, "ground_truth_lag": 10,
                "next_epoch_height": next_epoch_height, "open_nonce": open_nonce,
                "close_height": null, "last_nonce": last_nonce, "n_learned": 0, "actors": [],
            });
            serde_json::from_value::<TopicSummary>(topic).unwrap()
        };
        let mut epochs = ClosedEpochs::default();
        let mut count = |height, topic| epochs.count(&topic, height);
        assert_eq!(count(101, topic(110, Some(100), Some(20))), None);
        assert_eq!(count(104, topic(110, Some(100), Some(20))), None, "closed before the watch");
        assert_eq!(count(106, topic(110, None, Some(20))), None, "the bundle can still arrive");
        assert_eq!(count(109, topic(110, None, Some(20))), Some((100, 1)));
        assert_eq!(count(112, topic(120, Some(110), Some(20))), None);
        assert_eq!(count(116, topic(120, None, Some(110))), None);
        assert_eq!(count(119, topic(120, None, Some(110))), None, "a bundle arrived");
        assert_eq!(count(145, topic(150, Some(140), Some(110))), None);
        assert_eq!(count(146, topic(150, None, Some(110))), Some((130, 2)), "several epochs");
        let paused = TopicSummary { is_paused: true, ..topic(150, None, Some(110)) };
        assert_eq!(count(190, paused), None);
        assert_eq!(count(192, topic(150, None, Some(110))), None, "no epoch opened for a while");
        assert_eq!(count(201, topic(210, Some(200), Some(110))), None);
        assert_eq!(count(203, topic(210, Some(200), Some(110))), None);
        assert_eq!(count(206, topic(210, None, Some(110))), None);
        assert_eq!(count(209, topic(210, None, Some(110))), Some((200, 1)));
    }
}
