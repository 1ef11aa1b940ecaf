//! The terminal: prepared when the screen opens, and restored however the screen ends.
//!
//! The modes of the screen are switched off when it is closed, stopped by the shell, or terminated
//! by a signal or a panic. Frames are encoded by ratatui's [`CrosstermBackend`] and written in one
//! piece. The query for the background color is sent after the first frame. The reply arrives
//! among the keys, see `replies`.

use std::backtrace::Backtrace;
use std::io::{self, Write as _, stdout};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{mem, panic};

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange,
};
use crossterm::queue;
use crossterm::style::ResetColor;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use futures::stream::{BoxStream, StreamExt as _, poll_fn, select_all};
use model::escape::escape_line;
use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::prelude::*;
use rustix::process::{self, Pid, WaitId, WaitIdOptions, getpid, kill_process, waitid};
use task::file::{FileMode, write_atomic};
use tokio::signal::unix::{SignalKind, signal};

use crate::event::Effect;

/// True while the modes of the screen are on. It is static, so that a panic hook can access it.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// True if a panic hook has switched off the modes of the screen.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Name of the file with the report of a panic. A report replaces the previous report.
const REPORT_FILE: &str = "panic.txt";

/// Queries the background color (OSC 11), then the primary device attributes. Every terminal
/// replies to the second query, and replies arrive in the order of the queries. If there is no
/// earlier reply, the terminal does not report its background color.
const BACKGROUND_QUERY: &[u8] = b"\x1b]11;?\x1b\\\x1b[c";

/// Requests reports of clicks, the mouse wheel, and movements while a button is pressed.
/// crossterm's `EnableMouseCapture` also requests reports of all other movements, which would wake
/// the event loop.
const MOUSE_ON: &[u8] = b"\x1b[?1002h\x1b[?1006h";
/// Sequence that reverts [`MOUSE_ON`].
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1002l";

/// A signal that the event loop handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// `SIGTERM`, or another signal that ends a program: the program must exit.
    Terminate,
    /// `SIGINT`, sent by the terminal while a pager uses it.
    Interrupt,
    /// `SIGTSTP`: the job must stop until the shell continues it.
    Stop,
    /// `SIGCONT`: the shell has continued the job.
    Continue,
}

/// The terminal in the modes of the screen. Dropping it restores the previous modes.
pub(crate) struct Tui {
    /// Content of the terminal after the last frame.
    shown: Buffer,
    /// Content of the next frame. It is reused, so that a frame allocates no buffer.
    next: Buffer,
    /// True if the next frame must clear the terminal first.
    must_clear: bool,
    has_mouse: bool,
}

impl Tui {
    /// Switches on the modes of the screen. If `has_mouse` is true, mouse events are reported.
    pub(crate) fn enter(has_mouse: bool) -> io::Result<Self> {
        let (shown, next) = (Buffer::default(), Buffer::default());
        let mut tui = Self { shown, next, must_clear: true, has_mouse };
        // If this fails, dropping `tui` switches off the modes that are already on.
        tui.reenter()?;
        Ok(tui)
    }

    /// Returns the number of columns and rows.
    pub(crate) fn size(&self) -> (u16, u16) {
        self.shown.area.as_size().into()
    }

    /// Returns true if a panic hook has switched off the modes of the screen.
    pub(crate) fn is_lost() -> bool {
        IS_LOST.load(Ordering::SeqCst)
    }

    /// Returns the content of the terminal after the last frame.
    pub(crate) const fn frame(&self) -> &Buffer {
        &self.shown
    }

