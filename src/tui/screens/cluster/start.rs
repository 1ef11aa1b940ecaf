//! The pane Start here: first steps and names to open, in place of runs and results until there is
//! a run.

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

/// Maximum number of names in each list. The other screens list all of them.
pub(crate) const NAMES_MAX: usize = 8;

/// Minimum height of a terminal with space for the lists below the steps.
const HEIGHT_MIN: u16 = 30;

impl State {
    /// Returns true if the pane is in view and its names can be selected.
    fn is_start_open(&self) -> bool {
        let has_room = self.size.1 >= HEIGHT_MIN || self.is_zoomed;
        self.screen == Screen::Cluster && self.runs.newest().is_none() && has_room
    }

    /// Returns the targets of the names: functions, datasets, topics.
    pub(crate) fn start_goals(&self) -> [Vec<Goal>; 3] {
        let functions = self.execute.form.functions.iter().take(NAMES_MAX);
        let datasets = self.data.list().iter().take(NAMES_MAX);
        let topics = self.inference.topics.value().map_or(&[][..], |list| &list.topics);
        let topics = topics.iter().filter_map(|topic| TopicId::new(topic.topic_id));
        [
            functions.map(|it| Goal::Function(it.function_id.clone(), it.method.clone())).collect(),
            datasets.map(|dataset| Goal::Dataset(dataset.id)).collect(),
            topics.take(NAMES_MAX).map(Goal::Topic).collect(),
        ]
    }
}

/// Handles an action while the pane has focus. Returns false if it was not handled.
pub(crate) fn act(state: &mut State, action: Action) -> bool {
    let is_here = matches!(state.cluster.focus, Pane::Runs | Pane::Groups);
    if !is_here || !state.is_start_open() || !state.overlays.is_empty() {
        return false;
    }
    let goals = state.start_goals().concat();
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

/// Opens a clicked name. Returns false if the click was elsewhere.
pub(crate) fn click(state: &mut State, target: Target) -> bool {
    let Target::Row { pane, row } = target else { return false };
    let is_name = pane == Pane::Groups.number() && state.is_start_open();
    is_name && open(state, row)
}

fn open(state: &mut State, row: usize) -> bool {
    let Some(goal) = state.start_goals().concat().into_iter().nth(row) else { return false };
    state.cluster.focus = Pane::Groups;
    state.cluster.start_row = row;
    reach(state, goal);
    true
}

/// Width of the keys of a step, `e then ^R`, including a gap.
const KEYS_WIDTH: u16 = 14;

/// Width of a name in a list.
const NAME_WIDTH: usize = 26;

/// Minimum height of a list: its title and two rows.
const LIST_HEIGHT_MIN: u16 = 3;

/// Minimum height of the lists if there is a gap between the steps.
const LISTS_HEIGHT: u16 = 16;

/// Draws a list of names. Returns its height and the number of visible names.
type List = fn(Rect, &mut Buffer, Frame<'_>) -> (u16, usize);

/// A first step, with the keys for it.
struct Step {
    keys: Vec<String>,
    words: String,
    action: Action,
}

/// Draws the pane Start here.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let theme = frame.theme;
    frame.hits.add(area, Target::Pane(Pane::Groups.number()));
    let is_here =
        frame.state.is_pane_focused(Pane::Groups) || frame.state.is_pane_focused(Pane::Runs);
    let of = pane::Pane::new("Start here").focus(is_here);
    let inside = of.draw(area, buf, theme);
    let steps = steps(frame);
    // There is a gap between the steps if there is space.
    let n_steps = u16::try_from(steps.len()).unwrap_or(u16::MAX);
    let pitch = if inside.height >= n_steps * 2 + LISTS_HEIGHT { 2 } else { 1 };
    let top = u16::from(inside.height > n_steps);
    let mut y = top;
    for step in steps {
        if y >= inside.height {
            return;
        }
        let mut line = Line::default();
        for (idx, key) in step.keys.iter().enumerate() {
            let then = if idx == 0 { "" } else { " then " };
            line.push_span(Span::styled(then, theme.muted));
            line.push_span(Span::styled(key.clone(), theme.key));
        }
        paint::line(buf, inside, (0, y), &line);
        text_cut(buf, inside, (KEYS_WIDTH, y), &step.words, theme.text);
        let place = Rect { y: inside.y.saturating_add(y), height: 1, ..inside };
        frame.hits.add(place.intersection(inside), Target::Action(step.action));
        y += pitch;
    }
    let [_, mut rest] = split_rows(inside, y + 1);
    if is_nothing_listed(frame) {
        draw_services(rest, buf, frame);
    }
    let counts = frame.state.start_goals().map(|goals| goals.len());
    let mut first = 0;
    let lists: [List; 3] = [draw_functions, draw_datasets, draw_topics];
    for (draw, n_goals) in lists.into_iter().zip(counts) {
        let (height, n_shown) = draw(rest, buf, frame);
        for (row, place) in (first..first + n_goals.min(n_shown)).zip(split_rows(rest, 1)[1].rows())
        {
            if is_here && frame.state.cluster.start_row == row {
                paint::row_style(buf, place, 0, theme.sel);
            }
            frame.hits.add(place, Target::Row { pane: Pane::Groups.number(), row });
        }
        first += n_goals;
        rest = split_rows(rest, height)[1];
    }
}

/// Returns true if no service has listed anything yet.
fn is_nothing_listed(frame: Frame<'_>) -> bool {
    let state = frame.state;
    state.execute.form.functions.is_empty()
        && state.data.list().is_empty()
        && state.inference.topics.value().is_none()
}

/// Draws a description of the three services.
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

/// Returns the steps, the most useful one first.
fn steps(frame: Frame<'_>) -> Vec<Step> {
    let state = frame.state;
    let key = |layer, action| frame.key(layer, action);
    let global =
        |action, words: String| Step { keys: vec![key(Layer::Global, action)], words, action };
    let mut steps = Vec::new();
    let is_starting = state.stack.phase == stack::Phase::Starting;
    let has = |service| state.services.address(service).is_some() || is_starting;
    if !state.services.addresses.heads.is_empty() || is_starting {
        let form = &state.execute.form;
        let name = form.meant().map_or("a function", |function| function.name.as_str());
        let n_workers = state.nodes.n_workers_in("", None, &state.stack);
        let on = match n_workers {
            0 => "the workers".to_owned(),
            n => format::counted(n, "worker"),
        };
        let action = Action::OpenForm;
        steps.push(Step {
            keys: vec![key(Layer::Cluster, action), key(Layer::Form, Action::Run)],
            words: format!("run {name} on {on}; equal results form one group"),
            action,
        });
    } else {
        let action = Action::AddNode;
        let words = "start a head on this machine, then workers".to_owned();
        steps.push(Step { keys: vec![key(Layer::Cluster, action)], words, action });
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
            0 => "see what the network infers, and from whom".to_owned(),
            n => format!("see what the network infers of {}", format::counted(n, "topic")),
        };
        steps.push(global(Action::Show(Screen::Inference), words));
    }
    steps.push(global(Action::Show(Screen::Overview), "a summary of everything".to_owned()));
    steps.push(global(Action::Palette, "find anything by name".to_owned()));
    steps.push(global(Action::Help, "the keys of the current screen".to_owned()));
    steps
}

