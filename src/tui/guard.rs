//! Panics: kept in a report, and, while a frame is drawn, kept from the rest of the program.
//!
//! A mistake in drawing leaves the state as it was, so that the screen may go on without the part
//! that broke. Any other panic gives the terminal back, says where its report is, and ends the
//! program.

use std::{
    backtrace::Backtrace,
    cell::{Cell, RefCell},
    io::{self, Write as _},
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind},
    path::{Path, PathBuf},
    sync::{Once, OnceLock},
};

use task::file::{FileMode, write_atomic};

use crate::terminal;

/// The name of the report in its folder. There is one: the newest tells the most.
const REPORT_FILE: &str = "panic.txt";

/// The folder of the report. A panic finds it here.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

thread_local! {
    /// Whether a panic of this thread is caught.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    /// The text of the last one.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Installs the panic hook that writes reports to `folder`.
pub(crate) fn watch(folder: Option<&Path>) {
    static ONCE: Once = Once::new();
    if let Some(folder) = folder {
        FOLDER.get_or_init(|| folder.to_owned());
    }
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let report = report(panic);
            if IS_GUARDED.get() {
                LAST.set(first_line(panic));
                return;
            }
            let was_taken = terminal::leave_for_panic();
            tell(panic);
            if let (true, Some(path)) = (was_taken, report) {
                drop(writeln!(io::stderr(), "triptych: the report is in {}", path.display()));
            }
        }));
    });
}

/// Draws; returns the text of a panic in it.
pub(crate) fn guarded<T>(draw: impl FnOnce() -> T) -> Result<T, String> {
    IS_GUARDED.set(true);
    // Its buffer is drawn again, and it only reads the rest.
    let drawn = catch_unwind(AssertUnwindSafe(draw));
    IS_GUARDED.set(false);
    drawn.map_err(|_| LAST.take())
}

/// Where the report of a panic is.
pub(crate) fn report_path() -> Option<PathBuf> {
    FOLDER.get().map(|folder| folder.join(REPORT_FILE))
}

/// Writes what is known of a panic; returns where, if that went well.
fn report(panic: &PanicHookInfo<'_>) -> Option<PathBuf> {
    let path = report_path()?;
    let version = env!("CARGO_PKG_VERSION");
    let trace = Backtrace::force_capture();
    let text = format!("triptych {version}\n{}\n\n{trace}\n", first_line(panic));
    // While the program breaks there is nobody to tell of a file that cannot be written.
    write_atomic(&path, text.as_bytes(), FileMode::Private).ok()?;
    Some(path)
}

/// What it said, and where: `index out of bounds, at src/tui/view.rs:12:5`.
fn first_line(panic: &PanicHookInfo<'_>) -> String {
    let said = panic.payload_as_str().unwrap_or("no words");
    match panic.location() {
        Some(place) => format!("{said}, at {place}"),
        None => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_drawing_is_caught_with_its_text() {
        watch(None);
        assert_eq!(guarded(|| 3), Ok(3));
        let broken = guarded(|| panic!("no room")).unwrap_err();
        assert!(broken.starts_with("no room, at ") && broken.contains("guard.rs:"), "{broken}");
        assert_eq!(guarded(|| 4), Ok(4));
    }
}
