//! The leaderboard: losses of a topic's actors and combined values. An extension.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer to `GET /api/v1/topics/{topic_id}/leaderboard`. Losses are none of them logarithms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Leaderboard {
    /// The topic's number.
    pub topic_id: u64,
    /// The newest epochs that were learned from, oldest first: those that the means are of.
    pub epochs: Vec<EpochLosses>,
    /// Who took part in them: the least mean loss first.
    pub actors: Vec<RankedActor>,
}

/// What the values of one epoch lost.
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

/// One actor and its mean loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RankedActor {
    /// The address of the actor.
    pub worker: String,
    /// `inferer` or `forecaster`.
    pub role: String,
    /// Its name, where that is known and it took part in the newest bundle.
    pub name: Option<String>,
    /// In how many of the epochs it took part.
    pub n_epochs: u64,
    /// The mean of its losses in them.
    pub mean_loss: f64,
}
