//! Document 1: executing functions, and looking at the cluster, through a head.

use std::time::Duration;

use wire::{
    functions::{
        ExecuteRequest, ExecuteResponse, FunctionBody, FunctionsResponse, NodeBody, NodesResponse,
    },
    paths,
};

use crate::{
    error::ClientError,
    transport::{Call, Transport, parse},
};

/// The longest wait for an execution: a head gathers for well below a minute and says so itself.
const EXECUTE_WITHIN: Duration = Duration::from_secs(150);

/// What a head answers when all went well, in the body's own `code`.
pub const CODE_OK: &str = "200";

/// A head of a function cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Functions {
    transport: Transport,
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
    /// wrong, and it may hold results. Dropping the call stops waiting; the work goes on.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the request is malformed, and those of a broken line.
    pub async fn execute(&self, request: &ExecuteRequest) -> Result<ExecuteResponse, ClientError> {
        let call = Call { within: Some(EXECUTE_WITHIN), ..Call::post(paths::FUNCTIONS_EXECUTE) };
        let body = self.transport.bytes(call, Some(request)).await?;
        parse(&body, "the result of an execution")
    }

    /// Lists the nodes the head knows: itself first, the others by id. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head is one without this list.
    pub async fn nodes(&self) -> Result<Vec<NodeBody>, ClientError> {
        let list: NodesResponse =
            self.transport.json(Call::get(paths::NODES), "a list of nodes").await?;
        Ok(list.nodes)
    }

    /// Lists the functions the head holds, by name. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head is one without this list.
    pub async fn functions(&self) -> Result<Vec<FunctionBody>, ClientError> {
        let list: FunctionsResponse =
            self.transport.json(Call::get(paths::FUNCTIONS), "a list of functions").await?;
        Ok(list.functions)
    }

    /// Returns if the head serves. Cancel-safe.
    ///
    /// # Errors
    /// Those of a broken line, or a refusal.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.transport.bytes(Call::get(paths::HEAD_HEALTH), None::<&()>).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests;
