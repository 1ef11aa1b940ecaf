//! Events and effects: the inputs and the outputs of an update.
//!
//! Only an [`Event`] changes the state. An [`Effect`] is a requested action as plain data.
//! `effects.rs` performs it and sends the result as an event. The state uses the client's types
//! only through this module.
//!
//! The state of a screen has these methods:
//! - `show` and `hide` when the screen comes into view and leaves it, `connected` whenever the
//!   addresses of the services become known;
//! - `act` for every [`Action`](crate::keymap::Action) of the screen's layers in `keymap.rs`;
//! - `on` for the screen's events: [`DataEvent`] and [`InferenceEvent`] are the results of its
//!   effects. [`Event::TimerDue`] reports a [`Timer`] that it set with [`Effect::SetTimer`].
//!
//! A screen requests effects by pushing them onto the field `effects` of its state. Setting a
//! timer again replaces it. An effect that loads data has exactly one result, unless a later
//! effect of the same kind replaces it.

use std::path::PathBuf;
use std::time::Duration;

use alerts::state::Alert;
use alerts::watch;
pub(crate) use client::datasets::download::DownloadQuery;
pub(crate) use client::datasets::{
    Acquired, DatasetSearch, DatasetsPage, NamedRow, Order, Rows, RowsPage, RowsQuery,
};
use model::dataset::{Column, Dataset, DatasetId};
use model::key::ApiKey;
use model::topic::{Address, TopicId};
use wire::executions::{ClusterEvent, ExecutionBody};
use wire::functions::{ExecuteRequest, ExecuteResponse, FunctionBody, NodeBody};
pub(crate) use wire::inference::LatestBundle;
use wire::inference::network::{EpochActorBody, LatestBody, Leaderboard, TopicSettings};
use wire::inference::{TopicHistory, TopicList};
use wire::nodes::NodeDetail;

use crate::keymap::{Action, Chord};
use crate::local::{Addresses, LocalEvent, NodeOptions, Usage};
use crate::profiles::{KeyPlace, Opened};
use crate::screens::execute::state::presets::{Preset, Presets};
use crate::state::change::{Change, Changed};
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
    /// A turn of the mouse wheel over a target, in rows. Negative is up.
    Wheel(Target, i32),
    /// A press of the mouse button on a divider.
    Grab,
    /// A drag of a divider, in cells to the right or down since the press.
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
    /// An event of the local stack.
    Local(LocalEvent),
    /// The local stack failed to start.
    LocalFailed(Failure),
    /// Result of [`Effect::LoadNodes`] and its latency.
    Nodes(HeadId, Outcome<Vec<NodeBody>>, Duration),
    /// Result of [`Effect::ChangeNode`] for a single node.
    NodeChanged(HeadId, Outcome<NodeDetail>),
    /// Result of [`Effect::ChangeNode`] for a group of nodes.
    GroupChanged(HeadId, GroupChange),
    /// Result of [`Effect::Probe`]. One event for each service with an address.
    Probed {
        service: Service,
        /// `None` after a timeout of [`PROBE_WITHIN`](crate::state::services::PROBE_WITHIN).
        response: Option<Outcome<()>>,
        latency: Duration,
    },
    /// Result of [`Effect::LoadFunctions`].
    Functions(HeadId, Outcome<Vec<FunctionBody>>),
    /// The head accepted a run and assigned this request id to it.
    RunAccepted(RunId, String),
    /// The head became unreachable during a run, or is reachable again if the failure is `None`.
    RunUnreachable(RunId, Option<Failure>),
    /// The head's report on a finished run. Precedes [`Event::Executed`].
    RunReport(RunId, Box<ExecutionBody>),
    /// Result of [`Effect::Execute`].
    Executed(RunId, Outcome<Box<ExecuteResponse>>),
    Profile(ProfileEvent),
    /// An event of the stream of a head's cluster.
    Cluster(HeadId, HeadEvent),
    /// Result of [`Effect::AddFunction`].
    FunctionAdded(HeadId, Outcome<FunctionBody>),
    /// Result of [`Effect::LoadPresets`].
    Presets(Presets),
    /// Result of [`Effect::ChangePreset`]: all presets in the file, and the names of the variables
    /// that were stored without a value. The names are `None` if the preset was removed.
    PresetChanged {
        name: String,
        left_out: Option<Vec<String>>,
        result: Outcome<Presets>,
    },
    /// Result of [`Effect::LoadUsage`]: names of local processes with their resource usage.
    Usage(Vec<(String, Usage)>),
    /// A local operation on a process or a file failed.
    Failed(Failure),
    /// Result of [`Effect::Save`] to the file at `path`. `what` is the number of rows or lines as text.
    Saved {
        path: PathBuf,
        what: String,
        result: Outcome<()>,
    },
    /// Result of [`Effect::Copy`].
    Copied {
        text: String,
        /// Name of the program that copied the text, or `None` if every program failed.
        by: Option<&'static str>,
    },
    /// Result of [`Effect::Page`]. The pager has exited, so the screen can use the terminal again.
    Paged(Outcome<()>),
    /// An event of the alerts.
    Alerts(AlertEvent),
    /// Result of [`Effect::Prepare`].
    Prepared(Preparation, Outcome<Prepared>),
    /// Progress of the import in the form that is open, as text.
    Importing(String),
    /// Result of [`Effect::Change`].
    Changed(Change, Outcome<Changed>),
    /// An event of the Data screen.
    Data(DataEvent),
    /// An event of the Inference screen.
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
    /// Names of the rules that are now watched, and names of the rules that need a service that is
    /// not configured. If `continues` is true, rules that fired before still fire.
    Watched { watched: Vec<String>, unwatched: Vec<String>, continues: bool },
    /// An event of the watch.
    Watch(watch::Event),
    /// Result of [`Effect::AddRule`].
    Added(Outcome<()>),
    /// The file of rules cannot be read. No rule is watched.
    Unreadable(Failure),
    /// The rules cannot be watched, or an alert was not sent.
    Failed(Failure),
}

