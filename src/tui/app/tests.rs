use super::*;
use crate::event::{DataEvent, DatasetSearch, InferenceEvent, RowsQuery, StreamEvent};
use crate::harness::{self, FUNCTION_ID, Harness, split_response, topics};
use crate::screens::cluster::update::{NODES_EVERY, NODES_HIDDEN_EVERY};
use crate::screens::execute::state::FormField;
use crate::state::layout::Divider;
use crate::state::resource::Failure;
use crate::state::results::Output;
use crate::state::services::{Health, Service};
use crate::state::stack;

fn failure() -> Failure {
    Failure::new("list the nodes", "connection refused", "check the address")
}

#[test]
fn local_stack_is_started_if_no_profile_is_chosen() {
    let mut screen = Harness::starting(160, 45);
    let want = [Effect::StartLocal, Effect::LoadPresets, Effect::FindDetachedNodes];
    assert_eq!(screen.take_effects(), want);
    screen.shows(&["starting"]);
}

#[test]
fn screen_connects_to_a_ready_local_stack_and_announces_it() {
    let mut screen = Harness::starting(160, 45);
    screen.take_effects();
    let ready = harness::ready();
    screen.take(Event::Local(LocalEvent::Ready(ready.clone())));
    let asked = screen.take_effects();
    assert_eq!(asked[0], Effect::Connect(ready.addresses));
    for effect in
        [Effect::LoadNodes(screen.head()), Effect::LoadFunctions(screen.head()), Effect::LoadTopics]
    {
        assert!(asked.contains(&effect), "{effect:?} in {asked:?}");
    }
    assert!(asked.contains(&Effect::LoadDatasets(DatasetSearch::ALL)));
    screen.shows(&["head :41233 · 3 workers · datasets · inference"]);
}

#[test]
fn local_stack_that_becomes_ready_does_not_replace_a_chosen_profile() {
    let mut screen = Harness::starting(160, 45);
    screen.state.profiles.current = Some("prod".to_owned());
    screen.take_effects();
    let ready = harness::ready();
    screen.take(Event::Local(LocalEvent::Ready(ready)));
    assert!(!screen.take_effects().iter().any(|it| matches!(it, Effect::Connect(_))));
}

#[test]
fn values_of_earlier_services_are_not_shown_after_a_connection_without_them() {
    let mut screen = Harness::ready(160, 45);
    screen.take(Event::Inference(InferenceEvent::Topics(Ok(topics(Some(90))))));
    connect(&mut screen.state, &Addresses::default());
    let State { data, inference, .. } = &screen.state;
    assert!(data.datasets.value().is_none() && inference.topics.value().is_none());
}

#[test]
fn attached_screen_follows_the_stack_to_the_process_that_runs_it_next() {
    let mut screen = Harness::starting(160, 45);
    let at = |port| Addresses {
        datasets: Some(format!("http://127.0.0.1:{port}/api")),
        ..Addresses::default()
    };
    let attached = |port| Event::Local(LocalEvent::Attached(at(port)));
    screen.take(attached(1));
    screen.take_effects();
    screen.take(Event::TimerDue(Timer::Probe));
    assert!(!screen.take_effects().contains(&Effect::FindLocal));
    for _ in 0..2 {
        let response = Some(Err(failure()));
        screen.take(Event::Probed { service: Service::Data, response, latency: Duration::ZERO });
    }
    screen.take(Event::TimerDue(Timer::Probe));
    assert!(screen.take_effects().contains(&Effect::FindLocal));
    screen.take(attached(1));
    assert!(!screen.take_effects().contains(&Effect::Connect(at(1))));
    screen.take(attached(2));
    assert!(screen.take_effects().contains(&Effect::Connect(at(2))));
}

