//! `GET /api/docs/`: the description of the API as a page for people. Needs no key, and no network.

use axum::{extract::State, response::Response};

use super::Service;

pub(super) async fn get(State(service): State<Service>) -> Response {
    service.description.page()
}
