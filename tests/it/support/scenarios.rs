//! Requests and the exact responses to them, in the files `tests/data/*/scenarios.http`. Each file
//! describes its own format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Method, Response};
use tokio::time::timeout;

use crate::support::ROOT;

/// Maximum time until a response, or the expected part of a stream, has arrived.
const RESPONDS_WITHIN: Duration = Duration::from_secs(30);

/// A request and the expected response.
#[derive(Debug)]
struct Scenario {
    name: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
    want: Want,
}

#[derive(Debug)]
struct Want {
    status: u16,
    /// Required headers. A header with the value `-` must be absent.
    headers: Vec<(String, String)>,
    /// Expected body; `None` if any body is accepted.
    body: Option<String>,
    /// True if the response is a stream that continues after `body`.
    is_stream: bool,
}

/// Parses a file.
fn parse(text: &str) -> Vec<Scenario> {
    let blocks = text.split("\n### ").skip(1);
    blocks
        .map(|block| parse_scenario(block).unwrap_or_else(|| panic!("unreadable: {block}")))
        .collect()
}

fn parse_scenario(block: &str) -> Option<Scenario> {
    let lines: Vec<&str> = block.trim_end_matches('\n').split('\n').collect();
    let (name, lines) = lines.split_first()?;
    let response = lines.iter().position(|line| line.starts_with("HTTP "))?;
    let (request, response) = lines.split_at(response);
    let (first, request) = request.split_first()?;
    let (method, path) = first.split_once(' ')?;
    let (headers, body) = parse_headers(request);
    let (first, response) = response.split_first()?;
    let mut words = first.split(' ').skip(1);
    let status = words.next()?.parse().ok()?;
    let form = words.next().unwrap_or("exactly");
    let (want_headers, mut want_body) = parse_headers(response);
    if form == "lines" {
        want_body.push('\n');
    }
    let want = Want {
        status,
        headers: want_headers,
        body: (form != "whatever").then_some(want_body),
        is_stream: form == "stream",
    };
    let (name, method, path) = ((*name).to_owned(), method.to_owned(), path.to_owned());
    Some(Scenario { name, method, path, headers, body: body.trim_end().to_owned(), want })
}

/// Parses headers up to the first empty line. Returns the headers, and the text after that line.
fn parse_headers(lines: &[&str]) -> (Vec<(String, String)>, String) {
    let end = lines.iter().position(|line| line.is_empty()).unwrap_or(lines.len());
    let (headers, rest) = lines.split_at(end);
    let header = |line: &&str| {
        let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("no header: {line}"));
        (name.to_owned(), value.to_owned())
    };
    (headers.iter().map(header).collect(), rest.get(1..).unwrap_or_default().join("\n"))
}

/// Values of placeholders, by name.
pub(crate) type Known = BTreeMap<String, String>;

/// Replaces the known placeholders in `text`.
fn fill(text: &str, known: &Known) -> String {
    known.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{{{name}}}}}"), value)
    })
}

/// Returns true if `got` matches `want`. In `want`, `{{time}}` matches a timestamp, `{{number}}` a
/// number, `{{text}}` everything up to the next quote, and `{{rest}}` everything. A placeholder with any
/// other name matches everything up to the next quote, and its value is added to `known`.
fn matches(got: &str, want: &str, known: &mut Known) -> bool {
    let Some((before, rest)) = want.split_once("{{") else { return got == want };
    let Some((name, after)) = rest.split_once("}}") else { return got == want };
    let Some(got) = got.strip_prefix(before) else { return false };
    let end = match name {
        "rest" => return true,
        "number" => got.find(|letter: char| !letter.is_ascii_digit()),
        _ => got.find(['"', '\n']),
    };
    let (value, got) = got.split_at(end.unwrap_or(got.len()));
    let fits = match name {
        "time" => value.len() >= 20 && value.ends_with('Z') && value.get(10..11) == Some("T"),
        "number" => !value.is_empty(),
        "text" => true,
        _ => {
            known.insert(name.to_owned(), value.to_owned());
            !value.is_empty()
        }
    };
    fits && matches(got, after, known)
}

/// Runs a scenario. The error describes how the response differs from the expected response.
async fn run(
    client: &reqwest::Client,
    base: &str,
    scenario: &Scenario,
    known: &mut Known,
) -> Result<(), String> {
    let Scenario { method, path, headers, body, want, .. } = scenario;
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = client.request(method, format!("{base}{}", fill(path, known)));
    for (name, value) in headers {
        request = request.header(name, fill(value, known));
    }
    if !body.is_empty() {
        request = request.body(fill(body, known));
    }
    let response = timeout(RESPONDS_WITHIN, request.send()).await;
    let response = response.map_err(|_| "no response".to_owned())?.map_err(|e| format!("{e:?}"))?;
    let mut wrong = String::new();
    let status = response.status().as_u16();
    if status != want.status {
        writeln!(wrong, "status {status}, not {}", want.status).unwrap();
    }
    for (name, value) in &want.headers {
        let got = response.headers().get(name).map_or("-", |got| got.to_str().unwrap_or("?"));
        let value = fill(value, known);
        if !matches(got, &value, known) {
            writeln!(wrong, "{name}: {got}, not {value}").unwrap();
        }
    }
    let wanted_body = want.body.as_deref().map(|body| fill(body, known));
    // Each event is followed by an empty line.
    let n_lines = wanted_body.as_ref().map(|body| body.matches('\n').count() + 2);
    let got = read(response, n_lines.filter(|_| want.is_stream)).await?;
    if let Some(want) = &wanted_body
        && !matches(&got, want, known)
    {
        writeln!(wrong, "body\n{got}\nnot\n{want}").unwrap();
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Reads the body of a response, or its first `n_lines` lines.
async fn read(mut response: Response, n_lines: Option<usize>) -> Result<String, String> {
    let mut body = Vec::new();
    // The last line is counted even if it is incomplete.
    let n_read = |body: &[u8]| body.split(|byte| *byte == b'\n').count();
    while n_lines.is_none_or(|n_lines| n_read(&body) <= n_lines) {
        let chunk = timeout(RESPONDS_WITHIN, response.chunk()).await;
        let chunk = chunk.map_err(|_| {
            format!("only {} within {RESPONDS_WITHIN:?}", String::from_utf8_lossy(&body))
        })?;
        match chunk.map_err(|error| format!("{error:?}"))? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => break,
        }
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    let Some(n_lines) = n_lines else { return Ok(body) };
    let lines: Vec<&str> = body.split_inclusive('\n').take(n_lines).collect();
    Ok(lines.concat().trim_end_matches('\n').to_owned())
}

/// Reads the scenarios of `tests/data/<folder>`.
pub(crate) fn read_file(folder: &str) -> String {
    fs::read_to_string(format!("{ROOT}/tests/data/{folder}/scenarios.http")).unwrap()
}

/// Runs the scenarios in `text` in order with the service at `base`. There must be at least `n_min`
/// scenarios, so that a truncated file does not pass.
pub(crate) async fn check(text: &str, base: &str, mut known: Known, n_min: usize) {
    let scenarios = parse(text);
    assert!(scenarios.len() >= n_min, "{} scenarios", scenarios.len());
    let client = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
    let mut wrong = String::new();
    for scenario in &scenarios {
        if let Err(error) = run(&client, base, scenario, &mut known).await {
            let Scenario { name, method, path, .. } = scenario;
            writeln!(wrong, "### {name}\n{method} {path}\n{error}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
