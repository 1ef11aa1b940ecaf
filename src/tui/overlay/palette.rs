//! The palette: collects its entries and draws it.

use model::topic::TopicId;
use ratatui::prelude::*;
use ratatui::widgets::{Block, Borders};
use strum::VariantArray as _;

use crate::keymap::{Action, Layer};
use crate::overlay::view::{List, raise};
use crate::screens::Screen;
use crate::state::State;
use crate::state::overlay::Themes;
use crate::state::palette::{Goal, Item, ItemKind, Match, Palette};
use crate::view::{Frame, centered, draw_field, strip};
use crate::widget::pane::Pane;
use crate::widget::{format, paint};

/// Returns all entries. The screens are first, followed by the commands. Commands of the current
/// screen precede all other commands.
pub(crate) fn entries(state: &State) -> Vec<Item> {
    let mut entries = screens(state);
    commands(state, &mut entries);
    entries.extend(Themes::rows(&state.custom_themes).map(|name| {
        let text = name.map_or_else(|| "auto".to_owned(), |name| name.to_string());
        Item::command("Theme", text, key_of(state, Action::Themes), Goal::Theme(name))
    }));
    entries.extend(datasets(state));
    entries.extend(functions(state));
    entries.extend(nodes(state));
    entries.extend(runs(state));
    entries.extend(topics(state));
    entries
}

fn screens(state: &State) -> Vec<Item> {
    let entry = |screen: Screen| {
        let (text, action) = (screen.name().to_owned(), Action::Show(screen));
        let entry = Item::command("View", text, key_of(state, action), Goal::Act(None, action));
        Item { detail: "screen".to_owned(), ..entry }
    };
    Screen::ALL.into_iter().map(entry).collect()
}

/// Returns the first key of `action` in any layer, or an empty text if it has none.
fn key_of(state: &State, action: Action) -> String {
    let bound = state.keys.bindings().iter().find(|bound| bound.action == action);
    bound.map(|bound| state.keys.first_key_text(bound)).unwrap_or_default()
}

/// Adds every action that has a binding, except for steps ([`Action::is_step`]). An action with
/// bindings on several screens is added once for each screen.
fn commands(state: &State, entries: &mut Vec<Item>) {
    let here = state.layers_beneath();
    let mut bindings: Vec<_> = state.keys.bindings().iter().collect();
    bindings.sort_by_key(|binding| !here.contains(&binding.layer));
    let mut listed: Vec<(Option<Screen>, Action)> = Vec::new();
    for binding in bindings {
        let Some(group) = group(binding.layer) else { continue };
        let screen = binding.layer.screen();
        let is_listed =
            listed.contains(&(screen, binding.action)) || listed.contains(&(None, binding.action));
        if is_listed || binding.action.is_step() {
            continue;
        }
        listed.push((screen, binding.action));
        let (text, goal) = (capitalized(binding.action.title()), Goal::Act(screen, binding.action));
        entries.push(Item::command(group, text, state.keys.first_key_text(binding), goal));
    }
}

/// Returns the heading for commands of `layer`, or `None` if the palette does not list them.
pub(crate) fn group(layer: Layer) -> Option<&'static str> {
    match layer {
        Layer::Always | Layer::Global => Some("View"),
        Layer::Profiles => Some("Profile"),
        _ => layer.screen().map(Screen::name),
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn datasets(state: &State) -> impl Iterator<Item = Item> + '_ {
    state.data.all.iter().map(|(id, name, description)| {
        Item::new(ItemKind::Dataset, name.clone(), description.clone(), Goal::Dataset(*id))
    })
}

fn functions(state: &State) -> impl Iterator<Item = Item> + '_ {
    let form = &state.execute.form;
    form.functions.iter().map(|function| {
        let names: Vec<&str> = form.names_of(function).collect();
        let (id, method) = (function.function_id.clone(), function.method.clone());
        let detail = format!("{} {method}", format::short_cid(&id));
        Item::new(ItemKind::Function, names.join(" · "), detail, Goal::Function(id, method))
    })
}

fn nodes(state: &State) -> impl Iterator<Item = Item> + '_ {
    state.nodes.all(&state.stack).into_iter().map(|node| {
        let role = node.role.as_deref().unwrap_or_default();
        let (text, detail) = match &node.process {
            Some((name, _)) => (name.clone(), [&node.peer_id, role, &node.group_text()].join(" ")),
            None => (node.peer_id.clone(), [role, &node.group_text()].join(" ")),
        };
        Item::new(ItemKind::Node, text, detail.trim().to_owned(), Goal::Node(node.peer_id))
    })
}

