//! Calls to the services: requests, streams, health checks and exports.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::datasets::download::DownloadQuery;
use client::datasets::download_file::DownloadFile;
use client::datasets::row_counter::RowCounter;
use client::datasets::{Datasets, DatasetsPage};
use client::error::ClientError;
use client::executions;
use client::functions::Functions;
use client::stream::StreamEvent;
use client::stream::resume::{self, Repeats, ResumeFrom};
use model::dataset::PUBLIC_TAG;
use model::topic::BlockHeight;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use crate::effects::{
    Clients, Runner, absent, expand_home, failure, machine, send_order, unwritten,
};
use crate::event::{
    DataEvent, DatasetSearch, Effect, Event, ExportNews, ExportSize, InferenceEvent,
};
use crate::state::nodes::{GroupChange, NodeChange};
use crate::state::pattern::Pattern;
use crate::state::resource::Outcome;
use crate::state::services::{HeadId, PROBE_WITHIN, Service};

/// Maximum number of listed datasets, which takes 40 requests. A search finds the remaining datasets.
const DATASETS_MAX: usize = 10_000;

/// Minimum time between two batches of rows, so that a burst of rows wakes the event loop at most
/// 20 times per second.
const BATCH_EVERY: Duration = Duration::from_millis(50);

impl Runner {
    /// Performs `effect` if it concerns a head, otherwise returns it.
    pub(super) fn call_head(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::LoadNodes(id) => {
                let (head, started) = (self.clients.head(id), Instant::now());
                self.call(format!("nodes at {}", id.0), async move {
                    let nodes = ask(head, "list the nodes", async |it| it.nodes().await).await;
                    Event::Nodes(id, nodes, started.elapsed())
                });
            }
            Effect::ChangeNode(id, change) => {
                let name = format!("nodes {} at {}", change.peer_ids.join(" "), id.0);
                self.call(name, change_nodes(id, self.clients.head(id), change));
            }
            Effect::LoadFunctions(id) => self.request(
                "list the functions",
                self.clients.head(id),
                |it| async move { it.functions().await },
                move |result| Event::Functions(id, result),
            ),
            Effect::FollowCluster(id) => {
                let (sender, inbox) = mpsc::channel(1);
                let event = move |news: StreamEvent<_>| {
                    let news = news.map(Box::new, |why| failure("follow the cluster", &why));
                    Event::Cluster(id, news)
                };
                let stream = executions::follow(self.clients.head(id)?, sender);
                self.follow(format!("cluster of {}", id.0), stream, inbox, event);
            }
            Effect::AddFunction { head: id, path } => {
                let adding =
                    machine::add_function(Arc::clone(&self.local), self.clients.head(id), path);
                self.call("new function", async move { Event::FunctionAdded(id, adding.await) });
            }
            Effect::Execute(id, order) => {
                let (head, datasets) =
                    (self.clients.head(order.head), self.clients.datasets.clone());
                let events = self.call_events.clone();
                self.call(format!("run {}", id.0), async move {
                    let result = match head {
                        Some(head) => send_order(&head, datasets, id, *order, &events).await,
                        None => Err(absent("run the function")),
                    };
                    Event::Executed(id, result.map(Box::new))
                });
            }
            effect => return Some(effect),
        }
        None
    }

    /// Performs `effect` if it concerns the dataset service, otherwise returns it.
    pub(super) fn call_datasets(&mut self, effect: Effect) -> Option<Effect> {
        let service = self.clients.datasets.clone();
        match effect {
            Effect::LoadDatasets(search) => self.call("datasets", async move {
                let list = async |it| list(&it, &search).await;
                let result = ask(service, "list the datasets", list).await;
                DataEvent::Datasets { search, result }
            }),
            Effect::LoadColumns { dataset } => {
                self.call(format!("columns {dataset}"), async move {
                    let call = async |it: Datasets| it.columns(dataset).await;
                    let result = ask(service, "list the columns", call).await;
                    DataEvent::Columns { dataset, result }
                });
            }
            Effect::LoadRows(query) => {
                let subject = format!("rows {} {}", query.dataset, query.resolution);
                self.call(subject, async move {
                    let call = async |it: Datasets| it.rows(&query).await;
                    DataEvent::Rows { query, result: ask(service, "read rows", call).await }
                });
            }
            Effect::LoadTable(query) => self.call("table", async move {
                let call = async |it: Datasets| it.rows(&query).await;
                DataEvent::Table { query, result: ask(service, "read rows", call).await }
            }),
            Effect::LoadTags { dataset } => self.request(
                "list the tags",
                service,
                move |it| async move {
                    let tags = it.dataset_tags(dataset).await?;
                    Ok(tags.into_iter().map(|tag| tag.name).collect())
                },
                move |result| DataEvent::Tags { dataset, result }.into(),
            ),
            Effect::LoadPinned { dataset } => self.request(
                format!("read dataset {dataset}, which is pinned"),
                service,
                move |it| async move { it.dataset(dataset).await.map(Box::new) },
                move |result| DataEvent::Pinned { dataset, result }.into(),
            ),
            Effect::AcquireTag => self.request(
                format!("acquire the tag {PUBLIC_TAG}"),
                service,
                |it| async move { it.acquire_tag(PUBLIC_TAG).await },
                |result| DataEvent::Acquired(result).into(),
            ),
            Effect::Export { query, path } => {
                self.start("export", export(service, query, path, self.call_events.clone()));
            }
            Effect::OpenStream { dataset } => {
                let (sender, inbox) = mpsc::channel(1);
                // Repeated rows are delivered, since they can be corrections. The screen replaces
                // a row with the same timestamp.
                let from = ResumeFrom { repeats: Repeats::Deliver, ..ResumeFrom::default() };
                let stream = resume::follow(service?, dataset, from, sender);
                let event = move |news: StreamEvent<resume::RowBatch>| {
                    let failed = |why| failure("follow the dataset", &why);
                    let news = news.map(|batch| batch.rows, failed);
                    DataEvent::Stream { dataset, news }.into()
                };
                self.follow(format!("stream {dataset}"), stream, inbox, event);
            }
            Effect::CloseStream { dataset } => self.drop_call(&format!("stream {dataset}")),
            Effect::DropTable => self.drop_call("table"),
            Effect::DropExport => self.drop_call("export"),
            effect => return Some(effect),
        }
        None
    }

    /// Performs `effect` if it concerns the inference service, otherwise returns it.
    pub(super) fn call_inference(&mut self, effect: Effect) -> Option<Effect> {
        let service = self.clients.inference.clone();
        match effect {
            Effect::LoadTopics => self.request(
                "list the topics",
                service,
                |it| async move { it.topics().await },
                |result| InferenceEvent::Topics(result).into(),
            ),
            Effect::LoadLatest { topic, is_resistant } => self.request(
                format!(
                    "read topic {topic}{}",
                    if is_resistant { " without outliers" } else { "" }
                ),
                service,
                move |it| async move {
                    if is_resistant {
                        return it.latest_outlier_resistant(topic).await;
                    }
                    it.latest(topic).await
                },
                move |result| InferenceEvent::Latest { topic, is_resistant, result }.into(),
            ),
            Effect::LoadConfidence { topic } => self.request(
                format!("read the weights of topic {topic}"),
                service,
                move |it| async move { it.latest_with_weights(topic).await.map(Box::new) },
                move |result| InferenceEvent::Confidence { topic, result }.into(),
            ),
            Effect::LoadPastActors { topic, limit } => {
                self.request(
                    format!("read the past values of topic {topic}"),
                    service,
                    move |it| async move {
                        it.epoch_actors(topic, 0..=BlockHeight::MAX, None, limit).await
                    },
                    move |result| InferenceEvent::PastActors { topic, result }.into(),
                );
            }
            Effect::LoadHistory { topic, limit } => self.request(
                format!("read the past of topic {topic}"),
                service,
                move |it| async move { it.history(topic, limit).await },
                move |result| InferenceEvent::History { topic, result }.into(),
            ),
            Effect::LoadTopicSettings { topic } => self.request(
                format!("read the settings of topic {topic}"),
                service,
                move |it| async move { it.topic_settings(topic).await.map(Box::new) },
                move |result| InferenceEvent::Settings { topic, result }.into(),
            ),
            // The actors are ranked over the latest 100 epochs.
            Effect::LoadLeaderboard { topic } => self.request(
                format!("read the leaderboard of topic {topic}"),
                service,
                move |it| async move { it.leaderboard(topic, 100, None, None).await },
                move |result| InferenceEvent::Leaderboard { topic, result }.into(),
            ),
            Effect::LoadActor { topic, actor } => {
                let name = actor.clone();
                self.request(
                    format!("read the scores of an actor of topic {topic}"),
                    service,
                    move |it| async move {
                        it.leaderboard(topic, 100, None, Some(name.as_str())).await
                    },
                    move |result| InferenceEvent::Actor { topic, actor, result }.into(),
                );
            }
            effect => return Some(effect),
        }
        None
    }

    /// Checks the health of all services with an address.
    pub(super) fn probe(&mut self) {
        let Clients { heads, datasets, inference, .. } = self.clients.clone();
        for (idx, head) in heads.into_iter().enumerate() {
            if let Some(head) = head {
                let call = probe(Service::Head(HeadId(idx)), async move { head.health().await });
                self.call(format!("probe head {idx}"), call);
            }
        }
        if let Some(datasets) = datasets {
            let call = probe(Service::Data, async move { datasets.health().await });
            self.call("probe data", call);
        }
        if let Some(inference) = inference {
            let call = probe(Service::Inference, async move { inference.health().await });
            self.call("probe inference", call);
        }
    }

    /// Runs `stream` and forwards the items of `inbox` to the event loop, rows at most once per
    /// [`BATCH_EVERY`]. In between, rows are collected by the client, or by the server when
    /// buffers are full.
    fn follow<T: Send + 'static>(
        &mut self,
        subject: impl Into<String>,
        stream: impl Future<Output = ()> + Send + 'static,
        mut inbox: mpsc::Receiver<StreamEvent<T>>,
        event: impl Fn(StreamEvent<T>) -> Event + Send + Sync + 'static,
    ) {
        let events = self.call_events.clone();
        let forward = async move {
            while let Some(news) = inbox.recv().await {
                let event = event(news);
                let is_batch = matches!(event, Event::Data(DataEvent::Stream { .. }));
                if events.send(event).await.is_err() {
                    return;
                }
                if is_batch {
                    sleep(BATCH_EVERY).await;
                }
            }
        };
        self.start(subject, async move {
            tokio::join!(stream, forward);
        });
    }
}

