//! An HTTP client that is independent of the program's own clients, so that tests see responses as any
//! client does.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

/// Maximum time until a response arrives. An execution responds when it is complete, and the first
/// execution compiles its module.
const RESPONDS_WITHIN: Duration = Duration::from_mins(1);

/// Time after which an unused connection is closed. The services close unused connections after 30 s,
/// and a request that is sent at that moment gets no response.
const IDLE_WITHIN: Duration = Duration::from_secs(20);

/// A client of a service.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    base: String,
    key: Option<String>,
}

impl Http {
    /// Creates a client of the service at `base`, which sends `key`, if given.
    pub(crate) fn new(base: &str, key: Option<&str>) -> Self {
        task::process::install_crypto();
        let mut builder = Client::builder().no_proxy().pool_idle_timeout(IDLE_WITHIN);
        if base.starts_with("http:") {
            builder = builder.tls_certs_only([]); // reading the system's certificates is slow
        }
        let client = builder.build().unwrap();
        Self { client, base: base.to_owned(), key: key.map(str::to_owned) }
    }

    /// Returns the address of the service.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Returns a client that sends no key.
    pub(crate) fn without_key(&self) -> Self {
        Self { key: None, ..self.clone() }
    }

    /// Prepares a request with the key.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.header("X-API-Key", key),
            None => request,
        }
    }

    /// Sends `GET` and returns status and body.
    pub(crate) async fn get(&self, path: &str) -> (StatusCode, String) {
        read(self.request(Method::GET, path)).await
    }

    /// Sends `GET` and returns status and JSON.
    pub(crate) async fn get_json(&self, path: &str) -> (StatusCode, Value) {
        read_json(path, self.request(Method::GET, path)).await
    }

    /// Sends `GET` and returns the JSON of the response, which must have status 200.
    pub(crate) async fn get_ok(&self, path: &str) -> Value {
        let (status, body) = self.get_json(path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    /// Sends `GET` and returns the JSON of any response.
    pub(crate) async fn try_get(&self, path: &str) -> Result<Value, String> {
        let response = self.request(Method::GET, path).send().await;
        let response = response.map_err(|error| error.to_string())?;
        response.json().await.map_err(|error| error.to_string())
    }

    /// Sends `GET` and returns the response without reading its body.
    pub(crate) async fn open(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    /// Sends `GET` with `If-None-Match`. Returns status, entity tag and body.
    pub(crate) async fn get_if_none_match(
        &self,
        path: &str,
        tag: Option<&str>,
    ) -> (u16, Option<String>, String) {
        let mut request = self.request(Method::GET, path).timeout(RESPONDS_WITHIN);
        if let Some(tag) = tag {
            request = request.header("If-None-Match", tag);
        }
        let response = request.send().await.unwrap();
        let tag = response.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned());
        (response.status().as_u16(), tag, response.text().await.unwrap())
    }

    /// Sends `text` as a JSON body and returns the response.
    pub(crate) async fn send(&self, method: &str, path: &str, text: &str) -> Response {
        let request = self.request(method.parse().unwrap(), path);
        let request = request.header("content-type", "application/json").body(text.to_owned());
        request.send().await.unwrap()
    }

    /// Sends `POST` and returns status and JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        read_json(path, self.request(Method::POST, path).json(body)).await
    }

    /// Sends `PATCH` and returns status and JSON.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        read_json(path, self.request(Method::PATCH, path).json(body)).await
    }

    /// Sends `DELETE` and returns status and JSON.
    pub(crate) async fn delete(&self, path: &str) -> (StatusCode, Value) {
        read_json(path, self.request(Method::DELETE, path)).await
    }

    /// Sends `POST` and returns the status of the response, or an error if there is no response.
    pub(crate) async fn try_post(&self, path: &str, body: &Value) -> reqwest::Result<StatusCode> {
        Ok(self.request(Method::POST, path).json(body).send().await?.status())
    }

    /// Sends `POST` with an idempotency key. Returns status and JSON of the response, or an error if
    /// there is no response.
    pub(crate) async fn post_idempotent(
        &self,
        path: &str,
        body: &Value,
        key: &str,
    ) -> reqwest::Result<(u16, Value)> {
        let request = self.request(Method::POST, path).header("idempotency-key", key).json(body);
        let response = request.send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }
}

async fn read(request: RequestBuilder) -> (StatusCode, String) {
    let response = request.timeout(RESPONDS_WITHIN).send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

async fn read_json(path: &str, request: RequestBuilder) -> (StatusCode, Value) {
    let (status, text) = read(request).await;
    match serde_json::from_str(&text) {
        Ok(body) => (status, body),
        Err(error) => panic!("{path}: response is no JSON ({error}); {status}: {text}"),
    }
}
