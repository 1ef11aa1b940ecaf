//! The event loop: waits for an event, updates the state, draws a frame.

use std::future::ready;
use std::io::{IsTerminal as _, Write as _};
use std::mem::take;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{Event as TermEvent, EventStream, KeyEventKind};
use futures::stream::{BoxStream, StreamExt as _};
use model::timestamp::Timestamp;
use task::clock::Clock;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::app::{self, Start};
use crate::effects::{Runner, UserFiles, write_private};
use crate::event::{Effect, Event, Timer};
use crate::keymap::{Chord, Keymap};
use crate::local::LocalStack;
use crate::pacer::Pacer;
use crate::profiles::{ProfileStore, Profiles};
use crate::recording::Recording;
use crate::replies::Replies;
#[cfg(debug_assertions)]
use crate::screens::Screen;
use crate::state::overlay::Overlay;
use crate::state::resource::Failure;
use crate::state::{Dirty, State, session};
use crate::terminal::{self, Signal, Tui};
use crate::theme::depth::Depth;
use crate::theme::{self, Theme};
use crate::time_zone::TimeZone;
use crate::view::{Hits, Mouse};
use crate::widget::symbols::Symbols;

/// Maximum wait for local processes to stop before the program exits.
const STOP_WITHIN: Duration = Duration::from_millis(2_500);

/// Options for opening the screen.
#[expect(missing_debug_implementations, reason = "the traits have none")]
pub struct TuiOptions {
    /// Source of the addresses of the services at the start.
    pub start: Start,
    /// Local stack, which also starts further nodes.
    pub local: Box<dyn LocalStack>,
    /// Paths of the user's files.
    pub files: UserFiles,
    /// Theme to start with.
    pub theme: theme::InitialTheme,
    /// Themes that the user defined.
    pub custom_themes: Vec<&'static theme::custom::CustomTheme>,
    /// Errors in the files of user-defined themes, one for each invalid file.
    pub theme_faults: Vec<String>,
    /// Keys and their actions.
    pub keys: Keymap,
    /// Symbols for charts and marks.
    pub symbols: Symbols,
    /// True to query the terminal for its background color, which selects the theme.
    pub asks_background: bool,
    /// Store of the profiles, or `None` to hide the profiles.
    pub keeper: Option<Box<dyn ProfileStore>>,
    /// The known profiles and the profile in use.
    pub profiles: Profiles,
    /// Path of the session file. `None` to store no session.
    pub session: Option<PathBuf>,
    /// Color depth of the terminal.
    pub depth: Depth,
    /// True to capture the mouse.
    pub has_mouse: bool,
    /// True if the terminal is on another machine. This lowers the frame rate.
    pub is_far: bool,
    /// Time zone in which times are displayed.
    pub time_zone: TimeZone,
    /// Wall clock for the times of events and frames.
    pub clock: Clock,
    /// File to which the screen is recorded. It must not exist.
    pub record: Option<PathBuf>,
    /// Directory for reports of panics.
    pub reports: Option<PathBuf>,
    /// Message of a panic that the next key on the Logs screen causes. Only in debug builds, for
    /// tests.
    #[cfg(debug_assertions)]
    pub fault: Option<String>,
}

