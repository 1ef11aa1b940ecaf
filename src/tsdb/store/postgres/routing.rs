//! How operations reach the server that has their dataset, and wait for it.

use std::sync::Arc;

use db::postgres::{
    connections::{Connections, Snapshot},
    fault::timed_out,
};
use futures::future::{BoxFuture, FutureExt as _};
use model::{block::Block, dataset::DatasetId};
use sqlx::PgConnection;
use tokio::{sync::oneshot, time::timeout};

use super::{
    Append, Appended, PostgresStore, Result, STEP_WITHIN, StoreError,
    append::{self, Known},
    cold::{Cold, thawing},
    remote,
    servers::{Hops, Server, Servers},
};

impl PostgresStore {
    /// Runs `read` on the server that has the dataset: again on another one as long as it is moved.
    /// Blocks.
    pub(super) fn read_at<T>(
        &self,
        dataset: DatasetId,
        mut read: impl FnMut(&Server) -> Result<T>,
    ) -> Result<T> {
        let mut hops = Hops::default();
        loop {
            let server = self.servers.route(dataset);
            match read(&server) {
                Err(error) => {
                    self.wait(self.servers.follow(dataset, &server, error, &mut hops))?;
                }
                done => return done,
            }
        }
    }

    /// Blocks until one step of a long read is done, or its time is up.
    pub(super) fn step<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.wait(async {
            timeout(STEP_WITHIN, work).await.unwrap_or_else(|_| Err(timed_out().into()))
        })
    }

    /// Runs `read`, whose statements see one snapshot. Blocks.
    pub(super) fn read<T: Send>(
        &self,
        connections: &Connections,
        read: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Sync,
    ) -> Result<T> {
        self.wait(connections.read(Snapshot::Transaction, read))
    }

    /// Runs `read`, which is one statement, on the threads of the runtime: there a connection that has
    /// something to read wakes no other thread, which it does many times for a long answer. Blocks.
    pub(super) fn fetch<T: Send + 'static>(
        &self,
        connections: &Connections,
        read: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let connections = connections.clone();
        self.run(async move { connections.read(Snapshot::Statement, read).await })
    }

    /// Runs `work` on the threads of the runtime. Blocks.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let work = async move {
            // The caller may be gone.
            drop(reply.send(work.await));
        };
        self.within(|| self.group.spawn("read", work));
        self.wait(async move { answer.await.unwrap_or(Err(StoreError::Closed)) })
    }

    /// Runs `work` in a transaction on the first server, and returns its result once that is durable and
    /// `on_commit` was called.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        let connections = self.servers.first().connections.clone();
        self.in_turn(None, async move { connections.write(work).await }, on_commit)
    }

    /// The same on the server that has `dataset`, behind other writes to it, with the chunks in the
    /// database that it needs.
    pub(super) fn write_at<T: Send + 'static>(
        &self,
        dataset: DatasetId,
        work: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send + Sync + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        let (servers, cold) = (Arc::clone(&self.servers), self.cold.clone());
        let write = async move {
            let (work, cold) = (&work, cold.as_ref());
            let write = |server: Arc<Server>| async move {
                let connections = &server.connections;
                thawing(connections, cold, dataset, || connections.write(work)).await
            };
            servers.routed(dataset, write).await
        };
        self.in_turn(Some(dataset), write, on_commit)
    }

    /// Runs `work`, which writes, behind others of its dataset, and calls `on_commit` with its result.
    pub(super) fn in_turn<T: Send + 'static>(
        &self,
        dataset: Option<DatasetId>,
        work: impl Future<Output = Result<T>> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        let (reply, answer) = oneshot::channel();
        let turns = Arc::clone(&self.turns);
        let write = async move {
            let turn = match dataset {
                Some(dataset) => Some(turns.take(dataset).await),
                None => None,
            };
            let result = work.await;
            if let Ok(done) = &result {
                on_commit(done);
            }
            drop(turn);
            // The caller may be gone.
            drop(reply.send(result));
        };
        self.within(|| self.group.spawn_to_end("write", write));
        async move { answer.await.unwrap_or(Err(StoreError::Closed)) }.boxed()
    }
}

/// Appends rows on the server that has the dataset; what that left, and the rows with their numbers.
pub(super) async fn append(
    servers: &Servers,
    cold: Option<&Cold>,
    known: &Known,
    dataset: DatasetId,
    mut rows: Append,
) -> Result<(Appended, Block)> {
    if !servers.further().is_empty() && remote::is_any_stored(servers, &rows.batches).await? {
        return Err(StoreError::BatchStored);
    }
    let mut hops = Hops::default();
    loop {
        let server = servers.route(dataset);
        match append::append(&server.connections, cold, known, dataset, &mut rows).await {
            Ok(appended) => return Ok((appended, rows.rows)),
            Err(StoreError::BatchStored) => {
                // Its writer is answered by what is there.
                server.note_answer();
                return Err(StoreError::BatchStored);
            }
            Err(error) => servers.follow(dataset, &server, error, &mut hops).await?,
        }
    }
}
