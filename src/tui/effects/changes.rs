//! Changes that forms request from the services: datasets, imports, topics and API keys.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::time::Duration;

use client::accounts::Accounts;
use client::datasets::Datasets;
use client::error::ClientError;
use client::inference::Inference;
use model::count::counted_short;
use model::dataset::Column;
use parking_lot::Mutex;
use stack::data_dir::project_dirs;
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use tokio::time::Instant;
use transfer::event::{Reporter, Work};
use transfer::import::{Import, ImportOptions, Imported};
use wire::datasets::UpdateDataset;

use crate::effects::services::ask;
use crate::effects::{Clients, expand_home};
use crate::event::{Event, Preparation, Prepared};
use crate::keymap::Action;
use crate::state::change::{Account, Change, Changed, DatasetEdit, Session};
use crate::state::resource::{Failure, Outcome};
use crate::widget::format;

/// Minimum time between two progress events of an import.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Maximum number of messages in the report of an import. The screen shows about as many.
const NOTES_MAX: usize = 100;

/// Returns the subject of the call that performs `change`. Only the same import again, or its end by
/// the user, cancels a call in progress.
pub(super) fn subject(change: &Change) -> String {
    match change {
        Change::Import { dataset, .. } => format!("{} {dataset:?}", change.what()),
        _ => format!("{} {:?}", change.what(), Instant::now()),
    }
}

/// Checks that the service accepts changes, and that the key owns the dataset. Returns the current
/// settings.
pub(super) async fn prepare(
    clients: Clients,
    Preparation { action, dataset, topic }: Preparation,
) -> Outcome<Prepared> {
    let what = match action {
        Action::CreateDataset => "create a dataset",
        Action::EditDataset => "change the dataset",
        Action::DeleteDataset => "delete the dataset",
        Action::Import => "import a file",
        Action::CreateTopic => "create a topic",
        Action::EditTopic => "change the topic",
        _ => "delete the topic",
    };
    let refused = |why: &str, next: &str| Err(Failure::new(what, why, next));
    let is_read_only = if action.is_on_topics() {
        ask(clients.inference.clone(), what, async |it| it.is_read_only().await).await?
    } else {
        ask(clients.datasets.clone(), what, async |it| it.is_read_only().await).await?
    };
    if is_read_only {
        return refused("the service is read-only", "use the service that it copies");
    }
    if let Some(dataset) = dataset {
        let access = async |it: Datasets| it.access(dataset, true).await;
        if !ask(clients.datasets.clone(), what, access).await?.is_owner {
            let next = "enter the key that created it";
            return refused("the API key does not own the dataset", next);
        }
    }
    let mut prepared = Prepared::default();
    if let (Action::EditDataset, Some(dataset)) = (action, dataset) {
        let service = clients.datasets;
        let tags = async |it: Datasets| it.dataset_tags(dataset).await;
        let tags = ask(service.clone(), what, tags).await?;
        prepared.tags = tags.into_iter().map(|tag| tag.name).collect();
        let columns = async |it: Datasets| it.columns(dataset).await;
        prepared.columns = ask(service, what, columns).await?;
        prepared.columns.retain(|column| !column.name.is_empty());
    }
    if let Some(topic) = topic {
        let settings = async |it: Inference| it.topic_settings(topic).await;
        prepared.settings = Some(Box::new(ask(clients.inference, what, settings).await?));
    }
    Ok(prepared)
}

pub(super) async fn perform(
    clients: Clients,
    change: &Change,
    events: mpsc::Sender<Event>,
) -> Outcome<Changed> {
    let (what, Clients { datasets, inference, accounts, .. }) = (&change.what(), clients);
    match change {
        Change::Import { .. } => {
            let service = datasets.ok_or_else(|| super::absent(what))?;
            import(&service, change, events).await
        }
        Change::CreateDataset(_) | Change::EditDataset(_) | Change::DeleteDataset { .. } => {
            ask(datasets, what, async |it| change_dataset(&it, change).await).await
        }
        Change::CreateTopic(_) | Change::EditTopic { .. } | Change::DeleteTopic { .. } => {
            ask(inference, what, async |it| change_topic(&it, change).await).await
        }
        Change::LogIn { .. }
        | Change::LogOut(_)
        | Change::CreateKey { .. }
        | Change::RevokeKey { .. } => {
            let changed = ask(accounts, what, async |it| change_keys(&it, change).await).await;
            // The advice of the client is about API keys.
            let next = match (change, changed.as_ref().err().and_then(|failure| failure.status)) {
                (_, Some(401)) => "log in again",
                (Change::LogIn { is_new: true, .. }, Some(403)) => {
                    "the operator opens it: triptych keys sign-up open"
                }
                _ => return changed,
            };
            changed.map_err(|failure| Failure { next: next.to_owned(), ..failure })
        }
    }
}

