//! Reads a dataset's log: the contents of each commit, as cacheable responses that never change.
//!
//! A response is exactly the requested range of commits: the one after `after`, or all up to `until`. A
//! request for future commits waits for them. The contents come from
//! [`recent_commits`](crate::recent_commits). If several services write the store, they also come from
//! its record of commits, as long as all their rows are unchanged. A reader that arrives later has to
//! read the rows again.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use formats::write::{Output, Writer};
use model::block::Block;
use model::dataset::{Column, DatasetId, PUBLIC_TAG};
use model::key::KeyId;
use tokio::select;
use tokio::time::{Instant, sleep_until};
use tsdb::catalog::{DatasetRef, TagFilter};
use tsdb::span::Span;
use tsdb::store::{Commit, Removal, Sight, Store, StoreError};

use crate::Datasets;
use crate::error::{Invalid, OperationError, Result};
use crate::hub::CommitWatch;
use crate::recent_commits::{COMMIT_BYTES_MAX, Lookup};

/// Maximum number of commits of a response. Caches share shorter responses better.
pub(crate) const COMMITS_MAX: u64 = 1000;

/// Maximum number of rows that are read from the store's record of commits: one insert.
const RECORDED_ROWS_MAX: usize = 100_000;

/// Maximum wait, below the default time-outs of proxies.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// Time limit between a commit and its record here. The record normally follows within microseconds. A
/// commit that is not recorded by then was made by another service.
const RECORDED_WITHIN: Duration = Duration::from_secs(1);

/// Query for a part of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogQuery {
    pub(crate) dataset: DatasetId,
    /// Last commit that the reader has. `None` requests the end of the log.
    pub(crate) after: Option<u64>,
    /// Last commit of the response. `None` for the first commit after `after`.
    pub(crate) until: Option<u64>,
    /// Era of the store that the reader knows, if it sent one.
    pub(crate) era: Option<u32>,
    pub(crate) wait: Duration,
}

/// Response to a [`LogQuery`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogAnswer {
    pub(crate) part: LogPart,
    /// True if every key can read the dataset, so that caches can share the response.
    pub(crate) is_public: bool,
}

/// Requested part of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogPart {
    /// The current end of the log.
    End(Vec<u8>),
    /// Commits, which never change.
    Commits(Vec<u8>),
    /// The commits did not arrive in time.
    Nothing,
}

/// State of the requested part.
enum Part {
    Ready(LogPart),
    /// Some of the commits do not exist yet.
    Later,
    /// Some of the commits are not recorded yet.
    Pending,
    Gone,
}

impl LogQuery {
    /// # Errors
    /// [`Invalid`] if the range is empty or too long.
    fn until(&self, after: u64) -> Result<u64, Invalid> {
        let until = self.until.unwrap_or_else(|| after.saturating_add(1));
        match until.checked_sub(after) {
            Some(1..=COMMITS_MAX) => Ok(until),
            _ => Err(format!("until must be 1 to {COMMITS_MAX} more than after").into()),
        }
    }
}

impl Datasets {
    /// Reads the part of the log that `query` selects, once it is complete. Cancel-safe.
    ///
    /// # Errors
    /// [`OperationError::NotFound`] if `key` does not see the dataset, [`OperationError::LogGone`]
    /// if the commits are no longer known, [`OperationError::FULL`] if there are too many readers.
    pub(crate) async fn read_log(&self, key: KeyId, query: LogQuery) -> Result<LogAnswer> {
        let dataset = query.dataset;
        let mut deadline = Instant::now() + query.wait;
        let mut is_pending = false;
        let mut watch: Option<CommitWatch> = None;
        loop {
            let sight = self.sight(key, DatasetRef::Id(dataset)).await?;
            let gone = OperationError::LogGone { revision: sight.revision, era: self.era };
            match self.read_part(&sight, query, watch.as_ref()).await? {
                Part::Ready(part) => return self.log_answer(&sight, part).await,
                Part::Gone => return Err(gone),
                Part::Pending if !is_pending => {
                    is_pending = true;
                    deadline = Instant::now() + RECORDED_WITHIN;
                }
                Part::Pending | Part::Later => {}
            }
            let Some(watch) = &mut watch else {
                // Commits from here on are recorded and wake this reader.
                self.recent_commits.begin(dataset, sight.revision);
                watch = Some(self.hub.watch(dataset).ok_or(OperationError::FULL)?);
                continue;
            };
            let known = if is_pending { watch.newest() } else { sight.revision };
            select! {
                _ = watch.wait_after(known) => {}
                () = sleep_until(deadline) => {
                    if is_pending {
                        return Err(gone);
                    }
                    return self.log_answer(&sight, LogPart::Nothing).await;
                }
                () = self.group.stopped() => {
                    return self.log_answer(&sight, LogPart::Nothing).await;
                }
            }
        }
    }

