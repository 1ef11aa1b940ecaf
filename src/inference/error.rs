//! Errors of the network.

use model::topic::{Address, BlockHeight, TopicId};

use crate::{
    network::{
        submission::PayloadError,
        topic::TopicSettingsError,
        topics::{TOPICS_MAX, TOPICS_OF_KEY_MAX},
    },
    store::StoreError,
};

/// Reason why the network refused or failed an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InferenceError {
    /// There is no such topic.
    #[error("topic {topic} not found")]
    UnknownTopic {
        /// The topic's number.
        topic: TopicId,
    },
    /// No epoch of the topic has closed with a bundle yet.
    #[error("network inference not available for topic {topic}")]
    NoBundle {
        /// The topic's number.
        topic: TopicId,
    },
    /// No window is open for this nonce.
    #[error("the submission window of nonce {nonce} is not open")]
    NotOpen {
        /// The block at which the epoch opened.
        nonce: BlockHeight,
    },
    /// The worker submitted something else for this nonce before, which stays.
    #[error("this worker submitted another payload for nonce {nonce}")]
    Repeated {
        /// The block at which the epoch opened.
        nonce: BlockHeight,
    },
    /// The topic does not take submissions of the worker.
    #[error(
        "topic {topic} takes submissions of the workers on its whitelist alone, and {worker} is not on it: \
         ask who created the topic to add it"
    )]
    NotWhitelisted {
        /// The topic's number.
        topic: TopicId,
        /// The worker's address on the chain.
        worker: Address,
    },
    /// The epoch holds as much as it takes.
    #[error("cannot submit for nonce {nonce}: {limit}")]
    Full {
        /// The block at which the epoch opened.
        nonce: BlockHeight,
        /// What there is too much of.
        limit: String,
    },
    /// The payload does not fit the topic.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// A topic's settings do not fit together.
    #[error(transparent)]
    Topic(#[from] TopicSettingsError),
    /// Somebody else created the topic.
    #[error("{}", not_yours(*.topic, *.is_built_in))]
    NotYours {
        /// Whether the program came with it.
        is_built_in: bool,
        /// The topic's number.
        topic: TopicId,
    },
    /// A setting that stays as it was created.
    #[error("cannot change {what} of topic {topic}, which stays as it was created")]
    Fixed {
        /// The topic's number.
        topic: TopicId,
        /// The setting that cannot change.
        what: &'static str,
    },
    /// Labels cannot change while workers submit under them.
    #[error("cannot change the labels of topic {topic} while a submission window is open")]
    WindowOpen {
        /// The topic's number.
        topic: TopicId,
    },
    /// There are as many topics as there may be.
    #[error("cannot have more than {TOPICS_OF_KEY_MAX} topics of one key, or {TOPICS_MAX} in all")]
    TooManyTopics,
    /// It is not kept what had been learned by then.
    #[error("cannot learn again from {}", too_far_back(*.from, *.earliest))]
    TooFarBack {
        /// The first epoch that was to be learned from again.
        from: BlockHeight,
        /// The first one from which that can be done; none where there is none.
        earliest: Option<BlockHeight>,
    },
    /// The topic learned from another epoch meanwhile.
    #[error("cannot learn again while the topic learns from another epoch: try again")]
    Relearning,
    /// The file failed.
    #[error("the inference file failed")]
    Store(#[from] StoreError),
    /// The program is stopping.
    #[error("the program is stopping")]
    Stopped,
}

fn not_yours(topic: TopicId, is_built_in: bool) -> String {
    if is_built_in {
        format!(
            "topic {topic} came with the program, and no key can change it: start the service without \
             --demo to be without it"
        )
    } else {
        format!("another key created topic {topic}")
    }
}

fn too_far_back(from: BlockHeight, earliest: Option<BlockHeight>) -> String {
    match earliest {
        Some(earliest) => format!("before nonce {earliest}"),
        None => format!("nonce {from}: nothing was learned yet"),
    }
}
