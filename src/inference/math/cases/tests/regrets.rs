//! Regrets and scores of single epochs against upstream's recorded ones.

use serde::{Deserialize, Serialize};

use super::{super::*, check_members, upstream, wanted};
use crate::math::regret::{Losses, Pace};

/// Share of the newest difference in a regret, unless a case gives another.
const ALPHA_REGRET_DEFAULT: f64 = 0.1;

/// The losses of every quantity of an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct CaseLosses {
    /// Of the combined value.
    combined: Decimal,
    /// Of the naive value.
    naive: Decimal,
    /// Of each inferer's value.
    inferer: Decimals,
    /// Of what each forecaster implies.
    forecaster: Decimals,
    /// Of the combined value without each inferer.
    one_out_inferer: Decimals,
    /// Of the combined value without each forecaster.
    one_out_forecaster: Decimals,
    /// Of the inferers with each forecaster alone.
    one_in_forecaster: Decimals,
    /// Of what each forecaster implies without each inferer.
    one_out_inferer_forecaster: BTreeMap<String, Decimals>,
}

/// An epoch's losses to learn from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct RegretCase {
    /// The share of the newest difference in a regret; 0.1 where it does not say.
    alpha_regret: Option<Decimal>,
    /// What an actor without a regret starts from; 0 where it does not say.
    default_regret: Option<Decimal>,
    /// The regrets before.
    previous: CaseRegrets,
    /// The losses to learn from.
    network_losses: CaseLosses,
}

/// Each actor's score in one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
struct CaseScores {
    /// Scores of inferers, by name.
    inferer: Decimals,
    /// Scores of forecasters, by name.
    forecaster: Decimals,
}

/// Learns from the losses of `case`: the regrets after them, and the epoch's scores.
fn regrets(case: &RegretCase) -> Result<(CaseRegrets, CaseScores), CaseError> {
    let names = Names::in_regrets(case);
    let losses = names.losses(&case.network_losses)?;
    let alpha = optional("the share of the newest loss", case.alpha_regret.as_ref())?;
    let initial = optional("the default regret", case.default_regret.as_ref())?.unwrap_or(0.0);
    let mut regrets = names.regrets(&case.previous)?;
    regrets.learn(&losses, Pace { alpha: alpha.unwrap_or(ALPHA_REGRET_DEFAULT), initial });
    let scores = CaseScores {
        inferer: names.decimals(&losses.scores(Role::Inferer)),
        forecaster: names.decimals(&losses.scores(Role::Forecaster)),
    };
    Ok((names.case_regrets(&regrets), scores))
}

impl Names {
    /// The names of an epoch to learn from.
    fn in_regrets(case: &RegretCase) -> Self {
        let losses = &case.network_losses;
        let pairs = &losses.one_out_inferer_forecaster;
        let (mut inferers, mut forecasters) = in_regrets(&case.previous);
        inferers.extend(losses.inferer.keys().chain(losses.one_out_inferer.keys()).cloned());
        inferers.extend(pairs.values().flat_map(|row| row.keys().cloned()));
        let alone = losses.one_in_forecaster.keys().chain(losses.one_out_forecaster.keys());
        forecasters.extend(losses.forecaster.keys().chain(pairs.keys()).chain(alone).cloned());
        Self::new(inferers, forecasters)
    }

    /// The losses of `losses`.
    fn losses(&self, losses: &CaseLosses) -> Result<Losses, CaseError> {
        let parse = |decimals| self.parse_numbers("a loss", decimals);
        Ok(Losses {
            combined: number("the combined loss", &losses.combined)?,
            naive: number("the naive loss", &losses.naive)?,
            inferer: parse(&losses.inferer)?,
            forecaster: parse(&losses.forecaster)?,
            one_out_inferer: parse(&losses.one_out_inferer)?,
            one_out_forecaster: parse(&losses.one_out_forecaster)?,
            one_in_forecaster: parse(&losses.one_in_forecaster)?,
            one_out_inferer_forecaster: self.parse_rows(
                "a loss",
                &losses.one_out_inferer_forecaster,
                |_, _| true,
            )?,
        })
    }

    /// The numbers of `numbers` as texts.
    fn decimals(&self, numbers: &ByActor<f64>) -> Decimals {
        numbers
            .iter()
            .map(|(name, number)| (self.name(name).to_owned(), to_decimal(*number)))
            .collect()
    }

    fn rows(&self, pairs: &PairValues) -> BTreeMap<String, Decimals> {
        let rows = pairs.by_row().into_iter();
        rows.map(|(name, of)| (self.name(&name).to_owned(), self.decimals(&of))).collect()
    }

    /// `regrets` under their names.
    fn case_regrets(&self, regrets: &Regrets) -> CaseRegrets {
        let by_key = |pairwise: &PairwiseRegrets| {
            let mut rows = self.rows(&pairwise.inferer);
            for (key, of) in self.rows(&pairwise.forecaster) {
                rows.entry(key).or_default().extend(of);
            }
            rows
        };
        CaseRegrets {
            inferer: self.decimals(&regrets.ordinary.inferer),
            forecaster: self.decimals(&regrets.ordinary.forecaster),
            naive_inferer: self.decimals(&regrets.naive),
            one_out_inferer: by_key(&regrets.one_out_inferer),
            one_out_forecaster: by_key(&regrets.one_out_forecaster),
            one_in_forecaster: by_key(&regrets.one_in_forecaster),
        }
    }
}

#[test]
fn the_regrets_and_scores_of_upstream_are_reproduced_where_they_lie() {
    let Some(text) = upstream("regret_cases.json") else { return };
    let cases: Vec<RegretCase> = wire::inference::cases::read(&text).unwrap();
    let compared = cases.iter().zip(wanted(&text)).map(|(case, want)| {
        let (regrets, scores) = regrets(case).unwrap();
        check_members(&want, &regrets, &want["expected"])
            + check_members(&want, &scores, &want["expected_scores"])
    });
    let n_compared: usize = compared.sum();
    assert!(n_compared > 100, "only {n_compared} numbers were compared");
}
