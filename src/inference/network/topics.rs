//! Changes of topics while the network runs: creation, replacement, pausing and deletion.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use model::dataset::DatasetId;
use model::topic::{Address, TopicId};
use task::backoff::Backoff;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::sleep;
use tracing::warn;

use crate::network::topic::Topic;
use crate::store::{Inputs, Store, StoreError};
use crate::{Inference, InferenceError, News, Result};

/// Maximum number of topics. It is limited, since each topic has a task that reads the store at each
/// block.
pub const TOPICS_MAX: usize = 4096;

/// Maximum number of topics that a key can create, so that no single key can reach [`TOPICS_MAX`].
pub const TOPICS_OF_KEY_MAX: usize = 256;

/// Maximum number of attempts to change the list of topics while other services change it, too.
const CHANGES_MAX: u32 = 10;

/// First pause between these attempts.
const CHANGE_AGAIN: Duration = Duration::from_millis(10);

/// List of topics as it was last read from the store.
#[derive(Debug)]
pub(crate) struct TopicList {
    pub(crate) by_id: BTreeMap<TopicId, Arc<Topic>>,
    /// Highest id of a deleted topic.
    pub(crate) newest_deleted: Option<TopicId>,
    /// Version of the list in a shared database, or `None` for a file.
    pub(crate) version: Option<i64>,
}

/// Right to change the list of topics. Held until the change is stored and in memory.
pub(crate) struct ListChange {
    /// Version of the list that the change is based on.
    known: Option<i64>,
    _alone: OwnedMutexGuard<()>,
}

impl TopicList {
    /// Stores the built-in `topics`, except those with the id of a topic that a key created.
    pub(crate) fn put(store: &Store, topics: &[Topic]) -> Result<(), StoreError> {
        let kept = store.topics()?;
        let kept = |topic: &Topic| kept.iter().find(|kept| kept.id == topic.id);
        let update = |topic: &Topic| match kept(topic) {
            Some(Topic { creator: Some(_), .. }) => None,
            Some(kept) => {
                let topic = topic.clone().with_dataset_of(kept);
                Some(Topic { is_active: kept.is_active, ..topic })
            }
            None => Some(topic.clone()),
        };
        let topics: Vec<Topic> = topics.iter().filter_map(update).collect();
        store.put_topics(&topics, None, Inputs::Keep)
    }

    pub(crate) fn read(store: &Store) -> Result<Self, StoreError> {
        // Reads the version first, so that a change during the following reads is noticed later.
        let version = store.version(None)?;
        let topics = store.topics()?.into_iter().map(|topic| (topic.id, Arc::new(topic)));
        Ok(Self { by_id: topics.collect(), newest_deleted: store.newest_deleted()?, version })
    }

    /// Logs a warning for each topic with a horizon within its submission window. Such a topic was
    /// created with another block time, or by an older version of this program.
    pub(crate) fn warn_of_horizons(&self, block_time: Duration) {
        for topic in self.by_id.values() {
            if let Err(error) = topic.check_horizon(block_time) {
                warn!(topic.id = %topic.id, "{error}");
            }
        }
    }
}

impl Inference {
    /// Returns all topics, sorted by id.
    pub fn topics(&self) -> Vec<Arc<Topic>> {
        self.shared.topics.read().by_id.values().map(Arc::clone).collect()
    }

    /// Returns the topic `id`, if it exists.
    pub fn topic(&self, id: TopicId) -> Option<Arc<Topic>> {
        self.shared.topics.read().by_id.get(&id).map(Arc::clone)
    }

    /// Returns the id of the next topic to be created. It is higher than the ids of all existing and
    /// deleted topics.
    pub fn next_topic_id(&self) -> TopicId {
        let topics = self.shared.topics.read();
        let newest = topics.by_id.keys().next_back().copied();
        let highest = newest.max(topics.newest_deleted).map_or(0, TopicId::get);
        TopicId::new(highest.saturating_add(1)).unwrap_or(TopicId::FIRST)
    }

    /// Returns a receiver that is notified of new bundles and changed topics.
    pub fn news(&self) -> watch::Receiver<News> {
        self.shared.news.subscribe()
    }

    /// Creates `topics` of one creator with the next ids. The topics are durable once this function
    /// returns. Their first epochs open at the next block.
    ///
    /// # Errors
    /// [`InferenceError`] with the reason if one of them is refused. None is created in this case.
    pub async fn create_topics(&self, topics: Vec<Topic>) -> Result<Vec<Arc<Topic>>> {
        self.change_list(|change| self.create_in(change, topics.clone()).boxed()).await
    }

