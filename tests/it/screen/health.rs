//! The health of the services in the header: true on every screen within five seconds.

use std::time::Duration;

use super::{PAINT_WITHIN, SHOWN_WITHIN};
use crate::support::{
    TUI,
    datasets::Service,
    pty::{Place, Session},
};

/// How long a service may be gone before every screen says so.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// The keys of the screens.
const SCREENS: [&str; 6] = ["1", "2", "3", "4", "5", "0"];

#[test]
fn a_killed_service_is_seen_on_every_screen() {
    let mut service = Service::start();
    let address = service.address();
    let environment = [("TRIPTYCH_API_KEY", service.key())];
    let place = Place { environment: &environment, ..Place::default() };
    let session = Session::start_in(&place, TUI, &["--datasets", &address]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session.wait_text("data ◉ idle", SHOWN_WITHIN);
    for key in SCREENS {
        session.press(key);
        service.kill();
        session.wait_text("data ✗ down", SEEN_WITHIN);
        service.start_again();
        session.wait_text("data ◉ idle", SHOWN_WITHIN);
    }
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
}

#[test]
fn a_refused_key_is_told_from_a_service_that_is_down() {
    let service = Service::start();
    let address = service.address();
    let environment = [("TRIPTYCH_API_KEY", "UP-000000000000000000000000")];
    let place = Place { environment: &environment, ..Place::default() };
    let session = Session::start_in(&place, TUI, &["--datasets", &address]);
    session.wait_text("data ⊘ refused · P", SHOWN_WITHIN);
}