/// A check whether an action on datasets or topics is possible. It runs while the form of the action is
/// open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preparation {
    /// Action that opens the form.
    pub(crate) action: Action,
    /// Dataset that the form changes.
    pub(crate) dataset: Option<DatasetId>,
    /// Topic that the form changes.
    pub(crate) topic: Option<TopicId>,
}

/// Current settings of the dataset or topic that a form changes.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Settings of the topic, if there is one.
    pub(crate) settings: Option<Box<TopicSettings>>,
    /// Tags of the dataset. Empty for other forms than the one that edits it.
    pub(crate) tags: Vec<String>,
    /// Columns of the dataset. Empty for other forms than the one that edits it.
    pub(crate) columns: Vec<Column>,
}

/// Events of profiles and their keys.
#[derive(Debug)]
pub(crate) enum ProfileEvent {
    /// Result of [`Effect::OpenProfile`].
    Opened { name: String, result: Outcome<Opened> },
    /// Result of [`Effect::KeepKey`].
    Kept {
        profile: String,
        /// The key and the place in which it is stored.
        result: Outcome<(KeyPlace, ApiKey)>,
    },
    /// Result of [`Effect::ForgetKey`].
    Forgotten {
        profile: String,
        /// True if a key was stored.
        result: Outcome<bool>,
    },
}

/// An event of a stream that reconnects automatically.
pub(crate) type StreamEvent<T> = client::stream::StreamEvent<T, Failure>;

/// An event of the stream of a head's cluster.
pub(crate) type HeadEvent = StreamEvent<Box<ClusterEvent>>;

/// An event of a dataset's stream: new and corrected rows, at most 20 batches a second.
pub(crate) type RowsEvent = StreamEvent<Vec<NamedRow>>;

