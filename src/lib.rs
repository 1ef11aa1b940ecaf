//! Triptych: a function cluster, a dataset service, an inference network, and one screen for all
//! three. This page is the codemap: where things are, what must stay true, how things flow.
//!
//! # Bird's-eye view
//!
//! Three services, each a subcommand that runs alone. Each follows a document, which rules what it
//! says over the network; what no document gives is marked as an extension:
//!
//! 1. **Function execution cluster** ([`cluster`]). A head takes a request over HTTP, calls the roll
//!    by gossip, sends work orders to workers over libp2p, and groups what they return. Document 1 is
//!    *b7s*, a Go node for such clusters: its wire protocol in both versions, so that heads and
//!    workers of either program work together, and its REST API.
//! 2. **Dataset service** ([`datasets`]). Rows of time series in SQLite, or in PostgreSQL where
//!    several services share them, with buckets written in the same commit, read page by page, in
//!    bulk, or as a stream. Document 2 is a REST API for time series: catalog, rows, buckets, tags,
//!    and Server-Sent Events.
//! 3. **Network inference service** ([`inference`]). Epochs of a prediction network, in SQLite or in
//!    PostgreSQL; each ends in a bundle of combined, naive and left-out values. Document 3 is *the
//!    chain*, allora-chain, which predicts numbers: its mathematics in two generations
//!    (stdev-oct2024, mad-v0.17) and its query API, without a blockchain; the operator of the service
//!    is trusted to close epochs.
//!
//! The screen shows what any client of the three could see. Without addresses it attaches to the
//! local stack that runs. If none runs, it starts all services as processes of this same program, and
//! ends them with itself.
//!
//! # Rooms, in reading order
//!
//! A room is a crate in `src/<room>/`. Its manifest lists every room it may know.
//!
//! | room | what | knows |
//! |---|---|---|
//! | [`model`] | words: values and rules of the three documents | nobody |
//! | [`wire`] | shapes: the JSON of the documents, and every path | `model` |
//! | [`task`] | groups of tasks, backoff, the clock, waiting | `model` |
//! | [`db`] | SQLite and PostgreSQL as all stores use them: opening, shared commits, full disks | `task` |
//! | [`tsdb`] | rows, kept: chunks and their codec, buckets, the catalog | `model`, `db` |
//! | [`formats`] | rows, written: CSV, NDJSON, JSON, Parquet, Arrow, in and out | `model` |
//! | [`web`] | serving HTTP: limits, keys, refusals | `wire`, `task` |
//! | [`accounts`] | people, API keys, the gate in front of the services, the page at `/portal` | `web` |
//! | [`runtime`] | a WebAssembly function, contained | nobody |
//! | [`content`] | a function, named: content ids, blocks, archives, gateways | `wire`, `task` |
//! | [`cluster`] | document 1: nodes, head, worker | `runtime`, `content`, `web` |
//! | [`datasets`] | document 2: catalog, queries, streams, sources | `tsdb`, `formats`, `accounts` |
//! | [`inference`] | document 3: synthesis, epochs, bundles | `accounts`, `web` |
//! | [`client`] | calling all three, as a library | `wire`, `task` |
//! | [`transfer`] | moving rows: import, mirror, replay, the history of backtests | `client`, `formats` |
//! | [`stack`] | the local stack: its processes, their supervision, folders of state | `client` |
//! | [`tui`] | the screen | `client`, `stack` |
//! | [`cli`] | the command line, which joins the rooms | all |
//!
//! # Invariants, each an absence
//!
//! - [`model`] knows no serde, tokio or clock. [`wire`] has no behavior: server and client share its
//!   shapes, so they cannot disagree.
//! - [`cluster`], [`datasets`] and [`inference`] do not know one another. What one needs of another
//!   it asks through a trait that [`cli`] fulfils with the [`client`].
//! - [`tui`] knows no service, only the [`client`]. Local processes are started through
//!   [`LocalStack`](stack::local::LocalStack).
//! - libp2p is named in `cluster/network` and `cluster/identity.rs` alone, wasmtime in [`runtime`],
//!   SQLite and PostgreSQL below the stores, ratatui in [`tui`].
//! - No task outlives its [`Group`](task::group::Group), no queue is unbounded, no handler sees a
//!   store, no secret reaches a log or an argument of a process.
//!
//! # Three walks
//!
//! **A function, from form to results.** Keys edit the form; Run becomes an effect, which the
//! [`client`] posts. In [`cluster`], the handler converts the body and calls the head. Where fresh
//! offers of workers cover the request, work orders go out at once, over lines that stay open. Else
//! the roll call goes out on the group's topic, and workers with a free slot and the function at
//! hand (or fetched, and checked against its content id) report. Exactly as many as asked for get
//! a work order, and a spare where one fails; each runs it in [`runtime`] and signs the result;
//! [`group`](cluster::result_groups::group) folds equal outcomes. The answer comes back to the screen as
//! an event, and the view draws groups and peers.
//!
//! **A row, from source to chart.** A source or a producer appends rows; the store writes them with
//! the buckets they touch in one commit; the hub hands them to the open streams. The
//! [`client`]'s stream reconnects by itself and drops what it has already given. The screen folds
//! the row into the open candle.
//!
//! **An inference, from worker to panel.** At the start of an epoch the service reads the newest
//! rows of the topic's dataset and has the cluster run the predictor on them; each worker's output
//! is that worker's inference. The window closes, synthesis weighs inferers and forecasters by their
//! regrets, the bundle is stored and served. When the truth is known, losses and regrets follow, and
//! the next epoch's weights with them.
//!
//! # How to make a change
//!
//! - **An endpoint**, five files: its path and its body in `wire/<room>.rs`, a handler with its
//!   description in a file of `<room>/server/`, its route in `<room>/server.rs`, a method in `client/`, a test in `tests/it/<room>/<name>.rs`. A
//!   handler extracts, calls the room and converts; it sees no store. What the room could not do yet
//!   is one more, and what its store could not the store's trait and engines.
//! - **A pane**, four files: its name and place in the `state.rs` of its folder in `tui/screens/`, its
//!   keys in `update.rs`, its area in `view.rs`, and its drawing in `view/<pane>.rs`; four more where
//!   it asks a service: the effect and its answer in `tui/event.rs`, the call in
//!   `tui/effects/services.rs`, when to ask and what an answer changes in the screen's `update/`. A
//!   snapshot in the screen's or `tui/view/tests`.
//! - **A loss function**, three files: a variant of `LossMethod` with its name and arithmetic, and a
//!   line of its table of tests, in `inference/math/loss.rs`; its name in the error of
//!   `inference/network/topic/settings.rs` and in the doc of the setting in `wire/inference/network.rs`.
//! - **A flag**: a field in the subcommand's `cli/<name>.rs`, whose doc is its help, and an example in
//!   `assets/help.txt`; man pages, completion and all examples are tested against it.
//! - **A key**: an [`Action`](tui::action::Action) and its line in the table of `tui/keymap/`; footer,
//!   help and palette are made from the table.
//!
//! # Glossary
//!
//! **Cluster**
//! - *head*, *worker*: the node that takes requests; a node that executes functions.
//! - *subgroup*: a gossip topic; the general group is all workers.
//! - *function*, *method*: content named by a CID; the module inside it that runs.
//! - *attribute*, *selector*: what a worker declares of itself, its label; which workers are meant,
//!   by what they declare.
//! - *cordon*, *drain*, *approve*: what an operator decides of a node at a head: that it gets no
//!   new work; that, and to wait until it runs nothing; that it may work where approval is
//!   required.
//! - *roll call*, *offer*: asking a group who can execute; a worker's standing word on its free slots
//!   and functions.
//! - *slot*, *work order*, *spare*: room for one execution; one execution given to one worker; a
//!   worker that replaces one that failed.
//! - *execution*: one request and all its work orders.
//! - *result group*, *frequency*, *quorum*: peers whose outcome (stdout, stderr, exit code) is equal;
//!   its share in percent; the share that ends an execution early.
//!
//! **Datasets**
//! - *dataset*, *column*, *row*, *timestamp*: UTC in microseconds, unique in a dataset.
//! - *resolution*, *bucket*: raw, 5m, 15m, 1h, 4h or 1d; open, high, low, close, volume and count of
//!   one interval.
//! - *chunk*, *tail*, *compaction*: about 1 024 rows, sealed and columnar; rows not yet sealed; sealing
//!   and merging chunks.
//! - *revision*: the number of a dataset's newest commit.
//! - *tag*, *acquire*: what grants access; taking a public one.
//! - *page*, *cursor*, *bulk download*, *live*, *stream*: the ways to read; a stream begins with a
//!   *replay* of the newest rows, and sends a *heartbeat*.
//! - *late row*, *correction*: a row older than the newest; a row that replaces one.
//!
//! **Inference**
//! - *topic*, *label*: what is predicted; one of several outputs of it.
//! - *epoch*, *nonce*, *window*: one round of predictions; the block height that names it; the blocks
//!   in which it takes submissions.
//! - *actor*: an *inferer* predicts the value, a *forecaster* the inferers' losses; a *reputer*
//!   computes losses from the *ground truth*.
//! - *loss*, *regret*, *weight*, *score*: the error of a value; how much better than the network an
//!   actor was; its share in the next epoch; its standing.
//! - *naive*, *one-out*, *one-in*: combined without forecasters; without one actor; naive with one
//!   forecaster.
//! - *bundle*, *consumer*: all values of one epoch; a contract that checks a signed value.
//!
//! **Screen**
//! - *screen*, *pane*, *overlay*, *palette*: a tab; a part of it; what covers it; the list of commands.
//! - *event*, *effect*, *update*: what happened; what to do, as data; (state, event) → effects.
//! - *profile*, *session*, *preset*, *pin*: addresses and a key under a name; what the screen restores;
//!   a saved form; a dataset kept in view.

pub mod cli;
