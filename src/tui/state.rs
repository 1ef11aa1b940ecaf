//! The state of the screen: the shared state and the state of each screen.
//!
//! `app` and the `update` modules change it, the `view` modules draw it. It does no I/O and reads no
//! clock.

pub(crate) mod change;
pub(crate) mod field;
pub(crate) mod form;
pub(crate) mod frames;
pub(crate) mod latency;
pub(crate) mod layout;
pub(crate) mod navigation;
pub(crate) mod nodes;
pub(crate) mod notices;
pub(crate) mod overlay;
pub(crate) mod palette;
pub(crate) mod pattern;
pub(crate) mod resource;
pub(crate) mod results;
pub(crate) mod runs;
pub(crate) mod services;
pub mod session;
pub(crate) mod stack;

use std::time::Duration;

use model::timestamp::Timestamp;
use wire::inference::TopicSummary;

use self::change::Account;
use self::field::Field;
use self::form::Form;
use self::frames::Frames;
use self::layout::Layout;
use self::nodes::Nodes;
use self::notices::{Alerts, Notice, Notices};
use self::runs::Runs;
use self::services::{Service, Services};
use self::session::SavedSelection;
use self::stack::Stack;
use crate::event::Effect;
use crate::keymap::{Chord, Keymap, Layer};
use crate::local::Level;
use crate::profiles::Profiles;
use crate::screens::cluster::state::ClusterContext;
use crate::screens::execute::state::Pane;
use crate::screens::{self, Screen};
use crate::state::layout::HiddenColumns;
use crate::state::overlay::Overlay;
use crate::state::resource::Failure;
use crate::theme;
use crate::widget::symbols::Symbols;

/// Time after which an idle screen is redrawn to refresh its ages.
const REST: Duration = Duration::from_mins(1);

/// Reason for the next frame, least urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Dirty {
    #[default]
    Clean,
    /// A periodic request or its response, for which the user does not wait.
    Poll,
    /// Only time has passed.
    Age,
    /// A spinner moves.
    Animation,
    /// An event of a service or a process.
    Data,
    /// User input, or a response for which the user waits.
    Input,
}

/// The whole state of the screen.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct State {
    pub(crate) now: Timestamp,
    /// Number of columns and rows of the terminal.
    pub(crate) size: (u16, u16),
    /// Screen in view.
    pub(crate) screen: Screen,
    /// True if the focused pane fills the screen.
    pub(crate) is_zoomed: bool,
    /// Theme that the user chose. `None` to match the terminal.
    pub(crate) theme: Option<theme::Name>,
    /// Theme that the command line or the environment requests.
    pub(crate) initial_theme: theme::InitialTheme,
    /// Theme in the session file. `None` to match the terminal.
    pub(crate) session_theme: Option<theme::Name>,
    /// The user-defined themes.
    pub(crate) custom_themes: Vec<&'static theme::custom::CustomTheme>,
    /// Symbols for charts and marks.
    pub(crate) symbols: Symbols,
    /// Hidden columns of tables.
    pub(crate) hidden_columns: HiddenColumns,
    /// Offsets of the dividers between panes.
    pub(crate) layout: Layout,
    /// Selection in the session file that is restored as soon as it is listed.
    pub(crate) saved_selection: SavedSelection,
    pub(crate) profiles: Profiles,
    /// Account that is logged in, if any.
    pub(crate) account: Option<Account>,
    /// Background color of the terminal. `None` until the terminal reports it.
    pub(crate) background: Option<[u8; 3]>,
    /// True if the mouse is captured.
    pub(crate) has_mouse: bool,
    /// True if the terminal does not have the focus of the desktop.
    pub(crate) is_behind: bool,
    /// Open overlays. The last overlay is on top.
    pub(crate) overlays: Vec<Overlay>,
    /// Bindings of all keys.
    pub(crate) keys: Keymap,
    /// Keys pressed so far of a sequence that is not complete yet.
    pub(crate) pending: Vec<Chord>,
    /// True after `^C`, until another key is pressed or [`Timer::Interrupt`](crate::event::Timer)
    /// is due.
    pub(crate) is_interrupted: bool,
    /// Effects requested by the current update.
    pub(crate) effects: Vec<Effect>,
    /// Most urgent reason for a frame since the last frame.
    pub(crate) dirty: Dirty,
    /// Frames that the screen has shown.
    pub(crate) frames: Frames,
    pub(crate) services: Services,
    pub(crate) stack: Stack,
    pub(crate) nodes: Nodes,
    pub(crate) runs: Runs,
    pub(crate) notices: Notices,
    pub(crate) alerts: Alerts,
    pub(crate) cluster: screens::cluster::state::State,
    /// Text that is searched for in the output of a run.
    pub(crate) output_search: Field,
    pub(crate) execute: screens::execute::state::State,
    pub(crate) data: screens::data::state::State,
    pub(crate) inference: screens::inference::state::State,
    pub(crate) logs: screens::logs::state::State,
    pub(crate) overview: screens::overview::state::State,
}

