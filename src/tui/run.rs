//! The loop: waits for something to happen, updates the state, draws, and waits again.

use std::{
    future::poll_fn,
    io::IsTerminal as _,
    path::{Path, PathBuf},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use crossterm::event::{
    Event as TermEvent, EventStream, KeyEventKind, MouseButton, MouseEventKind,
};
use futures::{Stream, StreamExt as _};
use task::{
    clock::Clock,
    file::{FileMode, write_atomic},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    effects::{Runner, Wish},
    event::{Effect, Event, Target, Timer},
    guard,
    keymap::{Chord, Keymap},
    local::{LocalEvent, LocalStack},
    pacer::Pacer,
    profiles::Profiles,
    replies::Replies,
    state::{Dirty, Screen, State, overlay::Overlay, profiles, session},
    terminal::{Signal, Signals, Terminal},
    theme::{self, Theme, depth::Depth},
    update::{self, Start},
    view::{self, hits::Hits},
    widget::symbols::Symbols,
};

/// Answers waiting to be taken in. Full, it makes those who answer wait: a stream, then its server.
const EVENTS_MAX: usize = 256;

/// What local processes said and was not taken in yet. Full, lines of logs are dropped at their
/// source.
const LOCAL_EVENTS_MAX: usize = 1_024;

/// Events taken in before a frame is thought about. More come in the next round.
const BATCH_MAX: usize = 512;

/// The longest wait for local processes to end; then the program ends all the same.
const STOP_WITHIN: Duration = Duration::from_millis(2_500);

/// How long the machine is left to the terminal once the first frame is written: it needs a
/// processor to show it, which half a dozen processes that start would take away.
const SHOWN_WITHIN: Duration = Duration::from_millis(20);

/// How soon after a stop the signal arrives that stopped the rest of the job: it is sent to us, too.
const ECHO_WITHIN: Duration = Duration::from_secs(1);

/// How the screen is to be opened.
pub struct TuiOptions {
    /// Where the services are when the screen opens.
    pub start: Start,
    /// Starts the services on this machine, and further nodes.
    pub local: Option<Box<dyn LocalStack>>,
    /// The file in which forms are kept under a name.
    pub presets: Option<PathBuf>,
    /// The theme.
    pub theme: theme::Opening,
    /// The themes of a person's own.
    pub own_themes: Vec<&'static theme::own::Own>,
    /// Why other themes of a person's own cannot be used, a text for each of their files.
    pub theme_faults: Vec<String>,
    /// What every key does.
    pub keys: Keymap,
    /// What charts and marks are drawn with.
    pub symbols: Symbols,
    /// Whether the terminal is asked for its background.
    pub is_asked: bool,
    /// Who keeps the profiles.
    pub keeper: Option<Box<dyn Profiles>>,
    /// The profiles there are, and the one in use.
    pub profiles: profiles::Profiles,
    /// The file of what outlives the program; none to forget it.
    pub session: Option<PathBuf>,
    /// How many colors the terminal shows.
    pub depth: Depth,
    /// Whether the mouse is taken from the terminal.
    pub has_mouse: bool,
    /// Whether a network lies between here and the terminal.
    pub is_far: bool,
    /// Tells the date.
    pub clock: Clock,
    /// The folder of the report of a panic.
    pub reports: Option<PathBuf>,
    /// A panic on purpose; in builds for tests alone.
    #[cfg(debug_assertions)]
    pub fault: Option<FaultInjection>,
}

/// Where to panic on purpose, in builds for tests alone.
#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultInjection {
    /// In drawing the Logs screen.
    View,
    /// In taking in a key, on the Logs screen.
    Update,
}

