//! `GET /emissions/{version}/latest_network_inferences/{topic_id}`: the newest bundle of a topic, as
//! [its family](super::emissions) writes it.

pub(super) use super::emissions::latest as get;
