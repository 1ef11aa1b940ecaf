//! Tests of regrets. Comparisons with the chain's test vectors are in [cases](crate::math::cases).

use proptest::prelude::*;

use super::*;
use crate::math::synthesis::weights::Generation;

const PARAMS: Params = Params {
    generation: Generation::MadV017,
    p_norm: 3.0,
    c_norm: 0.75,
    epsilon: 1e-4,
    epsilon_safe_div: 1e-7,
    regret_scale: None,
};

fn address(name: &str) -> Address {
    format!("allo1{name}").parse().unwrap()
}

#[test]
fn regret_is_updated_as_a_moving_average() {
    let mut regrets = Regrets::default();
    regrets.ordinary.inferer.insert(address("a"), 200.0);
    regrets.ordinary.inferer.insert(address("absent"), 3.0);
    let losses = Losses {
        combined: 500.0,
        inferer: ByActor::from([(address("a"), 200.0), (address("new"), 500.0)]),
        ..Losses::default()
    };
    regrets.learn(&losses, Pace { alpha: 0.1, initial: 7.0 });
    let of = |name: &str| regrets.ordinary.inferer[&address(name)];
    assert!((of("a") - 210.0).abs() < 1e-9);
    assert!((of("new") - 6.3).abs() < 1e-9);
    assert!((of("absent") - 3.0).abs() < 1e-9);
}

#[test]
fn newcomer_starts_with_a_low_quantile_of_the_regrets_of_experienced_actors() {
    let experienced = [
        0.644_550_620_802_118_9,
        1.021_638_689_841_348_5,
        0.609_204_939_813_502_8,
        0.697_158_800_456_645_5,
        0.903_075_142_188_825_3,
        0.821_903_503_885_834_4,
    ];
    let crowd = Crowd { experienced: &experienced, all: &experienced, n_min: 6 };
    let got = initial_regret(crowd, &PARAMS).unwrap();
    assert!((got - 0.335_482_076_052_642_1).abs() < 1e-5, "{got}");
}

#[test]
fn newcomer_starts_with_the_lower_quartile_if_few_actors_are_experienced() {
    let all = [4.0, 1.0, 2.0, 3.0, 5.0];
    let crowd = Crowd { experienced: &all[..2], all: &all, n_min: 5 };
    assert_eq!(initial_regret(crowd, &PARAMS), Some(2.0));
    assert_eq!(initial_regret(Crowd { n_min: 6, ..crowd }, &PARAMS), None);
}

#[test]
fn actor_is_experienced_after_ten_epochs_with_an_alpha_of_a_tenth() {
    assert!(is_experienced(10, 0.1));
    assert!(!is_experienced(9, 0.1));
}

const PACE: Pace = Pace { alpha: 0.1, initial: -0.7 };

fn numbered(numbers: &[Option<f64>]) -> ByActor<f64> {
    let known = numbers.iter().enumerate();
    known.filter_map(|(idx, number)| Some((address(&format!("{idx:03}")), (*number)?))).collect()
}

proptest! {
    #[test]
    fn regret_of_an_actor_relative_to_another_does_not_depend_on_a_third_actor(
        epochs in prop::collection::vec(
            (
                prop::collection::vec(prop::option::weighted(0.7, -5.0..5.0_f64), 6),
                prop::collection::vec(prop::option::weighted(0.7, -5.0..5.0_f64), 6),
            ),
            1..40,
        ),
        gone in 0..6_usize,
    ) {
        let (mut regrets, mut pairs) = (PairValues::default(), BTreeMap::new());
        let gone = address(&format!("{gone:03}"));
        let n_epochs = epochs.len();
        for (idx, (references, losses)) in epochs.into_iter().enumerate() {
            let (references, losses) = (numbered(&references), numbered(&losses));
            let columns: Vec<&Address> = losses.keys().collect();
            let of_row = |_: &Address| losses.values().copied().collect();
            follow_pairs(&mut regrets, &references, &columns, of_row, PACE);
            for (row, reference) in &references {
                for (column, loss) in &losses {
                    let regret = pairs.entry((row.clone(), column.clone())).or_insert(PACE.initial);
                    *regret = PACE.alpha * (reference - loss) + PACE.previous_share() * *regret;
                }
            }
            if idx == n_epochs / 2 {
                regrets.retain(|row| *row != gone, |column| *column != gone);
                pairs.retain(|(row, column), _| *row != gone && *column != gone);
            }
        }
        let families = regrets.by_row();
        prop_assert_eq!(families.values().map(BTreeMap::len).sum::<usize>(), pairs.len());
        for ((row, column), want) in &pairs {
            let got = regrets.get(row, column).unwrap();
            prop_assert!((got - want).abs() < 1e-12, "{row} {column}: {got} is not {want}");
        }
    }
}

impl PairwiseRegrets {
    /// Creates pairwise regrets from `by_row`. Each row contains the regrets against a value, and its
    /// key is the actor that is left out of this value, or the only forecaster in it.
    pub fn from_rows(by_row: &BTreeMap<Address, RoleValues>) -> Self {
        let pairs = |role| PairValues::from_rows(by_row.iter().map(|(name, of)| (name, &of[role])));
        Self { inferer: pairs(Role::Inferer), forecaster: pairs(Role::Forecaster) }
    }

    /// Returns the rows from which [`Self::from_rows`] creates these regrets.
    pub fn by_row(&self) -> BTreeMap<Address, RoleValues> {
        let mut by_row: BTreeMap<Address, RoleValues> = BTreeMap::new();
        for role in Role::ALL {
            for (name, regrets) in self[role].by_row() {
                by_row.entry(name).or_default()[role] = regrets;
            }
        }
        by_row
    }
}

impl PairValues {
    /// Returns the numbers by row and column, without missing pairs. The width must be 1.
    pub fn by_row(&self) -> BTreeMap<Address, ByActor<f64>> {
        let number = |(name, list): (&Address, &[f64])| Some((name.clone(), *list.first()?));
        let row = |(idx, name): (usize, &Address)| {
            (name.clone(), self.row(idx).filter_map(number).collect())
        };
        self.rows().iter().enumerate().map(row).collect()
    }
}

#[test]
fn score_of_an_inferer_is_the_increase_of_the_combined_loss_without_the_inferer() {
    let name: Address = "allo1a".parse().unwrap();
    let alone = Losses {
        combined: -2.0,
        inferer: ByActor::from([(name.clone(), -1.0)]),
        ..Losses::default()
    };
    assert_eq!(alone.scores(Role::Inferer), ByActor::from([(name.clone(), 0.0)]));
    let beside_others = Losses { one_out_inferer: ByActor::from([(name.clone(), -1.5)]), ..alone };
    assert_eq!(beside_others.scores(Role::Inferer), ByActor::from([(name, 0.5)]));
}
