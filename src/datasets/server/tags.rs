//! `GET /api/tags/`: the tags that a key knows of.

use axum::Json;
use tsdb::catalog::Tag;
use wire::{
    datasets::{Envelope, TagBody},
    paths,
};

use super::{Caller, error::Result, single_page};
/// Lists the tags that the key knows of: public ones, which any key may acquire, its own, and those
/// it holds.
#[utoipa::path(get, path = paths::TAGS, operation_id = "list_tags", tag = "datasets",
    responses((status = 200, description = "These tags", body = Envelope<TagBody>)))]
pub(super) async fn get(Caller { app, key }: Caller) -> Result<Json<Envelope<TagBody>>> {
    Ok(Json(envelope(app.datasets.known_tags(key).await?)))
}

/// Tags as a list of bodies.
pub(super) fn envelope(tags: Vec<Tag>) -> Envelope<TagBody> {
    let body = |Tag { name, is_public, .. }| TagBody { name, is_public };
    single_page(tags.into_iter().map(body).collect())
}
