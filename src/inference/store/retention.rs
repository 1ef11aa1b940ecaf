//! Size and limits of each topic's epochs and learned state.
//!
//! The size of an epoch is computed when it closes and whenever it changes, and is included in the
//! topic's totals. So applying a limit does not read all epochs.

use model::timestamp::Timestamp;
use model::topic::{BlockHeight, TopicId};

use super::engines::Session;
use super::{EPOCHS_KEPT, Result, Store, height, key, number};
use crate::network::topic::Retention;

/// Maximum number of epochs that are thinned, and of epochs that are deleted, each time an epoch closes
/// or the network learns from an epoch. If a limit is lowered, the store reaches the new limit
/// gradually, so that no epoch is delayed.
const AT_ONCE: u32 = 16;

/// SQL expression for the size of the epoch `?2` of topic `?1`, in bytes. It estimates the pages of
/// SQLite: the last overflow page of a long value is half empty on average, and other pages are two
/// thirds full.
const N_BYTES: &str = "
    coalesce((SELECT sum((octet_length(record) + 90) * 3 / 2
                         + coalesce(octet_length(forecast)
                                    + CASE WHEN octet_length(forecast) > 900 THEN 4096 ELSE 0 END,
                                    0))
              FROM submissions WHERE topic_id = ?1 AND nonce = ?2), 0)
    + coalesce((SELECT octet_length(record) + octet_length(shares) + 4096
                       + coalesce(octet_length(resistant), 0) + coalesce(octet_length(intervals), 0)
                       + coalesce(octet_length(signed), 0)
                       + coalesce(octet_length(signed_intervals), 0)
                       + coalesce(octet_length(pairs), 0)
                       + coalesce(octet_length(resistant_pairs), 0)
                FROM bundles WHERE topic_id = ?1 AND nonce = ?2), 0)
    + coalesce((SELECT octet_length(record) + coalesce(octet_length(pairs), 0) + 4096
                FROM losses WHERE topic_id = ?1 AND nonce = ?2), 0)
    + coalesce((SELECT sum(octet_length(label) + 60) FROM labels
                WHERE topic_id = ?1 AND nonce = ?2), 0)
    + 500";

/// SQL expression for the size of topic `?1`'s learned state and snapshots, in bytes.
const LEARNED_BYTES: &str = "
    coalesce((SELECT octet_length(record) + octet_length(regrets) + octet_length(past)
              FROM learned WHERE topic_id = ?1), 0)
    + coalesce((SELECT sum(octet_length(record) + octet_length(regrets) + octet_length(past))
                FROM snapshots WHERE topic_id = ?1), 0)";

/// SQL statement that selects the oldest finished epoch of topic `?1` that is still complete.
const OLDEST_FULL: &str =
    "SELECT min(nonce) FROM epochs WHERE topic_id = ?1 AND is_thin = 0 AND state > 1";

/// Number and size of a topic's closed epochs and learned state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EpochTotals {
    /// Number of epochs.
    pub n_epochs: u64,
    /// Size of the epochs and the learned state, in bytes.
    pub n_bytes: u64,
    /// Size of the complete epochs, which still have their forecasts and values of pairs, in bytes.
    pub n_full_bytes: u64,
    /// Oldest epoch, or `None` if there are no epochs.
    pub oldest: Option<BlockHeight>,
    /// Oldest complete epoch, or `None` if no epoch is complete.
    pub oldest_full: Option<BlockHeight>,
}

impl Store {
    /// Returns the totals of `topic`'s closed epochs.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn holdings(&self, topic: TopicId) -> Result<EpochTotals> {
        self.read(|session| {
            let id = [number(topic.get())];
            let sql = "SELECT min(nonce) FROM epochs WHERE topic_id = ?1";
            let oldest = session.value::<Option<i64>>(sql, id)?.map(height);
            let oldest_full = session.value::<Option<i64>>(OLDEST_FULL, id)?.map(height);
            Ok(EpochTotals { oldest, oldest_full, ..session.totals(topic)? })
        })
    }

    /// Deletes some epochs of deleted topics, but so few that other writes are not delayed. Returns
    /// true if more epochs might be left.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn drop_leftovers(&self) -> Result<bool> {
        self.write(|write| {
            // Jumps in the index from one topic id to the next, since reading every epoch would take
            // long.
            let keys: Vec<(i64, i64)> = write.all(
                "WITH RECURSIVE ids(id) AS (
                 SELECT min(topic_id) FROM epochs
                 UNION ALL
                 SELECT (SELECT min(topic_id) FROM epochs WHERE topic_id > id) FROM ids
                 WHERE id IS NOT NULL)
             SELECT topic_id, nonce FROM ids JOIN epochs ON topic_id = id
             WHERE id NOT IN (SELECT id FROM topics) LIMIT ?1",
                [i64::from(AT_ONCE)],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            for (topic, nonce) in &keys {
                let topic = TopicId::new(height(*topic)).unwrap_or(TopicId::FIRST);
                write.drop_epoch(topic, *nonce)?;
            }
            Ok(!keys.is_empty())
        })
    }
}

