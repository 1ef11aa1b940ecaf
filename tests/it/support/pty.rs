//! The program in a terminal: a pty, a screen that understands what is written to it, and keys.
//!
//! A thread reads what the program writes and feeds the screen; whoever waits is woken by it. The
//! program's questions (where is the cursor, what are you, which background) are answered as a
//! terminal would. A frame that the program marks as one (mode 2026) is looked at only whole.

use std::{
    io::{Read, Write},
    num::NonZeroU16,
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use portable_pty::{CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use tempfile::TempDir;
use tokio::time::Instant;
use vt100::{MouseProtocolMode, Screen};

use crate::support::{
    CACHE,
    process::{self, Signal},
    wait,
};

/// The size for which the screens are designed.
pub(crate) const WIDE: (u16, u16) = (160, 45);

/// The answer of a terminal with the background of the dark theme.
const DARK: &[u8] = b"\x1b]11;rgb:1111/1313/1a1a\x1b\\";

/// The answer of one with that of the light theme.
pub(crate) const LIGHT: &[u8] = b"\x1b]11;rgb:fbfb/fbfb/fdfd\x1b\\";

/// What the terminal says it is: a VT220 with ANSI color.
const DEVICE: &[u8] = b"\x1b[?62;22c";

/// Bytes read at once: a whole frame of a large screen.
const CHUNK_BYTES: usize = 64 * 1024;

/// How long the program's end may take to be seen, once a test has ended.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(5);

/// A program that runs in a terminal of its own, with a home folder of its own.
pub(crate) struct Session {
    /// Its process.
    pub(crate) pid: u32,
    shared: Arc<Shared>,
    writer: Arc<Mutex<Box<dyn Write + Send>>>,
    master: Box<dyn MasterPty + Send>,
    // Goes last: the program writes to it.
    home: Arc<TempDir>,
}

/// A terminal in which a program is to be started, and the home that it finds there.
#[derive(Clone)]
pub(crate) struct Place<'a> {
    /// Columns and rows.
    pub(crate) size: (u16, u16),
    /// What is in the environment beside what is on every machine.
    pub(crate) environment: &'a [(&'a str, &'a str)],
    /// The answer to the question for the background; none from a terminal that passes over it.
    pub(crate) background: Option<&'static [u8]>,
    /// The home folder, which other sessions may have had before.
    pub(crate) home: Arc<TempDir>,
}

impl Default for Place<'_> {
    fn default() -> Self {
        let home = Arc::new(TempDir::new().unwrap());
        Self { size: WIDE, environment: &[], background: Some(DARK), home }
    }
}

impl Place<'_> {
    /// The same with a configuration file.
    pub(crate) fn configured(self, text: &str) -> Self {
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
    /// Everything the program wrote.
    bytes: Vec<u8>,
    /// How much that was after each read, and when.
    reads: Vec<(usize, Instant)>,
    exit: Option<ExitStatus>,
    is_closed: bool,
}

/// What the program asked of the terminal.
#[derive(Default)]
struct Replies {
    background: Option<&'static [u8]>,
    answers: Vec<u8>,
    /// A frame has begun that is not whole yet.
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
                self.answers.extend(format!("\x1b[{};{}R", row + 1, column + 1).bytes());
            }
            (None, None | Some(0), 'c') => self.answers.extend(DEVICE),
            (Some(b'?'), Some(2026), 'h') => self.is_in_frame = true,
            (Some(b'?'), Some(2026), 'l') => self.is_in_frame = false,
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut Screen, parameters: &[&[u8]]) {
        if parameters == [b"11".as_slice(), b"?"] {
            self.answers.extend(self.background.unwrap_or_default());
        }
    }
}

impl Session {
    /// Starts `program` with `arguments` in a terminal of `(columns, rows)`.
    pub(crate) fn start(program: &str, arguments: &[&str], size: (u16, u16)) -> Self {
        Self::start_with(program, arguments, size, &[])
    }

    /// As [`Self::start`], with more in its environment.
    pub(crate) fn start_with(
        program: &str,
        arguments: &[&str],
        size: (u16, u16),
        environment: &[(&str, &str)],
    ) -> Self {
        Self::start_in(&Place { size, environment, ..Place::default() }, program, arguments)
    }

    /// Starts `program` with `arguments` at a place.
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
        // Held open here, it would hide that the program has closed its own.
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

