//! `GET /api/v1/topics/{topic_id}/leaderboard?epochs=`: ranks actors, and has the losses of the
//! network's values. Ours.

use axum::Json;
use wire::{inference::leaderboard::Leaderboard, paths};

use super::{error::ApiError, openapi::parameters::TopicPart, request::Asked};
use crate::network::leaderboard::{EPOCHS_DEFAULT, EPOCHS_MAX};

/// Ranks a topic's actors by their mean loss, and has the losses of its values next to a baseline.
///
/// Actors are compared in the epochs that all ranked ones have in common, by the loss that the network
/// learns from. An actor needs 10 of the newest 20 epochs to be ranked.
#[utoipa::path(get, path = paths::TOPIC_LEADERBOARD, operation_id = "leaderboard",
    tag = "network", params(TopicPart, ("epochs" = Option<u32>, Query, minimum = 1, maximum = 500,
        description = "The newest epochs that were learned from to take means of; fewer of a topic \
                       with many actors, 100 where it is left out.")),
    responses((status = 200, description = "Actors and losses", body = Leaderboard)))]
pub(super) async fn get(asked: Asked) -> Result<Json<Leaderboard>, ApiError> {
    let (id, inference) = (asked.topic_id()?, &asked.service.inference);
    let n_epochs = asked.limit("epochs", EPOCHS_DEFAULT, EPOCHS_MAX)?;
    Ok(Json(inference.ranking(id, n_epochs).await?))
}
