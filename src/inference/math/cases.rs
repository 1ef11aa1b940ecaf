//! Computation of single epochs described by [`wire::inference::cases`].
//!
//! Names in a case are arbitrary texts. They are mapped to addresses that sort in the same order.

use std::collections::{BTreeMap, BTreeSet};

use model::topic::{Address, decimal};
use wire::inference::cases::{
    CaseParams, CaseRegrets, Decimal, Decimals, Lists, SynthesisCase, SynthesisResult,
};

use crate::math::pair_values::PairValues;
use crate::math::regret::{ByActor, PairwiseRegrets, Regrets, Role, RoleValues};
use crate::math::synthesis::weights::{Generation, Params};
use crate::math::synthesis::{Epoch, Newcomers, Synthesis, SynthesisError, Values, synthesize};

/// Default parameters of a case, as in the chain's examples.
const PARAMS_DEFAULT: Params = Params {
    generation: Generation::MadV017,
    p_norm: 3.0,
    c_norm: 0.75,
    epsilon: 0.01,
    epsilon_safe_div: 1e-7,
    regret_scale: None,
};

/// Start of the address of each name.
const ADDRESS_START: &str = "allo1";

/// Maximum absolute number in a case, as in a submission. Sums of larger numbers could overflow.
const NUMBER_MAX: f64 = 1e40;

/// Reason why a case cannot be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// A text is not a valid number or algorithm, or names an actor that the case does not have.
    #[error("{0}")]
    Invalid(String),
    /// The epoch cannot be combined.
    #[error(transparent)]
    Synthesis(#[from] SynthesisError),
}

impl CaseError {
    /// Returns the error for an invalid `text`. The message quotes only the start of a long text.
    fn invalid(what: &str, text: &str, expected: &str) -> Self {
        let start: String = text.chars().take(80).collect();
        Self::Invalid(format!("invalid {what} `{start}`, expected {expected}"))
    }
}

/// Result of a case, with the weights that explain it.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseResult {
    /// Result of the case.
    pub result: SynthesisResult,
    /// Scale of the regrets for the combined value, or `None` if they were not used.
    pub scale: Option<f64>,
    /// Weights of the actors: inferers sorted by name, then forecasters sorted by name.
    pub actors: Vec<ActorShare>,
}

/// Weight of an actor.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorShare {
    /// Name of the actor in the case.
    pub name: String,
    /// Role of the actor.
    pub role: Role,
    /// Regret of the actor, if it has one.
    pub regret: Option<f64>,
    /// Weight in the combined value, 0 to 1.
    pub share: f64,
    /// Value for the first label.
    pub value: Option<Decimal>,
}

/// Computes all values of the epoch that `case` describes.
///
/// # Errors
/// [`CaseError`] for the first invalid part of the case.
pub fn synthesized(case: &SynthesisCase) -> Result<CaseResult, CaseError> {
    check_lists(case)?;
    let is_listed = |list: &[String], name: &String| list.is_empty() || list.contains(name);
    let inferring = case.inferences.iter().filter(|(name, _)| is_listed(&case.inferers, name));
    let forecasting =
        case.forecasted_losses_log10.iter().filter(|(name, _)| is_listed(&case.forecasters, name));
    let names = Names::from_case(case);
    let mut inferences = BTreeMap::new();
    for (name, list) in inferring {
        let what = format!("inference of {name}");
        let values = list.iter().map(|value| number(&what, value));
        inferences.insert(names.address(name)?, values.collect::<Result<Values, _>>()?);
    }
    let mut forecasts = BTreeMap::new();
    for (name, losses) in forecasting {
        forecasts.insert(names.address(name)?, names.parse_numbers("forecast", losses)?);
    }
    let regrets = names.regrets(&case.regrets_after_previous_epoch)?;
    let params = params(case.algorithm.as_deref(), &case.params)?;
    let newcomer = optional("default regret", case.default_regret.as_ref())?.unwrap_or(0.0);
    let synthesis = synthesize(&Epoch {
        params: &params,
        inferences: &inferences,
        forecasts: &forecasts.iter().map(|(name, losses)| (name.clone(), losses)).collect(),
        previous_loss: optional("previous loss", case.previous_network_loss_log10.as_ref())?,
        regrets: &regrets,
        newcomers: if case.all_inferers_new {
            Newcomers::Everyone
        } else {
            Newcomers::WithRegret(newcomer)
        },
    });
    let synthesis = synthesis.map_err(|error| match error {
        SynthesisError::Uneven { worker, n_values, n_labels } => CaseError::Invalid(format!(
            "{} has {n_values} values, expected {n_labels}",
            names.name(&worker)
        )),
        other => other.into(),
    })?;
    let actors = actors(case, &names, &regrets, &synthesis);
    let mut result = result(&names, &synthesis);
    // If there is a single inference, it is the result. The text in the case is used, since parsing
    // could have rounded the number.
    if let (1, Some(name)) = (inferences.len(), inferences.keys().next())
        && let Some(submitted) = case.inferences.get(names.name(name))
    {
        result.combined.clone_from(submitted);
        result.naive.clone_from(submitted);
    }
    Ok(CaseResult { result, scale: synthesis.scale, actors })
}

