//! The terminal: taken on opening, given back on every way out.
//!
//! What was switched on is recorded, and switched off again when the screen is closed, stopped by
//! the shell, ended by a signal, or broken by a panic. Each frame is one write between the marks of
//! synchronized output. The terminal is asked one thing, its background, after the first frame;
//! nothing waits for the answer, which comes among the keys, see `replies`.

mod job;
mod pen;

use std::{
    io::{self, Write as _},
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
use ratatui::{buffer::Buffer, layout::Rect};
use tokio::signal::unix::{SignalKind, signal};

use crate::effects::Wish;

/// What is switched on now, a bit for each: there is one terminal, and a panic finds it here.
static SWITCHED_ON: AtomicU8 = AtomicU8::new(0);

/// Whether a panic gave the terminal back.
const LOST: u8 = 1 << 7;
/// Keys come one by one, and are not shown.
const RAW: u8 = 1 << 0;
/// The alternate screen, the hidden cursor, pasted texts and focus.
const SCREEN: u8 = 1 << 1;
/// Clicks and the wheel.
const MOUSE: u8 = 1 << 2;

/// Marks the start of a frame, for terminals that know it.
const FRAME_START: &[u8] = b"\x1b[?2026h";
/// Marks its end.
const FRAME_END: &[u8] = b"\x1b[?2026l";

/// Asks for the background (OSC 11), and then for what every terminal answers, its kind: one that
/// passes over the first question has nothing more to say after the answer to the second.
const QUESTIONS: &[u8] = b"\x1b]11;?\x1b\\\x1b[c";

/// Clicks and the wheel, without the movements between them: those would wake us for nothing.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
/// The opposite.
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";

/// Blanks the screen, in the terminal's own colors.
const BLANK: &[u8] = b"\x1b[m\x1b[2J";

/// The terminal, taken. Dropping it gives it back.
pub(crate) struct Terminal {
    /// What is on the screen.
    shown: Buffer,
    /// The next frame: blank before it is drawn.
    next: Buffer,
    /// Whether the screen may show anything, and is to be blanked first.
    is_unknown: bool,
    has_mouse: bool,
}

impl Terminal {
    /// Takes the terminal, with its mouse if `has_mouse`.
    pub(crate) fn open(has_mouse: bool) -> io::Result<Self> {
        if let Err(error) = switch_on(has_mouse) {
            give_back();
            return Err(error);
        }
        let none = Buffer::empty(Rect::ZERO);
        Ok(Self { shown: none.clone(), next: none, is_unknown: true, has_mouse })
    }

    /// Columns and rows.
    #[expect(clippy::unused_self, reason = "a question to this terminal, of which there is one")]
    pub(crate) fn size(&self) -> (u16, u16) {
        size().unwrap_or((80, 24))
    }

    /// Whether a panic gave the terminal back behind our back.
    #[expect(clippy::unused_self, reason = "a question to this terminal, of which there is one")]
    pub(crate) fn is_lost(&self) -> bool {
        SWITCHED_ON.load(Ordering::SeqCst) & LOST != 0
    }

    /// Draws a frame: one write of the cells that changed, none if there are none.
    pub(crate) fn draw(&mut self, view: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        let (width, height) = self.size();
        let area = Rect::new(0, 0, width, height);
        if area != self.shown.area || self.is_unknown {
            self.is_unknown = true;
            self.shown = Buffer::empty(area);
            self.next = Buffer::empty(area);
        }
        view(area, &mut self.next);
        let mut frame = FRAME_START.to_vec();
        if std::mem::take(&mut self.is_unknown) {
            frame.extend_from_slice(BLANK);
        }
        pen::write(&mut frame, &self.shown, &self.next);
        std::mem::swap(&mut self.shown, &mut self.next);
        self.next.reset();
        if frame.len() == FRAME_START.len() {
            return Ok(());
        }
        frame.extend_from_slice(FRAME_END);
        write_out(&frame)
    }

    /// Whether a frame would change any cell of the last one. Nothing is written.
    pub(crate) fn would_change(&mut self, view: impl FnOnce(Rect, &mut Buffer)) -> bool {
        view(self.next.area, &mut self.next);
        let is_other = self.shown.diff_iter(&self.next).next().is_some();
        self.next.reset();
        is_other
    }

    /// Asks the terminal for its background. The answer, if any, comes among the keys.
    #[expect(clippy::unused_self, reason = "a question to this terminal, of which there is one")]
    pub(crate) fn ask(&mut self) -> io::Result<()> {
        write_out(QUESTIONS)
    }

    /// Does what only the terminal can.
    pub(crate) fn grant(&mut self, wish: &Wish) -> io::Result<()> {
        match wish {
            Wish::Copy(text) => {
                let mut bytes = Vec::new();
                queue!(bytes, CopyToClipboard::to_clipboard_from(text))?;
                write_out(&bytes)
            }
            Wish::CaptureMouse(has_mouse) => {
                self.has_mouse = *has_mouse;
                if *has_mouse {
                    SWITCHED_ON.fetch_or(MOUSE, Ordering::SeqCst);
                    write_out(MOUSE_ON)
                } else {
                    SWITCHED_ON.fetch_and(!MOUSE, Ordering::SeqCst);
                    write_out(MOUSE_OFF)
                }
            }
            Wish::Redraw => {
                self.redraw();
                Ok(())
            }
            Wish::Suspend => {
                give_back();
                job::stop()?;
                self.reopen()
            }
            Wish::Quit | Wish::Page(_) => Ok(()),
        }
    }

    /// Gives the terminal to another program, until [`Self::reopen`].
    #[expect(clippy::unused_self, reason = "of this terminal, of which there is one")]
    pub(crate) fn lend(&mut self) {
        give_back();
    }

    /// Stops this program while another one of its job has the terminal, and stops by itself.
    pub(crate) fn stop_below() -> io::Result<()> {
        job::stop_this()
    }

    /// Takes the terminal again, after the shell had it.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        switch_on(self.has_mouse)?;
        self.redraw();
        Ok(())
    }

    /// Has the next frame write every cell.
    pub(crate) const fn redraw(&mut self) {
        self.is_unknown = true;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Switches everything on, and records it first: half of it on is still to be switched off.
fn switch_on(has_mouse: bool) -> io::Result<()> {
    SWITCHED_ON.fetch_or(RAW, Ordering::SeqCst);
    enable_raw_mode()?;
    SWITCHED_ON.fetch_or(SCREEN, Ordering::SeqCst);
    let mut bytes = Vec::new();
    queue!(bytes, EnterAlternateScreen, Hide, EnableBracketedPaste, EnableFocusChange)?;
    if has_mouse {
        SWITCHED_ON.fetch_or(MOUSE, Ordering::SeqCst);
        bytes.extend_from_slice(MOUSE_ON);
    }
    write_out(&bytes)
}

/// Switches off what is on. What fails is passed over: there may be no terminal any more.
fn give_back() {
    let was_on = SWITCHED_ON.swap(0, Ordering::SeqCst);
    let mut bytes = Vec::new();
    if was_on & MOUSE != 0 {
        bytes.extend_from_slice(MOUSE_OFF);
    }
    if was_on & SCREEN != 0 {
        bytes.extend_from_slice(FRAME_END);
        queue!(bytes, DisableFocusChange, DisableBracketedPaste, LeaveAlternateScreen, Show).ok();
    }
    if !bytes.is_empty() {
        write_out(&bytes).ok();
    }
    if was_on & RAW != 0 {
        disable_raw_mode().ok();
    }
}

/// Gives the terminal back for a panic, before that is told of; whether it was taken.
pub(crate) fn lose() -> bool {
    let was_taken = SWITCHED_ON.load(Ordering::SeqCst) != 0;
    if was_taken {
        give_back();
        SWITCHED_ON.store(LOST, Ordering::SeqCst);
    }
    was_taken
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// A signal the loop has to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End.
    Terminate,
    /// As [`Self::Terminate`], from the keyboard of a terminal that is not in raw mode.
    Interrupt,
    /// Stop until told to carry on.
    Stop,
    /// Carry on after a stop.
    Continue,
}

/// The signals the loop has to know of.
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    stop: tokio::signal::unix::Signal,
    carry_on: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        // Their numbers differ between systems.
        let kind = |signal: rustix::process::Signal| SignalKind::from_raw(signal.as_raw());
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            stop: signal(kind(rustix::process::Signal::TSTP))?,
            carry_on: signal(kind(rustix::process::Signal::CONT))?,
        })
    }

    /// Waits for the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.hang_up.recv() => Signal::Terminate,
            _ = self.stop.recv() => Signal::Stop,
            _ = self.carry_on.recv() => Signal::Continue,
        }
    }
}
