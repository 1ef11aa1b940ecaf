//! Topics as a list of them shows them: where the clock of each stands, and who takes part.

use std::sync::Arc;

use model::topic::{BlockHeight, TopicId};
use wire::inference::{ActorSummary, Bundle, WorkerValues};

use crate::{
    Inference, InferenceError, Shared,
    math::regret::{ByActor, Role},
    network::{epoch::Progress, learned::Learned, topic::Topic},
    store::{Bundles, StoreError},
};

/// A topic, where its clock stands, and who takes part.
#[derive(Debug, Clone)]
pub struct Overview {
    /// The settings of the topic.
    pub topic: Arc<Topic>,
    /// Which epochs are open, and which wait for their truth.
    pub progress: Arc<Progress>,
    /// Who takes part.
    pub actors: Arc<TopicActors>,
}

/// Who took part in a topic's newest bundle, with what was learned of each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopicActors {
    /// The epoch of the newest bundle; none before the first.
    pub last_nonce: Option<BlockHeight>,
    /// How many epochs were learned from.
    pub n_learned: u64,
    /// The inferers by address, then the forecasters.
    pub actors: Vec<ActorSummary>,
    /// The same as the elements of a JSON array, written once: those of a thousand inferers are most
    /// of a list of topics.
    pub elements: String,
}

impl Inference {
    /// Returns every topic with its clock and its actors, by number.
    ///
    /// # Errors
    /// [`InferenceError`] if the file fails.
    pub async fn overviews(&self) -> Result<Vec<Overview>, InferenceError> {
        self.catch_up_all().await?;
        let mut overviews = Vec::new();
        for topic in self.topics() {
            let progress = self.recent_epochs(topic.id).await?;
            let actors = self.recent(topic.id, |entry| &mut entry.actors, Shared::load_actors);
            let actors = actors.await?;
            overviews.push(Overview { topic, progress, actors });
        }
        Ok(overviews)
    }
}

impl Shared {
    fn load_actors(&self, topic: TopicId) -> Result<Arc<TopicActors>, InferenceError> {
        let read = || {
            let learned = self.load_learned(topic)?.learned;
            let n_learned = learned.n_learned;
            let bundles = match self.load_newest(topic) {
                Err(InferenceError::NoBundle { .. }) => {
                    return Ok(Arc::new(TopicActors { n_learned, ..TopicActors::default() }));
                }
                found => found?,
            };
            let nonce = bundles.bundle.nonce;
            let actors = summaries(&bundles, &self.store.names(topic, nonce)?, &learned);
            let array = serde_json::to_string(&actors).map_err(StoreError::Record)?;
            let elements = array.trim_matches(['[', ']']).to_owned();
            Ok(Arc::new(TopicActors { last_nonce: Some(nonce), n_learned, actors, elements }))
        };
        self.cache.load(topic, |entry| &mut entry.actors, read)
    }
}

fn summaries(bundles: &Bundles, names: &ByActor<String>, learned: &Learned) -> Vec<ActorSummary> {
    let Bundle { inferer_values, forecaster_values, .. } = &bundles.bundle.bundle;
    let of_role = |(role, values): (Role, &Vec<WorkerValues>)| {
        let summary = |WorkerValues { worker, .. }: &WorkerValues| ActorSummary {
            worker: worker.to_string(),
            role: role.name().to_owned(),
            name: names.get(worker).cloned(),
            weight: bundles.shares[role].get(worker).copied(),
            regret: learned.regrets.ordinary[role].get(worker).copied(),
            loss: learned.losses[role].get(worker).copied(),
            score: learned.scores[role].get(worker).copied(),
        };
        values.iter().map(summary).collect::<Vec<_>>()
    };
    Role::ALL.into_iter().zip([inferer_values, forecaster_values]).flat_map(of_role).collect()
}
