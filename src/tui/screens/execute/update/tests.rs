use std::time::Duration;

use wire::executions::ClusterEvent;
use wire::functions::FunctionBody;

use crate::event::{Event, Target};
use crate::harness::{FUNCTION_ID, Harness, PEERS, REQUEST_ID, split_response};
use crate::screens::execute::state::FormField;
use crate::screens::execute::update::*;
use crate::state::runs::Phase;
use crate::state::runs::live::Stage;

fn failure(why: &str) -> Failure {
    Failure { what: "learn it".to_owned(), why: why.to_owned(), ..Failure::default() }
}

fn stages(screen: &Harness) -> Vec<Stage> {
    let run = screen.state.runs.newest().unwrap();
    run.live.parts.iter().map(|part| part.stage.clone()).collect()
}

#[test]
fn progress_of_each_peer_follows_the_events_of_the_head() {
    let mut screen = Harness::ready(160, 45);
    screen.run_live();
    let answered = Stage::Answered { exit_code: 0 };
    assert_eq!(stages(&screen), [answered, Stage::Running, Stage::Running]);
    let shown = screen.text();
    for wanted in ["Per peer", "1 of 3 done", "worker-1", "exit 0", "412 ms", "running"] {
        assert!(shown.contains(wanted), "`{wanted}` in:\n{shown}");
    }
}

#[test]
fn events_that_arrive_before_the_request_id_are_applied_later() {
    let mut screen = Harness::ready(160, 45);
    let id = screen.run();
    let (request_id, peer_id) = (REQUEST_ID.to_owned(), PEERS[1].to_owned());
    screen.happens(ClusterEventKind::Dispatched {
        request_id,
        function_id: String::new(),
        peer_id,
    });
    assert_eq!(stages(&screen), []);
    screen.take(Event::RunAccepted(id, REQUEST_ID.to_owned()));
    assert_eq!(stages(&screen), [Stage::Running]);
}

#[test]
fn log_line_of_a_local_worker_marks_the_worker_as_fetching() {
    let mut screen = Harness::ready(160, 45);
    let id = screen.run();
    screen.take(Event::RunAccepted(id, REQUEST_ID.to_owned()));
    screen.take(Event::Local(crate::local::LocalEvent::Log(LocalLog {
        process: "worker-2".to_owned(),
        level: Level::Info,
        time: screen.state.now,
        message: FETCHES.to_owned(),
        fields: [("request", REQUEST_ID)].into_iter().collect(),
    })));
    assert_eq!(stages(&screen), [Stage::Fetching]);
    screen.shows(&["fetching"]);
}

#[test]
fn canceling_a_run_sends_its_request_id() {
    let mut screen = Harness::ready(160, 45);
    let id = screen.run_live();
    let want = [Effect::Cancel(id, Some((screen.head(), REQUEST_ID.to_owned())))];
    assert_eq!(screen.effects_of("ctrl-c"), want);
    let answered = Stage::Answered { exit_code: 0 };
    assert_eq!(stages(&screen), [answered, Stage::Cancelled, Stage::Cancelled]);
}

#[test]
fn unreachable_head_is_shown_until_it_responds() {
    let mut screen = Harness::ready(160, 45);
    let id = screen.run_live();
    screen.take(Event::RunUnreachable(id, Some(failure("connection refused"))));
    let n_lines = screen.state.logs.lines.len();
    screen.take(Event::RunUnreachable(id, Some(failure("connection refused"))));
    assert_eq!(screen.state.logs.lines.len(), n_lines, "one line for each change");
    screen.shows(&["does not respond", "connection refused"]);
    screen.take(Event::RunUnreachable(id, None));
    screen.hides(&["does not respond"]);
    screen.take(Event::Executed(id, Err(failure("it is gone"))));
    assert!(matches!(screen.state.runs.newest().unwrap().phase, Phase::Failed(_)));
    screen.shows(&["it is gone"]);
}

#[test]
fn head_that_does_not_list_its_nodes_gets_a_synchronous_request() {
    let mut screen = Harness::ready(160, 45);
    let head = screen.head();
    screen.state.nodes.head_mut(head).unwrap().listed = crate::state::resource::Resource::EMPTY;
    screen.take_effects();
    screen.press("e ctrl-r");
    let Some(Effect::Execute(_, order)) = screen.take_effects().pop() else { panic!("a run") };
    assert!(!order.is_followed);
}

