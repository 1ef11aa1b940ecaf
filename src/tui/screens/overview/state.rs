//! The Overview screen: the newest bundle of every topic, and what is selected.
//!
//! The rest of what it shows is known already: nodes, runs, pinned datasets, the past of topics,
//! notices.

use std::{collections::BTreeMap, time::Duration};

use model::topic::TopicId;

use crate::{event::LatestBundle, state::loadable::Loadable};

/// Poll interval of topics in view, as on the Inference screen.
pub(crate) const TOPICS_EVERY: Duration = Duration::from_secs(15);

/// Topics shown. More than fit on any screen are not asked for.
pub(crate) const TOPICS_MAX: usize = 12;

/// Panes with rows that can be clicked: runs, datasets, topics.
pub(crate) const N_PANES: usize = 3;

/// The maximum of runs in the list.
pub(crate) const RUNS_MAX: usize = 8;

/// The state of the Overview screen.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// True if the screen is in view.
    pub(crate) is_shown: bool,
    /// The selected row, counted over all panes.
    pub(crate) row: usize,
    /// The newest bundle of each topic.
    pub(crate) topics: BTreeMap<TopicId, Loadable<LatestBundle>>,
}

impl State {
    /// The pane of the selected row.
    pub(crate) fn pane(&self, n_rows: [usize; N_PANES]) -> usize {
        let mut end = 0;
        let ends = n_rows.map(|n| {
            end += n;
            end
        });
        let last = n_rows.iter().rposition(|n| *n > 0).unwrap_or(0);
        ends.iter().position(|end| self.row < *end).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;

    #[track_caller]
    fn check(actions: &[Action], n_rows: [usize; N_PANES], want: (usize, usize)) {
        let mut state = State::default();
        for action in actions {
            state.act(*action, n_rows);
        }
        assert_eq!((state.row, state.pane(n_rows)), want);
    }

    #[test]
    fn tab_skips_panes_without_rows() {
        let next = Action::NextPane;
        check(&[], [2, 3, 1], (0, 0));
        check(&[next], [2, 3, 1], (2, 1));
        check(&[next, next], [2, 3, 1], (5, 2));
        check(&[next, next, next], [2, 3, 1], (0, 0));
        check(&[Action::PreviousPane], [2, 3, 1], (5, 2));
        check(&[Action::Down, Action::Down], [2, 3, 1], (2, 1));
        check(&[next], [2, 0, 1], (2, 2));
        check(&[next], [0, 0, 0], (0, 0));
    }
}