/// Checks that listed actors have a submission, and that each number of an inference has a label.
fn check_lists(case: &SynthesisCase) -> Result<(), CaseError> {
    let SynthesisCase { inferences, forecasted_losses_log10: forecasts, labels, .. } = case;
    let is_repeated =
        |list: &[String], name: &String| list.iter().filter(|other| *other == name).count() > 1;
    let is_invalid =
        |name: &&String| !inferences.contains_key(*name) || is_repeated(&case.inferers, name);
    if let Some(name) = case.inferers.iter().find(is_invalid) {
        return Err(CaseError::invalid("inferers", name, "actors with an inference, each once"));
    }
    let is_invalid =
        |name: &&String| !forecasts.contains_key(*name) || is_repeated(&case.forecasters, name);
    if let Some(name) = case.forecasters.iter().find(is_invalid) {
        return Err(CaseError::invalid("forecasters", name, "actors with a forecast, each once"));
    }
    let is_uneven = |values: &Vec<Decimal>| !labels.is_empty() && values.len() != labels.len();
    match inferences.values().find(|values| is_uneven(values)) {
        Some(values) => Err(CaseError::Invalid(format!(
            "an inference has {} values, expected one for each of {} labels",
            values.len(),
            labels.len()
        ))),
        None => Ok(()),
    }
}

fn params(algorithm: Option<&str>, params: &CaseParams) -> Result<Params, CaseError> {
    let or = |what, given: &Option<Decimal>, default| {
        Ok::<_, CaseError>(optional(what, given.as_ref())?.unwrap_or(default))
    };
    let generation = |text: &str| {
        let expected = "mad-v0.17 or stdev-oct2024";
        text.parse().map_err(|_| CaseError::invalid("algorithm", text, expected))
    };
    let params = Params {
        generation: algorithm.map_or(Ok(PARAMS_DEFAULT.generation), generation)?,
        p_norm: or("p_norm", &params.p_norm, PARAMS_DEFAULT.p_norm)?,
        c_norm: or("c_norm", &params.c_norm, PARAMS_DEFAULT.c_norm)?,
        epsilon: or("epsilon_topic", &params.epsilon_topic, PARAMS_DEFAULT.epsilon)?,
        epsilon_safe_div: or(
            "epsilon_safe_div",
            &params.epsilon_safe_div,
            PARAMS_DEFAULT.epsilon_safe_div,
        )?,
        regret_scale: optional("regret_scale", params.regret_scale.as_ref())?,
    };
    let is_valid = [
        ("p_norm must be above 0", params.p_norm > 0.0),
        ("epsilon_topic must be above 0", params.epsilon > 0.0),
        ("epsilon_safe_div must be above 0", params.epsilon_safe_div > 0.0),
        ("regret_scale must be at least 0", params.regret_scale.is_none_or(|scale| scale >= 0.0)),
    ];
    match is_valid.into_iter().find(|(_, is_valid)| !is_valid) {
        Some((fault, _)) => Err(CaseError::Invalid(fault.to_owned())),
        None => Ok(params),
    }
}

fn number(what: &str, text: &Decimal) -> Result<f64, CaseError> {
    let parsed: Option<f64> = text.0.trim().parse().ok();
    parsed
        .filter(|number| number.abs() <= NUMBER_MAX)
        .ok_or_else(|| CaseError::invalid(what, &text.0, "a decimal number up to 1e40"))
}