#[test]
fn overview_requests_the_topics_once_a_minute_and_soon_after_a_failure() {
    let mut screen = Harness::after("0");
    screen.take(Event::Inference(InferenceEvent::Topics(Err(failure()))));
    screen.take_effects();
    screen.take(Event::TimerDue(Timer::Overview));
    assert_eq!(screen.take_effects(), [Effect::LoadTopics]);
    screen.take(Event::Inference(InferenceEvent::Topics(Ok(topics(Some(90))))));
    for (seconds, is_listed) in [(15, false), (44, false), (2, true)] {
        screen.pass(Duration::from_secs(seconds));
        screen.take_effects();
        screen.take(Event::TimerDue(Timer::Overview));
        assert_eq!(
            screen.take_effects().contains(&Effect::LoadTopics),
            is_listed,
            "after {seconds} s more"
        );
    }
}

#[test]
fn overview_requests_an_old_list_of_topics_when_it_comes_into_view() {
    let mut screen = Harness::ready(160, 45);
    screen.take(Event::Inference(InferenceEvent::Topics(Ok(topics(Some(90))))));
    assert!(!screen.effects_of("0").contains(&Effect::LoadTopics));
    screen.press("1");
    screen.pass(Duration::from_mins(2));
    assert!(screen.effects_of("0").contains(&Effect::LoadTopics));
}

#[test]
fn overview_requests_the_first_value_of_a_new_topic_again_within_seconds() {
    let mut screen = Harness::after("0");
    screen.effects.clear();
    screen.take(Event::Inference(InferenceEvent::Topics(Ok(topics(None)))));
    let soon = Effect::SetTimer(Timer::Overview, Duration::from_secs(3));
    assert!(screen.effects.contains(&soon), "{:?}", screen.effects);
}

#[test]
fn overview_requests_topics_and_their_values_once_the_service_responds() {
    let mut screen = Harness::after("0");
    screen.take(Event::Inference(InferenceEvent::Topics(Err(failure()))));
    screen.take_effects();
    let (service, latency) = (Service::Inference, Duration::ZERO);
    screen.take(Event::Probed { service, response: Some(Ok(())), latency });
    assert!(screen.take_effects().contains(&Effect::LoadTopics));
    screen.take(Event::Inference(InferenceEvent::Topics(Ok(topics(Some(90))))));
    let is_value = |effect: &Effect| matches!(effect, Effect::LoadLatest { .. });
    assert!(screen.take_effects().iter().any(is_value));
}

#[test]
fn head_given_by_address_is_marked_as_typed_and_its_nodes_as_listed() {
    use crate::state::nodes::Origin;
    let mut state = State::default();
    let heads = vec!["http://10.0.0.1:8080".to_owned()];
    start(&mut state, Start::Connect(Addresses { heads, ..Addresses::default() }));
    let head = state.services.heads().next().unwrap();
    update(&mut state, Event::Nodes(head, Ok(harness::nodes()), Duration::ZERO));
    let origins = state.nodes.all(&state.stack).into_iter().map(|node| node.origin);
    let listed = Origin::Listed;
    assert_eq!(origins.collect::<Vec<_>>(), [Origin::Typed, listed, listed, listed]);
}

#[test]
fn no_local_stack_is_started_if_a_profile_is_chosen() {
    let mut state = State::default();
    let addresses =
        Addresses { heads: vec!["http://10.0.0.1:8080".to_owned()], ..Addresses::default() };
    let effects = start(&mut state, Start::Connect(addresses.clone()));
    assert!(effects.contains(&Effect::Connect(addresses)));
    assert!(!effects.contains(&Effect::StartLocal));
    assert_eq!(state.stack.phase, stack::Phase::Absent);
}

