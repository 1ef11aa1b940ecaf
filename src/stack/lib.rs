//! The local stack: a head, three workers, the dataset and the inference service, as processes of
//! this same program, on loopback, with state in one folder; and single nodes beside it.
//!
//! [`start`] starts all of it, [`supervise`] restarts what ends, [`running`] is how other commands of
//! the user find it, [`processes`] starts, stops and keeps processes for the screen, which asks
//! through [`local`]. Absent on purpose: every service. What needs one (a key, an identity, the
//! functions of a head) is asked of [`ServiceFiles`](start::ServiceFiles), which the command line
//! implements.
//!
//! Errors are `anyhow`'s: each ends before a person, none is looked into.

pub mod data_dir;
mod detached_nodes;
pub mod local;
mod members;
pub mod process;
pub mod processes;
pub mod program;
pub mod running;
pub mod start;
pub mod supervise;
mod usage;
