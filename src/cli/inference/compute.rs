//! `triptych inference synthesize`: computes single epochs from files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ::inference::math::pair_values::PairValues;
use ::inference::math::regret::{ByActor, PairwiseRegrets, Regrets, Role, RoleValues};
use ::inference::math::synthesis::weights::{Generation, Params};
use ::inference::math::synthesis::{Epoch, Newcomers, Synthesis, Values, synthesize as combine};
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use model::escape::escape_line;
use model::topic::{Address, decimal};
use serde_json::{Value, json};
use wire::inference::cases::{CaseParams, CaseRegrets, Decimal, Decimals, SynthesisCase, read};

use crate::cli::output::{self, print_json, table};
use crate::cli::parse::{STDIO, read_text};

/// Start of the address of each name.
const ADDRESS_START: &str = "allo1";

/// Maximum absolute number in a case, as in a submission. Sums of larger numbers could overflow.
const NUMBER_MAX: f64 = 1e40;

/// Flags of `inference synthesize`.
#[derive(Debug, Args)]
pub(crate) struct ComputeCommand {
    /// File with the cases; `-` or nothing for standard input
    file: Option<PathBuf>,
    /// Print a table for people instead of JSON
    #[arg(long)]
    explain: bool,
}

/// Combines the submissions of each case.
///
/// # Errors
/// If the file or a case is invalid.
pub(crate) fn synthesize(command: &ComputeCommand) -> anyhow::Result<()> {
    let text = read_text(command.file.as_deref().unwrap_or(Path::new(STDIO)), usize::MAX - 1)?;
    let (mut results, mut tables) = (Vec::new(), String::new());
    for (idx, case) in read(&text).context("invalid cases")?.iter().enumerate() {
        let invalid = || format!("invalid case {} `{}`", idx + 1, escape_line(&case.name));
        let computed = Computed::new(case).with_context(invalid)?;
        if command.explain {
            tables.push_str(&computed.table());
        } else {
            results.push(computed.json()?);
        }
    }
    if command.explain {
        return output::print(tables.trim_end_matches('\n'));
    }
    print_json(&serde_json::to_string_pretty(&json!({ "cases": results }))?)
}

/// Case with its results.
struct Computed<'c> {
    case: &'c SynthesisCase,
    names: Names<'c>,
    regrets: Regrets,
    synthesis: Synthesis,
}

