//! Health of the services, as shown in the header of every screen.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use super::{PAINT_WITHIN, READY_WITHIN, SHOWN_WITHIN, wait_gone};
use crate::support::TUI;
use crate::support::cluster::Node;
use crate::support::command::Home;
use crate::support::datasets::Service;
use crate::support::process::Signal;
use crate::support::pty::{Place, Session};

/// Keys that open the screens.
const SCREENS: [&str; 6] = ["1", "2", "3", "4", "5", "0"];

#[test]
fn killed_service_is_shown_on_every_screen() {
    let mut service = Service::start();
    let address = service.address();
    let environment = [("TRIPTYCH_API_KEY", service.key())];
    let place = Place { environment: &environment, ..Place::default() };
    let session = Session::start_in(&place, TUI, &["--datasets", &address]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session.wait_text("data ◉ up", SHOWN_WITHIN);
    for key in SCREENS {
        session.press(key);
        service.kill();
        session.wait_text("data ✗ down", SHOWN_WITHIN);
        service.start_again();
        session.wait_text("data ◉ up", SHOWN_WITHIN);
    }
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
}

#[test]
fn halted_services_are_shown_on_every_screen_with_a_growing_age() {
    let service = Service::start();
    let head = Node::head(&[]);
    let (api, address) = (head.rest_api(), service.address());
    let environment = [("TRIPTYCH_API_KEY", service.key())];
    let place = Place { environment: &environment, ..Place::default() };
    let session = Session::start_in(&place, TUI, &["--head", &api, "--datasets", &address]);
    session.wait_text("head ● live", SHOWN_WITHIN);
    session.wait_text("data ◉ up", SHOWN_WITHIN);
    for key in SCREENS {
        session.press(key);
        service.signal(Signal::Halt);
        head.signal(Signal::Halt);
        session.wait_text("data ! not responding, ", SHOWN_WITHIN);
        session.wait_text("head ! not responding, ", SHOWN_WITHIN);
        if key == SCREENS[0] {
            session.wait_text("not responding, 11 s", SHOWN_WITHIN);
        }
        service.signal(Signal::Continue);
        head.signal(Signal::Continue);
        session.wait_text("data ◉ up", SHOWN_WITHIN);
        session.wait_text("head ● live", SHOWN_WITHIN);
    }
}

#[test]
fn service_that_refuses_the_api_key_is_not_shown_as_down() {
    let service = Service::start();
    let address = service.address();
    let environment = [("TRIPTYCH_API_KEY", "UP-000000000000000000000000")];
    let place = Place { environment: &environment, ..Place::default() };
    let session = Session::start_in(&place, TUI, &["--datasets", &address]);
    session.wait_text("data ⊘ refused · P", SHOWN_WITHIN);
}

/// Offset of the format number, `user_version`, in an SQLite file.
const VERSION_AT: u64 = 60;

/// Checks that the screen reports that the file `name` of the local stack has an unknown format.
#[track_caller]
fn check_other_format(name: &str) {
    let place = Place::default();
    let folder = place.home.path().join("data/triptych/stack");
    let written = Home::new();
    written.run_ok(&["keys", "create", "it", "--data-dir", &folder.display().to_string()]);
    let path = folder.join(name);
    fs::rename(folder.join("accounts.db"), &path).unwrap();
    // Otherwise, the tables would be read from the write-ahead log instead of the file. The command may
    // have removed the log already.
    for log in ["accounts.db-wal", "accounts.db-shm"] {
        fs::remove_file(folder.join(log)).ok();
    }
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&99_u32.to_be_bytes(), VERSION_AT).unwrap();

    let session = Session::start_in(&place, TUI, &[]);
    let shown = session.wait_text("failed to start the local stack", READY_WITHIN);
    // The path may wrap anywhere, so the lines of the left panes are joined.
    let left = shown.lines().filter_map(|line| line.split('│').nth(1));
    let left = left.collect::<String>().replace(' ', "");
    for wanted in [&*path.display().to_string(), "99", "restorethebackupmadebefore"] {
        assert!(left.contains(wanted), "{wanted} in {shown}");
    }
    for (key, shown) in [("5", "╭─ Logs"), ("1", "╭─ Nodes"), ("?", "╭─ Keys")] {
        session.press(key);
        session.wait_text(shown, SHOWN_WITHIN);
    }
    session.press("esc");
    wait_gone(&session, "╭─ Keys");
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
}

#[test]
fn store_file_of_another_format_is_reported_on_a_usable_screen() {
    check_other_format("accounts.db");
    check_other_format("datasets.db");
    check_other_format("inference.db");
}
