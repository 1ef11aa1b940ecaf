//! The program in a terminal: a pseudoterminal (pty), an emulated screen and keys.
//!
//! A thread feeds the program's output to the screen and wakes waiting callers. The thread also replies
//! to the program's queries (cursor position, device attributes, background color). Synchronized
//! frames (mode 2026) are examined only when they are complete.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use portable_pty::{CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use tempfile::TempDir;
use tokio::time::Instant;
use vt100::{MouseProtocolMode, Screen};

use crate::support::process::{self, Signal};
use crate::support::{CACHE, wait};

/// Size for which the screens are designed.
pub(crate) const WIDE: (u16, u16) = (160, 45);

/// Reply of a terminal that has the background of the dark theme.
const DARK: &[u8] = b"\x1b]11;rgb:1111/1313/1a1a\x1b\\";

/// Reply of a terminal that has the background of the light theme.
pub(crate) const LIGHT: &[u8] = b"\x1b]11;rgb:fbfb/fbfb/fdfd\x1b\\";

/// Reply with the device attributes of a VT220 with ANSI color.
const DEVICE: &[u8] = b"\x1b[?62;22c";

/// Size of the read buffer, enough for a frame of a large screen.
const CHUNK_BYTES: usize = 64 * 1024;

/// Maximum time to wait for the exit of the program's children after a failed test.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(5);

/// A program in its own terminal and home directory.
pub(crate) struct Session {
    /// Process id.
    pub(crate) pid: u32,
    shared: Arc<Shared>,
    writer: Arc<Mutex<Box<dyn Write + Send>>>,
    master: Box<dyn MasterPty + Send>,
    // Home directory. Dropped last, since the program writes to it.
    home: Arc<TempDir>,
}

/// Terminal, environment and home directory in which a program is started.
#[derive(Clone)]
pub(crate) struct Place<'a> {
    /// Number of columns and of rows.
    pub(crate) size: (u16, u16),
    /// Environment variables in addition to the variables of a fresh machine.
    pub(crate) environment: &'a [(&'a str, &'a str)],
    /// Reply to the query of the background color. `None` if the terminal does not reply to this query.
    pub(crate) background: Option<&'static [u8]>,
    /// Home directory, which may contain files of earlier sessions.
    pub(crate) home: Arc<TempDir>,
}

impl Default for Place<'_> {
    fn default() -> Self {
        let home = Arc::new(TempDir::new().unwrap());
        Self { size: WIDE, environment: &[], background: Some(DARK), home }
    }
}

impl Place<'_> {
    /// Writes a configuration file to the home directory.
    pub(crate) fn with_config(self, text: &str) -> Self {
        let folder = self.home.path().join("config/triptych");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), text).unwrap();
        self
    }
}

struct Shared {
    terminal: Mutex<Terminal>,
    changed: Condvar,
}

struct Terminal {
    parser: vt100::Parser<Replies>,
    /// Everything that the program wrote.
    bytes: Vec<u8>,
    /// Length of `bytes` after each read, and the time of the read.
    reads: Vec<(usize, Instant)>,
    exit: Option<ExitStatus>,
    is_closed: bool,
}

/// State from which the program's queries are answered.
#[derive(Default)]
struct Replies {
    background: Option<&'static [u8]>,
    pending: Vec<u8>,
    /// True while a synchronized frame is incomplete.
    is_in_frame: bool,
}

impl vt100::Callbacks for Replies {
    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        first: Option<u8>,
        _second: Option<u8>,
        parameters: &[&[u16]],
        letter: char,
    ) {
        let parameter = parameters.first().and_then(|values| values.first()).copied();
        match (first, parameter, letter) {
            (None, Some(6), 'n') => {
                let (row, column) = screen.cursor_position();
                self.pending.extend(format!("\x1b[{};{}R", row + 1, column + 1).bytes());
            }
            (None, None | Some(0), 'c') => self.pending.extend(DEVICE),
            (Some(b'?'), Some(2026), 'h') => self.is_in_frame = true,
            (Some(b'?'), Some(2026), 'l') => self.is_in_frame = false,
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut Screen, parameters: &[&[u8]]) {
        if parameters == [b"11".as_slice(), b"?"] {
            self.pending.extend(self.background.unwrap_or_default());
        }
    }
}

impl Session {
    /// Starts `program` with `arguments` in a terminal of `size`, given as columns and rows.
    pub(crate) fn start(program: &str, arguments: &[&str], size: (u16, u16)) -> Self {
        Self::start_with(program, arguments, size, &[])
    }

    /// Like [`Self::start`], with additional environment variables.
    pub(crate) fn start_with(
        program: &str,
        arguments: &[&str],
        size: (u16, u16),
        environment: &[(&str, &str)],
    ) -> Self {
        Self::start_in(&Place { size, environment, ..Place::default() }, program, arguments)
    }

