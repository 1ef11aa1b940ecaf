//! Panic handling: writes a report, and catches panics while a frame is drawn.
//!
//! Drawing does not change the state, so the screen can continue without the part that panicked. Any
//! other panic restores the terminal, prints the path of the report and exits the program.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};

use task::file::{FileMode, write_atomic};

use crate::terminal;

/// File name of the report. A new report replaces the previous one.
const REPORT_FILE: &str = "panic.txt";

/// Directory of the report, for the panic hook.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

thread_local! {
    /// True if a panic of this thread is caught.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Text of the last caught panic.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Installs the panic hook that writes reports to `folder`.
pub(crate) fn watch(folder: Option<&Path>) {
    static ONCE: Once = Once::new();
    if let Some(folder) = folder {
        FOLDER.get_or_init(|| folder.to_owned());
    }
    ONCE.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let report = report(panic);
            if IS_GUARDED.get() {
                LAST.set(first_line(panic));
                return;
            }
            let was_taken = terminal::leave_for_panic();
            default_hook(panic);
            if let (true, Some(path)) = (was_taken, report) {
                drop(writeln!(io::stderr(), "triptych: the report is in {}", path.display()));
            }
        }));
    });
}

/// Calls `draw`. Returns the text of a panic in it as an error.
pub(crate) fn guarded<T>(draw: impl FnOnce() -> T) -> Result<T, String> {
    IS_GUARDED.set(true);
    // The buffer is drawn again, everything else is only read.
    let drawn = catch_unwind(AssertUnwindSafe(draw));
    IS_GUARDED.set(false);
    drawn.map_err(|_| LAST.take())
}

/// Returns the path of the report.
pub(crate) fn report_path() -> Option<PathBuf> {
    FOLDER.get().map(|folder| folder.join(REPORT_FILE))
}

/// Writes the report of a panic. Returns its path, or `None` on failure.
fn report(panic: &PanicHookInfo<'_>) -> Option<PathBuf> {
    let path = report_path()?;
    let version = env!("CARGO_PKG_VERSION");
    let trace = Backtrace::force_capture();
    let text = format!("triptych {version}\n{}\n\n{trace}\n", first_line(panic));
    write_atomic(&path, text.as_bytes(), FileMode::Private).ok()?;
    Some(path)
}

/// Returns message and place: `index out of bounds, at src/tui/view.rs:12:5`.
fn first_line(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("no message");
    match panic.location() {
        Some(place) => format!("{message}, at {place}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_while_drawing_is_caught_with_its_text() {
        watch(None);
        assert_eq!(guarded(|| 3), Ok(3));
        let broken = guarded(|| panic!("no room")).unwrap_err();
        assert!(broken.starts_with("no room, at ") && broken.contains("guard.rs:"), "{broken}");
        assert_eq!(guarded(|| 4), Ok(4));
    }
}