impl State {
    /// Returns the active layers of key bindings, highest precedence first.
    pub(crate) fn layers(&self) -> Vec<Layer> {
        if self.frames.past().is_some() {
            return Layer::Past.chain();
        }
        let overlay = self.overlays.last();
        overlay.map_or_else(|| self.layers_beneath(), |overlay| overlay.layer().chain())
    }

    /// Returns the layers of key bindings that are active if no overlay is open, highest
    /// precedence first.
    pub(crate) fn layers_beneath(&self) -> Vec<Layer> {
        let first = match self.screen {
            _ if self.is_filter_edited() => Layer::Edit,
            Screen::Cluster => Layer::Cluster,
            Screen::Execute if self.execute.is_form_edited() => Layer::Form,
            Screen::Execute => Layer::Execute,
            Screen::Data => Layer::Data,
            Screen::Inference => Layer::Inference,
            Screen::Logs => Layer::Logs,
            Screen::Overview => Layer::Overview,
        };
        first.chain()
    }

    /// Returns the text field that has focus.
    pub(crate) fn field(&mut self) -> Option<&mut Field> {
        let is_form = self.screen == Screen::Execute && self.execute.focus == Pane::Form;
        let is_output_searched = self.is_output_searched() && !is_form;
        if let Some(overlay) = self.overlays.last_mut() {
            return overlay.field();
        }
        if is_output_searched {
            return Some(&mut self.output_search);
        }
        match self.screen {
            Screen::Cluster => Some(&mut self.cluster.filter).filter(|filter| filter.is_edited()),
            Screen::Logs => Some(&mut self.logs.filter).filter(|filter| filter.is_edited()),
            Screen::Data => self.data.field(),
            Screen::Execute if self.execute.is_form_edited() => self.execute.form.field(),
            Screen::Execute | Screen::Inference | Screen::Overview => None,
        }
    }

    fn is_filter_edited(&self) -> bool {
        match self.screen {
            Screen::Cluster => self.cluster.filter.is_edited() || self.is_output_searched(),
            Screen::Logs => self.logs.filter.is_edited(),
            Screen::Data => self.data.is_edited(),
            Screen::Execute => self.execute.focus == Pane::Results && self.is_output_searched(),
            Screen::Inference | Screen::Overview => false,
        }
    }

    /// Returns true if the search field for the output of a run has focus.
    fn is_output_searched(&self) -> bool {
        matches!(self.screen, Screen::Cluster | Screen::Execute) && self.output_search.is_edited()
    }

    /// Returns true if `pane` of the Cluster screen has focus.
    pub(crate) fn is_pane_focused(&self, pane: screens::cluster::state::Pane) -> bool {
        self.screen == Screen::Cluster && self.cluster.focus == pane
    }

    /// Opens `overlay` above all other overlays.
    pub(crate) fn open(&mut self, overlay: Overlay) {
        self.pending.clear();
        self.overlays.push(overlay);
    }

    /// Opens `form` above all other overlays.
    pub(crate) fn open_form(&mut self, form: Form) {
        self.open(Overlay::Form(Box::new(form)));
    }

    /// Closes the topmost overlay and ends its preview of a theme. Returns false if no overlay is
    /// open.
    pub(crate) fn close(&mut self) -> bool {
        let closed = self.overlays.pop();
        if let Some(Overlay::Themes(themes)) = closed {
            self.theme = themes.before;
            return true;
        }
        closed.is_some()
    }

    /// Returns the theme that the user chose. If there is none, the theme that matches the
    /// terminal.
    pub(crate) fn theme_name(&self) -> theme::Name {
        let suitable = || self.background.map_or(theme::Name::Dark, theme::Name::for_background);
        self.theme.unwrap_or_else(suitable)
    }

    /// Returns the unit of the values of `topic`, from the metadata of its dataset. Empty if the
    /// unit is unknown, or if the topic has several labels, since their values are probabilities.
    pub(crate) fn unit_of(&self, topic: Option<&TopicSummary>) -> &str {
        let Some(topic) = topic.filter(|topic| topic.labels.len() < 2) else { return "" };
        let mut list = self.data.list().iter();
        let dataset = list.find(|dataset| dataset.name == topic.dataset);
        dataset.map_or("", |dataset| screens::data::state::live::unit(&dataset.metadata))
    }

    /// Reports user-defined themes that cannot be used.
    pub(crate) fn warn_theme_errors(&mut self, faults: &[String]) {
        let Some(first) = faults.first() else { return };
        for fault in faults {
            self.logs.log(Level::Warn, self.now, fault.clone());
        }
        self.notify_refused("a theme cannot be used", first.lines().next().unwrap_or_default());
    }

    /// Returns true if a secret is in view that must not be recorded.
    pub(crate) fn shows_secret(&self) -> bool {
        self.overlays.iter().any(|it| matches!(it, Overlay::Form(form) if form.has_secret()))
    }

