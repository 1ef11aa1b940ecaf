//! Document 3: the newest inferences of a prediction network, its topics, and their past.

pub mod bundles;

use model::topic::{Address, BlockHeight, TopicId};
use reqwest::Method;
use wire::{
    inference::{
        Bundle, LatestBundle, NextTopicId, TopicBody, TopicHistory, TopicList, TopicResponse,
        cases::Decimal,
        leaderboard::Leaderboard,
        network::{
            Accepted, LatestBody, NetworkInferencesPage, RelearnBody, RelearnedBody, ScalarBody,
            SignerBody, SubmissionBody, TopicActive, TopicHealth, TopicSettings,
        },
    },
    paths,
};

use crate::{
    error::ClientError,
    transport::{Call, Transport},
};

/// An inference service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Inference {
    transport: Transport,
    version: String,
}

impl Inference {
    /// A service behind `transport`, spoken to in the newest version that this room knows.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        let version = paths::EMISSIONS_VERSIONS.first().copied().unwrap_or("v10");
        Self { transport, version: version.to_owned() }
    }

    /// Returns this service spoken to in emissions version `version`, such as `v9`.
    #[must_use]
    pub fn with_version(self, version: &str) -> Self {
        Self { version: version.to_owned(), ..self }
    }

    /// The address of the service.
    #[must_use]
    pub fn address(&self) -> &str {
        self.transport.address()
    }

    /// The version of the emissions API that is spoken, such as `v10`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the newest bundle of a topic. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if there is no topic or no bundle yet,
    /// [`ClientError::Limited`] if calls come too often.
    pub async fn latest(&self, topic: TopicId) -> Result<LatestBundle, ClientError> {
        self.latest_at(paths::LATEST_NETWORK_INFERENCES, topic).await
    }

    /// Returns the newest bundle of a topic without its outliers. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::latest`].
    pub async fn latest_outlier_resistant(
        &self,
        topic: TopicId,
    ) -> Result<LatestBundle, ClientError> {
        self.latest_at(paths::emissions::bundles::LATEST_OUTLIER_RESISTANT, topic).await
    }

    async fn latest_at(&self, path: &str, topic: TopicId) -> Result<LatestBundle, ClientError> {
        let what = "the newest inferences of a topic";
        let path = self.path(path, Some(topic));
        self.transport.json(Call::get(&path), what).await
    }

    /// Returns the newest `limit` bundles of a topic, oldest first. Ours: the chain tells one at a
    /// time. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::latest`].
    pub async fn past_bundles(
        &self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<Bundle>, ClientError> {
        let what = "the past bundles of a topic";
        let path = self.path(paths::NETWORK_INFERENCES, Some(topic));
        let query = [("limit", limit.to_string())];
        let call = Call { query: &query, ..Call::get(&path) };
        let page: NetworkInferencesPage = self.transport.json(call, what).await?;
        Ok(page.network_inferences)
    }

    /// Returns a topic's settings. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if there is no such topic.
    pub async fn topic(&self, topic: TopicId) -> Result<TopicBody, ClientError> {
        let path = self.path(paths::TOPIC, Some(topic));
        let body: TopicResponse = self.transport.json(Call::get(&path), "a topic").await?;
        Ok(body.topic)
    }

    /// Returns the number that the next topic will get: one more than there are. Cancel-safe.
    ///
    /// # Errors
    /// Those of a broken line, or a refusal.
    pub async fn next_topic_id(&self) -> Result<u64, ClientError> {
        let path = self.path(paths::NEXT_TOPIC_ID, None);
        let what = "a topic's number";
        let body: NextTopicId = self.transport.json(Call::get(&path), what).await?;
        body.next_topic_id.parse().map_err(|error| ClientError::shape(what, error))
    }

    /// Lists every topic with its clock and its actors. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the service is one without this list.
    pub async fn topics(&self) -> Result<TopicList, ClientError> {
        self.transport.json(Call::get(paths::TOPICS), "a list of topics").await
    }

    /// Returns a topic's newest `limit` past epochs, oldest first. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::topics`].
    pub async fn history(&self, topic: TopicId, limit: usize) -> Result<TopicHistory, ClientError> {
        let path = self.path(paths::TOPIC_HISTORY, Some(topic));
        let query = [("limit", limit.to_string())];
        let call = Call { query: &query, ..Call::get(&path) };
        self.transport.json(call, "a topic's past epochs").await
    }

    /// Returns who did how well in the newest `n_epochs` of a topic. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::topics`].
    pub async fn leaderboard(
        &self,
        topic: TopicId,
        n_epochs: u32,
    ) -> Result<Leaderboard, ClientError> {
        let path = self.path(paths::TOPIC_LEADERBOARD, Some(topic));
        let query = [("epochs", n_epochs.to_string())];
        let call = Call { query: &query, ..Call::get(&path) };
        self.transport.json(call, "a topic's leaderboard").await
    }

    /// Creates a topic, which belongs to the key that asks. Dropped, it may or may not be there.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the settings do not fit together.
    pub async fn create_topic(&self, settings: &TopicSettings) -> Result<TopicBody, ClientError> {
        let body: TopicResponse =
            self.transport.json_for(Call::post(paths::TOPICS), settings, "a topic").await?;
        Ok(body.topic)
    }

    /// Replaces all settings of a topic that the key created.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it is another key's, or a setting cannot change.
    pub async fn update_topic(
        &self,
        topic: TopicId,
        settings: &TopicSettings,
    ) -> Result<TopicBody, ClientError> {
        let path = self.path(paths::TOPIC_SETTINGS, Some(topic));
        let call = Call { method: Method::PUT, ..Call::get(&path) };
        let body: TopicResponse = self.transport.json_for(call, settings, "a topic").await?;
        Ok(body.topic)
    }

    /// Deletes a topic that the key created, with all its epochs, for good.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it is another key's.
    pub async fn delete_topic(&self, topic: TopicId) -> Result<(), ClientError> {
        let path = self.path(paths::TOPIC_SETTINGS, Some(topic));
        self.transport.bytes(Call::delete(&path), None::<&()>).await.map(|_| ())
    }

    /// Has a topic that the key created read the truth of its epochs from `from` on again, and learn
    /// from them again. Dropped, it may or may not be done.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it is another key's, or not all is kept from there on.
    pub async fn relearn(
        &self,
        topic: TopicId,
        from: BlockHeight,
    ) -> Result<RelearnedBody, ClientError> {
        let path = self.path(paths::TOPIC_RELEARN, Some(topic));
        let body = RelearnBody { from_nonce: Decimal(from.to_string()) };
        self.transport.json_for(Call::post(&path), &body, "what a topic learned again").await
    }

    /// Has the epochs of a topic that the key created open or not.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it is another key's.
    pub async fn set_active(&self, topic: TopicId, active: bool) -> Result<TopicBody, ClientError> {
        let path = self.path(paths::TOPIC_ACTIVE, Some(topic));
        let call = Call { method: Method::PUT, ..Call::get(&path) };
        let body: TopicResponse =
            self.transport.json_for(call, &TopicActive { active }, "a topic").await?;
        Ok(body.topic)
    }

    /// Adds a worker to the whitelist of a topic that the key created.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it is another key's.
    pub async fn add_to_whitelist(
        &self,
        topic: TopicId,
        worker: &Address,
    ) -> Result<TopicBody, ClientError> {
        self.change_whitelist(Method::PUT, topic, worker).await
    }

    /// Takes a worker off the whitelist of a topic that the key created.
    ///
    /// # Errors
    /// As for [`Self::add_to_whitelist`].
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
        let path = self.path(paths::TOPIC_WHITELISTED, Some(topic));
        let path = path.replace("{worker}", worker.as_str());
        let call = Call { method, ..Call::get(&path) };
        let body: TopicResponse = self.transport.json(call, "a topic").await?;
        Ok(body.topic)
    }

    /// Submits for an epoch; the open one where `submission` does not say. On return it is kept.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if no window is open, it is not the first, or it does not fit.
    pub async fn submit(
        &self,
        topic: TopicId,
        submission: &SubmissionBody,
    ) -> Result<Accepted, ClientError> {
        let path = self.path(paths::TOPIC_SUBMISSIONS, Some(topic));
        self.transport.json_for(Call::post(&path), submission, "a submission").await
    }

    /// Returns the newest bundle of a topic with weights and confidence intervals. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::latest`].
    pub async fn latest_with_weights(&self, topic: TopicId) -> Result<LatestBody, ClientError> {
        let path = self.path(paths::TOPIC_LATEST, Some(topic));
        self.transport.json(Call::get(&path), "the newest inferences of a topic").await
    }

    /// Returns the newest combined value of a topic: of its one label, or of `label`. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::latest`], and if there is no such label.
    pub async fn value(
        &self,
        topic: TopicId,
        label: Option<&str>,
    ) -> Result<ScalarBody, ClientError> {
        let path = self.path(paths::TOPIC_VALUE, Some(topic));
        let query: Vec<_> = label.map(|label| ("label", label.to_owned())).into_iter().collect();
        let call = Call { query: &query, ..Call::get(&path) };
        self.transport.json(call, "the newest value of a topic").await
    }

    /// Returns the account that signs values for contracts. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::topics`].
    pub async fn signer(&self) -> Result<SignerBody, ClientError> {
        self.transport.json(Call::get(paths::SIGNER), "who signs").await
    }

    /// Returns whether a topic works, why not, and what it keeps. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::latest`].
    pub async fn topic_health(&self, topic: TopicId) -> Result<TopicHealth, ClientError> {
        let path = self.path(paths::TOPIC_HEALTH, Some(topic));
        self.transport.json(Call::get(&path), "the health of a topic").await
    }

    /// Returns if the service serves. Needs no key. Cancel-safe.
    ///
    /// # Errors
    /// Those of a broken line, or a refusal.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.transport.bytes(Call::get(paths::HEALTH), None::<&()>).await.map(|_| ())
    }

    fn path(&self, pattern: &str, topic: Option<TopicId>) -> String {
        let path = pattern.replace("{version}", &self.version);
        topic.map_or_else(|| path.clone(), |topic| path.replace("{topic_id}", &topic.to_string()))
    }
}

#[cfg(test)]
mod tests;