/// Why the screen could not be opened, or was closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The input or the output is a file or a pipe.
    #[error("open the screen without a terminal: standard input and output must be one")]
    NotATerminal,
    /// The terminal does not do what is asked of it.
    #[error("use the terminal")]
    Terminal(#[source] std::io::Error),
    /// A part of the program stopped by a mistake of ours, told on the terminal.
    #[error("go on after a panic")]
    Panicked,
    /// A screen could not be drawn, by a mistake of ours, and then not again.
    #[error("draw the {} screen, twice in a row; the report is in {report}", screen.name())]
    Broken {
        /// Which.
        screen: Screen,
        /// What is known of it.
        report: String,
    },
    /// The terminal cannot place text.
    #[error(
        "open the screen on a terminal without a cursor (TERM=dumb): `triptych --help` names the \
         commands that print lines"
    )]
    NoCursor,
}

/// Opens the screen, and returns once it was closed: the terminal is as it was, and local processes
/// are gone.
///
/// The first frame is drawn before anything else is begun.
///
/// # Errors
/// [`RunError::NotATerminal`] before anything was changed; the others after all was put back.
pub async fn run(options: TuiOptions) -> Result<(), RunError> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(RunError::NotATerminal);
    }
    let TuiOptions { start, local, theme, is_asked, depth, has_mouse, is_far, clock, .. } = options;
    guard::watch(options.reports.as_deref());
    let local: Option<Arc<dyn LocalStack>> = local.map(Arc::from);
    let keeper: Option<Arc<dyn Profiles>> = options.keeper.map(Arc::from);
    let terminal = Terminal::open(has_mouse).map_err(RunError::Terminal)?;
    let signals = Signals::listen().map_err(RunError::Terminal)?;
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let (local_events, local_inbox) = mpsc::channel(LOCAL_EVENTS_MAX);
    let mut state = State {
        now: clock.now(),
        changed_at: clock.now(),
        size: terminal.size(),
        opening_theme: theme,
        has_mouse,
        profiles: options.profiles,
        own_themes: options.own_themes,
        keys: options.keys,
        symbols: options.symbols,
        ..State::default()
    };
    let last = options.session.as_deref().and_then(|path| std::fs::read_to_string(path).ok());
    session::take_up(&mut state, &last.unwrap_or_default());
    state.tell_of_theme_faults(&options.theme_faults);
    let mut screen = Loop {
        state,
        depth,
        is_asked: is_asked && depth != Depth::None,
        clock,
        pacer: Pacer::new(is_far),
        hits: Hits::default(),
        runner: Runner::new(events, local_events, local.clone())
            .with_profiles(keeper)
            .with_presets(options.presets),
        terminal,
        signals,
        keys: EventStream::new(),
        replies: Replies::default(),
        #[cfg(debug_assertions)]
        fault: options.fault,
        broken: None,
        is_pressed: false,
        is_paging: false,
        echo_until: None,
        inbox,
        local_inbox,
    };
    let result = screen.run(start).await;
    let Loop { terminal, runner, mut local_inbox, state, .. } = screen;
    // The terminal first: whoever quit sees the prompt again at once.
    drop(terminal);
    if let Some(path) = &options.session
        && let Err(error) = keep(path, &session::text(&state))
    {
        tracing::warn!(%error, "cannot keep the session in {}", path.display());
    }
    runner.shutdown().await;
    if let Some(local) = local {
        // Whoever still tells of its end must not wait for a reader.
        local_inbox.close();
        if timeout(STOP_WITHIN, local.stop()).await.is_err() {
            tracing::warn!("local processes did not end within {STOP_WITHIN:?}");
        }
    }
    result
}

/// Writes `text` to `path`, in a folder that is made if it is missing.
fn keep(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    write_atomic(path, text.as_bytes(), FileMode::Private)
}

struct Loop {
    state: State,
    depth: Depth,
    is_asked: bool,
    clock: Clock,
    pacer: Pacer,
    hits: Hits,
    runner: Runner,
    terminal: Terminal,
    signals: Signals,
    keys: EventStream,
    replies: Replies,
    #[cfg(debug_assertions)]
    fault: Option<FaultInjection>,
    /// The screen whose last frame broke.
    broken: Option<Screen>,
    /// Whether somebody pressed or clicked since the last frame.
    is_pressed: bool,
    /// Whether a pager has the terminal.
    is_paging: bool,
    /// Until when a signal to stop is the one by which we stopped the job.
    echo_until: Option<Instant>,
    inbox: mpsc::Receiver<Event>,
    local_inbox: mpsc::Receiver<LocalEvent>,
}

