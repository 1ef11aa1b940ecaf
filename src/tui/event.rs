//! What happens to the screen, and what it asks for: the two enums around `update`.
//!
//! An [`Event`] is all that can change the state. An [`Effect`] is all that the state can ask for;
//! it is data, performed in `effects.rs`, which answers with events. The fence between state and
//! client stands here: `state/` names rows and bundles by the words of this file.
//!
//! How a screen's state takes part (see `state/data.rs` and `state/inference.rs`):
//! - `show(now)` and `hide()` when it comes into view and leaves it, `connected(now)` when the
//!   services' addresses are known, also again later;
//! - `act(action, now)` for every [`Action`](crate::action::Action) of its layers in `keymap.rs`;
//! - its own events: [`DataEvent`] and [`InferenceEvent`] carry the answers to its effects, and
//!   [`Event::TimerDue`] says that a [`Timer`] it had set by [`Effect::SetTimer`] is due;
//! - each pushes the effects it asks for onto `effects` of its state. Setting a timer again
//!   replaces it; each effect that loads is answered exactly once, unless a newer one of the same
//!   kind has replaced it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

pub(crate) use client::datasets::{
    Acquired, DatasetsPage, NamedRow, Order, Rows, RowsPage, RowsQuery, download::DownloadQuery,
};
use model::{
    dataset::{Column, Dataset, DatasetId},
    key::ApiKey,
    topic::TopicId,
};
pub(crate) use wire::inference::LatestBundle;
use wire::{
    executions::{ClusterEvent, ExecutionBody},
    functions::{ExecuteRequest, ExecuteResponse, FunctionBody, NodeBody},
    inference::{
        Bundle, TopicHistory, TopicList,
        network::{LatestBody, Leaderboard},
    },
    nodes::NodeDetail,
};

use crate::{
    keymap::Chord,
    local::{Addresses, LocalEvent, NodeWish, Usage},
    profiles::{KeyPlace, Opened},
    screens::execute::state::presets::Preset,
    state::{
        layout::Divider,
        loadable::Failure,
        nodes::{GroupChange, NodeChange},
        runs::{Input, RunId},
        services::{HeadId, Service},
    },
};

/// Everything that can change the state.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key was pressed.
    Key(Chord),
    /// A text was pasted.
    Paste(String),
    /// The mouse was clicked on something that the last frame showed.
    Click(Target),
    /// The wheel was turned over something: up is negative, in rows.
    Wheel(Target, i32),
    /// The mouse was pressed on a divider.
    Grab,
    /// The mouse moved a divider that it had grabbed, so many cells right or down since then.
    Drag(Divider, i16),
    /// The terminal has this size.
    Resized { width: u16, height: u16 },
    /// The terminal told its background: red, green and blue.
    Background([u8; 3]),
    /// The terminal came to the front, or left it.
    Focused(bool),
    /// Handles a due timer.
    TimerDue(Timer),
    /// The program is asked to end.
    Terminate,
    /// A local process did something.
    Local(LocalEvent),
    /// The local stack could not be started.
    LocalFailed(Failure),
    /// The answer to [`Effect::LoadNodes`], and how long it took.
    Nodes(HeadId, Result<Vec<NodeBody>, Failure>, Duration),
    /// The answer to [`Effect::ChangeNode`].
    NodeChanged(HeadId, Result<NodeDetail, Failure>),
    /// The same where the nodes of a group were to be changed.
    GroupChanged(HeadId, GroupChange),
    /// The answer to [`Effect::Probe`], one for each service whose address is known.
    Probed {
        service: Service,
        /// Whether it serves; none if no answer came within
        /// [`PROBE_WITHIN`](crate::state::services::PROBE_WITHIN).
        answer: Option<Result<(), Failure>>,
        /// Time that the response took.
        latency: Duration,
    },
    /// The answer to [`Effect::LoadFunctions`].
    Functions(HeadId, Result<Vec<FunctionBody>, Failure>),
    /// The head accepted a run under this request id.
    RunAccepted(RunId, String),
    /// The head became unreachable during a run, or is reachable again (none).
    RunUnreachable(RunId, Option<Failure>),
    /// The head's report of a run that ended. Comes before [`Event::Executed`].
    RunReport(RunId, Box<ExecutionBody>),
    /// The answer to [`Effect::Execute`].
    Executed(RunId, Result<Box<ExecuteResponse>, Failure>),
    /// Handles an event of a profile.
    Profile(ProfileEvent),
    /// Something happened in the head's cluster.
    Cluster(HeadId, HeadEvent),
    /// The answer to [`Effect::AddFunction`].
    FunctionAdded(HeadId, Result<FunctionBody, Failure>),
    /// The answer to [`Effect::LoadPresets`].
    Presets(BTreeMap<String, Preset>),
    /// The answer to [`Effect::LoadUsage`]: what each local process uses.
    Usage(Vec<(String, Usage)>),
    /// An operation on this machine failed, such as on a process or a file.
    Failed(Failure),
    /// The answer to [`Effect::Save`]: where to, and how many rows or lines.
    Saved(PathBuf, String),
    /// The answer to [`Effect::Copy`].
    Copied {
        text: String,
        /// The name of the program that copied it; `None` if none did.
        by: Option<&'static str>,
    },
    /// The answer to [`Effect::Page`]: the pager has ended, and the terminal is free.
    Paged(Result<(), Failure>),
    /// For the Data screen.
    Data(DataEvent),
    /// For the Inference screen.
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

