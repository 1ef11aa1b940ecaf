//! The pane Start here: first steps and the names of functions, datasets and topics. This pane takes the
//! place of runs and results until there is a run.

use model::dataset::Dataset;
use model::topic::TopicId;
use ratatui::prelude::*;
use wire::functions::FunctionBody;
use wire::inference::TopicSummary;

use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::overlay::update::reach;
use crate::screens::Screen;
use crate::screens::cluster::state::Pane;
use crate::state::navigation::{Steps as _, moved};
use crate::state::palette::Goal;
use crate::state::services::Service;
use crate::state::{State, stack};
use crate::view::{Frame, split_rows, text_cut};
use crate::widget::format::{self, NONE};
use crate::widget::{paint, pane};

/// Maximum number of names in each list. The other screens show complete lists.
pub(crate) const NAMES_MAX: usize = 8;

/// Minimum height of a terminal in which the lists fit below the steps.
const HEIGHT_MIN: u16 = 30;

impl State {
    /// Returns true if the pane is in view and its names can be selected.
    fn is_start_open(&self) -> bool {
        let has_room = self.size.1 >= HEIGHT_MIN || self.is_zoomed;
        self.screen == Screen::Cluster && self.runs.newest().is_none() && has_room
    }
}

/// A list of functions, datasets or topics.
pub(crate) struct NameList {
    title: String,
    n_names: usize,
    /// The visible names, each with two facts and the target that it opens.
    rows: Vec<([String; 3], Goal)>,
}

impl NameList {
    /// Returns a list of the first of `n_names` names. `kind` and `verb` are for its title.
    fn new(
        n_names: usize,
        [kind, verb]: [&str; 2],
        rows: impl Iterator<Item = ([String; 3], Goal)>,
    ) -> Self {
        let title = format!("{} to {verb}", format::counted(n_names, kind));
        // The number of hidden names takes a row. If only one name would be hidden, the name is
        // shown in this row.
        let n_rows = if n_names > NAMES_MAX + 1 { NAMES_MAX } else { n_names };
        Self { title, n_names, rows: rows.take(n_rows).collect() }
    }

    /// Returns the functions of the head.
    pub(crate) fn of_functions(state: &State) -> Self {
        let functions = &state.execute.form.functions;
        let rows =
            functions.iter().map(|FunctionBody { name, function_id, method, bytes, .. }| {
                let size = if *bytes == 0 { NONE.to_owned() } else { format::bytes(*bytes) };
                let texts = [name.clone(), format::short_cid(function_id).into_owned(), size];
                (texts, Goal::Function(function_id.clone(), method.clone()))
            });
        Self::new(functions.len(), ["function", "run"], rows)
    }

    fn of_datasets(state: &State) -> Self {
        let rows = state.data.list().iter().map(|dataset: &Dataset| {
            let fact = |name: &str| dataset.metadata.get(name).cloned();
            let every = fact("frequency").map(|it| format!("every {it}")).unwrap_or_default();
            let texts = [dataset.name.clone(), fact("source").unwrap_or_default(), every];
            (texts, Goal::Dataset(dataset.id))
        });
        Self::new(state.data.list().len(), ["dataset", "watch"], rows)
    }

    fn of_topics(state: &State) -> Self {
        let topics = state.inference.topics.value().map_or(&[][..], |list| &list.topics);
        let rows = topics.iter().filter_map(|topic: &TopicSummary| {
            let texts = [topic.name.clone(), String::new(), format!("of {}", topic.dataset)];
            Some((texts, Goal::Topic(TopicId::new(topic.topic_id)?)))
        });
        Self::new(topics.len(), ["topic", "follow"], rows)
    }

    /// Returns the lists of the pane: functions, datasets and topics.
    pub(crate) fn all(state: &State) -> [Self; 3] {
        [Self::of_functions(state), Self::of_datasets(state), Self::of_topics(state)]
    }

    /// Returns the targets that the names of all lists open.
    fn goals(state: &State) -> Vec<Goal> {
        let rows = Self::all(state).into_iter().flat_map(|list| list.rows);
        rows.map(|(_, goal)| goal).collect()
    }