/// What the loop waits for.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Next {
    Signal(Signal),
    Term(Option<std::io::Result<TermEvent>>),
    Event(Event),
    Timer,
    Frame,
}

/// Whether to go on.
enum Flow {
    On,
    End,
}

impl Loop {
    async fn run(&mut self, start: Start) -> Result<(), RunError> {
        let effects = update::start(&mut self.state, start);
        self.draw()?;
        if self.is_asked {
            self.terminal.ask().map_err(RunError::Terminal)?;
        }
        sleep(SHOWN_WITHIN).await;
        if matches!(self.perform(effects)?, Flow::End) {
            return Ok(());
        }
        loop {
            let next = self.wait().await;
            if self.terminal.is_lost() {
                return Err(RunError::Panicked);
            }
            self.state.now = self.clock.now();
            if matches!(self.take(next)?, Flow::End) {
                return Ok(());
            }
            if matches!(self.ring()?, Flow::End) {
                return Ok(());
            }
            let mut n_taken = 0;
            while n_taken < BATCH_MAX
                && let Some(next) = self.ready().await
            {
                n_taken += 1;
                if matches!(self.take(next)?, Flow::End) {
                    return Ok(());
                }
            }
            self.pacer.soil(std::mem::take(&mut self.state.dirty));
            self.draw_what_is_due()?;
        }
    }

    /// Draws a frame if one is due, and shows anything new.
    fn draw_what_is_due(&mut self) -> Result<(), RunError> {
        let now = Instant::now();
        if self.is_paging || !self.pacer.is_due(now) {
            return Ok(());
        }
        // What broke is tried again when somebody does something about it.
        let is_left = self.broken.is_some() && self.pacer.cause() < Dirty::Input;
        let is_doubtful = self.pacer.is_doubtful(now) && !self.state.is_animated();
        if is_left || (is_doubtful && !self.has_news()) {
            self.pacer.spared(now);
            return Ok(());
        }
        if self.pacer.cause() > Dirty::Animation {
            self.state.changed_at = self.clock.now();
        }
        self.draw()
    }

    /// Whether a frame as of the moment of the last one would be another: whether there is more to
    /// show than later ages.
    fn has_news(&mut self) -> bool {
        let now = std::mem::replace(&mut self.state.now, self.state.drawn_at);
        let (state, theme) = (&self.state, Theme::new(self.state.theme_name(), self.depth));
        let has_news = self.terminal.would_change(|area, buf| {
            // What breaks here breaks again when it is drawn.
            guard::guarded(|| view::draw(area, buf, state, &theme)).ok();
        });
        self.state.now = now;
        has_news
    }

    /// Waits for whatever comes first; of what is there already, what is most urgent.
    async fn wait(&mut self) -> Next {
        let frame = self.pacer.next();
        let timer = self.runner.next_timer();
        tokio::select! {
            biased;
            signal = self.signals.next() => Next::Signal(signal),
            event = self.keys.next(), if !self.is_paging => Next::Term(event),
            Some(event) = self.inbox.recv() => Next::Event(event),
            Some(event) = self.local_inbox.recv() => Next::Event(Event::Local(event)),
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => Next::Timer,
            () = sleep_until(frame.unwrap_or_else(Instant::now)), if frame.is_some() && !self.is_paging => {
                Next::Frame
            }
        }
    }

    /// What else is there already.
    async fn ready(&mut self) -> Option<Next> {
        if !self.is_paging
            && let Some(event) = ready_of(&mut self.keys).await
        {
            return Some(Next::Term(event));
        }
        if let Ok(event) = self.inbox.try_recv() {
            return Some(Next::Event(event));
        }
        self.local_inbox.try_recv().ok().map(|event| Next::Event(Event::Local(event)))
    }

