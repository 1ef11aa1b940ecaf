//! Parts of the catalog that only PostgreSQL has: its storage of metadata and columns, and the search.

use db::postgres::fault::unsigned;
use model::dataset::{Dataset, DatasetId};
use model::key::KeyId;
use sqlx::PgConnection;

use super::Result;
use crate::catalog::{Filter, Listed, NewDataset};
use crate::store::datasets::{CatalogSession, by_ids, page_of};
use crate::store::tags::sought;

/// Finds the datasets that are visible to key `$1`, have the metadata fields `$2` with the values `$3`,
/// and contain every word of `$5`. Ranks a dataset by the first rule that applies: its name begins with
/// `$4`, its name contains every word, its description contains every word, name and description
/// together contain every word. Scans all visible datasets, since a substring index would need an
/// extension.
const FOUND: &str = "
WITH seen AS (
    SELECT id, folded, searched, metadata FROM datasets.datasets WHERE owner = $1
    UNION
    SELECT d.id, d.folded, d.searched, d.metadata FROM datasets.key_tags kt
    JOIN datasets.dataset_tags dt ON dt.tag = kt.tag JOIN datasets.datasets d ON d.id = dt.dataset WHERE kt.key = $1
), found AS (
    SELECT id, folded, CASE
        WHEN $4::text IS NULL THEN 1
        WHEN starts_with(folded, $4) THEN 0
        WHEN NOT EXISTS (SELECT FROM unnest($5::text[]) AS w WHERE position(w IN folded) = 0) THEN 1
        WHEN NOT EXISTS (SELECT FROM unnest($5::text[]) AS w WHERE position(w IN searched) = 0) THEN 2
        WHEN NOT EXISTS (SELECT FROM unnest($5::text[]) AS w
            WHERE position(w IN folded) = 0 AND position(w IN searched) = 0) THEN 3
    END AS rank FROM seen
    WHERE NOT EXISTS (SELECT FROM unnest($2::text[], $3::text[]) AS wanted (field, value)
        WHERE metadata ->> field IS DISTINCT FROM value)
)
SELECT (SELECT count(*) FROM found WHERE rank IS NOT NULL), ARRAY(
    SELECT id FROM found WHERE rank IS NOT NULL
    ORDER BY rank, CASE rank WHEN 0 THEN folded END, id OFFSET $6 LIMIT $7)";

impl CatalogSession for PgConnection {
    const JSON_ARRAY: &'static str = "json_agg";
    const METADATA: &'static str = "CAST(d.metadata AS text)";
    const COLUMNS: &'static str = "(SELECT CAST(json_agg(json_build_array(
             id, CASE WHEN deleted_at IS NULL THEN name ELSE '' END, dtype,
             CAST(extract(epoch FROM created_at) * 1000000 AS bigint)) ORDER BY position) AS text)
         FROM datasets.columns WHERE dataset = d.id)";
    const STATE_OF_DATASETS: &'static str =
        "d.revision, d.latest, d.kept_from FROM datasets.datasets d";
    const WANTED: &'static str =
        "json_array_elements_text(CAST(?1 AS json)) WITH ORDINALITY AS wanted (value, key)";

    /// The id of a deleted dataset is in use until its rows are removed. Otherwise these rows would
    /// become rows of the new dataset.
    const INSERT: &'static str = "INSERT INTO datasets.datasets
             (id, name, folded, description, searched, metadata, owner, created_at, updated_at)
         SELECT coalesce(?6, nextval(pg_get_serial_sequence('datasets.datasets', 'id'))),
             ?1, ?2, ?3, ?4, CAST(?5 AS jsonb), ?7, ?8, ?8
         WHERE NOT EXISTS (SELECT FROM datasets.doomed WHERE dataset = ?6)
         ON CONFLICT DO NOTHING RETURNING id";
    const UPDATE: &'static str = "UPDATE datasets.datasets SET name = ?1, folded = ?2,
             description = ?3, searched = ?4, metadata = CAST(?5 AS jsonb) WHERE id = ?6";
    const ADD_COLUMNS: &'static str =
        "INSERT INTO datasets.columns (dataset, position, slot, name, dtype, created_at)
         SELECT ?1, CAST(value ->> 0 AS integer), CAST(value ->> 1 AS integer), value ->> 2,
             value ->> 3, ?3
         FROM json_array_elements(CAST(?2 AS json)) ORDER BY 2";
    const DELETE_COLUMN: &'static str =
        "UPDATE datasets.columns SET deleted_at = now() WHERE id = ?1";

    /// Continues the generated ids after a given id.
    async fn complete(&mut self, _: &Dataset, given: Option<DatasetId>) -> Result<()> {
        if let Some(id) = given {
            let sql = "SELECT setval(sequence, $1) FROM (
                 SELECT pg_get_serial_sequence('datasets.datasets', 'id')::regclass AS sequence
             ) AS s WHERE $1 > coalesce(pg_sequence_last_value(sequence), 0)";
            sqlx::query(sql).bind(id.get()).execute(self).await?;
        }
        Ok(())
    }

    fn index(&mut self, _: &[NewDataset], _: &[Dataset]) -> Result<()> {
        Ok(())
    }

    fn index_update(&mut self, _: &Dataset, _: &Dataset) -> Result<()> {
        Ok(())
    }
}

/// Returns the datasets with a retention limit. The index `datasets_retained` covers the metadata fields
/// of the limits.
pub(super) async fn retained(c: &mut PgConnection) -> Result<Vec<Dataset>> {
    let sql = "SELECT id FROM datasets.datasets
         WHERE metadata ?| '{keep_days,keep_bytes}' ORDER BY id";
    let ids: Vec<i64> = sqlx::query_scalar(sql).fetch_all(&mut *c).await?;
    by_ids(c, &ids).await
}

/// Returns the datasets that are visible to `key` and match the filter. A text filter sorts the datasets
/// by relevance, other filters by id.
pub(super) async fn list(
    c: &mut PgConnection,
    key: KeyId,
    filter: Filter,
    skip: u64,
    limit: usize,
) -> Result<Listed> {
    let (mut fields, mut values) = (Vec::new(), Vec::new());
    let mut text = None;
    match &filter {
        Filter::All => {}
        Filter::Text(searched) => text = Some(sought(searched.to_lowercase().trim())),
        Filter::Metadata(wanted) => {
            (fields, values) =
                wanted.iter().map(|(field, value)| (sought(field), sought(value))).unzip();
        }
    }
    let words: Vec<String> =
        text.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
    let (count, ids): (i64, Vec<i64>) = sqlx::query_as(FOUND)
        .bind(key.get())
        .bind(fields)
        .bind(values)
        .bind(text)
        .bind(words)
        .bind(i64::try_from(skip).unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_one(&mut *c)
        .await?;
    let count: u64 = unsigned(count)?;
    let is_last = skip.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX)) >= count;
    page_of(c, &ids, Some(count), is_last).await
}