/// Reason why the screen could not open or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Standard input or output is a file or a pipe.
    #[error("standard input and output must be a terminal")]
    NotATerminal,
    /// Reading, writing or setting up the terminal failed.
    #[error("cannot read from or write to the terminal")]
    Terminal(#[from] std::io::Error),
    /// The file for the recording exists, or cannot be created.
    #[error("cannot create the recording {}", path.display())]
    Record {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A task panicked. The panic hook has already printed the report.
    #[error("screen stopped because of an internal error")]
    Panicked,
    /// The terminal cannot move its cursor.
    #[error("terminal cannot move its cursor (TERM=dumb); `--help` lists other commands")]
    NoCursor,
}

/// Runs the screen. Returns when it is closed, the terminal is restored, and local processes have
/// stopped.
///
/// Draws the first frame before it starts anything else.
///
/// # Errors
/// [`RunError::NotATerminal`] and [`RunError::Record`] before any change to the terminal. All other
/// errors after the terminal is restored.
pub async fn run(options: TuiOptions) -> Result<(), RunError> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(RunError::NotATerminal);
    }
    let TuiOptions { start, local, theme, depth, has_mouse, is_far, clock, .. } = options;
    terminal::watch_panics(options.reports);
    options.time_zone.use_for_times();
    let keeper: Option<Arc<dyn ProfileStore>> = options.keeper.map(Arc::from);
    let record = |path: PathBuf| {
        let recording = Recording::create(&path, terminal::terminal_size(), clock.now());
        recording.map_err(|source| RunError::Record { path, source })
    };
    let recording = options.record.map(record).transpose()?;
    let terminal = Tui::enter(has_mouse)?;
    let signals = terminal::signals()?;
    let mut state = State {
        now: clock.now(),
        size: terminal.size(),
        initial_theme: theme,
        has_mouse,
        profiles: options.profiles,
        custom_themes: options.custom_themes,
        keys: options.keys.with_symbols(options.symbols),
        symbols: options.symbols,
        ..State::default()
    };
    let last = options.session.as_deref().and_then(|path| std::fs::read_to_string(path).ok());
    session::restore(&mut state, &last.unwrap_or_default());
    state.warn_theme_errors(&options.theme_faults);
    let mut screen = Loop {
        state,
        depth,
        clock,
        pacer: Pacer::new(is_far),
        drawn_at: Timestamp::default(),
        hits: Hits::default(),
        runner: Runner::new(Arc::from(local), keeper, options.files),
        terminal,
        recording,
        signals,
        keys: EventStream::new(),
        replies: Replies::default(),
        #[cfg(debug_assertions)]
        fault: options.fault,
        is_paging: false,
        mouse: Mouse::default(),
        has_stopped_job: false,
        is_over: false,
    };
    let asks_background = options.asks_background && depth != Depth::None;
    let result = screen.run(start, asks_background).await;
    let Loop { terminal, recording, runner, state, .. } = screen;
    // The terminal is restored before anything that takes time, so that the shell's prompt appears
    // immediately.
    drop(terminal);
    if let Some(recording) = recording {
        recording.finish().await;
    }
    if let Some(path) = &options.session
        && let Err(error) = write_private(path, &session::text(&state))
    {
        let failure = format!("failed to write the session to {}: {error}", path.display());
        tracing::warn!("{failure}");
        drop(writeln!(std::io::stderr(), "triptych: {failure}"));
    }
    if timeout(STOP_WITHIN, runner.shutdown()).await.is_err() {
        tracing::warn!("local processes or alerts did not end within {STOP_WITHIN:?}");
    }
    result
}

struct Loop {
    state: State,
    depth: Depth,
    clock: Clock,
    pacer: Pacer,
    /// Time that the last frame shows.
    drawn_at: Timestamp,
    hits: Hits,
    runner: Runner,
    terminal: Tui,
    /// Recording of all frames.
    recording: Option<Recording>,
    signals: BoxStream<'static, Signal>,
    keys: EventStream,
    replies: Replies,
    #[cfg(debug_assertions)]
    fault: Option<String>,
    /// True while a pager uses the terminal.
    is_paging: bool,
    mouse: Mouse,
    /// True if this program has sent a stop signal to its whole job. It receives the signal itself
    /// after it continues.
    has_stopped_job: bool,
    /// True once the loop must end.
    is_over: bool,
}

