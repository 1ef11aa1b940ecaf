//! Reading the output of a run: searching, wrapping, moving it, writing it to a file, and handing it
//! to a pager.

use crate::{
    action::Action,
    event::Effect,
    overlay::{Overlay, save::state::SaveForm},
    screens::{Screen, cluster, execute::state::Pane},
    state::{
        State,
        pattern::Pattern,
        results::{
            RunView,
            text::{self, Position},
        },
    },
};

/// Handles an action on the text in view; returns whether it was one, and such a text is in view.
pub(crate) fn act(state: &mut State, action: Action) -> bool {
    if !state.is_output_focused() {
        return false;
    }
    match action {
        Action::Filter => state.output_search.edit(),
        Action::NextMatch => find(state, true, true),
        Action::PreviousMatch => find(state, false, true),
        Action::Wrap => state.results_mut().look.is_wrapped ^= true,
        Action::Pretty => {
            let look = &mut state.results_mut().look;
            look.is_raw ^= true;
            look.found = None;
        }
        Action::OutputLeft => shift(state, -1),
        Action::OutputRight => shift(state, 1),
        Action::Export => match state.output() {
            Some((name, text)) => state.open(Overlay::Save(SaveForm::new(&name, Some(text)))),
            None => state.notify_refused("nothing to save yet".to_owned(), String::new()),
        },
        Action::OpenPager => match state.output() {
            Some((_, text)) => state.effects.push(Effect::Page(text)),
            None => state.notify_refused("nothing to page through yet".to_owned(), String::new()),
        },
        _ => return false,
    }
    true
}

/// The search was edited: shows the first line that fits, from what is in view on.
pub(crate) fn search(state: &mut State) {
    find(state, true, false);
}

fn shift(state: &mut State, by: isize) {
    let look = &mut state.results_mut().look;
    look.is_wrapped = false;
    look.n_hidden = text::shifted(look.n_hidden, by);
}

/// Shows the next line that fits what is searched for; one that was found already stays in view where
/// the next one `is_other`.
fn find(state: &mut State, is_forward: bool, is_other: bool) {
    let wanted = Pattern::parse_phrase(state.output_search.value());
    let Some((_, text)) = state.output() else { return };
    let look = &mut state.results_mut().look;
    let from = look.found.filter(|_| is_other);
    look.found =
        if wanted.is_empty() { None } else { text::find(&text, &wanted, from, is_forward) };
    let Some(line) = look.found else { return };
    // A few lines before it, which say where one is.
    look.position = Position::FromTop(line.saturating_sub(2));
}

impl State {
    /// Whether the text of a result has focus.
    pub(crate) fn is_output_focused(&self) -> bool {
        match self.screen {
            Screen::Cluster => self.cluster.focus == cluster::state::Pane::Groups,
            Screen::Execute => self.execute.focus == Pane::Results,
            _ => false,
        }
    }

    /// The run that the screen shows.
    pub(crate) const fn results(&self) -> RunView {
        match self.screen {
            Screen::Cluster => self.cluster.results,
            _ => self.execute.results,
        }
    }

    /// As [`Self::results`], to change it.
    pub(crate) const fn results_mut(&mut self) -> &mut RunView {
        match self.screen {
            Screen::Cluster => &mut self.cluster.results,
            _ => &mut self.execute.results,
        }
    }

    /// A file name for the result in view, and its text as shown.
    pub(crate) fn output(&self) -> Option<(String, String)> {
        let RunView { look, .. } = self.results();
        let run = self.results().selected(&self.runs)?;
        let response = run.response()?;
        let (text, is_pretty) = look.shown_text(response);
        let kind = look.output(response).file_name();
        let ending = if is_pretty { "json" } else { "txt" };
        Some((format!("run-{}-{kind}.{ending}", run.id.0), text))
    }
}
