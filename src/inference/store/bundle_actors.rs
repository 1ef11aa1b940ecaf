//! Who took part in a topic's newest bundle, read without the values.

use std::collections::BTreeMap;

use db::statement::Statements as _;
use model::topic::{Address, BlockHeight, TopicId};
use rusqlite::params;

use super::{Store, StoreError, height, number, record};
use crate::math::regret::{ByRole, RoleValues};

/// Who took part in a bundle.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BundleActors {
    /// The block at which the epoch opened.
    pub nonce: BlockHeight,
    /// The inferers, and the forecasters that imply something, each by address.
    pub actors: ByRole<Vec<Address>>,
    /// Each actor's share in the combined value.
    pub shares: RoleValues,
    /// Who is behind an address, where that is known.
    pub names: BTreeMap<Address, String>,
}

impl Store {
    /// Who took part in the newest bundle of `topic`, if it has one.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn actors(&self, topic: TopicId) -> Result<Option<BundleActors>, StoreError> {
        let reader = self.reader()?;
        let id = number(topic.get());
        let sql = "SELECT nonce, record, shares FROM bundles WHERE topic_id = ?1
                   ORDER BY nonce DESC LIMIT 1";
        let found: Option<(i64, String, String)> = reader.find(sql, [id], |row| row.try_into())?;
        let Some((nonce, bundle, shares)) = found else { return Ok(None) };
        let actors = record::read_actors(&bundle)?;
        let mut statement = reader.prepare_cached(
            "SELECT worker, record FROM submissions WHERE topic_id = ?1 AND nonce = ?2",
        )?;
        let mut rows = statement.query(params![id, nonce])?;
        let mut names = BTreeMap::new();
        while let Some(row) = rows.next()? {
            if let Some(name) = record::read_name(&row.get::<_, String>(1)?)? {
                names.insert(record::word(&row.get::<_, String>(0)?)?, name);
            }
        }
        let shares = record::read_role_values(&shares)?;
        Ok(Some(BundleActors { nonce: height(nonce), actors, shares, names }))
    }
}
