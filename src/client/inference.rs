//! Client of the inference service: bundles of a prediction network, topics and their history.

pub mod bundles;

use std::ops::RangeInclusive;

use model::topic::{Address, BlockHeight, TopicId};
use reqwest::Method;
use serde_json::{Value, json};
use wire::inference::cases::Decimal;
use wire::inference::network::{
    Accepted, EpochActorBody, LatestBody, Leaderboard, RelearnBody, RelearnedBody, ServiceHealth,
    SignerBody, SubmissionBody, TopicActive, TopicBatch, TopicHealth, TopicSettings,
};
use wire::inference::{
    LatestBundle, TopicBatchResponse, TopicBody, TopicHistory, TopicList, TopicResponse,
};
use wire::paths;

use crate::error::ClientError;
use crate::transport::{Request, Transport};

/// Name of a topic's latest bundle in error messages.
const LATEST: &str = "the latest bundle of a topic";

/// Requests the values of forecasters that the service omits from a bundle by default.
const ALL_VALUES: &[(&str, &str)] = &[("leave_out", "all")];

/// An inference service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Inference {
    transport: Transport,
}

impl Inference {
    /// Returns a client for the service behind `transport`.
    #[must_use]
    pub const fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// Returns the address of the service.
    #[must_use]
    pub fn address(&self) -> &str {
        self.transport.address()
    }

    /// Returns the latest bundle of a topic. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the topic does not exist or has no bundle yet,
    /// [`ClientError::Limited`] if the rate limit is exceeded.
    pub async fn latest(&self, topic: TopicId) -> Result<LatestBundle, ClientError> {
        self.get(paths::LATEST_NETWORK_INFERENCES, topic).query(ALL_VALUES).json(LATEST).await
    }

    /// Returns the latest bundle of a topic, computed without outliers. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::latest`].
    pub async fn latest_outlier_resistant(
        &self,
        topic: TopicId,
    ) -> Result<LatestBundle, ClientError> {
        self.get(paths::LATEST_OUTLIER_RESISTANT, topic).query(ALL_VALUES).json(LATEST).await
    }

    /// Lists all topics with their state and actors. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the service does not have this endpoint.
    pub async fn topics(&self) -> Result<TopicList, ClientError> {
        self.transport.get(paths::TOPICS).json("a list of topics").await
    }

    /// Returns the latest `limit` past epochs of a topic, oldest first. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::topics`].
    pub async fn history(&self, topic: TopicId, limit: usize) -> Result<TopicHistory, ClientError> {
        let call = self.get(paths::TOPIC_HISTORY, topic).query(&[("limit", limit)]);
        call.json("a topic's past epochs").await
    }

    /// Returns the actors of a topic's past epochs with their values, weights and losses, and the ground
    /// truth. Includes at most the latest `limit` epochs with nonces in the range `nonces`, oldest
    /// first. If `actor` is given, includes only the actor with this address or name. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::topics`].
    pub async fn epoch_actors(
        &self,
        topic: TopicId,
        nonces: RangeInclusive<BlockHeight>,
        actor: Option<&str>,
        limit: usize,
    ) -> Result<Vec<EpochActorBody>, ClientError> {
        let call = self.get(paths::TOPIC_EPOCHS, topic);
        let call = call.query(&[("from", *nonces.start()), ("to", *nonces.end())]);
        let call = call.query(&[("limit", limit)]).query(&[("actor", actor)]);
        call.json("a topic's past epochs").await
    }

    /// Returns the actors of a topic, ranked over its latest `n_epochs` epochs or over `period`. If
    /// `actor` is given, includes only the actor with this address or name, with details. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::topics`].
    pub async fn leaderboard(
        &self,
        topic: TopicId,
        n_epochs: u32,
        period: Option<&str>,
        actor: Option<&str>,
    ) -> Result<Leaderboard, ClientError> {
        let n_epochs = period.is_none().then_some(n_epochs);
        let call = self.get(paths::TOPIC_LEADERBOARD, topic).query(&[("epochs", n_epochs)]);
        let call = call.query(&[("period", period), ("actor", actor)]);
        call.json("a topic's leaderboard").await
    }