/// Events of profiles and their keys.
#[derive(Debug)]
pub(crate) enum ProfileEvent {
    /// The answer to [`Effect::OpenProfile`].
    Opened { name: String, result: Result<Opened, Failure> },
    /// The answer to [`Effect::KeepKey`].
    Kept {
        profile: String,
        /// The place of the stored key, and the key.
        result: Result<(KeyPlace, ApiKey), Failure>,
    },
    /// The answer to [`Effect::ForgetKey`].
    Forgotten {
        profile: String,
        /// True if there was one.
        result: Result<bool, Failure>,
    },
}

/// An event of a stream that reconnects by itself.
pub(crate) type StreamEvent<T> = client::stream::StreamEvent<T, Failure>;

/// An event of the stream of a head's cluster.
pub(crate) type HeadEvent = StreamEvent<Box<ClusterEvent>>;

/// An event of a dataset's stream: new and corrected rows, at most 20 batches a second.
pub(crate) type RowsEvent = StreamEvent<Vec<NamedRow>>;

/// An event of a topic's stream of bundles.
pub(crate) type BundleEvent = StreamEvent<Box<LatestBundle>>;

/// A run, as it is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunOrder {
    /// The head that runs it. No other is asked, whatever happens to this one.
    pub(crate) head: HeadId,
    /// The request; standard input from a file or a dataset is filled in later.
    pub(crate) request: ExecuteRequest,
    /// The source of standard input.
    pub(crate) input: Input,
    /// True if the head reports progress.
    pub(crate) is_followed: bool,
}

/// Events of the Data screen.
#[derive(Debug)]
pub(crate) enum DataEvent {
    /// The answer to [`Effect::LoadDatasets`].
    Datasets { search: DatasetSearch, result: Result<DatasetsPage, Failure> },
    /// The answer to [`Effect::LoadColumns`].
    Columns { dataset: DatasetId, result: Result<Vec<Column>, Failure> },
    /// The answer to [`Effect::LoadRows`].
    Rows { query: RowsQuery, result: Result<RowsPage, Failure> },
    /// The answer to [`Effect::LoadTags`].
    Tags { dataset: DatasetId, result: Result<Vec<String>, Failure> },
    /// The answer to [`Effect::LoadPinned`].
    Pinned { dataset: DatasetId, result: Result<Box<Dataset>, Failure> },
    /// The answer to [`Effect::LoadTable`].
    Table { query: RowsQuery, result: Result<RowsPage, Failure> },
    /// Progress of the export begun by [`Effect::Export`].
    Export(ExportNews),
    /// Something happened on the stream opened by [`Effect::OpenStream`].
    Stream { dataset: DatasetId, news: RowsEvent },
    /// The answer to [`Effect::AcquireTag`].
    Acquired { tag: String, result: Result<Acquired, Failure> },
}