        let (reading, answers) = (Arc::clone(&shared), Arc::clone(&writer));
        thread::spawn(move || read(reader, &reading, &answers));
        let waiting = Arc::clone(&shared);
        thread::spawn(move || {
            let status = child.wait().unwrap();
            waiting.change(|terminal| terminal.exit = Some(status));
        });
        Self { pid, shared, writer, master: pair.master, home }
    }

    /// Presses keys, named as in the keymap and parted by spaces: `e`, `ctrl-r`, `shift-tab`.
    ///
    /// A key that follows `esc` at once is one key with it, as in any terminal: see what `esc` did
    /// first.
    pub(crate) fn press(&self, keys: &str) {
        for key in keys.split_whitespace() {
            let mut writer = self.writer.lock();
            writer.write_all(&key_bytes(key)).unwrap();
            writer.flush().unwrap();
        }
    }

    /// Sends bytes as the terminal itself would.
    pub(crate) fn send(&self, bytes: &[u8]) {
        self.writer.lock().write_all(bytes).unwrap();
    }

    /// Its home folder, for another session at the same place.
    pub(crate) fn home(&self) -> Arc<TempDir> {
        Arc::clone(&self.home)
    }

    /// Everything the program wrote so far.
    pub(crate) fn written(&self) -> Vec<u8> {
        self.shared.terminal.lock().bytes.clone()
    }

    /// Waits until the program has written nothing for as long as `still`, and returns what `look`
    /// found at the beginning of that time. Panics with what was written last after `within`.
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
                "silent for {still:?}: not within {within:?}; written last: {new:?}\n{text}"
            );
        }
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&self, size: (u16, u16)) {
        let (columns, rows) = non_zero(size);
        self.shared.change(|terminal| terminal.parser.set_size(rows, columns));
        self.master.resize(pty_size(size)).unwrap();
    }

    /// Waits until the screen is as `look` wants it, and returns what `look` found there. Panics
    /// with the screen after `within`, or once the program has ended.
    #[track_caller]
    pub(crate) fn wait_for<T>(
        &self,
        what: &str,
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
            if left.is_zero() || terminal.is_over() {
                let (exit, text) = (&terminal.exit, text(terminal.parser.screen()));
                panic!("{what}: not within {within:?} (exit: {exit:?}); the screen:\n{text}");
            }
            self.shared.changed.wait_for(&mut terminal, left);
        }
    }

    /// How many bytes the program has written.
    pub(crate) fn n_written(&self) -> usize {
        self.shared.terminal.lock().bytes.len()
    }

    /// How often `wanted` stands in what it wrote after the first `n_bytes`.
    pub(crate) fn n_times(&self, wanted: &[u8], n_bytes: usize) -> usize {
        let terminal = self.shared.terminal.lock();
        let written = terminal.bytes.get(n_bytes..).unwrap_or_default();
        written.windows(wanted.len()).filter(|window| *window == wanted).count()
    }

    /// Waits until it has written more than `n_bytes`, and returns when it did; none if it does not
    /// `within` that time.
    pub(crate) fn wrote_past(&self, n_bytes: usize, within: Duration) -> Option<Instant> {
        let mut terminal = self.shared.terminal.lock();
        let is_silent =
            |terminal: &mut Terminal| terminal.bytes.len() <= n_bytes && !terminal.is_over();
        self.shared.changed.wait_while_for(&mut terminal, is_silent, within);
        let first = terminal.reads.partition_point(|(n_read, _)| *n_read <= n_bytes);
        terminal.reads.get(first).map(|(_, at)| *at)
    }

    /// Waits until the screen shows `wanted`, and returns all of its text.
    #[track_caller]
    pub(crate) fn wait_text(&self, wanted: &str, within: Duration) -> String {
        self.wait_for(&format!("`{wanted}` is shown"), within, |screen| {
            Some(text(screen)).filter(|text| text.contains(wanted))
        })
    }

    /// Waits until the program has ended and everything it wrote is read. Panics after `within`.
    #[track_caller]
    pub(crate) fn wait_exit(&self, within: Duration) -> ExitStatus {
        let mut terminal = self.shared.terminal.lock();
        let is_on = |terminal: &mut Terminal| !terminal.is_over();
        self.shared.changed.wait_while_for(&mut terminal, is_on, within);
        let text = text(terminal.parser.screen());
        assert!(
            terminal.is_over(),
            "the program has not ended within {within:?} (exit: {:?}); the screen:\n{text}",
            terminal.exit,
        );
        terminal.exit.clone().unwrap()
    }

    /// Asserts that no mode of the terminal is left as the program needed it.
    #[track_caller]
    pub(crate) fn assert_restored(&self) {
        let terminal = self.shared.terminal.lock();
        let screen = terminal.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.hide_cursor(), "the cursor is shown");
        assert_eq!(screen.mouse_protocol_mode(), MouseProtocolMode::None, "the mouse is free");
        assert!(!screen.bracketed_paste(), "pastes are not bracketed");
        assert!(!screen.application_cursor(), "cursor keys are plain");
        // What the screen above does not model: reports of focus, whole frames, kitty's keys.
        let bytes = &terminal.bytes;
        for (set, reset) in [
            (b"\x1b[?1004h".as_slice(), b"\x1b[?1004l".as_slice()),
            (b"\x1b[?2026h", b"\x1b[?2026l"),
            (b"\x1b[>", b"\x1b[<"),
        ] {
            let (set_at, reset_at) = (last_of(bytes, set), last_of(bytes, reset));
            let shown = String::from_utf8_lossy(set).replace('\x1b', "ESC ");
            assert!(set_at <= reset_at, "what `{shown}` sets is reset");
        }
    }

    /// Asserts that no color was asked for: at most the one that the terminal has by itself.
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

    /// Asserts that nothing written so far holds an API key.
    #[track_caller]
    pub(crate) fn assert_no_key(&self) {
        let is_key = |four: &[u8]| matches!(four, [b'U', b'P', b'-', x] if x.is_ascii_hexdigit());
        let terminal = self.shared.terminal.lock();
        assert!(!terminal.bytes.windows(4).any(is_key), "no API key is drawn");
    }
}

