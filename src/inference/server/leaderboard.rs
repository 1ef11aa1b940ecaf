//! `GET /api/v1/topics/{topic_id}/leaderboard?epochs=`: who did how well, and what the network's values
//! lost. Ours.

use axum::Json;
use wire::{inference::leaderboard::Leaderboard, paths};

use super::{error::ApiError, openapi::parameters::TopicPart, request::Asked};
use crate::network::leaderboard::{EPOCHS_DEFAULT, EPOCHS_MAX};

/// A topic's actors by their mean loss, and the losses of its values beside a baseline.
#[utoipa::path(get, path = paths::TOPIC_LEADERBOARD, operation_id = "leaderboard",
    tag = "network", params(TopicPart, ("epochs" = Option<u32>, Query, minimum = 1, maximum = 500,
        description = "The newest epochs that were learned from to take means of; fewer of a topic \
                       with many actors, 100 where it is left out.")),
    responses((status = 200, description = "Actors and losses", body = Leaderboard)))]
pub(super) async fn get(asked: Asked) -> Result<Json<Leaderboard>, ApiError> {
    let (id, inference) = (asked.topic_id()?, &asked.service.inference);
    let n_epochs = asked.limit("epochs", EPOCHS_DEFAULT, EPOCHS_MAX)?;
    let mut ranking = inference.ranking(id, n_epochs).await?;
    let overviews = inference.overviews().await?;
    let overview = overviews.iter().find(|overview| overview.topic.id == id);
    let present = overview.map_or(&[][..], |overview| &overview.actors.actors);
    for actor in &mut ranking.actors {
        let known = present.iter().find(|known| known.worker == actor.worker);
        actor.name = known.and_then(|known| known.name.clone());
    }
    Ok(Json(ranking))
}