#[test]
fn run_is_repeated_with_the_same_request() {
    let mut screen = Harness::split((160, 45));
    screen.press("e");
    screen.state.execute.form.edited();
    screen.press("tab tab tab ctrl-u");
    screen.type_text("1");
    screen.press("esc");
    screen.take_effects();
    screen.press("R");
    let Some(Effect::Execute(id, order)) = screen.take_effects().pop() else { panic!("a run") };
    assert_eq!((id.0, order.request.config.number_of_nodes), (2, 3));
    screen.press(",");
    screen.shows(&["Run 1"]);
    screen.press(".");
    screen.shows(&["Run 2"]);
}

#[test]
fn local_module_is_uploaded_before_it_runs() {
    let mut screen = Harness::after("e ctrl-u");
    screen.type_text("bin/mine.wasm");
    let want = [Effect::AddFunction { head: screen.head(), path: "bin/mine.wasm".to_owned() }];
    assert_eq!(screen.effects_of("ctrl-r"), want);
    let function = FunctionBody {
        name: "mine".to_owned(),
        function_id: FUNCTION_ID.to_owned(),
        method: "mine.wasm".to_owned(),
        bytes: 9,
        by_manifest: Vec::new(),
    };
    screen.take(Event::FunctionAdded(screen.head(), Ok(function)));
    let asked = screen.take_effects();
    let [Effect::LoadFunctions(_), Effect::Execute(_, order)] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert_eq!(order.request.method, "mine.wasm");
    assert_eq!(screen.state.execute.form.text(FormField::Function), "mine");
}

#[test]
fn failed_upload_leaves_the_form_unchanged() {
    let mut screen = Harness::after("e ctrl-u");
    screen.type_text("bin/mine.wasm");
    let want = [Effect::AddFunction { head: screen.head(), path: "bin/mine.wasm".to_owned() }];
    assert_eq!(screen.effects_of("enter"), want);
    screen.take(Event::FunctionAdded(screen.head(), Err(failure("no such file or folder"))));
    assert_eq!(screen.take_effects(), []);
    screen.shows(&["no such file or folder"]);
    assert_eq!(screen.state.execute.form.text(FormField::Function), "bin/mine.wasm");
}

#[test]
fn preset_is_saved_loaded_and_removed() {
    let mut screen = Harness::after("e tab tab tab ctrl-u");
    screen.type_text("2");
    screen.take_effects();
    screen.press("ctrl-s");
    screen.shows(&["hello x2"]);
    screen.change_presets("enter");
    screen.shows(&["preset \"hello x2\" saved"]);
    assert_eq!(screen.state.execute.presets.keys().collect::<Vec<_>>(), ["hello x2"]);

    screen.press("ctrl-u");
    screen.type_text("3");
    screen.press("ctrl-o");
    screen.shows(&["Presets"]);
    screen.press("enter");
    assert_eq!(screen.state.execute.form.text(FormField::Nodes), "2");
    screen.change_presets("ctrl-o D");
    assert!(screen.state.execute.presets.is_empty());
    screen.press("esc");
    assert!(screen.state.overlays.is_empty());
}

#[test]
fn preset_of_the_form_is_selected_and_removing_it_selects_the_next_preset() {
    let mut screen = Harness::after("e tab tab tab");
    for n_nodes in ["2", "3", "4"] {
        screen.press("ctrl-u");
        screen.type_text(n_nodes);
        screen.change_presets("ctrl-s enter");
    }
    screen.change_presets("ctrl-o D");
    let names: Vec<_> = screen.state.execute.presets.keys().collect();
    assert_eq!(names, ["hello x2", "hello x3"]);
    let first = Target::Row { pane: 0, row: 0 };
    assert!(screen.hits().labels().iter().any(|(_, _, target)| *target == first));
    for (target, n_nodes) in [(None, "3"), (Some(first), "2")] {
        if let Some(target) = target {
            screen.press("ctrl-o");
            screen.take(Event::Click(target));
        }
        screen.press("enter");
        assert_eq!(screen.state.execute.form.text(FormField::Nodes), n_nodes);
    }
}

