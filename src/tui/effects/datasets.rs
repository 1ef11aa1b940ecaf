//! Calls to the dataset service: lists, rows, streams, exports.

use std::time::Duration;

use client::{
    datasets::{Datasets, DatasetsPage, DatasetsQuery, NamedRow, RowsPage, RowsQuery},
    error::ClientError,
    stream::{
        StreamEvent,
        resume::{self, Repeats, ResumeFrom, RowEvent},
    },
};
use model::dataset::{Dataset, DatasetId};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{
    Runner,
    calls::{NEWS_MAX, ask},
    export, failure,
};
use crate::{
    event::{DataEvent, DatasetSearch, Effect, Event},
    state::{loadable::Failure, pattern::Pattern},
};

/// Datasets in a page of the list.
const DATASETS_PAGE: usize = 250;

/// Maximum number of datasets in the list: 40 requests. Others are found by search.
const DATASETS_MAX: usize = 10_000;

/// The least time between two batches of rows: a burst wakes the loop 20 times a second, not a
/// thousand times.
const BATCH_EVERY: Duration = Duration::from_millis(50);

/// The most rows of a batch.
const BATCH_ROWS_MAX: usize = 1_000;

impl Runner {
    /// Performs an effect of this service; returns any other.
    pub(super) fn call_datasets(&mut self, effect: Effect) -> Option<Effect> {
        let service = self.clients.datasets.clone();
        match effect {
            Effect::LoadDatasets(search) => self.call("datasets", list(service, search)),
            Effect::LoadColumns { dataset } => {
                self.call(format!("columns {dataset}"), columns(service, dataset));
            }
            Effect::LoadRows(query) => {
                let subject = format!("rows {} {}", query.dataset, query.resolution);
                self.call(subject, rows(service, query));
            }
            Effect::LoadTags { dataset } => self.call("tags", tags(service, dataset)),
            Effect::LoadPinned { dataset } => {
                self.call(format!("pinned {dataset}"), pinned(service, dataset));
            }
            Effect::LoadTable(query) => self.call("table", table(service, query)),
            Effect::Export { query, path } => {
                let export = export::export(service, query, path, self.events.clone());
                self.start("export", export);
            }
            Effect::AcquireTag { tag } => self.call("tag", acquire(service, tag)),
            Effect::OpenStream { dataset } => {
                let stream = stream(service, dataset, self.events.clone());
                self.start(format!("stream {dataset}"), stream);
            }
            Effect::CloseStream { dataset } => self.drop_call(&format!("stream {dataset}")),
            Effect::DropTable => self.drop_call("table"),
            Effect::DropExport => self.drop_call("export"),
            effect => return Some(effect),
        }
        None
    }
}

async fn pinned(service: Option<Datasets>, dataset: DatasetId) -> Event {
    let what = format!("read dataset {dataset}, which is pinned");
    let call = |service: Datasets| async move { service.dataset(dataset).await };
    let result = ask(service, &what, call).await.map(Box::new);
    Event::Data(DataEvent::Pinned { dataset, result })
}

/// Lists the datasets of a search. The service searches for a single text. Other patterns are matched
/// here, against the names, descriptions and metadata of all datasets.
async fn list(service: Option<Datasets>, search: DatasetSearch) -> Event {
    let (wanted, pattern) = match &search {
        DatasetSearch::Text(typed) => match Pattern::parse(typed) {
            pattern if pattern.is_plain() => (search.clone(), None),
            pattern => (DatasetSearch::ALL, Some(pattern)),
        },
        DatasetSearch::Metadata(..) => (search.clone(), None),
    };
    let list = |service: Datasets| async move {
        let mut all = list_page(&service, &wanted, 0).await?;
        while all.has_more && all.datasets.len() < DATASETS_MAX {
            let page = list_page(&service, &wanted, all.datasets.len()).await?;
            if page.datasets.is_empty() {
                break;
            }
            all.has_more = page.has_more;
            all.n_datasets = page.n_datasets.or(all.n_datasets);
            all.datasets.extend(page.datasets);
        }
        if let Some(pattern) = pattern {
            all.datasets.retain(|it| matches(it, &pattern));
            all.n_datasets = None;
        }
        Ok(all)
    };
    let result = ask(service, "list the datasets", list).await;
    Event::Data(DataEvent::Datasets { search, result })
}

/// Returns true if the name, description or a field of `dataset` matches.
fn matches(dataset: &Dataset, pattern: &Pattern) -> bool {
    let fields = dataset.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    pattern.matches(&[&dataset.name, &dataset.description], &fields)
}

/// Lists datasets past the first `offset`.
async fn list_page(
    service: &Datasets,
    wanted: &DatasetSearch,
    offset: usize,
) -> Result<DatasetsPage, ClientError> {
    match wanted {
        DatasetSearch::Text(search) => {
            let search = search.clone();
            let query = DatasetsQuery { search, limit: Some(DATASETS_PAGE), offset };
            service.list(&query).await
        }
        DatasetSearch::Metadata(field, value) => service.search(field, value, offset).await,
    }
}

async fn columns(service: Option<Datasets>, dataset: DatasetId) -> Event {
    let what = "list the columns";
    let result = ask(service, what, |service| async move { service.columns(dataset).await }).await;
    Event::Data(DataEvent::Columns { dataset, result })
}

async fn tags(service: Option<Datasets>, dataset: DatasetId) -> Event {
    let what = "list the tags";
    let tags = |service: Datasets| async move { service.dataset_tags(dataset).await };
    let result = ask(service, what, tags).await;
    let result = result.map(|tags| tags.into_iter().map(|tag| tag.name).collect());
    Event::Data(DataEvent::Tags { dataset, result })
}

async fn rows(service: Option<Datasets>, query: RowsQuery) -> Event {
    Event::Data(DataEvent::Rows { query, result: page(service, query).await })
}

async fn table(service: Option<Datasets>, query: RowsQuery) -> Event {
    Event::Data(DataEvent::Table { query, result: page(service, query).await })
}

async fn page(service: Option<Datasets>, query: RowsQuery) -> Result<RowsPage, Failure> {
    ask(service, "read rows", |service| async move { service.rows(&query).await }).await
}

async fn acquire(service: Option<Datasets>, tag: String) -> Event {
    let what = format!("acquire the tag {tag}");
    let wanted = tag.clone();
    let acquire = |service: Datasets| async move { service.acquire_tag(&wanted).await };
    let result = ask(service, &what, acquire).await;
    Event::Data(DataEvent::Acquired { tag, result })
}

/// Sends the events of a dataset's stream, until there is no receiver.
async fn stream(service: Option<Datasets>, dataset: DatasetId, events: mpsc::Sender<Event>) {
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
