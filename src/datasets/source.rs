//! Live data of the service's own: where rows come from when nobody sends them.
//!
//! [`load`] measures the machine, [`market`] invents bars and says so. Both append as any producer
//! does. Their datasets carry the tag `public` and belong to no key.

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

/// How long a leap of the clock holds before rows have its date. A clock that is set right after its
/// start waits that long; one that blips is back by then.
const ROW_HOLD: Duration = Duration::from_mins(1);

/// A dataset of the service's own, as its source describes it.
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
    async fn open(datasets: &Datasets, is: Description<'_>) -> Result<Self, CatalogError> {
        let name = is.name.to_owned();
        let found = datasets.read_store(move |store| store.owned(None, &name)).await?;
        let id = match found {
            Some(id) => id,
            None => datasets.create(new_dataset(is)).await?.id,
        };
        let columns = datasets.read_store(move |store| store.columns(id)).await?;
        if !columns.iter().map(|column| column.name.as_str()).eq(is.columns.iter().copied()) {
            return Err(CatalogError::NameTaken { name: is.name.to_owned() });
        }
        Ok(Self { datasets: datasets.clone(), id, columns })
    }

    /// Appends rows of one number for each column; those that are none stay out.
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

    /// The moment of the newest row.
    async fn newest(&self) -> Result<Option<Timestamp>, CatalogError> {
        let id = self.id;
        Ok(self.datasets.read_store(move |store| store.newest_timestamp(id)).await?)
    }

    /// Lets go of rows before `before`, at most about `limit_rows`.
    async fn prune(&self, before: Timestamp, limit_rows: usize) -> Result<u64, CatalogError> {
        Ok(self.datasets.store.prune(self.id, before, limit_rows).await?)
    }
}

fn new_dataset(is: Description<'_>) -> NewDataset {
    let field = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let metadata: BTreeMap<_, _> = is.metadata.iter().map(field).collect();
    NewDataset {
        name: is.name.to_owned(),
        description: is.text.to_owned(),
        metadata,
        columns: is.columns.iter().map(|name| ((*name).to_owned(), Dtype::Float)).collect(),
        tags: vec![PUBLIC_TAG.to_owned()],
        owner: None,
    }
}
