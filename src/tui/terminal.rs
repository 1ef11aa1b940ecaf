//! The terminal: entered on opening, left on every way out.
//!
//! Each mode that is switched on is recorded, and switched off again when the screen is closed,
//! stopped by the shell, ended by a signal or broken by a panic. Drawing is ratatui's, over a
//! backend that writes each frame at once, see [`ansi`]. The terminal is asked for its background
//! after the first frame; nothing waits for the answer, which arrives among the keys, see
//! `replies`.

mod ansi;
#[cfg_attr(not(unix), path = "terminal/job_elsewhere.rs")]
mod job;
#[cfg_attr(not(unix), path = "terminal/signals_elsewhere.rs")]
mod signals;

use std::{
    io::{self, Stdout, Write as _, stdout},
    sync::atomic::{AtomicU8, Ordering},
};

use crossterm::{
    clipboard::CopyToClipboard,
    cursor::{Hide, Show},
    event::{DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange},
    queue,
    terminal::{
        EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
    },
};
use ratatui::{
    Terminal,
    buffer::Buffer,
    layout::{Rect, Size},
};

use self::ansi::{AnsiBackend, FRAME_END, RESET_LOOK};
pub(crate) use self::signals::Signals;
use crate::event::Effect;

/// The modes that are on, a bit for each: there is one terminal, and a panic hook finds it here.
static MODES_ON: AtomicU8 = AtomicU8::new(0);

/// Set once a panic hook has left the terminal.
const LOST: u8 = 1 << 7;
/// Raw mode: keys come one by one and are not echoed.
const RAW: u8 = 1 << 0;
/// The alternate screen, the hidden cursor, bracketed paste and focus events.
const SCREEN: u8 = 1 << 1;
/// Clicks and the wheel.
const MOUSE: u8 = 1 << 2;

/// Asks for the background (OSC 11), then for the primary device attributes, which every terminal
/// answers: one that ignores the first question has nothing more to send after that answer.
const BACKGROUND_QUERY: &[u8] = b"\x1b]11;?\x1b\\\x1b[c";

/// Reports clicks, the wheel, and movements while a button is pressed. Other movements would wake us
/// for nothing.
const MOUSE_ON: &[u8] = b"\x1b[?1002h\x1b[?1006h";
/// Ends what [`MOUSE_ON`] starts.
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1002l";

/// A signal that the event loop handles.
#[cfg_attr(not(unix), expect(dead_code, reason = "an interrupt is the only one"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// `SIGTERM` or `SIGHUP`: end the program.
    Terminate,
    /// `SIGINT`, from the keyboard of a terminal that is not in raw mode.
    Interrupt,
    /// `SIGTSTP`: stop until continued.
    Stop,
    /// `SIGCONT`: go on after a stop.
    Continue,
}

/// The terminal in the modes that the screen needs. Dropping it restores the modes of before.
pub(crate) struct Tui {
    terminal: Terminal<AnsiBackend<Stdout>>,
    has_mouse: bool,
}

impl Tui {
    /// Enters the screen, with clicks and the wheel reported if `has_mouse`.
    pub(crate) fn enter(has_mouse: bool) -> io::Result<Self> {
        let enter = || {
            switch_on(has_mouse)?;
            let mut terminal = Terminal::new(AnsiBackend::new(stdout(), terminal_size))?;
            terminal.clear()?;
            Ok(Self { terminal, has_mouse })
        };
        enter().inspect_err(|_| switch_off())
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> (u16, u16) {
        self.terminal.size().unwrap_or_else(|_| terminal_size()).into()
    }

    /// Whether a panic hook has left the terminal.
    pub(crate) fn is_lost() -> bool {
        MODES_ON.load(Ordering::SeqCst) & LOST != 0
    }

    /// Draws a frame: one write of the cells that changed, none if none did.
    pub(crate) fn draw(&mut self, view: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| view(frame.area(), frame.buffer_mut())).map(drop)
    }

