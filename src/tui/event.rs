//! Events and effects: the input and the output of an update.
//!
//! Only an [`Event`] changes the state. An [`Effect`] is a request of the state: plain data,
//! performed in `effects.rs`, whose results are events. The state uses the client's types only
//! through this module.
//!
//! The state of a screen has these methods:
//! - `show` and `hide` when it comes into view and leaves it, `connected` whenever the addresses of the
//!   services become known;
//! - `act` for every [`Action`](crate::keymap::Action) of its layers in `keymap.rs`;
//! - `on` for its events: [`DataEvent`] and [`InferenceEvent`] are the results of its effects.
//!   [`Event::TimerDue`] reports a [`Timer`] that it set by [`Effect::SetTimer`].
//!
//! Requested effects are pushed onto `effects` of its state. Setting a timer again replaces it. An
//! effect that loads has exactly one result, unless a later effect of the same kind replaces it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use alerts::state::Alert;
pub(crate) use client::datasets::download::DownloadQuery;
pub(crate) use client::datasets::{
    Acquired, DatasetsPage, NamedRow, Order, Rows, RowsPage, RowsQuery,
};
use model::dataset::{Column, Dataset, DatasetId};
use model::key::ApiKey;
use model::topic::TopicId;
use wire::executions::{ClusterEvent, ExecutionBody};
use wire::functions::{ExecuteRequest, ExecuteResponse, FunctionBody, NodeBody};
pub(crate) use wire::inference::LatestBundle;
use wire::inference::network::{LatestBody, Leaderboard};
use wire::inference::{Bundle, TopicHistory, TopicList};
use wire::nodes::NodeDetail;

use crate::keymap::Chord;
use crate::local::{Addresses, LocalEvent, NodeOptions, Usage};
use crate::profiles::{KeyPlace, Opened};
use crate::screens::execute::state::presets::Preset;
use crate::state::layout::Divider;
use crate::state::nodes::{GroupChange, NodeChange};
use crate::state::resource::{Failure, Outcome};
use crate::state::runs::{Input, RunId};
use crate::state::services::{HeadId, Service};

/// Everything that can change the state.
#[derive(Debug)]
pub(crate) enum Event {
    Key(Chord),
    Paste(String),
    /// A click on a target of the last frame.
    Click(Target),
    /// The wheel over a target, in rows. Negative is up.
    Wheel(Target, i32),
    /// A mouse press on a divider.
    Grab,
    /// A drag of a divider, in cells right or down since the press.
    Drag(Divider, i16),
    /// New size of the terminal.
    Resized {
        width: u16,
        height: u16,
    },
    /// Background color of the terminal: red, green and blue.
    Background([u8; 3]),
    /// The terminal gained or lost focus.
    Focused(bool),
    TimerDue(Timer),
    /// Request to exit, by a signal.
    Terminate,
    /// An event of the local stack.
    Local(LocalEvent),
    /// The local stack failed to start.
    LocalFailed(Failure),
    /// Result of [`Effect::LoadNodes`] with its latency.
    Nodes(HeadId, Outcome<Vec<NodeBody>>, Duration),
    /// Result of [`Effect::ChangeNode`] for a single node.
    NodeChanged(HeadId, Outcome<NodeDetail>),
    /// Result of [`Effect::ChangeNode`] for the nodes of a group.
    GroupChanged(HeadId, GroupChange),
    /// Result of [`Effect::Probe`], one for each service with an address.
    Probed {
        service: Service,
        /// `None` after a timeout of [`PROBE_WITHIN`](crate::state::services::PROBE_WITHIN).
        response: Option<Outcome<()>>,
        latency: Duration,
    },
    /// Result of [`Effect::LoadFunctions`].
    Functions(HeadId, Outcome<Vec<FunctionBody>>),
    /// The head accepted a run and assigned this request id.
    RunAccepted(RunId, String),
    /// The head became unreachable during a run, or is reachable again (`None`).
    RunUnreachable(RunId, Option<Failure>),
    /// Report of the head on a finished run, before [`Event::Executed`].
    RunReport(RunId, Box<ExecutionBody>),
    /// Result of [`Effect::Execute`].
    Executed(RunId, Outcome<Box<ExecuteResponse>>),
    Profile(ProfileEvent),
    /// An event on the stream of the head's cluster.
    Cluster(HeadId, HeadEvent),
    /// Result of [`Effect::AddFunction`].
    FunctionAdded(HeadId, Outcome<FunctionBody>),
    /// Result of [`Effect::LoadPresets`].
    Presets(BTreeMap<String, Preset>),
    /// Result of [`Effect::LoadUsage`]: resource usage of each local process.
    Usage(Vec<(String, Usage)>),
    /// A local operation on a process or a file failed.
    Failed(Failure),
    /// Result of [`Effect::Save`]: the path and the number of rows or lines.
    Saved(PathBuf, String),
    /// Result of [`Effect::Copy`].
    Copied {
        text: String,
        /// Name of the program that copied the text, or `None` if all failed.
        by: Option<&'static str>,
    },
    /// Result of [`Effect::Page`]. The pager has exited and the terminal is free.
    Paged(Outcome<()>),
    /// An event for the alerts.
    Alerts(AlertEvent),
    /// An event for the Data screen.
    Data(DataEvent),
    /// An event for the Inference screen.
    Inference(InferenceEvent),
}

