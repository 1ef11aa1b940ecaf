//! A client of the REST API with one connection and one request at a time.

use std::net::SocketAddr;

use test_bench::http::{self, Connection};

use crate::Outcome;

/// Time limit for the roll call of a request, in seconds. It exceeds the limits of all figures.
const TIMEOUT_S: u32 = 60;

/// A request to execute a function and the expected response.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    encoded: http::Request,
    n_nodes: usize,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: u16,
    /// Code in the body, or empty.
    pub(crate) code: String,
    /// Id of the request, or empty.
    pub(crate) request_id: String,
    /// Body.
    pub(crate) body: String,
}

/// A connection to a head.
pub(crate) struct Client(Connection);

impl Request {
    /// Runs `method` of `function` on `n_nodes`.
    pub(crate) fn new(function: &str, method: &str, n_nodes: usize) -> Self {
        Self::configured((function, method), n_nodes, "")
    }

    /// Runs `method` of `function` on one node with a variable, given as name and value.
    pub(crate) fn with_variable(function: &str, method: &str, variable: &(String, String)) -> Self {
        let (name, value) = variable;
        let variables = format!(",\"env_vars\":[{{\"name\":\"{name}\",\"value\":\"{value}\"}}]");
        Self::configured((function, method), 1, &variables)
    }

    fn configured((function, method): (&str, &str), n_nodes: usize, more: &str) -> Self {
        let config = format!("{{\"number_of_nodes\":{n_nodes},\"timeout\":{TIMEOUT_S}{more}}}");
        let body = format!(
            "{{\"function_id\":\"{function}\",\"method\":\"{method}\",\"config\":{config}}}"
        );
        let path = "/api/v1/functions/execute";
        Self { encoded: http::Request::post(path, "", "application/json", &body), n_nodes }
    }
}

impl Answer {
    /// Returns the response if all nodes returned the greeting.
    pub(crate) fn good(self, request: &Request) -> Outcome<Self> {
        if self.is_good(request) { Ok(self) } else { Err(self.body.into()) }
    }

    /// Returns true if all nodes returned the greeting.
    pub(crate) fn is_good(&self, request: &Request) -> bool {
        let peers = self.body.split_once("\"peers\":[").map_or("", |(_, rest)| rest);
        let peers = peers.split(']').next().unwrap_or_default();
        self.status == 200
            && self.code == "200"
            && self.is_greeting()
            && peers.split(',').count() == request.n_nodes
    }

    /// Returns true if some node returned the greeting.
    pub(crate) fn is_greeting(&self) -> bool {
        self.body.contains("\"stdout\":\"hello\\n\"") && self.body.contains("\"exit_code\":0")
    }
}

impl Client {
    pub(crate) async fn connect(rest: SocketAddr) -> Outcome<Self> {
        Ok(Self(Connection::open(rest).await?))
    }

    /// Sends a request to execute and reads the response.
    pub(crate) async fn ask(&mut self, request: &Request) -> Outcome<Answer> {
        let (status, body) = self.exchange(&request.encoded).await?;
        let code = field(&body, "code").unwrap_or_default().to_owned();
        let request_id = field(&body, "request_id").unwrap_or_default().to_owned();
        Ok(Answer { status, code, request_id, body })
    }

    /// Returns true if execution `id` needed no roll call.
    pub(crate) async fn is_warm(&mut self, id: &str) -> Outcome<bool> {
        let request = http::Request::get(&format!("/api/v1/executions/{id}"), "");
        let (status, body) = self.exchange(&request).await?;
        if status != 200 {
            return Err(body.into());
        }
        Ok(body.contains("\"warm\":true"))
    }

    /// Uploads a module to the head and returns the function's id.
    pub(crate) async fn upload(&mut self, name: &str, module: &[u8]) -> Outcome<String> {
        let path = format!("/api/v1/functions?method={name}");
        let request = http::Request::post(&path, "", "application/wasm", module);
        let (_, body) = self.exchange(&request).await?;
        match field(&body, "function_id") {
            Some(id) => Ok(id.to_owned()),
            None => Err(body.into()),
        }
    }

    async fn exchange(&mut self, request: &http::Request) -> Outcome<(u16, String)> {
        let response = self.0.send(request).await?;
        Ok((response.status, String::from_utf8(response.body)?))
    }
}

/// Returns the text in the first field `name`.
fn field<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next()
}