    /// Starts `program` with `arguments` in `place`.
    pub(crate) fn start_in(place: &Place<'_>, program: &str, arguments: &[&str]) -> Self {
        let Place { size, environment, background, home } = place.clone();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env_clear();
        for (name, value) in clean_environment(&home) {
            command.env(name, value);
        }
        for (name, value) in environment {
            command.env(name, value);
        }
        command.cwd(home.path());

        let pair = native_pty_system().openpty(pty_size(size)).unwrap();
        let mut child = pair.slave.spawn_command(command).unwrap();
        // The pty would stay open while this process has a copy of the program's end.
        drop(pair.slave);
        let reader = pair.master.try_clone_reader().unwrap();
        let writer = Arc::new(Mutex::new(pair.master.take_writer().unwrap()));
        let (columns, rows) = non_zero(size);
        let replies = Replies { background, ..Replies::default() };
        let parser = vt100::Parser::new_with_callbacks(rows, columns, 0, replies);
        let (bytes, reads) = (Vec::new(), Vec::new());
        let terminal = Terminal { parser, bytes, reads, exit: None, is_closed: false };
        let shared =
            Arc::new(Shared { terminal: Mutex::new(terminal), changed: Condvar::default() });
        let pid = child.process_id().unwrap();

        let (reading, replying) = (Arc::clone(&shared), Arc::clone(&writer));
        thread::spawn(move || read(reader, &reading, &replying));
        let waiting = Arc::clone(&shared);
        thread::spawn(move || {
            let status = child.wait().unwrap();
            waiting.change(|terminal| terminal.exit = Some(status));
        });
        Self { pid, shared, writer, master: pair.master, home }
    }

    /// Presses keys, separated by spaces and named as in the keymap: `e`, `ctrl-r`, `shift-tab`.
    ///
    /// As in any terminal, `esc` and a key that immediately follows form a single key. Wait for the
    /// effect of `esc` before pressing another key.
    pub(crate) fn press(&self, keys: &str) {
        for key in keys.split_whitespace() {
            let mut writer = self.writer.lock();
            writer.write_all(&key_bytes(key)).unwrap();
            writer.flush().unwrap();
        }
    }

    /// Presses the key of each letter of `text`.
    pub(crate) fn type_text(&self, text: &str) {
        for letter in text.chars() {
            self.press(&letter.to_string());
        }
    }

    /// Sends raw bytes.
    pub(crate) fn send(&self, bytes: &[u8]) {
        self.writer.lock().write_all(bytes).unwrap();
    }

    /// Returns the home directory, for another session in the same place.
    pub(crate) fn home(&self) -> Arc<TempDir> {
        Arc::clone(&self.home)
    }

    /// Returns everything that the program has written.
    pub(crate) fn written(&self) -> Vec<u8> {
        self.shared.terminal.lock().bytes.clone()
    }

    /// Waits until the program has written nothing for `still`. Returns the result of calling `look` at
    /// the beginning of that time. Panics with the last output after `within`.
    #[track_caller]
    pub(crate) fn wait_still<T>(
        &self,
        still: Duration,
        within: Duration,
        look: impl Fn() -> T,
    ) -> T {
        let deadline = Instant::now() + within;
        let mut terminal = self.shared.terminal.lock();
        loop {
            let (found, n_before) = (look(), terminal.bytes.len());
            let is_silent = |terminal: &mut Terminal| terminal.bytes.len() == n_before;
            let wait = self.shared.changed.wait_while_for(&mut terminal, is_silent, still);
            if wait.timed_out() && terminal.bytes.len() == n_before {
                return found;
            }
            let new = terminal.bytes.get(n_before..).map(String::from_utf8_lossy);
            let text = text(terminal.parser.screen());
            assert!(
                Instant::now() < deadline,
                "silent for {still:?}: not within {within:?}; last output: {new:?}\n{text}"
            );
        }
    }

    /// Resizes the terminal.
    pub(crate) fn resize(&self, size: (u16, u16)) {
        let (columns, rows) = non_zero(size);
        self.shared.change(|terminal| terminal.parser.set_size(rows, columns));
        self.master.resize(pty_size(size)).unwrap();
    }

