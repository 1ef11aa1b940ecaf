//! A screen for tests, without a terminal and without services. It stores the effects.

use std::collections::BTreeMap;
use std::time::Duration;

use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::row::Bucket;
use model::timestamp::Timestamp;
use model::topic::TopicId;
use ratatui::prelude::*;
use wire::executions::{ClusterEvent, ClusterEventKind};
use wire::functions::{
    ClusterBody, ExecuteResponse, FunctionBody, NodeApproval, NodeBody, Outcome, ResultGroupBody,
};
use wire::inference::{Bundle, LabeledValue, TopicList, WorkerValues};

use crate::app::{self, Start};
use crate::event::{DatasetsPage, Effect, Event, StreamEvent};
use crate::keymap::Chord;
use crate::local::{Addresses, Level, LocalEvent, LocalLog, LocalNode, LocalReady};
use crate::screens::execute::state::presets::change_preset;
use crate::screens::update::connect;
use crate::state::State;
use crate::state::overlay::Overlay;
use crate::state::resource::Failure;
use crate::state::runs::RunId;
use crate::state::services::HeadId;
use crate::theme::depth::Depth;
use crate::theme::{self, Theme};
use crate::user_file::Setting;
use crate::view::{Frame, Hits, Tier};

/// Content id of an empty module.
pub(crate) const FUNCTION_ID: &str = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";

/// Request id that the head assigns to each run.
pub(crate) const REQUEST_ID: &str = "6f0e1d2c-0000-4000-8000-00000000a91c";

pub(crate) struct Harness {
    /// State of the screen.
    pub(crate) state: State,
    /// Effects requested since they were last cleared.
    pub(crate) effects: Vec<Effect>,
}

impl Harness {
    /// Returns a screen of this size. It was opened at 14:02:31 and is starting the local stack.
    pub(crate) fn starting(width: u16, height: u16) -> Self {
        let now = "2026-07-30T14:02:31Z".parse().unwrap();
        let mut state = State { now, size: (width, height), ..State::default() };
        let effects = app::start(&mut state, Start::Local);
        Self { state, effects }
    }

    /// Returns a screen of this size. The local stack is running, and its nodes and functions are
    /// listed.
    pub(crate) fn ready(width: u16, height: u16) -> Self {
        let mut screen = Self::starting(width, height);
        for what in ["head", "worker 1 of 3", "datasets", "inference"] {
            screen.take(Event::Local(LocalEvent::Starting { what: what.to_owned() }));
        }
        screen.take(Event::Local(LocalEvent::Ready(ready())));
        screen.pass(Duration::from_secs(1));
        screen.take(Event::Nodes(screen.head(), Ok(nodes()), Duration::from_millis(12)));
        screen.take(Event::Functions(screen.head(), Ok(functions())));
        for (process, level, message) in [
            ("head", Level::Info, "roll call: 3 of 3 answered"),
            ("worker-1", Level::Info, "executed a function"),
            ("worker-2", Level::Warn, "boot node unreachable, retry in 4s"),
            ("worker-2", Level::Error, "lost the head"),
        ] {
            screen.take(Event::Local(LocalEvent::Log(LocalLog {
                process: process.to_owned(),
                level,
                time: screen.state.now,
                message: message.to_owned(),
                fields: [("peer", "12D3KooW")].into_iter().collect(),
            })));
        }
        screen
    }

    /// Returns a screen like [`Self::ready`] that shows no notices.
    pub(crate) fn quiet(size: (u16, u16)) -> Self {
        let mut screen = Self::ready(size.0, size.1);
        screen.state.notices.clear();
        screen
    }

    /// Returns a screen of 160 by 45 cells like [`Self::ready`], after these keys are pressed.
    pub(crate) fn after(keys: &str) -> Self {
        let mut screen = Self::ready(160, 45);
        screen.press(keys);
        screen
    }

    /// Returns a screen like [`Self::ready`], after [`Self::run_split`].
    pub(crate) fn split((width, height): (u16, u16)) -> Self {
        let mut screen = Self::ready(width, height);
        screen.run_split();
        screen
    }

    /// Returns the first head.
    pub(crate) fn head(&self) -> HeadId {
        self.head_at(0)
    }

    /// Returns the head with this index.
    pub(crate) fn head_at(&self, idx: usize) -> HeadId {
        self.state.services.heads().nth(idx).expect("a head")
    }

