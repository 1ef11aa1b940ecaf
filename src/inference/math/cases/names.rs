//! The names of a case, and the addresses that stand for them.

use super::{
    Address, BTreeMap, ByActor, CaseError, CaseLosses, CaseRegrets, Decimal, Decimals, Lists,
    Losses, PairValues, PairwiseRegrets, RegretCase, Regrets, RoleValues, SynthesisCase, Values,
    list, number, to_decimal,
};

/// Every name of a case in its order; the address of each is made of its place.
#[derive(Debug)]
pub(super) struct Names {
    addresses: BTreeMap<String, Address>,
    by_address: BTreeMap<Address, String>,
    /// The names that infer, and those that forecast. One may do both.
    inferers: Vec<String>,
    forecasters: Vec<String>,
}

impl Names {
    /// The names of an epoch to combine.
    pub(super) fn from_case(case: &SynthesisCase) -> Self {
        let regrets = &case.regrets_after_previous_epoch;
        let mut inferers =
            case.inferences.keys().chain(&case.inferers).cloned().collect::<Vec<_>>();
        inferers.extend(in_regrets(regrets).0);
        inferers.extend(case.forecasted_losses_log10.values().flat_map(|f| f.keys().cloned()));
        let forecasting = case.forecasted_losses_log10.keys().chain(&case.forecasters).cloned();
        let mut forecasters = forecasting.collect::<Vec<_>>();
        forecasters.extend(in_regrets(regrets).1);
        Self::new(inferers, forecasters)
    }

