//! Old rows of a database on S3: where they go, and how that is.

use std::time::Duration;

use task::causes::chain;
use tokio::time::sleep;
use tracing::{error, info, warn};
use tsdb::store::{
    objects::{ObjectError, Objects},
    postgres::cold::ColdOptions,
};

/// Rows of a chunk, as many as the store packs into one.
const CHUNK_ROWS: usize = 1024;

/// How long a bucket that is lost is left alone before it is tried again.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Where old rows of the database go, and when.
#[derive(Debug, Clone)]
pub struct ColdStorage {
    /// The objects that they go to.
    pub objects: Objects,
    /// The newest rows of each dataset that stay in the database; rounded up to whole chunks.
    pub hot_rows: usize,
    /// The fewest rows that are worth an object; rounded up to whole chunks.
    pub object_rows: usize,
    /// How often rows are looked for that are old enough.
    pub seal_every: Duration,
    /// How long an object is kept after nothing refers to it any more. A backup of the database that is
    /// older when it is restored lacks objects, and so does a download that takes longer.
    pub grace: Duration,
}

impl ColdStorage {
    /// The options of the store.
    pub(crate) fn options(&self) -> ColdOptions {
        ColdOptions {
            objects: self.objects.clone(),
            n_hot_chunks: self.hot_rows.div_ceil(CHUNK_ROWS),
            n_chunks_min: self.object_rows.div_ceil(CHUNK_ROWS),
            seal_every: self.seal_every,
            grace: self.grace,
        }
    }
}

/// Tries the bucket, and again from time to time while it is lost, until it is dropped. Logs what is
/// wrong with it; the service goes on without it.
pub(crate) async fn watch(objects: Objects) {
    log(&objects, objects.check().await).await;
    loop {
        sleep(LOOK_EVERY).await;
        if objects.figures().is_lost {
            log(&objects, objects.check().await).await;
        }
    }
}

async fn log(objects: &Objects, checked: Result<(), ObjectError>) {
    match checked {
        Ok(()) => {
            info!("old rows go to {objects}");
            if matches!(objects.honors_conditions().await, Ok(false)) {
                warn!(
                    "{objects} ignores conditions of requests: keep clones of the database from it"
                );
            }
        }
        Err(error @ (ObjectError::Unreachable(_) | ObjectError::NoCredentials(_))) => {
            let causes = chain(&error);
            warn!(causes, "old rows wait for {objects}, and those there cannot be read");
        }
        Err(error) => {
            let causes = chain(&error);
            error!(causes, advice = error.advice(), "old rows cannot be kept in {objects}");
        }
    }
}
