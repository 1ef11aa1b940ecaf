//! Copies of datasets: their entries in the catalog, and buckets whose rows were pruned. Their rows are
//! appended in `append.rs`.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use model::{block::Block, dataset::DatasetId, key::KeyId, row::Bucket, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{
    PostgresStore, Result, StoreError, append,
    buckets::{self, OpenBuckets},
    catalog::{self, Placed},
    chunks,
    commit::Changes,
    head::{Head, HeadState},
    placement::{self, Numbered},
    servers::Servers,
    tags, tail,
};
use crate::{
    catalog::{DatasetRef, NewDataset, TagChange, TagFilter},
    span::Span,
    store::{
        Sight,
        copying::{CatalogEntry, CopyStore},
    },
};

impl CopyStore for PostgresStore {
    fn next_entry(&self, after: Option<DatasetId>) -> Result<Option<CatalogEntry>> {
        let found =
            self.read(&self.servers.first().connections, |c| next_entry(c, after).boxed())?;
        let Some((mut entry, place)) = found else { return Ok(None) };
        let id = entry.dataset.id;
        if let Some(place) = place {
            let state = self.read_remote_state(id, place)?;
            (entry.newest, entry.kept_from) = (state.newest, state.kept_from);
            entry.dataset.updated_at = state.updated_at;
        }
        Ok(Some(entry))
    }

    fn grants(&self) -> Result<Vec<TagChange>> {
        self.fetch(&self.servers.first().connections, |c| grants(c).boxed())
    }

    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>> {
        let servers = Arc::clone(&self.servers);
        self.in_turn(None, async move { create(&servers, entry).await }, |()| {})
    }

    fn copy_buckets(
        &self,
        dataset: DatasetId,
        buckets: Vec<Bucket>,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write_at(
            dataset,
            move |c| put_buckets(c, dataset, buckets.clone(), kept_from).boxed(),
            |()| {},
        )
    }

    fn prune_copy(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write_at(dataset, move |c| prune(c, dataset, before, kept_from).boxed(), |()| {})
    }

    fn copy_rows(
        &self,
        dataset: DatasetId,
        rows: Block,
        updated_at: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write_at(
            dataset,
            move |c| {
                let mut rows = rows.clone();
                async move { append::append_copied(c, dataset, &mut rows, updated_at).await }
                    .boxed()
            },
            |()| {},
        )
    }
}

/// The dataset with the lowest number above that of `after`, and the server that has its rows, where that
/// is another one.
async fn next_entry(
    c: &mut PgConnection,
    after: Option<DatasetId>,
) -> Result<Option<(CatalogEntry, Option<i64>)>> {
    let found: Option<(i64, Option<i64>, Option<i64>)> = sqlx::query_as(
        "SELECT d.id, d.owner, h.kept_from FROM datasets d JOIN head h ON h.dataset = d.id
         WHERE d.id > $1 ORDER BY d.id LIMIT 1",
    )
    .bind(after.map_or(0, DatasetId::get))
    .fetch_optional(&mut *c)
    .await?;
    let Some((id, owner, kept_from)) = found else { return Ok(None) };
    let id = catalog::dataset_id(id)?;
    let found = catalog::sight(c, None, &DatasetRef::Id(id)).await?;
    let Some(Placed { sight, place }) = found else { return Ok(None) };
    let Sight { dataset, columns, newest, .. } = sight;
    let entry = CatalogEntry {
        dataset,
        owner: owner.map(KeyId::new),
        columns,
        tags: tags::list(c, TagFilter::OfDataset(id)).await?,
        newest,
        kept_from: kept_from.map(Timestamp::from_micros),
    };
    Ok(Some((entry, place)))
}

/// What gives the keys the tags that they hold.
async fn grants(c: &mut PgConnection) -> Result<Vec<TagChange>> {
    let found: Vec<(i64, String, Option<i64>)> = sqlx::query_as(
        "SELECT kt.key, t.name, t.owner FROM key_tags kt JOIN tags t ON t.id = kt.tag
         WHERE t.is_public OR t.owner IS NOT NULL ORDER BY kt.key, t.id",
    )
    .fetch_all(c)
    .await?;
    let granting = |(key, tag, owner): (i64, String, Option<i64>)| {
        TagChange::granting(KeyId::new(key), tag, owner.map(KeyId::new))
    };
    Ok(found.into_iter().map(granting).collect())
}

