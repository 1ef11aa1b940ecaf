//! Asking the services over HTTP, without any of our own client: what is tested is what anyone
//! would see.

use std::time::Duration;

use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

/// The longest an answer may take. An execution is answered when its work is done, and the first one
/// compiles the module.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// Someone who asks a service.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    base: String,
    key: Option<String>,
}

impl Http {
    /// Asks the service at `base`, with `key` where there is one.
    pub(crate) fn new(base: &str, key: Option<&str>) -> Self {
        // An error says that it was chosen before.
        drop(rustls::crypto::ring::default_provider().install_default());
        // No proxy: what is asked stands on this machine.
        let client = Client::builder().no_proxy().build().unwrap();
        Self { client, base: base.to_owned(), key: key.map(str::to_owned) }
    }

    /// Where the service is.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The same without a key.
    pub(crate) fn without_key(&self) -> Self {
        Self { key: None, ..self.clone() }
    }

    /// Returns status and body of the answer to `GET`.
    pub(crate) async fn get(&self, path: &str) -> (StatusCode, String) {
        self.ask(Method::GET, path, None).await
    }

    /// Returns status and body of the answer to `GET`, which must be JSON.
    pub(crate) async fn get_json(&self, path: &str) -> (StatusCode, Value) {
        json(path, self.get(path).await)
    }

    /// Returns the body of the answer to `GET`, which must be 200 and JSON.
    pub(crate) async fn get_ok(&self, path: &str) -> Value {
        let (status, body) = self.get_json(path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    /// Returns the body of the answer to `GET`, or why there is none.
    pub(crate) async fn try_get(&self, path: &str) -> Result<Value, String> {
        let sent = self.request(Method::GET, path).send().await;
        let response = sent.map_err(|error| error.to_string())?;
        response.json().await.map_err(|error| error.to_string())
    }

    /// Returns the answer to a request with a body of JSON, whatever it is.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> reqwest::Response {
        let request = self.request(method.parse().unwrap(), path);
        let request = request.header("content-type", "application/json").body(body.to_owned());
        request.send().await.unwrap()
    }

    /// Returns status and body of the answer to `POST`, which must be JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        json(path, self.ask(Method::POST, path, Some(body)).await)
    }

    /// Returns status and body of the answer to `PATCH`, which must be JSON.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        json(path, self.ask(Method::PATCH, path, Some(body)).await)
    }

    /// Returns status and body of the answer to `DELETE`, which must be JSON.
    pub(crate) async fn delete(&self, path: &str) -> (StatusCode, Value) {
        json(path, self.ask(Method::DELETE, path, None).await)
    }

    /// Returns the status of the answer to `POST`, or why there is none.
    pub(crate) async fn try_post(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<StatusCode, reqwest::Error> {
        let response = self.request(Method::POST, path).json(body).send().await?;
        Ok(response.status())
    }

    /// Returns status and body of the answer to `POST` with an idempotency key, or why there is none.
    pub(crate) async fn post_named(
        &self,
        path: &str,
        body: &Value,
        name: &str,
    ) -> Result<(u16, Value), reqwest::Error> {
        let request = self.request(Method::POST, path).header("idempotency-key", name).json(body);
        let response = request.send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    /// Returns status, tag and body of the answer to a `GET` of who has the answer of tag `known`.
    pub(crate) async fn tagged(
        &self,
        path: &str,
        known: Option<&str>,
    ) -> (u16, Option<String>, String) {
        let mut request = self.request(Method::GET, path).timeout(ANSWER_WITHIN);
        if let Some(known) = known {
            request = request.header("If-None-Match", known);
        }
        let response = request.send().await.unwrap();
        let tag = response.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned());
        (response.status().as_u16(), tag, response.text().await.unwrap())
    }

    /// Opens an answer that goes on.
    pub(crate) async fn open(&self, path: &str) -> reqwest::Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (StatusCode, String) {
        let mut request = self.request(method, path).timeout(ANSWER_WITHIN);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.header("X-API-Key", key),
            None => request,
        }
    }
}

#[track_caller]
fn json(path: &str, (status, text): (StatusCode, String)) -> (StatusCode, Value) {
    match serde_json::from_str(&text) {
        Ok(body) => (status, body),
        Err(error) => panic!("{path} is answered with JSON ({error}); {status}: {text}"),
    }
}
