//! Current problems of topics, reported by their runners.
//!
//! A problem is logged when it starts and when it is resolved, not each time the step fails.

use std::collections::BTreeMap;

use model::timestamp::Timestamp;
use model::topic::TopicId;
use parking_lot::Mutex;
use tracing::{debug, info, warn};
use wire::inference::network::ProblemBody;

use crate::Inference;

/// Step of a topic that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum Failing {
    /// Reading rows and running the predictor.
    #[strum(serialize = "infer")]
    Inferring,
    /// Using the outputs of the predictor.
    #[strum(serialize = "use some outputs of its predictor")]
    Outputs,
    /// Reading the ground truth.
    #[strum(serialize = "read the ground truth")]
    Truth,
    /// Computing losses from the ground truth.
    #[strum(serialize = "learn from its epochs")]
    Learning,
    /// Reading or writing the inference store.
    #[strum(serialize = "use the inference store")]
    File,
}

/// Problems by topic.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Mutex<BTreeMap<TopicId, Problems>>);

/// Latest reason and start of each problem.
type Problems = BTreeMap<Failing, (String, Timestamp)>;

impl Failing {
    /// Returns the step in words that continue "topic 1 fails to".
    pub fn text(self) -> &'static str {
        self.into()
    }
}

impl Inference {
    /// Returns the active topics with a current problem, sorted by id.
    pub(crate) fn failing_topics(&self) -> Vec<TopicId> {
        let topics = self.topics().into_iter().filter(|topic| topic.is_active);
        topics.map(|topic| topic.id).filter(|id| !self.problems(*id).is_empty()).collect()
    }

    /// Returns the current problems of `topic`.
    pub fn problems(&self, topic: TopicId) -> Vec<ProblemBody> {
        let conditions = self.shared.conditions.0.lock();
        let problems = conditions.get(&topic).into_iter().flatten();
        let problem = |(failing, (reason, since)): (&Failing, &(String, Timestamp))| ProblemBody {
            failing: failing.text().to_owned(),
            reason: reason.clone(),
            since: since.to_string(),
        };
        problems.map(problem).collect()
    }

    /// Records that a step of `topic` failed because of `reason`. Logs a warning if the step did not
    /// fail before.
    pub(crate) fn fails(&self, topic: TopicId, failing: Failing, reason: String) {
        let now = self.chain().now();
        let mut conditions = self.shared.conditions.0.lock();
        let problems = conditions.entry(topic).or_default();
        let what = failing.text();
        if let Some(known) = problems.get_mut(&failing) {
            debug!(topic.id = %topic, cause = reason, "topic {topic} still fails to {what}");
            known.0 = reason;
            return;
        }
        warn!(topic.id = %topic, cause = reason, "topic {topic} fails to {what}");
        problems.insert(failing, (reason, now));
    }

    /// Records that a step of `topic` succeeded. Logs this if the step failed before.
    pub(crate) fn works(&self, topic: TopicId, failing: Failing) {
        let mut conditions = self.shared.conditions.0.lock();
        let Some(problems) = conditions.get_mut(&topic) else { return };
        if problems.remove(&failing).is_some() {
            let what = failing.text();
            info!(topic.id = %topic, "topic {topic} no longer fails to {what}");
        }
        if problems.is_empty() {
            conditions.remove(&topic);
        }
    }

    /// Removes all problems of `topic`.
    pub(crate) fn forget_problems(&self, topic: TopicId) {
        self.shared.conditions.0.lock().remove(&topic);
    }
}

#[cfg(test)]
mod tests;
