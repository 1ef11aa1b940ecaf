//! Finding datasets by their texts and fields.
//!
//! The texts of all datasets that a key sees are looked through: an index of parts of words would take an
//! extension of the database.

use db::postgres::fault::unsigned;
use model::key::KeyId;
use sqlx::PgConnection;

use super::{Result, catalog, tags::sought};
use crate::catalog::{Filter, Listed};

/// The datasets that key `$1` sees and that match: all fields and values of `$2` and `$3`, and every word
/// of `$5`; each with its rank: the name begins with `$4`, the name has every word, the description
/// has, or both together have.
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

/// The datasets that `key` may see, in the order of their numbers, or the best match first.
pub(super) async fn list(
    c: &mut PgConnection,
    key: KeyId,
    filter: &Filter,
    skip: u64,
    limit: usize,
) -> Result<Listed> {
    let (mut fields, mut values) = (Vec::new(), Vec::new());
    let mut text = None;
    match filter {
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
    Ok(Listed { count: Some(count), is_last, datasets: catalog::by_ids(c, ids).await? })
}
