//! Errors of a network.

use model::topic::{Address, BlockHeight, TopicId};

use crate::network::submission::PayloadError;
use crate::network::topic::TopicSettingsError;
use crate::network::topics::{TOPICS_MAX, TOPICS_OF_KEY_MAX};
use crate::store::StoreError;

/// Result of an operation of the network.
pub type Result<T, E = InferenceError> = std::result::Result<T, E>;

/// Reason why an operation of the network was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InferenceError {
    /// The topic does not exist.
    #[error("topic {0} not found")]
    UnknownTopic(TopicId),
    /// Several actors submitted with the same name, so it does not select one of them.
    #[error("actor name {name} is ambiguous; use an address: {}", workers.join(", "))]
    AmbiguousActor {
        /// Name of the actors.
        name: String,
        /// Addresses of the actors, at most 8.
        workers: Vec<String>,
    },
    /// No epoch of the topic has closed with a bundle yet.
    #[error("network inference not available for topic {0}")]
    NoBundle(TopicId),
    /// The submission window is not open.
    #[error("submission window of nonce {0} is not open")]
    NotOpen(BlockHeight),
    /// The worker already submitted a different payload for this nonce. The first payload remains
    /// stored.
    #[error("worker already submitted another payload for nonce {0}")]
    Repeated(BlockHeight),
    /// The topic does not accept submissions of the worker.
    #[error(
        "topic {topic} accepts submissions only from workers on its whitelist, and {worker} is not \
         on it; ask the creator of the topic to add it"
    )]
    NotWhitelisted {
        /// Id of the topic.
        topic: TopicId,
        /// Address of the worker on the chain.
        worker: Address,
    },
    /// The epoch reached a limit, such as the maximum number of submissions.
    #[error("epoch {nonce} is full: {limit}")]
    Full {
        /// Block at which the epoch opened.
        nonce: BlockHeight,
        /// Description of the reached limit.
        limit: String,
    },
    /// The payload does not match the topic.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// Invalid settings of a topic.
    #[error(transparent)]
    Topic(#[from] TopicSettingsError),
    /// Another key created the topic.
    #[error("{}", not_yours(*.topic, *.is_built_in))]
    NotYours {
        /// True for a built-in topic.
        is_built_in: bool,
        /// Id of the topic.
        topic: TopicId,
    },
    /// The setting cannot be changed.
    #[error("{what} of topic {topic} cannot be changed")]
    Fixed {
        /// Id of the topic.
        topic: TopicId,
        /// Name of the setting.
        what: &'static str,
    },
    /// Rules for submissions cannot change while an epoch accepts submissions.
    #[error(
        "labels, unity tolerance, value range and loss of topic {topic} cannot change while epoch \
         {nonce} is open; retry once it has closed, or pause the topic first if it has no time \
         between epochs"
    )]
    EpochOpen {
        /// Id of the topic.
        topic: TopicId,
        /// Block at which the epoch opened.
        nonce: BlockHeight,
    },
    /// The maximum number of topics is reached.
    #[error("maximum of {TOPICS_OF_KEY_MAX} topics per key or {TOPICS_MAX} in total is reached")]
    TooManyTopics,
    /// The epoch `from` cannot be learned from again, since the learned state before it is no longer
    /// stored.
    #[error("{}", too_far_back(*.from, *.earliest))]
    TooFarBack {
        /// Requested first epoch to learn from again.
        from: BlockHeight,
        /// Earliest epoch that can be learned from again, or `None` if there is none.
        earliest: Option<BlockHeight>,
    },
    /// All epochs that can be learned from again are before `from`.
    #[error("no epoch since nonce {from} can be relearned; the latest is {latest}")]
    NothingSince {
        /// Requested first epoch to learn from again.
        from: BlockHeight,
        /// Latest epoch that can be learned from again.
        latest: BlockHeight,
    },
    /// The network learned from another epoch of the topic at the same time.
    #[error("another epoch of the topic was learned from at the same time; retry")]
    Relearning,
    /// The store failed.
    #[error("inference store failed")]
    Store(#[from] StoreError),
    /// The program is stopping.
    #[error("the program is stopping")]
    Stopped,
}

fn not_yours(topic: TopicId, is_built_in: bool) -> String {
    if is_built_in {
        format!(
            "topic {topic} is built in and cannot be changed; start the service without --demo to omit \
             it"
        )
    } else {
        format!("topic {topic} was created by another key")
    }
}

fn too_far_back(from: BlockHeight, earliest: Option<BlockHeight>) -> String {
    match earliest {
        Some(earliest) => format!("earliest nonce that can be relearned is {earliest}"),
        None => format!("nonce {from} cannot be relearned, since nothing was learned yet"),
    }
}
