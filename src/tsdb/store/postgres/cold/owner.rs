//! Which database may write and delete the objects below a prefix, since several may know of it: a clone
//! of a database, such as a backup that was restored beside the original, has all that the original has.
//!
//! The object `owner` has the newest claim, a random number that is in the table `claims` of the database
//! that owns the prefix. A service that is about to write or delete adds a claim to the table, and then
//! puts it in place of the one that it found in the object, if that is one of its table, on the condition
//! that nobody else did. So each round makes the claims of older clones worthless, and of two databases
//! with the same claims one goes on, whichever is first: the other finds a claim that it never made.
//!
//! What is to be deleted is looked up before the claim. A clone that can still take the prefix was made
//! after the claim was in its table, and so knows that nothing refers to these objects. One that lost the
//! prefix may refer to what the owner deletes from then on, after its grace period.
//!
//! Where the server ignores conditions, a claim counts if it is still there some seconds later, by which
//! time any other database that found the same claim has written, too. One that was paused in between for
//! longer is seen in the next round alone.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use db::postgres::{DatabaseUrl, connections::Connections, single};
use futures::FutureExt as _;
use sqlx::PgConnection;
use tokio::time::sleep;
use tracing::{debug, error, info, warn};
use uuid::Uuid;

use super::{Cold, Sealing};
use crate::store::{
    objects::{ObjectError, Objects},
    postgres::{PostgresStore, StoreError},
};

/// The key of the object with the newest claim.
const OWNER: &str = "owner";

/// How long a claim has to stay where the server ignores conditions: longer than the two requests take
/// between which another database may have found the claim before.
const SETTLE_FOR: Duration = Duration::from_secs(5);

/// How often a claim is tried again since another service of the same database was faster.
const TRIES: usize = 8;

/// How long claims are kept, in microseconds: longer than a request with one is under way.
const KEPT_MICROS: i64 = 3_600 * 1_000_000;

/// Why it is not known which database owns a prefix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The place of the objects failed.
    #[error("claim the prefix on S3")]
    Objects(#[from] ObjectError),
}

/// Which database owns a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// None: the first one that claims it will.
    Nobody,
    /// The one that was asked.
    This,
    /// Another one, such as a clone or the original of the one that was asked.
    Another,
}

/// Outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claimed {
    /// The prefix is this database's.
    Ours,
    /// The prefix is another database's.
    Foreign,
    /// Another claim was faster; most likely that of a service of the same database.
    Overtaken,
}

/// The database that is to own a prefix.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Claimant<'a> {
    /// The connections to the server with the catalog, which has the claims of all.
    pub(super) first: &'a Connections,
    pub(super) sealing: &'a Sealing,
}

impl<'a> Claimant<'a> {
    /// The database of `first`; `None` if it only reads the objects.
    pub(in super::super) fn new(first: &'a Connections, cold: &'a Cold) -> Option<Self> {
        Some(Self { first, sealing: cold.sealing.as_deref()? })
    }

    /// Claims the prefix; whether its objects may be written and deleted. Logs once that they may not.
    ///
    /// # Errors
    /// [`StoreError`]. What fails with the objects, or with a server that is lost, is tried again in the
    /// next round.
    pub(in super::super) async fn claim(&self) -> Result<bool, StoreError> {
        let objects = &self.sealing.options.objects;
        let _alone = self.sealing.claiming.lock().await;
        for _ in 0..TRIES {
            match try_claim(self.first, objects).await {
                Ok(Claimed::Overtaken) => {}
                Ok(claimed) => {
                    note(objects, claimed);
                    return Ok(claimed == Claimed::Ours);
                }
                // Another server of the store may be well.
                Err(ClaimError::Store(error)) if error.is_server_lost() => {
                    let error = &error as &dyn Error;
                    debug!(error, "sealing waits: the database with the claims is lost");
                    return Ok(false);
                }
                Err(ClaimError::Store(error)) => return Err(error),
                Err(ClaimError::Objects(error)) => {
                    let error = &error as &dyn Error;
                    warn!(error, "sealing waits: {objects} was not claimed");
                    return Ok(false);
                }
            }
        }
        debug!("sealing waits: other services claim {objects}");
        Ok(false)
    }
}