    /// Whether a frame would change any cell of the last one. Writes nothing.
    pub(crate) fn would_change(&mut self, view: impl FnOnce(Rect, &mut Buffer)) -> bool {
        let mut drawn = std::mem::take(self.terminal.current_buffer_mut());
        view(drawn.area, &mut drawn);
        let shown = self.terminal.backend().screen();
        let has_changed = shown.area != drawn.area || shown.diff_iter(&drawn).next().is_some();
        drawn.reset();
        *self.terminal.current_buffer_mut() = drawn;
        has_changed
    }

    /// Asks the terminal for its background. The answer, if any, arrives among the keys.
    pub(crate) fn query_background() -> io::Result<()> {
        write_out(BACKGROUND_QUERY)
    }

    /// Performs what only the terminal can.
    pub(crate) fn perform(&mut self, effect: &Effect) -> io::Result<()> {
        match effect {
            Effect::CopyToTerminal(text) => {
                let mut bytes = Vec::new();
                queue!(bytes, CopyToClipboard::to_clipboard_from(text))?;
                write_out(&bytes)
            }
            Effect::CaptureMouse(has_mouse) => {
                self.has_mouse = *has_mouse;
                if *has_mouse {
                    MODES_ON.fetch_or(MOUSE, Ordering::SeqCst);
                    write_out(MOUSE_ON)
                } else {
                    MODES_ON.fetch_and(!MOUSE, Ordering::SeqCst);
                    write_out(MOUSE_OFF)
                }
            }
            Effect::Redraw => self.redraw(),
            Effect::Suspend => {
                switch_off();
                job::stop()?;
                self.reenter()
            }
            _ => Ok(()),
        }
    }

    /// Stops this process while a pager of the same job, which stops by itself, has the terminal.
    pub(crate) fn stop_beside_pager() -> io::Result<()> {
        job::stop_this()
    }

    /// Enters the screen again after [`Self::leave`] or a stop by the shell.
    pub(crate) fn reenter(&mut self) -> io::Result<()> {
        switch_on(self.has_mouse)?;
        self.redraw()
    }

    /// Has the next frame write every cell.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        switch_off();
    }
}

/// The size of the terminal; that of a VT100 where none is known.
fn terminal_size() -> Size {
    size().unwrap_or((80, 24)).into()
}

/// Switches all modes on. Records each first: one that is half on is still to be switched off.
fn switch_on(has_mouse: bool) -> io::Result<()> {
    MODES_ON.fetch_or(RAW, Ordering::SeqCst);
    enable_raw_mode()?;
    MODES_ON.fetch_or(SCREEN, Ordering::SeqCst);
    let mut bytes = Vec::new();
    queue!(bytes, EnterAlternateScreen, Hide, EnableBracketedPaste, EnableFocusChange)?;
    if has_mouse {
        MODES_ON.fetch_or(MOUSE, Ordering::SeqCst);
        bytes.extend_from_slice(MOUSE_ON);
    }
    write_out(&bytes)
}

/// Switches off the modes that are on. Ignores failures: there may be no terminal any more.
pub(crate) fn switch_off() {
    let modes = MODES_ON.swap(0, Ordering::SeqCst);
    let mut bytes = Vec::new();
    if modes & MOUSE != 0 {
        bytes.extend_from_slice(MOUSE_OFF);
    }
    if modes & SCREEN != 0 {
        bytes.extend_from_slice(FRAME_END);
        bytes.extend_from_slice(RESET_LOOK);
        queue!(bytes, DisableFocusChange, DisableBracketedPaste, LeaveAlternateScreen, Show).ok();
    }
    if !bytes.is_empty() {
        write_out(&bytes).ok();
    }
    if modes & RAW != 0 {
        disable_raw_mode().ok();
    }
}

/// Leaves the terminal for a panic hook, before that prints; returns whether the screen was open.
pub(crate) fn leave_for_panic() -> bool {
    let was_open = MODES_ON.load(Ordering::SeqCst) != 0;
    if was_open {
        switch_off();
        MODES_ON.store(LOST, Ordering::SeqCst);
    }
    was_open
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