/// Draws as many functions of the head as fit. Returns the height of the list and the number of visible
/// functions.
pub(crate) fn draw_functions(area: Rect, buf: &mut Buffer, frame: Frame<'_>) -> (u16, usize) {
    let row = |function: &FunctionBody| {
        let id = format::short_cid(&function.function_id).into_owned();
        let size =
            if function.bytes == 0 { NONE.to_owned() } else { format::bytes(function.bytes) };
        [function.name.clone(), id, size]
    };
    let functions = &frame.state.execute.form.functions;
    let title = format!("{} to run", format::counted(functions.len(), "function"));
    draw_list(area, buf, frame, &title, functions.iter().map(row).collect())
}

/// Draws the datasets, as [`draw_functions`] does functions.
fn draw_datasets(area: Rect, buf: &mut Buffer, frame: Frame<'_>) -> (u16, usize) {
    let list = frame.state.data.list();
    let fact = |dataset: &Dataset, name: &str| dataset.metadata.get(name).cloned();
    let row = |dataset: &Dataset| {
        let source = fact(dataset, "source").unwrap_or_default();
        let every = fact(dataset, "frequency").map(|it| format!("every {it}"));
        [dataset.name.clone(), source, every.unwrap_or_default()]
    };
    let title = format!("{} to watch", format::counted(list.len(), "dataset"));
    draw_list(area, buf, frame, &title, list.iter().map(row).collect())
}

/// Draws the topics, as [`draw_functions`] does functions.
fn draw_topics(area: Rect, buf: &mut Buffer, frame: Frame<'_>) -> (u16, usize) {
    let topics = frame.state.inference.topics.value().map_or(&[][..], |list| &list.topics);
    let row = |topic: &TopicSummary| {
        let of = format!("of {}", topic.dataset);
        [topic.name.clone(), String::new(), of]
    };
    let title = format!("{} to follow", format::counted(topics.len(), "topic"));
    draw_list(area, buf, frame, &title, topics.iter().map(row).collect())
}

/// Draws a title and rows with a name and two facts, followed by an empty row. Draws nothing without
/// rows or with too little space. Returns the height and the number of visible rows.
fn draw_list(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    title: &str,
    rows: Vec<[String; 3]>,
) -> (u16, usize) {
    let theme = frame.theme;
    if rows.is_empty() || area.height < LIST_HEIGHT_MIN {
        return (0, 0);
    }
    let n_rows = rows.len();
    paint::text(buf, area, (0, 0), title, theme.text.add_modifier(Modifier::BOLD));
    // If not all rows fit, the last one shows the number of hidden rows.
    let n_fit = usize::from(area.height - 1);
    let n_most = n_fit.min(NAMES_MAX + 1);
    let n_shown = if n_rows > n_most { n_most - 1 } else { n_rows };
    let width = usize::from(area.width);
    for (y, [name, kind, amount]) in (1..area.height).zip(rows.into_iter().take(n_shown)) {
        let room = if kind.is_empty() { width.saturating_sub(30) } else { NAME_WIDTH };
        let name = format::left(&name, room.min(width));
        let x = paint::text(buf, area, (2, y), &name, theme.accent2) + 2;
        paint::text(buf, area, (x, y), &kind, theme.muted);
        paint::text_before(buf, area, (area.width, y), &amount, theme.muted);
    }
    let n_drawn = u16::try_from(n_shown).unwrap_or(u16::MAX);
    if n_rows > n_shown {
        let more = format!("{} more", n_rows - n_shown);
        paint::text(buf, area, (2, n_drawn + 1), &more, theme.muted);
        return ((n_drawn + 3).min(area.height), n_shown);
    }
    (n_drawn + 2, n_shown)
}
