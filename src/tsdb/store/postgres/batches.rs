//! Removal of old records of named batches.

use sqlx::PgConnection;

use super::Result;
use crate::store::batch::{KEPT_MICROS, PER_WRITER_MAX};
use crate::store::session::Session as _;

/// Maximum number of records that one transaction removes.
const STEP_BATCHES: i64 = 10_000;

/// Removes some old records, and the oldest records of writers that have stored very many batches.
/// Returns true if it removed any, so there can be more.
pub(super) async fn trim(c: &mut PgConnection) -> Result<bool> {
    let sql = "WITH bounds AS MATERIALIZED (SELECT writer, greatest(
                 now() - ?1 * interval '1 microsecond',
                 (SELECT at FROM datasets.batches b WHERE b.writer = w.writer
                     ORDER BY at DESC OFFSET ?2 LIMIT 1)) AS until
             FROM (SELECT DISTINCT writer FROM datasets.batches) w)
         DELETE FROM datasets.batches WHERE (writer, batch) IN (
             SELECT b.writer, b.batch FROM datasets.batches b
             JOIN bounds ON b.writer = bounds.writer AND b.at <= bounds.until LIMIT ?3)";
    Ok(c.run(sql, &[&KEPT_MICROS, &PER_WRITER_MAX, &STEP_BATCHES]).await? > 0)
}