impl Session<'_> {
    fn totals(&self, topic: TopicId) -> Result<EpochTotals> {
        let sql = format!(
            "SELECT n_epochs, n_bytes + {LEARNED_BYTES}, n_full_bytes FROM holdings WHERE topic_id = ?1",
        );
        let sums = self.find(&sql, [number(topic.get())], |row| {
            Ok(EpochTotals {
                n_epochs: height(row.get(0)?),
                n_bytes: height(row.get(1)?),
                n_full_bytes: height(row.get(2)?),
                ..EpochTotals::default()
            })
        });
        Ok(sums?.unwrap_or_default())
    }

    /// Adds the epoch `nonce`, which just closed, to the topic's totals.
    pub(super) fn count_closed(&self, topic: TopicId, nonce: BlockHeight) -> Result<()> {
        self.add_totals(topic, [1, 0, 0])?;
        self.recount(topic, nonce)
    }

    /// Computes the size of the epoch `nonce` again and updates the topic's totals.
    pub(super) fn recount(&self, topic: TopicId, nonce: BlockHeight) -> Result<()> {
        let key = key(topic, nonce);
        let sql = "SELECT n_bytes, is_thin FROM epochs WHERE topic_id = ?1 AND nonce = ?2";
        let before = self.find(sql, key, |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?;
        let (before, is_thin) = before.unwrap_or_default();
        let sql = format!(
            "UPDATE epochs SET n_bytes = {N_BYTES} WHERE topic_id = ?1 AND nonce = ?2 RETURNING n_bytes"
        );
        let now: i64 = self.value(&sql, key)?;
        let more = now - before;
        self.add_totals(topic, [0, more, if is_thin == 0 { more } else { 0 }])
    }

    fn add_totals(&self, topic: TopicId, counts: [i64; 3]) -> Result<()> {
        let [n_epochs, n_bytes, n_full_bytes] = counts;
        let sql = "INSERT INTO holdings (topic_id, n_epochs, n_bytes, n_full_bytes)
                   VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (topic_id) DO UPDATE SET
                      n_epochs = holdings.n_epochs + excluded.n_epochs,
                      n_bytes = holdings.n_bytes + excluded.n_bytes,
                      n_full_bytes = holdings.n_full_bytes + excluded.n_full_bytes";
        self.run(sql, [number(topic.get()), n_epochs, n_bytes, n_full_bytes])?;
        Ok(())
    }

    /// Thins at most [`AT_ONCE`] of the oldest complete epochs of `topic` and deletes at most
    /// [`AT_ONCE`] of its oldest epochs, until neither `retention` nor [`EPOCHS_KEPT`] is exceeded. The
    /// age of epochs is counted from `date`. Open epochs and the latest epoch are never deleted.
    pub(super) fn apply_retention(
        &self,
        topic: TopicId,
        retention: Retention,
        date: Timestamp,
    ) -> Result<()> {
        for _ in 0..AT_ONCE {
            let sums = self.totals(topic)?;
            if sums.n_full_bytes <= retention.full_bytes() || !self.thin_oldest(topic)? {
                break;
            }
        }
        let bytes_max = i64::try_from(retention.bytes).unwrap_or(i64::MAX);
        let age_max = retention.age.and_then(|age| i64::try_from(age.as_micros()).ok());
        let opened_from = age_max.map_or(i64::MIN, |age| date.micros().saturating_sub(age));
        for _ in 0..AT_ONCE {
            let sql = format!(
                "SELECT e.nonce, e.n_bytes, e.is_thin FROM epochs e, holdings h
                 WHERE e.topic_id = ?1 AND h.topic_id = ?1 AND e.state > 0
                   AND e.nonce = (SELECT min(nonce) FROM epochs WHERE topic_id = ?1)
                   AND e.nonce < (SELECT max(nonce) FROM epochs WHERE topic_id = ?1)
                   AND (h.n_bytes + {LEARNED_BYTES} > ?2 OR h.n_epochs > ?3 OR e.opened_at < ?4)",
            );
            let values = [number(topic.get()), bytes_max, EPOCHS_KEPT.into(), opened_from];
            let oldest = self.find(&sql, values, |row| {
                Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get::<i64>(2)?))
            })?;
            let Some((nonce, n_bytes, is_thin)) = oldest else { break };
            self.drop_epoch(topic, nonce)?;
            self.add_totals(topic, [-1, -n_bytes, if is_thin == 0 { -n_bytes } else { 0 }])?;
        }
        Ok(())
    }

    /// Deletes the epoch `nonce` from all tables.
    fn drop_epoch(&self, topic: TopicId, nonce: i64) -> Result<()> {
        for table in ["epochs", "submissions", "bundles", "losses", "labels", "counters"] {
            let sql = format!("DELETE FROM {table} WHERE topic_id = ?1 AND nonce = ?2");
            self.run(&sql, [number(topic.get()), nonce])?;
        }
        Ok(())
    }

    /// Removes the values of pairs and the forecasts from the oldest complete epoch. Returns false if
    /// no epoch is complete.
    fn thin_oldest(&self, topic: TopicId) -> Result<bool> {
        let id = number(topic.get());
        let Some(nonce) = self.value::<Option<i64>>(OLDEST_FULL, [id])? else { return Ok(false) };
        let sql =
            "UPDATE epochs SET is_thin = 1 WHERE topic_id = ?1 AND nonce = ?2 RETURNING n_bytes";
        let n_bytes: i64 = self.value(sql, [id, nonce])?;
        self.add_totals(topic, [0, 0, -n_bytes])?;
        for sql in [
            "UPDATE bundles SET pairs = NULL, resistant_pairs = NULL WHERE topic_id = ?1 AND nonce = ?2",
            "UPDATE losses SET pairs = NULL WHERE topic_id = ?1 AND nonce = ?2",
            "UPDATE submissions SET forecast = '{}'
             WHERE topic_id = ?1 AND nonce = ?2 AND forecast IS NOT NULL",
        ] {
            self.run(sql, [id, nonce])?;
        }
        self.recount(topic, height(nonce))?;
        Ok(true)
    }
}
