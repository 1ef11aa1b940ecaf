//! Detection of changes that other services of the same database have made. Before cached data is
//! returned, it is checked for such changes. For streams and runners, the database is polled. A file is
//! used by a single service and is not checked.

use std::time::Duration;

use model::topic::{BlockHeight, TopicId};
use task::causes::chain;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::network::topic::Topic;
use crate::network::topics::TopicList;
use crate::{Inference, InferenceError, NetworkState, Result};

/// Polling interval, which is the maximum delay for streams and runners. Each poll needs two round
/// trips.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Inference {
    /// Reloads the list of topics if another service changed it.
    ///
    /// # Errors
    /// [`InferenceError`] if the database fails.
    pub async fn catch_up(&self) -> Result<()> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(|shared| shared.catch_up_list(shared.store.version(None)?).map(drop)).await
    }

    /// Reloads everything that another service changed.
    pub(crate) async fn catch_up_all(&self) -> Result<()> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(|shared| shared.catch_up_all().map(drop)).await
    }

    /// Reserves running the workers of `topic` for the epoch `nonce`. Returns false if another service
    /// runs them or has run them. The reservation lasts for half of the window.
    pub(crate) async fn begin_asking(&self, topic: &Topic, nonce: BlockHeight) -> Result<bool> {
        if !self.shared.store.is_shared() {
            return Ok(true);
        }
        let (id, n_blocks) = (topic.id, topic.timing.worker_submission_window / 2);
        let n_blocks = u32::try_from(n_blocks).unwrap_or(u32::MAX).max(1);
        self.with_store(move |shared| {
            let now = shared.chain.now();
            let until = now + shared.chain.block_time().saturating_mul(n_blocks);
            Ok(shared.store.begin_asking(id, nonce, now, until)?)
        })
        .await
    }

    /// Records that the workers have run, or releases the reservation.
    pub(crate) async fn end_asking(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        is_done: bool,
    ) -> Result<()> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(move |shared| Ok(shared.store.end_asking(topic, nonce, is_done)?)).await
    }

    /// Polls for changes by other services until it is dropped and notifies streams and runners.
    pub(crate) async fn follow_services(self) {
        let mut is_lost = false;
        while self.shared.store.is_shared() {
            match self.with_store(NetworkState::catch_up_all).await {
                Ok(has_changed) => {
                    // Steps that failed meanwhile are due again.
                    if has_changed || is_lost {
                        self.shared.news.send_modify(|news| news.n_bundles += 1);
                    }
                    if is_lost {
                        info!("the database of the network can be used again");
                        is_lost = false;
                    }
                }
                Err(InferenceError::Stopped) => return,
                Err(error) if !is_lost => {
                    warn!(cause = chain(&error), "the database of the network cannot be used now");
                    is_lost = true;
                }
                Err(_) => {}
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl NetworkState {
    /// Removes cached data of `topic` if another service changed it.
    pub(crate) fn catch_up(&self, topic: TopicId) -> Result<()> {
        if let Some(version) = self.store.version(Some(topic))? {
            self.cache.follow(topic, version);
        }
        Ok(())
    }

    /// Follows all changes and the clock of the database. Returns true if anything changed.
    fn catch_up_all(&self) -> Result<bool> {
        let Some(versions) = self.store.versions()? else { return Ok(false) };
        if let Some(blocks) = versions.blocks
            && let Some(moved) = self.chain.follow(versions.at, blocks)
        {
            let height = self.chain.height();
            warn!(height, "the clock of the database was moved back: heights go on from {height}");
            self.store.put_blocks(moved)?;
        }
        let mut has_changed = self.catch_up_list(Some(versions.list))?;
        for (topic, version) in versions.topics {
            has_changed |= self.cache.follow(topic, version);
        }
        Ok(has_changed)
    }

    /// Reloads the list of topics unless it has `version`. Returns true if it was reloaded.
    fn catch_up_list(&self, version: Option<i64>) -> Result<bool> {
        if self.topics.read().version == version {
            return Ok(false);
        }
        let _alone = self.reading_list.lock();
        let list = TopicList::read(&self.store)?;
        if list.version == self.topics.read().version {
            return Ok(false);
        }
        *self.topics.write() = list;
        self.news.send_modify(|news| news.n_changes += 1);
        Ok(true)
    }
}