fn runs(state: &State) -> impl Iterator<Item = Item> + '_ {
    state.runs.iter().map(|run| {
        let took = format::elapsed(run.elapsed(state.now));
        let text = format!("{} {}", run.id.0, run.request.method);
        Item::new(ItemKind::Run, text, format!("{} · {took}", run.words()), Goal::Run(run.id))
    })
}

fn topics(state: &State) -> impl Iterator<Item = Item> + '_ {
    let topics = state.inference.topics.value().map_or(&[][..], |list| &list.topics);
    topics.iter().filter_map(|topic| {
        let id = TopicId::new(topic.topic_id)?;
        let text = format!("{} {}", topic.topic_id, topic.name);
        Some(Item::new(ItemKind::Topic, text, topic.labels.join(", "), Goal::Topic(id)))
    })
}

/// Maximum width of the palette.
const WIDTH_MAX: u16 = 92;

/// Maximum height of the palette.
const HEIGHT_MAX: u16 = 20;

/// Width of the column of groups, including the mark before the group and a space after it.
const GROUP_WIDTH: u16 = 12;

pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, palette: &Palette) {
    let theme = frame.theme;
    let width = WIDTH_MAX.min(area.width.saturating_sub(4));
    let height = HEIGHT_MAX.min(area.height.saturating_sub(2));
    let y = area.y.saturating_add(area.height.saturating_sub(height).min(area.height / 12));
    let place = Rect { y, ..centered(area, width, height) };
    let inside = raise(place, buf, frame, Pane::new(""));
    let count = format!("{} of {}", palette.matches.len(), palette.entries.len());
    let count = Line::styled(count, theme.muted);
    let x = paint::line_right(buf, inside, 0, &count);
    paint::put(buf, inside, (0, 0), '❯', theme.focus);
    let field = strip(inside, (2, 0), x.saturating_sub(3));
    if palette.input.value().is_empty() {
        paint::text(buf, field, (1, 0), "a command or a name", theme.faint);
    }
    draw_field(field, buf, theme, &palette.input, true);
    let rule = strip(inside, (0, 1), inside.width);
    Block::new().borders(Borders::TOP).border_style(theme.border).render(rule, buf);
    // The list leaves space for the text field, a rule, an empty line and the legend.
    let list =
        Rect { y: inside.y.saturating_add(2), height: inside.height.saturating_sub(4), ..inside };
    if palette.matches.is_empty() {
        paint::text(buf, list, (2, 0), "no matches", theme.muted);
    }
    let rows = List { items: &palette.matches, selected: palette.row, pitch: 1 };
    rows.draw(list, buf, frame, |buf, place, found| {
        if let Some(entry) = palette.entries.get(found.entry_idx) {
            draw_entry(place, buf, frame, entry, found);
        }
    });
    if inside.height > 4 {
        let y = inside.height - 1;
        let mut signs = Line::default();
        for kind in ItemKind::VARIANTS {
            signs.push_span(Span::styled(kind.sign().to_string(), theme.key));
            signs.push_span(Span::styled(format!(" {}s   ", kind.into_str()), theme.muted));
        }
        paint::line(buf, inside, (0, y), &signs);
    }
}

fn draw_entry(row: Rect, buf: &mut Buffer, frame: Frame<'_>, entry: &Item, found: &Match) {
    let theme = frame.theme;
    let group = format::left(&entry.group, usize::from(GROUP_WIDTH) - 3);
    paint::text(buf, row, (2, 0), &group, theme.muted);
    let keys = Line::styled(entry.keys.as_str(), theme.key);
    let end = paint::line_right(buf, row, 0, &keys);
    let room = strip(row, (GROUP_WIDTH, 0), end.saturating_sub(GROUP_WIDTH + 1));
    let mut line = Line::default();
    let n_text = entry.text.chars().count();
    for (idx, letter) in entry.text.chars().enumerate() {
        line.push_span(found_or(letter, idx, found, theme.text, frame));
    }
    if !entry.detail.is_empty() {
        line.push_span(Span::raw("  "));
        for (idx, letter) in entry.detail.chars().enumerate() {
            line.push_span(found_or(letter, n_text + 1 + idx, found, theme.muted, frame));
        }
    }
    paint::line(buf, room, (0, 0), &line);
}

/// Returns a character of an entry. The character is highlighted if the search matched it.
fn found_or(
    letter: char,
    idx: usize,
    found: &Match,
    style: Style,
    frame: Frame<'_>,
) -> Span<'static> {
    let is_found = u32::try_from(idx).is_ok_and(|idx| found.letters.binary_search(&idx).is_ok());
    let style = if is_found { frame.theme.focus.add_modifier(Modifier::BOLD) } else { style };
    Span::styled(letter.to_string(), style)
}

#[cfg(test)]
mod tests;