    /// Tells of the timers that are due, however much else there is to tell of.
    fn ring(&mut self) -> Result<Flow, RunError> {
        for timer in self.runner.due_timers(Instant::now()) {
            let effects = update::update(&mut self.state, Event::Woke(timer));
            if matches!(self.perform(effects)?, Flow::End) {
                return Ok(Flow::End);
            }
        }
        Ok(Flow::On)
    }

    fn take(&mut self, next: Next) -> Result<Flow, RunError> {
        let event = match next {
            Next::Event(event) => {
                if matches!(event, Event::Paged(_)) {
                    self.is_paging = false;
                    self.terminal.reopen().map_err(RunError::Terminal)?;
                }
                event
            }
            Next::Term(Some(Ok(event))) => return self.take_term(event),
            Next::Term(Some(Err(error))) => return Err(RunError::Terminal(error)),
            // The terminal is gone, and nobody can see or quit the screen any more.
            Next::Term(None) => return Ok(Flow::End),
            // A pager answers these itself.
            Next::Signal(Signal::Interrupt | Signal::Continue) if self.is_paging => {
                return Ok(Flow::On);
            }
            Next::Signal(Signal::Stop) if self.is_paging => {
                Terminal::stop_below().map_err(RunError::Terminal)?;
                return Ok(Flow::On);
            }
            Next::Signal(Signal::Terminate | Signal::Interrupt) => Event::Terminate,
            Next::Signal(Signal::Stop) => {
                let is_echo = self.echo_until.take().is_some_and(|until| Instant::now() < until);
                return if is_echo { Ok(Flow::On) } else { self.perform(vec![Effect::Suspend]) };
            }
            Next::Signal(Signal::Continue) => {
                self.terminal.reopen().map_err(RunError::Terminal)?;
                self.state.soil(Dirty::Input);
                return Ok(Flow::On);
            }
            Next::Timer | Next::Frame => return Ok(Flow::On),
        };
        let effects = update::update(&mut self.state, event);
        self.perform(effects)
    }

    /// Takes in what the terminal sent: an answer of its own, or what a person did.
    fn take_term(&mut self, event: TermEvent) -> Result<Flow, RunError> {
        if matches!(event, TermEvent::Resize(..)) {
            // Also where the size is that of the last frame again: what was cut off is gone.
            self.terminal.redraw();
        }
        let (background, events) = self.replies.take(event);
        let told = background.map(Event::Background);
        let events: Vec<Event> = told
            .into_iter()
            .chain(events.iter().filter_map(|event| self.translated(event)))
            .collect();
        for event in events {
            self.is_pressed |= matches!(event, Event::Key(_) | Event::Click(_) | Event::Wheel(..));
            #[cfg(debug_assertions)]
            panic_if(
                self.fault == Some(FaultInjection::Update)
                    && matches!(event, Event::Key(_))
                    && self.state.screen == Screen::Logs,
            );
            let effects = update::update(&mut self.state, event);
            if matches!(self.perform(effects)?, Flow::End) {
                return Ok(Flow::End);
            }
        }
        Ok(Flow::On)
    }

    /// What an event of the terminal means, by what the last frame showed.
    fn translated(&self, event: &TermEvent) -> Option<Event> {
        Some(match event {
            TermEvent::Key(key) if key.kind != KeyEventKind::Release => {
                match self.state.overlays.last() {
                    Some(Overlay::Jump(typed)) => self.hits.jumped(typed, Chord::of(key)),
                    _ => Event::Key(Chord::of(key)),
                }
            }
            TermEvent::Paste(text) => Event::Paste(text.clone()),
            TermEvent::Resize(width, height) => Event::Resized { width: *width, height: *height },
            TermEvent::FocusGained => Event::Focused(true),
            TermEvent::FocusLost => Event::Focused(false),
            TermEvent::Mouse(mouse) => {
                let target = self.hits.at(mouse.column, mouse.row);
                match mouse.kind {
                    MouseEventKind::Down(MouseButton::Left) => Event::Click(target?),
                    MouseEventKind::ScrollUp => {
                        Event::Wheel(target.unwrap_or(Target::Pane(0)), -view::WHEEL_ROWS)
                    }
                    MouseEventKind::ScrollDown => {
                        Event::Wheel(target.unwrap_or(Target::Pane(0)), view::WHEEL_ROWS)
                    }
                    _ => return None,
                }
            }
            TermEvent::Key(_) => return None,
        })
    }

