//! Document 1: executes functions and reads the state of a cluster, through a head.

use std::time::Duration;

use model::function::FunctionId;
use wire::{
    functions::{
        EvictRequest, EvictResponse, EvictedBody, ExecuteRequest, ExecuteResponse, FunctionBody,
        FunctionDetail, FunctionsResponse, InstallRequest, InstallResponse, NodeBody,
        NodesResponse,
    },
    nodes::{NodeDetail, NodePatch},
    paths,
};

use crate::{error::ClientError, transport::Transport};

/// The longest wait for an execution: a head waits five minutes for workers that compile the function
/// and less than two for the rest, and says so itself.
const EXECUTE_WITHIN: Duration = Duration::from_secs(450);

/// The longest wait for a change of a node, beside what is waited for on purpose: the head writes it
/// to its disk.
const CHANGE_WITHIN: Duration = Duration::from_secs(15);

/// Longest wait for workers to remove functions, of which a head waits for 30 s.
const EVICT_WITHIN: Duration = Duration::from_secs(40);

/// The longest wait for an upload: 260 MiB over a line of 10 Mbit/s, and until they are stored.
const UPLOAD_WITHIN: Duration = Duration::from_secs(270);

/// The media type of the blocks of a function.
const CAR: &str = "application/vnd.ipld.car";

/// What a head answers when all went well, in the body's own `code`.
pub const CODE_OK: &str = "200";

/// A head of a function cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Functions {
    pub(crate) transport: Transport,
}

impl Functions {
    /// A head behind `transport`.
    #[must_use]
    pub const fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// The address of the head.
    #[must_use]
    pub fn address(&self) -> &str {
        self.transport.address()
    }

    /// Runs a function and returns the head's answer once all results are in.
    ///
    /// An answer whose `code` is not [`CODE_OK`] is returned, too: its `message` says what went
    /// wrong, and it may hold results. Dropping the call cancels the work.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the request is malformed, and those of a broken line.
    pub async fn execute(&self, request: &ExecuteRequest) -> Result<ExecuteResponse, ClientError> {
        let call = self.transport.post(paths::FUNCTIONS_EXECUTE).within(Some(EXECUTE_WITHIN));
        call.body(request).json("the result of an execution").await
    }

    /// Lists the nodes the head knows: itself first, the others by id. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head is one without this list.
    pub async fn nodes(&self) -> Result<Vec<NodeBody>, ClientError> {
        let list: NodesResponse = self.transport.get(paths::NODES).json("a list of nodes").await?;
        Ok(list.nodes)
    }

    /// Returns node `id`, and the work orders of this head that it runs. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not know it.
    pub async fn node(&self, id: &str) -> Result<NodeDetail, ClientError> {
        let path = paths::NODE.replace("{id}", id);
        self.transport.get(&path).json("a node").await
    }

    /// Changes what the head's operator decided of node `id`, waits at most for `wait` until it runs
    /// no work order of this head, and returns it with those it still runs. Heads wait for a minute at
    /// most, in whole seconds. Each head of a cluster decides for itself.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not know it and it is not approved or
    /// refused in advance, 409 if it is the head itself, 401 or 403 if the head wants a token.
    pub async fn change_node(
        &self,
        id: &str,
        patch: NodePatch,
        wait: Duration,
    ) -> Result<NodeDetail, ClientError> {
        let path = paths::NODE.replace("{id}", id);
        let call = self.transport.patch(&path).within(Some(wait + CHANGE_WITHIN));
        call.query(&[("wait", wait.as_secs())]).body(&patch).json("a node").await
    }

    /// Lists the functions the head holds, by name. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head is one without this list.
    pub async fn functions(&self) -> Result<Vec<FunctionBody>, ClientError> {
        let list: FunctionsResponse =
            self.transport.get(paths::FUNCTIONS).json("a list of functions").await?;
        Ok(list.functions)
    }

    /// Gives the head a function, so that it is available in its cluster, and returns what it is known
    /// by. `car` are its blocks, as a CAR of one root; it is called `name`, and its module `method`.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 400 if the blocks do not prove a function, 401 or 403 if
    /// the head wants a token, 413 or 507 if it is too large or the head has no room.
    pub async fn upload(
        &self,
        name: &str,
        method: &str,
        car: Vec<u8>,
    ) -> Result<FunctionBody, ClientError> {
        let call = self.transport.post(paths::FUNCTIONS).within(Some(UPLOAD_WITHIN));
        call.query(&[("name", name), ("method", method)])
            .bytes_body(CAR, car)
            .json("a function")
            .await
    }

    /// Has the head and the nodes of a group install a function.
    ///
    /// An answer whose `code` is not [`CODE_OK`] is returned, too: its `message` says what went wrong.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the request is malformed, and those of a broken line.
    pub async fn install(&self, request: &InstallRequest) -> Result<InstallResponse, ClientError> {
        self.transport
            .post(paths::FUNCTIONS_INSTALL)
            .body(request)
            .json("the result of an installation")
            .await
    }

    /// Has all workers of the head remove functions from their stores, and returns what each did.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head is one that cannot, 401 or 403 if it wants a
    /// token.
    pub async fn evict(&self, request: &EvictRequest) -> Result<Vec<EvictedBody>, ClientError> {
        let call = self.transport.post(paths::FUNCTIONS_EVICT).within(Some(EVICT_WITHIN));
        let evicted: EvictResponse = call.body(request).json("what workers removed").await?;
        Ok(evicted.nodes)
    }

    /// Returns function `id` with its files. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not hold it.
    pub async fn function(&self, id: FunctionId) -> Result<FunctionDetail, ClientError> {
        let path = paths::FUNCTION.replace("{id}", &id.to_string());
        self.transport.get(&path).json("a function").await
    }

    /// Has the head forget function `id`, and returns what it was. Workers that hold it keep it.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not hold it.
    pub async fn remove(&self, id: FunctionId) -> Result<FunctionBody, ClientError> {
        let path = paths::FUNCTION.replace("{id}", &id.to_string());
        self.transport.delete(&path).json("a function").await
    }

    /// Returns if the head serves. Cancel-safe.
    ///
    /// # Errors
    /// Those of a broken line, or a refusal.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.transport.get(paths::HEAD_HEALTH).done().await
    }
}

#[cfg(test)]
mod tests;
