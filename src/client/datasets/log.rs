//! The log of a dataset: what each commit stored, in answers that caches can keep.

use std::time::Duration;

use model::{dataset::DatasetId, timestamp::Timestamp};
use wire::{
    datasets::{LogCommit, RowLog},
    paths,
};

use super::{Datasets, NamedRow, convert};
use crate::{error::ClientError, transport::ANSWER_WITHIN};

/// Which commits to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogQuery {
    /// Of which dataset.
    pub dataset: DatasetId,
    /// The last commit that is known; `None` to learn where the log ends.
    pub after: Option<u64>,
    /// The last commit to read, at most 1 000 later; `None` for the next one.
    pub until: Option<u64>,
    /// [`LogPage::era`] of an earlier answer.
    pub era: Option<String>,
    /// How long the service waits for the commits, in whole seconds.
    pub wait: Duration,
}

/// Commits without gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct LogPage {
    /// The life of the service's store, to be sent back.
    pub era: String,
    /// What to ask [`LogQuery::after`] next.
    pub revision: u64,
    /// The commits, in their order.
    pub commits: Vec<Commit>,
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// The number of the commit in its dataset, counting from 1.
    pub revision: u64,
    /// The first and the last timestamp of the rows that it deleted, if it did.
    pub deleted: Option<(Timestamp, Timestamp)>,
    /// The rows that it stored, each in the place of the one with its timestamp.
    pub rows: Vec<NamedRow>,
}

impl Datasets {
    /// Reads commits of a dataset; `None` if they did not come in time: ask again after a second, or
    /// with another wait, since a cache may repeat that answer. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 410 if the commits are not known any more: learn where the
    /// log ends, read the rows again, and go on from there.
    pub async fn log(&self, query: &LogQuery) -> Result<Option<LogPage>, ClientError> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let pairs = (
            ("dataset", query.dataset.to_string()),
            ("after", number(query.after)),
            ("until", number(query.until)),
            ("era", &query.era),
            ("wait", query.wait.as_secs()),
        );
        let call = self.transport.get(paths::ROWS_LOG).query(&pairs);
        let body = call.within(Some(ANSWER_WITHIN + query.wait)).bytes().await?;
        if body.is_empty() {
            return Ok(None);
        }
        let what = "a log of rows";
        let RowLog { era, revision, commits, .. } = crate::transport::parse(&body, what)?;
        Ok(Some(LogPage { era, revision, commits: convert(commits, what)? }))
    }
}

impl TryFrom<LogCommit> for Commit {
    type Error = ClientError;

    fn try_from(body: LogCommit) -> Result<Self, Self::Error> {
        let time = |text: &str| text.parse().map_err(|error| ClientError::shape("a commit", error));
        let deleted = match &body.deleted {
            Some(span) => Some((time(&span.start)?, time(&span.end)?)),
            None => None,
        };
        let rows = body.rows.into_iter().map(NamedRow::try_from).collect::<Result<_, _>>()?;
        Ok(Self { revision: body.revision, deleted, rows })
    }
}
