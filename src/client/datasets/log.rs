//! The log of a dataset: the rows of each commit, in cacheable responses.

use std::time::Duration;

use model::dataset::DatasetId;
use model::timestamp::Timestamp;
use wire::datasets::{LogCommit, RowLog};
use wire::paths;

use super::{Datasets, NamedRow, convert};
use crate::error::ClientError;
use crate::transport::ANSWER_WITHIN;

/// Parameters of a part of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogQuery {
    /// The dataset.
    pub dataset: DatasetId,
    /// The last commit that the reader has. `None` to find the end of the log.
    pub after: Option<u64>,
    /// The last commit to read, at most 1 000 after `after`. `None` for the next commit.
    pub until: Option<u64>,
    /// [`LogPage::era`] of an earlier response.
    pub era: Option<String>,
    /// Time that the service waits for the commits, in whole seconds.
    pub wait: Duration,
}

/// Consecutive commits.
#[derive(Debug, Clone, PartialEq)]
pub struct LogPage {
    /// Identifies the service's store, to be sent with later requests.
    pub era: String,
    /// Value of [`LogQuery::after`] for the next request.
    pub revision: u64,
    /// Commits in order.
    pub commits: Vec<Commit>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// Number of the commit in its dataset, starting at 1.
    pub revision: u64,
    /// First and last timestamp of the deleted rows, if it deleted any.
    pub deleted: Option<(Timestamp, Timestamp)>,
    /// Stored rows. They replace rows with the same timestamp.
    pub rows: Vec<NamedRow>,
}

impl Datasets {
    /// Reads commits of a dataset. Returns `None` if they did not happen in time. In this case repeat
    /// the request after a second or with another wait, since a cache can repeat the response.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 410 if the commits are no longer available. Find the end of
    /// the log, read the rows again and continue from there.
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