/// A run to be sent to a head.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunOrder {
    /// Head that executes the run. If this head fails, the run is not sent to another head.
    pub(crate) head: HeadId,
    /// Request of the run. Standard input from a file or a dataset is filled in before it is sent.
    pub(crate) request: ExecuteRequest,
    /// Source of standard input.
    pub(crate) input: Input,
    /// True if the stream of the head's cluster reports the run's progress.
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
    /// An event of the stream opened by [`Effect::OpenStream`].
    Stream { dataset: DatasetId, news: RowsEvent },
    /// Result of [`Effect::AcquireTag`].
    Acquired(Outcome<Acquired>),
}

impl DataEvent {
    /// Returns the outcome of a request to the dataset service, or `None` for other events.
    pub(crate) fn outcome(&self) -> Option<Result<(), &Failure>> {
        Some(match self {
            Self::Datasets { result, .. } => result.as_ref().map(|_| ()),
            Self::Columns { result, .. } => result.as_ref().map(|_| ()),
            Self::Rows { result, .. } | Self::Table { result, .. } => result.as_ref().map(|_| ()),
            _ => return None,
        })
    }
}

/// Size of the written part of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExportSize {
    pub(crate) rows: u64,
    /// Number of rows of the whole export, if the service reports it.
    pub(crate) total_rows: Option<u64>,
    pub(crate) bytes: u64,
}

/// The progress of an export.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExportNews {
    /// A further part of the file is written.
    Written(ExportSize),
    /// The file is complete.
    Done { progress: ExportSize, path: PathBuf },
    /// The file cannot be created.
    NotCreated { dataset: DatasetId, failure: Failure },
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
    /// Result of [`Effect::LoadPastActors`].
    PastActors { topic: TopicId, result: Outcome<Vec<EpochActorBody>> },
    /// Result of [`Effect::LoadHistory`].
    History { topic: TopicId, result: Outcome<TopicHistory> },
    /// Result of [`Effect::LoadTopicSettings`].
    Settings { topic: TopicId, result: Outcome<Box<TopicSettings>> },
    /// Result of [`Effect::LoadLeaderboard`].
    Leaderboard { topic: TopicId, result: Outcome<Leaderboard> },
    /// Result of [`Effect::LoadActor`].
    Actor { topic: TopicId, actor: Address, result: Outcome<Leaderboard> },
}

