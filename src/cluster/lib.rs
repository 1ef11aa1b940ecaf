//! Document 1: a cluster of nodes that execute functions.
//!
//! [`node::Node`] joins the parts: [`network`] (libp2p stays inside), [`content`] (the store of
//! functions by content id), and a role, [`head::Head`] or [`worker::Worker`]; [`node_context`] is what
//! both roles work with. [`function_call`] is what one run of a function gets, from the head's door to the
//! guest. [`message`] holds what nodes say to one another, [`metrics`] what it counts, [`peers`] what a
//! node knows of the others, [`peer_db`] what it still knows after a restart. Absent on purpose:
//! command lines and configuration, and what a function's results mean.

mod attributes;
mod fair_queue;
pub mod function_call;
pub mod head;
pub mod identity;
pub mod message;
pub mod metrics;
pub mod network;
pub mod node;
pub mod node_context;
pub mod peer_db;
pub mod peers;
pub mod result_groups;
pub mod worker;