impl Loop {
    async fn run(&mut self, start: Start, asks_background: bool) -> Result<(), RunError> {
        let effects = app::start(&mut self.state, start);
        self.draw()?;
        if asks_background {
            Tui::query_background()?;
        }
        // Gives the terminal time to show the first frame before other work needs the processors.
        sleep(Duration::from_millis(20)).await;
        self.perform(effects)?;
        while !self.is_over {
            self.step(true).await?;
            if Tui::is_lost() {
                return Err(RunError::Panicked);
            }
            // Timers precede the batch below, which would otherwise delay them while many events
            // arrive.
            let now = Instant::now();
            let due: Vec<_> = self.runner.timers.extract_if(|_, at| *at <= now).collect();
            for (timer, _) in due {
                self.update(Event::TimerDue(timer))?;
            }
            // Limits the number of events before a frame. Further events are handled in the next
            // round.
            for _ in 0..512 {
                if self.is_over {
                    return Ok(());
                }
                if !self.step(false).await? {
                    break;
                }
            }
            let due = self.pacer.next(self.state.dirty).filter(|_| !self.is_paging);
            if due.is_some_and(|due| due <= Instant::now()) {
                self.draw()?;
            }
        }
        Ok(())
    }

    /// Waits for the next event and handles it. If several are ready, handles the most urgent one. If
    /// `is_waiting` is false, returns false if none is ready, and ignores timers and frames.
    async fn step(&mut self, is_waiting: bool) -> Result<bool, RunError> {
        let frame = self.pacer.next(self.state.dirty);
        let frame = frame.filter(|_| is_waiting && !self.is_paging);
        let timer = self.runner.timers.values().min().copied().filter(|_| is_waiting);
        tokio::select! {
            biased;
            Some(signal) = self.signals.next() => self.on_signal(signal)?,
            event = self.keys.next(), if !self.is_paging => match event {
                Some(event) => self.on_terminal(event?)?,
                // The terminal is closed.
                None => self.is_over = true,
            },
            event = self.runner.next() => {
                if matches!(event, Event::Paged(_)) {
                    self.is_paging = false;
                    self.terminal.reenter()?;
                }
                self.update(event)?;
            }
            () = ready(()), if !is_waiting => return Ok(false),
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => {}
            () = sleep_until(frame.unwrap_or_else(Instant::now)), if frame.is_some() => {}
        }
        Ok(true)
    }

    fn update(&mut self, event: Event) -> Result<(), RunError> {
        self.state.now = self.clock.now();
        let effects = app::update(&mut self.state, event);
        self.perform(effects)
    }

    fn on_signal(&mut self, signal: Signal) -> Result<(), RunError> {
        match signal {
            Signal::Stop if self.is_paging => terminal::stop_process()?,
            Signal::Stop if take(&mut self.has_stopped_job) => {}
            Signal::Stop => self.perform(vec![Effect::Suspend])?,
            // During paging, the pager handles an interrupt.
            Signal::Interrupt | Signal::Continue if self.is_paging => {}
            Signal::Terminate | Signal::Interrupt => self.is_over = true,
            Signal::Continue => {
                self.terminal.reenter()?;
                self.state.mark_dirty(Dirty::Input);
            }
        }
        Ok(())
    }

    /// Handles input from the terminal: user input, or the reply to a query.
    fn on_terminal(&mut self, event: TermEvent) -> Result<(), RunError> {
        if matches!(event, TermEvent::Resize(..)) {
            // The whole screen is redrawn even if the size equals the size of the last frame: it can
            // have been smaller in between, in which case the terminal has cut off content.
            self.terminal.redraw();
        }
        let (background, inputs) = self.replies.filter(event);
        let mut events: Vec<Event> = background.into_iter().map(Event::Background).collect();
        events.extend(inputs.iter().filter_map(|input| self.translate(input)));
        for event in events {
            #[cfg(debug_assertions)]
            if let (Event::Key(_), Screen::Logs) = (&event, self.state.screen) {
                assert!(self.fault.is_none(), "{}", self.fault.as_deref().unwrap_or_default());
            }
            self.update(event)?;
            if self.is_over {
                break;
            }
        }
        Ok(())
    }

