//! Refusals of a worker: code, reason and the public part of the reason.

use content::{FetchError, Function, FunctionsError, InstallError, Kind};
use model::function::Method;
use model::node::PeerId;
use model::parse::ParseError;
use task::causes::chain;
use task::file::is_no_space;
use tracing::info;

use super::executor::ExecutorError;
use super::external::ExternalError;
use crate::message::{Code, NodeResult, WorkOrder, WorkOrderResponse};

/// Reason for which a worker refuses a request of a head.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkRefusal {
    #[error("execution by consensus is not supported")]
    Consensus,
    #[error("invalid request")]
    Request(#[from] ParseError),
    #[error("the node is stopping")]
    Stopping,
    #[error("no free slot: all {n_slots} are taken")]
    Full { n_slots: u16 },
    #[error("{}", describe_fetch(.0))]
    Fetch(#[from] FetchError),
    #[error("{}", describe_install(.0))]
    Install(#[from] InstallError),
    #[error("function is not stored on this worker")]
    Missing,
    #[error("function has no module {wanted}, only {has}")]
    Method { has: String, wanted: Method },
    #[error(transparent)]
    Run(#[from] ExecutorError),
}

impl WorkRefusal {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Missing | Self::Method { .. } | Self::Fetch(_) => Code::NOT_FOUND,
            Self::Full { .. } => Code::UNAVAILABLE,
            _ => Code::ERROR,
        }
    }

    /// Returns true if every worker would refuse, since the request or the function is at fault.
    fn is_final(&self) -> bool {
        match self {
            Self::Request(_) | Self::Method { .. } => true,
            Self::Run(error) => error.is_final(),
            _ => false,
        }
    }

    /// Returns the response to a refused order.
    pub(super) fn answer(&self, head: &PeerId, order: &WorkOrder) -> WorkOrderResponse {
        let (request, reason) = (&order.request_id, self.public_text());
        info!(request, peer = %head, reason = chain(self), "refused a work order");
        WorkOrderResponse {
            request_id: request.clone(),
            code: self.code(),
            result: NodeResult::not_run(self.code(), &reason),
            error_message: reason,
            is_final: self.is_final(),
        }
    }

    /// Returns the reason that the head's user can see. Messages from peers, gateways and hosts about a
    /// function are only logged, since they would reveal which hosts this node can reach, and so are paths
    /// of this machine.
    pub(super) fn public_text(&self) -> String {
        match self {
            Self::Fetch(_) | Self::Install(_) => self.to_string(),
            Self::Run(ExecutorError::Content(error)) => describe_keep(error),
            Self::Run(ExecutorError::External(
                ExternalError::Workspace { .. } | ExternalError::Start { .. },
            )) => "the worker cannot start its external runtime".to_owned(),
            _ => chain(self),
        }
    }
}

/// Describes why a function was not fetched. Omits messages from other machines.
fn describe_fetch(error: &FetchError) -> String {
    match error {
        FetchError::Keep(error) => describe_keep(error),
        FetchError::NotInstalled { .. } => "the function is not installed".to_owned(),
        FetchError::Unsupported { .. } => "unsupported content id".to_owned(),
        FetchError::TimedOut { .. } => "the function was not fetched in time".to_owned(),
        _ => "no node or gateway provided the function".to_owned(),
    }
}

/// Describes why a function was not installed. Omits messages from other machines.
fn describe_install(error: &InstallError) -> String {
    match error {
        InstallError::Fetch(error) => describe_fetch(error),
        InstallError::Keep(error) => describe_keep(error),
        InstallError::Crowded(error) => error.to_string(),
        InstallError::Web(_) => "the function's address could not be read".to_owned(),
        InstallError::Address { .. } => "the id does not match the manifest's address".to_owned(),
        InstallError::Taken { .. } => "the id was installed from another address".to_owned(),
        InstallError::NoCid { .. } => "this node installs functions only by CID".to_owned(),
        _ => "invalid function id".to_owned(),
    }
}

/// Describes why a function was not stored.
fn describe_keep(error: &FunctionsError) -> String {
    match error {
        FunctionsError::Full => "the function store is full of pinned functions".to_owned(),
        FunctionsError::Files { source, .. } if is_no_space(source) => {
            "the worker's disk is full".to_owned()
        }
        FunctionsError::Files { .. } => "the worker cannot use its function store".to_owned(),
        error => format!("invalid content: {}", chain(error)),
    }
}

/// Lists the first modules of a function, up to a maximum number.
pub(super) fn list_modules(function: &Function) -> String {
    /// Maximum number of listed modules, since a directory can have many.
    const NAMED_MAX: usize = 8;
    let Kind::Folder(methods) = &function.kind else { return function.method.to_string() };
    let named: Vec<&str> = methods.iter().take(NAMED_MAX).map(Method::as_str).collect();
    let n_more = methods.len().saturating_sub(NAMED_MAX);
    let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
