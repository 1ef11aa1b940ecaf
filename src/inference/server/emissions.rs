//! The chain's queries: a file for each of its families, named as in [`wire::paths::emissions`].

/// Declares the queries of a family, and the `api` that serves them: for each its path in
/// [`wire::paths::emissions`], its parameters beside the version (actors' addresses behind `;`), its
/// handler, the shape of its answer, and what answers.
macro_rules! queries {
    ($tag:literal; $(
        $(#[$doc:meta])+
        $path:ident[$($part:ident),* $(; $place:ident $name:literal = $what:literal)*]
        $handler:ident($asked:ident) -> $body:ident $(<$of:ident>)? $(($($inline:tt)+))? = $answer:expr;
    )+) => {
        $(
            $(#[$doc])+
            #[utoipa::path(get, path = of::$path, tag = $tag,
                params(super::Version $(, super::$part)*
                    $(, ($name = inline(super::ActorAddress), $place, description = $what))*),
                responses((status = 200, description = "What was asked for",
                    body = $body $(<$of>)? $(($($inline)+))?)))]
            async fn $handler($asked: super::Asked) -> Result<super::Response, super::ApiError> {
                let answer: Result<_, super::ApiError> = $answer;
                answer.map(super::IntoResponse::into_response)
            }
        )+

        /// The queries of this family.
        pub(super) fn api() -> super::OpenApiRouter<super::App> {
            super::OpenApiRouter::new()$(.routes(super::routes!($handler)))+
        }
    };
}

mod bundles;
mod fixed;
mod losses;
mod params;
mod registration;
mod scores;
mod submissions;
mod weights;
mod whitelist;
mod windows;

use axum::response::{IntoResponse, Response};
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::paths::{EMISSIONS_NEW, EMISSIONS_OLD};

pub(super) use self::{
    bundles::{Bodies, newest_bundle},
    losses::body as loss_body,
};
use super::{
    App,
    error::ApiError,
    openapi::parameters::{
        ActorAddress, AskedAddress, AtBlock, ByVersion, ChainParams, HeightPart, LeaveOut,
        TopicMember, TopicPart, Version,
    },
    request::Asked,
};
use crate::network::topic::Topic;

/// Every query of the chain but the few that are older here.
pub(super) fn api() -> OpenApiRouter<App> {
    let families = [
        bundles::api,
        submissions::api,
        losses::api,
        weights::api,
        windows::api,
        scores::all,
        whitelist::api,
        params::api,
        registration::api,
        fixed::api,
    ];
    families.iter().fold(OpenApiRouter::new(), |all, family| all.merge(family()))
}

/// The refusal of what the old version has no place for.
fn no_form(topic: &Topic) -> ApiError {
    let id = topic.id;
    ApiError::invalid(format!(
        "topic {id} has several labels, which {EMISSIONS_OLD} has no form for: use {EMISSIONS_NEW}"
    ))
}
