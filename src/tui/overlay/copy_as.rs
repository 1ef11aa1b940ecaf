//! Formats in which the selection can be copied: its id, JSON, CSV, or a curl command.
//!
//! No format contains a key or a token. Commands refer to a shell variable instead.

use ratatui::prelude::*;
use serde_json::Value;
use wire::functions::ExecuteRequest;
use wire::paths;

use crate::keymap::{Action, Layer};
use crate::local::Addresses;
use crate::overlay::save::ExportTable;
use crate::overlay::view::{List, raise};
use crate::screens::Screen;
use crate::screens::cluster::state::Pane as ClusterPane;
use crate::screens::execute::state::presets::quoted;
use crate::state::State;
use crate::state::overlay::CopyMenu;
use crate::state::runs::Run;
use crate::state::services::Service;
use crate::view::results::gist;
use crate::view::{Frame, centered, text_cut};
use crate::widget::paint;
use crate::widget::pane::Pane;

/// Shell variable that stands for the key or the token in a command.
const KEY_VARIABLE: &str = "$API_KEY";

impl CopyMenu {
    /// Returns the formats for the selection of the current screen.
    pub(crate) fn for_selection(state: &State) -> Self {
        let run = state.results().selected(&state.runs);
        let forms = match (state.screen, state.cluster.focus) {
            (Screen::Cluster, ClusterPane::Nodes) => of_node(state),
            (Screen::Cluster, ClusterPane::Processes) => {
                let number = state.cluster.selection(state.cluster_context());
                number.map(|number| vec![("process number", number)])
            }
            (Screen::Cluster, _) => run.map(|run| of_run(state, run)),
            (Screen::Execute, _) => Some(run.map_or_else(
                || {
                    let request = state.execute.form.preview();
                    let addresses = &state.services.addresses;
                    vec![("curl", curl_of(addresses, state.form_head(), &request))]
                },
                |run| of_run(state, run),
            )),
            (Screen::Data, _) => of_data(state),
            (Screen::Inference, _) => of_topic(state),
            (Screen::Logs, _) => of_line(state),
            (Screen::Overview, _) => None,
        };
        let mut forms = forms.unwrap_or_default();
        forms.retain(|(_, text)| !text.is_empty());
        Self { row: 0, forms }
    }

    /// Returns the text of the selected format.
    pub(crate) fn selected(&self) -> Option<String> {
        self.forms.get(self.row).map(|(_, text)| text.clone())
    }
}

/// Returns the command line that executes `request` at the head with address `head`.
pub(crate) fn curl_of(
    addresses: &Addresses,
    head: Option<&str>,
    request: &ExecuteRequest,
) -> String {
    let body = serde_json::to_string(request).unwrap_or_default();
    let post = curl(addresses, head, paths::FUNCTIONS_EXECUTE).replacen("curl", "curl -X POST", 1);
    format!("{post} -H 'content-type: application/json' -d {}", quoted(&body))
}

/// Returns the command line that requests `path` from the head with address `head`.
fn curl(addresses: &Addresses, head: Option<&str>, path: &str) -> String {
    let head = head.unwrap_or("$HEAD").trim_end_matches('/');
    let token = addresses.head_token.as_ref();
    let token = token.map(|_| format!(" -H \"authorization: Bearer {KEY_VARIABLE}\""));
    format!("curl {head}{path}{}", token.unwrap_or_default())
}

/// Returns the command line that requests `path` from another service at `address`.
fn curl_with_key(addresses: &Addresses, address: &str, path: &str) -> String {
    let key = addresses.api_key.as_ref();
    let key = key.map(|_| format!(" -H \"{}: {KEY_VARIABLE}\"", paths::API_KEY_HEADER));
    format!("curl {}{}", quoted(&format!("{address}{path}")), key.unwrap_or_default())
}

/// Returns `table` as CSV or JSON. Returns an empty text for a table without rows. Empty formats
/// are not listed.
fn text(table: &ExportTable, is_json: bool) -> String {
    if table.rows.is_empty() { String::new() } else { table.text(is_json) }
}

