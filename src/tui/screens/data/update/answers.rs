//! Answers of the dataset service: notes how it does, then updates the screen.

use crate::{
    event::{Acquired, DataEvent, ExportNews, StreamEvent},
    screens::update::health::{note, note_stream},
    state::{State, services::Service},
    widget::format::counted,
};

/// Handles an event of the dataset service.
pub(crate) fn on(state: &mut State, event: DataEvent) {
    match &event {
        DataEvent::Datasets { search, result } => {
            if let Ok(page) = result
                && search.is_empty()
            {
                let names = page.datasets.iter().map(|dataset| dataset.name.clone());
                state.execute.form.set_datasets(names);
            }
            note(state, Service::Data, result, None);
        }
        DataEvent::Filtered { result, .. } => {
            note(state, Service::Data, result, None);
        }
        DataEvent::Columns { result, .. } => note(state, Service::Data, result, None),
        DataEvent::Rows { result, .. } | DataEvent::Table { result, .. } => {
            note(state, Service::Data, result, None);
        }
        // Not every service serves tags.
        DataEvent::Tags { .. }
        | DataEvent::Pinned { .. }
        | DataEvent::Export(ExportNews::Written(_)) => {}
        DataEvent::Export(ExportNews::Done { progress, path }) => {
            let n_rows = counted(progress.rows, "row");
            let n_bytes = crate::widget::format::bytes(progress.bytes);
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
    }
    let now = state.now;
    state.data.on(event, now);
}