#[test]
fn list_of_nodes_is_polled_every_two_seconds_while_in_view() {
    let mut screen = Harness::ready(160, 45);
    assert!(screen.effects.contains(&Effect::SetTimer(Timer::Nodes(screen.head()), NODES_EVERY)));
    screen.effects.clear();
    screen.take(Event::TimerDue(Timer::Nodes(screen.head())));
    assert_eq!(screen.take_effects(), [Effect::LoadNodes(screen.head()), Effect::LoadUsage]);
    screen.take(Event::TimerDue(Timer::Nodes(screen.head())));
    assert_eq!(screen.take_effects(), [], "one at a time");
    screen.press("5");
    screen.take(Event::Nodes(screen.head(), Ok(harness::nodes()), Duration::from_millis(3)));
    assert!(
        screen.effects.contains(&Effect::SetTimer(Timer::Nodes(screen.head()), NODES_HIDDEN_EVERY))
    );
}

#[test]
fn ctrl_r_runs_the_filled_form() {
    let mut screen = Harness::ready(160, 45);
    screen.take_effects();
    screen.press("e");
    assert_eq!(screen.state.execute.form.text(FormField::Method), "hello.wasm");
    let asked = screen.effects_of("ctrl-r");
    let Some(Effect::Execute(id, order)) = asked.last() else { panic!("{asked:?}") };
    let request = &order.request;
    assert!(order.is_followed, "the head lists its nodes");
    assert_eq!((request.function_id.as_str(), request.config.number_of_nodes), (FUNCTION_ID, 3));
    screen.shows(&["waiting for head"]);

    screen.take(Event::Executed(*id, Ok(Box::new(split_response()))));
    screen.shows(&["3 peers took part, 2 distinct results", "66.7 freq"]);
    screen.press("1");
    screen.shows(&["66.7 freq"]);
}

#[test]
fn invalid_form_is_not_sent_and_shows_its_errors() {
    let mut screen = Harness::after("e tab ctrl-u");
    screen.type_text("not a cid");
    assert_eq!(screen.effects_of("ctrl-r"), []);
    screen.shows(&["not a content id (CID)"]);
    assert_eq!(screen.state.execute.form.focus, FormField::FunctionId);
}

#[test]
fn request_for_more_nodes_than_known_is_sent_with_a_warning() {
    let mut screen = Harness::after("e tab tab tab ctrl-u");
    screen.type_text("4");
    screen.press("tab");
    screen.shows(&["only 3 workers known"]);
    let mut nodes = harness::nodes();
    nodes[3].connected = false;
    screen.take(Event::Nodes(screen.head(), Ok(nodes), Duration::ZERO));
    screen.shows(&["only 2 workers known"]);
    screen.press("ctrl-r");
    assert!(matches!(screen.take_effects().last(), Some(Effect::Execute(..))));
}

#[test]
fn arrow_keys_select_known_values_in_a_form_field() {
    let mut screen = Harness::after("e down");
    assert_eq!(screen.state.execute.form.text(FormField::Method), "mean.wasm");
    screen.press("tab tab tab tab down");
    assert_eq!(screen.state.execute.form.text(FormField::Subgroup), "gpu");
    screen.press("down");
    assert_eq!(screen.state.execute.form.text(FormField::Subgroup), "");
}

#[test]
fn run_without_head_fails_with_advice() {
    let mut screen = Harness::starting(160, 45);
    screen.take_effects();
    screen.press("e tab");
    screen.type_text(FUNCTION_ID);
    screen.press("tab");
    screen.type_text("hello.wasm");
    assert_eq!(screen.effects_of("ctrl-r"), []);
    screen.shows(&["still starting"]);
}

#[test]
fn failed_run_is_reported_and_leaves_the_form_unchanged() {
    let mut screen = Harness::ready(160, 45);
    let id = screen.run();
    screen.take(Event::Executed(id, Err(failure())));
    screen.shows(&["connection refused", "check the address"]);
    assert_eq!(screen.state.execute.form.text(FormField::Method), "hello.wasm");
}