    /// Returns a screen of this size that is connected to heads at these addresses.
    pub(crate) fn of_heads(size: (u16, u16), heads: &[&str]) -> Self {
        let now = "2026-07-30T14:02:31Z".parse().unwrap();
        let mut state = State { now, size, ..State::default() };
        let heads = heads.iter().map(|&address| address.to_owned()).collect();
        let start = Start::Connect(Addresses { heads, ..Addresses::default() });
        let effects = app::start(&mut state, start);
        Self { state, effects }
    }

    /// Connects to heads at these addresses. The other services remain the same.
    pub(crate) fn use_heads(&mut self, heads: &[&str]) {
        let heads = heads.iter().map(|&address| address.to_owned()).collect();
        let addresses = Addresses { heads, ..self.state.services.addresses.clone() };
        connect(&mut self.state, &addresses);
        self.effects.append(&mut self.state.effects);
    }

    /// Applies an event.
    pub(crate) fn take(&mut self, event: Event) {
        let effects = app::update(&mut self.state, event);
        self.effects.extend(effects);
    }

    /// Draws and stores a frame, as the event loop does.
    pub(crate) fn draw(&mut self) {
        let frame = self.drawn(theme::Name::Dark);
        self.state.frames.record(&frame, self.state.now);
    }

    /// Advances the clock. Timers that become due are not delivered.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.state.now = self.state.now + time;
    }

    /// Presses keys. They have the names of the key table and are separated by spaces.
    pub(crate) fn press(&mut self, keys: &str) {
        for key in keys.split(' ') {
            let chord = Chord::named(key).unwrap_or_else(|| panic!("no key `{key}`"));
            let event = match self.state.overlays.last() {
                Some(Overlay::Jump(typed)) => self.hits().jump_target(typed, chord),
                _ => Event::Key(chord),
            };
            self.take(event);
        }
    }

    /// Types a text.
    pub(crate) fn type_text(&mut self, text: &str) {
        for letter in text.chars() {
            let key = if letter == ' ' { "space".to_owned() } else { letter.to_string() };
            self.press(&key);
        }
    }

    /// Returns the effects requested since the last call, except for timers.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        let effects = std::mem::take(&mut self.effects);
        let is_timer =
            |effect: &Effect| matches!(effect, Effect::SetTimer(..) | Effect::ClearTimer(_));
        effects.into_iter().filter(|effect| !is_timer(effect)).collect()
    }

    /// Presses keys and returns the effects that they request, except for timers.
    pub(crate) fn effects_of(&mut self, keys: &str) -> Vec<Effect> {
        self.effects.clear();
        self.press(keys);
        self.take_effects()
    }

    /// Presses keys and changes the presets as requested.
    pub(crate) fn change_presets(&mut self, keys: &str) {
        for effect in self.effects_of(keys) {
            let Effect::ChangePreset { name, preset } = effect else { continue };
            let mut list = self.state.execute.presets.clone();
            let changed = change_preset(&mut list, &name, preset.map(|it| *it));
            let left_out = changed.clone().ok().flatten();
            let failed = |why| Failure::new("save the preset", why, "");
            let result = changed.map(|_| list).map_err(failed);
            self.take(Event::PresetChanged { name, left_out, result });
        }
    }

    /// Executes the request of the form.
    pub(crate) fn run(&mut self) -> RunId {
        self.press("e ctrl-r");
        self.state.runs.newest().unwrap().id
    }

    /// Executes the request of the form. The head returns two result groups.
    pub(crate) fn run_split(&mut self) -> RunId {
        let id = self.run();
        self.pass(Duration::from_millis(900));
        self.take(Event::Executed(id, Ok(Box::new(split_response()))));
        id
    }

    /// Executes the request of the form. The head has sent work orders to three workers, and the first
    /// worker has returned its result.
    pub(crate) fn run_live(&mut self) -> RunId {
        self.take(Event::Cluster(self.head(), StreamEvent::Connected));
        let id = self.run();
        self.pass(Duration::from_millis(40));
        self.take(Event::RunAccepted(id, REQUEST_ID.to_owned()));
        let request_id = || REQUEST_ID.to_owned();
        let topic = "general".to_owned();
        self.happens(ClusterEventKind::RollCall {
            request_id: request_id(),
            function_id: FUNCTION_ID.to_owned(),
            topic,
            number_of_nodes: 3,
        });
        for peer in PEERS.into_iter().skip(1) {
            let (request_id, peer_id) = (request_id(), peer.to_owned());
            self.happens(ClusterEventKind::Reported { request_id, peer_id });
        }
        self.pass(Duration::from_millis(20));
        for peer in PEERS.into_iter().skip(1) {
            let (request_id, peer_id) = (request_id(), peer.to_owned());
            self.happens(ClusterEventKind::Dispatched {
                request_id,
                function_id: String::new(),
                peer_id,
            });
        }
        self.pass(Duration::from_millis(412));
        let (request_id, peer_id) = (request_id(), PEERS[1].to_owned());
        let (exit_code, elapsed_ms) = (0, 472.0);
        self.happens(ClusterEventKind::Result { request_id, peer_id, exit_code, elapsed_ms });
        id
    }

    /// Delivers an event of the head's stream.
    pub(crate) fn happens(&mut self, kind: ClusterEventKind) {
        let time = self.state.now.to_string();
        let event = ClusterEvent { time, kind };
        self.take(Event::Cluster(self.head(), StreamEvent::Item(Box::new(event))));
    }

    /// Returns the visible text, one line for each row.
    pub(crate) fn text(&self) -> String {
        let buffer = self.drawn(theme::Name::Dark);
        let width = usize::from(buffer.area.width.max(1));
        let rows = buffer.content().chunks(width).map(|row| {
            let mut text = String::new();
            let mut skip = 0;
            for cell in row {
                if skip == 0 {
                    text.push_str(cell.symbol());
                    skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).max(1);
                }
                skip -= 1;
            }
            text.trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    /// Checks that the screen shows all of `wanted`.
    #[track_caller]
    pub(crate) fn shows(&self, wanted: &[&str]) {
        let shown = self.text();
        for text in wanted {
            assert!(shown.contains(text), "no `{text}` in\n{shown}");
        }
    }

    /// Checks that the screen shows none of `unwanted`.
    #[track_caller]
    pub(crate) fn hides(&self, unwanted: &[&str]) {
        let shown = self.text();
        for text in unwanted {
            assert!(!shown.contains(text), "`{text}` in\n{shown}");
        }
    }

    /// Returns the first row that contains `text`.
    #[track_caller]
    pub(crate) fn row(&self, text: &str) -> String {
        let shown = self.text();
        let row = shown.lines().find(|line| line.contains(text));
        row.unwrap_or_else(|| panic!("no `{text}` in\n{shown}")).to_owned()
    }

    /// Returns the click targets of the screen.
    pub(crate) fn hits(&self) -> Hits {
        let area = Rect::new(0, 0, self.state.size.0, self.state.size.1);
        let theme = Theme::new(theme::Name::Dark, Depth::TrueColor);
        app::draw(area, &mut Buffer::empty(area), &self.state, &theme)
    }

    /// Returns the cells of the screen in the theme `name`.
    pub(crate) fn drawn(&self, name: theme::Name) -> Buffer {
        let area = Rect::new(0, 0, self.state.size.0, self.state.size.1);
        let mut buffer = Buffer::empty(area);
        app::draw(area, &mut buffer, &self.state, &Theme::new(name, Depth::TrueColor));
        buffer
    }
}

/// Peer ids of a head and of three workers.
pub(crate) const PEERS: [&str; 4] = [
    "12D3KooWRvApY7a4hZVGM3cCwFZ9QQhM7v2vPzU8nXBkS9GerdS2",
    "12D3KooWH9GerdSEroL2nqjpd2GuE5dwmqNi7uHX7FoKcP4qXabc",
    "12D3KooWM1tNqU1p1aVZz5rJY8N5v2pS7gkq3D2Q9yWbUvZ7uHod",
    "12D3KooWQx4cVb7sW2mK8h6Xr5nJp3gT1fD9aZcEyRuLwe2LrBnf",
];

/// Returns a local stack with a head and three workers.
pub(crate) fn ready() -> LocalReady {
    let nodes = PEERS.iter().enumerate().map(|(idx, peer)| LocalNode {
        name: if idx == 0 { "head".to_owned() } else { format!("worker-{idx}") },
        peer_id: (*peer).to_owned(),
        role: if idx == 0 { "head" } else { "worker" }.to_owned(),
        subgroup: (idx > 1).then(|| "gpu".to_owned()),
        pid: 48_120 + u32::try_from(idx).unwrap(),
        ..LocalNode::default()
    });
    LocalReady {
        addresses: Addresses {
            heads: vec!["http://127.0.0.1:41233".to_owned()],
            datasets: Some("http://127.0.0.1:41234/api".to_owned()),
            inference: Some("http://127.0.0.1:41235".to_owned()),
            api_key: Some("UP-0123456789abcdef01234567".parse().unwrap()),
            head_token: None,
        },
        nodes: nodes.collect(),
        services: vec![("datasets".to_owned(), 48_131), ("inference".to_owned(), 48_132)],
        functions: Vec::new(),
    }
}

/// Returns the nodes that a head lists: itself and three workers, one of which has disagreed once.
pub(crate) fn nodes() -> Vec<NodeBody> {
    let node = |idx: usize, runs, agreed| NodeBody {
        peer_id: PEERS[idx].to_owned(),
        role: Some(if idx == 0 { "head" } else { "worker" }.to_owned()),
        subgroups: if idx > 1 { vec!["gpu".to_owned()] } else { Vec::new() },
        addresses: vec![format!("/ip4/127.0.0.1/tcp/3951{idx}/p2p/{}", PEERS[idx])],
        connected: true,
        latency_ms: (idx > 0).then_some(0.4),
        last_seen: (idx > 0).then(|| "2026-07-30T14:02:31Z".to_owned()),
        runs,
        agreed,
        slots: (idx > 0).then_some(10),
        slots_free: (idx > 0).then_some(10 - idx),
        functions: vec![FUNCTION_ID.to_owned(); idx],
        ..NodeBody::default()
    };
    vec![node(0, 0, 0), node(1, 41, 41), node(2, 39, 38), node(3, 3, 2)]
}

/// Returns three hundred workers of a head. They are in one of four zones or declare no zone. Of
/// every thirty workers, one is cordoned, one is draining, and one waits for approval.
pub(crate) fn many_nodes() -> Vec<NodeBody> {
    let worker = |n: usize| {
        let zone = ["a", "b", "c", "d"].get(n % 5);
        let attributes = zone.map(|zone| ("zone".to_owned(), (*zone).to_owned()));
        let gpu = n.is_multiple_of(4).then(|| ("gpu".to_owned(), "a100".to_owned()));
        NodeBody {
            peer_id: format!("12D3KooWMany{n:03}Workers{n:03}").replace('0', "z"),
            role: Some("worker".to_owned()),
            connected: n % 50 != 49,
            slots: Some(10),
            slots_free: Some(n % 11),
            runs: 100,
            agreed: 99,
            cordoned: matches!(n % 30, 7 | 8),
            running: usize::from(n % 30 == 8) * 2,
            approval: (n % 30 == 9).then_some(NodeApproval::Pending),
            attributes: attributes.into_iter().chain(gpu).collect(),
            ..NodeBody::default()
        }
    };
    nodes().into_iter().take(1).chain((0..300).map(worker)).collect()
}

/// Returns a list with a single topic.
pub(crate) fn topics(last_nonce: Option<u64>) -> TopicList {
    let list = serde_json::json!({"block_height": 1, "block_time_ms": 1_000, "topics": [{
        "topic_id": 1, "name": "load", "topic_type": "TOPIC_TYPE_REGRESSION", "labels": ["y"],
        "dataset": "cpu", "column": "load", "subgroup": null, "is_paused": false,
        "epoch_length": 10, "worker_submission_window": 4, "ground_truth_lag": 10,
        "next_epoch_height": 110, "close_height": null, "last_nonce": last_nonce, "n_learned": 0,
        "actors": [],
    }]});
    serde_json::from_value(list).unwrap()
}

/// Returns values with these labels, which are numbered from 1.
pub(crate) fn labeled(values: &[(&str, f64)]) -> Vec<LabeledValue> {
    let value = |(label_id, (name, value)): (u32, &(&str, f64))| LabeledValue {
        label_id,
        label_name: (*name).to_owned(),
        value: *value,
    };
    (1..).zip(values).map(value).collect()
}

/// Returns a dataset without a description.
pub(crate) fn dataset(id: i64, name: &str, time: Timestamp) -> Dataset {
    Dataset {
        id: DatasetId::new(id).unwrap(),
        name: name.to_owned(),
        description: String::new(),
        metadata: BTreeMap::new(),
        created_at: time,
        updated_at: time,
    }
}

/// Returns the only page of a list of datasets.
pub(crate) fn datasets(datasets: Vec<Dataset>) -> DatasetsPage {
    DatasetsPage { n_datasets: Some(datasets.len() as u64), datasets, has_more: false }
}

/// Returns columns with these names and types, in the order of the service.
pub(crate) fn columns(dataset: DatasetId, columns: &[(&str, Dtype)]) -> Vec<Column> {
    let column = |(id, (name, dtype)): (i64, &(&str, Dtype))| Column {
        id,
        dataset_id: dataset,
        name: (*name).to_owned(),
        dtype: *dtype,
        created_at: Timestamp::default(),
    };
    (1..).zip(columns).map(column).collect()
}

/// Returns a candle of a single value.
pub(crate) fn flat_candle(timestamp: Timestamp, value: f64) -> Bucket {
    let (open, high, low, close) = (value, value, value, value);
    Bucket { timestamp, open, high, low, close, volume: 0.0, count: 1 }
}

/// Returns the next number of a reproducible pseudorandom sequence, from 0 to 1.
pub(crate) fn noise(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    f64::from(u32::try_from(*seed >> 40).unwrap()) / f64::from(1 << 24)
}

/// Draws the area between header and footer with `draw`. Returns its cells and its click targets.
pub(crate) fn drawn_by(
    draw: fn(Rect, &mut Buffer, Frame<'_>),
    state: &State,
    (width, height): (u16, u16),
    theme: &Theme,
) -> (Buffer, Hits) {
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    theme.clear(buf.area, &mut buf);
    let tier = Tier::for_area(buf.area).unwrap_or(Tier::Small);
    let hits = Hits::default();
    draw(buf.area, &mut buf, Frame { state, theme, tier, hits: &hits });
    (buf, hits)
}

/// Returns a bundle of topic 1 with these values for a single label, and with a value of each of
/// `inferers`.
pub(crate) fn bundle(
    nonce: u64,
    label: &str,
    [combined, naive]: [f64; 2],
    inferers: impl IntoIterator<Item = (String, f64)>,
) -> Bundle {
    let values = |value| labeled(&[(label, value)]);
    let inferers = inferers.into_iter().map(|(address, value)| WorkerValues {
        worker: address.parse().unwrap(),
        values: values(value),
    });
    Bundle {
        topic_id: TopicId::new(1).unwrap(),
        nonce,
        combined_value: values(combined),
        inferer_values: inferers.collect(),
        forecaster_values: Vec::new(),
        naive_value: values(naive),
        one_out_inferer_values: Vec::new(),
        one_out_forecaster_values: Vec::new(),
        one_in_forecaster_values: Vec::new(),
        one_out_inferer_forecaster_values: Vec::new(),
    }
}

fn functions() -> Vec<FunctionBody> {
    ["divide", "hello", "mean"]
        .into_iter()
        .map(|name| FunctionBody {
            name: name.to_owned(),
            function_id: FUNCTION_ID.to_owned(),
            method: format!("{name}.wasm"),
            bytes: 18_432,
            by_manifest: Vec::new(),
        })
        .collect()
}

/// Returns a response with results of three peers, one of which disagrees.
pub(crate) fn split_response() -> ExecuteResponse {
    let group = |stdout: &str, peers: &[usize], frequency| ResultGroupBody {
        result: Outcome { stdout: stdout.to_owned(), ..Outcome::default() },
        peers: peers.iter().map(|idx| PEERS[*idx].to_owned()).collect(),
        frequency,
    };
    ExecuteResponse {
        code: "200".to_owned(),
        request_id: REQUEST_ID.to_owned(),
        message: String::new(),
        results: vec![
            group("{\n  \"mean\": 67431.22,\n  \"n\": 288\n}\n", &[1, 2], 200.0 / 3.0),
            group("{\n  \"mean\": 67431.20,\n  \"n\": 288\n}\n", &[3], 100.0 / 3.0),
        ],
        cluster: ClusterBody { peers: PEERS[1..].iter().map(|peer| (*peer).to_owned()).collect() },
    }
}

/// Returns a response with results of three peers that failed in the same way.
pub(crate) fn failed_response() -> ExecuteResponse {
    let result =
        Outcome { stderr: "no such symbol\n".to_owned(), exit_code: 1, ..Outcome::default() };
    let peers: Vec<String> = PEERS[1..].iter().map(|peer| (*peer).to_owned()).collect();
    ExecuteResponse {
        results: vec![ResultGroupBody { result, peers: peers.clone(), frequency: 100.0 }],
        ..split_response()
    }
}

/// Returns the entries of a file. Each has a table, a name and a value. Their lines are numbered
/// from 0.
pub(crate) fn entries(lines: &[(&str, &str, &str)]) -> Vec<Setting> {
    let entry = |(line, (table, name, value)): (usize, &(&str, &str, &str))| Setting {
        table: (*table).to_owned(),
        name: (*name).to_owned(),
        value: (*value).to_owned(),
        line,
    };
    lines.iter().enumerate().map(entry).collect()
}

/// Returns the text of `buf`. Each row is a line between two `│`.
pub(crate) fn framed_text(buf: &Buffer) -> String {
    let width = usize::from(buf.area.width).max(1);
    let rows = buf.content().chunks(width).map(|row| {
        let row: String = row.iter().map(buffer::Cell::symbol).collect();
        format!("│{row}│")
    });
    rows.collect::<Vec<_>>().join("\n")
}
