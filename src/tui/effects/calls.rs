//! Each call to a service, from the arguments of an effect to the event that answers it.

use client::{
    datasets::{Datasets, DatasetsQuery, RowsQuery},
    error::ClientError,
    functions::Functions,
    inference::Inference,
    stream::{self, StreamEvent},
};
use model::{dataset::DatasetId, topic::TopicId};
use tokio::{sync::mpsc, time::Instant};
use wire::functions::ExecuteRequest;

use super::{absent, failure};
use crate::{
    event::{DataEvent, Event, InferenceEvent, StreamNews},
    state::{loadable::Failure, runs::RunId},
};

/// Datasets in the list. Who has more searches.
const DATASETS_MAX: usize = 250;

/// News of a stream on their way to the loop. Full, the stream waits, and its server in turn.
const NEWS_MAX: usize = 16;

/// Asks `service` for something, if it is there, and words what fails.
async fn ask<S, T, F>(
    service: Option<S>,
    what: &str,
    call: impl FnOnce(S) -> F + Send,
) -> Result<T, Failure>
where
    S: Send,
    T: Send,
    F: Future<Output = Result<T, ClientError>> + Send,
{
    match service {
        Some(service) => call(service).await.map_err(|error| failure(what, &error)),
        None => Err(absent(what)),
    }
}

pub(super) async fn nodes(head: Option<Functions>) -> Event {
    let begun = Instant::now();
    let result = ask(head, "list the nodes", |head| async move { head.nodes().await }).await;
    Event::Nodes(result, begun.elapsed())
}

pub(super) async fn functions(head: Option<Functions>) -> Event {
    Event::Functions(
        ask(head, "list the functions", |head| async move { head.functions().await }).await,
    )
}

pub(super) async fn execute(
    head: Option<Functions>,
    id: RunId,
    request: Box<ExecuteRequest>,
) -> Event {
    let what = format!("run {}", request.method);
    let result = ask(head, &what, |head| async move { head.execute(&request).await }).await;
    Event::Executed(id, result.map(Box::new))
}

pub(super) async fn datasets(service: Option<Datasets>, search: String) -> DataEvent {
    let query = DatasetsQuery { search: search.clone(), limit: Some(DATASETS_MAX), offset: 0 };
    let result =
        ask(service, "list the datasets", |service| async move { service.list(&query).await })
            .await;
    DataEvent::Datasets { search, result }
}

pub(super) async fn columns(service: Option<Datasets>, dataset: DatasetId) -> DataEvent {
    let what = "list the columns";
    let result = ask(service, what, |service| async move { service.columns(dataset).await }).await;
    DataEvent::Columns { dataset, result }
}

pub(super) async fn rows(service: Option<Datasets>, query: RowsQuery) -> DataEvent {
    let result =
        ask(service, "read rows", |service| async move { service.rows(&query).await }).await;
    DataEvent::Rows { query, result }
}

pub(super) async fn acquire(service: Option<Datasets>, tag: String) -> DataEvent {
    let what = format!("acquire the tag {tag}");
    let wanted = tag.clone();
    let acquire = |service: Datasets| async move { service.acquire_tag(&wanted).await };
    let result = ask(service, &what, acquire).await;
    DataEvent::Acquired { tag, result }
}

/// Follows a dataset and tells of it, until nobody listens.
pub(super) async fn stream(
    service: Option<Datasets>,
    dataset: DatasetId,
    events: mpsc::Sender<Event>,
) {
    let Some(service) = service else { return };
    let (sender, mut inbox) = mpsc::channel(NEWS_MAX);
    let tell = async {
        while let Some(event) = inbox.recv().await {
            let event = Event::Data(DataEvent::Stream { dataset, news: news(event) });
            if events.send(event).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(stream::follow(service, dataset, sender), tell);
}

fn news(event: StreamEvent) -> StreamNews {
    match event {
        StreamEvent::Connected => StreamNews::Connected,
        StreamEvent::Rows(rows) => StreamNews::Rows(rows),
        StreamEvent::Heartbeat => StreamNews::Heartbeat,
        StreamEvent::Lost { why, retry_in } => {
            StreamNews::Lost { why: failure("follow the dataset", &why), retry_in }
        }
    }
}

pub(super) async fn topics(service: Option<Inference>) -> InferenceEvent {
    let what = "list the topics";
    InferenceEvent::Topics(
        ask(service, what, |service| async move { service.topics().await }).await,
    )
}

pub(super) async fn latest(service: Option<Inference>, topic: TopicId) -> InferenceEvent {
    let what = format!("read topic {topic}");
    let result = ask(service, &what, |service| async move { service.latest(topic).await }).await;
    InferenceEvent::Latest { topic, result }
}

pub(super) async fn history(
    service: Option<Inference>,
    topic: TopicId,
    limit: usize,
) -> InferenceEvent {
    let what = format!("read the past of topic {topic}");
    let result =
        ask(service, &what, |service| async move { service.history(topic, limit).await }).await;
    InferenceEvent::History { topic, result }
}
