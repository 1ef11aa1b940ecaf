//! Reading the bodies of requests, which together take a bounded room in memory.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::Request,
    http::{HeaderMap, header},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    sync::Semaphore,
    time::{error::Elapsed, timeout},
};
use web::extract::{self, BodyError};

use super::{BODY_BYTES_MAX, error::Refused};

/// How long a body may take to arrive: 3 MiB over a line of 2 Mbit/s.
pub(super) const BODY_WITHIN: Duration = Duration::from_secs(15);

/// The room. Cheap to clone; all clones share it.
#[derive(Debug, Clone)]
pub(super) struct Bodies(Arc<Semaphore>);

impl Bodies {
    pub(super) fn new() -> Self {
        // 256 MiB, or 85 bodies of the maximum length. Further ones wait as long as a body may take, and are
        // then refused.
        Self::with_room(256 * 1024)
    }

    fn with_room(room_kib: usize) -> Self {
        Self(Arc::new(Semaphore::new(room_kib)))
    }

    /// Reads a body. An empty one, of any type, is a request without fields, as for existing heads.
    pub(super) async fn read<T: DeserializeOwned + Default>(
        &self,
        request: Request,
    ) -> Result<T, Refused> {
        let is_json = media_type(request.headers()) == "application/json";
        let room = timeout(BODY_WITHIN, self.0.acquire_many(n_kib(request.headers()))).await;
        let Ok(Ok(_room)) = room else { return Err(Refused::TOO_MANY_BODIES) };
        let body = timeout(BODY_WITHIN, extract::bytes(request)).await;
        let body = body.unwrap_or_else(|_: Elapsed| Err(BodyError::Broken));
        match body?.as_ref() {
            [] => Ok(T::default()),
            _ if !is_json => Err(Refused::NOT_JSON),
            bytes => read(bytes),
        }
    }
}

/// The room that a body takes: as long as it is said to be, or as any may be. No more than it has
/// where it is said to be longer, since it is refused.
fn n_kib(headers: &HeaderMap) -> u32 {
    let said = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let said = said.and_then(|text| text.parse::<usize>().ok()).unwrap_or(BODY_BYTES_MAX);
    u32::try_from(said.min(BODY_BYTES_MAX).div_ceil(1024)).unwrap_or(u32::MAX)
}

/// What a body is said to be, in lower case.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|text| text.split(';').next()).unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// Reads a request. Null stands for a field that is left out, as for existing heads.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    // A list would be read as the fields in their order.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let reason = "expected an object, found a list".to_owned();
        return Err(BodyError::json(reason).into());
    }
    serde_json::from_slice(bytes).or_else(|error| {
        let lenient = serde_json::from_slice(bytes).ok().map(without_nulls);
        lenient
            .and_then(|value| serde_json::from_value(value).ok())
            .ok_or_else(|| BodyError::json(error).into())
    })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        // One that stands in a list is no field.
        Value::Array(values) => Value::Array(values.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::functions::ExecuteRequest;

    use super::*;

    #[test]
    fn null_stands_for_a_field_left_out() {
        let body = json!({
            "function_id": "f", "method": "m.wasm", "subgroup": null, "config":
                {"number_of_nodes": null, "stdin": null, "attributes": null, "env_vars": null},
        });
        let request: ExecuteRequest = read(body.to_string().as_bytes()).unwrap();
        assert_eq!((request.function_id.as_str(), request.config.number_of_nodes), ("f", 0));
        assert!(read::<ExecuteRequest>(br#"{"config":null}"#).is_ok());
        let listed = json!({
            "parameters": [{"name": null, "value": "a"}, {"value": null}],
            "config": {"env_vars": [{"name": "A", "value": null}]},
        });
        let request: ExecuteRequest = read(listed.to_string().as_bytes()).unwrap();
        assert_eq!(request.arguments(), ["a"]);
        assert_eq!(request.config.environment().get("A").map(String::as_str), Some(""));
        assert!(read::<ExecuteRequest>(b"[]").is_err());
    }

    fn request(n_bytes: usize) -> Request {
        let request = Request::builder().header(header::CONTENT_LENGTH, n_bytes);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        request.body("{}".into()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_find_no_room_wait_and_are_refused_in_the_end() {
        let bodies = Bodies::with_room(4);
        let arriving = bodies.0.acquire_many(3).await.unwrap();
        assert!(bodies.read::<ExecuteRequest>(request(1024)).await.is_ok());
        let refused = bodies.read::<ExecuteRequest>(request(1025)).await;
        assert_eq!(refused, Err(Refused::TOO_MANY_BODIES));
        drop(arriving);
        assert!(bodies.read::<ExecuteRequest>(request(1025)).await.is_ok());
        assert_eq!(bodies.0.available_permits(), 4, "the room is given back");
    }

    #[test]
    fn a_body_reserves_its_announced_length_up_to_the_limit() {
        let room = |request: &Request| n_kib(request.headers());
        assert_eq!((room(&request(0)), room(&request(1)), room(&request(2048))), (0, 1, 2));
        assert_eq!(room(&request(usize::MAX)), 3 * 1024);
        assert_eq!(room(&Request::default()), 3 * 1024, "it does not say");
    }
}