#[test]
fn first_interrupt_cancels_the_run_and_the_second_interrupt_quits() {
    let mut screen = Harness::ready(160, 45);
    let id = screen.run();
    assert_eq!(screen.effects_of("ctrl-c"), [Effect::Cancel(id, None)]);
    screen.take(Event::Executed(id, Ok(Box::new(split_response()))));
    assert!(screen.text().contains("cancelled"), "a late answer changes nothing");
    screen.take(Event::TimerDue(Timer::Interrupt));
    assert_eq!(screen.effects_of("ctrl-c"), [], "the first interrupt was long ago");
    assert_eq!(screen.effects_of("ctrl-c"), [Effect::Quit]);
}

#[test]
fn quitting_asks_for_confirmation_only_while_a_run_is_waiting() {
    let mut screen = Harness::ready(160, 45);
    screen.take_effects();
    screen.press("e ctrl-r");
    assert_eq!(screen.effects_of("q"), []);
    screen.shows(&["1 run is still waiting"]);
    assert_eq!(screen.effects_of("n q y"), [Effect::Quit]);
    screen.press("n");
    screen.take(Event::Resized { width: 50, height: 10 });
    assert_eq!(screen.effects_of("q"), []);
    screen.shows(&["q again quits, ends 1 run"]);
    assert_eq!(screen.effects_of("q"), [Effect::Quit]);
    let mut screen = Harness::ready(160, 45);
    assert_eq!(screen.effects_of("q"), [Effect::Quit]);
}

#[test]
fn pressed_key_that_does_not_continue_a_key_sequence_performs_its_own_action() {
    let mut screen = Harness::after("g 5");
    assert_eq!((screen.state.screen, screen.state.pending.len()), (Screen::Logs, 0));
    screen.press("g");
    screen.shows(&["g …"]);
}

#[test]
fn selected_node_stays_selected_when_the_list_changes() {
    let mut screen = Harness::after("down down");
    let selected = screen.state.cluster.node.clone();
    let mut nodes = harness::nodes();
    nodes.remove(1);
    screen.take(Event::Nodes(screen.head(), Ok(nodes), Duration::ZERO));
    assert_eq!(screen.state.cluster.node, selected);
    let known = screen.state.cluster_context();
    assert_eq!(screen.state.cluster.table(known).selected, 1);
}

#[test]
fn filter_is_typed_confirmed_and_cleared() {
    let mut screen = Harness::after("/");
    screen.type_text("gpu");
    screen.press("enter");
    assert_eq!(screen.state.cluster.nodes(screen.state.cluster_context()).len(), 2);
    screen.state.notices.clear();
    screen.press("esc");
    assert_eq!(screen.state.cluster.nodes(screen.state.cluster_context()).len(), 4);
}

#[test]
fn unavailable_service_is_reported_once_and_its_data_stay_visible() {
    let mut screen = Harness::ready(160, 45);
    screen.pass(Duration::from_mins(2));
    screen.take(Event::Nodes(screen.head(), Err(failure()), Duration::ZERO));
    screen.shows(&["failed to list the nodes", "down 2 m", "12D3KooWRv"]);
    let n_lines = screen.state.logs.lines.len();
    screen.take(Event::Nodes(screen.head(), Err(failure()), Duration::ZERO));
    assert_eq!(screen.state.logs.lines.len(), n_lines, "one line for each change");
    screen.take(Event::Nodes(screen.head(), Ok(harness::nodes()), Duration::from_millis(3)));
    screen.shows(&["head is reachable again"]);
}

#[test]
fn failed_start_is_shown_despite_a_later_progress_report() {
    let mut screen = Harness::starting(160, 45);
    screen.take(Event::LocalFailed(failure()));
    screen.take(Event::Local(LocalEvent::Starting { what: "workers".to_owned() }));
    screen.shows(&["✗ failed to list the nodes"]);
    screen.hides(&["⣷ starting"]);
}

#[test]
fn notices_disappear_after_a_while() {
    let mut screen = Harness::after("5");
    screen.take(Event::LocalFailed(failure()));
    screen.shows(&["connection refused"]);
    assert!(
        screen.effects.iter().any(|effect| matches!(effect, Effect::SetTimer(Timer::Notice, _)))
    );
    screen.pass(Duration::from_secs(11));
    screen.take(Event::TimerDue(Timer::Notice));
    assert!(screen.state.notices.iter().next().is_none());
}