    fn perform(&mut self, effects: Vec<Effect>) -> Result<Flow, RunError> {
        for effect in effects {
            match self.runner.perform(effect) {
                None => {}
                Some(Wish::Quit) => return Ok(Flow::End),
                Some(Wish::Page(text)) => {
                    self.terminal.lend();
                    // One that nobody polls reads no keys, and the one before ends here.
                    self.keys = EventStream::new();
                    self.is_paging = true;
                    self.runner.page(text);
                }
                Some(wish) => {
                    self.terminal.grant(&wish).map_err(RunError::Terminal)?;
                    if matches!(wish, Wish::Suspend) {
                        self.echo_until = Some(Instant::now() + ECHO_WITHIN);
                    }
                    self.state.soil(Dirty::Input);
                }
            }
        }
        Ok(Flow::On)
    }

    fn draw(&mut self) -> Result<(), RunError> {
        self.state.now = self.clock.now();
        self.state.drawn_at = self.state.now;
        let theme = Theme::new(self.state.theme_name(), self.depth);
        let state = &self.state;
        let mut hits = Hits::default();
        let mut broken = None;
        #[cfg(debug_assertions)]
        let fault = self.fault;
        let drawn = self.terminal.draw(|area, buf| {
            let draw = || {
                #[cfg(debug_assertions)]
                panic_if(fault == Some(FaultInjection::View) && state.screen == Screen::Logs);
                view::draw(area, buf, state, &theme)
            };
            match guard::guarded(draw) {
                Ok(drawn) => hits = drawn,
                Err(why) => {
                    view::draw_broken(area, buf, (state, &theme), &why);
                    broken = Some(state.screen);
                }
            }
        });
        drawn.map_err(RunError::Terminal)?;
        let before = std::mem::replace(&mut self.broken, broken);
        let is_pressed = std::mem::take(&mut self.is_pressed);
        if let Some(screen) = broken.filter(|broken| is_pressed && before == Some(*broken)) {
            let report = guard::report_path().unwrap_or_default().display().to_string();
            return Err(RunError::Broken { screen, report });
        }
        self.hits = hits;
        self.state.dirty = Dirty::Clean;
        let is_animated = self.state.is_animated() && !self.state.is_behind;
        self.pacer.drawn(Instant::now(), is_animated);
        self.runner.perform(match self.state.unchanged_for() {
            Some(wait) => Effect::Wake(Timer::Age, wait),
            None => Effect::Forget(Timer::Age),
        });
        Ok(())
    }
}

/// Panics if a test asked for it.
#[cfg(debug_assertions)]
fn panic_if(is_wanted: bool) {
    assert!(!is_wanted, "a mistake on purpose");
}

/// What `stream` gives without waiting; none if that is nothing yet.
///
/// Polls as whoever awaits it, never with a waker of no effect: the terminal's stream keeps the
/// first waker it is given until the next key, which would then wake nobody.
async fn ready_of<S: Stream + Unpin>(stream: &mut S) -> Option<Option<S::Item>> {
    poll_fn(|context| match stream.poll_next_unpin(context) {
        Poll::Ready(item) => Poll::Ready(Some(item)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

impl std::fmt::Debug for TuiOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TuiOptions")
            .field("start", &self.start)
            .field("theme", &self.theme)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Wake, Waker},
    };

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_look_at_what_is_ready_leaves_the_loop_to_be_woken_by_the_next_key() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let (mut keys, mut stream) = futures::channel::mpsc::channel(1);
        let look = pin!(ready_of(&mut stream)).poll(&mut context);
        assert_eq!(look, Poll::Ready(None), "nothing was pressed");
        keys.try_send('j').unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        let look = pin!(ready_of(&mut stream)).poll(&mut context);
        assert_eq!(look, Poll::Ready(Some(Some('j'))));
    }
}