impl From<DataEvent> for Event {
    fn from(event: DataEvent) -> Self {
        Self::Data(event)
    }
}

impl From<InferenceEvent> for Event {
    fn from(event: InferenceEvent) -> Self {
        Self::Inference(event)
    }
}

/// Events of the rules and their alerts.
#[derive(Debug)]
pub(crate) enum AlertEvent {
    /// The names of the rules that are watched, and of those whose service is not configured. If
    /// `continues`, rules that fired before still fire.
    Watched { watched: Vec<String>, unwatched: Vec<String>, continues: bool },
    /// Facts are missing for this reason.
    Problem(String),
    /// A rule fires or is resolved.
    Changed(Alert),
    /// Result of [`Effect::AddRule`].
    Added,
    /// The rules are invalid, or an alert was not sent.
    Failed(Failure),
}

/// Events of profiles and their keys.
#[derive(Debug)]
pub(crate) enum ProfileEvent {
    /// Result of [`Effect::OpenProfile`].
    Opened { name: String, result: Outcome<Opened> },
    /// Result of [`Effect::KeepKey`].
    Kept {
        profile: String,
        /// The stored key and its place.
        result: Outcome<(KeyPlace, ApiKey)>,
    },
    /// Result of [`Effect::ForgetKey`].
    Forgotten {
        profile: String,
        /// True if there was a key.
        result: Outcome<bool>,
    },
}

/// An event of a stream that reconnects automatically.
pub(crate) type StreamEvent<T> = client::stream::StreamEvent<T, Failure>;

/// An event of the stream of a head's cluster.
pub(crate) type HeadEvent = StreamEvent<Box<ClusterEvent>>;

/// An event of a dataset's stream: new and corrected rows, at most 20 batches a second.
pub(crate) type RowsEvent = StreamEvent<Vec<NamedRow>>;

/// An event of a topic's stream of bundles.
pub(crate) type BundleEvent = StreamEvent<Box<LatestBundle>>;

/// A run to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunOrder {
    /// Head that executes it. It is not sent to another head if this one fails.
    pub(crate) head: HeadId,
    /// Request. Standard input from a file or a dataset is filled in later.
    pub(crate) request: ExecuteRequest,
    /// Source of standard input.
    pub(crate) input: Input,
    /// True if the head reports progress by events.
    pub(crate) is_followed: bool,
}

/// Events of the Data screen.
#[derive(Debug)]
pub(crate) enum DataEvent {
    /// Result of [`Effect::LoadDatasets`].
    Datasets { search: DatasetSearch, result: Outcome<DatasetsPage> },
    /// Result of [`Effect::LoadColumns`].
    Columns { dataset: DatasetId, result: Outcome<Vec<Column>> },
    /// Result of [`Effect::LoadRows`].
    Rows { query: RowsQuery, result: Outcome<RowsPage> },
    /// Result of [`Effect::LoadTags`].
    Tags { dataset: DatasetId, result: Outcome<Vec<String>> },
    /// Result of [`Effect::LoadPinned`].
    Pinned { dataset: DatasetId, result: Outcome<Box<Dataset>> },
    /// Result of [`Effect::LoadTable`].
    Table { query: RowsQuery, result: Outcome<RowsPage> },
    /// Progress of [`Effect::Export`].
    Export(ExportNews),
    /// An event on the stream opened by [`Effect::OpenStream`].
    Stream { dataset: DatasetId, news: RowsEvent },
    /// Result of [`Effect::AcquireTag`].
    Acquired { tag: String, result: Outcome<Acquired> },
}