#[test]
fn click_selects_a_row_or_opens_a_screen() {
    let mut screen = Harness::ready(160, 45);
    screen.take(Event::Click(Target::Row { pane: 0, row: 2 }));
    assert_eq!(screen.state.cluster.node.as_deref(), Some(harness::PEERS[2]));
    screen.take(Event::Click(Target::Screen(Screen::Logs)));
    assert_eq!(screen.state.screen, Screen::Logs);
    screen.take(Event::Wheel(Target::Pane(0), -3));
    assert!(screen.state.logs.selected.is_some());
}

#[test]
fn redraw_after_a_key_is_more_urgent_than_after_a_response() {
    let mut screen = Harness::ready(160, 45);
    screen.state.dirty = Dirty::Clean;
    screen.take(Event::TimerDue(Timer::Rows));
    screen.take(Event::Nodes(screen.head(), Ok(Vec::new()), Duration::ZERO));
    assert_eq!(screen.state.dirty, Dirty::Poll);
    screen.take(Event::TimerDue(Timer::Age));
    assert_eq!(screen.state.dirty, Dirty::Age);
    screen.take(Event::LocalFailed(failure()));
    assert_eq!(screen.state.dirty, Dirty::Data);
    screen.press("j");
    assert_eq!(screen.state.dirty, Dirty::Input);
}

#[test]
fn rows_of_a_sparkline_are_drawn_with_less_urgency_than_rows_of_the_chart() {
    let mut screen = Harness::after("3");
    let [charted, listed] = [1, 2].map(|id| model::dataset::DatasetId::new(id).unwrap());
    screen.state.data.selected = Some(charted);
    for (dataset, urgency) in [(listed, Dirty::Poll), (charted, Dirty::Data)] {
        let limit = model::page::Limit::clamp(1);
        let query = RowsQuery::newest(dataset, model::resolution::Resolution::Raw, limit);
        screen.state.dirty = Dirty::Clean;
        screen.take(Event::Data(DataEvent::Rows { query, result: Err(failure()) }));
        assert_eq!(screen.state.dirty, urgency);
    }
}

#[test]
fn list_of_datasets_is_drawn_like_a_poll_only_if_it_is_the_same_as_before() {
    let mut screen = Harness::after("3");
    let now = screen.state.now;
    let names = |names: &[&str]| {
        let datasets = (1..).zip(names).map(|(id, name)| harness::dataset(id, name, now));
        let result = Ok(harness::datasets(datasets.collect()));
        Event::Data(DataEvent::Datasets { search: DatasetSearch::ALL, result })
    };
    for (list, urgency) in [
        (names(&["cpu"]), Dirty::Data),
        (names(&["cpu"]), Dirty::Poll),
        (names(&["cpu", "load"]), Dirty::Data),
    ] {
        screen.state.dirty = Dirty::Clean;
        screen.take(list);
        assert_eq!(screen.state.dirty, urgency);
    }
}

#[test]
fn header_shows_live_only_while_a_stream_is_open() {
    let mut screen = Harness::after("3");
    let dataset = model::dataset::DatasetId::new(1).unwrap();
    let page = harness::datasets(vec![harness::dataset(1, "cpu", screen.state.now)]);
    screen.take(Event::Data(DataEvent::Datasets { search: DatasetSearch::ALL, result: Ok(page) }));
    let news = |news| Event::Data(DataEvent::Stream { dataset, news });
    screen.take(news(StreamEvent::Connected));
    assert_eq!(screen.state.services.health(Service::Data), &Health::Live);
    screen.press("1");
    assert_eq!(screen.state.services.health(Service::Data), &Health::Idle { latency: None });
    screen.take(news(StreamEvent::Lost { why: failure(), retry_in: Duration::from_secs(1) }));
    screen.shows(&["data ✗ down"]);
}