#[test]
fn preset_beyond_the_maximum_is_refused_with_a_reason() {
    let mut screen = Harness::ready(160, 45);
    screen.change_presets("e ctrl-s enter");
    let (name, preset) = screen.state.execute.presets.pop_first().unwrap();
    let full = (0..200).map(|n| (format!("{name} {n}"), preset.clone())).collect();
    screen.state.execute.presets = full;
    screen.change_presets("ctrl-s enter");
    screen.shows(&["there are 200 presets already"]);
    assert_eq!(screen.state.execute.presets.len(), 200);
}

#[test]
fn copied_curl_command_contains_no_secret() {
    let mut screen = Harness::ready(160, 45);
    screen.state.services.addresses.head_token = Some("correct-horse".parse().unwrap());
    screen.press("e");
    let asked = screen.effects_of("ctrl-y");
    let [Effect::Copy(text)] = asked.as_slice() else { panic!("{asked:?}") };
    assert!(text.contains("Bearer $API_KEY"), "{text}");
    assert!(!text.contains("correct-horse") && !text.contains("UP-"), "{text}");
    assert!(text.starts_with("curl -X POST http://127.0.0.1:41233/api/v1/functions/execute"));
    assert!(text.contains(FUNCTION_ID) && text.contains("hello.wasm"), "{text}");
}

#[test]
fn nodes_are_reloaded_when_a_peer_joins_or_leaves() {
    let mut screen = Harness::after("5");
    screen.take_effects();
    screen.happens(ClusterEventKind::PeerLeft { peer_id: PEERS[1].to_owned() });
    assert_eq!(screen.take_effects(), [Effect::LoadNodes(screen.head())]);
}

#[test]
fn finished_run_shows_the_outcome_of_each_peer() {
    let mut screen = Harness::ready(160, 45);
    let id = screen.run_live();
    screen.pass(Duration::from_millis(300));
    screen.take(Event::Executed(id, Ok(Box::new(split_response()))));
    screen.shows(&["group 1", "2 distinct results"]);
}

#[test]
fn time_of_a_worker_follows_the_clock_of_the_head_if_its_events_arrive_together() {
    let mut screen = Harness::ready(160, 45);
    let id = screen.run();
    screen.take(Event::RunAccepted(id, REQUEST_ID.to_owned()));
    let ids = || (REQUEST_ID.to_owned(), PEERS[1].to_owned());
    let (request_id, peer_id) = ids();
    let dispatched =
        ClusterEventKind::Dispatched { request_id, function_id: String::new(), peer_id };
    let (request_id, peer_id) = ids();
    let (exit_code, elapsed_ms) = (0, 31.0);
    let result = ClusterEventKind::Result { request_id, peer_id, exit_code, elapsed_ms };
    for (time, kind) in [("2026-07-30T13:00:00Z", dispatched), ("2026-07-30T13:00:00.029Z", result)]
    {
        let event = Box::new(ClusterEvent { time: time.to_owned(), kind });
        screen.take(Event::Cluster(screen.head(), StreamEvent::Item(event)));
    }
    assert!(screen.row("exit 0").contains("29 ms"));
}

#[test]
fn failed_worker_is_counted_alike_in_all_summaries_of_its_run() {
    let mut screen = Harness::ready(160, 45);
    let id = screen.run_live();
    let ids = |idx: usize| (REQUEST_ID.to_owned(), PEERS[idx].to_owned());
    let (request_id, peer_id) = ids(2);
    let (exit_code, elapsed_ms) = (0, 480.0);
    screen.happens(ClusterEventKind::Result { request_id, peer_id, exit_code, elapsed_ms });
    let (request_id, peer_id) = ids(3);
    let (reason, replaced) = ("it left".to_owned(), false);
    screen.happens(ClusterEventKind::Failed { request_id, peer_id, reason, replaced });
    screen.shows(&["running, 2 of 3 done, 1 failed,", "Per peer  2 of 3 done, 1 failed"]);
    let mut response = split_response();
    response.results.truncate(1);
    response.cluster.peers.truncate(2);
    screen.take(Event::Executed(id, Ok(Box::new(response))));
    screen.state.notices.clear();
    screen.shows(&["run by 2 of 3", "2 peers took part, and all agree; 1 failed"]);
    screen.press("1");
    let shown = screen.text();
    let row = shown.lines().find(|line| line.contains("hello.wasm"));
    assert!(row.is_some_and(|row| row.contains("! 14:02") && row.contains(" 2/3 ")), "{shown}");
    screen.press("0");
    screen.shows(&["1 failed, all agree"]);
}