impl Drop for Session {
    /// Ends the program, if a test that failed left it, and waits until all it started is gone, so
    /// that its home folder can go.
    fn drop(&mut self) {
        if !process::is_running(self.pid) {
            return;
        }
        let children: Vec<_> = process::descendants(self.pid).into_iter().collect();
        process::signal(self.pid, Signal::Kill);
        // What is still left then cannot be told: a test has failed already.
        drop(wait::try_until(CLEAN_UP_WITHIN, || process::all_gone(&children)));
    }
}

impl Terminal {
    /// Whether the program has ended and everything it wrote is read.
    fn is_over(&self) -> bool {
        self.exit.is_some() && self.is_closed
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut Terminal)) {
        change(&mut self.terminal.lock());
        self.changed.notify_all();
    }
}

/// The text of a screen, a line for each row, without spaces at the ends.
pub(crate) fn text(screen: &Screen) -> String {
    let (_, columns) = screen.size();
    let rows = screen.rows(0, columns.get());
    rows.map(|row| row.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Reads what the program writes until it has closed its end.
fn read(mut reader: Box<dyn Read + Send>, shared: &Shared, writer: &Mutex<Box<dyn Write + Send>>) {
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    // An error is how Linux says that the other end is closed.
    while let Ok(n_read @ 1..) = reader.read(&mut chunk) {
        let (mut answers, now) = (Vec::new(), Instant::now());
        shared.change(|terminal| {
            let new = chunk.get(..n_read).unwrap_or_default();
            terminal.bytes.extend(new);
            terminal.reads.push((terminal.bytes.len(), now));
            terminal.parser.process(new);
            answers = std::mem::take(&mut terminal.parser.callbacks_mut().answers);
        });
        if !answers.is_empty() {
            // A program that has ended in between needs no answer.
            drop(writer.lock().write_all(&answers));
        }
    }
    shared.change(|terminal| terminal.is_closed = true);
}

/// The environment of a fresh machine: no configuration, no services, every color.
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

/// What a terminal sends for a key.
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

/// Where `wanted` stands last, if anywhere.
fn last_of(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).rposition(|window| window == wanted)
}

#[test]
fn a_terminal_answers_and_shows() {
    let script = r"stty -echo -icanon min 1; printf '\033[6n\033[c'; head -c 15 | od -An -c; \
        printf '\033[?1049h\033[?25l%s' in; read -r rest; printf '\033[?25h\033[?1049l%s' out";
    let session = Session::start("sh", &["-c", script], (60, 10));
    session.wait_text("in", Duration::from_secs(10));
    let n_written = session.n_written();
    assert_eq!(session.wrote_past(n_written, Duration::ZERO), None, "it waits for a key");
    session.press("enter");
    assert!(session.wrote_past(n_written, Duration::from_secs(10)).is_some());
    assert!(session.wait_exit(Duration::from_secs(10)).success());
    session.assert_restored();
    assert_eq!(session.n_times(b"\x1b[?1049", 0), 2, "there and back");
    let shown = session.wait_text("out", Duration::ZERO);
    assert!(shown.contains("033   [   1   ;   1   R 033   [   ?   6   2"), "{shown}");
}