    /// Returns the theme for the session file. A theme that was only requested for this start is
    /// not saved.
    fn theme_to_save(&self) -> Option<theme::Name> {
        match self.initial_theme {
            theme::InitialTheme::Given(given) if given == self.theme => self.session_theme,
            _ => self.theme,
        }
    }

    /// Returns the address of the head that executes new runs.
    pub(crate) fn form_head(&self) -> Option<&str> {
        self.services.address(Service::Head(self.nodes.run_head?))
    }

    /// Returns the parts of the state that the Cluster and the Execute screen read.
    pub(crate) fn cluster_context(&self) -> ClusterContext<'_> {
        ClusterContext {
            nodes: &self.nodes,
            stack: &self.stack,
            runs: &self.runs,
            page: self.page(),
        }
    }

    /// Returns the number of rows by which a page key moves: half of the rows between the borders.
    pub(crate) fn page(&self) -> usize {
        usize::from(self.size.1.saturating_sub(8) / 2).max(1)
    }

    /// Returns true if a countdown or an elapsed time is in view, which changes each second.
    fn is_counting(&self) -> bool {
        let is_awaited = self.runs.n_waiting() > 0 || self.stack.step().is_some();
        let has_streams = matches!(self.screen, Screen::Data | Screen::Overview);
        is_awaited
            || self.frames.past().is_some()
            || self.services.is_counting(self.now)
            || (has_streams && self.data.is_counting(self.now))
    }

    /// Returns the time after which ages must be redrawn if nothing else happens, or `None` if the
    /// screen has no ages.
    ///
    /// The header shows the time of the frame. All ages refer to this time, so they need not be redrawn
    /// each second. Countdowns are redrawn each second, and so is the age of an unavailable service while
    /// it is shown in seconds.
    pub(crate) fn redraw_after(&self) -> Option<Duration> {
        let away = self.services.away_ages_in(self.now);
        if self.is_counting() {
            let left = 1_000_000 - self.now.micros().rem_euclid(1_000_000);
            return Some(Duration::from_micros(u64::try_from(left).unwrap_or(1_000_000)));
        }
        self.services.is_any_known().then_some(away.map_or(REST, |away| away.min(REST)))
    }

    /// Returns true if a spinner is in view.
    pub(crate) fn is_animated(&self) -> bool {
        self.runs.n_waiting() > 0
            || self.stack.step().is_some()
            || matches!(self.overlays.last(), Some(Overlay::Form(form)) if form.is_sent())
            || self.data.is_animated()
            || self.inference.is_animated()
            || (self.screen == Screen::Cluster && self.nodes.best_list().is_loading())
            || (self.screen == Screen::Overview
                && (self.nodes.best_list().is_loading()
                    || self.data.datasets.is_loading()
                    || self.inference.topics.is_loading()))
    }

    /// Requests a frame for the reason `dirty`. A more urgent reason replaces a less urgent one.
    pub(crate) fn mark_dirty(&mut self, dirty: Dirty) {
        self.dirty = self.dirty.max(dirty);
    }

    /// Reports a failure by a notice and a log line.
    pub(crate) fn notify_failure(&mut self, failure: &Failure) {
        self.notify_failure_unless_on(&[], failure);
    }

    /// Reports a failure by a log line. Adds a notice unless one of `screens` is in view, where a
    /// pane shows the failure.
    pub(crate) fn notify_failure_unless_on(&mut self, screens: &[Screen], failure: &Failure) {
        let text = format!("failed to {}", failure.what);
        let detail = match (failure.why.as_str(), failure.next.as_str()) {
            (why, "") => why.to_owned(),
            (why, next) => format!("{why}; {next}"),
        };
        self.report(screens, Level::Error, text, detail);
    }

    /// Reports a success by a notice and a log line.
    pub(crate) fn notify(&mut self, text: impl Into<String>, detail: impl Into<String>) {
        self.report(&[], Level::Info, text, detail);
    }

    /// Reports by a notice and a log line that an action had no effect. `detail` is the reason.
    pub(crate) fn notify_refused(&mut self, text: impl Into<String>, detail: impl Into<String>) {
        self.report(&[], Level::Warn, text, detail);
    }

    /// Reports an outcome by a log line. Adds a notice unless one of `screens` is in view, where a
    /// pane shows the outcome.
    pub(crate) fn report(
        &mut self,
        screens: &[Screen],
        level: Level,
        text: impl Into<String>,
        detail: impl Into<String>,
    ) {
        let (text, detail) = (text.into(), detail.into());
        let line = if detail.is_empty() { text.clone() } else { format!("{text}: {detail}") };
        let log_level = if level == Level::Error { Level::Warn } else { Level::Info };
        self.logs.log(log_level, self.now, line);
        let is_hidden = screens.contains(&self.screen) && self.overlays.is_empty();
        let until = (!is_hidden).then(|| Notices::until(level, self.now));
        self.notices.add(Notice { level, text, detail, at: self.now, until });
    }
}
