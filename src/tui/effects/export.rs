//! Writes a range of a dataset to a file, and tells how far it is.

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
    event::{DataEvent, Event, ExportNews},
    state::{data::export::Progress, loadable::Failure},
};

/// How often it is told how far it is.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Why an export ended early.
enum Broken {
    Service(ClientError),
    File(io::Error),
    /// Nobody wants it any more.
    Unwanted,
}

impl From<ClientError> for Broken {
    fn from(error: ClientError) -> Self {
        Self::Service(error)
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// Writes what `query` names to `path`. Dropped, nothing is left of it.
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
            Err(Broken::Service(error)) => ExportNews::Failed(failure(&what, &error)),
            Err(Broken::File(error)) => ExportNews::Failed(Failure {
                what,
                why: error.to_string(),
                next: "name another file".to_owned(),
                ..Failure::default()
            }),
            Err(Broken::Unwanted) => return,
        },
    };
    events.send(Event::Data(DataEvent::Export(news))).await.ok();
}

async fn write(
    service: &Datasets,
    query: &DownloadQuery,
    path: &std::path::Path,
    events: &mpsc::Sender<Event>,
) -> Result<Progress, Broken> {
    let mut file = DownloadFile::create(path).await?;
    let mut download = service.download(query).await?;
    let mut counter = RowCounter::new(query.output);
    let mut progress = Progress { n_all: download.n_rows(), ..Progress::default() };
    let mut told_at = Instant::now();
    while let Some(bytes) = download.next().await? {
        file.write(&bytes).await?;
        counter.count(&bytes);
        progress.n_bytes += bytes.len() as u64;
        progress.n_rows = counter.n_rows().unwrap_or(0);
        if told_at.elapsed() >= TELL_EVERY {
            told_at = Instant::now();
            let news = ExportNews::Written(progress.clone());
            let event = Event::Data(DataEvent::Export(news));
            events.send(event).await.map_err(|_| Broken::Unwanted)?;
        }
    }
    progress.n_rows = counter.n_rows().or(download.n_rows()).unwrap_or(0);
    file.finish().await?;
    Ok(progress)
}

/// Writes `text` to `path`: all of it, or nothing.
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
