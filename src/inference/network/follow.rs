//! What other services do with the same database: noticed before anything is answered from memory, and
//! polled for streams and runners. A network in a file has one service, and none of this.

use std::time::Duration;

use model::topic::{BlockHeight, TopicId};
use task::causes::chain;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{
    Inference, InferenceError, Shared,
    network::{topic::Topic, topics::TopicList},
};

/// How late streams and runners may learn of other services' changes. Each look is two round trips.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Inference {
    /// Reads the list of topics again, if another service changed it.
    ///
    /// # Errors
    /// [`InferenceError`] if the database fails.
    pub async fn catch_up(&self) -> Result<(), InferenceError> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(|shared| shared.catch_up_list(shared.store.version(None)?).map(drop)).await
    }

    /// As [`Self::catch_up`], for everything that is kept in memory.
    pub(crate) async fn catch_up_all(&self) -> Result<(), InferenceError> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(|shared| shared.catch_up_all().map(drop)).await
    }

    /// Whether this service is to ask the workers of `topic` for the epoch `nonce`: no other one does, or
    /// has. One that asks has half of the window for it.
    pub(crate) async fn begin_asking(
        &self,
        topic: &Topic,
        nonce: BlockHeight,
    ) -> Result<bool, InferenceError> {
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

    /// Notes that this service has asked, or else that any may.
    pub(crate) async fn end_asking(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        is_done: bool,
    ) -> Result<(), InferenceError> {
        if !self.shared.store.is_shared() {
            return Ok(());
        }
        self.with_store(move |shared| Ok(shared.store.end_asking(topic, nonce, is_done)?)).await
    }

    /// Looks at what other services did until it is dropped, and notifies streams and runners.
    pub(crate) async fn follow_services(self) {
        let mut is_lost = false;
        while self.shared.store.is_shared() {
            match self.with_store(Shared::catch_up_all).await {
                Ok(has_changed) => {
                    // What was tried in between failed, and is due again.
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

impl Shared {
    /// Has what is kept in memory of `topic` be read again, if another service changed it.
    pub(crate) fn catch_up(&self, topic: TopicId) -> Result<(), InferenceError> {
        if let Some(version) = self.store.version(Some(topic))? {
            self.cache.follow(topic, version);
        }
        Ok(())
    }

    /// Likewise with everything, and follows the clock of the database; whether anything had changed.
    fn catch_up_all(&self) -> Result<bool, InferenceError> {
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

    /// Reads the list of topics again, unless it has `version`; whether it did.
    fn catch_up_list(&self, version: Option<i64>) -> Result<bool, InferenceError> {
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