    /// Returns the response with `part`, which caches can share if the dataset is public, whether
    /// or not the key holds that tag.
    async fn log_answer(&self, sight: &Sight, part: LogPart) -> Result<LogAnswer> {
        let has_public = sight.matching_tags.iter().any(|tag| tag == PUBLIC_TAG);
        let filter = TagFilter::OfDataset(sight.dataset.id);
        let is_public = has_public || {
            let tags = self.read_store(move |store| store.tags(filter)).await?;
            tags.iter().any(|tag| tag.name == PUBLIC_TAG)
        };
        Ok(LogAnswer { part, is_public })
    }

    /// Returns the requested part, if it is complete. `watch` exists once the commits are being
    /// recorded.
    async fn read_part(
        &self,
        sight: &Sight,
        query: LogQuery,
        watch: Option<&CommitWatch>,
    ) -> Result<Part> {
        let Some(after) = query.after else {
            let end = || self.render_answer(query.dataset, None, sight.revision, &[]);
            return Ok(watch.map_or(Part::Later, |_| Part::Ready(LogPart::End(end()))));
        };
        let until = query.until(after)?;
        if query.era.is_some_and(|era| era != self.era) || after > sight.revision {
            return Ok(Part::Gone);
        }
        if until > sight.revision {
            return Ok(Part::Later);
        }
        // Read this first: commits are recorded before they are published.
        let is_published = watch.is_some_and(|watch| watch.newest() >= until);
        let known = self.recent_commits.look_up(query.dataset, after, until);
        let commits = match known {
            Lookup::Found(commits) => commits,
            Lookup::Pending | Lookup::Gone => {
                match self.read_recorded(sight, after, until).await? {
                    Some(commits) => commits,
                    None if known == Lookup::Pending && !is_published => return Ok(Part::Pending),
                    None => return Ok(Part::Gone),
                }
            }
        };
        if commits.iter().map(Bytes::len).sum::<usize>() > COMMIT_BYTES_MAX {
            let text = "the commits are too long for one response; lower until";
            return Err(Invalid::from(text).into());
        }
        let body = self.render_answer(query.dataset, Some(after), until, &commits);
        Ok(Part::Ready(LogPart::Commits(body)))
    }

    /// Reads commits of other services from the store's record. Caches commits that directly follow the
    /// cached ones. Returns `None` unless the store has all of them unchanged.
    async fn read_recorded(
        &self,
        sight: &Sight,
        after: u64,
        until: u64,
    ) -> Result<Option<Vec<Bytes>>> {
        if self.store.shared().is_none() {
            return Ok(None);
        }
        let dataset = sight.dataset.id;
        // The first of many readers that wait for the same commits reads them for all.
        let permit = self.catching_up.acquire().await.map_err(|_| StoreError::Closed)?;
        if let Lookup::Found(commits) = self.recent_commits.look_up(dataset, after, until) {
            return Ok(Some(commits));
        }
        let columns = sight.columns.clone();
        let read = move |store: &dyn Store| read_recorded(store, dataset, &columns, after..until);
        let found = self.read_store(read).await?;
        drop(permit);
        for (revision, body) in (after + 1..).zip(found.iter().flatten()) {
            self.recent_commits.record(dataset, revision, || body.to_vec());
        }
        Ok(found)
    }

    /// Records and publishes a commit that removed rows.
    pub(crate) fn record_removal(&self, dataset: DatasetId, revision: u64, removal: Removal) {
        self.recent_commits.record(dataset, revision, || render_removal(revision, removal));
        self.hub.publish(dataset, revision, Vec::new);
    }