impl DataEvent {
    /// Returns the outcome of a response that indicates the health of the service.
    pub(crate) fn outcome(&self) -> Option<Result<(), &Failure>> {
        Some(match self {
            Self::Datasets { result, .. } => result.as_ref().map(|_| ()),
            Self::Columns { result, .. } => result.as_ref().map(|_| ()),
            Self::Rows { result, .. } | Self::Table { result, .. } => result.as_ref().map(|_| ()),
            _ => return None,
        })
    }
}

/// Criterion for the datasets in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatasetSearch {
    /// The name or the description contains this text. An empty text matches all datasets.
    Text(String),
    /// The metadata contains this field (first) with this value (second).
    Metadata(String, String),
}

impl DatasetSearch {
    /// The search that finds all datasets.
    pub(crate) const ALL: Self = Self::Text(String::new());
}

/// Size of the written part of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExportSize {
    pub(crate) rows: u64,
    /// Total rows, if the service reports it.
    pub(crate) total_rows: Option<u64>,
    pub(crate) bytes: u64,
}

/// The progress of an export.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExportNews {
    /// A part of the file is written.
    Written(ExportSize),
    /// The file is complete.
    Done { progress: ExportSize, path: PathBuf },
    /// The export failed and left no file.
    Failed(Failure),
}

/// Events of the Inference screen.
#[derive(Debug)]
pub(crate) enum InferenceEvent {
    /// Result of [`Effect::LoadTopics`].
    Topics(Outcome<TopicList>),
    /// Result of [`Effect::LoadLatest`].
    Latest { topic: TopicId, is_resistant: bool, result: Outcome<LatestBundle> },
    /// Result of [`Effect::LoadConfidence`].
    Confidence { topic: TopicId, result: Outcome<Box<LatestBody>> },
    /// Result of [`Effect::LoadPastBundles`].
    PastBundles { topic: TopicId, result: Outcome<Vec<Bundle>> },
    /// An event on the stream opened by [`Effect::OpenBundles`].
    Bundle { topic: TopicId, news: BundleEvent },
    /// Result of [`Effect::LoadHistory`].
    History { topic: TopicId, result: Outcome<TopicHistory> },
    /// Result of [`Effect::LoadLeaderboard`].
    Leaderboard { topic: TopicId, result: Outcome<Leaderboard> },
}