impl DataEvent {
    /// The outcome of an answer that shows how the service does; none for other events.
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
    /// Those whose name or description holds this; all, if it is empty.
    Text(String),
    /// Those whose metadata has this value in this field.
    Metadata(String, String),
}

impl DatasetSearch {
    /// The search for text that every dataset holds.
    pub(crate) const ALL: Self = Self::Text(String::new());
}

/// The written part of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) rows: u64,
    /// Total rows, if the service reports it.
    pub(crate) total_rows: Option<u64>,
    pub(crate) bytes: u64,
}

/// The progress of an export.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExportNews {
    /// So much is written.
    Written(Progress),
    /// All of it is.
    Done { progress: Progress, path: PathBuf },
    /// It was given up, and nothing is left of it.
    Failed(Failure),
}

/// Events of the Inference screen.
#[derive(Debug)]
pub(crate) enum InferenceEvent {
    /// The answer to [`Effect::LoadTopics`].
    Topics(Result<TopicList, Failure>),
    /// The answer to [`Effect::LoadLatest`].
    Latest { topic: TopicId, is_resistant: bool, result: Result<LatestBundle, Failure> },
    /// The answer to [`Effect::LoadConfidence`].
    Confidence { topic: TopicId, result: Result<Box<LatestBody>, Failure> },
    /// The answer to [`Effect::LoadPastBundles`].
    PastBundles { topic: TopicId, result: Result<Vec<Bundle>, Failure> },
    /// Something happened on the stream opened by [`Effect::OpenBundles`].
    Bundle { topic: TopicId, news: BundleEvent },
    /// The answer to [`Effect::LoadHistory`].
    History { topic: TopicId, result: Result<TopicHistory, Failure> },
    /// The answer to [`Effect::LoadLeaderboard`].
    Leaderboard { topic: TopicId, result: Result<Leaderboard, Failure> },
}

