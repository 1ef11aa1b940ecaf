//! Records of topics: the settings as a key hands them in, and what the service adds.

use serde::{Deserialize, Serialize};
use wire::inference::network::TopicSettings;

use super::{
    StoreError,
    record::{read, word, write},
};
use crate::network::topic::{Topic, WorkerWhitelist, settings};

#[derive(Serialize, Deserialize)]
struct TopicRecord {
    id: u64,
    creator: Option<String>,
    is_active: bool,
    /// The whitelist, which is not checked again.
    workers: Vec<String>,
    settings: TopicSettings,
}

pub(super) fn write_topic(topic: &Topic) -> Result<String, StoreError> {
    write(&TopicRecord {
        id: topic.id.get(),
        creator: topic.creator.as_ref().map(ToString::to_string),
        is_active: topic.is_active,
        workers: topic.whitelist.workers.iter().map(ToString::to_string).collect(),
        settings: settings::from_topic(topic),
    })
}

pub(super) fn read_topic(text: &str) -> Result<Topic, StoreError> {
    let TopicRecord { id, creator, is_active, workers, settings } = read(text)?;
    let creator = creator.as_deref().map(word).transpose()?;
    let topic = settings::topic(word(&id.to_string())?, creator, settings);
    let topic = topic.map_err(|error| StoreError::Word { text: error.to_string() })?;
    let workers = workers.iter().map(|worker| word(worker)).collect::<Result<_, _>>()?;
    let whitelist = WorkerWhitelist { workers, ..topic.whitelist };
    Ok(Topic { is_active, whitelist, ..topic })
}