#[test]
fn idle_screen_is_redrawn_rarely_for_ages_and_each_second_for_countdowns() {
    let mut nowhere = Harness::ready(160, 45);
    nowhere.state.services.connect(&Addresses::default(), nowhere.state.now);
    assert_eq!(nowhere.state.redraw_after(), None, "without services the screen is still");
    let mut screen = Harness::ready(160, 45);
    assert_eq!(screen.state.redraw_after(), Some(Duration::from_mins(1)));
    screen.pass(Duration::from_millis(300));
    screen.press("e ctrl-r");
    assert_eq!(screen.state.redraw_after(), Some(Duration::from_millis(700)), "a run is awaited");
}

#[test]
fn polling_backs_off_from_a_head_that_is_down() {
    let mut screen = Harness::ready(160, 45);
    let mut waits = Vec::new();
    for _ in 0..6 {
        screen.effects.clear();
        screen.take(Event::Nodes(screen.head(), Err(Failure::default()), Duration::ZERO));
        waits.extend(screen.effects.iter().filter_map(|effect| match effect {
            Effect::SetTimer(Timer::Nodes(_), wait) => Some(wait.as_secs()),
            _ => None,
        }));
    }
    assert_eq!(waits, [4, 8, 15, 15, 15, 15]);
}

#[test]
fn click_on_a_column_title_sorts_the_nodes() {
    let mut screen = Harness::ready(160, 45);
    let click = |screen: &mut Harness, title: &str| {
        let shown = screen.text();
        let is_head = |line: &&str| line.contains("NODE") && line.contains("AGREE");
        let head = shown.lines().position(|line| is_head(&line)).unwrap();
        let line = shown.lines().nth(head).unwrap();
        let column = line.split(title).next().unwrap().chars().count();
        let (column, row) = (u16::try_from(column).unwrap(), u16::try_from(head).unwrap());
        let target = screen.hits().target_at(column, row).unwrap();
        screen.take(Event::Click(target));
    };
    click(&mut screen, "AGREE");
    screen.shows(&["AGREE ▾"]);
    click(&mut screen, "AGREE");
    screen.shows(&["AGREE ▴"]);
    click(&mut screen, "PEER");
    screen.shows(&["PEER ▾"]);
}

#[test]
fn dividers_of_every_screen_can_be_dragged() {
    for key in ["0", "1", "2", "3", "4"] {
        let mut screen = Harness::split((160, 45));
        screen.press(&format!("esc {key}"));
        let hits = screen.hits();
        let x = (0..160).find(|x| hits.divider_at(*x, 20) == Some(Divider::Columns)).unwrap();
        screen.take(Event::Grab);
        for by in [-3, 7, 5] {
            screen.take(Event::Drag(Divider::Columns, by));
        }
        let moved = screen.hits();
        let moved = (0..160).find(|x| moved.divider_at(*x, 20) == Some(Divider::Columns));
        assert_eq!(moved, Some(x + 5), "on screen {key}");
        screen.take(Event::Grab);
        screen.take(Event::Drag(Divider::Columns, -5));
        assert_eq!(screen.state.nudge().0[0], 0);
    }
}

#[test]
fn click_chooses_an_output_of_a_result() {
    let mut screen = Harness::split((160, 45));
    let shown = screen.text();
    let (row, line) = shown.lines().enumerate().find(|(_, it)| it.contains("stderr")).unwrap();
    let column = line.split("stderr").next().unwrap().chars().count();
    let (column, row) = (u16::try_from(column).unwrap(), u16::try_from(row).unwrap());
    let target = screen.hits().target_at(column, row);
    assert_eq!(target, Some(Target::Output(Output::Stderr)));
    screen.take(Event::Click(target.unwrap()));
    assert_eq!(screen.state.results().look.output, Some(Output::Stderr));
}