/// Returns the formats of the selected node or group. JSON contains the selected node, CSV all
/// nodes.
fn of_node(state: &State) -> Option<Vec<(&'static str, String)>> {
    let shown = state.cluster.table(state.cluster_context());
    let node = shown.node();
    let row = |node: &crate::state::nodes::Node| {
        [
            node.peer_id.clone(),
            node.role.clone().unwrap_or_default(),
            node.group_text(),
            node.n_runs.to_string(),
            node.n_agreed.to_string(),
            node.addresses.join(" "),
        ]
    };
    let columns = &["peer_id", "role", "groups", "runs", "agreed", "addresses"];
    let table = ExportTable::new(columns, shown.nodes.iter().map(row));
    let mut forms = match node {
        Some(node) => {
            let json = state
                .nodes
                .body(&node.peer_id)
                .and_then(|it| serde_json::to_string_pretty(it).ok());
            vec![
                ("peer id", node.peer_id.clone()),
                ("address", node.addresses.first().cloned().unwrap_or_default()),
                ("JSON", json.unwrap_or_default()),
            ]
        }
        None => vec![("peer ids", state.cluster.selection(state.cluster_context())?)],
    };
    forms.push(("CSV of all nodes", table.text(false)));
    let head = match node {
        Some(node) => state.nodes.heads_of(&node.peer_id).into_iter().next(),
        None => state.services.heads().next(),
    };
    let head = head.and_then(|head| state.services.address(Service::Head(head)));
    forms.push(("curl", curl(&state.services.addresses, head, paths::NODES)));
    Some(forms)
}

fn of_run(state: &State, run: &Run) -> Vec<(&'static str, String)> {
    let response = run.response();
    let json = match response {
        Some(response) => serde_json::to_string_pretty(response),
        None => serde_json::to_string_pretty(&run.request),
    };
    let groups = response.map_or(&[][..], |response| &response.results);
    let row = |group: &wire::functions::ResultGroupBody| {
        let result = &group.result;
        [
            group.frequency.to_string(),
            group.peers.join(" "),
            result.exit_code.to_string(),
            result.stdout.clone(),
            result.stderr.clone(),
        ]
    };
    let columns = &["frequency", "peers", "exit_code", "stdout", "stderr"];
    let table = ExportTable::new(columns, groups.iter().map(row));
    let id = response.map(|response| response.request_id.clone());
    vec![
        ("request id", id.or_else(|| run.request_id.clone()).unwrap_or_default()),
        ("function id", run.request.function_id.clone()),
        ("JSON", json.unwrap_or_default()),
        ("CSV of the groups", text(&table, false)),
        ("curl", curl_of(&state.services.addresses, run.head.address.as_deref(), &run.request)),
    ]
}

/// Returns the formats of the selected dataset. CSV and JSON contain the data of its chart.
fn of_data(state: &State) -> Option<Vec<(&'static str, String)>> {
    let dataset = state.data.dataset()?;
    let candles = state.data.chart.candles();
    let row = |&model::row::Bucket { timestamp, open, high, low, close, .. }: &_| {
        let [open, high, low, close] = [open, high, low, close].map(Value::from);
        [timestamp.to_string().into(), open, high, low, close]
    };
    let table =
        ExportTable::new(&["time", "open", "high", "low", "close"], candles.iter().map(row));
    let addresses = &state.services.addresses;
    let address = addresses.datasets.as_deref().unwrap_or("$DATA").trim_end_matches('/');
    // All paths start with `/api`, so it is removed from an address that ends with it.
    let address = address.strip_suffix("/api").unwrap_or(address);
    let path = format!("{}?dataset={}", paths::ROWS, dataset.id);
    Some(vec![
        ("dataset id", dataset.id.to_string()),
        ("name", dataset.name.clone()),
        ("JSON of the chart", text(&table, true)),
        ("CSV of the chart", text(&table, false)),
        ("curl", curl_with_key(addresses, address, &path)),
    ])
}

