//! Calls to the services, from the arguments of an effect to the event of its outcome.

use std::time::Duration;

use client::{
    datasets::{Datasets, DatasetsQuery, NamedRow, RowsPage, RowsQuery},
    error::ClientError,
    executions::{self, ClusterStreamEvent},
    functions::Functions,
    inference::{
        Inference,
        bundles::{self, BundleEvent},
    },
    stream::{
        StreamEvent,
        resume::{self, Repeats, ResumeFrom, RowEvent},
    },
};
use model::{dataset::DatasetId, topic::TopicId};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{absent, failure};
use crate::{
    event::{DataEvent, Event, InferenceEvent},
    state::{
        loadable::Failure,
        services::{PROBE_WITHIN, Service},
    },
};

/// The most datasets in the list; others are found by search.
const DATASETS_MAX: usize = 250;

/// Events of a stream that wait for the event loop. When it is full the stream waits, then its server.
const NEWS_MAX: usize = 16;

/// The epochs of a leaderboard: twenty minutes of the shortest ones, and more than a chart has
/// columns.
const LEADERBOARD_EPOCHS: u32 = 100;

/// The least time between two batches of rows: a burst wakes the loop 20 times a second, not a
/// thousand times.
const BATCH_EVERY: Duration = Duration::from_millis(50);

/// The most rows of a batch.
const BATCH_ROWS_MAX: usize = 1_000;