    /// Waits until `look` returns a value for the screen. Panics with the content of the screen after
    /// `within`, or if the program exits.
    #[track_caller]
    pub(crate) fn wait_for<T>(
        &self,
        wanted: &str,
        within: Duration,
        mut look: impl FnMut(&Screen) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + within;
        let mut terminal = self.shared.terminal.lock();
        loop {
            let is_whole = !terminal.parser.callbacks().is_in_frame;
            if let Some(found) = is_whole.then(|| look(terminal.parser.screen())).flatten() {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || terminal.has_exited() {
                let (exit, text) = (&terminal.exit, text(terminal.parser.screen()));
                panic!("{wanted}: not within {within:?} (exit: {exit:?}); the screen:\n{text}");
            }
            self.shared.changed.wait_for(&mut terminal, left);
        }
    }

    /// Returns the number of bytes that the program has written.
    pub(crate) fn n_written(&self) -> usize {
        self.shared.terminal.lock().bytes.len()
    }

    /// Returns the number of occurrences of `wanted` in the output after the first `n_bytes`.
    pub(crate) fn count_written(&self, wanted: &[u8], n_bytes: usize) -> usize {
        let terminal = self.shared.terminal.lock();
        let written = terminal.bytes.get(n_bytes..).unwrap_or_default();
        written.windows(wanted.len()).filter(|window| *window == wanted).count()
    }

    /// Waits until the program has written more than `n_bytes` in total. Returns the time at which it
    /// did, or `None` after `within`.
    pub(crate) fn wrote_past(&self, n_bytes: usize, within: Duration) -> Option<Instant> {
        let mut terminal = self.shared.terminal.lock();
        let is_silent =
            |terminal: &mut Terminal| terminal.bytes.len() <= n_bytes && !terminal.has_exited();
        self.shared.changed.wait_while_for(&mut terminal, is_silent, within);
        let first = terminal.reads.partition_point(|(n_read, _)| *n_read <= n_bytes);
        terminal.reads.get(first).map(|(_, at)| *at)
    }

    /// Waits until `wanted` is on the screen. Returns the whole text of the screen.
    #[track_caller]
    pub(crate) fn wait_text(&self, wanted: &str, within: Duration) -> String {
        self.wait_for(&format!("`{wanted}` is shown"), within, |screen| {
            Some(text(screen)).filter(|text| text.contains(wanted))
        })
    }

    /// Waits until the program has exited and all its output is read. Panics after `within`.
    #[track_caller]
    pub(crate) fn wait_exit(&self, within: Duration) -> ExitStatus {
        let mut terminal = self.shared.terminal.lock();
        let is_running = |terminal: &mut Terminal| !terminal.has_exited();
        self.shared.changed.wait_while_for(&mut terminal, is_running, within);
        let text = text(terminal.parser.screen());
        assert!(
            terminal.has_exited(),
            "no exit within {within:?} (exit: {:?}); the screen:\n{text}",
            terminal.exit,
        );
        terminal.exit.clone().unwrap()
    }

    /// Asserts that the program has reset all modes of the terminal.
    #[track_caller]
    pub(crate) fn assert_restored(&self) {
        let terminal = self.shared.terminal.lock();
        let screen = terminal.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.hide_cursor(), "the cursor is shown");
        assert_eq!(screen.mouse_protocol_mode(), MouseProtocolMode::None, "the mouse is free");
        assert!(!screen.bracketed_paste(), "pastes are not bracketed");
        assert!(!screen.application_cursor(), "cursor keys are plain");
        // Modes that the emulated screen does not have: focus reports, synchronized frames and kitty's
        // keys.
        let bytes = &terminal.bytes;
        for (set, reset) in [
            (b"\x1b[?1004h".as_slice(), b"\x1b[?1004l".as_slice()),
            (b"\x1b[?2026h", b"\x1b[?2026l"),
            (b"\x1b[>", b"\x1b[<"),
        ] {
            let (set_at, reset_at) = (last_of(bytes, set), last_of(bytes, reset));
            let mode = String::from_utf8_lossy(set).replace('\x1b', "ESC ");
            assert!(set_at <= reset_at, "mode `{mode}` is reset");
        }
    }

    /// Asserts that the program has used no color other than the terminal's default.
    #[track_caller]
    pub(crate) fn assert_colorless(&self) {
        let written = String::from_utf8(self.written()).unwrap();
        let is_text = |parameters: &str| {
            parameters.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':'))
        };
        let styles = written.split("\x1b[").filter_map(|rest| rest.split_once('m'));
        let styles = styles.map(|(parameters, _)| parameters).filter(|one| is_text(one));
        for style in styles {
            let mut numbers = style.split([';', ':']).filter_map(|number| number.parse().ok());
            let color = numbers.find(|number| matches!(number, 30..=38 | 40..=48 | 58 | 90..=107));
            assert_eq!(color, None::<u8>, "a color in `ESC [{style}m`");
        }
    }

    /// Asserts that the output contains no API key.
    #[track_caller]
    pub(crate) fn assert_no_key(&self) {
        let is_key = |four: &[u8]| matches!(four, [b'U', b'P', b'-', x] if x.is_ascii_hexdigit());
        let terminal = self.shared.terminal.lock();
        assert!(!terminal.bytes.windows(4).any(is_key), "no API key is drawn");
    }
}

