//! Triptych: a function cluster, a dataset service, an inference network, and one screen for all
//! three. This page is the codemap: where things are, what must stay true, how things flow.
//!
//! # Bird's-eye view
//!
//! Three services, each described by a document, each a subcommand that runs alone:
//!
//! 1. **Function execution cluster**: a head takes a request over HTTP, calls the roll by gossip,
//!    sends work orders to workers over libp2p, and groups what they return.
//! 2. **Dataset service**: rows of time series in SQLite, their buckets kept in the same commit,
//!    read page by page, in bulk, or as a stream.
//! 3. **Network inference service**: epochs of a prediction network; each ends in a bundle of
//!    combined, naive and left-out values.
//!
//! The screen shows what any client of the three could see. Without addresses it starts all of them
//! as processes of this same program, and ends them with itself.
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
//! | [`tsdb`] | rows, kept: chunks and their codec, buckets, the catalog | `model`, `task` |
//! | [`formats`] | rows, written: CSV, NDJSON, JSON, Parquet, Arrow, in and out | `model` |
//! | [`web`] | serving HTTP: limits, keys, refusals | `wire`, `task` |
//! | [`accounts`] | people, API keys, the gate in front of the services, the page at `/portal` | `web` |
//! | [`runtime`] | a WebAssembly function, contained | nobody |
//! | [`content`] | a function, named: content ids, blocks, archives, gateways | `wire`, `task` |
//! | [`cluster`] | document 1: nodes, head, worker | `runtime`, `content`, `web` |
//! | [`datasets`] | document 2: catalog, queries, streams, sources | `tsdb`, `formats`, `accounts` |
//! | [`inference`] | document 3: synthesis, epochs, bundles | `accounts`, `web` |
//! | [`client`] | calling all three, as a library | `wire`, `task` |
//! | [`tui`] | the screen | `client` |
//! | [`cli`] | the command line, which joins the rooms | all |
//!
//! # Invariants, each an absence
//!
//! - [`model`] knows no serde, tokio or clock. [`wire`] has no behavior: server and client share its
//!   shapes, so they cannot disagree.
//! - [`cluster`], [`datasets`] and [`inference`] do not know one another. What one needs of another
//!   it asks through a trait that [`cli`] fulfils with the [`client`].
//! - [`tui`] knows no service, only the [`client`]. Local processes are started through
//!   [`LocalStack`](tui::local::LocalStack), which [`cli`] fulfils.
//! - libp2p is named in `cluster/network` and `cluster/identity.rs` alone, wasmtime in [`runtime`],
//!   SQLite below the stores, ratatui in [`tui`].
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
//! [`group`](model::execution::group) folds equal outcomes. The answer comes back to the screen as
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

pub mod cli;
