//! Leases of requests out of what the services on a database share.

use super::{Store, postgres::DatabaseStore, sql::values};
use crate::{
    Accounts, AccountsError,
    gate::budget::{Ask, Budget, Grant},
};

impl Accounts {
    /// Whether services of other machines may have the same accounts.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.shared.store, Store::Database(_))
    }

    /// Whether standbys of the database alone can be reached, which take no leases.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(&self.shared.store, Store::Database(database) if database.is_read_only())
    }

    /// Takes what `ask` wants out of the budget of a consumer that all services share. The time is the
    /// database's.
    ///
    /// # Errors
    /// [`AccountsError::Unreachable`] if the database does not answer; then what was taken, if any, is
    /// lost.
    pub(crate) async fn lease(&self, consumer: String, ask: Ask) -> Result<Grant, AccountsError> {
        match &self.shared.store {
            Store::Database(database) => lease(database, consumer, ask).await,
            Store::File(_) => Ok(Budget::default().take(ask, self.shared.clock.now().micros())),
        }
    }
}

async fn lease(
    database: &DatabaseStore,
    consumer: String,
    ask: Ask,
) -> Result<Grant, AccountsError> {
    let lease = database.write_beside(move |mut session| {
        Box::pin(async move {
            // The row is locked until the commit.
            let sql = "INSERT INTO budget (consumer, day, n_requests, n_bytes, full_at)
                VALUES (?1, 0, 0, 0, 0) ON CONFLICT (consumer) DO UPDATE SET day = budget.day
                RETURNING day, n_requests, n_bytes, full_at,
                    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
            let values = values![consumer.clone()];
            let found = session.find(sql, &values, |row| {
                let (day, n_requests, n_bytes) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let budget = Budget { day, n_requests, n_bytes, full_at: row.get(3)? };
                Ok((budget, row.get::<i64>(4)?))
            });
            let (mut budget, now) = found.await?.unwrap_or_default();
            let grant = budget.take(ask, now);
            let Budget { day, n_requests, n_bytes, full_at } = budget;
            let sql = "UPDATE budget SET day = ?2, n_requests = ?3, n_bytes = ?4, full_at = ?5
                WHERE consumer = ?1";
            session.run(sql, &values![consumer, day, n_requests, n_bytes, full_at]).await?;
            Ok(grant)
        })
    });
    lease.await
}
