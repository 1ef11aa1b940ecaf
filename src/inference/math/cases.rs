//! Cases reckoned by hand: single epochs in the form of [`wire::inference::cases`].
//!
//! Names in a case are any texts; inside, each is the address that its place in their order makes.
//! Absent on purpose: files, and what is printed.

mod names;

use std::collections::BTreeMap;

use model::bundle::decimal;
use model::topic::Address;
use wire::inference::cases::{
    CaseLosses, CaseParams, CaseRegrets, CaseScores, Decimal, Decimals, Lists, LossCase,
    RegretCase, SynthesisCase, SynthesisResult,
};

use self::names::Names;
use crate::math::{
    network_loss::{Report, network_losses},
    pair_values::PairValues,
    regret::{ByActor, Losses, Pace, PairwiseRegrets, Regrets, Role, RoleValues},
    score,
    synthesis::{
        Epoch, Newcomers, Synthesis, SynthesisError, Values, synthesize,
        weights::{Generation, Params},
    },
};

/// What a case's numbers are where it does not say: those of the chain's examples.
const PARAMS_DEFAULT: Params = Params {
    generation: Generation::MadV017,
    p_norm: 3.0,
    c_norm: 0.75,
    epsilon: 0.01,
    epsilon_safe_div: 1e-7,
    regret_scale: None,
};

/// The share of the newest difference in a regret where a case does not say, as on most topics.
const ALPHA_REGRET_DEFAULT: f64 = 0.1;

/// Why a case cannot be reckoned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// No such generation.
    #[error("read `{text}` as an algorithm, which is mad-v0.17 or stdev-oct2024")]
    Algorithm {
        /// The text, shortened.
        text: String,
    },
    /// A text is no number.
    #[error("read {what} `{text}` as a decimal number")]
    Number {
        /// What it should say.
        what: &'static str,
        /// The text, shortened.
        text: String,
    },
    /// There is nothing to combine.
    #[error("combine the inferences")]
    Synthesis(#[from] SynthesisError),
    /// A name that nothing else in the case bears.
    #[error("find `{name}` among the actors")]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// No report has a stake.
    #[error("find a reputer with a stake")]
    NoReports,
}

/// A case with what it comes to, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseResult {
    /// What it comes to.
    pub result: SynthesisResult,
    /// What regrets were divided by for the combined value; none where they did not count.
    pub scale: Option<f64>,
    /// Who counted for how much: inferers first, each by name.
    pub actors: Vec<ActorShare>,
}

/// How much an actor counted.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorShare {
    /// Its name in the case.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// Its regret, if it has one of its own.
    pub regret: Option<f64>,
    /// Its share in the combined value, 0 to 1.
    pub share: f64,
    /// Its value for the first label.
    pub value: Option<Decimal>,
}

/// Reckons the epoch of `case`.
///
/// # Errors
/// [`CaseError`] names what in the case is unfit.
pub fn synthesized(case: &SynthesisCase) -> Result<CaseResult, CaseError> {
    let is_listed = |list: &[String], name: &String| list.is_empty() || list.contains(name);
    let inferring = case.inferences.iter().filter(|(name, _)| is_listed(&case.inferers, name));
    let forecasting =
        case.forecasted_losses_log10.iter().filter(|(name, _)| is_listed(&case.forecasters, name));
    let names = Names::from_case(case);
    let mut inferences = BTreeMap::new();
    for (name, list) in inferring {
        let values = list.iter().map(|value| number("an inference", value));
        inferences.insert(names.address(name)?, values.collect::<Result<Values, _>>()?);
    }
    let mut forecasts = BTreeMap::new();
    for (name, losses) in forecasting {
        forecasts.insert(names.address(name)?, names.parse_numbers("a forecast", losses)?);
    }
    let regrets = names.regrets(&case.regrets_after_previous_epoch)?;
    let params = params(case.algorithm.as_deref(), &case.params)?;
    let newcomer = optional("the default regret", case.default_regret.as_ref())?.unwrap_or(0.0);
    let synthesis = synthesize(&Epoch {
        params: &params,
        inferences: &inferences,
        forecasts: &forecasts.iter().map(|(name, losses)| (name.clone(), losses)).collect(),
        previous_loss: optional("the previous loss", case.previous_network_loss_log10.as_ref())?,
        regrets: &regrets,
        newcomers: if case.all_inferers_new {
            Newcomers::Everyone
        } else {
            Newcomers::WithRegret(newcomer)
        },
    })?;
    let actors = actors(case, &names, &regrets, &synthesis);
    let mut result = result(&names, &synthesis);
    // One inference alone is the answer: digit by digit.
    if let (1, Some(name)) = (inferences.len(), inferences.keys().next())
        && let Some(submitted) = case.inferences.get(names.name(name))
    {
        result.combined.clone_from(submitted);
        result.naive.clone_from(submitted);
    }
    Ok(CaseResult { result, scale: synthesis.scale, actors })
}