/// Calls `service`. Fails if its address is unknown. `what` names the call in the failure, such as
/// `change the node`.
pub(super) async fn ask<S, T>(
    service: Option<S>,
    what: &str,
    call: impl AsyncFnOnce(S) -> Result<T, ClientError>,
) -> Outcome<T> {
    match service {
        Some(service) => call(service).await.map_err(|error| failure(what, &error)),
        None => Err(absent(what)),
    }
}

/// Waits for the health check `call`, at most for [`PROBE_WITHIN`].
async fn probe(
    service: Service,
    call: impl Future<Output = Result<(), ClientError>> + Send,
) -> Event {
    let what = match service {
        Service::Head(_) => "reach the head",
        Service::Data => "reach the dataset service",
        Service::Inference => "reach the inference service",
    };
    let started = Instant::now();
    let response = timeout_at(started + PROBE_WITHIN, call).await.ok();
    let response = response.map(|result| result.map_err(|error| failure(what, &error)));
    Event::Probed { service, response, latency: started.elapsed() }
}

/// Changes the nodes one after another. Stops if the head becomes unreachable.
async fn change_nodes(id: HeadId, head: Option<Functions>, change: NodeChange) -> Event {
    let (mut n_changed, mut failure) = (0, None);
    for peer_id in &change.peer_ids {
        let call =
            async |it: Functions| it.change_node(peer_id, change.patch, Duration::ZERO).await;
        let result = ask(head.clone(), "change the node", call).await;
        if change.group.is_none() {
            return Event::NodeChanged(id, result);
        }
        match result {
            Ok(_) => n_changed += 1,
            Err(why) => {
                let is_unreachable = why.status.is_none();
                failure.get_or_insert(why);
                if is_unreachable {
                    break;
                }
            }
        }
    }
    Event::GroupChanged(id, GroupChange { change, n_changed, failure })
}

