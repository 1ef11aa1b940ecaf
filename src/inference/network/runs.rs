//! What the network asks of a function cluster.

use std::{collections::BTreeMap, error::Error};

use async_trait::async_trait;
use model::node::{PeerId, Subgroup};

/// Why somebody else could not answer. Its text and its causes go to the log.
pub type Cause = Box<dyn Error + Send + Sync>;

/// How many workers run a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// All that report.
    All,
    /// So many, or none.
    Exactly(u32),
}

impl From<Nodes> for i64 {
    /// The number that document 1 has for it: -1 for all.
    fn from(nodes: Nodes) -> Self {
        match nodes {
            Nodes::All => -1,
            Nodes::Exactly(n) => n.into(),
        }
    }
}

/// One run of a function on several workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The function's name or content id.
    pub function: String,
    /// The file to run inside it.
    pub method: String,
    /// The subgroup whose workers run it; none for any worker.
    pub subgroup: Option<Subgroup>,
    /// How many workers.
    pub n_nodes: Nodes,
    /// Environment variables of the function, by name.
    pub env: BTreeMap<String, String>,
    /// What each reads from standard input.
    pub stdin: String,
}

/// What one worker gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerOutput {
    /// The id of the worker's node.
    pub peer_id: PeerId,
    /// What it wrote to standard output.
    pub stdout: String,
    /// 0 on success.
    pub exit_code: i32,
}

/// Runs functions on a cluster.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Runs `job` and returns what each worker gave, in any order. Dropping the future gives up on
    /// the answer.
    ///
    /// # Errors
    /// A [`Cause`] if the cluster refused or did not answer.
    async fn run(&self, job: Job) -> Result<Vec<PeerOutput>, Cause>;
}
