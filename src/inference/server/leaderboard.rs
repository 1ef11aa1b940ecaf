//! `GET /api/v1/topics/{topic_id}/leaderboard?epochs=`: who did how well, and what the network's values
//! lost. Ours.

use axum::{
    Json,
    extract::{Path, State},
    http::Uri,
};
use web::extract::pairs;
use wire::inference::leaderboard::{EpochLosses, Leaderboard, RankedActor};

use super::error::{ApiError, topic_id};
use crate::{
    Inference,
    network::leaderboard::{EPOCHS_DEFAULT, EPOCHS_MAX, Ranking, ValueLosses},
};

pub(super) async fn get(
    State(inference): State<Inference>,
    Path(topic): Path<String>,
    uri: Uri,
) -> Result<Json<Leaderboard>, ApiError> {
    let id = topic_id(&topic)?;
    let Ranking { epochs, actors } = inference.ranking(id, n_epochs(&uri)?).await?;
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
        role: if actor.is_forecaster { "forecaster" } else { "inferer" }.to_owned(),
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

fn n_epochs(uri: &Uri) -> Result<u32, ApiError> {
    let mismatch = |reason| ApiError::Mismatch { parameter: "epochs", reason };
    let pairs = pairs(uri).map_err(|error| mismatch(error.to_string()))?;
    let Some((_, text)) = pairs.into_iter().find(|(name, _)| name == "epochs") else {
        return Ok(EPOCHS_DEFAULT);
    };
    let n_epochs = text.parse().ok().filter(|n_epochs| (1..=EPOCHS_MAX).contains(n_epochs));
    n_epochs.ok_or_else(|| mismatch(format!("it is a number from 1 to {EPOCHS_MAX}")))
}
