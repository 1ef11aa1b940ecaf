//! Calls to the inference service: topics, bundles, and what stands beside them.

use client::inference::{
    Inference,
    bundles::{self, BundleEvent},
};
use model::topic::TopicId;
use tokio::sync::mpsc;

use super::{
    Runner,
    calls::{NEWS_MAX, ask, forward},
    failure,
};
use crate::event::{Effect, Event, InferenceEvent};

/// The epochs of a leaderboard: twenty minutes of the shortest ones, and more than a chart has
/// columns.
const LEADERBOARD_EPOCHS: u32 = 100;

impl Runner {
    /// Performs an effect of this service; returns any other.
    pub(super) fn call_inference(&mut self, effect: Effect) -> Option<Effect> {
        let inference = self.clients.inference.clone();
        match effect {
            Effect::LoadTopics => self.call("topics", topics(inference)),
            Effect::LoadLatest { topic, is_resistant } => {
                self.call(format!("latest {topic}"), latest(inference, topic, is_resistant));
            }
            Effect::LoadConfidence { topic } => {
                self.call(format!("confidence {topic}"), confidence(inference, topic));
            }
            Effect::LoadPastBundles { topic, limit } => {
                self.call(format!("past bundles {topic}"), past_bundles(inference, topic, limit));
            }
            Effect::OpenBundles { topic } => {
                let stream = follow_bundles(inference, topic, self.events.clone());
                self.start("bundles", stream);
            }
            Effect::LoadLeaderboard { topic } => {
                self.call(format!("leaderboard {topic}"), leaderboard(inference, topic));
            }
            Effect::LoadHistory { topic, limit } => {
                self.call(format!("history {topic}"), history(inference, topic, limit));
            }
            Effect::CloseBundles => self.drop_call("bundles"),
            effect => return Some(effect),
        }
        None
    }
}

async fn topics(service: Option<Inference>) -> Event {
    let what = "list the topics";
    let topics = ask(service, what, |service| async move { service.topics().await }).await;
    Event::Inference(InferenceEvent::Topics(topics))
}

async fn latest(service: Option<Inference>, topic: TopicId, is_resistant: bool) -> Event {
    let without = if is_resistant { " without outliers" } else { "" };
    let what = format!("read topic {topic}{without}");
    let read = |service: Inference| async move {
        if is_resistant {
            return service.latest_outlier_resistant(topic).await;
        }
        service.latest(topic).await
    };
    let result = ask(service, &what, read).await;
    Event::Inference(InferenceEvent::Latest { topic, is_resistant, result })
}

async fn confidence(service: Option<Inference>, topic: TopicId) -> Event {
    let what = format!("read the weights of topic {topic}");
    let read = |service: Inference| async move { service.latest_with_weights(topic).await };
    let result = ask(service, &what, read).await.map(Box::new);
    Event::Inference(InferenceEvent::Confidence { topic, result })
}

async fn past_bundles(service: Option<Inference>, topic: TopicId, limit: usize) -> Event {
    let what = format!("read the past bundles of topic {topic}");
    let read = |service: Inference| async move { service.past_bundles(topic, limit).await };
    let result = ask(service, &what, read).await;
    Event::Inference(InferenceEvent::PastBundles { topic, result })
}

/// Sends the bundles of a topic's stream, until there is no receiver.
async fn follow_bundles(service: Option<Inference>, topic: TopicId, events: mpsc::Sender<Event>) {
    let Some(service) = service else { return };
    let (sender, inbox) = mpsc::channel(NEWS_MAX);
    let arrived = |event: BundleEvent| {
        let news = event.map(std::convert::identity, |why| failure("follow the topic", &why));
        Event::Inference(InferenceEvent::Bundle { topic, news })
    };
    tokio::join!(bundles::follow(service, topic, sender), forward(inbox, events, arrived));
}

async fn leaderboard(service: Option<Inference>, topic: TopicId) -> Event {
    let what = format!("read the leaderboard of topic {topic}");
    let read =
        |service: Inference| async move { service.leaderboard(topic, LEADERBOARD_EPOCHS).await };
    Event::Inference(InferenceEvent::Leaderboard { topic, result: ask(service, &what, read).await })
}

async fn history(service: Option<Inference>, topic: TopicId, limit: usize) -> Event {
    let what = format!("read the past of topic {topic}");
    let result =
        ask(service, &what, |service| async move { service.history(topic, limit).await }).await;
    Event::Inference(InferenceEvent::History { topic, result })
}