    /// Draws the title and as many names as fit, followed by an empty row. Draws nothing if the
    /// list has no names or there is too little space. Returns the height and the number of
    /// visible names.
    pub(crate) fn draw(&self, area: Rect, buf: &mut Buffer, frame: Frame<'_>) -> (u16, usize) {
        let theme = frame.theme;
        if self.rows.is_empty() || area.height < LIST_HEIGHT_MIN {
            return (0, 0);
        }
        paint::text(buf, area, (0, 0), &self.title, theme.text.add_modifier(Modifier::BOLD));
        // If not all names fit, the last row contains the number of hidden names.
        let n_fit = usize::from(area.height - 1).min(NAMES_MAX + 1);
        let n_shown = if self.n_names > n_fit { n_fit - 1 } else { self.n_names };
        let width = usize::from(area.width);
        for (y, ([name, kind, amount], _)) in (1..).zip(self.rows.iter().take(n_shown)) {
            let room = if kind.is_empty() { width.saturating_sub(30) } else { NAME_WIDTH };
            let name = format::left(name, room.min(width));
            let x = paint::text(buf, area, (2, y), &name, theme.accent2) + 2;
            paint::text(buf, area, (x, y), kind, theme.muted);
            paint::text_before(buf, area, (area.width, y), amount, theme.muted);
        }
        let n_drawn = u16::try_from(n_shown).unwrap_or(u16::MAX);
        if self.n_names > n_shown {
            let more = format!("{} more", self.n_names - n_shown);
            paint::text(buf, area, (2, n_drawn + 1), &more, theme.muted);
            return ((n_drawn + 3).min(area.height), n_shown);
        }
        (n_drawn + 2, n_shown)
    }
}

/// Performs an action while the pane has focus. Returns false if the pane does not handle it.
pub(crate) fn act(state: &mut State, action: Action) -> bool {
    let is_here = matches!(state.cluster.focus, Pane::Runs | Pane::Groups);
    if !is_here || !state.is_start_open() || !state.overlays.is_empty() {
        return false;
    }
    let goals = NameList::goals(state);
    let row = state.cluster.start_row.min(goals.len().saturating_sub(1));
    if action == Action::Open {
        return open(state, row);
    }
    match moved(action, row, goals.len(), state.page()) {
        Some(row) => state.cluster.start_row = row,
        None => return false,
    }
    true
}

/// Opens the name that was clicked. Returns false if the click was elsewhere.
pub(crate) fn click(state: &mut State, target: Target) -> bool {
    let Target::Row { pane, row } = target else { return false };
    let is_name = pane == Pane::Groups.number() && state.is_start_open();
    is_name && open(state, row)
}

fn open(state: &mut State, row: usize) -> bool {
    let Some(goal) = NameList::goals(state).into_iter().nth(row) else { return false };
    state.cluster.focus = Pane::Groups;
    state.cluster.start_row = row;
    reach(state, goal);
    true
}

/// Width of the keys of a step, such as `e then ^R`, including a gap.
const KEYS_WIDTH: u16 = 14;

/// Width of a name in a list.
const NAME_WIDTH: usize = 26;

/// Minimum height of a list: its title and two rows.
const LIST_HEIGHT_MIN: u16 = 3;

/// Minimum height that remains for the lists below steps with gaps between them.
const LISTS_HEIGHT: u16 = 16;

/// A first step: the keys to press, its description, and its action.
type Step = (Vec<String>, String, Action);

