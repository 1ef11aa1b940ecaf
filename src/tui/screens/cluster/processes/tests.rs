use std::time::Duration;

use super::*;
use crate::event::{Event, Timer};
use crate::harness::Harness;
use crate::local::{LocalEvent, NodeOptions, Usage};
use crate::state::stack::Stack;

fn node(name: &str, role: &str, rest_api: Option<&str>) -> LocalNode {
    LocalNode {
        name: name.to_owned(),
        peer_id: format!("12D3KooW{name}"),
        role: role.to_owned(),
        pid: 7,
        rest_api: rest_api.map(str::to_owned),
        ..LocalNode::default()
    }
}

fn added_node(asked: &[Effect]) -> &NodeOptions {
    let [Effect::AddNode(node)] = asked else { panic!("{asked:?}") };
    node
}

#[test]
fn form_for_a_new_worker_contains_the_address_of_the_head() {
    let mut screen = Harness::ready(160, 45);
    screen.take_effects();
    screen.press("a");
    screen.shows(&["Start a worker", "/p2p/12D3KooWRvAp"]);
    screen.press("tab tab tab");
    screen.type_text("gpu,fast");
    screen.press("tab tab");
    screen.type_text("zone=a,gpu");
    screen.press("enter");
    screen.shows(&["`gpu` is not NAME=VALUE"]);
    assert_eq!(screen.take_effects(), [], "nothing is started");
    screen.type_text("=a100");
    let asked = screen.effects_of("enter");
    let added = added_node(&asked);
    let want = ["gpu", "fast"].map(str::to_owned);
    assert_eq!((&*added.role, &*added.subgroups), ("worker", &want[..]));
    assert!(format!("{added:?}").contains(r#"["zone=a", "gpu=a100"]"#), "{added:?}");
    assert!(added.boot_nodes[0].starts_with("/ip4/127.0.0.1/tcp/39510/"), "{added:?}");
    screen.take(Event::Local(LocalEvent::Node(node("worker-4", "worker", None))));
    screen.shows(&["● worker-4"]);
    assert!(screen.take_effects().contains(&Effect::LoadNodes(screen.head())));
}

#[test]
fn address_of_the_head_is_filled_in_once_it_is_known() {
    let mut screen = Harness::ready(160, 45);
    screen.take(Event::Nodes(screen.head(), Ok(Vec::new()), Duration::ZERO));
    screen.press("a up tab tab");
    let led = "/p2p/12D3KooWRvAp";
    screen.hides(&[led]);
    screen.take(Event::Nodes(screen.head(), Ok(crate::harness::nodes()), Duration::ZERO));
    screen.shows(&[led]);
    screen.press("ctrl-u");
    screen.take(Event::Nodes(screen.head(), Ok(crate::harness::nodes()), Duration::ZERO));
    let Some(Overlay::Form(form)) = screen.state.overlays.last() else { panic!("a form") };
    assert!(form.value(node::BOOT_NODE).is_empty());
}

#[test]
fn stopping_a_process_asks_for_confirmation() {
    let mut screen = Harness::ready(160, 45);
    screen.take_effects();
    screen.press("tab tab tab down D");
    screen.shows(&["Stop worker-1, pid 48121?"]);
    assert_eq!(screen.effects_of("n"), []);
    assert_eq!(screen.effects_of("D y"), [Effect::StopProcess("worker-1".to_owned())]);
    screen.shows(&["stopping"]);
    screen.state.notices.clear();
    let exited = LocalEvent::Exited { process: "worker-1".to_owned(), code: Some(0) };
    screen.take(Event::Local(exited));
    let shown = screen.text();
    assert!(screen.row("– worker-1").contains(" stopped"));
    assert!(!shown.contains("failed to"), "{shown}");
    screen.press("D");
    let names: Vec<String> =
        screen.state.stack.processes().iter().map(|process| process.name.clone()).collect();
    assert!(
        !names.contains(&"worker-1".to_owned()),
        "the stopped process is still listed: {names:?}"
    );
}

#[test]
fn restart_and_stop_act_on_the_highlighted_row() {
    let mut screen = Harness::ready(160, 45);
    screen.press("/");
    screen.type_text("worker-2");
    screen.press("enter");
    assert_eq!(screen.effects_of("R"), [Effect::RestartProcess("worker-2".to_owned())]);
    let mut screen = Harness::ready(160, 45);
    screen.press("tab tab tab down D");
    screen.state.cluster.process = None;
    screen.shows(&["Stop worker-1, pid 48121?"]);
    assert_eq!(screen.effects_of("y"), [Effect::StopProcess("worker-1".to_owned())]);
}

#[test]
fn crashed_process_is_reported_and_can_be_restarted() {
    let mut screen = Harness::ready(160, 45);
    let exited = LocalEvent::Exited { process: "worker-2".to_owned(), code: None };
    screen.take(Event::Local(exited));
    screen.shows(&["failed to keep worker-2 running", "by a signal"]);
    assert_eq!(screen.effects_of("down down R"), [Effect::RestartProcess("worker-2".to_owned())]);
}

#[test]
fn restarting_process_is_marked_until_it_runs() {
    let mut screen = Harness::ready(160, 45);
    let restarting = LocalEvent::Restarting {
        process: "worker-2".to_owned(),
        code: None,
        restart_in: Duration::from_millis(400),
    };
    screen.take(Event::Local(restarting.clone()));
    let shown = screen.text();
    for want in ["failed to keep worker-2 running", "it restarts in 0.4 s", "restarting"] {
        assert!(shown.contains(want), "{want}: {shown}");
    }
    screen.state.notices.clear();
    screen.take(Event::Local(LocalEvent::Node(node("worker-2", "worker", None))));
    let shown = screen.text();
    let row = shown.lines().find(|line| line.contains("● worker-2") && line.contains(" 7 "));
    assert!(row.is_some_and(|row| row.contains("running")), "{shown}");
    assert!(!shown.contains("restarting"), "{shown}");
    screen.take(Event::Local(restarting));
    let want = [Effect::StopProcess("worker-2".to_owned())];
    assert_eq!(screen.effects_of("tab tab tab down down D"), want);
}

#[test]
fn remote_node_cannot_be_stopped() {
    let mut screen = Harness::ready(160, 45);
    screen.state.stack = Stack::default();
    screen.press("down D");
    assert!(screen.state.overlays.is_empty());
    screen.shows(&["no local process is selected"]);
}

#[test]
fn local_head_is_connected_if_no_other_head_is_known() {
    let mut state = State::default();
    let head = node("head", "head", Some("http://127.0.0.1:8080"));
    let effects = crate::app::update(&mut state, Event::Local(LocalEvent::Node(head)));
    let connects = effects.iter().any(
        |effect| matches!(effect, Effect::Connect(it) if it.heads == ["http://127.0.0.1:8080"]),
    );
    assert!(connects, "{effects:?}");
}

#[test]
fn resource_usage_is_polled_while_in_view() {
    let mut screen = Harness::ready(160, 45);
    screen.take_effects();
    screen.take(Event::TimerDue(Timer::Nodes(screen.head())));
    assert!(screen.take_effects().contains(&Effect::LoadUsage));
    let usage = Usage { cpu_percent: Some(0.44), memory_bytes: 38 << 20, is_suspended: false };
    screen.take(Event::Usage(vec![("head".to_owned(), usage)]));
    screen.shows(&["0.4%", "38 MiB"]);
    screen.take(Event::Nodes(screen.head(), Ok(crate::harness::nodes()), Duration::ZERO));
    screen.press("5");
    screen.take_effects();
    screen.take(Event::TimerDue(Timer::Nodes(screen.head())));
    assert_eq!(screen.take_effects(), [Effect::LoadNodes(screen.head())]);
}

#[test]
fn suspended_process_is_marked_until_it_is_continued() {
    let mut screen = Harness::quiet((160, 45));
    let usage = |is_suspended| {
        Event::Usage(vec![("worker-2".to_owned(), Usage { is_suspended, ..Usage::default() })])
    };
    screen.take(usage(true));
    assert!(screen.row("! worker-2").contains("suspended"));
    screen.take(usage(false));
    screen.hides(&["suspended", "! worker-2"]);
}

#[test]
fn quitting_offers_to_detach_added_nodes() {
    let mut screen = Harness::ready(160, 45);
    let added = LocalNode { is_added: true, ..node("worker-4", "worker", None) };
    screen.take(Event::Local(LocalEvent::Node(added.clone())));
    assert_eq!(screen.effects_of("q"), []);
    screen.shows(&["1 node that you started", "keep them"]);
    assert_eq!(screen.effects_of("k"), [Effect::DetachNodes, Effect::Quit]);
    screen.press("n");
    let exited = LocalEvent::Exited { process: "worker-4".to_owned(), code: Some(0) };
    screen.take(Event::Local(exited));
    assert_eq!(screen.effects_of("q"), [Effect::Quit], "the stopped process is no longer listed");
}

#[test]
fn detached_node_is_listed_and_can_be_stopped() {
    let mut screen = Harness::ready(160, 45);
    let found = node("kept-worker-4", "worker", None);
    let found = LocalNode { is_added: true, is_detached: true, ..found };
    screen.take(Event::Local(LocalEvent::Found(found)));
    screen.shows(&["kept-worker-4 still runs, pid 7"]);
    assert_eq!(screen.effects_of("q"), [Effect::Quit], "the node keeps running");
    let exited = |name: &str| LocalEvent::Exited { process: name.to_owned(), code: Some(0) };
    for name in ["head", "worker-1", "worker-2", "worker-3", "datasets", "inference"] {
        screen.take(Event::Local(exited(name)));
        screen.state.stack.forget(name);
    }
    let want = [Effect::StopProcess("kept-worker-4".to_owned())];
    assert_eq!(screen.effects_of("tab tab tab D y"), want);
}

#[test]
fn worker_that_no_longer_responds_is_marked_even_if_the_clock_of_its_head_is_wrong() {
    let mut screen = Harness::quiet((160, 45));
    // Seconds after which a list is loaded, and the seconds of the last messages of the workers.
    let mut load = |wait: u64, seconds: [u32; 3]| {
        screen.pass(Duration::from_secs(wait));
        let mut nodes = crate::harness::nodes();
        for (node, second) in nodes.iter_mut().skip(1).zip(seconds) {
            node.last_seen = Some(format!("2026-07-30T13:00:{second:02}Z"));
        }
        screen.take(Event::Nodes(screen.head(), Ok(nodes), Duration::ZERO));
        let shown = screen.text();
        let row = shown.lines().find(|line| line.contains(" worker-2 ")).unwrap_or_default();
        (row.contains("! worker-2"), row.contains(" silent "), shown)
    };
    for (wait, seconds) in [(0, [0, 0, 0]), (19, [15, 0, 16])] {
        let (is_marked, _, shown) = load(wait, seconds);
        assert!(!is_marked, "{shown}");
    }
    let (is_marked, has_status, shown) = load(11, [30, 0, 29]);
    assert!(is_marked && has_status && shown.contains(" 30s "), "{shown}");
    let (is_marked, _, shown) = load(2, [30, 31, 29]);
    assert!(!is_marked, "{shown}");
    // The first list of a head already shows that a worker is far behind the others.
    screen.use_heads(&["http://10.0.0.5:8080"]);
    let mut nodes = crate::harness::nodes();
    nodes[2].last_seen = Some("2026-07-30T14:02:06Z".to_owned());
    screen.take(Event::Nodes(screen.head(), Ok(nodes), Duration::ZERO));
    screen.press("down down");
    screen.shows(&["! worker-2", " 25s ", "not responding for 25s"]);
    screen.press("0");
    screen.shows(&["! 1 silent"]);
}