async fn try_claim(first: &Connections, objects: &Objects) -> Result<Claimed, ClaimError> {
    let (holder, version) = objects.read_version(OWNER).await?.unzip();
    let claim = Uuid::new_v4();
    let add = first.write(|c| add(c, claim, holder.as_ref().map(text)).boxed());
    if !add.await? {
        return Ok(Claimed::Foreign);
    }
    if !objects.replace(OWNER, claim.to_string().into(), version).await? {
        return Ok(Claimed::Overtaken);
    }
    if !objects.honors_conditions().await? {
        sleep(SETTLE_FOR).await;
        let holder = objects.read_version(OWNER).await?.map(|(holder, _)| text(&holder));
        if holder != Some(claim.to_string()) {
            return Ok(Claimed::Overtaken);
        }
    }
    Ok(Claimed::Ours)
}

fn text(holder: &Bytes) -> String {
    String::from_utf8_lossy(holder).into_owned()
}

fn note(objects: &Objects, claimed: Claimed) {
    let is_foreign = claimed == Claimed::Foreign;
    match (objects.note_foreign(is_foreign), is_foreign) {
        (false, _) => {}
        (true, false) => info!("this database owns {objects} again"),
        (true, true) => error!(
            advice = "start the services of all databases but one with a prefix of their own or without --cold; if this one is to keep it, run `triptych datasets stores own`",
            "another database owns {objects}: this one, a clone or a restored backup of it or its original, writes and deletes nothing there"
        ),
    }
}

/// Adds a claim, and lets go of old ones, if `holder` is a claim of this database, or none; whether it is.
async fn add(
    c: &mut PgConnection,
    claim: Uuid,
    holder: Option<String>,
) -> Result<bool, StoreError> {
    if let Some(holder) = &holder
        && !is_known(c, holder).await?
    {
        return Ok(false);
    }
    let sql = "DELETE FROM claims WHERE id::text IS DISTINCT FROM $1
         AND at < (extract(epoch FROM now()) * 1000000)::bigint - $2";
    sqlx::query(sql).bind(holder).bind(KEPT_MICROS).execute(&mut *c).await?;
    let sql = "INSERT INTO claims (id, at)
         VALUES ($1::uuid, (extract(epoch FROM now()) * 1000000)::bigint)";
    sqlx::query(sql).bind(claim.to_string()).execute(c).await?;
    Ok(true)
}

async fn is_known(c: &mut PgConnection, holder: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM datasets.claims WHERE id::text = $1)";
    Ok(sqlx::query_scalar(sql).bind(holder).fetch_one(c).await?)
}

impl PostgresStore {
    /// Makes this database the owner of the prefix of `objects`, whichever is now: that one's services
    /// write and delete nothing there from then on, and its rows there may be deleted. Blocks.
    ///
    /// # Errors
    /// [`ClaimError`].
    pub fn own(&self, objects: &Objects) -> Result<(), ClaimError> {
        let (first, claim) = (&self.servers.first().connections, Uuid::new_v4());
        self.wait(async {
            first.write(|c| add(c, claim, None).boxed()).await?;
            Ok(objects.put(OWNER, claim.to_string().into()).await?)
        })
    }
}

/// Which database owns the prefix of `objects`, seen from the one at `url`. Changes nothing.
///
/// # Errors
/// [`ClaimError`].
pub async fn look(url: &DatabaseUrl, objects: &Objects) -> Result<Owner, ClaimError> {
    let Some((holder, _)) = objects.read_version(OWNER).await? else { return Ok(Owner::Nobody) };
    let mut connection = single::connect(url).await.map_err(StoreError::from)?;
    let look = "SELECT to_regclass('datasets.claims') IS NOT NULL";
    let has_tables: bool =
        sqlx::query_scalar(look).fetch_one(&mut connection).await.map_err(StoreError::from)?;
    let is_ours = has_tables && is_known(&mut connection, &text(&holder)).await?;
    Ok(if is_ours { Owner::This } else { Owner::Another })
}
