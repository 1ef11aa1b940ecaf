//! Writes a range of a dataset to a file, with events of its progress.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

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

/// Writes the rows of `query` to `path`. Dropped early, it leaves no file.
pub(super) async fn export(
    service: Option<Datasets>,
    query: DownloadQuery,
    path: PathBuf,
    events: mpsc::Sender<Event>,
) {
    let what = format!("export to {}", path.display());
    let written = match service {
        None => Err(absent(&what)),
        Some(service) => write(&service, &query, &path, &what, &events).await,
    };
    let news = match written {
        Ok(progress) => ExportNews::Done { progress, path },
        Err(failure) => ExportNews::Failed(failure),
    };
    events.send(Event::Data(DataEvent::Export(news))).await.ok();
}

async fn write(
    service: &Datasets,
    query: &DownloadQuery,
    path: &Path,
    what: &str,
    events: &mpsc::Sender<Event>,
) -> Result<Progress, Failure> {
    let refused = |error: ClientError| failure(what, &error);
    let unwritten = |error: io::Error| unwritten(what, &error);
    let mut file = DownloadFile::create(path).await.map_err(unwritten)?;
    let mut download = service.download(query).await.map_err(refused)?;
    let mut counter = RowCounter::new(query.output);
    let mut progress = Progress { total_rows: download.n_rows(), ..Progress::default() };
    let mut sent_at = Instant::now();
    while let Some(bytes) = download.next().await.map_err(refused)? {
        file.write(&bytes).await.map_err(unwritten)?;
        counter.count(&bytes);
        progress.bytes += bytes.len() as u64;
        progress.rows = counter.n_rows().unwrap_or(0);
        if sent_at.elapsed() >= PROGRESS_EVERY {
            sent_at = Instant::now();
            let news = ExportNews::Written(progress.clone());
            // Without a receiver this task is dropped soon.
            events.send(Event::Data(DataEvent::Export(news))).await.ok();
        }
    }
    progress.rows = counter.n_rows().or(download.n_rows()).unwrap_or(0);
    file.finish().await.map_err(unwritten)?;
    Ok(progress)
}

/// The failure of a file that cannot be written.
fn unwritten(what: &str, error: &io::Error) -> Failure {
    Failure::new(what, error.to_string(), "name another file")
}

/// Writes `text` to `path`, all of it or nothing.
pub(super) async fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let done = async {
        let mut file = DownloadFile::create(path).await?;
        file.write(text.as_bytes()).await?;
        file.finish().await
    };
    let what = format!("save to {}", path.display());
    done.await.map_err(|error| unwritten(&what, &error))
}