/// Calls `service`, if its address is known. `what` completes "failed to".
pub(super) async fn ask<S, T, F>(
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

pub(super) async fn pinned(service: Option<Datasets>, dataset: DatasetId) -> Event {
    let what = format!("read dataset {dataset}, which is pinned");
    let call = |service: Datasets| async move { service.dataset(dataset).await };
    let result = ask(service, &what, call).await.map(Box::new);
    Event::Data(DataEvent::Pinned { dataset, result })
}

/// Waits for `call`, a health check, for at most [`PROBE_WITHIN`].
pub(super) async fn probe(
    service: Service,
    call: impl Future<Output = Result<(), ClientError>> + Send,
) -> Event {
    let what = match service {
        Service::Head => "reach the head",
        Service::Data => "reach the dataset service",
        Service::Inference => "reach the inference service",
    };
    let started = Instant::now();
    let answer = timeout_at(started + PROBE_WITHIN, call).await.ok();
    let answer = answer.map(|result| result.map_err(|error| failure(what, &error)));
    Event::Probed { service, answer, latency: started.elapsed() }
}

pub(super) async fn nodes(head: Option<Functions>) -> Event {
    let started = Instant::now();
    let result = ask(head, "list the nodes", |head| async move { head.nodes().await }).await;
    Event::Nodes(result, started.elapsed())
}

pub(super) async fn functions(head: Option<Functions>) -> Event {
    Event::Functions(
        ask(head, "list the functions", |head| async move { head.functions().await }).await,
    )
}

/// Sends the events of the head's cluster, until there is no receiver. A head without such a stream
/// is not asked again.
pub(super) async fn cluster(head: Option<Functions>, events: mpsc::Sender<Event>) {
    let Some(head) = head else { return };
    let (sender, inbox) = mpsc::channel(NEWS_MAX);
    let happened = |event: ClusterStreamEvent| {
        Event::Cluster(event.map(Box::new, |why| failure("follow the cluster", &why)))
    };
    tokio::join!(executions::follow(head, sender), forward(inbox, events, happened));
}

/// Sends each event of `inbox` as `convert` makes it, until there is no receiver.
async fn forward<T>(
    mut inbox: mpsc::Receiver<T>,
    events: mpsc::Sender<Event>,
    convert: impl Fn(T) -> Event,
) {
    while let Some(event) = inbox.recv().await {
        if events.send(convert(event)).await.is_err() {
            return;
        }
    }
}

pub(super) async fn datasets(service: Option<Datasets>, search: String) -> Event {
    let query = DatasetsQuery { search: search.clone(), limit: Some(DATASETS_MAX), offset: 0 };
    let result =
        ask(service, "list the datasets", |service| async move { service.list(&query).await })
            .await;
    Event::Data(DataEvent::Datasets { search, result })
}

pub(super) async fn columns(service: Option<Datasets>, dataset: DatasetId) -> Event {
    let what = "list the columns";
    let result = ask(service, what, |service| async move { service.columns(dataset).await }).await;
    Event::Data(DataEvent::Columns { dataset, result })
}

pub(super) async fn filtered(service: Option<Datasets>, field: String, value: String) -> Event {
    let what = "filter the datasets";
    let search = |service: Datasets| {
        let (field, value) = (field.clone(), value.clone());
        async move { service.search(&field, &value, 0).await }
    };
    let result = ask(service, what, search).await;
    Event::Data(DataEvent::Filtered { field, value, result })
}

pub(super) async fn tags(service: Option<Datasets>, dataset: DatasetId) -> Event {
    let what = "list the tags";
    let tags = |service: Datasets| async move { service.dataset_tags(dataset).await };
    let result = ask(service, what, tags).await;
    let result = result.map(|tags| tags.into_iter().map(|tag| tag.name).collect());
    Event::Data(DataEvent::Tags { dataset, result })
}

pub(super) async fn rows(service: Option<Datasets>, query: RowsQuery) -> Event {
    Event::Data(DataEvent::Rows { query, result: page(service, query).await })
}

pub(super) async fn table(service: Option<Datasets>, query: RowsQuery) -> Event {
    Event::Data(DataEvent::Table { query, result: page(service, query).await })
}

async fn page(service: Option<Datasets>, query: RowsQuery) -> Result<RowsPage, Failure> {
    ask(service, "read rows", |service| async move { service.rows(&query).await }).await
}

pub(super) async fn acquire(service: Option<Datasets>, tag: String) -> Event {
    let what = format!("acquire the tag {tag}");
    let wanted = tag.clone();
    let acquire = |service: Datasets| async move { service.acquire_tag(&wanted).await };
    let result = ask(service, &what, acquire).await;
    Event::Data(DataEvent::Acquired { tag, result })
}

/// Sends the events of a dataset's stream, until there is no receiver.
pub(super) async fn stream(
    service: Option<Datasets>,
    dataset: DatasetId,
    events: mpsc::Sender<Event>,
) {
    let Some(service) = service else { return };
    let (sender, mut inbox) = mpsc::channel::<RowEvent>(NEWS_MAX);
    let send = async {
        let mut next = inbox.recv().await;
        while let Some(event) = next {
            let mut news = event.map(|batch| batch.rows, |why| failure("follow the dataset", &why));
            next = None;
            if let StreamEvent::Item(rows) = &mut news {
                next = fill_batch(rows, &mut inbox).await;
            }
            let event = Event::Data(DataEvent::Stream { dataset, news });
            if events.send(event).await.is_err() {
                return;
            }
            if next.is_none() {
                next = inbox.recv().await;
            }
        }
    };
    // A row has its place here, so that a correction of it is of use.
    let resume_from = ResumeFrom { repeats: Repeats::Give, ..ResumeFrom::default() };
    tokio::join!(resume::follow(service, dataset, resume_from, sender), send);
}

/// Adds rows until the batch is full or due; returns an event of another kind that ended it.
async fn fill_batch(
    rows: &mut Vec<NamedRow>,
    inbox: &mut mpsc::Receiver<RowEvent>,
) -> Option<RowEvent> {
    let deadline = Instant::now() + BATCH_EVERY;
    while rows.len() < BATCH_ROWS_MAX {
        match timeout_at(deadline, inbox.recv()).await {
            Ok(Some(StreamEvent::Item(more))) => rows.extend(more.rows),
            Ok(other) => return other,
            Err(_) => return None,
        }
    }
    None
}

pub(super) async fn topics(service: Option<Inference>) -> Event {
    let what = "list the topics";
    let topics = ask(service, what, |service| async move { service.topics().await }).await;
    Event::Inference(InferenceEvent::Topics(topics))
}

pub(super) async fn latest(service: Option<Inference>, topic: TopicId) -> Event {
    let what = format!("read topic {topic}");
    let result = ask(service, &what, |service| async move { service.latest(topic).await }).await;
    Event::Inference(InferenceEvent::Latest { topic, result })
}

pub(super) async fn resistant(service: Option<Inference>, topic: TopicId) -> Event {
    let what = format!("read topic {topic} without outliers");
    let read = |service: Inference| async move { service.latest_outlier_resistant(topic).await };
    let result = ask(service, &what, read).await;
    Event::Inference(InferenceEvent::Resistant { topic, result })
}

pub(super) async fn confidence(service: Option<Inference>, topic: TopicId) -> Event {
    let what = format!("read the weights of topic {topic}");
    let read = |service: Inference| async move { service.latest_with_weights(topic).await };
    let result = ask(service, &what, read).await.map(Box::new);
    Event::Inference(InferenceEvent::Confidence { topic, result })
}

pub(super) async fn past_bundles(
    service: Option<Inference>,
    topic: TopicId,
    limit: usize,
) -> Event {
    let what = format!("read the past bundles of topic {topic}");
    let read = |service: Inference| async move { service.past_bundles(topic, limit).await };
    let result = ask(service, &what, read).await;
    Event::Inference(InferenceEvent::PastBundles { topic, result })
}

/// Sends the bundles of a topic's stream, until there is no receiver.
pub(super) async fn bundles(
    service: Option<Inference>,
    topic: TopicId,
    events: mpsc::Sender<Event>,
) {
    let Some(service) = service else { return };
    let (sender, inbox) = mpsc::channel(NEWS_MAX);
    let arrived = |event: BundleEvent| {
        let news = event.map(std::convert::identity, |why| failure("follow the topic", &why));
        Event::Inference(InferenceEvent::Bundle { topic, news })
    };
    tokio::join!(bundles::follow(service, topic, sender), forward(inbox, events, arrived));
}

pub(super) async fn leaderboard(service: Option<Inference>, topic: TopicId) -> Event {
    let what = format!("read the leaderboard of topic {topic}");
    let read =
        |service: Inference| async move { service.leaderboard(topic, LEADERBOARD_EPOCHS).await };
    Event::Inference(InferenceEvent::Leaderboard { topic, result: ask(service, &what, read).await })
}

pub(super) async fn history(service: Option<Inference>, topic: TopicId, limit: usize) -> Event {
    let what = format!("read the past of topic {topic}");
    let result =
        ask(service, &what, |service| async move { service.history(topic, limit).await }).await;
    Event::Inference(InferenceEvent::History { topic, result })
}