/// Actions that the state requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Starts the local stack.
    StartLocal,
    /// Looks for a stack that another process runs. If there is one,
    /// [`LocalEvent::Attached`](crate::local::LocalEvent::Attached) follows.
    FindLocal,
    /// Connects to the services at these addresses. Closes streams and cancels calls of earlier
    /// services.
    Connect(Addresses),
    /// Reads a profile and its key.
    OpenProfile(String),
    /// Checks a key by a request to a service of a profile. Stores the key if it is valid.
    KeepKey { profile: String, addresses: Addresses, key: ApiKey },
    /// Removes the key of a profile.
    ForgetKey(String),
    /// Checks the health of all services.
    Probe,
    /// Lists the head's nodes.
    LoadNodes(HeadId),
    /// Changes an operator's decision on nodes of the head: cordoned, approved or refused.
    ChangeNode(HeadId, NodeChange),
    /// Lists the head's functions.
    LoadFunctions(HeadId),
    /// Opens the event stream of the head's cluster.
    FollowCluster(HeadId),
    /// Runs a function.
    Execute(RunId, Box<RunOrder>),
    /// Cancels a run. If the head has assigned a request id to it, cancels it at the head, too.
    Cancel(RunId, Option<(HeadId, String)>),
    /// Uploads a local module or directory to the head.
    AddFunction { head: HeadId, path: String },
    /// Reads the presets.
    LoadPresets,
    /// Writes a preset to the file of presets, or removes it from there.
    ChangePreset { name: String, preset: Option<Box<Preset>> },
    /// Measures the resource usage of local processes.
    LoadUsage,
    /// Finds nodes that an earlier screen left running.
    FindDetachedNodes,
    /// Leaves added nodes running when the screen closes.
    DetachNodes,
    /// Starts a local node.
    AddNode(NodeOptions),
    /// Stops a local process.
    StopProcess(String),
    /// Restarts a local process.
    RestartProcess(String),
    /// Lists the datasets that a search finds.
    LoadDatasets(DatasetSearch),
    /// Lists a dataset's columns.
    LoadColumns { dataset: DatasetId },
    /// Reads the rows or buckets of a chart.
    LoadRows(RowsQuery),
    /// Reads the details of a pinned dataset.
    LoadPinned { dataset: DatasetId },
    /// Lists a dataset's tags.
    LoadTags { dataset: DatasetId },
    /// Reads a page of the table of rows.
    LoadTable(RowsQuery),
    /// Cancels the request for a page of the table of rows.
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
    /// Opens the stream of a dataset. Other streams remain open.
    OpenStream { dataset: DatasetId },
    /// Closes the stream of a dataset.
    CloseStream { dataset: DatasetId },
    /// Acquires the tag `public` for the key.
    AcquireTag,
    /// Lists the topics.
    LoadTopics,
    /// Reads the latest bundle of a topic, without outliers if `is_resistant` is true.
    LoadLatest { topic: TopicId, is_resistant: bool },
    /// Reads weights and confidence intervals of a topic's latest bundle.
    LoadConfidence { topic: TopicId },
    /// Reads the values of the actors in the latest epochs of a topic.
    LoadPastActors { topic: TopicId, limit: usize },
    /// Reads the settings of a topic.
    LoadTopicSettings { topic: TopicId },
    /// Reads the leaderboard of a topic.
    LoadLeaderboard { topic: TopicId },
    /// Reads the scores of an actor, with details.
    LoadActor { topic: TopicId, actor: Address },
    /// Reads past epochs of a topic.
    LoadHistory {
        topic: TopicId,
        /// Maximum number of epochs, latest first.
        limit: usize,
    },
    /// Checks that the form of an action can be submitted, and loads the current settings.
    Prepare(Preparation),
    /// Requests a change from a service.
    Change(Change),
    /// Cancels a change.
    DropChange(Change),
    /// Reads the rules again and watches them. Rules that fire already still fire.
    WatchRules,
    /// Appends a section to the file of rules.
    AddRule(String),
    /// Runs the command of the rules and calls their webhook.
    SendAlert(Alert),
    /// Rings the bell and asks the terminal to show a desktop notification.
    NotifyTerminal(String),
    /// Sends [`Event::TimerDue`] after a duration.
    SetTimer(Timer, Duration),
    /// Clears a pending timer.
    ClearTimer(Timer),
    /// Copies a text to the clipboard.
    Copy(String),
    /// Asks the terminal to copy a text to the clipboard (OSC 52).
    CopyToTerminal(String),
    /// Captures or releases the mouse.
    CaptureMouse(bool),
    /// Shows a text in the pager, which uses the terminal until it exits.
    Page(String),
    /// Redraws the whole screen.
    Redraw,
    /// Stops the process until the shell continues it.
    Suspend,
    /// Ends the program.
    Quit,
}

/// Purpose of a timer. There is one timer for each purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// Next frame to refresh ages.
    Age,
    /// Next probe of the services.
    Probe,
    /// Next request for the nodes of this head.
    Nodes(HeadId),
    /// Next request for the list of datasets.
    Datasets,
    /// Next read of rows, for a dataset without a stream.
    Rows,
    /// Next request for the list of topics.
    Topics,
    /// Next request for the epochs whose forecasts are drawn over the chart.
    Forecasts,
    /// Read of the scores of the selected actor.
    Actor,
    /// Next read of the topics for the Overview screen.
    Overview,
    /// End of the time in which a second `^C` exits.
    Interrupt,
    /// Expiry of the oldest visible notice.
    Notice,
}

/// A clickable part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A screen's name in the header.
    Screen(crate::screens::Screen),
    /// A key hint. A click performs the action of the key.
    Action(Action),
    /// A pane of the current screen, by number.
    Pane(usize),
    /// A row of the list in a pane, counted from the start of the list.
    Row { pane: usize, row: usize },
    /// The title of a column, by its text.
    Column { pane: usize, column: &'static str },
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
