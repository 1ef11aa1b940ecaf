//! Describing an HTTP API as an `OpenAPI` document, from its handlers and the shapes in `wire`.
//!
//! An endpoint is described where it is handled:
//!
//! ```text
//! /// Renames a key.
//! ///
//! /// The first paragraph is the operation's summary; what follows, its description.
//! #[utoipa::path(patch, path = paths::ACCOUNTS_KEY, operation_id = "rename_key", tag = "keys",
//!     params(KeyPath), request_body = KeyName,
//!     responses((status = 200, description = "The key", body = KeyBody)))]
//! pub(super) async fn patch(…) -> … { … }
//! ```
//!
//! - **Shapes** derive `ToSchema` in `wire`; the docs of fields are their descriptions. A generic
//!   `Page<T>` is called `Page_T`. Examples of bodies are in `assets/examples/<room>.json`, by schema.
//! - **Parameters** are the structs that the handler reads from its query or path, which derive
//!   `IntoParams` beside `Deserialize`: `#[into_params(parameter_in = Query)]`, with
//!   `#[param(minimum = 1, inline)]` on fields. A type of its own needs `inline`: schemas of
//!   parameters are not collected.
//! - **Routes** are made from the same attribute, so that none is left out or made up:
//!   `OpenApiRouter::new().routes(routes!(key::patch, key::delete))`, methods of one path in one
//!   `routes!`. The room's `openapi.rs` gives that router's document to [`describe`].
//! - [`describe`] adds what all operations share: who may ask, where an operation has no `security`
//!   of its own (`security(())` is anybody), and refusals (of the key, by status, and the rest).

mod document;
#[cfg(any(test, feature = "faults"))]
mod tests;

pub use self::document::{About, Description, SharedRefusal, describe};
#[cfg(any(test, feature = "faults"))]
pub use self::tests::find_faults;
