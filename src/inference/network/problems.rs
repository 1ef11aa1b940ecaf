//! What keeps topics from working, as their runners find it.
//!
//! A problem is logged when it begins and when it is over, however often it is met in between.

use std::collections::BTreeMap;

use model::{timestamp::Timestamp, topic::TopicId};
use parking_lot::Mutex;
use tracing::{debug, info, warn};
use wire::inference::network::ProblemBody;

use crate::Inference;

/// What a topic fails to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum Failing {
    /// Reading rows and running its predictor.
    #[strum(serialize = "infer")]
    Inferring,
    /// Taking what workers of its predictor say.
    #[strum(serialize = "take some outputs of its predictor")]
    Outputs,
    /// Finding out what came true.
    #[strum(serialize = "learn what came true")]
    Truth,
    /// Reading or writing the inference file.
    #[strum(serialize = "use the inference file")]
    File,
}

/// The problems of each topic that has some.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Mutex<BTreeMap<TopicId, Problems>>);

/// Problems by what fails: why, and since when.
type Problems = BTreeMap<Failing, (String, Timestamp)>;

impl Failing {
    /// What fails, as the end of "topic 1 fails to".
    pub fn text(self) -> &'static str {
        self.into()
    }
}

impl Inference {
    /// The topics with epochs that fail to do something now, by number.
    pub(crate) fn failing_topics(&self) -> Vec<TopicId> {
        let topics = self.topics().into_iter().filter(|topic| topic.is_active);
        topics.map(|topic| topic.id).filter(|id| !self.problems(*id).is_empty()).collect()
    }

    /// What `topic` fails to do now.
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

    /// Notes that `topic` fails to do something because of `reason`, and logs it where that is new.
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

    /// Notes that `topic` does something, and logs it where it failed to.
    pub(crate) fn works(&self, topic: TopicId, failing: Failing) {
        let mut conditions = self.shared.conditions.0.lock();
        let Some(problems) = conditions.get_mut(&topic) else { return };
        if problems.remove(&failing).is_some() {
            let what = failing.text();
            info!(topic.id = %topic, "topic {topic} does {what} again");
        }
        if problems.is_empty() {
            conditions.remove(&topic);
        }
    }

    /// Forgets the problems of `topic`.
    pub(crate) fn forget_problems(&self, topic: TopicId) {
        self.shared.conditions.0.lock().remove(&topic);
    }
}

#[cfg(test)]
mod tests;
