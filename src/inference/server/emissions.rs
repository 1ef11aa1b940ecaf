//! Queries of the chain, grouped by subject.

mod bundles;
mod fixed;
mod losses;
mod scores;
mod submissions;
mod windows;

use axum::Json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::paths::{EMISSIONS_NEW, EMISSIONS_OLD};

pub(super) use self::bundles::Bodies;
#[cfg(test)]
pub(super) use self::fixed::constant_queries;
pub(super) use self::losses::body as loss_body;
use super::App;
use super::error::{ApiError, Result};
use super::openapi::parameters::{
    AddressMember, AtBlock, ByVersion, ChainParams, LeaveOut, PageMembers,
};
use super::request::Params;
use crate::network::topic::Topic;

/// Result of a query.
type Answer<T> = Result<Json<T>>;

/// Returns the router of all queries.
pub(super) fn api() -> OpenApiRouter<App> {
    let queries = fixed::api()
        .merge(submissions::api())
        .merge(bundles::api())
        .merge(losses::api())
        .merge(windows::api())
        .merge(scores::api());
    OpenApiRouter::new()
        .routes(routes!(bundles::latest_network_inferences))
        .routes(routes!(bundles::latest_network_inferences_outlier_resistant))
        .routes(routes!(bundles::network_inferences))
        .nest("/emissions/{version}", queries)
}

/// Error of a topic with several labels, which the old version cannot represent.
fn no_form(topic: &Topic) -> ApiError {
    let id = topic.id;
    ApiError::invalid(format!(
        "topic {id} has several labels, which {EMISSIONS_OLD} cannot represent; use {EMISSIONS_NEW}"
    ))
}