    async fn create_in(&self, change: ListChange, topics: Vec<Topic>) -> Result<Vec<Arc<Topic>>> {
        let creator = topics.first().and_then(|topic| topic.creator.as_ref());
        let (n_topics, n_of_creator) = {
            let topics = &self.shared.topics.read().by_id;
            let is_creators =
                |had: &&Arc<Topic>| creator.is_some() && had.creator.as_ref() == creator;
            (topics.len(), topics.values().filter(is_creators).count())
        };
        let is_over = |n: usize, max: usize| n + topics.len() > max;
        if is_over(n_topics, TOPICS_MAX) || is_over(n_of_creator, TOPICS_OF_KEY_MAX) {
            return Err(InferenceError::TooManyTopics);
        }
        let ids = (self.next_topic_id().get()..).filter_map(TopicId::new);
        let with_id = |(id, topic): (TopicId, Topic)| Arc::new(Topic { id, ..topic });
        let topics: Vec<Arc<Topic>> = ids.zip(topics).map(with_id).collect();
        for topic in &topics {
            self.check_topic(topic)?;
        }
        self.put_topics(change, topics.clone(), Inputs::Keep).await?;
        Ok(topics)
    }

    /// Replaces the settings of the topic with the id of `topic`, on behalf of `by`, which must be its
    /// creator. A paused topic stays paused. Settings that decide which submissions are valid can change
    /// only while no epoch is open. If the predicted quantity changes, epochs whose ground truth is
    /// unknown end without a ground truth, since their submissions predicted another quantity.
    ///
    /// # Errors
    /// [`InferenceError`] with the reason if it is refused.
    pub async fn update_topic(&self, topic: Topic, by: &Address) -> Result<Arc<Topic>> {
        self.change_list(|change| self.update_in(change, topic.clone(), by).boxed()).await
    }

    async fn update_in(
        &self,
        change: ListChange,
        topic: Topic,
        by: &Address,
    ) -> Result<Arc<Topic>> {
        let before = self.owned(topic.id, by)?;
        let (creator, is_active) = (before.creator.clone(), before.is_active);
        let topic = Topic { creator, is_active, ..topic }.with_dataset_of(&before);
        self.check_topic(&topic)?;
        for (what, stays) in [
            ("type", topic.kind == before.kind),
            ("arity", topic.is_single() == before.is_single()),
            ("unity", topic.unity_tolerance.is_some() == before.unity_tolerance.is_some()),
            (
                "case sensitivity",
                topic.labeling.is_case_sensitive == before.labeling.is_case_sensitive,
            ),
        ] {
            if !stays {
                return Err(InferenceError::Fixed { topic: topic.id, what });
            }
        }
        if !topic.accepts_same(&before) {
            let id = topic.id;
            let progress = self.with_store(move |shared| Ok(shared.store.progress(id)?)).await?;
            if let Some(nonce) = progress.open.last() {
                return Err(InferenceError::EpochOpen { topic: id, nonce: *nonce });
            }
        }
        let is_same_quantity = topic.source == before.source && topic.truth == before.truth;
        let inputs = if is_same_quantity { Inputs::Keep } else { Inputs::Drop };
        self.put_topic(change, topic, inputs).await
    }

    /// Deletes topic `id` on behalf of `by`, which must be its creator. The deletion is durable once
    /// this function returns. The topic's epochs are deleted later by [`Self::drop_leftovers`].
    ///
    /// # Errors
    /// [`InferenceError`] with the reason if it is refused.
    pub async fn delete_topic(&self, id: TopicId, by: &Address) -> Result<()> {
        let change = |change| async move {
            self.owned(id, by)?;
            let inference = self.clone();
            let delete = move |store: &Store, known| {
                store.delete_topic(id, known)?;
                inference.shared.cache.change(id, |entry| entry.close(None));
                inference.forget_problems(id);
                Ok(())
            };
            let forget = move |list: &mut TopicList| {
                list.newest_deleted = list.newest_deleted.max(Some(id));
                list.by_id.remove(&id);
            };
            self.change_stored(change, delete, forget).await
        };
        self.change_list(|list| change(list).boxed()).await
    }

    /// Deletes the epochs of deleted topics. Cancel-safe: the next call continues the deletion.
    ///
    /// # Errors
    /// [`InferenceError`] if the store fails.
    pub async fn drop_leftovers(&self) -> Result<()> {
        while self.with_store(|shared| Ok(shared.store.drop_leftovers()?)).await? {}
        Ok(())
    }

    /// Resumes topic `id` if `is_active`, otherwise pauses it, on behalf of `by`, which must be its
    /// creator.
    ///
    /// # Errors
    /// [`InferenceError`] with the reason if it is refused.
    pub async fn set_active(
        &self,
        id: TopicId,
        is_active: bool,
        by: &Address,
    ) -> Result<Arc<Topic>> {
        let change = |change| async move {
            let before = self.owned(id, by)?;
            let topic = Topic { is_active, ..before.as_ref().clone() };
            self.put_topic(change, topic, Inputs::Keep).await
        };
        self.change_list(|list| change(list).boxed()).await
    }

