//! Comparison of the regrets and scores of single epochs with the chain's test vectors.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::*;
use super::{check_members, upstream, wanted};
use crate::math::regret::{Losses, Pace};

/// Default weight of the latest difference in a regret.
const ALPHA_REGRET_DEFAULT: f64 = 0.1;

/// Losses of all values of an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct CaseLosses {
    /// Loss of the combined value.
    combined: Decimal,
    /// Loss of the naive value.
    naive: Decimal,
    /// Losses of the inferers.
    inferer: Decimals,
    /// Losses of the forecasters.
    forecaster: Decimals,
    /// Loss of the combined value with an inferer left out, by that inferer.
    one_out_inferer: Decimals,
    /// Loss of the combined value with a forecaster left out, by that forecaster.
    one_out_forecaster: Decimals,
    /// Losses of the inferers combined with each single forecaster.
    one_in_forecaster: Decimals,
    /// Loss of the value that a forecaster (outer key) implies with an inferer (inner key) left out.
    one_out_inferer_forecaster: BTreeMap<String, Decimals>,
}

/// Losses of an epoch, from which regrets and scores are computed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct RegretCase {
    /// Weight of the latest difference in a regret. 0.1 by default.
    alpha_regret: Option<Decimal>,
    /// Initial regret of an actor. 0 by default.
    default_regret: Option<Decimal>,
    /// Regrets before the epoch.
    previous: CaseRegrets,
    /// Losses to learn.
    network_losses: CaseLosses,
}

/// Learns from the losses of `case` and returns the new regrets and the scores.
fn regrets(case: &RegretCase) -> Result<(CaseRegrets, Value), CaseError> {
    let names = Names::in_regrets(case);
    let losses = names.losses(&case.network_losses)?;
    let alpha = optional("share of the newest loss", case.alpha_regret.as_ref())?;
    let initial = optional("default regret", case.default_regret.as_ref())?.unwrap_or(0.0);
    let mut regrets = names.regrets_by_role(case)?;
    regrets.learn(&losses, Pace { alpha: alpha.unwrap_or(ALPHA_REGRET_DEFAULT), initial });
    let scores = json!({
        "inferer": names.decimals(&losses.scores(Role::Inferer)),
        "forecaster": names.decimals(&losses.scores(Role::Forecaster)),
    });
    Ok((names.case_regrets(&regrets), scores))
}

impl Names {
    /// Maps the names of `case`.
    fn in_regrets(case: &RegretCase) -> Self {
        let (inferers, forecasters) = by_role(case);
        Self::new(inferers.iter().chain(&forecasters))
    }

    /// Parses the previous regrets. Drops the regret of an actor in a role that the actor does not have,
    /// since the epoch does not change this regret.
    fn regrets_by_role(&self, case: &RegretCase) -> Result<Regrets, CaseError> {
        let (inferers, forecasters) = by_role(case);
        let mut regrets = self.regrets(&case.previous)?;
        regrets.retain(|role, name| match role {
            Role::Inferer => inferers.contains(self.name(name)),
            Role::Forecaster => forecasters.contains(self.name(name)),
        });
        Ok(regrets)
    }

    /// Parses losses.
    fn losses(&self, losses: &CaseLosses) -> Result<Losses, CaseError> {
        let parse = |decimals| self.parse_numbers("loss", decimals);
        Ok(Losses {
            combined: number("combined loss", &losses.combined)?,
            naive: number("naive loss", &losses.naive)?,
            inferer: parse(&losses.inferer)?,
            forecaster: parse(&losses.forecaster)?,
            one_out_inferer: parse(&losses.one_out_inferer)?,
            one_out_forecaster: parse(&losses.one_out_forecaster)?,
            one_in_forecaster: parse(&losses.one_in_forecaster)?,
            one_out_inferer_forecaster: self
                .parse_rows("loss", &losses.one_out_inferer_forecaster)?,
            std: None,
            unit: None,
        })
    }

    /// Converts numbers by address to texts by name.
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

    /// Converts regrets to the form of a case.
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

/// Returns the names of the inferers and of the forecasters. Pairwise regrets do not contain the roles
/// of the actors in a row. If a name occurs only there, its role is unknown, and the name is in both
/// sets.
fn by_role(case: &RegretCase) -> (BTreeSet<String>, BTreeSet<String>) {
    let RegretCase { previous, network_losses: losses, .. } = case;
    let pairs = &losses.one_out_inferer_forecaster;
    let mut inferers: BTreeSet<String> = previous.inferer.keys().cloned().collect();
    inferers.extend(previous.naive_inferer.keys().chain(previous.one_out_inferer.keys()).cloned());
    let mut forecasters: BTreeSet<String> = previous.forecaster.keys().cloned().collect();
    let alone = previous.one_in_forecaster.keys().chain(previous.one_out_forecaster.keys());
    forecasters.extend(alone.cloned());
    let is_unknown = |name: &&String| !inferers.contains(*name) && !forecasters.contains(*name);
    let unknown: Vec<String> = names_in(previous).filter(is_unknown).cloned().collect();
    inferers.extend(unknown.iter().cloned());
    forecasters.extend(unknown);
    inferers.extend(losses.inferer.keys().chain(losses.one_out_inferer.keys()).cloned());
    inferers.extend(pairs.values().flat_map(|row| row.keys().cloned()));
    let alone = losses.one_in_forecaster.keys().chain(losses.one_out_forecaster.keys());
    forecasters.extend(losses.forecaster.keys().chain(pairs.keys()).chain(alone).cloned());
    (inferers, forecasters)
}

#[test]
fn computation_reproduces_regrets_and_scores_of_upstream() {
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
