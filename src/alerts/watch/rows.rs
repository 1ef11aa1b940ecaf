//! Reads the rows of a dataset: first those that rules on changes need from before the watch, then the
//! stream.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use client::datasets::{Datasets, NamedRow, RowsQuery};
use client::error::ClientError;
use client::stream::resume::{self, BatchKind, ResumeFrom};
use futures::future::ready;
use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::page::{self, Limit};
use model::resolution::Resolution;
use model::row::Value;
use model::timestamp::Timestamp;
use task::clock::Clock;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Attempts, EVENTS_CAPACITY, FactSource, RETRY};
use crate::state::{Fact, Point};

/// Maximum number of rows, and of requests, with which the spans of rules on changes are filled when
/// a watch starts. A request returns up to 10 000 rows.
const HISTORY_MAX: (usize, usize) = (100_000, 400);

/// Values of a dataset that the rules need.
#[derive(Default)]
pub(super) struct ColumnNeeds {
    /// Names of the columns. Empty if only the arrival of rows is needed.
    pub(super) names: BTreeSet<String>,
    /// Longest span of the rules on changes.
    pub(super) within: Duration,
}

impl FactSource {
    /// Sends the rows of a dataset, and its deletions, until the receiver is dropped.
    pub(super) async fn follow_rows(&self, datasets: &Datasets, name: &str, needs: &ColumnNeeds) {
        let stream = format!("the stream of dataset {name}");
        let mut attempts = Attempts::default();
        let mut changes = true;
        // After a dataset was deleted, a new dataset can have its name.
        loop {
            let (id, rows) = self.find(datasets, name, needs, &mut attempts).await;
            let unusable =
                self.check_columns(datasets, id, name, &needs.names, &mut attempts).await;
            let usable = self.of_rules(|it| it.column().is_none_or(|it| !unusable.contains(it)));
            let newest = rows.iter().map(|row| row.timestamp).max();
            let points = points_of(&rows, &needs.names, Clock::system().now());
            let history = Fact::History { dataset: name.to_owned(), points };
            if self.facts.send(history).await.is_err() {
                return;
            }
            let (sender, received) = mpsc::channel(EVENTS_CAPACITY);
            let resume_from = ResumeFrom { newest, changes, ..ResumeFrom::default() };
            let follow = resume::follow(datasets.clone(), id, resume_from, sender);
            let mut checks =
                Attempts { reported: attempts.reported.clone(), ..Attempts::default() };
            let read = usable.read(received, &stream, &mut attempts, |batch| {
                let dataset = name.to_owned();
                ready(vec![Ok(match batch.kind {
                    BatchKind::Rows | BatchKind::Corrections => {
                        let points = points_of(&batch.rows, &needs.names, Clock::system().now());
                        Fact::Rows { dataset, points }
                    }
                    BatchKind::Deletion { start, end } => {
                        let start = start.map_or(i64::MIN, Timestamp::micros);
                        Fact::Deletion { dataset, micros: start..=end.micros() }
                    }
                })])
            });
            // A column that a rule needs can be added later.
            let repaired = async {
                loop {
                    sleep(RETRY.1).await;
                    let columns = &needs.names;
                    let left = self.check_columns(datasets, id, name, columns, &mut checks).await;
                    if left != unusable {
                        return;
                    }
                }
            };
            let refusal = tokio::select! {
                () = follow => None,
                why = read => why,
                () = repaired, if !unusable.is_empty() => continue,
            };
            if let Some(why) = refusal {
                if changes && resume::refuses_changes(&why) {
                    changes = false;
                    let text = format!(
                        "the service does not send the deletions of dataset {name}: rules still use \
                         deleted rows"
                    );
                    self.report_once(text, &mut attempts).await;
                    continue;
                }
                let text = format!("lost {stream}: {}", why.why());
                self.report_outage_once(text, &mut attempts).await;
            }
            sleep(attempts.backoff.next_wait()).await;
        }
    }

    /// Finds a dataset by its id or name, and reads the rows that the rules need at the start. Repeats
    /// this until the dataset exists and the service responds.
    async fn find(
        &self,
        datasets: &Datasets,
        name: &str,
        needs: &ColumnNeeds,
        attempts: &mut Attempts,
    ) -> (DatasetId, Vec<NamedRow>) {
        loop {
            let problem = match datasets.find_by_id_or_name(name).await {
                Ok(Some(dataset)) => {
                    match self.read_history(datasets, &dataset, needs.within, attempts).await {
                        Ok(rows) => return (dataset.id, rows),
                        Err(error) => format!("cannot read dataset {name}: {}", error.why()),
                    }
                }
                Ok(None) => format!("no dataset {name} is visible to this key"),
                Err(error) => format!("cannot find dataset {name}: {}", error.why()),
            };
            self.report_outage_once(problem, attempts).await;
            sleep(attempts.backoff.next_wait()).await;
        }
    }