    /// Draws a frame. All changed cells are written together. If no cell has changed, nothing is
    /// written. Returns the output.
    pub(crate) fn draw(&mut self, view: impl FnOnce(Rect, &mut Buffer)) -> io::Result<Vec<u8>> {
        if terminal_size() != self.size() {
            self.redraw();
        }
        self.next.resize(self.shown.area);
        self.next.reset();
        view(self.next.area, &mut self.next);
        let mut bytes = Vec::new();
        if self.shown.diff_iter(&self.next).next().is_some() {
            queue!(bytes, BeginSynchronizedUpdate)?;
            if mem::take(&mut self.must_clear) {
                queue!(bytes, ResetColor, Clear(ClearType::All))?;
            }
            CrosstermBackend::new(&mut bytes).draw(self.shown.diff_iter(&self.next))?;
            queue!(bytes, EndSynchronizedUpdate)?;
            mem::swap(&mut self.shown, &mut self.next);
        }
        write_out(&bytes)?;
        Ok(bytes)
    }

    /// Queries the background color of the terminal. If the terminal replies, the reply arrives
    /// among the keys.
    pub(crate) fn query_background() -> io::Result<()> {
        write_out(BACKGROUND_QUERY)
    }

    /// Performs an effect that concerns the terminal.
    pub(crate) fn perform(&mut self, effect: &Effect) -> io::Result<()> {
        match effect {
            Effect::NotifyTerminal(text) => write_out(&notification(text)),
            Effect::CopyToTerminal(text) => {
                let mut bytes = Vec::new();
                queue!(bytes, CopyToClipboard::to_clipboard_from(text))?;
                write_out(&bytes)
            }
            Effect::CaptureMouse(has_mouse) => {
                self.has_mouse = *has_mouse;
                write_out(if *has_mouse { MOUSE_ON } else { MOUSE_OFF })
            }
            Effect::Redraw => {
                self.redraw();
                Ok(())
            }
            Effect::Suspend => {
                switch_off();
                stop_job()?;
                self.reenter()
            }
            _ => Ok(()),
        }
    }

    /// Switches on the modes of the screen again, after [`switch_off`] or a stop by the shell.
    pub(crate) fn reenter(&mut self) -> io::Result<()> {
        switch_on(self.has_mouse)?;
        self.redraw();
        Ok(())
    }

    /// Requests that the next frame clears the terminal and writes all cells. The terminal shows
    /// both changes together.
    pub(crate) fn redraw(&mut self) {
        let (width, height) = terminal_size();
        self.shown = Buffer::empty(Rect::new(0, 0, width, height));
        self.must_clear = true;
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        switch_off();
    }
}

/// Returns the size of the terminal. If unknown, returns the size of a VT100.
pub(crate) fn terminal_size() -> (u16, u16) {
    size().unwrap_or((80, 24))
}

/// Switches on the modes of the screen.
fn switch_on(has_mouse: bool) -> io::Result<()> {
    // Set first: if switching on fails halfway, all modes must be switched off.
    IS_ON.store(true, Ordering::SeqCst);
    // A shell resets the terminal after `SIGSTOP`. `enable_raw_mode` does nothing if it has not been
    // disabled since.
    disable_raw_mode()?;
    enable_raw_mode()?;
    let mut bytes = Vec::new();
    queue!(bytes, EnterAlternateScreen, Hide, EnableBracketedPaste, EnableFocusChange)?;
    if has_mouse {
        bytes.extend_from_slice(MOUSE_ON);
    }
    write_out(&bytes)
}

/// Switches off the modes of the screen. Returns false if they were off already. Failures are
/// ignored, since the terminal may be closed.
pub(crate) fn switch_off() -> bool {
    let was_on = IS_ON.swap(false, Ordering::SeqCst);
    if was_on {
        let mut bytes = MOUSE_OFF.to_vec();
        queue!(bytes, EndSynchronizedUpdate, ResetColor, DisableFocusChange).ok();
        queue!(bytes, DisableBracketedPaste, LeaveAlternateScreen, Show).ok();
        write_out(&bytes).ok();
        disable_raw_mode().ok();
    }
    was_on
}

