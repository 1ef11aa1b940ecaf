//! The leaderboard: losses of a topic's actors and combined values. An extension.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer to `GET /api/v1/topics/{topic_id}/leaderboard`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Leaderboard {
    /// The topic's number.
    pub topic_id: u64,
    /// The newest epochs that were learned from, oldest first.
    pub epochs: Vec<EpochLosses>,
    /// Epochs that an actor needs to be ranked: so many of twice as many newest ones.
    pub min_epochs: u64,
    /// Epochs in which all ranked actors took part: those that they are compared in.
    pub n_common_epochs: u64,
    /// True if `mean_loss` is of base-10 logarithms.
    pub is_logarithmic: bool,
    /// The actors that took part in the epochs: those that are ranked by their rank, then the others.
    pub actors: Vec<RankedActor>,
}

/// Losses of the values of one epoch, none of them a logarithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EpochLosses {
    /// The block at which it opened.
    pub nonce: u64,
    /// When it opened, in RFC 3339.
    pub opened_at: String,
    /// Of the combined value.
    pub combined: f64,
    /// Of the naive value.
    pub naive: f64,
    /// Of one that knows nothing of the rows: the same probability for each label, or the mean of
    /// the values that came true in earlier epochs. Null before the first such value.
    pub uninformed: Option<f64>,
}

/// One actor and its mean loss: over the common epochs if it is ranked, else over its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RankedActor {
    /// The address of the actor.
    pub worker: String,
    /// `inferer` or `forecaster`.
    pub role: String,
    /// Its name in the newest epoch in which it took part, where that is known.
    pub name: Option<String>,
    /// Its place by its mean loss, from 1. Null if it has too few epochs in common with the others.
    pub rank: Option<u64>,
    /// Epochs in which it took part.
    pub n_epochs: u64,
    /// Epochs that count for its rank, or toward `min_epochs` if it is not ranked.
    pub n_counted_epochs: u64,
    /// The mean of its losses as the network learns from them.
    pub mean_loss: f64,
    /// The mean of its losses, none of them a logarithm.
    pub mean_plain_loss: f64,
}
