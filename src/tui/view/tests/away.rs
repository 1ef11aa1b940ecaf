//! Services that stop responding or refuse connections. All screens report them with an age.

use super::*;
use crate::event::{DataEvent, StreamEvent};
use crate::harness::nodes;
use crate::state::Dirty;
use crate::state::services::{PROBE_WITHIN, Service};

/// Returns a screen with services that have just responded. The stream of the head is open.
fn running(width: u16, height: u16) -> Harness {
    let mut screen = Harness::ready(width, height);
    screen.take(Event::Cluster(screen.head(), StreamEvent::Connected));
    for service in [Service::Data, Service::Inference] {
        probe(&mut screen, service, Some(Ok(())), Duration::from_millis(2));
    }
    screen.state.notices.clear();
    screen
}

/// Delivers the response to a health check, which took `latency`.
fn probe(
    screen: &mut Harness,
    service: Service,
    response: Option<Result<(), Failure>>,
    latency: Duration,
) {
    screen.take(Event::Probed { service, response, latency });
}

/// Delivers the timeout of a health check of `service`, which last responded 4 s before.
fn hang(screen: &mut Harness, service: Service) {
    screen.pass(Duration::from_secs(4));
    probe(screen, service, None, PROBE_WITHIN);
}

fn services(screen: &Harness) -> [(Service, &'static str); 3] {
    let head = Service::Head(screen.head());
    [(head, "head"), (Service::Data, "data"), (Service::Inference, "infer")]
}

#[test]
fn hung_service_is_shown_on_every_screen_with_a_growing_age() {
    for (width, height) in [(160, 45), (120, 30), (80, 24)] {
        for (service, name) in services(&running(width, height)) {
            let mut screen = running(width, height);
            hang(&mut screen, service);
            let notice = screen.state.notices.iter().last().expect("a notice");
            assert_eq!(notice.text, format!("{name} is not responding"));
            assert_eq!(notice.detail, "last heard at 14:02:32; older values stay");
            for key in ["1", "2", "3", "4", "5", "0"] {
                if screen.state.screen == Screen::Execute {
                    screen.press("esc");
                }
                screen.press(key);
                let shown = screen.text();
                assert!(shown.contains("not responding, 4 s"), "{name} on {key}: {shown}");
                screen.pass(Duration::from_secs(8));
                let shown = screen.text();
                assert!(shown.contains("not responding, 12 s"), "{name} on {key}: {shown}");
                let redraw_after = screen.state.redraw_after().unwrap();
                assert!(redraw_after <= Duration::from_secs(1), "{redraw_after:?}");
                screen.state.now = screen.state.now - Duration::from_secs(8);
            }
        }
    }
}

#[test]
fn nodes_of_a_hung_head_are_not_shown_as_connected() {
    let mut screen = running(160, 45);
    let row = |screen: &Harness| {
        let shown = screen.text();
        shown.lines().find(|line| line.contains("…4qXabc")).unwrap().to_owned()
    };
    assert!(row(&screen).contains("● worker-1"), "{}", row(&screen));
    let head = Service::Head(screen.head());
    hang(&mut screen, head);
    assert!(row(&screen).contains("◌ worker-1"), "{}", row(&screen));
    screen.pass(Duration::from_secs(20));
    assert!(row(&screen).contains(" 25s │"), "{}", row(&screen));
    check("cluster-hung", &screen);
    screen.press("0");
    check("overview-hung", &screen);
}

#[test]
fn nodes_are_marked_as_stale_with_their_age_if_connections_are_refused() {
    let mut screen = running(160, 45);
    let refused = Failure::new("list the nodes", "connection refused", "check the address");
    screen.pass(Duration::from_secs(2));
    screen.take(Event::Nodes(screen.head(), Err(refused), Duration::ZERO));
    screen.pass(Duration::from_secs(10));
    screen.shows(&["head ✗ down 12 s", "◌ worker-1"]);
    screen.hides(&["● worker-1     12D3"]);
}

#[test]
fn timed_out_request_after_a_timed_out_probe_is_not_reported_again() {
    let mut screen = running(160, 45);
    let head = Service::Head(screen.head());
    hang(&mut screen, head);
    let n_notices = screen.state.notices.past().len();
    let timed_out = Failure { is_timeout: true, ..Failure::default() };
    screen.take(Event::Nodes(screen.head(), Err(timed_out), Duration::from_secs(30)));
    probe(&mut screen, head, None, PROBE_WITHIN);
    assert_eq!(screen.state.notices.past().len(), n_notices);
}

#[test]
fn service_that_responds_to_other_requests_is_available_despite_a_timed_out_probe() {
    let mut screen = running(160, 45);
    let head = Service::Head(screen.head());
    screen.pass(Duration::from_secs(3));
    screen.take(Event::Nodes(screen.head(), Ok(nodes()), Duration::from_secs(3)));
    probe(&mut screen, head, None, PROBE_WITHIN);
    screen.shows(&["head ● live"]);
}

#[test]
fn head_that_responds_again_is_shown_as_before() {
    let mut screen = running(160, 45);
    let head = Service::Head(screen.head());
    hang(&mut screen, head);
    screen.pass(Duration::from_secs(16));
    screen.take_effects();
    probe(&mut screen, head, Some(Ok(())), Duration::from_millis(1));
    assert!(screen.text().contains("head ● live"), "its stream is still open: {}", screen.text());
    assert_eq!(screen.state.notices.iter().last().unwrap().text, "head is reachable again");
    screen.take(Event::Nodes(screen.head(), Ok(nodes()), Duration::from_millis(3)));
    screen.shows(&["● worker-1"]);
}

#[test]
fn service_with_a_silent_stream_is_not_shown_as_failed() {
    let mut screen = running(160, 45);
    screen.press("3");
    let why = Failure { is_timeout: true, ..Failure::default() };
    let dataset = model::dataset::DatasetId::new(1).unwrap();
    let news = StreamEvent::Lost { why, retry_in: Duration::from_secs(1) };
    screen.take(Event::Data(DataEvent::Stream { dataset, news }));
    screen.shows(&["data ◉ up"]);
}

#[test]
fn latency_within_the_noise_causes_no_redraw() {
    let mut screen = running(160, 45);
    let before = screen.text();
    for (idx, latency_ms) in [1, 19, 4, 12, 2, 18, 1, 7].into_iter().enumerate() {
        screen.state.dirty = Dirty::Clean;
        probe(&mut screen, Service::Data, Some(Ok(())), Duration::from_millis(latency_ms));
        // With enough samples, their median replaces the first sample.
        let want = if idx == 3 { Dirty::Poll } else { Dirty::Clean };
        assert_eq!(screen.state.dirty, want, "{latency_ms} ms");
    }
    let after = screen.text();
    let differing = before.lines().zip(after.lines()).filter(|(one, other)| one != other);
    assert!(differing.count() <= 1, "only the header may differ");
}