/// Requests of the state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Starts the local stack.
    StartLocal,
    /// Uses the services at these addresses. Closes earlier streams and drops earlier calls.
    Connect(Addresses),
    /// Reads a profile and its key.
    OpenProfile(String),
    /// Checks a key with a service of a profile. Stores the key if it is valid.
    KeepKey { profile: String, addresses: Addresses, key: ApiKey },
    /// Removes the key of a profile.
    ForgetKey(String),
    /// Probes these heads and every other service.
    Probe(Vec<HeadId>),
    /// Lists the head's nodes.
    LoadNodes(HeadId),
    /// Changes the operator's decision on nodes of the head.
    ChangeNode(HeadId, NodeChange),
    /// Lists the head's functions.
    LoadFunctions(HeadId),
    /// Opens the event stream of the head's cluster.
    FollowCluster(HeadId),
    /// Runs a function.
    Execute(RunId, Box<RunOrder>),
    /// Cancels a run, also at its head if the request id is known.
    Cancel(RunId, Option<(HeadId, String)>),
    /// Uploads a local module to the head.
    AddFunction { head: HeadId, path: String },
    /// Reads the presets.
    LoadPresets,
    /// Writes the presets.
    SavePresets(BTreeMap<String, Preset>),
    /// Measures the resource usage of local processes.
    LoadUsage,
    /// Finds nodes that were left running.
    FindDetachedNodes,
    /// Leaves nodes that the user added running when the screen closes.
    DetachNodes,
    /// Starts a local node.
    AddNode(NodeOptions),
    /// Stops a local process.
    StopProcess(String),
    /// Restarts a local process.
    RestartProcess(String),
    /// Lists the datasets of a search.
    LoadDatasets(DatasetSearch),
    /// Lists a dataset's columns.
    LoadColumns { dataset: DatasetId },
    /// Reads rows or buckets.
    LoadRows(RowsQuery),
    /// Reads the details of a pinned dataset.
    LoadPinned { dataset: DatasetId },
    /// Lists a dataset's tags.
    LoadTags { dataset: DatasetId },
    /// Reads a page of the table of rows.
    LoadTable(RowsQuery),
    /// Drops the request for a page of the table of rows.
    DropTable,
    /// Writes a range of a dataset to a file.
    Export { query: DownloadQuery, path: PathBuf },
    /// Writes a text to a file atomically.
    Save {
        path: PathBuf,
        text: String,
        /// Human-readable amount: `12 rows`.
        what: String,
    },
    /// Cancels the export in progress.
    DropExport,
    /// Opens the stream of a dataset, in addition to others.
    OpenStream { dataset: DatasetId },
    /// Closes the stream of a dataset.
    CloseStream { dataset: DatasetId },
    /// Acquires a tag, such as `public`, for the key.
    AcquireTag { tag: String },
    /// Lists the topics.
    LoadTopics,
    /// Reads the latest bundle of a topic, without outliers if `is_resistant` is true.
    LoadLatest { topic: TopicId, is_resistant: bool },
    /// Reads weights and confidence intervals of a topic's latest bundle.
    LoadConfidence { topic: TopicId },
    /// Reads the latest bundles of a topic.
    LoadPastBundles { topic: TopicId, limit: usize },
    /// Opens the stream of a topic's bundles, in place of another topic's.
    OpenBundles { topic: TopicId },
    /// Closes the stream of bundles.
    CloseBundles,
    /// Reads the leaderboard of a topic.
    LoadLeaderboard { topic: TopicId },
    /// Reads past epochs of a topic.
    LoadHistory {
        topic: TopicId,
        /// Maximum number of epochs, latest first.
        limit: usize,
    },
    /// Reads the rules again and watches them. The rules with these names are firing already.
    WatchRules(Vec<String>),
    /// Appends a section to the file of rules.
    AddRule(String),
    /// Runs the command of the rules and calls their webhook.
    SendAlert(Alert),
    /// Rings the bell, and shows a notification outside of the terminal.
    NotifyTerminal(String),
    /// Performs an action after the current update.
    Perform(crate::keymap::Action),
    /// Sends [`Event::TimerDue`] after this time.
    SetTimer(Timer, Duration),
    /// Clears a pending timer.
    ClearTimer(Timer),
    /// Copies a text to the clipboard.
    Copy(String),
    /// Copies a text to the clipboard of the terminal (OSC 52).
    CopyToTerminal(String),
    /// Captures or releases the mouse.
    CaptureMouse(bool),
    /// Shows a text in the pager, which has the terminal until it exits.
    Page(String),
    /// Redraws the whole screen.
    Redraw,
    /// Stops the program until the shell continues it.
    Suspend,
    /// Exits.
    Quit,
}

/// Purpose of a timer. There is one timer for each purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// The next frame to refresh ages.
    Age,
    /// The next probe of the services.
    Probe,
    /// The next list of the head's nodes.
    Nodes(HeadId),
    /// The next list of datasets.
    Datasets,
    /// The next read of rows without a stream.
    Rows,
    /// The next list of topics.
    Topics,
    /// The next read of the topics on the Overview screen.
    Overview,
    /// End of the time for a second `^C`.
    Interrupt,
    /// Expiry of the oldest visible notice.
    Notice,
}

/// A clickable part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A screen's name in the header.
    Screen(crate::screens::Screen),
    /// A key hint. A click performs its action.
    Action(crate::keymap::Action),
    /// A pane of the current screen, by number.
    Pane(usize),
    /// A row of the list in a pane, counted from the start of the list.
    Row { pane: usize, row: usize },
    /// The title of a column, by index.
    Column { pane: usize, column: usize },
    /// A label of the current topic, by index.
    Label(usize),
    /// An output of a result group.
    Output(crate::state::results::Output),
    /// The name of a kind of chart, which selects it.
    Chart(crate::screens::data::state::zoom::ChartKind),
    /// The name of a resolution, which selects it for the chart.
    Resolution(model::resolution::Resolution),
    /// The candle or point of the chart at this time.
    Time(model::timestamp::Timestamp),
}