/// Installs a panic hook. It writes a report to `folder`, switches off the modes of the screen,
/// and prints the path of the report.
pub(crate) fn watch_panics(folder: Option<PathBuf>) {
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let report = folder.as_ref().and_then(|folder| {
            let path = folder.join(REPORT_FILE);
            let message = panic.payload_as_str().unwrap_or("no message");
            let place = panic.location().map(|place| format!(", at {place}")).unwrap_or_default();
            let (version, trace) = (env!("CARGO_PKG_VERSION"), Backtrace::force_capture());
            let text = format!("triptych {version}\n{message}{place}\n\n{trace}\n");
            write_atomic(&path, text.as_bytes(), FileMode::Private).ok().map(|()| path)
        });
        let was_open = switch_off();
        IS_LOST.fetch_or(was_open, Ordering::SeqCst);
        default_hook(panic);
        if let (true, Some(path)) = (was_open, report) {
            drop(writeln!(io::stderr(), "triptych: the report is in {}", path.display()));
        }
    }));
}

/// Returns the bytes that ring the bell and display `text` as a desktop notification. rxvt and terminals
/// based on the library VTE use OSC 777, other terminals OSC 9.
fn notification(text: &str) -> Vec<u8> {
    let is_set = |name| std::env::var_os(name).is_some();
    let is_rxvt = std::env::var("TERM").is_ok_and(|term| term.starts_with("rxvt"));
    let text = escape_line(text);
    let sequence = if is_set("VTE_VERSION") || is_rxvt {
        format!("\x1b]777;notify;Triptych;{text}\x1b\\\x07")
    } else {
        format!("\x1b]9;{text}\x1b\\\x07")
    };
    sequence.into_bytes()
}

/// Writes `bytes` to the terminal and flushes. Does nothing if `bytes` is empty.
fn write_out(bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Installs the signal handlers. Returns the stream of received signals.
pub(crate) fn signals() -> io::Result<BoxStream<'static, Signal>> {
    // The numbers of these signals differ between operating systems.
    let kind = |signal: process::Signal| SignalKind::from_raw(signal.as_raw());
    let kinds = [
        (SignalKind::terminate(), Signal::Terminate),
        (SignalKind::hangup(), Signal::Terminate),
        (SignalKind::quit(), Signal::Terminate),
        (SignalKind::alarm(), Signal::Terminate),
        (SignalKind::user_defined1(), Signal::Terminate),
        (SignalKind::user_defined2(), Signal::Terminate),
        (SignalKind::interrupt(), Signal::Interrupt),
        (kind(process::Signal::TSTP), Signal::Stop),
        (kind(process::Signal::CONT), Signal::Continue),
    ];
    let streams = kinds.map(|(kind, name)| {
        let mut signals = signal(kind)?;
        Ok(poll_fn(move |context| signals.poll_recv(context).map(|it| it.map(|()| name))))
    });
    Ok(select_all(streams.into_iter().collect::<io::Result<Vec<_>>>()?).boxed())
}

/// Stops this process, but not the other processes of the job, such as a pager, which stop themselves.
/// Returns after this process is continued.
pub(crate) fn stop_process() -> io::Result<()> {
    Ok(kill_process(getpid(), process::Signal::STOP)?)
}

/// Stops all processes of the job, including this process. Returns after the job is continued. Returns
/// immediately if there is no shell that could continue it.
///
/// The modes of the screen must be off before the call, since the shell uses the terminal while
/// the job is stopped.
fn stop_job() -> io::Result<()> {
    // The shell waits for all processes of the job, such as `cargo run`, so all of them are
    // stopped. The shell `sh` sends the signal, since not every machine has a program called
    // `kill`. The signal does not stop this process, which handles it, but it stops the child,
    // unless there is no shell that could continue the job.
    let mut child = Command::new("sh").args(["-c", "kill -TSTP 0"]).spawn()?;
    let pid = Pid::from_child(&child);
    let states = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), states))?;
    if status.is_some_and(|status| status.stopped()) {
        stop_process()?;
        // The child is continued separately, since a signal to this process alone does not reach
        // it.
        kill_process(pid, process::Signal::CONT)?;
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("kill failed to stop the job")) }
}