    /// Translates input to an event, using the click targets of the last frame. Returns `None` if
    /// the input has no meaning.
    fn translate(&mut self, event: &TermEvent) -> Option<Event> {
        Some(match event {
            TermEvent::Key(key) if key.kind != KeyEventKind::Release => {
                let chord = Chord::from_event(key);
                match self.state.overlays.last() {
                    Some(Overlay::Jump(typed)) => self.hits.jump_target(typed, chord),
                    _ => Event::Key(chord),
                }
            }
            TermEvent::Paste(text) => Event::Paste(text.clone()),
            TermEvent::Resize(width, height) => Event::Resized { width: *width, height: *height },
            TermEvent::FocusGained => Event::Focused(true),
            TermEvent::FocusLost => Event::Focused(false),
            TermEvent::Mouse(mouse) => return self.mouse.translate(*mouse, &self.hits),
            TermEvent::Key(_) => return None,
        })
    }

    fn perform(&mut self, effects: Vec<Effect>) -> Result<(), RunError> {
        for effect in effects {
            match self.runner.perform(effect) {
                None => {}
                Some(Effect::Quit) => {
                    self.is_over = true;
                    break;
                }
                Some(Effect::Page(text)) => {
                    terminal::switch_off();
                    // The pager needs the terminal's input. Dropping the stream stops its reads,
                    // and a new stream does not read until it is polled.
                    self.keys = EventStream::new();
                    self.is_paging = true;
                    self.runner.start_pager(text);
                }
                Some(effect) => {
                    self.terminal.perform(&effect)?;
                    self.has_stopped_job |= matches!(effect, Effect::Suspend);
                    self.state.mark_dirty(Dirty::Input);
                }
            }
        }
        Ok(())
    }

    /// Draws a frame. Most responses to polls are the same as before, so a frame for them shows the
    /// time of the last frame. Only if it changes something, a frame with the current time follows.
    fn draw(&mut self) -> Result<(), RunError> {
        let is_poll = self.state.dirty == Dirty::Poll;
        self.state.now = if is_poll { self.drawn_at } else { self.clock.now() };
        self.drawn_at = self.state.now;
        let theme = Theme::new(self.state.theme_name(), self.depth);
        let state = &self.state;
        let hits = &mut self.hits;
        let has_secret = state.shows_secret();
        if let Some(recording) = &mut self.recording
            && !has_secret
            && take(&mut recording.is_behind)
        {
            self.terminal.redraw();
        }
        let view =
            |area, buf: &mut ratatui::buffer::Buffer| *hits = app::draw(area, buf, state, &theme);
        let output = self.terminal.draw(view)?;
        // The frame after that of a poll replaces it, unless no time in view has changed.
        if !has_secret && !output.is_empty() {
            self.state.frames.record(self.terminal.frame(), self.clock.now());
        }
        let size = self.terminal.size();
        let recorded = match &mut self.recording {
            Some(recording) if has_secret => {
                recording.is_behind = true;
                Ok(())
            }
            Some(recording) if !output.is_empty() => recording.add(size, &output),
            _ => Ok(()),
        };
        let next = self.pacer.record_frame(Instant::now(), self.state.dirty, &output);
        let is_animated = self.state.is_animated() && !self.state.is_behind;
        self.state.dirty = next.max(if is_animated { Dirty::Animation } else { Dirty::Clean });
        if !is_poll {
            self.runner.perform(match self.state.redraw_after() {
                Some(wait) => Effect::SetTimer(Timer::Age, wait),
                None => Effect::ClearTimer(Timer::Age),
            });
        }
        if let Err(error) = recorded {
            self.recording = None;
            let failure = Failure::new("record the screen", error.to_string(), "");
            self.update(Event::Failed(failure))?;
        }
        Ok(())
    }
}
