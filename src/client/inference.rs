//! Document 3: the newest inferences of a prediction network, its topics, and their past.

pub mod bundles;

use std::ops::RangeInclusive;

use model::topic::{Address, BlockHeight, TopicId};
use reqwest::Method;
use wire::{
    inference::{
        Bundle, LatestBundle, TopicBody, TopicHistory, TopicList, TopicResponse,
        cases::Decimal,
        network::{
            Accepted, EpochActorBody, LatestBody, Leaderboard, NetworkInferencesPage, RelearnBody,
            RelearnedBody, SignerBody, SubmissionBody, TopicActive, TopicHealth, TopicSettings,
        },
    },
    paths,
};

use crate::{
    error::ClientError,
    transport::{Request, Transport},
};

/// What the newest bundle of a topic is called in errors.
const LATEST: &str = "the newest inferences of a topic";

/// An inference service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Inference {
    transport: Transport,
}

impl Inference {
    /// A service behind `transport`.
    #[must_use]
    pub const fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// The address of the service.
    #[must_use]
    pub fn address(&self) -> &str {
        self.transport.address()
    }

    /// Returns the newest bundle of a topic. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if there is no topic or no bundle yet,
    /// [`ClientError::Limited`] if calls come too often.
    pub async fn latest(&self, topic: TopicId) -> Result<LatestBundle, ClientError> {
        self.get(paths::LATEST_NETWORK_INFERENCES, topic).json(LATEST).await
    }

    /// Returns the newest bundle of a topic without its outliers. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::latest`].
    pub async fn latest_outlier_resistant(
        &self,
        topic: TopicId,
    ) -> Result<LatestBundle, ClientError> {
        self.get(paths::emissions::bundles::LATEST_OUTLIER_RESISTANT, topic).json(LATEST).await
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
        let call = self.get(paths::NETWORK_INFERENCES, topic).query(&[("limit", limit)]);
        let page: NetworkInferencesPage = call.json("the past bundles of a topic").await?;
        Ok(page.network_inferences)
    }

    /// Lists every topic with its clock and its actors. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the service is one without this list.
    pub async fn topics(&self) -> Result<TopicList, ClientError> {
        self.transport.get(paths::TOPICS).json("a list of topics").await
    }

    /// Returns a topic's newest `limit` past epochs, oldest first. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::topics`].
    pub async fn history(&self, topic: TopicId, limit: usize) -> Result<TopicHistory, ClientError> {
        let call = self.get(paths::TOPIC_HISTORY, topic).query(&[("limit", limit)]);
        call.json("a topic's past epochs").await
    }

    /// Returns the actors of a topic's newest `limit` past epochs with a nonce in `nonces`, oldest epoch
    /// first: with their values, weights, losses and the truth. `actor` is the address or the name of
    /// the only one to return. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::topics`].
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

    /// Returns who did how well in the newest `n_epochs` of a topic. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::topics`].
    pub async fn leaderboard(
        &self,
        topic: TopicId,
        n_epochs: u32,
    ) -> Result<Leaderboard, ClientError> {
        let call = self.get(paths::TOPIC_LEADERBOARD, topic).query(&[("epochs", n_epochs)]);
        call.json("a topic's leaderboard").await
    }

    /// Creates a topic, which belongs to the key that asks. Dropped, it may or may not be there.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the settings do not fit together.
    pub async fn create_topic(&self, settings: &TopicSettings) -> Result<TopicBody, ClientError> {
        topic_of(self.transport.post(paths::TOPICS).body(settings)).await
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
        topic_of(self.call(Method::PUT, paths::TOPIC_SETTINGS, topic).body(settings)).await
    }

    /// Deletes a topic that the key created, with all its epochs, for good.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it is another key's.
    pub async fn delete_topic(&self, topic: TopicId) -> Result<(), ClientError> {
        self.call(Method::DELETE, paths::TOPIC_SETTINGS, topic).done().await
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
        let body = RelearnBody { from_nonce: Decimal(from.to_string()) };
        let call = self.call(Method::POST, paths::TOPIC_RELEARN, topic).body(&body);
        call.json("what a topic learned again").await
    }

    /// Has the epochs of a topic that the key created open or not.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it is another key's.
    pub async fn set_active(&self, topic: TopicId, active: bool) -> Result<TopicBody, ClientError> {
        let body = TopicActive { active };
        topic_of(self.call(Method::PUT, paths::TOPIC_ACTIVE, topic).body(&body)).await
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
        let pattern = paths::TOPIC_WHITELISTED.replace("{worker}", worker.as_str());
        topic_of(self.call(method, &pattern, topic)).await
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
        let call = self.call(Method::POST, paths::TOPIC_SUBMISSIONS, topic);
        call.body(submission).json("a submission").await
    }

    /// Returns the newest bundle of a topic with weights and confidence intervals. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::latest`].
    pub async fn latest_with_weights(&self, topic: TopicId) -> Result<LatestBody, ClientError> {
        self.get(paths::TOPIC_LATEST, topic).json(LATEST).await
    }

    /// Returns the account that signs values for contracts. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::topics`].
    pub async fn signer(&self) -> Result<SignerBody, ClientError> {
        self.transport.get(paths::SIGNER).json("who signs").await
    }

    /// Returns whether a topic works, why not, and what it keeps. Cancel-safe.
    ///
    /// # Errors
    /// As for [`Self::latest`].
    pub async fn topic_health(&self, topic: TopicId) -> Result<TopicHealth, ClientError> {
        self.get(paths::TOPIC_HEALTH, topic).json("the health of a topic").await
    }

    /// Returns if the service serves. Needs no key. Cancel-safe.
    ///
    /// # Errors
    /// Those of a broken line, or a refusal.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.transport.get(paths::HEALTH).done().await
    }

    /// Prepares to read what `pattern` of a path says of `topic`.
    fn get(&self, pattern: &str, topic: TopicId) -> Request<'_> {
        self.call(Method::GET, pattern, topic)
    }

    fn call(&self, method: Method, pattern: &str, topic: TopicId) -> Request<'_> {
        let path = pattern.replace("{version}", paths::EMISSIONS_NEW);
        self.transport.call(method, &path.replace("{topic_id}", &topic.to_string()))
    }
}

/// Makes a call that a topic answers.
async fn topic_of(call: Request<'_>) -> Result<TopicBody, ClientError> {
    let body: TopicResponse = call.json("a topic").await?;
    Ok(body.topic)
}

#[cfg(test)]
mod tests;