/// Returns the formats of the selected topic and actor. CSV and JSON contain the topic's epochs.
fn of_topic(state: &State) -> Option<Vec<(&'static str, String)>> {
    let topic = state.inference.selected?.get().to_string();
    let table = ExportTable::for_screen(state);
    let actor = state.inference.actor.as_ref().map(ToString::to_string);
    let addresses = &state.services.addresses;
    let address = addresses.inference.as_deref().unwrap_or("$INFER").trim_end_matches('/');
    let path = paths::TOPIC_LATEST.replace("{topic_id}", &topic);
    Some(vec![
        ("actor", actor.unwrap_or_default()),
        ("topic id", topic),
        ("JSON of the epochs", text(&table, true)),
        ("CSV of the epochs", text(&table, false)),
        ("curl", curl_with_key(addresses, address, &path)),
    ])
}

fn of_line(state: &State) -> Option<Vec<(&'static str, String)>> {
    let line = state.logs.line()?;
    let table = ExportTable::from_log_lines([&line.log]);
    Some(vec![
        ("text", state.logs.selection()?),
        ("message", line.log.message.clone()),
        ("JSON", table.text(true)),
        ("CSV", table.text(false)),
    ])
}

/// Width of the box.
const WIDTH: u16 = 72;

/// Distance of the texts from the left edge: the longest name and a gap.
const TEXT_FROM: u16 = 22;

pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, copy_as: &CopyMenu) {
    let theme = frame.theme;
    let n_rows = u16::try_from(copy_as.forms.len()).unwrap_or(u16::MAX);
    let place = centered(area, WIDTH.min(area.width), n_rows.saturating_add(2));
    let of = Pane::new("Copy as").info(
        frame.hints(Layer::Choice, &[(Action::Open, "copies it"), (Action::Back, "goes back")]),
    );
    let inside = raise(place, buf, frame, of);
    let list = List { items: &copy_as.forms, selected: copy_as.row, pitch: 1 };
    list.draw(inside, buf, frame, |buf, place, (name, text)| {
        paint::text(buf, place, (2, 0), name, theme.text);
        text_cut(buf, place, (TEXT_FROM, 0), &gist(text), theme.muted);
    });
}

#[cfg(test)]
mod tests {
    use crate::event::Effect;
    use crate::harness::{FUNCTION_ID, Harness, REQUEST_ID};

    /// Returns the text that row `row` copies, after `keys` have opened the list.
    fn copied(screen: &mut Harness, keys: &str, row: usize) -> String {
        screen.press(keys);
        screen.press("Y");
        for _ in 0..row {
            screen.press("down");
        }
        let asked = screen.effects_of("enter");
        let [Effect::Copy(text)] = asked.as_slice() else { panic!("{asked:?}") };
        text.clone()
    }

    #[test]
    fn run_is_copied_in_each_format_without_a_secret() {
        let mut screen = Harness::ready(160, 45);
        screen.state.services.addresses.head_token = Some("correct-horse".parse().unwrap());
        screen.run_split();
        assert_eq!(copied(&mut screen, "2 esc", 0), REQUEST_ID);
        assert_eq!(copied(&mut screen, "2 esc", 1), FUNCTION_ID);
        let json: serde_json::Value =
            serde_json::from_str(&copied(&mut screen, "2 esc", 2)).unwrap();
        assert_eq!(json["request_id"], REQUEST_ID);
        let csv = copied(&mut screen, "2 esc", 3);
        assert!(csv.starts_with("frequency,peers,exit_code,stdout,stderr\n66."), "{csv}");
        let curl = copied(&mut screen, "2 esc", 4);
        assert!(curl.starts_with("curl -X POST http://127.0.0.1:41233/api/v1/"), "{curl}");
        assert!(curl.contains("Bearer $API_KEY") && !curl.contains("correct-horse"), "{curl}");
    }

    #[test]
    fn nodes_and_log_lines_are_copied_as_text() {
        let mut screen = Harness::ready(160, 45);
        assert!(copied(&mut screen, "1 down", 0).starts_with("12D3KooW"));
        assert!(copied(&mut screen, "1", 2).starts_with("{\n  \"peer_id\""));
        let csv = copied(&mut screen, "5", 3);
        assert!(csv.starts_with("time,level,source,message,fields\n2026-"), "{csv}");
        screen.press("0 Y");
        assert!(screen.state.overlays.is_empty(), "there is nothing to copy");
    }
}