    fn render_answer(
        &self,
        dataset: DatasetId,
        after: Option<u64>,
        revision: u64,
        commits: &[Bytes],
    ) -> Vec<u8> {
        let n_bytes: usize = commits.iter().map(|commit| commit.len() + 1).sum();
        let mut body = Vec::with_capacity(n_bytes + 128);
        body.extend_from_slice(format!("{{\"dataset_id\":{dataset},").as_bytes());
        body.extend_from_slice(format!("\"era\":\"{:08x}\",", self.era).as_bytes());
        if let Some(after) = after {
            body.extend_from_slice(format!("\"after\":{after},").as_bytes());
        }
        body.extend_from_slice(format!("\"revision\":{revision},\"commits\":[").as_bytes());
        for (idx, commit) in commits.iter().enumerate() {
            if idx > 0 {
                body.push(b',');
            }
            body.extend_from_slice(commit);
        }
        body.extend_from_slice(b"]}");
        body
    }
}

/// Reads and renders the commits after the start of `range` up to its end. Returns `None` unless
/// all of their rows are unchanged. Blocks.
fn read_recorded(
    store: &dyn Store,
    dataset: DatasetId,
    columns: &[Column],
    range: Range<u64>,
) -> Result<Option<Vec<Bytes>>, StoreError> {
    let n_commits = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let Some(shared) = store.shared() else { return Ok(None) };
    let commits = shared.commits(dataset, range.start, n_commits)?;
    let n_rows: u64 = commits.iter().map(|commit| commit.n_rows).sum();
    let n_rows = usize::try_from(n_rows).unwrap_or(usize::MAX);
    let Some(first) = commits.first().copied() else { return Ok(None) };
    // The record of a copied commit has neither rows nor a removal.
    let is_whole = commits.len() == n_commits
        && first.revision == range.start + 1
        && commits.iter().all(|commit| commit.has_same_columns)
        && commits.iter().all(|commit| commit.n_rows > 0 || commit.removal.is_some());
    if !is_whole || n_rows > RECORDED_ROWS_MAX {
        return Ok(None);
    }
    let since = if n_rows > 0 { store.since(dataset, first.first_row - 1, n_rows)? } else { None };
    // Row numbers have no gaps. A missing one was replaced or removed since.
    let mut row_idx = 0;
    let mut writer = Writer::new(dataset, columns);
    let mut found = Vec::with_capacity(commits.len());
    for Commit { revision, first_row, n_rows, removal, .. } in commits {
        if let Some(removal) = removal {
            found.push(Bytes::from(render_removal(revision, removal)));
            continue;
        }
        let end = row_idx + usize::try_from(n_rows).unwrap_or(usize::MAX);
        let Some(since) = &since else { return Ok(None) };
        let rows = since.rows.part(row_idx..end);
        if !rows.ids.iter().copied().eq(first_row..first_row.saturating_add_unsigned(n_rows)) {
            return Ok(None);
        }
        let body = render_commit(&mut writer, revision, &rows);
        if body.len() > COMMIT_BYTES_MAX {
            return Ok(None);
        }
        found.push(Bytes::from(body));
        row_idx = end;
    }
    Ok(Some(found))
}

/// Renders the contents of a commit: `{"revision":7,"rows":[…]}`, with flat rows.
pub(crate) fn render_commit(writer: &mut Writer, revision: u64, rows: &Block) -> Vec<u8> {
    let mut body = format!("{{\"revision\":{revision},\"rows\":[").into_bytes();
    writer.file_rows(&mut body, rows, Output::Json);
    body.extend_from_slice(b"]}");
    body
}

/// Renders a removal: `{"revision":7,"deleted":{"start":…,"end":…},"rows":[]}`, without `deleted`
/// if it pruned old rows.
fn render_removal(revision: u64, removal: Removal) -> Vec<u8> {
    let deleted = match removal {
        Removal::Span(Span { first, last }) => {
            format!("\"deleted\":{{\"start\":\"{first}\",\"end\":\"{last}\"}},")
        }
        Removal::Old => String::new(),
    };
    format!("{{\"revision\":{revision},{deleted}\"rows\":[]}}").into_bytes()
}