    /// Creates a topic that this key owns. If the future is dropped, the topic might still be created.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the settings are invalid.
    pub async fn create_topic(&self, settings: &TopicSettings) -> Result<TopicBody, ClientError> {
        topic_of(self.transport.post(paths::TOPICS).body(settings)).await
    }

    /// Creates several topics that this key owns, or no topic if one topic is refused. If the future is
    /// dropped, the topics might still be created.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the settings of a topic are invalid.
    pub async fn create_topics(&self, batch: &TopicBatch) -> Result<Vec<TopicBody>, ClientError> {
        let call = self.transport.post(paths::TOPIC_BATCH).body(batch);
        let created: TopicBatchResponse = call.json("topics").await?;
        Ok(created.topics.into_iter().map(|created| created.topic).collect())
    }

    /// Returns the settings of a topic, including defaults. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::topics`].
    pub async fn topic_settings(&self, topic: TopicId) -> Result<TopicSettings, ClientError> {
        self.get(paths::TOPIC_SETTINGS, topic).json("a topic's settings").await
    }

    /// Replaces all settings of a topic that this key owns.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if another key owns the topic or a setting cannot be changed.
    pub async fn update_topic(
        &self,
        topic: TopicId,
        settings: &TopicSettings,
    ) -> Result<TopicBody, ClientError> {
        topic_of(self.call(Method::PUT, paths::TOPIC_SETTINGS, topic).body(settings)).await
    }

    /// Changes those settings of a topic that differ between `before` and `after`. All other settings
    /// keep their current values, which can differ from `before`.
    ///
    /// # Errors
    /// Same as [`Self::update_topic`].
    pub async fn edit_topic(
        &self,
        topic: TopicId,
        before: &TopicSettings,
        after: &TopicSettings,
    ) -> Result<TopicBody, ClientError> {
        let current = self.topic_settings(topic).await?;
        let [current, before, after] = [&current, before, after].map(|it| json!(it));
        let settings = with_changes(current, &before, after);
        topic_of(self.call(Method::PUT, paths::TOPIC_SETTINGS, topic).body(&settings)).await
    }

    /// Permanently deletes a topic that this key owns, with all its epochs.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if another key owns the topic.
    pub async fn delete_topic(&self, topic: TopicId) -> Result<(), ClientError> {
        self.call(Method::DELETE, paths::TOPIC_SETTINGS, topic).done().await
    }

    /// Makes the service read the ground truth of epoch `from` and later epochs again, and compute
    /// their losses and regrets again. If the future is dropped, the service might do so nevertheless.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if another key owns the topic, or some of these epochs were deleted.
    pub async fn relearn(
        &self,
        topic: TopicId,
        from: BlockHeight,
    ) -> Result<RelearnedBody, ClientError> {
        let body = RelearnBody { from_nonce: Decimal(from.to_string()) };
        let call = self.call(Method::POST, paths::TOPIC_RELEARN, topic).body(&body);
        call.json("the recomputed epochs of a topic").await
    }

    /// Activates or deactivates a topic that this key owns. An inactive topic opens no new epochs.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if another key owns the topic.
    pub async fn set_active(&self, topic: TopicId, active: bool) -> Result<TopicBody, ClientError> {
        let body = TopicActive { active };
        topic_of(self.call(Method::PUT, paths::TOPIC_ACTIVE, topic).body(&body)).await
    }

    /// Adds a worker to the whitelist of a topic that this key owns.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if another key owns the topic.
    pub async fn add_to_whitelist(
        &self,
        topic: TopicId,
        worker: &Address,
    ) -> Result<TopicBody, ClientError> {
        self.change_whitelist(Method::PUT, topic, worker).await
    }

