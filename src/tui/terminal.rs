//! The terminal: taken on opening, given back on every way out.
//!
//! What was switched on is recorded, and switched off again when the screen is closed, stopped by
//! the shell, ended by a signal, or broken by a panic. Each frame is one write between the marks of
//! synchronized output. The terminal is asked one thing, its background, after the first frame;
//! nothing waits for the answer, which comes among the keys, see `replies`.

use std::{
    io::{self, Write},
    sync::{
        Arc, Once,
        atomic::{AtomicU8, Ordering},
    },
};

use crossterm::{
    clipboard::CopyToClipboard,
    cursor::{Hide, Show},
    event::{DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange},
    queue,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use parking_lot::Mutex;
use ratatui::{backend::CrosstermBackend, buffer::Buffer, layout::Rect};
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

/// What ratatui writes, kept until the frame is whole.
#[derive(Debug, Clone, Default)]
struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The terminal, taken. Dropping it gives it back.
pub(crate) struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<Sheet>>,
    sheet: Sheet,
    /// What is written for a frame in which no cell has changed.
    nothing: Vec<u8>,
    has_mouse: bool,
}

impl Terminal {
    /// Takes the terminal, with its mouse if `has_mouse`.
    pub(crate) fn open(has_mouse: bool) -> io::Result<Self> {
        give_back_on_panic();
        let sheet = Sheet::default();
        switch_on(has_mouse)?;
        let inner = ratatui::Terminal::new(CrosstermBackend::new(sheet.clone()));
        // Between two empty buffers there is no difference.
        match inner.and_then(|mut inner| inner.flush().map(|()| inner)) {
            Ok(inner) => {
                let nothing = std::mem::take(&mut *sheet.0.lock());
                Ok(Self { inner, sheet, nothing, has_mouse })
            }
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> (u16, u16) {
        self.inner.size().map_or((80, 24), |size| (size.width, size.height))
    }

    /// Whether a panic gave the terminal back behind our back.
    #[expect(clippy::unused_self, reason = "a question to this terminal, of which there is one")]
    pub(crate) fn is_lost(&self) -> bool {
        SWITCHED_ON.load(Ordering::SeqCst) & LOST != 0
    }

    /// Draws a frame: one write of the cells that changed, none if there are none.
    pub(crate) fn draw(&mut self, view: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        // Not `draw`: that writes about the cursor, which is hidden, however little has changed.
        self.inner.autoresize()?;
        let mut frame = self.inner.get_frame();
        view(frame.area(), frame.buffer_mut());
        self.inner.flush()?;
        self.inner.swap_buffers();
        let mut cells = self.sheet.0.lock();
        if cells.is_empty() || *cells == self.nothing {
            cells.clear();
            return Ok(());
        }
        let mut frame = Vec::with_capacity(cells.len() + FRAME_START.len() + FRAME_END.len());
        frame.extend_from_slice(FRAME_START);
        frame.append(&mut cells);
        frame.extend_from_slice(FRAME_END);
        write_out(&frame)
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
            Wish::Redraw => self.redraw(),
            Wish::Suspend => {
                give_back();
                stop_program()?;
                self.reopen()
            }
            Wish::Quit => Ok(()),
        }
    }

    /// Takes the terminal again, after the shell had it.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        switch_on(self.has_mouse)?;
        self.redraw()
    }

    /// Has the next frame write every cell.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        // Not `clear`: that asks the terminal where its cursor is, and waits for the answer.
        let (width, height) = self.size();
        self.inner.resize(Rect::new(0, 0, width, height))
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

/// Has a panic give the terminal back before it is told of.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if SWITCHED_ON.load(Ordering::SeqCst) != 0 {
                give_back();
                SWITCHED_ON.store(LOST, Ordering::SeqCst);
            }
            tell(panic);
        }));
    });
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Stops the whole job, as `^Z` in a program without a screen does. Returns when it is continued.
fn stop_program() -> io::Result<()> {
    // The shell waits for all processes of the job, `cargo run` among them. Every shell knows `kill`;
    // a program of that name is not on every machine.
    let status = std::process::Command::new("sh").args(["-c", "kill -TSTP 0"]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("kill refused to stop the job")) }
}

/// A signal the loop has to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End.
    Terminate,
    /// Carry on after a stop.
    Continue,
}

/// The signals the loop has to know of.
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    carry_on: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        /// `SIGCONT` on Linux; tokio has no name for it.
        const CONTINUE: i32 = 18;
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            carry_on: signal(SignalKind::from_raw(CONTINUE))?,
        })
    }

    /// Waits for the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Terminate,
            _ = self.hang_up.recv() => Signal::Terminate,
            _ = self.carry_on.recv() => Signal::Continue,
        }
    }
}