/// Lists the datasets that `search` finds. The service can only search for a plain text, so other
/// patterns are matched here, against the names, descriptions and metadata of all datasets.
async fn list(service: &Datasets, search: &DatasetSearch) -> Result<DatasetsPage, ClientError> {
    let pattern = match search {
        DatasetSearch::Text(typed) => (!Pattern::is_plain(typed)).then(|| Pattern::parse(typed)),
        DatasetSearch::Metadata(..) => None,
    };
    let wanted = if pattern.is_some() { &DatasetSearch::ALL } else { search };
    let mut all = service.list_all(wanted, DATASETS_MAX).await?;
    if let Some(pattern) = pattern {
        all.datasets.retain(|it| {
            let fields = it.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            pattern.matches(&[&it.name, &it.description], &fields)
        });
        all.n_datasets = None;
    }
    Ok(all)
}

/// Writes the rows of `query` to `path` and sends progress events. If cancelled, leaves no file.
async fn export(
    service: Option<Datasets>,
    query: DownloadQuery,
    path: PathBuf,
    events: mpsc::Sender<Event>,
) {
    let what = format!("export to {}", path.display());
    let news = match DownloadFile::create(&expand_home(&path)).await {
        Ok(file) => match write(service, &query, file, &what, &events).await {
            Ok(progress) => ExportNews::Done { progress, path },
            Err(failure) => ExportNews::Failed(failure),
        },
        Err(error) => {
            let failure = unwritten(&what, &error);
            ExportNews::NotCreated { dataset: query.dataset, failure }
        }
    };
    events.send(DataEvent::Export(news).into()).await.ok();
}

