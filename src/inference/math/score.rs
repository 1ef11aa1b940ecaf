//! Scores: how much worse an epoch would have been without an actor.

use crate::math::{
    regret::{ByActor, Losses, Role},
    statistics::count,
};

/// Returns the score of each actor in `role`.
pub fn of_role(role: Role, losses: &Losses) -> ByActor<f64> {
    match role {
        Role::Inferer => inferers(losses),
        Role::Forecaster => forecasters(losses),
    }
}

/// Returns each inferer's score: the loss of the combined value without it, less that with it. 0
/// for one alone, which cannot be left out.
fn inferers(losses: &Losses) -> ByActor<f64> {
    let score =
        |name| losses.one_out_inferer.get(name).map_or(0.0, |without| without - losses.combined);
    losses.inferer.keys().map(|name| (name.clone(), score(name))).collect()
}

/// Returns each forecaster's score: what it takes off the naive loss alone, and what it takes off
/// the combined loss beside the others. The more forecasters, the less counts what it does alone. 0
/// for one alone.
fn forecasters(losses: &Losses) -> ByActor<f64> {
    let share_alone = 2.0_f64.powf(1.0 - count(losses.forecaster.len()));
    let score = |name| {
        let with = losses.one_in_forecaster.get(name)?;
        let without = losses.one_out_forecaster.get(name)?;
        let alone = losses.naive - with;
        Some(share_alone * alone + (1.0 - share_alone) * (without - losses.combined))
    };
    let known = |name| score(name).unwrap_or_default();
    losses.forecaster.keys().map(|name| (name.clone(), known(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inferer_is_worth_what_is_lost_without_it() {
        let name: model::topic::Address = "allo1a".parse().unwrap();
        let alone = Losses {
            combined: -2.0,
            inferer: ByActor::from([(name.clone(), -1.0)]),
            ..Losses::default()
        };
        assert_eq!(inferers(&alone), ByActor::from([(name.clone(), 0.0)]));
        let beside_others =
            Losses { one_out_inferer: ByActor::from([(name.clone(), -1.5)]), ..alone };
        assert_eq!(inferers(&beside_others), ByActor::from([(name, 0.5)]));
    }
}