impl<'c> Computed<'c> {
    fn new(case: &'c SynthesisCase) -> anyhow::Result<Self> {
        check_lists(case)?;
        let names = Names::of(case);
        let is_listed = |list: &[String], name: &String| list.is_empty() || list.contains(name);
        let (mut inferences, mut forecasts) = (BTreeMap::new(), BTreeMap::new());
        let inferring = case.inferences.iter();
        for (name, list) in inferring.filter(|(name, _)| is_listed(&case.inferers, name)) {
            let what = format!("inference of {name}");
            let values = list.iter().map(|value| number(&what, value));
            inferences.insert(names.address(name)?, values.collect::<anyhow::Result<Values>>()?);
        }
        let forecasting = case.forecasted_losses_log10.iter();
        for (name, losses) in forecasting.filter(|(name, _)| is_listed(&case.forecasters, name)) {
            forecasts.insert(names.address(name)?, names.by_actor("forecast", losses)?);
        }
        let regrets = names.regrets(&case.regrets_after_previous_epoch)?;
        let newcomer = optional("default regret", case.default_regret.as_ref())?.unwrap_or(0.0);
        let synthesis = combine(&Epoch {
            params: &params(case.algorithm.as_deref(), &case.params)?,
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
        let synthesis = synthesis.context("no inferences found")?;
        Ok(Self { case, names, regrets, synthesis })
    }

    /// Returns an object with the name of the case and its results. If the case has expected results,
    /// includes only these results, so that both can be compared.
    fn json(&self) -> anyhow::Result<Value> {
        let Self { case, names, synthesis, .. } = self;
        let lists = |by_actor: &ByActor<Values>| -> BTreeMap<&str, Vec<String>> {
            by_actor.iter().map(|(name, values)| (names.name(name), texts(values))).collect()
        };
        let pairs = &synthesis.one_out_inferer_forecaster;
        let row = |(idx, forecaster): (usize, &Address)| {
            let row = pairs.row(idx).map(|(inferer, values)| (names.name(inferer), texts(values)));
            (names.name(forecaster).to_owned(), json!(row.collect::<BTreeMap<_, _>>()))
        };
        let by_pair: BTreeMap<_, _> = pairs.rows().iter().enumerate().map(row).collect();
        let mut results = BTreeMap::from([
            ("forecast_implied", json!(lists(&synthesis.implied))),
            ("combined", json!(texts(&synthesis.combined))),
            ("naive", json!(texts(&synthesis.naive))),
            ("one_out_inferer", json!(lists(&synthesis.one_out_inferer))),
            ("one_out_forecaster", json!(lists(&synthesis.one_out_forecaster))),
            ("one_in_forecaster", json!(lists(&synthesis.one_in_forecaster))),
            ("one_out_inferer_forecaster", json!(by_pair)),
            ("confidence_interval_values", json!(self.interval())),
        ]);
        if let Some(expected) = &case.expected {
            if let Some(name) = expected.keys().find(|name| !results.contains_key(name.as_str())) {
                bail!("unknown member `{}` of expected", escape_line(name));
            }
            results.retain(|member, _| expected.contains_key(*member));
        }
        results.insert("name", json!(case.name));
        Ok(json!(results))
    }

    fn interval(&self) -> Vec<String> {
        self.synthesis.confidence_interval.first().map(|values| texts(values)).unwrap_or_default()
    }

    /// Formats a table of the actors with their weights and the values that the weights are computed
    /// from.
    fn table(&self) -> String {
        let Self { case, names, regrets, synthesis } = self;
        let mut rows = Vec::new();
        for (role, weights) in [
            (Role::Inferer, &synthesis.inferer_weights),
            (Role::Forecaster, &synthesis.forecaster_weights),
        ] {
            for (address, share) in weights {
                let name = names.name(address);
                let regret = regrets.ordinary[role].get(address);
                let scaled = regret.zip(synthesis.scale).map(|(regret, scale)| regret / scale);
                let value = match role {
                    Role::Inferer => {
                        case.inferences.get(name).and_then(|list| list.first()).cloned()
                    }
                    Role::Forecaster => synthesis
                        .implied
                        .get(address)
                        .and_then(|values| values.first().map(|value| Decimal(decimal(*value)))),
                };
                rows.push(vec![
                    name.to_owned(),
                    role.name().to_owned(),
                    regret.map_or_else(none, |regret| format!("{regret:.6}")),
                    scaled.map_or_else(none, |scaled| format!("{scaled:.4}")),
                    format!("{:.2} %", share * 100.0),
                    value.map_or_else(none, |value| value.0),
                ]);
            }
        }
        let header = ["actor", "role", "regret", "regret/scale", "share", "value"];
        format!(
            "{}\n{}\ncombined          {}\nnaive             {}\nscale of regrets  {}\n\
             interval          {}\n\n",
            escape_line(&case.name),
            table(&header, &rows),
            texts(&synthesis.combined).join(" "),
            texts(&synthesis.naive).join(" "),
            synthesis.scale.map_or_else(none, |scale| scale.to_string()),
            self.interval().join(" "),
        )
    }
}

fn none() -> String {
    "none".to_owned()
}

fn texts(values: &[f64]) -> Vec<String> {
    values.iter().copied().map(decimal).collect()
}

/// Checks the names of the actors to include, and the number of values in each inference.
fn check_lists(case: &SynthesisCase) -> anyhow::Result<()> {
    let SynthesisCase { inferences, forecasted_losses_log10: forecasts, labels, .. } = case;
    let inferring: BTreeSet<&String> = inferences.keys().collect();
    for (what, list, mut known, member) in [
        ("inferers", &case.inferers, inferring, "an inference"),
        ("forecasters", &case.forecasters, forecasts.keys().collect(), "a forecast"),
    ] {
        // Each name is removed, so that a repeated name is invalid as well.
        if let Some(name) = list.iter().find(|name| !known.remove(name)) {
            bail!("invalid {what} `{name}`, expected actors with {member}, each once");
        }
    }
    let first = inferences.values().next().map_or(0, Vec::len);
    let n_labels = if labels.is_empty() { first } else { labels.len() };
    for (name, values) in inferences {
        ensure!(
            values.len() == n_labels,
            "{name} has {} values, expected {n_labels}",
            values.len()
        );
    }
    Ok(())
}

/// Parses the settings of the weights. The defaults are those of the chain's examples.
fn params(algorithm: Option<&str>, params: &CaseParams) -> anyhow::Result<Params> {
    let or = |what, given: &Option<Decimal>, default| {
        anyhow::Ok(optional(what, given.as_ref())?.unwrap_or(default))
    };
    let generation = algorithm.map_or(Ok(Generation::MadV017), |text| {
        let expected = "expected mad-v0.17 or stdev-oct2024";
        text.parse().with_context(|| format!("invalid algorithm `{text}`, {expected}"))
    });
    let params = Params {
        generation: generation?,
        p_norm: or("p_norm", &params.p_norm, 3.0)?,
        c_norm: or("c_norm", &params.c_norm, 0.75)?,
        epsilon: or("epsilon_topic", &params.epsilon_topic, 0.01)?,
        epsilon_safe_div: or("epsilon_safe_div", &params.epsilon_safe_div, 1e-7)?,
        regret_scale: optional("regret_scale", params.regret_scale.as_ref())?,
    };
    ensure!(params.p_norm > 0.0, "p_norm must be above 0");
    ensure!(params.epsilon > 0.0, "epsilon_topic must be above 0");
    ensure!(params.epsilon_safe_div > 0.0, "epsilon_safe_div must be above 0");
    ensure!(params.regret_scale.is_none_or(|it| it >= 0.0), "regret_scale must be at least 0");
    Ok(params)
}

fn number(what: &str, text: &Decimal) -> anyhow::Result<f64> {
    let number = text.0.trim().parse().ok().filter(|number: &f64| number.abs() <= NUMBER_MAX);
    number.with_context(|| {
        let start: String = text.0.chars().take(80).collect();
        format!("invalid {what} `{start}`, expected a decimal number up to 1e40")
    })
}

fn optional(what: &str, text: Option<&Decimal>) -> anyhow::Result<Option<f64>> {
    text.map(|text| number(what, text)).transpose()
}

/// Names of the actors of a case in order. Names are arbitrary texts. The addresses of actors contain
/// the position of their name, so that they sort in the same order.
struct Names<'c>(Vec<&'c str>);

impl<'c> Names<'c> {
    fn of(case: &'c SynthesisCase) -> Self {
        let regrets = &case.regrets_after_previous_epoch;
        let rows = [
            &regrets.one_out_inferer,
            &regrets.one_out_forecaster,
            &regrets.one_in_forecaster,
            &case.forecasted_losses_log10,
        ];
        let single = [&regrets.inferer, &regrets.forecaster, &regrets.naive_inferer];
        let all = single.into_iter().chain(rows.into_iter().flat_map(BTreeMap::values));
        let names: BTreeSet<&String> = all
            .flat_map(BTreeMap::keys)
            .chain(rows.into_iter().flat_map(BTreeMap::keys))
            .chain(case.inferences.keys())
            .collect();
        Self(names.into_iter().map(String::as_str).collect())
    }