/// Creates a dataset as `entry` has it, on one of the servers that take new ones.
async fn create(servers: &Servers, entry: CatalogEntry) -> Result<()> {
    let new = Numbered { id: entry.dataset.id, new: NewDataset::from(&entry) };
    placement::create_copy(servers, new, entry.dataset.created_at).await?;
    let entry = Arc::new(entry);
    let dated = Arc::clone(&entry);
    let date = servers
        .first()
        .connections
        .write(move |c| async move { date_copy(c, &dated).await }.boxed());
    date.await?;
    // Its own state says when it was changed.
    let touch = servers.routed(entry.dataset.id, |server| {
        let entry = Arc::clone(&entry);
        async move {
            let touch =
                server.connections.write(move |c| async move { touch(c, &entry).await }.boxed());
            touch.await
        }
    });
    touch.await
}

/// Gives a copy the times of its source, and new datasets the numbers after it.
async fn date_copy(
    c: &mut PgConnection,
    CatalogEntry { dataset, columns, .. }: &CatalogEntry,
) -> Result<()> {
    let sql = "SELECT setval('datasets_id_seq', greatest($1, last_value)) FROM datasets_id_seq";
    sqlx::query(sql).bind(dataset.id.get()).execute(&mut *c).await?;
    sqlx::query(
        "UPDATE columns c SET created_at = n.created_at
         FROM unnest($2::text[], $3::bigint[]) AS n (name, created_at)
         WHERE c.dataset = $1 AND c.name = n.name",
    )
    .bind(dataset.id.get())
    .bind(columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>())
    .bind(columns.iter().map(|column| column.created_at.micros()).collect::<Vec<_>>())
    .execute(&mut *c)
    .await?;
    Ok(())
}

async fn touch(c: &mut PgConnection, CatalogEntry { dataset, .. }: &CatalogEntry) -> Result<()> {
    let sql = "UPDATE head SET updated_at = $2 WHERE dataset = $1 AND place IS NULL";
    let touched =
        sqlx::query(sql).bind(dataset.id.get()).bind(dataset.updated_at.micros()).execute(&mut *c);
    if touched.await?.rows_affected() == 0 {
        // Fails as what is not here does.
        HeadState::read(c, dataset.id).await?;
    }
    Ok(())
}

/// Removes rows that were pruned, and leaves their buckets.
async fn prune(
    c: &mut PgConnection,
    dataset: DatasetId,
    before: Timestamp,
    kept_from: Timestamp,
) -> Result<()> {
    let mut head = Head::lock(c, dataset).await?;
    let last = Timestamp::from_micros(before.micros() - 1);
    let span = Span { first: Timestamp::MIN, last };
    tail::remove(c, dataset, span).await?;
    chunks::cut(c, head.rows(), span, &head.empty).await?;
    head.recount(c).await?;
    head.kept_from = head.kept_from.max(Some(kept_from));
    head.commit(c, Changes::default(), 0, head.updated_at).await
}

/// Stores buckets whose rows were pruned.
async fn put_buckets(
    c: &mut PgConnection,
    dataset: DatasetId,
    new: Vec<Bucket>,
    kept_from: Timestamp,
) -> Result<()> {
    let mut head = Head::lock(c, dataset).await?;
    if head.newest.is_some() {
        return Err(StoreError::NoCopy { dataset });
    }
    let mut changes = Changes::default();
    if let Some(first) = new.first() {
        let mut open = OpenBuckets::read(c, &head, first.timestamp).await?;
        buckets::extend_finest(&mut head, &mut open, new, &mut changes);
    }
    head.kept_from = head.kept_from.max(Some(kept_from));
    head.commit(c, changes, 0, head.updated_at).await
}