fn optional(what: &str, text: Option<&Decimal>) -> Result<Option<f64>, CaseError> {
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

/// Names of a case, sorted. Addresses contain the index of a name, so they sort in the same order.
#[derive(Debug)]
struct Names(Vec<String>);

impl Names {
    /// Maps the names of `case`.
    fn from_case(case: &SynthesisCase) -> Self {
        let forecasts = &case.forecasted_losses_log10;
        let inferers = case.inferences.keys().chain(&case.inferers);
        let forecasters = forecasts.keys().chain(&case.forecasters);
        let forecast = forecasts.values().flat_map(BTreeMap::keys);
        let in_regrets = names_in(&case.regrets_after_previous_epoch);
        Self::new(inferers.chain(forecasters).chain(forecast).chain(in_regrets))
    }

    fn new<'n>(names: impl Iterator<Item = &'n String>) -> Self {
        Self(names.collect::<BTreeSet<_>>().into_iter().cloned().collect())
    }

    /// Returns the address of `name`.
    fn address(&self, name: &str) -> Result<Address, CaseError> {
        let idx = self.0.binary_search_by(|other| other.as_str().cmp(name)).ok();
        let address = idx.and_then(|idx| format!("{ADDRESS_START}{idx:09}").parse().ok());
        address.ok_or_else(|| CaseError::invalid("actor", name, "a name of the case"))
    }

    /// Returns the name of `address`.
    fn name<'a>(&'a self, address: &'a Address) -> &'a str {
        let idx = address.as_str().strip_prefix(ADDRESS_START).and_then(|idx| idx.parse().ok());
        idx.and_then(|idx: usize| self.0.get(idx)).map_or(address.as_str(), String::as_str)
    }

    /// Parses numbers by actor.
    fn parse_numbers(&self, what: &str, decimals: &Decimals) -> Result<ByActor<f64>, CaseError> {
        let pair = |(name, text): (&String, &Decimal)| {
            Ok((self.address(name)?, number(&format!("{what} of {name}"), text)?))
        };
        decimals.iter().map(pair).collect()
    }

    /// Parses numbers of pairs of actors, given by row and column.
    fn parse_rows(
        &self,
        what: &str,
        decimals: &BTreeMap<String, Decimals>,
    ) -> Result<PairValues, CaseError> {
        let row = |(name, numbers): (&String, &Decimals)| {
            Ok((self.address(name)?, self.parse_numbers(what, numbers)?))
        };
        let rows = decimals.iter().map(row).collect::<Result<ByActor<_>, CaseError>>()?;
        Ok(PairValues::from_rows(&rows))
    }

    /// Parses regrets of all families. A row of a pairwise family does not contain the roles of its
    /// actors, so each of its regrets is used for both roles. A regret in a role that the actor does not
    /// have is ignored.
    fn regrets(&self, regrets: &CaseRegrets) -> Result<Regrets, CaseError> {
        let pairwise = |decimals| {
            let rows = self.parse_rows("regret", decimals)?;
            Ok::<_, CaseError>(PairwiseRegrets { inferer: rows.clone(), forecaster: rows })
        };
        Ok(Regrets {
            ordinary: RoleValues {
                inferer: self.parse_numbers("regret", &regrets.inferer)?,
                forecaster: self.parse_numbers("regret", &regrets.forecaster)?,
            },
            naive: self.parse_numbers("regret", &regrets.naive_inferer)?,
            one_out_inferer: pairwise(&regrets.one_out_inferer)?,
            one_out_forecaster: pairwise(&regrets.one_out_forecaster)?,
            one_in_forecaster: pairwise(&regrets.one_in_forecaster)?,
        })
    }

    /// Converts the values of each actor to texts.
    fn lists(&self, values: &BTreeMap<Address, Values>) -> Lists {
        values.iter().map(|(name, values)| (self.name(name).to_owned(), list(values))).collect()
    }
}

/// Returns the names in `regrets`, in any order.
fn names_in(regrets: &CaseRegrets) -> impl Iterator<Item = &String> {
    let single = [&regrets.inferer, &regrets.forecaster, &regrets.naive_inferer];
    let pairwise =
        [&regrets.one_out_inferer, &regrets.one_out_forecaster, &regrets.one_in_forecaster];
    let nested = pairwise.into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::keys);
    let single = single.into_iter().flat_map(BTreeMap::keys);
    single.chain(pairwise.into_iter().flat_map(BTreeMap::keys)).chain(nested)
}

#[cfg(test)]
mod tests;
