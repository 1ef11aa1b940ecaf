//! Changes of datasets on further servers: in the catalog of the first one, and in the copy of their columns
//! that their writers and readers use.
//!
//! The state of the dataset is locked on the first server, then on its own, as by all that locks both.
//! The copy is committed first: rows may have fewer columns than it has, but not more. A service that
//! was lost in between leaves the catalog behind, and the next change brings it up to date before anything
//! else.

use std::sync::Arc;

use futures::FutureExt as _;
use model::{dataset::DatasetId, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{
    Result, StoreError, catalog,
    head::{Head, HeadState},
    servers::{FIRST, Hops, Server, Servers},
};
use crate::{
    catalog::{DatasetChange, VALUE_COLUMN},
    store::Sight,
};

/// What rows are read and folded by: the columns as they are stored, and the one to fold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredColumns {
    /// Name, type and creation time of each column, in their order.
    columns: Vec<(String, String, i64)>,
    value_column: Option<String>,
}

impl StoredColumns {
    pub(super) async fn read(c: &mut PgConnection, dataset: DatasetId) -> Result<Self> {
        let sql = "SELECT name, dtype, created_at FROM columns WHERE dataset = $1 ORDER BY ordinal";
        let columns = sqlx::query_as(sql).bind(dataset.get()).fetch_all(&mut *c).await?;
        let sql = "SELECT value FROM metadata WHERE dataset = $1 AND field = $2";
        let value_column =
            sqlx::query_scalar(sql).bind(dataset.get()).bind(VALUE_COLUMN).fetch_optional(c);
        Ok(Self { columns, value_column: value_column.await? })
    }

    /// Makes those of `dataset` the same.
    pub(super) async fn write(&self, c: &mut PgConnection, dataset: DatasetId) -> Result<()> {
        // Two may change names with each other.
        let sql = "UPDATE columns SET name = chr(1) || ordinal WHERE dataset = $1";
        sqlx::query(sql).bind(dataset.get()).execute(&mut *c).await?;
        sqlx::query(
            "INSERT INTO columns (dataset, ordinal, name, dtype, created_at)
             SELECT $1, place - 1, name, dtype, created_at
             FROM unnest($2::text[], $3::text[], $4::bigint[])
                 WITH ORDINALITY AS new (name, dtype, created_at, place)
             ON CONFLICT (dataset, ordinal) DO UPDATE SET name = excluded.name",
        )
        .bind(dataset.get())
        .bind(self.columns.iter().map(|column| column.0.as_str()).collect::<Vec<_>>())
        .bind(self.columns.iter().map(|column| column.1.as_str()).collect::<Vec<_>>())
        .bind(self.columns.iter().map(|column| column.2).collect::<Vec<_>>())
        .execute(&mut *c)
        .await?;
        let sql = "DELETE FROM metadata WHERE dataset = $1 AND field = $2";
        sqlx::query(sql).bind(dataset.get()).bind(VALUE_COLUMN).execute(&mut *c).await?;
        let sql = "INSERT INTO metadata (dataset, field, value) SELECT $1, $2, $3
             WHERE $3 IS NOT NULL";
        let insert = sqlx::query(sql).bind(dataset.get()).bind(VALUE_COLUMN);
        insert.bind(self.value_column.as_deref()).execute(c).await?;
        Ok(())
    }
}

/// Changes a dataset, wherever it is; what it is then.
pub(super) async fn change(
    servers: &Servers,
    dataset: DatasetId,
    change: DatasetChange,
    now: Timestamp,
) -> Result<Sight> {
    let first = servers.first();
    let change = Arc::new(change);
    let mut hops = Hops::default();
    loop {
        let alone = Arc::clone(&change);
        let alone = first
            .connections
            .write(move |c| async move { catalog::change(c, dataset, &alone, now).await }.boxed());
        let (place, generation) = match alone.await {
            Err(StoreError::Moved { place, generation, .. }) => (place, generation),
            changed => return changed,
        };
        let Some(server) = servers.find(place).await? else {
            return Err(StoreError::Moved { dataset, place, generation });
        };
        let mut transaction = first.connections.begin_write().await?;
        let changed = change_both(&mut transaction, &server, dataset, &change, now).await;
        match transaction.finish(changed).await {
            Err(error @ (StoreError::Moved { .. } | StoreError::NoDataset { .. })) => {
                servers.follow(dataset, &server, error, &mut hops).await?;
            }
            changed => return changed,
        }
    }
}

/// Changes a dataset of `server` in the catalog, in the transaction of `c`, and on that server.
async fn change_both(
    c: &mut PgConnection,
    server: &Server,
    dataset: DatasetId,
    change: &DatasetChange,
    now: Timestamp,
) -> Result<Sight> {
    let place = lock_place(c, dataset).await?;
    if place != server.place {
        return Err(StoreError::Moved { dataset, place, generation: 0 });
    }
    let mut copy = server.connections.begin_write().await?;
    let changed = async {
        // No rows come meanwhile.
        let is_empty = Head::lock(&mut copy, dataset).await?.is_empty();
        let known = StoredColumns::read(&mut copy, dataset).await?;
        if StoredColumns::read(c, dataset).await? != known {
            known.write(c, dataset).await?;
        }
        let mut sight = catalog::change_locked(c, dataset, change, is_empty, now).await?;
        let new = StoredColumns::read(c, dataset).await?;
        if new != known {
            new.write(&mut copy, dataset).await?;
        }
        catalog::touch(&mut copy, dataset, change, now).await?;
        HeadState::read(&mut copy, dataset).await?.put_in(&mut sight);
        Ok(sight)
    };
    let changed = changed.await;
    copy.finish(changed).await
}

/// Locks the state of a dataset on the first server; the server that has its rows.
pub(super) async fn lock_place(c: &mut PgConnection, dataset: DatasetId) -> Result<i64> {
    let sql = "SELECT place FROM head WHERE dataset = $1 FOR NO KEY UPDATE";
    let found: Option<Option<i64>> =
        sqlx::query_scalar(sql).bind(dataset.get()).fetch_optional(c).await?;
    Ok(found.ok_or(StoreError::NoDataset { dataset })?.unwrap_or(FIRST))
}
