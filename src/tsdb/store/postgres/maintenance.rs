//! Background maintenance in small transactions between writes: frees the space of deleted
//! datasets, packs buckets and late rows, lets go of old entries of the feed and of old batches, and
//! makes objects of old chunks.
//!
//! Every service on the database does it; a dataset that one of them has locked is left to that one.

use std::{error::Error, sync::Arc, time::Duration};

use db::postgres::connections::Connections;
use futures::{FutureExt as _, future::join_all};
use model::dataset::DatasetId;
use sqlx::PgConnection;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::{
    Result, StoreError, append, batches, buckets,
    catalog::dataset_id,
    cold::{self, Cold, owner::Claimant},
    delete,
    head::Head,
    moves::{
        self,
        retries::{Retries, resume_abandoned},
    },
    placement,
    servers::{Server, Servers},
};

/// How often it looks for work. Rows grow old slowly.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long entries of the feed are kept: a replica that was away for longer reads the rows instead.
const FEED_MICROS: i64 = 24 * 3_600 * 1_000_000;

/// Entries of the feed that one step removes at most. They are not dropped with partitions by age: the
/// revisions of a dataset are unique and are looked for without their time, which no index over such
/// partitions offers.
const FEED_STEP: i64 = 10_000;

/// Looks for old entries of the feed and old batches each time that it has looked for other work so
/// often.
const LOOKS_PER_TRIM: u32 = 60;

/// Looks for moves that were abandoned each time that it has looked for other work so often: while one is
/// in its last step, its dataset is not to be used.
const LOOKS_PER_MOVE: u32 = 6;

/// Lists the objects of all datasets each time that it has looked for other work so often: every six
/// hours, since the server has to go through all of them.
const LOOKS_PER_LIST: u32 = 4_320;

/// Looks for work until it is dropped.
pub(super) async fn run(servers: Arc<Servers>, cold: Option<Cold>) {
    let seal_every = cold.as_ref().map(Cold::seal_every).unwrap_or_default();
    let looks_per_seal = seal_every.as_secs().div_ceil(LOOK_EVERY.as_secs()).max(1);
    let mut retries = Retries::default();
    for n_looks in 1_u32.. {
        sleep(LOOK_EVERY).await;
        let is_trim = n_looks % LOOKS_PER_TRIM == 0;
        let due = Due { is_trim, is_seal: u64::from(n_looks) % looks_per_seal == 0 };
        // Connections to one that was removed are closed.
        note(servers.refresh().await);
        look_at_all(&servers, cold.as_ref(), due).await;
        if let Some(cold) = &cold
            && n_looks % LOOKS_PER_LIST == 0
        {
            note(adopt_objects(&servers, cold).await);
        }
        if is_trim {
            note(placement::remove_orphans(&servers).await);
        }
        if n_looks % LOOKS_PER_MOVE == 0 {
            note(resume_abandoned(&servers, &mut retries).await);
        }
    }
}

/// Does what there is to do on each server, and notes which are lost, and how many datasets are moved.
pub(super) async fn look_at_all(servers: &Servers, cold: Option<&Cold>, due: Due) {
    let further = servers.further();
    let all = further.iter().chain([servers.first()]);
    let looks = all.map(|server| async {
        let look = look(servers, server, cold, due).await;
        server.note_look(&look);
        note(look);
    });
    join_all(looks).await;
    note(moves::count(servers.first()).await.map(|n_moves| servers.note_moves(n_moves)));
}

/// What is not looked for each time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Due {
    /// Whether old entries of the feed and old batches are looked for.
    is_trim: bool,
    /// Whether old chunks are looked for.
    is_seal: bool,
}

/// Does what there is to do on a server.
async fn look(servers: &Servers, server: &Server, cold: Option<&Cold>, due: Due) -> Result<()> {
    let connections = &server.connections;
    settle_all(connections, cold, Unsettled::Much).await?;
    if due.is_trim {
        trim_all(connections).await?;
    }
    match cold {
        Some(cold) if due.is_seal => tend_objects(servers, connections, cold).await,
        _ => Ok(()),
    }
}

fn note(done: Result<()>) {
    match done {
        Ok(()) => {}
        // Callers learn that, too.
        Err(error) if error.is_server_lost() => {
            debug!(error = &error as &dyn Error, "maintenance of the dataset store waits");
        }
        Err(error) => {
            warn!(error = &error as &dyn Error, "maintenance of the dataset store failed");
        }
    }
}

