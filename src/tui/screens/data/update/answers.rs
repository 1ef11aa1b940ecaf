//! Answers of the dataset service: notes how it does, then updates the screen.

use crate::{
    event::{Acquired, DataEvent, DatasetSearch, ExportNews, StreamEvent},
    screens::update::health::{note, note_stream},
    state::{State, loadable::Failure, services::Service},
    widget::format::{bytes, counted},
};

/// Handles an event of the dataset service.
pub(crate) fn on(state: &mut State, event: DataEvent) {
    if let Some(result) = event.outcome() {
        note(state, Service::Data, &result.map_err(Failure::clone), None);
    }
    match &event {
        DataEvent::Datasets { search, result: Ok(page) } if *search == DatasetSearch::ALL => {
            let names = page.datasets.iter().map(|dataset| dataset.name.clone());
            state.execute.form.set_datasets(names);
        }
        DataEvent::Export(ExportNews::Done { progress, path }) => {
            let n_rows = counted(progress.rows, "row");
            let n_bytes = bytes(progress.bytes);
            let text = format!("exported to {}", path.display());
            state.notify(text, format!("{n_rows}, {n_bytes}"));
        }
        DataEvent::Export(ExportNews::Failed(failure)) => state.notify_failure(failure),
        DataEvent::Acquired { tag, result } => match result {
            Ok(Acquired::Now) => state.notify(format!("tag {tag} acquired"), String::new()),
            Ok(Acquired::Already) => {
                state.notify(format!("tag {tag} is already held"), String::new());
            }
            Err(failure) => state.notify_failure(failure),
        },
        DataEvent::Stream { news: StreamEvent::Lost { why, .. }, .. } => {
            note_stream(state, Service::Data, Some(why));
        }
        DataEvent::Stream { .. } => note_stream(state, Service::Data, None),
        _ => {}
    }
    let now = state.now;
    state.data.on(event, now);
}
