//! `GET /api/v1/topics/{topic_id}/leaderboard?epochs=`: who did how well, and what the network's values
//! lost. Ours.

use axum::Json;
use wire::{
    inference::leaderboard::{EpochLosses, Leaderboard, RankedActor},
    paths,
};

use super::{error::ApiError, openapi::parameters::TopicPart, request::Asked};
use crate::network::leaderboard::{EPOCHS_DEFAULT, EPOCHS_MAX, Ranking, ValueLosses};

/// A topic's actors by their mean loss, and the losses of its values beside a baseline.
#[utoipa::path(get, path = paths::TOPIC_LEADERBOARD, operation_id = "leaderboard",
    tag = "network", params(TopicPart, ("epochs" = Option<u32>, Query, minimum = 1, maximum = 500,
        description = "The newest epochs that were learned from to take means of; fewer of a topic \
                       with many actors, 100 where it is left out.")),
    responses((status = 200, description = "Actors and losses", body = Leaderboard)))]
pub(super) async fn get(asked: Asked) -> Result<Json<Leaderboard>, ApiError> {
    let (id, inference) = (asked.topic_id()?, &asked.service.inference);
    let n_epochs = asked.limit("epochs", EPOCHS_DEFAULT, EPOCHS_MAX)?;
    let Ranking { epochs, actors } = inference.ranking(id, n_epochs).await?;
    let overviews = inference.overviews().await?;
    let overview = overviews.iter().find(|overview| overview.topic.id == id);
    let present = overview.map_or(&[][..], |overview| &overview.actors.actors);
    let epoch = |epoch: ValueLosses| EpochLosses {
        nonce: epoch.nonce,
        opened_at: epoch.opened_at.to_string(),
        combined: epoch.combined,
        naive: epoch.naive,
        uninformed: epoch.uninformed,
    };
    let actors = actors.into_iter().map(|actor| RankedActor {
        role: actor.role.name().to_owned(),
        name: present
            .iter()
            .find(|known| known.worker == actor.worker)
            .and_then(|known| known.name.clone()),
        n_epochs: actor.n_epochs,
        mean_loss: actor.mean_loss,
        worker: actor.worker.to_string(),
    });
    Ok(Json(Leaderboard {
        topic_id: id.get(),
        epochs: epochs.into_iter().map(epoch).collect(),
        actors: actors.collect(),
    }))
}