impl Drop for Session {
    /// Kills a program that a failed test has not stopped. Waits for its children, so that the home
    /// directory can be removed.
    fn drop(&mut self) {
        if !process::is_running(self.pid) {
            return;
        }
        let children: Vec<_> = process::descendants(self.pid).into_iter().collect();
        process::signal(self.pid, Signal::Kill);
        // The test has already failed, so children that are still running are not reported.
        drop(wait::try_until(CLEAN_UP_WITHIN, || process::all_gone(&children)));
    }
}

impl Terminal {
    /// Returns true if the program has exited and all its output is read.
    fn has_exited(&self) -> bool {
        self.exit.is_some() && self.is_closed
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut Terminal)) {
        change(&mut self.terminal.lock());
        self.changed.notify_all();
    }
}

/// Returns the text of a screen, one line per row, without trailing spaces.
pub(crate) fn text(screen: &Screen) -> String {
    let (_, columns) = screen.size();
    let rows = screen.rows(0, columns.get());
    rows.map(|row| row.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Reads the output until the program closes its end of the pty.
fn read(mut reader: Box<dyn Read + Send>, shared: &Shared, writer: &Mutex<Box<dyn Write + Send>>) {
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    // Linux reports the closed end of a pty as an error.
    while let Ok(n_read @ 1..) = reader.read(&mut chunk) {
        let (mut replies, now) = (Vec::new(), Instant::now());
        shared.change(|terminal| {
            let new = chunk.get(..n_read).unwrap_or_default();
            terminal.bytes.extend(new);
            terminal.reads.push((terminal.bytes.len(), now));
            terminal.parser.process(new);
            replies = std::mem::take(&mut terminal.parser.callbacks_mut().pending);
        });
        if !replies.is_empty() {
            // Fails if the program has exited.
            drop(writer.lock().write_all(&replies));
        }
    }
    shared.change(|terminal| terminal.is_closed = true);
}

/// Returns the environment of a fresh machine, without configuration or services, in a terminal with all
/// colors.
fn clean_environment(home: &TempDir) -> Vec<(&'static str, String)> {
    let at = |leaf: &str| home.path().join(leaf).display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    vec![
        ("HOME", at("")),
        ("XDG_CONFIG_HOME", at("config")),
        ("XDG_DATA_HOME", at("data")),
        ("XDG_STATE_HOME", at("state")),
        ("XDG_CACHE_HOME", CACHE.to_owned()),
        ("PATH", path),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "xterm-256color".to_owned()),
        ("COLORTERM", "truecolor".to_owned()),
    ]
}

/// Returns the bytes that a terminal sends for a key.
fn key_bytes(key: &str) -> Vec<u8> {
    if let Some(letter) = key.strip_prefix("ctrl-") {
        return letter.bytes().map(|letter| letter & 0x1f).collect();
    }
    match key {
        "enter" => "\r",
        "esc" => "\x1b",
        "tab" => "\t",
        "shift-tab" => "\x1b[Z",
        "space" => " ",
        "backspace" => "\x7f",
        "up" => "\x1b[A",
        "down" => "\x1b[B",
        "right" => "\x1b[C",
        "left" => "\x1b[D",
        "home" => "\x1b[H",
        "end" => "\x1b[F",
        "f1" => "\x1bOP",
        _ => {
            assert_eq!(key.chars().count(), 1, "`{key}` is a key");
            key
        }
    }
    .as_bytes()
    .to_vec()
}

fn pty_size((cols, rows): (u16, u16)) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

fn non_zero((columns, rows): (u16, u16)) -> (NonZeroU16, NonZeroU16) {
    (NonZeroU16::new(columns).unwrap(), NonZeroU16::new(rows).unwrap())
}

/// Returns the position of the last occurrence of `wanted`.
fn last_of(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).rposition(|window| window == wanted)
}

#[test]
fn emulated_terminal_replies_to_queries_and_shows_output() {
    let script = r"stty -echo -icanon min 1; printf '\033[6n\033[c'; head -c 15 | od -An -c; \
        printf '\033[?1049h\033[?25l%s' in; read -r rest; printf '\033[?25h\033[?1049l%s' out";
    let session = Session::start("sh", &["-c", script], (60, 10));
    session.wait_text("in", Duration::from_secs(10));
    let n_written = session.n_written();
    assert_eq!(session.wrote_past(n_written, Duration::ZERO), None, "the program waits for a key");
    session.press("enter");
    assert!(session.wrote_past(n_written, Duration::from_secs(10)).is_some());
    assert!(session.wait_exit(Duration::from_secs(10)).success());
    session.assert_restored();
    assert_eq!(session.count_written(b"\x1b[?1049", 0), 2, "entered and left");
    let shown = session.wait_text("out", Duration::ZERO);
    assert!(shown.contains("033   [   1   ;   1   R 033   [   ?   6   2"), "{shown}");
}
