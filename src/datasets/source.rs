//! Built-in sources of live data: [`load`] measures the machine, [`market`] generates synthetic bars.
//!
//! Both append rows like any other writer. Their datasets have the tag `public` and no owner.

pub(crate) mod load;
pub(crate) mod market;

use std::collections::BTreeMap;
use std::time::Duration;

use model::block::{Block, Series};
use model::dataset::{Column, DatasetId, Dtype, PUBLIC_TAG};
use model::timestamp::Timestamp;
use tsdb::catalog::{DatasetRef, NewDataset, Refusal};
use tsdb::store::{AppendMode, Sight};

use crate::Datasets;
use crate::append::sort_rows;
use crate::error::{OperationError, Result};
use crate::retention::KEEP_DAYS;

/// Time for which a leap of the clock must persist before rows get the new date, so that a short glitch
/// has no effect. A correction of the clock after the start is also followed only after this time.
const ROW_HOLD: Duration = Duration::from_mins(1);

/// Description of a dataset that a source creates.
#[derive(Debug, Clone, Copy)]
struct Description<'a> {
    name: &'a str,
    text: &'a str,
    metadata: &'a [(&'a str, &'a str)],
    columns: &'a [&'a str],
    /// Number of days for which [`retention`](crate::retention) retains the rows.
    keep_days: &'a str,
}

/// A dataset to which a source writes.
#[derive(Debug, Clone)]
struct Feed {
    datasets: Datasets,
    id: DatasetId,
    columns: Vec<Column>,
}

impl Feed {
    /// Opens the dataset. Creates it if it does not exist.
    async fn open(datasets: &Datasets, description: Description<'_>) -> Result<Self> {
        let which = DatasetRef::Name(description.name.to_owned());
        let found = datasets.read_store(move |store| store.sight(None, &which)).await?;
        let id = match found.filter(|found| found.is_owner) {
            Some(found) => found.dataset.id,
            None => datasets.create(new_dataset(description)).await?.id,
        };
        let feed = Self { datasets: datasets.clone(), id, columns: Vec::new() };
        let columns = feed.sight().await?.columns;
        let names = columns.iter().map(|column| column.name.as_str());
        if !names.eq(description.columns.iter().copied()) {
            let name = description.name.to_owned();
            return Err(OperationError::Refused(Refusal::NameTaken { name }));
        }
        Ok(Self { columns, ..feed })
    }

    /// Appends rows, each with a number for every column. A number that is not finite becomes a missing
    /// value.
    async fn append(
        &self,
        rows: impl IntoIterator<Item = (Timestamp, Vec<Option<f64>>)>,
    ) -> Result<()> {
        let mut block = Block::new(&vec![Dtype::Float; self.columns.len()]);
        for (timestamp, numbers) in rows {
            block.times.push(timestamp);
            for (series, number) in block.columns.iter_mut().zip(numbers) {
                if let Series::Float(values) = series {
                    values.push(number.filter(|number| number.is_finite()));
                }
            }
        }
        if !block.is_empty() {
            let block = sort_rows(&block, AppendMode::Replace);
            let mode = AppendMode::Replace;
            self.datasets.append(self.id, mode, &self.columns, block, None).await?;
        }
        Ok(())
    }

    /// Returns the timestamp of the latest row.
    async fn newest(&self) -> Result<Option<Timestamp>> {
        Ok(self.sight().await?.newest)
    }

    async fn sight(&self) -> Result<Sight> {
        let which = DatasetRef::Id(self.id);
        let seen = self.datasets.read_store(move |store| store.sight(None, &which)).await?;
        seen.ok_or(OperationError::NotFound)
    }
}

fn new_dataset(description: Description<'_>) -> NewDataset {
    let field = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let kept = [(KEEP_DAYS, description.keep_days)];
    let metadata: BTreeMap<_, _> = description.metadata.iter().chain(&kept).map(field).collect();
    NewDataset {
        name: description.name.to_owned(),
        description: description.text.to_owned(),
        metadata,
        columns: description
            .columns
            .iter()
            .map(|name| ((*name).to_owned(), Dtype::Float))
            .collect(),
        tags: vec![PUBLIC_TAG.to_owned()],
        owner: None,
    }
}