    /// Removes a worker from the whitelist of a topic that this key owns.
    ///
    /// # Errors
    /// Same as [`Self::add_to_whitelist`].
    pub async fn remove_from_whitelist(
        &self,
        topic: TopicId,
        worker: &Address,
    ) -> Result<TopicBody, ClientError> {
        self.change_whitelist(Method::DELETE, topic, worker).await
    }

    async fn change_whitelist(
        &self,
        method: Method,
        topic: TopicId,
        worker: &Address,
    ) -> Result<TopicBody, ClientError> {
        let pattern = paths::TOPIC_WHITELISTED.replace("{worker}", worker.as_str());
        topic_of(self.call(method, &pattern, topic)).await
    }

    /// Submits values for an epoch, by default for the open epoch. The values are stored when this
    /// returns.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if no window is open, the worker has already submitted other values, or
    /// the values are invalid.
    pub async fn submit(
        &self,
        topic: TopicId,
        submission: &SubmissionBody,
    ) -> Result<Accepted, ClientError> {
        let call = self.call(Method::POST, paths::TOPIC_SUBMISSIONS, topic);
        call.body(submission).json("a submission").await
    }

    /// Returns the latest bundle of a topic with weights and confidence intervals. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::latest`].
    pub async fn latest_with_weights(&self, topic: TopicId) -> Result<LatestBody, ClientError> {
        self.get(paths::TOPIC_LATEST, topic).json(LATEST).await
    }

    /// Returns the account that signs values for contracts. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::topics`].
    pub async fn signer(&self) -> Result<SignerBody, ClientError> {
        self.transport.get(paths::SIGNER).json("the signer of values").await
    }

    /// Returns the health of a topic, with the reasons for failures and the retention of its epochs.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::latest`].
    pub async fn topic_health(&self, topic: TopicId) -> Result<TopicHealth, ClientError> {
        self.get(paths::TOPIC_HEALTH, topic).json("the health of a topic").await
    }

    /// Checks that the service is healthy. Does not need a key. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError`] if the service is not healthy or cannot be reached.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.transport.get(paths::HEALTH).health("failing_topics").await
    }

    /// Returns true if the service rejects all writes. Does not need a key. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::health`].
    pub async fn is_read_only(&self) -> Result<bool, ClientError> {
        let health: ServiceHealth = self.transport.get(paths::HEALTH).json("the health").await?;
        Ok(health.is_read_only)
    }

    /// Prepares a GET request. The path is `pattern` with the id of `topic` inserted.
    fn get(&self, pattern: &str, topic: TopicId) -> Request<'_> {
        self.call(Method::GET, pattern, topic)
    }

    fn call(&self, method: Method, pattern: &str, topic: TopicId) -> Request<'_> {
        let path = pattern.replace("{version}", paths::EMISSIONS_NEW);
        self.transport.call(method, &path.replace("{topic_id}", &topic.to_string()))
    }
}

/// Returns `current` with the members that differ between `before` and `after`.
fn with_changes(current: Value, before: &Value, after: Value) -> Value {
    match (current, before, after) {
        (Value::Object(mut current), Value::Object(before), Value::Object(after)) => {
            for name in before.keys().filter(|name| !after.contains_key(*name)) {
                current.remove(name);
            }
            for (name, after) in after {
                let before = before.get(&name).unwrap_or(&Value::Null);
                if *before != after {
                    let member = current.remove(&name).unwrap_or_default();
                    current.insert(name, with_changes(member, before, after));
                }
            }
            Value::Object(current)
        }
        (.., after) => after,
    }
}

/// Makes a call and returns the topic in its response.
async fn topic_of(call: Request<'_>) -> Result<TopicBody, ClientError> {
    let body: TopicResponse = call.json("a topic").await?;
    Ok(body.topic)
}

#[cfg(test)]
mod tests;