/// Does all there is to do on all servers.
pub(super) async fn settle_servers(servers: &Servers, cold: Option<&Cold>) -> Result<()> {
    placement::remove_orphans(servers).await?;
    if let Some(cold) = cold {
        adopt_objects(servers, cold).await?;
    }
    let further = servers.further();
    for server in further.iter().chain([servers.first()]) {
        settle_all(&server.connections, cold, Unsettled::Any).await?;
        trim_all(&server.connections).await?;
        if let Some(cold) = cold {
            tend_objects(servers, &server.connections, cold).await?;
        }
    }
    Ok(())
}

/// Makes objects of old chunks of a server, and deletes those that nothing refers to.
async fn tend_objects(servers: &Servers, connections: &Connections, cold: &Cold) -> Result<()> {
    let Some(claimant) = Claimant::new(&servers.first().connections, cold) else { return Ok(()) };
    cold::seal_all(connections, claimant).await?;
    cold::sweep(connections, claimant).await
}

/// Puts objects on record that are on none, to be deleted later.
async fn adopt_objects(servers: &Servers, cold: &Cold) -> Result<()> {
    let Some(claimant) = Claimant::new(&servers.first().connections, cold) else { return Ok(()) };
    cold::adopt(servers, claimant).await
}

/// Which datasets are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsettled {
    /// Those with so much to pack that it is worth it.
    Much,
    /// All with something to pack.
    Any,
}

/// Does all there is to do.
pub(super) async fn settle_all(
    connections: &Connections,
    cold: Option<&Cold>,
    unsettled: Unsettled,
) -> Result<()> {
    while connections.write(|c| delete::step(c).boxed()).await? {}
    loop {
        match connections.write(move |c| step(c, unsettled).boxed()).await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error @ StoreError::Cold { dataset, .. }) => {
                let thawed = cold::thaw_needed(connections, cold, dataset, error).await;
                match thawed {
                    Err(error @ StoreError::Cold { .. }) if unsettled == Unsettled::Much => {
                        // Its next late rows have it chosen again.
                        connections.write(|c| forget(c, dataset).boxed()).await?;
                        let error = &error as &dyn Error;
                        warn!(error, "late rows of dataset {dataset} wait for their objects");
                    }
                    thawed => thawed?,
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Packs some of what a dataset has to pack; whether there may be more.
async fn step(c: &mut PgConnection, unsettled: Unsettled) -> Result<bool> {
    let sql = match unsettled {
        Unsettled::Much => {
            "SELECT u.dataset, h.generation FROM unsettled u JOIN head h USING (dataset)
             LIMIT 1 FOR UPDATE OF u SKIP LOCKED"
        }
        Unsettled::Any => {
            "SELECT dataset, generation FROM head WHERE (n_late > 0 OR n_loose > 0) AND place IS NULL
             LIMIT 1"
        }
    };
    let found: Option<(i64, i64)> = sqlx::query_as(sql).fetch_optional(&mut *c).await?;
    let Some((dataset, generation)) = found else { return Ok(false) };
    let dataset = dataset_id(dataset)?;
    if unsettled == Unsettled::Any {
        delete::await_packer(c, dataset).await?;
    }
    let mut head = match Head::lock(c, dataset).await {
        Ok(head) if head.generation == generation => head,
        // It was moved meanwhile: it is packed where it is, or in the next step.
        Ok(_) => return Ok(true),
        Err(StoreError::Moved { .. }) => {
            forget(c, dataset).await?;
            return Ok(true);
        }
        Err(error) => return Err(error),
    };
    if head.n_late > 0 {
        append::settle_some(c, &mut head).await?;
    }
    let is_more = buckets::settle(c, &mut head).await? || head.n_late > 0;
    head.save_counts(c).await?;
    if !is_more {
        forget(c, dataset).await?;
    }
    // There may be another dataset.
    Ok(true)
}

/// Notes that a dataset has nothing to pack here.
async fn forget(c: &mut PgConnection, dataset: DatasetId) -> Result<()> {
    let sql = "DELETE FROM unsettled WHERE dataset = $1";
    sqlx::query(sql).bind(dataset.get()).execute(c).await?;
    Ok(())
}

/// Lets go of all that is too old.
pub(super) async fn trim_all(connections: &Connections) -> Result<()> {
    while connections.write(|c| trim_feed(c).boxed()).await? {}
    while connections.write(|c| batches::trim(c).boxed()).await? {}
    Ok(())
}

/// Lets go of some old entries of the feed; whether there may be more.
async fn trim_feed(c: &mut PgConnection) -> Result<bool> {
    let gone = sqlx::query(
        "DELETE FROM feed WHERE ctid = ANY(ARRAY(SELECT ctid FROM feed
             WHERE at < (extract(epoch FROM now()) * 1000000)::bigint - $1 LIMIT $2))",
    )
    .bind(FEED_MICROS)
    .bind(FEED_STEP)
    .execute(c)
    .await?;
    Ok(gone.rows_affected() > 0)
}
