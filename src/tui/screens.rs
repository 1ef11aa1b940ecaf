//! The screens, one directory each: `state` is the state of a screen, `update` changes it, `view`
//! draws it.

pub(crate) mod cluster {
    //! The Cluster screen: nodes, runs, result groups and local processes.
    pub(crate) mod nodes;
    pub(crate) mod operator;
    pub(crate) mod processes;
    pub(crate) mod start;
    pub(crate) mod state;
    pub(crate) mod update;
    pub(crate) mod view;
}
pub(crate) mod data {
    //! The Data screen: datasets, charts, tables and pins.
    pub(crate) mod state;
    pub(crate) mod update;
    pub(crate) mod view;
}
pub(crate) mod execute {
    //! The Execute screen: the form of an execution and its outcome.
    pub(crate) mod state;
    pub(crate) mod update;
    pub(crate) mod view;
}
pub(crate) mod inference {
    //! The Inference screen: topics, combined values, actors and history.
    pub(crate) mod state;
    pub(crate) mod update;
    pub(crate) mod view;
}
pub(crate) mod logs {
    //! The Logs screen: log lines of local processes and of the screen itself.
    pub(crate) mod state;
    pub(crate) mod view;
}
pub(crate) mod overview {
    //! The Overview screen: a summary of all services.
    pub(crate) mod state;
    pub(crate) mod view;
}
pub(crate) mod update;

/// A screen: one of the tabs in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Screen {
    /// Nodes, runs, result groups, local processes.
    #[default]
    Cluster,
    /// The form and the results of a run.
    Execute,
    /// Datasets and charts.
    Data,
    /// Topics and their latest values.
    Inference,
    /// Log lines of all local processes.
    Logs,
    /// A summary of all services.
    Overview,
}

impl Screen {
    /// All screens, in the order of their number keys.
    pub const ALL: [Self; 6] =
        [Self::Cluster, Self::Execute, Self::Data, Self::Inference, Self::Logs, Self::Overview];

    /// Names of each screen: in the header, within a sentence, and in a narrow header.
    const NAMES: [[&str; 3]; Self::ALL.len()] = [
        ["Cluster", "cluster", "Clus"],
        ["Execute", "execute", "Exec"],
        ["Data", "data", "Data"],
        ["Inference", "inference", "Infer"],
        ["Logs", "logs", "Logs"],
        ["Overview", "overview", "All"],
    ];

    /// Returns the name in the header.
    pub(crate) const fn name(self) -> &'static str {
        Self::NAMES[self as usize][0]
    }

    /// Returns the name for use within a sentence.
    pub(crate) const fn title(self) -> &'static str {
        Self::NAMES[self as usize][1]
    }

    /// Returns the name in a narrow header.
    pub(crate) const fn short_name(self) -> &'static str {
        Self::NAMES[self as usize][2]
    }
}