    /// The names of reports.
    pub(super) fn in_losses<'a>(losses: impl Iterator<Item = &'a CaseLosses>) -> Self {
        let (mut inferers, mut forecasters) = (Vec::new(), Vec::new());
        for losses in losses {
            inferers.extend(losses.inferer.keys().chain(losses.one_out_inferer.keys()).cloned());
            inferers
                .extend(losses.one_out_inferer_forecaster.values().flat_map(|f| f.keys().cloned()));
            let nested = losses.one_out_inferer_forecaster.keys();
            let alone = losses.one_in_forecaster.keys().chain(losses.one_out_forecaster.keys());
            forecasters.extend(losses.forecaster.keys().chain(nested).chain(alone).cloned());
        }
        Self::new(inferers, forecasters)
    }

    /// The names of an epoch to learn from.
    pub(super) fn in_regrets(case: &RegretCase) -> Self {
        let mut names = Self::in_losses(std::iter::once(&case.network_losses));
        let (inferers, forecasters) = in_regrets(&case.previous);
        names.inferers.extend(inferers);
        names.forecasters.extend(forecasters);
        Self::new(names.inferers, names.forecasters)
    }

    fn new(mut inferers: Vec<String>, mut forecasters: Vec<String>) -> Self {
        for names in [&mut inferers, &mut forecasters] {
            names.sort();
            names.dedup();
        }
        let mut all: Vec<&String> = inferers.iter().chain(&forecasters).collect();
        all.sort();
        all.dedup();
        let address = |(idx, name): (usize, &&String)| {
            // Of a fixed prefix and digits alone, it is always one.
            Some(((*name).clone(), format!("allo1{idx:09}").parse().ok()?))
        };
        let addresses: BTreeMap<String, Address> =
            all.iter().enumerate().filter_map(address).collect();
        let by_address =
            addresses.iter().map(|(name, address)| (address.clone(), name.clone())).collect();
        Self { addresses, by_address, inferers, forecasters }
    }

    /// The address of `name`.
    pub(super) fn address(&self, name: &str) -> Result<Address, CaseError> {
        let address = self.addresses.get(name).cloned();
        address.ok_or_else(|| CaseError::Name { name: name.chars().take(80).collect() })
    }

    /// The name of `address`.
    pub(super) fn name<'a>(&'a self, address: &'a Address) -> &'a str {
        self.by_address.get(address).map_or(address.as_str(), String::as_str)
    }

    /// The numbers of `decimals`.
    pub(super) fn parse_numbers(
        &self,
        what: &'static str,
        decimals: &Decimals,
    ) -> Result<ByActor<f64>, CaseError> {
        let pair =
            |(name, text): (&String, &Decimal)| Ok((self.address(name)?, number(what, text)?));
        decimals.iter().map(pair).collect()
    }

    /// The numbers of `decimals` that belong to their row by `is_fit`.
    fn parse_rows(
        &self,
        what: &'static str,
        decimals: &BTreeMap<String, Decimals>,
        is_fit: impl Fn(&String, &String) -> bool,
    ) -> Result<PairValues, CaseError> {
        let mut rows = ByActor::new();
        for (key, of) in decimals {
            let mut row = ByActor::new();
            for (name, text) in of.iter().filter(|(name, _)| is_fit(key, name)) {
                row.insert(self.address(name)?, number(what, text)?);
            }
            rows.insert(self.address(key)?, row);
        }
        Ok(PairValues::from_rows(&rows))
    }

    /// The regrets of everybody against one quantity: of who infers, and of who forecasts.
    fn parse_pairwise(
        &self,
        decimals: &BTreeMap<String, Decimals>,
        is_alone: bool,
    ) -> Result<PairwiseRegrets, CaseError> {
        let forecasts = |key: &String, name: &String| {
            if is_alone { name == key } else { self.forecasters.contains(name) }
        };
        let infers = |_: &String, name: &String| self.inferers.contains(name);
        Ok(PairwiseRegrets {
            inferer: self.parse_rows("a regret", decimals, infers)?,
            forecaster: self.parse_rows("a regret", decimals, forecasts)?,
        })
    }

    /// The regrets of `regrets`.
    pub(super) fn regrets(&self, regrets: &CaseRegrets) -> Result<Regrets, CaseError> {
        Ok(Regrets {
            ordinary: RoleValues {
                inferer: self.parse_numbers("a regret", &regrets.inferer)?,
                forecaster: self.parse_numbers("a regret", &regrets.forecaster)?,
            },
            naive: self.parse_numbers("a regret", &regrets.naive_inferer)?,
            one_out_inferer: self.parse_pairwise(&regrets.one_out_inferer, false)?,
            one_out_forecaster: self.parse_pairwise(&regrets.one_out_forecaster, false)?,
            one_in_forecaster: self.parse_pairwise(&regrets.one_in_forecaster, true)?,
        })
    }

    /// The losses of `losses`.
    pub(super) fn losses(&self, losses: &CaseLosses) -> Result<Losses, CaseError> {
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
    pub(super) fn decimals(&self, numbers: &ByActor<f64>) -> Decimals {
        numbers
            .iter()
            .map(|(name, number)| (self.name(name).to_owned(), to_decimal(*number)))
            .collect()
    }

    fn rows(&self, pairs: &PairValues) -> BTreeMap<String, Decimals> {
        let rows = pairs.by_row().into_iter();
        rows.map(|(name, of)| (self.name(&name).to_owned(), self.decimals(&of))).collect()
    }

    /// The values of each as texts.
    pub(super) fn lists(&self, values: &BTreeMap<Address, Values>) -> Lists {
        values.iter().map(|(name, values)| (self.name(name).to_owned(), list(values))).collect()
    }

    /// `losses` under their names.
    pub(super) fn case_losses(&self, losses: &Losses) -> CaseLosses {
        CaseLosses {
            stake: None,
            combined: to_decimal(losses.combined),
            naive: to_decimal(losses.naive),
            inferer: self.decimals(&losses.inferer),
            forecaster: self.decimals(&losses.forecaster),
            one_out_inferer: self.decimals(&losses.one_out_inferer),
            one_out_forecaster: self.decimals(&losses.one_out_forecaster),
            one_in_forecaster: self.decimals(&losses.one_in_forecaster),
            one_out_inferer_forecaster: self.rows(&losses.one_out_inferer_forecaster),
        }
    }

    /// `regrets` under their names.
    pub(super) fn case_regrets(&self, regrets: &Regrets) -> CaseRegrets {
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

/// The names that infer and those that forecast in `regrets`. Only the first families say who does
/// what; in the others a name that is neither counts as both.
fn in_regrets(regrets: &CaseRegrets) -> (Vec<String>, Vec<String>) {
    let inferers = regrets.inferer.keys().chain(regrets.naive_inferer.keys());
    let mut inferers = inferers.chain(regrets.one_out_inferer.keys()).cloned().collect::<Vec<_>>();
    let forecasters = regrets.forecaster.keys().chain(regrets.one_in_forecaster.keys());
    let mut forecasters =
        forecasters.chain(regrets.one_out_forecaster.keys()).cloned().collect::<Vec<_>>();
    let families =
        [&regrets.one_out_inferer, &regrets.one_out_forecaster, &regrets.one_in_forecaster];
    let nested = families.into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::keys);
    let unknown: Vec<String> = nested
        .filter(|name| !inferers.contains(name) && !forecasters.contains(name))
        .cloned()
        .collect();
    inferers.extend(unknown.iter().cloned());
    forecasters.extend(unknown);
    (inferers, forecasters)
}