/// Everything that the state can request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Starts the local stack.
    StartLocal,
    /// From now on the services are there. Closes streams and drops calls to those before.
    Connect(Addresses),
    /// Reads a profile and its key.
    OpenProfile(String),
    /// Tries a key on a service of a profile, and keeps it if it is good.
    KeepKey { profile: String, addresses: Addresses, key: ApiKey },
    /// Forgets the key of a profile.
    ForgetKey(String),
    /// Asks these heads and each other service whether they serve.
    Probe(Vec<HeadId>),
    /// Lists the head's nodes.
    LoadNodes(HeadId),
    /// Changes what the head's operator decided of a node.
    ChangeNode(HeadId, NodeChange),
    /// Lists the head's functions.
    LoadFunctions(HeadId),
    /// Follows what happens in the head's cluster.
    FollowCluster(HeadId),
    /// Runs a function.
    Execute(RunId, Box<RunOrder>),
    /// Cancels a run, at its head too if its request id is known.
    Cancel(RunId, Option<(HeadId, String)>),
    /// Gives the head a module of this machine.
    AddFunction { head: HeadId, path: String },
    /// Reads the presets.
    LoadPresets,
    /// Writes the presets.
    SavePresets(BTreeMap<String, Preset>),
    /// Looks at what the local processes use.
    LoadUsage,
    /// Looks for nodes that were left running.
    FindDetachedNodes,
    /// Has nodes that were started by hand go on when the screen is closed.
    DetachNodes,
    /// Starts a node on this machine.
    AddNode(NodeWish),
    /// Stops a local process.
    StopProcess(String),
    /// Starts a local process again.
    RestartProcess(String),
    /// Lists the datasets that are searched for.
    LoadDatasets(DatasetSearch),
    /// Lists a dataset's columns.
    LoadColumns { dataset: DatasetId },
    /// Reads rows or buckets.
    LoadRows(RowsQuery),
    /// Reads what a dataset is called, to watch it.
    LoadPinned { dataset: DatasetId },
    /// Lists a dataset's tags.
    LoadTags { dataset: DatasetId },
    /// Reads a page of the table of rows.
    LoadTable(RowsQuery),
    /// Waits for no such page.
    DropTable,
    /// Writes a range of a dataset to a file.
    Export { query: DownloadQuery, path: PathBuf },
    /// Writes a text to a file: all of it, or nothing.
    Save {
        path: PathBuf,
        text: String,
        /// Amount of text, for people: `12 rows`.
        what: String,
    },
    /// Gives up the export that is under way.
    DropExport,
    /// Follows a dataset, beside others.
    OpenStream { dataset: DatasetId },
    /// Follows a dataset no longer.
    CloseStream { dataset: DatasetId },
    /// Acquires a tag, such as `public`, for the key.
    AcquireTag { tag: String },
    /// Lists topics, with their clock and actors.
    LoadTopics,
    /// Reads a topic's newest bundle; the resistant one is without outliers.
    LoadLatest { topic: TopicId, is_resistant: bool },
    /// Reads what stands beside a topic's newest bundle: weights and intervals.
    LoadConfidence { topic: TopicId },
    /// Reads a topic's newest bundles.
    LoadPastBundles { topic: TopicId, limit: usize },
    /// Follows a topic's bundles, and none other's.
    OpenBundles { topic: TopicId },
    /// Follows no topic's bundles.
    CloseBundles,
    /// Reads who did how well in a topic.
    LoadLeaderboard { topic: TopicId },
    /// Reads a topic's past epochs.
    LoadHistory {
        topic: TopicId,
        /// At most so many, the newest.
        limit: usize,
    },
    /// Does what a key for the action would do, once the update under way is over.
    Perform(crate::action::Action),
    /// Sends [`Event::TimerDue`] after a while.
    SetTimer(Timer, Duration),
    /// Takes a timer back.
    ClearTimer(Timer),
    /// Copies a text to the clipboard.
    Copy(String),
    /// Sends a text to the clipboard of the terminal (OSC 52).
    CopyToTerminal(String),
    /// Takes the mouse from the terminal, or gives it back.
    CaptureMouse(bool),
    /// Shows a text in the program that `PAGER` names, which has the terminal until it ends.
    Page(String),
    /// Redraws the whole screen.
    Redraw,
    /// Stops the program until the shell brings it back.
    Suspend,
    /// Ends the program.
    Quit,
}

/// The purpose of a timer. There is one timer of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// The next frame for the sake of ages, which nothing else asks for.
    Age,
    /// The next probe of the services.
    Probe,
    /// The next look at the head's nodes.
    Nodes(HeadId),
    /// The next look at the list of datasets.
    Datasets,
    /// The next look at the chart's rows, where no stream brings them.
    Rows,
    /// The next look at topics.
    Topics,
    /// The next look at the topics of the Overview screen.
    Overview,
    /// The second `^C` came too late.
    Interrupt,
    /// The oldest notice has been shown long enough.
    Notice,
}

/// Something in a frame that can be clicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A screen's name in the header.
    Screen(crate::screens::Screen),
    /// The action of a key.
    Action(crate::action::Action),
    /// A pane of the screen in view, by its number there.
    Pane(usize),
    /// A row of a pane: of its whole list, not of what is shown of it.
    Row { pane: usize, row: usize },
    /// The head of a column of a table, by its index.
    Column { pane: usize, column: usize },
    /// A label of the topic in view, by its index.
    Label(usize),
    /// An output of a result group.
    Output(crate::state::results::Output),
    /// A kind of chart.
    Chart(crate::screens::data::state::zoom::ChartKind),
    /// A resolution of the chart.
    Resolution(model::resolution::Resolution),
    /// The candle or point of the chart at this time.
    Time(model::timestamp::Timestamp),
}