    /// Stores `dataset` as the id of the dataset called `name`, which topic `id` reads, and returns it. If
    /// another service has already stored an id, returns that id, so that all services use the same
    /// dataset. If the topic now reads a dataset with another name, stores nothing and returns `dataset`.
    ///
    /// # Errors
    /// [`InferenceError`] if the store fails.
    pub async fn put_dataset(
        &self,
        id: TopicId,
        name: &str,
        dataset: DatasetId,
    ) -> Result<DatasetId> {
        let change = |change| async move {
            let Some(topic) = self.topic(id).filter(|topic| topic.source.dataset == name) else {
                return Ok(dataset);
            };
            if let Some(kept) = topic.source.dataset_id {
                return Ok(kept);
            }
            let mut topic = topic.as_ref().clone();
            topic.source.dataset_id = Some(dataset);
            self.put_topic(change, topic, Inputs::Keep).await?;
            Ok(dataset)
        };
        self.change_list(|list| change(list).boxed()).await
    }

    /// Adds `worker` to the whitelist of topic `id` if `is_listed`, otherwise removes it from the list,
    /// on behalf of `by`, which must be the topic's creator. Does not enable or disable the whitelist.
    ///
    /// # Errors
    /// [`InferenceError`] with the reason if it is refused.
    pub async fn change_whitelist(
        &self,
        id: TopicId,
        worker: Address,
        is_listed: bool,
        by: &Address,
    ) -> Result<Arc<Topic>> {
        let worker = &worker;
        let change = |change| async move {
            let mut topic = self.owned(id, by)?.as_ref().clone();
            let workers = &mut topic.whitelist.workers;
            if is_listed {
                workers.insert(worker.clone())
            } else {
                workers.remove(worker)
            };
            topic.check()?;
            self.put_topic(change, topic, Inputs::Keep).await
        };
        self.change_list(|list| change(list).boxed()).await
    }

    /// Validates the settings of `topic`, including its horizon at the chain's block time.
    ///
    /// # Errors
    /// [`InferenceError::Topic`] with the first invalid setting.
    pub(crate) fn check_topic(&self, topic: &Topic) -> Result<()> {
        topic.check()?;
        Ok(topic.check_horizon(self.chain().block_time())?)
    }

    pub(crate) fn owned(&self, topic: TopicId, by: &Address) -> Result<Arc<Topic>> {
        let before = self.find_topic(topic)?;
        if before.creator.as_ref() == Some(by) {
            Ok(before)
        } else {
            Err(InferenceError::NotYours { topic, is_built_in: before.creator.is_none() })
        }
    }

    pub(crate) async fn put_topic(
        &self,
        change: ListChange,
        topic: Topic,
        inputs: Inputs,
    ) -> Result<Arc<Topic>> {
        let topic = Arc::new(topic);
        self.put_topics(change, vec![Arc::clone(&topic)], inputs).await?;
        Ok(topic)
    }

    /// Stores either all or none of `topics`.
    async fn put_topics(
        &self,
        change: ListChange,
        topics: Vec<Arc<Topic>>,
        inputs: Inputs,
    ) -> Result<()> {
        let kept = topics.clone();
        let put = move |store: &Store, known| {
            store.put_topics(kept.iter().map(Arc::as_ref), known, inputs)
        };
        let entries = topics.into_iter().map(|topic| (topic.id, topic));
        self.change_stored(change, put, |list| list.by_id.extend(entries)).await
    }

    /// Calls `change` with the right to change the list of topics of this service, which is reloaded
    /// first if it is outdated. If another service changes the list in the meantime, nothing is stored
    /// and `change` is called again, at most [`CHANGES_MAX`] times.
    pub(crate) async fn change_list<'a, T>(
        &'a self,
        change: impl Fn(ListChange) -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let mut backoff = Backoff::new(CHANGE_AGAIN, CHANGE_AGAIN * 8);
        loop {
            let alone = Arc::clone(&self.shared.changing).lock_owned().await;
            self.catch_up().await?;
            let known = self.shared.topics.read().version;
            let result = change(ListChange { known, _alone: alone }).await;
            let is_raced = matches!(result, Err(InferenceError::Store(StoreError::Raced)));
            if !is_raced || backoff.n_tries() + 1 == CHANGES_MAX {
                return result;
            }
            sleep(backoff.next_wait()).await;
        }
    }

    /// Stores a change by `store`, then applies it by `apply` to the list in memory, even if the
    /// returned future is dropped in the meantime.
    async fn change_stored(
        &self,
        change: ListChange,
        store: impl FnOnce(&Store, Option<i64>) -> Result<(), StoreError> + Send + 'static,
        apply: impl FnOnce(&mut TopicList) + Send + 'static,
    ) -> Result<()> {
        self.with_store(move |shared| {
            let known = change.known;
            store(&shared.store, known)?;
            let mut list = shared.topics.write();
            // If the list was reloaded in the meantime, it can already contain the change. The list is
            // then reloaded at the next check, since its version is not updated here.
            if list.version == known {
                apply(&mut list);
                list.version = known.map(|version| version.saturating_add(1));
            }
            drop(list);
            shared.news.send_modify(|news| news.n_changes += 1);
            drop(change);
            Ok(())
        })
        .await
    }
}