    fn address(&self, name: &str) -> anyhow::Result<Address> {
        let idx = self.0.partition_point(|other| *other < name);
        Ok(format!("{ADDRESS_START}{idx:09}").parse()?)
    }

    fn name(&self, address: &Address) -> &'c str {
        let idx = address.as_str().strip_prefix(ADDRESS_START).and_then(|idx| idx.parse().ok());
        idx.and_then(|idx: usize| self.0.get(idx)).copied().unwrap_or_default()
    }

    fn by_actor(&self, what: &str, numbers: &Decimals) -> anyhow::Result<ByActor<f64>> {
        let entry = |(name, text): (&String, &Decimal)| {
            Ok((self.address(name)?, number(&format!("{what} of {name}"), text)?))
        };
        numbers.iter().map(entry).collect()
    }

    /// Parses pairwise regrets. A case does not say which role an actor in a row has: each actor gets
    /// both, and the formulas use only regrets of roles that occur.
    fn pairwise(&self, rows: &BTreeMap<String, Decimals>) -> anyhow::Result<PairwiseRegrets> {
        let row = |(name, regrets): (&String, &Decimals)| {
            Ok((self.address(name)?, self.by_actor("regret", regrets)?))
        };
        let rows = rows.iter().map(row).collect::<anyhow::Result<ByActor<_>>>()?;
        let pairs = PairValues::from_rows(&rows);
        Ok(PairwiseRegrets { inferer: pairs.clone(), forecaster: pairs })
    }

    fn regrets(&self, regrets: &CaseRegrets) -> anyhow::Result<Regrets> {
        let by_actor = |regrets| self.by_actor("regret", regrets);
        Ok(Regrets {
            ordinary: RoleValues {
                inferer: by_actor(&regrets.inferer)?,
                forecaster: by_actor(&regrets.forecaster)?,
            },
            naive: by_actor(&regrets.naive_inferer)?,
            one_out_inferer: self.pairwise(&regrets.one_out_inferer)?,
            one_out_forecaster: self.pairwise(&regrets.one_out_forecaster)?,
            one_in_forecaster: self.pairwise(&regrets.one_in_forecaster)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_cases_are_rejected() {
        let error = |text: &str| {
            let cases = read(text).unwrap();
            format!("{:#}", Computed::new(&cases[0]).err().unwrap())
        };
        assert_eq!(error("{}"), "no inferences found");
        assert!(error(r#"{"inferences":{"a":["1"]},"algorithm":"median"}"#).contains("`median`"));
        assert!(error(r#"{"inferences":{"a":["two"]}}"#).contains("inference of a `two`"));
        let uneven = r#"{"inferences":{"a":["1"],"b":["1","2"]}}"#;
        assert_eq!(error(uneven), "b has 2 values, expected 1");
        for (members, want) in [
            (r#""params":{"p_norm":"0"}"#, "p_norm must be above 0"),
            (r#""params":{"epsilon_topic":"0"}"#, "epsilon_topic must be above 0"),
            (r#""params":{"regret_scale":"-1"}"#, "regret_scale must be at least 0"),
            (r#""default_regret":"1e308""#, "expected a decimal number up to 1e40"),
            (r#""inferers":["a","b"]"#, "invalid inferers `b`"),
            (r#""inferers":["a","a"]"#, "invalid inferers `a`"),
            (r#""forecasters":["a"]"#, "invalid forecasters `a`"),
            (r#""labels":["up","down"]"#, "a has 1 values, expected 2"),
        ] {
            let text = format!(r#"{{"inferences":{{"a":["1"]}},{members}}}"#);
            assert!(error(&text).contains(want), "{}", error(&text));
        }
    }
}