async fn change_dataset(service: &Datasets, change: &Change) -> Result<Changed, ClientError> {
    Ok(match change {
        Change::CreateDataset(body) => Changed::Dataset(service.create(body).await?.id),
        Change::EditDataset(edit) => {
            edit_dataset(service, edit).await?;
            Changed::Dataset(edit.dataset)
        }
        Change::DeleteDataset { dataset, .. } => {
            service.delete(*dataset).await?;
            Changed::Done
        }
        _ => Changed::Done,
    })
}

/// Applies `edit`: deletes columns, then renames, then adds them. If an earlier attempt failed, skips the
/// changes that it already made.
async fn edit_dataset(service: &Datasets, edit: &DatasetEdit) -> Result<(), ClientError> {
    let id = edit.dataset;
    if edit.update != UpdateDataset::default() {
        service.update(id, &edit.update).await?;
    }
    let mut names = BTreeSet::new();
    for Column { id: column, name, .. } in service.columns(id).await? {
        if edit.deleted_columns.iter().any(|deleted| deleted.id == column) {
            service.delete_column(id, &name).await?;
        } else {
            names.insert(name);
        }
    }
    for (name, new_name) in &edit.renamed_columns {
        if names.remove(name) {
            service.rename_column(id, name, new_name).await?;
            names.insert(new_name.clone());
        }
    }
    for (name, dtype) in &edit.added_columns {
        if names.insert(name.clone()) {
            service.add_column(id, name, *dtype).await?;
        }
    }
    let tags = service.dataset_tags(id).await?;
    let has = |name: &String| tags.iter().any(|tag| tag.name == *name);
    for tag in edit.added_tags.iter().filter(|tag| !has(tag)) {
        service.add_tag(id, tag).await?;
    }
    for tag in edit.removed_tags.iter().filter(|tag| has(tag)) {
        service.remove_tag(id, tag).await?;
    }
    Ok(())
}

async fn change_topic(service: &Inference, change: &Change) -> Result<Changed, ClientError> {
    Ok(match change {
        Change::CreateTopic(settings) => {
            let created = service.create_topic(settings).await?;
            created.id.parse().map_or(Changed::Done, Changed::Topic)
        }
        Change::EditTopic { topic, settings, active } => {
            if let Some([before, after]) = settings.as_deref() {
                service.edit_topic(*topic, before, after).await?;
            }
            if let Some(active) = active {
                service.set_active(*topic, *active).await?;
            }
            Changed::Topic(*topic)
        }
        Change::DeleteTopic { topic, .. } => {
            service.delete_topic(*topic).await?;
            Changed::Done
        }
        _ => Changed::Done,
    })
}

/// Begins or ends a session, or changes the keys of its account. Lists the keys then.
async fn change_keys(service: &Accounts, change: &Change) -> Result<Changed, ClientError> {
    let mut created = None;
    let session = match change {
        Change::LogIn { credentials, is_new } => {
            let cookie = service.log_in(credentials, *is_new).await?;
            Session { account: credentials.name.clone(), cookie }
        }
        Change::CreateKey { session, name } => {
            created = Some(Box::new(service.create_key(&session.cookie, name).await?));
            session.clone()
        }
        Change::RevokeKey { session, id, .. } => {
            service.revoke_key(&session.cookie, *id).await?;
            session.clone()
        }
        Change::LogOut(session) => {
            service.log_out(&session.cookie).await?;
            return Ok(Changed::Done);
        }
        _ => return Ok(Changed::Done),
    };
    let keys = service.keys(&session.cookie).await;
    // A new key is shown even if the list cannot be read, since it cannot be shown later.
    let keys = if created.is_some() { keys.unwrap_or_default() } else { keys? };
    Ok(Changed::Keys(Account { session, keys }, created))
}

/// Imports a file, and sends progress events.
async fn import(
    service: &Datasets,
    change: &Change,
    events: mpsc::Sender<Event>,
) -> Outcome<Changed> {
    let Change::Import { path, dataset, time, skips_bad } = change else {
        return Ok(Changed::Done);
    };
    let path = expand_home(path);
    let folder = project_dirs().ok().map(|it| it.data_local_dir().join("imports"));
    let mut options = ImportOptions::of_file(path.clone(), folder);
    options.dataset.clone_from(dataset);
    options.columns.time.clone_from(time);
    options.skips_bad = *skips_bad;
    let size = tokio::fs::metadata(path).await.ok().filter(Metadata::is_file);
    let progress = Progress { events, n_bytes: size.map(|it| it.len()), shown_at: None };
    let reporter = ImportReporter { progress, notes: Mutex::default() };
    let run = async {
        // It lists directories.
        let mut import = block_in_place(|| Import::open(&options, service, &reporter))?;
        let mut id = None;
        while let Some(Imported { title, dataset, report, .. }) = import.next_file().await? {
            id = dataset;
            reporter.note(&report.text(&title));
        }
        import.finish().map(|()| id)
    };
    match run.await {
        Ok(id) => Ok(Changed::Imported(id, reporter.notes.into_inner().join("\n"))),
        Err(error) => {
            // The last cause ends in a hint if there is one.
            let text = format!("{error:#}");
            let (why, next) = reason_and_advice(&text);
            // Imported files and skipped rows.
            let notes = reporter.notes.into_inner().join("; ");
            let before = if notes.is_empty() { notes } else { format!("; before: {notes}") };
            Err(Failure::new(change.what(), format!("{why}{before}"), next))
        }
    }
}

