//! What the palette can find, gathered from the table of keys and from all that is known.

use super::{Entry, Goal, Kind};
use crate::{
    action::Action,
    keymap::{Bound, Layer},
    overlay::themes::state::Themes,
    screens::Screen,
    state::{State, runs::Phase},
    widget::format,
};

/// All entries, commands of the current screen first.
pub(crate) fn entries(state: &State) -> Vec<Entry> {
    let mut entries = screens(state);
    commands(state, &mut entries);
    entries.extend(Themes::rows(&state.custom_themes).map(|name| {
        let text = name.map_or_else(|| "auto".to_owned(), |name| name.to_string());
        Entry::command("Theme", text, key_of(state, Action::Themes), Goal::Theme(name))
    }));
    entries.extend(datasets(state));
    entries.extend(functions(state));
    entries.extend(nodes(state));
    entries.extend(runs(state));
    entries.extend(topics(state));
    entries
}

fn screens(state: &State) -> Vec<Entry> {
    let entry = |screen: Screen| {
        let (text, action) = (screen.name().to_owned(), Action::Show(screen));
        let entry = Entry::command("View", text, key_of(state, action), Goal::Act(None, action));
        Entry { detail: "screen".to_owned(), ..entry }
    };
    Screen::ALL.into_iter().map(entry).collect()
}

/// The key that does `action` wherever one is; empty for none.
fn key_of(state: &State, action: Action) -> String {
    let bound = state.keys.bindings().iter().find(|bound| bound.action == action);
    bound.map(Bound::first_key_text).unwrap_or_default()
}

/// Every action of the table, once for each screen it belongs to.
fn commands(state: &State, entries: &mut Vec<Entry>) {
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
        entries.push(Entry::command(group, text, binding.first_key_text(), goal));
    }
}

/// What the palette calls a layer whose actions it offers.
pub(crate) fn group(layer: Layer) -> Option<&'static str> {
    match layer {
        Layer::Always | Layer::Global => Some("View"),
        Layer::Profiles => Some("Profile"),
        Layer::List => Some("List"),
        _ => layer.screen().map(Screen::name),
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn datasets(state: &State) -> impl Iterator<Item = Entry> + '_ {
    state.data.all.iter().map(|(id, name, description)| {
        Entry::new(Kind::Dataset, name.clone(), description.clone(), Goal::Dataset(*id))
    })
}

fn functions(state: &State) -> impl Iterator<Item = Entry> + '_ {
    let form = &state.execute.form;
    form.functions.iter().map(|function| {
        let names: Vec<&str> = form.names_of(function).collect();
        let (id, method) = (function.function_id.clone(), function.method.clone());
        let detail = format!("{} {method}", format::short_cid(&id));
        Entry::new(Kind::Function, names.join(" · "), detail, Goal::Function(id, method))
    })
}

fn nodes(state: &State) -> impl Iterator<Item = Entry> + '_ {
    state.nodes.all(&state.stack).into_iter().map(|node| {
        let role = node.role.as_deref().unwrap_or_default();
        let (text, detail) = match &node.process {
            Some((name, _)) => (name.clone(), [&node.peer_id, role, &node.group_text()].join(" ")),
            None => (node.peer_id.clone(), [role, &node.group_text()].join(" ")),
        };
        Entry::new(Kind::Node, text, detail.trim().to_owned(), Goal::Node(node.peer_id))
    })
}

fn runs(state: &State) -> impl Iterator<Item = Entry> + '_ {
    state.runs.iter().map(|run| {
        let outcome = match &run.phase {
            Phase::Waiting => "running".to_owned(),
            Phase::Done(response) => format::counted(response.results.len(), "result group"),
            Phase::Failed(failure) => format!("failed: {}", failure.why),
            Phase::Cancelled => "cancelled".to_owned(),
        };
        let took = format::elapsed(run.elapsed(state.now));
        let text = format!("{} {}", run.id.0, run.request.method);
        Entry::new(Kind::Run, text, format!("{outcome} · {took}"), Goal::Run(run.id))
    })
}

fn topics(state: &State) -> impl Iterator<Item = Entry> + '_ {
    let topics = state.inference.topics.value().map_or(&[][..], |list| &list.topics);
    topics.iter().filter_map(|topic| {
        let id = model::topic::TopicId::new(topic.topic_id)?;
        let text = format!("{} {}", topic.topic_id, topic.name);
        Some(Entry::new(Kind::Topic, text, topic.labels.join(", "), Goal::Topic(id)))
    })
}