/// Draws the pane Start here.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let theme = frame.theme;
    frame.hits.add(area, Target::Pane(Pane::Groups.number()));
    let is_here =
        frame.state.is_pane_focused(Pane::Groups) || frame.state.is_pane_focused(Pane::Runs);
    let of = pane::Pane::new("Start here").focus(is_here);
    let inside = of.draw(area, buf, theme);
    let steps = steps(frame);
    // Steps have a gap between them if the lists still fit.
    let n_steps = u16::try_from(steps.len()).unwrap_or(u16::MAX);
    let pitch = if inside.height >= n_steps * 2 + LISTS_HEIGHT { 2 } else { 1 };
    let top = u16::from(inside.height > n_steps);
    let mut y = top;
    for (keys, words, action) in steps {
        if y >= inside.height {
            return;
        }
        let mut x = 0;
        for (idx, key) in keys.iter().enumerate() {
            let then = if idx == 0 { "" } else { " then " };
            x = paint::text(buf, inside, (x, y), then, theme.muted);
            x = paint::text(buf, inside, (x, y), key, theme.key);
        }
        text_cut(buf, inside, (KEYS_WIDTH, y), &words, theme.text);
        let place = Rect { y: inside.y.saturating_add(y), height: 1, ..inside };
        frame.hits.add(place.intersection(inside), Target::Action(action));
        y += pitch;
    }
    let [_, mut rest] = split_rows(inside, y + 1);
    let lists = NameList::all(frame.state);
    if lists.iter().all(|list| list.rows.is_empty()) {
        draw_services(rest, buf, frame);
    }
    let mut first = 0;
    for list in lists {
        let (height, n_shown) = list.draw(rest, buf, frame);
        for (row, place) in (first..first + n_shown).zip(split_rows(rest, 1)[1].rows()) {
            if is_here && frame.state.cluster.start_row == row {
                paint::row_style(buf, place, 0, theme.sel);
            }
            frame.hits.add(place, Target::Row { pane: Pane::Groups.number(), row });
        }
        first += list.rows.len();
        rest = split_rows(rest, height)[1];
    }
}

/// Draws a short description of the three services.
fn draw_services(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let theme = frame.theme;
    let rows = [
        ("cluster", "runs WebAssembly functions on many nodes, groups equal results"),
        ("datasets", "stores time series and streams their new rows"),
        ("inference", "combines many models' predictions and learns which are right"),
    ];
    for (y, (name, words)) in (0..area.height).step_by(2).zip(rows) {
        paint::text(buf, area, (0, y), name, theme.accent2);
        text_cut(buf, area, (KEYS_WIDTH, y), words, theme.muted);
    }
}

/// Returns the steps that are possible now, the most useful step first.
fn steps(frame: Frame<'_>) -> Vec<Step> {
    let state = frame.state;
    let key = |layer, action| frame.key(layer, action);
    let global = |action, words: String| (vec![key(Layer::Global, action)], words, action);
    let mut steps = Vec::new();
    let is_starting = state.stack.phase == stack::Phase::Starting;
    let has = |service| state.services.address(service).is_some() || is_starting;
    if !state.services.addresses.heads.is_empty() || is_starting {
        let form = &state.execute.form;
        let name = form.chosen_function().map_or("a function", |function| function.name.as_str());
        let n_workers = state.nodes.n_workers_in("", None, &state.stack);
        let on = match n_workers {
            0 => "the workers".to_owned(),
            n => format::counted(n, "worker"),
        };
        let action = Action::OpenForm;
        let keys = vec![key(Layer::Cluster, action), key(Layer::Form, Action::Run)];
        let words = format!("run {name} on {on}; equal results form one group");
        steps.push((keys, words, action));
    } else {
        let action = Action::AddNode;
        let words = "start a head on this machine, then workers".to_owned();
        steps.push((vec![key(Layer::Cluster, action)], words, action));
        steps.push(global(Action::Profiles, "use services of another machine".to_owned()));
    }
    if has(Service::Data) {
        let words = match state.data.list().len() {
            0 => "watch datasets live".to_owned(),
            n => format!("watch {} live", format::counted(n, "dataset")),
        };
        steps.push(global(Action::Show(Screen::Data), words));
    }
    if has(Service::Inference) {
        let topics = state.inference.topics.value().map_or(&[][..], |list| &list.topics);
        let words = match topics.len() {
            0 => "see the network's values and their sources".to_owned(),
            n => format!("see the inferences of {}", format::counted(n, "topic")),
        };
        steps.push(global(Action::Show(Screen::Inference), words));
    }
    steps.push(global(Action::Show(Screen::Overview), "a summary of everything".to_owned()));
    steps.push(global(Action::Palette, "find anything by name".to_owned()));
    steps.push(global(Action::Help, "the keys of the current screen".to_owned()));
    steps
}