/// Flags of the command line in errors of an import, each with the advice that replaces it.
const ADVICE: [(&str, &str); 4] = [
    (
        "--split-by",
        "combine the parts of the time to one field, or use the command line: triptych datasets import --help",
    ),
    ("--time-column", "name the field with the timestamp in this form"),
    ("--skip-bad", "correct the row, or choose that bad rows are skipped"),
    ("--acquire", "acquire the tag of the dataset on the Data screen"),
];

/// Splits the text of an import's error into its reason and advice. Advice about flags of the command
/// line is replaced by advice about the form.
fn reason_and_advice(text: &str) -> (&str, &str) {
    let (why, hint) = text.split_once("\nhint: ").unwrap_or((text, ""));
    if !text.contains("--") {
        return (why, hint);
    }
    let before_flag = why.split_once("--").map(|(before, _)| before);
    let before_advice = before_flag.and_then(|before| {
        let [colon, semicolon] = [": ", "; "].map(|mark| before.rsplit_once(mark));
        let reasons = [colon, semicolon].into_iter().flatten().map(|(reason, _)| reason);
        reasons.max_by_key(|reason| reason.len())
    });
    let next = ADVICE.iter().find(|(flag, _)| text.contains(flag)).map_or(
        "correct the file, or describe it to the command line: triptych datasets import --help",
        |(_, next)| next,
    );
    (before_advice.unwrap_or(why), next)
}

/// Collects the messages of an import.
#[derive(Debug)]
struct ImportReporter {
    progress: Progress,
    notes: Mutex<Vec<String>>,
}

/// Progress of importing a file.
#[derive(Debug, Clone)]
struct Progress {
    events: mpsc::Sender<Event>,
    /// Size of the file, if it is known.
    n_bytes: Option<u64>,
    shown_at: Option<Instant>,
}

impl Reporter for ImportReporter {
    fn note(&self, text: &str) {
        let mut notes = self.notes.lock();
        if notes.len() == NOTES_MAX {
            notes.remove(0);
        }
        notes.push(text.to_owned());
    }

    fn begin(&self, _work: String, _n_rows: u64) -> Box<dyn Work> {
        Box::new(self.progress.clone())
    }
}

impl Work for Progress {
    fn update(&mut self, n_rows: u64, share: Option<f64>) {
        if self.shown_at.is_some_and(|at| at.elapsed() < PROGRESS_EVERY) {
            return;
        }
        self.shown_at = Some(Instant::now());
        let mut text = counted_short(n_rows, "row");
        if let Some(share) = share {
            text = format!("{text} · {:.0} %", 100.0 * share);
        }
        if let Some(n_bytes) = self.n_bytes {
            text = format!("{text} of {}", format::bytes(n_bytes));
        }
        // If the event loop is busy, a later event shows the progress.
        self.events.try_send(Event::Importing(text)).ok();
    }

    fn finish(self: Box<Self>, _n_rows: u64, _did: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, why: &str, next: &str) {
        assert_eq!(reason_and_advice(text), (why, next));
    }

    #[test]
    fn failed_import_gives_advice_about_the_form_instead_of_flags() {
        let time = "name the field with the timestamp in this form";
        check(
            "cannot import a.csv: no column with timestamps among a, b: name it with --time-column, and \
             its format with --time-format",
            "cannot import a.csv: no column with timestamps among a, b",
            time,
        );
        check(
            "unclear times of day in column at (9) next to day: write them as 09:30, or pass \
             --time-column day to only use the date",
            "unclear times of day in column at (9) next to day",
            time,
        );
        check(
            "line 7: invalid number `x`\nhint: correct the row, describe its values with --type, or \
             skip invalid rows with --skip-bad",
            "line 7: invalid number `x`",
            "correct the row, or choose that bad rows are skipped",
        );
        check(
            "unknown format of notes\nhint: pass --format csv, ndjson or parquet",
            "unknown format of notes",
            "correct the file, or describe it to the command line: triptych datasets import --help",
        );
        check("no such file\nhint: name another", "no such file", "name another");
    }
}
