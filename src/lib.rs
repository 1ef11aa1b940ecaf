//! Triptych: a function cluster, a dataset service, an inference service and one screen for all three.
//! This page is the map of the code: its crates, its invariants and how data flows.
//!
//! # Bird's-eye view
//!
//! Each of the three services is a subcommand and follows a document, which rules its network
//! protocol. Everything that is not in the document is marked as an extension.
//!
//! 1. **Function cluster** ([`cluster`]). A head accepts a request over HTTP, issues a roll call by
//!    gossip, sends work orders to workers over libp2p and groups their results. Document 1 is *b7s*, a
//!    Go node for such clusters: both versions of its wire protocol, so that heads and workers of either
//!    program work together, and its REST API.
//! 2. **Dataset service** ([`datasets`]). Rows of time series in SQLite, or in PostgreSQL if several
//!    services share them. Buckets are written in the same commit. Rows are read page by page, in bulk
//!    or as a stream. Document 2 is a REST API for time series: catalog, rows, buckets, tags and
//!    Server-Sent Events.
//! 3. **Inference service** ([`inference`]). Epochs of a prediction network in SQLite or PostgreSQL.
//!    Each produces a bundle of combined, naive, one-out and one-in values. Document 3 is *the chain*,
//!    allora-chain: its mathematics in two generations (stdev-oct2024, mad-v0.17) and its query API,
//!    without a blockchain. The operator of the service is trusted to close epochs.
//!
//! The screen shows what any client of the services can see. Without configured addresses it attaches
//! to a running local stack. If there is none, it starts all services as child processes of this
//! program and stops them when it exits.
//!
//! # Crates, in reading order
//!
//! A crate is in `src/<crate>/`. Its manifest lists every crate that it may use.
//!
//! | crate | content | uses |
//! |---|---|---|
//! | [`model`] | values and rules of the three documents | none |
//! | [`wire`] | the JSON of the documents and all paths | `model` |
//! | [`task`] | task groups, backoff, the clock, waiting | `model` |
//! | [`db`] | SQLite and PostgreSQL for all stores: opening, shared commits, full disks | `task` |
//! | [`formats`] | rows as text and files: CSV, NDJSON, JSON, Parquet, Arrow | `model` |
//! | [`tsdb`] | stored rows: chunks and their codec, buckets, the catalog | `db`, `formats` |
//! | [`web`] | HTTP servers: limits, keys, errors | `wire`, `task` |
//! | [`accounts`] | users, API keys, the gate of the services, the portal | `web` |
//! | [`runtime`] | execution of WebAssembly functions | `task` |
//! | [`content`] | functions by content ID: blocks, archives, gateways | `wire`, `task` |
//! | [`cluster`] | document 1: nodes, head, worker | `runtime`, `content`, `web` |
//! | [`datasets`] | document 2: catalog, queries, streams, sources | `tsdb`, `formats`, `accounts` |
//! | [`inference`] | document 3: synthesis, epochs, bundles | `accounts`, `db`, `formats`, `web` |
//! | [`client`] | clients of all three services | `wire`, `task` |
//! | [`transfer`] | import, mirror, history for backtests | `client`, `formats` |
//! | [`alerts`] | rules on values, epochs, executions and services; notifications | `client` |
//! | [`stack`] | the local stack: processes, supervision, data directories | `client` |
//! | [`tui`] | the screen | `alerts`, `client`, `stack`, `transfer` |
//! | [`cli`] | the command line, which connects the crates | all |
//!
//! # Invariants
//!
//! - [`model`] does not use serde, tokio or a clock. [`wire`] has no behavior. Server and client share
//!   its types, so they cannot disagree.
//! - [`cluster`], [`datasets`] and [`inference`] do not know one another. If one needs another, it
//!   calls a trait that [`cli`] implements with the [`client`].
//! - [`tui`] knows only clients of the services. It starts local processes through
//!   [`LocalStack`](stack::local::LocalStack).
//! - libp2p is only used in `cluster/network` and `cluster/identity.rs`, wasmtime in [`runtime`], SQLite
//!   and PostgreSQL below the stores, ratatui in [`tui`].
//! - No task outlives its [`Group`](task::group::Group), no queue is unbounded, no handler uses a store
//!   directly. No secret appears in a log or in the arguments of a process.
//!
//! # Three walks
//!
//! **A function, from form to results.** Keys edit the form. Run becomes an effect: the [`client`] posts
//! the request. In [`cluster`], the handler converts the body and calls the head. If recent offers of
//! workers cover the request, work orders are sent immediately over open streams. Otherwise the roll
//! call is published on the group's topic. Workers with a free slot report after they have found the
//! function, or fetched it and verified its content ID. Exactly the requested number of workers get a
//! work order. A spare replaces a failed worker. Each runs the order in [`runtime`] and signs the
//! result. [`group`](cluster::result_groups::group) merges equal outcomes. The response returns to the
//! screen as an event. The view draws groups and peers.
//!
//! **A row, from source to chart.** A source or a producer appends rows. The store writes them with
//! their buckets in one commit. The hub passes them to the open streams. The stream of the [`client`]
//! reconnects after failures and drops rows that it has already returned. The screen adds the row to the
//! open candle.
//!
//! **An inference, from worker to panel.** At the start of an epoch the service reads the latest rows of
//! the topic's dataset and runs the predictor on the cluster. The output of each worker is its
//! inference. When the window closes, synthesis weights inferers and forecasters by their regrets. The
//! bundle is stored and served. Once the ground truth is known, losses and regrets are computed, which
//! determine the weights of the next epoch.
//!
//! # How to make a change
//!
//! - **An endpoint**, five files: path and body in `wire/<crate>.rs`, a handler with its description in
//!   `<crate>/server/`, a route in `<crate>/server.rs`, a method in `client/` and a test in
//!   `tests/it/<crate>/<name>.rs`. A handler extracts, calls the crate and converts. New behavior of the
//!   crate or its store needs more files.
//! - **A pane**, four files: name and position in the `state.rs` of its directory in `tui/screens/`,
//!   keys in `update.rs`, area in `view.rs` and drawing in `view/<pane>.rs`. If it sends requests, four
//!   more: effect and response in `tui/event.rs`, the call in `tui/effects/services.rs`, schedule and
//!   state change in the screen's `update/`. Add a snapshot to the screen's tests or `tui/view/tests`.
//! - **A loss function**, four files: a variant of `LossMethod` with its name, arithmetic and a line of
//!   the test table in `inference/math/loss.rs`, its name in the error of
//!   `inference/network/topic/settings.rs`, the doc of the setting in `wire/inference/network.rs` and
//!   its arithmetic for backtests in `assets/python/triptych/_inference.py`.
//! - **A flag**: a field in the subcommand's `cli/<name>.rs` with its help as doc and an example in
//!   `assets/help.txt`. Man pages, completions and examples are tested against it.
//! - **A key**: an [`Action`](tui::keymap::Action) and a line in the table of `tui/keymap/`, from which
//!   footer, help and palette are generated.
//!
//! # Glossary
//!
//! **Cluster**
//! - *head*, *worker*: accepts requests; executes functions.
//! - *subgroup*: a gossip topic. The general group contains all workers.
//! - *function*, *method*: content named by a CID; the module inside it that runs.
//! - *attribute*, *selector*: a label that a worker declares; a condition on labels that selects workers.
//! - *cordon*, *drain*, *approve*: stop new work for a node; also wait for its running work; let a node
//!   work at a head that requires approval.
//! - *roll call*, *offer*: asks a group which workers can execute; announces a worker's free slots and
//!   cached functions.
//! - *slot*, *work order*, *spare*: capacity for one execution; one execution assigned to one worker;
//!   the replacement for a failed worker.
//! - *execution*: one request and all its work orders.
//! - *result group*, *frequency*, *quorum*: peers with an equal result (stdout, stderr, exit code); its
//!   share in percent; the share that completes an execution early.
//!
//! **Datasets**
//! - *dataset*, *column*, *row*, *timestamp*: UTC in microseconds, unique within a dataset.
//! - *resolution*, *bucket*: raw, 5m, 15m, 1h, 4h or 1d; open, high, low, close, volume and count of one
//!   interval.
//! - *chunk*, *tail*, *compaction*: about 1 024 sealed columnar rows; rows that are not yet sealed;
//!   sealing and merging chunks.
//! - *revision*: number of a dataset's commit.
//! - *tag*, *acquire*: grants access; claims a public tag.
//! - *page*, *cursor*, *bulk download*, *live*, *stream*: the ways to read rows. A stream begins with a
//!   *replay* of the latest rows and sends *heartbeats*.
//! - *late row*, *correction*: a row older than the latest; a row that replaces another.
//!
//! **Inference**
//! - *topic*, *label*: the predicted quantity; one of its outputs.
//! - *epoch*, *nonce*, *window*: one round of predictions; the block height that names it; the blocks in
//!   which submissions are accepted.
//! - *actor*: an *inferer* predicts the value, a *forecaster* predicts the losses of inferers. A
//!   *reputer* computes losses from the *ground truth*.
//! - *loss*, *regret*, *weight*, *score*: error of a value; advantage of an actor over the network;
//!   share in the next epoch; long-term ranking.
//! - *naive*, *one-out*, *one-in*: combined without forecasters; without one actor; naive with one
//!   forecaster.
//! - *bundle*, *consumer*: all values of one epoch; a contract that verifies a signed value.
//!
//! **Screen**
//! - *screen*, *pane*, *overlay*, *palette*: a tab; a part of it; a layer above it; the list of commands.
//! - *event*, *effect*, *update*: an input; an action as data; (state, event) → effects.
//! - *profile*, *session*, *preset*, *pin*: addresses and a key under a name; state restored at start; a
//!   saved form; a dataset kept in view.

pub mod cli;
