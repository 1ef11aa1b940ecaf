//! Built-in sources of live data.
//!
//! [`load`] measures the machine, [`market`] generates synthetic bars. Both append as any producer does.
//! Their datasets have the tag `public` and no owner.

pub(crate) mod load;
pub(crate) mod market;

use std::{collections::BTreeMap, time::Duration};

use model::{
    dataset::{Column, DatasetId, Dtype, PUBLIC_TAG},
    row::{Row, Value},
    timestamp::Timestamp,
};
use tsdb::catalog::NewDataset;

use crate::{Datasets, append::AppendError, catalog::CatalogError};

/// How long a leap of the clock must last before rows get its date: longer than a blip. A clock that is
/// corrected after the start waits that long.
const ROW_HOLD: Duration = Duration::from_mins(1);

/// What a source creates its dataset with.
#[derive(Debug, Clone, Copy)]
struct Description<'a> {
    name: &'a str,
    text: &'a str,
    metadata: &'a [(&'a str, &'a str)],
    columns: &'a [&'a str],
}

/// A dataset that a source fills.
#[derive(Debug, Clone)]
struct Feed {
    datasets: Datasets,
    id: DatasetId,
    columns: Vec<Column>,
}

impl Feed {
    /// Finds the dataset, or creates it.
    async fn open(datasets: &Datasets, description: Description<'_>) -> Result<Self, CatalogError> {
        let name = description.name.to_owned();
        let found = datasets.read_store(move |store| store.owned(None, &name)).await?;
        let id = match found {
            Some(id) => id,
            None => datasets.create(new_dataset(description)).await?.id,
        };
        let columns = datasets.read_store(move |store| store.columns(id)).await?;
        if !columns
            .iter()
            .map(|column| column.name.as_str())
            .eq(description.columns.iter().copied())
        {
            return Err(CatalogError::NameTaken { name: description.name.to_owned() });
        }
        Ok(Self { datasets: datasets.clone(), id, columns })
    }

    /// Appends rows of one number for each column; what is not finite is no value.
    async fn append(
        &self,
        rows: impl IntoIterator<Item = (Timestamp, Vec<Option<f64>>)>,
    ) -> Result<(), AppendError> {
        let row = |(timestamp, numbers): (Timestamp, Vec<Option<f64>>)| {
            let fit = |number: Option<f64>| number.filter(|number| number.is_finite());
            let values = numbers.into_iter().map(|number| fit(number).map(Value::Float)).collect();
            Row { timestamp, values }
        };
        let rows: Vec<Row> = rows.into_iter().map(row).collect();
        if !rows.is_empty() {
            self.datasets.append_rows(self.id, &self.columns, rows).await?;
        }
        Ok(())
    }

    /// The timestamp of the newest row.
    async fn newest(&self) -> Result<Option<Timestamp>, CatalogError> {
        let id = self.id;
        Ok(self.datasets.read_store(move |store| store.newest_timestamp(id)).await?)
    }

    /// Deletes rows before `before`, at most about `limit_rows`. Returns their number.
    async fn prune(&self, before: Timestamp, limit_rows: usize) -> Result<u64, CatalogError> {
        Ok(self.datasets.store.prune(self.id, before, limit_rows).await?)
    }
}

fn new_dataset(description: Description<'_>) -> NewDataset {
    let field = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let metadata: BTreeMap<_, _> = description.metadata.iter().map(field).collect();
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
