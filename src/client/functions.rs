//! Client of a head: executes functions and reads the state of the cluster.

use std::time::Duration;

use model::function::FunctionId;
use wire::functions::{
    EvictRequest, EvictResponse, EvictedBody, ExecuteRequest, ExecuteResponse, FunctionBody,
    FunctionDetail, FunctionsResponse, InstallRequest, InstallResponse, NodeBody, NodesResponse,
};
use wire::nodes::{NodeDetail, NodePatch};
use wire::paths;

use crate::error::ClientError;
use crate::transport::{Transport, segment};

/// Time limit of an execution. A head waits up to five minutes until workers have compiled the
/// function, and less than two minutes for everything else. The head reports its own timeout before
/// this limit expires.
const EXECUTE_WITHIN: Duration = Duration::from_secs(450);

/// Time limit for changing a node, in addition to the requested wait. The head writes the change to
/// disk.
const CHANGE_WITHIN: Duration = Duration::from_secs(15);

/// Time limit of an eviction. The head waits up to 30 s for its workers.
const EVICT_WITHIN: Duration = Duration::from_secs(40);

/// Time limit of an upload. It is enough to send 260 MiB at 10 Mbit/s and to store them.
const UPLOAD_WITHIN: Duration = Duration::from_secs(270);

/// Media type of a function's blocks.
const CAR: &str = "application/vnd.ipld.car";

/// Value of `code` in a head's response that reports success.
pub const CODE_OK: &str = "200";

/// A head of a function cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Functions {
    pub(crate) transport: Transport,
}

impl Functions {
    /// Returns a client for the head behind `transport`.
    #[must_use]
    pub const fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// Returns the address of the head.
    #[must_use]
    pub fn address(&self) -> &str {
        self.transport.address()
    }

    /// Executes a function. Returns the head's response when all results are available.
    ///
    /// If the `code` of the response is not [`CODE_OK`], its `message` contains the reason. The response
    /// is returned nevertheless and may contain results. Dropping the future cancels the execution.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the request is malformed, or any error of the connection.
    pub async fn execute(&self, request: &ExecuteRequest) -> Result<ExecuteResponse, ClientError> {
        let call = self.transport.post(paths::FUNCTIONS_EXECUTE).within(Some(EXECUTE_WITHIN));
        call.body(request).json("the result of an execution").await
    }

    /// Lists the nodes that the head knows: first the head itself, then the other nodes sorted by id.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not have this endpoint.
    pub async fn nodes(&self) -> Result<Vec<NodeBody>, ClientError> {
        let list: NodesResponse = self.transport.get(paths::NODES).json("a list of nodes").await?;
        Ok(list.nodes)
    }

    /// Returns node `id` with the work orders of this head that it is executing. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not know the node.
    pub async fn node(&self, id: &str) -> Result<NodeDetail, ClientError> {
        let path = paths::NODE.replace("{id}", &segment(id)?);
        self.transport.get(&path).json("a node").await
    }

    /// Changes the operator's settings for node `id`. Then waits for at most `wait` until the node
    /// executes no work order of this head. Returns the node with its remaining work orders. Heads wait
    /// for at most a minute, in whole seconds. The settings apply only to this head.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not know the node (unless the change
    /// approves or refuses it in advance), 409 if the node is the head itself, 401 or 403 if the head
    /// requires a token.
    pub async fn change_node(
        &self,
        id: &str,
        patch: NodePatch,
        wait: Duration,
    ) -> Result<NodeDetail, ClientError> {
        let path = paths::NODE.replace("{id}", &segment(id)?);
        let call = self.transport.patch(&path).within(Some(wait + CHANGE_WITHIN));
        call.query(&[("wait", wait.as_secs())]).body(&patch).json("a node").await
    }

    /// Lists the functions installed at the head, sorted by name. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not have this endpoint.
    pub async fn functions(&self) -> Result<Vec<FunctionBody>, ClientError> {
        let list: FunctionsResponse =
            self.transport.get(paths::FUNCTIONS).json("a list of functions").await?;
        Ok(list.functions)
    }

    /// Installs a function at the head, so that its cluster can execute it. Returns the function's
    /// description. `car` contains the function's blocks as a CAR file with one root.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 400 if the blocks are not a valid function, 401 or 403 if
    /// the head requires a token, 413 or 507 if the function is too large or the store is full.
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

    /// Installs a function at the head and at the nodes of a group.
    ///
    /// If the `code` of the response is not [`CODE_OK`], its `message` contains the reason. The response
    /// is returned nevertheless.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the request is malformed, or any error of the connection.
    pub async fn install(&self, request: &InstallRequest) -> Result<InstallResponse, ClientError> {
        self.transport
            .post(paths::FUNCTIONS_INSTALL)
            .body(request)
            .json("the result of an installation")
            .await
    }

    /// Removes functions from the stores of the head's workers. Returns the outcome for each worker.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not have this endpoint, 401 or 403 if
    /// it requires a token.
    pub async fn evict(&self, request: &EvictRequest) -> Result<Vec<EvictedBody>, ClientError> {
        let call = self.transport.post(paths::FUNCTIONS_EVICT).within(Some(EVICT_WITHIN));
        let evicted: EvictResponse = call.body(request).json("a list of evicted functions").await?;
        Ok(evicted.nodes)
    }

    /// Returns function `id` with its files. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if it is not installed.
    pub async fn function(&self, id: FunctionId) -> Result<FunctionDetail, ClientError> {
        let path = paths::FUNCTION.replace("{id}", &id.to_string());
        self.transport.get(&path).json("a function").await
    }

    /// Removes function `id` from the head, but not from workers. Returns its description.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if it is not installed.
    pub async fn remove(&self, id: FunctionId) -> Result<FunctionBody, ClientError> {
        let path = paths::FUNCTION.replace("{id}", &id.to_string());
        self.transport.delete(&path).json("a function").await
    }

    /// Checks that the head is healthy. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError`] if the head is not healthy or cannot be reached.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.transport.get(paths::HEAD_HEALTH).health("code").await
    }
}

#[cfg(test)]
mod tests;