async fn write(
    service: Option<Datasets>,
    query: &DownloadQuery,
    mut file: DownloadFile,
    what: &str,
    events: &mpsc::Sender<Event>,
) -> Outcome<ExportSize> {
    let service = service.ok_or_else(|| absent(what))?;
    let refused = |error: ClientError| failure(what, &error);
    let unwritten = |error: io::Error| unwritten(what, &error);
    let mut download = service.download(query).await.map_err(refused)?;
    let mut counter = RowCounter::new(query.output);
    let mut progress = ExportSize { total_rows: download.n_rows(), ..ExportSize::default() };
    let mut sent_at = Instant::now();
    while let Some(bytes) = download.next().await.map_err(refused)? {
        file.write(&bytes).await.map_err(unwritten)?;
        counter.count(&bytes);
        progress.bytes += bytes.len() as u64;
        progress.rows = counter.n_rows().unwrap_or(0);
        // The screen gets a progress event at most five times per second.
        if sent_at.elapsed() >= Duration::from_millis(200) {
            sent_at = Instant::now();
            let news = ExportNews::Written(progress.clone());
            events.send(DataEvent::Export(news).into()).await.ok();
        }
    }
    progress.rows = counter.n_rows().or(download.n_rows()).unwrap_or(0);
    file.finish().await.map_err(unwritten)?;
    Ok(progress)
}