/// Takes the mean of the reports of `case`.
///
/// # Errors
/// [`CaseError::Number`], or [`CaseError::NoReports`].
pub fn losses(case: &LossCase) -> Result<CaseLosses, CaseError> {
    let names = Names::in_losses(case.reputers.values());
    let mut reports = Vec::new();
    for report in case.reputers.values() {
        let stake = optional("a stake", report.stake.as_ref())?.unwrap_or(1.0);
        reports.push(Report { stake, losses: names.losses(report)? });
    }
    let losses = network_losses(&reports).ok_or(CaseError::NoReports)?;
    Ok(names.case_losses(&losses))
}

/// Learns from the losses of `case`: the regrets after them, and the epoch's scores.
///
/// # Errors
/// [`CaseError::Number`].
pub fn regrets(case: &RegretCase) -> Result<(CaseRegrets, CaseScores), CaseError> {
    let names = Names::in_regrets(case);
    let losses = names.losses(&case.network_losses)?;
    let alpha = optional("the share of the newest loss", case.alpha_regret.as_ref())?;
    let initial = optional("the default regret", case.default_regret.as_ref())?.unwrap_or(0.0);
    let mut regrets = names.regrets(&case.previous)?;
    regrets.learn(&losses, Pace { alpha: alpha.unwrap_or(ALPHA_REGRET_DEFAULT), initial });
    let scores = CaseScores {
        inferer: names.decimals(&score::of_role(Role::Inferer, &losses)),
        forecaster: names.decimals(&score::of_role(Role::Forecaster, &losses)),
    };
    Ok((names.case_regrets(&regrets), scores))
}

fn params(algorithm: Option<&str>, params: &CaseParams) -> Result<Params, CaseError> {
    let or = |what, given: &Option<Decimal>, default| {
        Ok::<_, CaseError>(optional(what, given.as_ref())?.unwrap_or(default))
    };
    let unknown = || algorithm.unwrap_or_default().chars().take(32).collect();
    let generation = algorithm.map_or(Ok(PARAMS_DEFAULT.generation), str::parse);
    Ok(Params {
        generation: generation.map_err(|_| CaseError::Algorithm { text: unknown() })?,
        p_norm: or("p_norm", &params.p_norm, PARAMS_DEFAULT.p_norm)?,
        c_norm: or("c_norm", &params.c_norm, PARAMS_DEFAULT.c_norm)?,
        epsilon: or("epsilon_topic", &params.epsilon_topic, PARAMS_DEFAULT.epsilon)?,
        epsilon_safe_div: or(
            "epsilon_safe_div",
            &params.epsilon_safe_div,
            PARAMS_DEFAULT.epsilon_safe_div,
        )?,
        regret_scale: optional("regret_scale", params.regret_scale.as_ref())?,
    })
}

fn number(what: &'static str, text: &Decimal) -> Result<f64, CaseError> {
    let parsed: Option<f64> = text.0.trim().parse().ok();
    parsed
        .filter(|number| number.is_finite())
        .ok_or_else(|| CaseError::Number { what, text: text.0.chars().take(80).collect() })
}

fn optional(what: &'static str, text: Option<&Decimal>) -> Result<Option<f64>, CaseError> {
    text.map(|text| number(what, text)).transpose()
}

fn to_decimal(number: f64) -> Decimal {
    Decimal(decimal(number))
}

fn list(values: &Values) -> Vec<Decimal> {
    values.iter().copied().map(to_decimal).collect()
}

fn result(names: &Names, synthesis: &Synthesis) -> SynthesisResult {
    let interval = synthesis.confidence_interval.first();
    SynthesisResult {
        forecast_implied: names.lists(&synthesis.implied),
        combined: list(&synthesis.combined),
        naive: list(&synthesis.naive),
        one_out_inferer: names.lists(&synthesis.one_out_inferer),
        one_out_forecaster: names.lists(&synthesis.one_out_forecaster),
        one_in_forecaster: names.lists(&synthesis.one_in_forecaster),
        one_out_inferer_forecaster: synthesis
            .one_out_inferer_forecaster
            .lists()
            .iter()
            .map(|(name, values)| (names.name(name).to_owned(), names.lists(values)))
            .collect(),
        confidence_interval_values: interval.map(list).unwrap_or_default(),
    }
}

fn actors(
    case: &SynthesisCase,
    names: &Names,
    regrets: &Regrets,
    synthesis: &Synthesis,
) -> Vec<ActorShare> {
    let first = |list: &Vec<Decimal>| list.first().cloned();
    let weights = [&synthesis.inferer_weights, &synthesis.forecaster_weights];
    let mut actors = Vec::new();
    for (role, weights) in Role::ALL.into_iter().zip(weights) {
        for (address, share) in weights {
            let name = names.name(address);
            actors.push(ActorShare {
                name: name.to_owned(),
                role,
                regret: regrets.ordinary[role].get(address).copied(),
                share: *share,
                value: match role {
                    Role::Inferer => case.inferences.get(name).and_then(first),
                    Role::Forecaster => {
                        synthesis.implied.get(address).map(list).as_ref().and_then(first)
                    }
                },
            });
        }
    }
    actors
}

#[cfg(test)]
mod tests;
