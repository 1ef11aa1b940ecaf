//! Writes a range of a dataset to a file, with events of its progress.

use std::{io, path::PathBuf, time::Duration};

use client::{
    datasets::{
        Datasets, download::DownloadQuery, download_file::DownloadFile, row_counter::RowCounter,
    },
    error::ClientError,
};
use tokio::{sync::mpsc, time::Instant};

use super::{absent, failure};
use crate::{
    event::{DataEvent, Event, ExportNews, Progress},
    state::loadable::Failure,
};

/// The least time between two events of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Why an export ended early.
enum ExportError {
    Service(ClientError),
    File(io::Error),
    /// There is no receiver of events any more.
    Cancelled,
}

impl From<ClientError> for ExportError {
    fn from(error: ClientError) -> Self {
        Self::Service(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// Writes the rows of `query` to `path`. Dropped early, it leaves no file.
pub(super) async fn export(
    service: Option<Datasets>,
    query: DownloadQuery,
    path: PathBuf,
    events: mpsc::Sender<Event>,
) {
    let what = format!("export to {}", path.display());
    let news = match service {
        None => ExportNews::Failed(absent(&what)),
        Some(service) => match write(&service, &query, &path, &events).await {
            Ok(progress) => ExportNews::Done { progress, path },
            Err(ExportError::Service(error)) => ExportNews::Failed(failure(&what, &error)),
            Err(ExportError::File(error)) => ExportNews::Failed(Failure {
                what,
                why: error.to_string(),
                next: "name another file".to_owned(),
                ..Failure::default()
            }),
            Err(ExportError::Cancelled) => return,
        },
    };
    events.send(Event::Data(DataEvent::Export(news))).await.ok();
}

async fn write(
    service: &Datasets,
    query: &DownloadQuery,
    path: &std::path::Path,
    events: &mpsc::Sender<Event>,
) -> Result<Progress, ExportError> {
    let mut file = DownloadFile::create(path).await?;
    let mut download = service.download(query).await?;
    let mut counter = RowCounter::new(query.output);
    let mut progress = Progress { total_rows: download.n_rows(), ..Progress::default() };
    let mut sent_at = Instant::now();
    while let Some(bytes) = download.next().await? {
        file.write(&bytes).await?;
        counter.count(&bytes);
        progress.bytes += bytes.len() as u64;
        progress.rows = counter.n_rows().unwrap_or(0);
        if sent_at.elapsed() >= PROGRESS_EVERY {
            sent_at = Instant::now();
            let news = ExportNews::Written(progress.clone());
            let event = Event::Data(DataEvent::Export(news));
            events.send(event).await.map_err(|_| ExportError::Cancelled)?;
        }
    }
    progress.rows = counter.n_rows().or(download.n_rows()).unwrap_or(0);
    file.finish().await?;
    Ok(progress)
}

/// Writes `text` to `path`, all of it or nothing.
pub(super) async fn save(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    let done = async {
        let mut file = DownloadFile::create(path).await?;
        file.write(text.as_bytes()).await?;
        file.finish().await
    };
    done.await.map_err(|error: io::Error| Failure {
        what: format!("save to {}", path.display()),
        why: error.to_string(),
        next: "name another file".to_owned(),
        ..Failure::default()
    })
}