    /// Reports columns of rules that the dataset does not have or that have no numbers, and returns
    /// them.
    async fn check_columns(
        &self,
        datasets: &Datasets,
        id: DatasetId,
        name: &str,
        columns: &BTreeSet<String>,
        attempts: &mut Attempts,
    ) -> BTreeSet<String> {
        if columns.is_empty() {
            return BTreeSet::new();
        }
        match datasets.columns(id).await {
            Ok(existing) => {
                let problems = column_problems(columns, &existing, name);
                for (column, problem) in &problems {
                    let source = self.of_rules(|it| it.column() == Some(column));
                    source.report_outage_once(problem.clone(), attempts).await;
                }
                problems.into_keys().collect()
            }
            Err(error) => {
                let problem = format!("cannot read the columns of dataset {name}: {}", error.why());
                self.report_once(problem, attempts).await;
                BTreeSet::new()
            }
        }
    }

    /// Reads the latest rows of a dataset and the rows within `within` of the latest row, as far as
    /// [`HISTORY_MAX`] allows. Can also return some earlier rows, and returns fewer rows if a later
    /// request fails.
    ///
    /// # Errors
    /// If the latest rows cannot be read.
    async fn read_history(
        &self,
        datasets: &Datasets,
        dataset: &Dataset,
        within: Duration,
        attempts: &mut Attempts,
    ) -> Result<Vec<NamedRow>, ClientError> {
        let name = &dataset.name;
        let newest = |n_rows| RowsQuery::newest(dataset.id, Resolution::Raw, Limit::clamp(n_rows));
        let mut rows = datasets.rows(&newest(page::REPLAY_ROWS)).await?.rows.into_rows();
        let start = rows.first().map(|row| row.timestamp - within);
        let mut next = rows.last().map(|row| row.timestamp);
        let mut n_requests = 0;
        while let Some(before) = next.filter(|before| Some(*before) > start) {
            if rows.len() >= HISTORY_MAX.0 || n_requests == HISTORY_MAX.1 {
                let problem = format!("rows of dataset {name} before {before} are ignored");
                self.report_once(problem, attempts).await;
                break;
            }
            // Only a cursor: with both bounds, services limit the time range.
            let query = RowsQuery { after: Some(before), ..newest(page::ROWS_MAX) };
            match datasets.rows(&query).await {
                Ok(page) => {
                    next = page.next;
                    rows.extend(page.rows.into_rows());
                }
                Err(error) => {
                    let why = error.why();
                    let problem =
                        format!("cannot read rows of dataset {name} before {before}: {why}");
                    self.report_once(problem, attempts).await;
                    break;
                }
            }
            n_requests += 1;
        }
        Ok(rows)
    }
}

/// Returns the values in `columns` of rows that arrived at `now`.
///
/// A timestamp in the future is replaced by `now`. Otherwise, after a single wrong timestamp, rules
/// would ignore the following rows as older than the latest row.
fn points_of(rows: &[NamedRow], columns: &BTreeSet<String>, now: Timestamp) -> Vec<Point> {
    let points = rows.iter().flat_map(|row| {
        columns.iter().map(move |column| {
            let value = row.values.get(column).and_then(Value::as_f64);
            let micros = row.timestamp.min(now).micros();
            Point { column: column.clone(), micros, value }
        })
    });
    points.collect()
}

/// Returns those of `columns` that are missing in `existing` or have no numbers, each with a
/// description of the problem.
fn column_problems(
    columns: &BTreeSet<String>,
    existing: &[Column],
    dataset: &str,
) -> BTreeMap<String, String> {
    let problem = |name: &String| match existing.iter().find(|column| column.name == *name) {
        None => Some(format!("dataset {dataset} has no column {name}")),
        Some(Column { dtype: Dtype::Float | Dtype::Integer, .. }) => None,
        Some(Column { dtype, .. }) => {
            Some(format!("column {name} of dataset {dataset} has no numbers: its type is {dtype}"))
        }
    };
    columns.iter().filter_map(|name| Some((name.clone(), problem(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_columns_and_columns_without_numbers_are_reported() {
        let column = |name: &str, dtype| Column {
            id: 1,
            dataset_id: DatasetId::FIRST,
            name: name.to_owned(),
            dtype,
            created_at: Timestamp::from_micros(0),
        };
        let existing = [column("close", Dtype::Float), column("side", Dtype::String)];
        let columns = BTreeSet::from(["close", "clsoe", "side"].map(str::to_owned));
        let problems = column_problems(&columns, &existing, "btc");
        assert_eq!(
            problems.into_values().collect::<Vec<_>>(),
            [
                "dataset btc has no column clsoe",
                "column side of dataset btc has no numbers: its type is string",
            ]
        );
    }

    #[test]
    fn timestamp_in_the_future_is_replaced_by_the_current_time() {
        let row = |time: &str, close: f64| NamedRow {
            timestamp: time.parse().unwrap(),
            values: BTreeMap::from([("close".to_owned(), Value::Float(close))]),
        };
        let now: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let rows = [row("2100-01-01T00:00:00Z", 1.0), row("2026-02-28T23:59:00Z", 2.0)];
        let points = points_of(&rows, &BTreeSet::from(["close".to_owned()]), now);
        let times: Vec<i64> = points.iter().map(|point| point.micros).collect();
        assert_eq!(times, [now.micros(), now.micros() - 60_000_000]);
    }
}
