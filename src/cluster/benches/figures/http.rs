//! A client of the REST API with one connection and one request at a time.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::Outcome;

/// Time for the roll call of a request, in seconds: more than any figure allows.
const TIMEOUT_S: u32 = 60;

/// A request to execute a function, and the expected response.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
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
pub(crate) struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

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
        let head = format!(
            "POST /api/v1/functions/execute HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Self { bytes: [head.into_bytes(), body.into_bytes()].concat(), n_nodes }
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
        let stream = TcpStream::connect(rest).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends a request to execute, and reads the response.
    pub(crate) async fn ask(&mut self, request: &Request) -> Outcome<Answer> {
        let (status, body) = self.exchange(&request.bytes).await?;
        let code = field(&body, "code").unwrap_or_default().to_owned();
        let request_id = field(&body, "request_id").unwrap_or_default().to_owned();
        Ok(Answer { status, code, request_id, body })
    }

    /// Returns true if execution `id` needed no roll call.
    pub(crate) async fn is_warm(&mut self, id: &str) -> Outcome<bool> {
        let asked = format!("GET /api/v1/executions/{id} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let (status, body) = self.exchange(asked.as_bytes()).await?;
        if status != 200 {
            return Err(body.into());
        }
        Ok(body.contains("\"warm\":true"))
    }

    /// Uploads a module to the head, and returns the function's id.
    pub(crate) async fn upload(&mut self, name: &str, module: &[u8]) -> Outcome<String> {
        let head = format!(
            "POST /api/v1/functions?method={name} HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
             application/wasm\r\ncontent-length: {}\r\n\r\n",
            module.len()
        );
        let (_, body) = self.exchange(&[head.as_bytes(), module].concat()).await?;
        match field(&body, "function_id") {
            Some(id) => Ok(id.to_owned()),
            None => Err(body.into()),
        }
    }

    async fn exchange(&mut self, bytes: &[u8]) -> Outcome<(u16, String)> {
        self.stream.write_all(bytes).await?;
        self.received.clear();
        loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err("the head closed the connection".into());
            }
            if let Some(answer) = whole(&self.received)? {
                return Ok(answer);
            }
        }
    }
}

/// Returns the status and body of a response, if it is complete.
fn whole(received: &[u8]) -> Outcome<Option<(u16, String)>> {
    // An incomplete character means that more follows.
    let Ok(text) = str::from_utf8(received) else { return Ok(None) };
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Ok(None) };
    let status = head.split(' ').nth(1).ok_or("an answer without a status")?.parse()?;
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let (_, length) = length.ok_or("an answer without a length")?;
    let is_whole = body.len() >= length.trim().parse()?;
    Ok(is_whole.then(|| (status, body.to_owned())))
}

/// Returns the text in the first field `name`.
fn field<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next()
}
