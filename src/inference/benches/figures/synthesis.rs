//! Time to compute a full bundle on a single core, and size of the learned state.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use inference::math::loss::LossMethod;
use inference::math::pair_values::PairValues;
use inference::math::regret::{ByActor, Losses, Pace, Regrets};
use inference::math::synthesis::weights::{Generation, Params};
use inference::math::synthesis::{Epoch, Newcomers, Values, synthesize};
use inference::network::learned::Learned;
use inference::network::topic::{Judging, Retention};
use inference::store::{EndOptions, Lesson, Store};
use model::timestamp::Timestamp;
use model::topic::Address;
use tokio::time::Instant;

use crate::Outcome;
use crate::print;

/// Number of runs per size. The median time is reported.
const RUNS: usize = 15;

/// Number of epochs from which each network learned.
const N_EPOCHS: u32 = 12;

/// Largest size for which a target time is set.
const FULL: Size = Size { n_inferers: 1000, n_forecasters: 50, away: Away::Nobody };

/// Number of actors.
#[derive(Debug, Clone, Copy)]
struct Size {
    n_inferers: usize,
    n_forecasters: usize,
    away: Away,
}

/// Inferers that do not submit in an epoch.
#[derive(Debug, Clone, Copy)]
enum Away {
    Nobody,
    /// This number of inferers, chosen from a thousand and different in each epoch.
    Some(usize),
}

/// Owned inputs of an epoch.
struct OwnedEpoch {
    inferences: BTreeMap<Address, Values>,
    forecasts: ByActor<ByActor<f64>>,
    regrets: Regrets,
}

/// Deterministic pseudorandom numbers.
pub(crate) struct Numbers(pub u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let unit = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        unit - 0.5
    }

    fn family(&mut self, names: &[Address]) -> ByActor<f64> {
        names.iter().map(|name| (name.clone(), self.next())).collect()
    }

    fn families(&mut self, keys: &[Address], names: &[Address]) -> ByActor<ByActor<f64>> {
        keys.iter().map(|key| (key.clone(), self.family(names))).collect()
    }
}

pub(crate) fn measure() -> Outcome<()> {
    row(Size { n_inferers: 32, n_forecasters: 6, ..FULL }, "1 ms")?;
    row(Size { n_inferers: 100, n_forecasters: 10, ..FULL }, "1 ms")?;
    row(FULL, "100 ms")?;
    row(Size { n_inferers: 2000, ..FULL }, "none")?;
    row(Size { away: Away::Some(50), ..FULL }, "100 ms")?;
    for away in [Away::Nobody, Away::Some(50)] {
        kept(Size { away, ..FULL })?;
    }
    Ok(())
}

fn row(size: Size, bar: &str) -> Outcome<()> {
    let Size { n_inferers, n_forecasters, away } = size;
    let took = median(size)?;
    let away = match away {
        Away::Nobody => String::new(),
        Away::Some(n) => format!(", {n} per mille away"),
    };
    let what = format!("full bundle, {n_inferers} inferers x {n_forecasters} forecasters{away}");
    let a_pair = took.as_secs_f64() * 1e9 / f64::from(u32::try_from(n_inferers * n_forecasters)?);
    let figure = format!("{:.3} ms, {a_pair:.0} ns a pair", took.as_secs_f64() * 1e3);
    print(&what, &figure, bar)
}

fn median(size: Size) -> Outcome<Duration> {
    let owned = epoch(size)?;
    let params = Params {
        generation: Generation::MadV017,
        p_norm: 3.0,
        c_norm: 0.75,
        epsilon: 0.01,
        epsilon_safe_div: 1e-7,
        regret_scale: Some(0.3),
    };
    let forecasts = owned.forecasts.iter().map(|(name, losses)| (name.clone(), losses)).collect();
    let mut took = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        let synthesis = synthesize(&Epoch {
            params: &params,
            inferences: &owned.inferences,
            forecasts: &forecasts,
            previous_loss: Some(-2.0),
            regrets: &owned.regrets,
            newcomers: Newcomers::WithRegret(-0.5),
        })
        .ok_or("no inferences")?;
        took.push(began.elapsed());
        if black_box(&synthesis).one_out_inferer.len() != size.n_inferers {
            return Err("bundle is incomplete".into());
        }
    }
    took.sort();
    took.get(RUNS / 2).copied().ok_or_else(|| "no runs".into())
}

fn named(role: &str, n: usize) -> Outcome<Vec<Address>> {
    Ok((0..n).map(|idx| format!("allo1{role}{idx:05}").parse()).collect::<Result<_, _>>()?)
}

fn epoch(size: Size) -> Outcome<OwnedEpoch> {
    let inferers = named("inf", size.n_inferers)?;
    let forecasters = named("fore", size.n_forecasters)?;
    let mut numbers = Numbers(7);
    let regrets = regrets(size, &mut numbers)?;
    let inferences = numbers.family(&inferers).into_iter().map(|(n, v)| (n, vec![3000.0 + v]));
    let inferences = inferences.collect();
    Ok(OwnedEpoch { inferences, forecasts: numbers.families(&forecasters, &inferers), regrets })
}

/// Returns the regrets that a network of `size` learned.
fn regrets(size: Size, numbers: &mut Numbers) -> Outcome<Regrets> {
    let inferers = named("inf", size.n_inferers)?;
    let forecasters = named("fore", size.n_forecasters)?;
    let mut regrets = Regrets::default();
    for _ in 0..N_EPOCHS {
        let mut is_here = |_: &&Address| match size.away {
            Away::Some(per_mille) => (numbers.next() + 0.5) * 1000.0 >= of(per_mille),
            Away::Nobody => true,
        };
        let present: Vec<Address> = inferers.iter().filter(&mut is_here).cloned().collect();
        regrets.learn(&losses(numbers, &present, &forecasters), Pace { alpha: 0.1, initial: -0.5 });
    }
    Ok(regrets)
}

fn of(per_mille: usize) -> f64 {
    f64::from(u32::try_from(per_mille).unwrap_or(u32::MAX))
}

fn losses(numbers: &mut Numbers, inferers: &[Address], forecasters: &[Address]) -> Losses {
    Losses {
        combined: numbers.next(),
        naive: numbers.next(),
        inferer: numbers.family(inferers),
        forecaster: numbers.family(forecasters),
        one_out_inferer: numbers.family(inferers),
        one_out_forecaster: numbers.family(forecasters),
        one_in_forecaster: numbers.family(forecasters),
        one_out_inferer_forecaster: PairValues::from_rows(&numbers.families(forecasters, inferers)),
        std: None,
        unit: None,
    }
}

/// Prints the stored size of the regrets of a network of `size`, and the time to read them.
fn kept(size: Size) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let (path, empty) = (folder.path().join("inference.db"), folder.path().join("empty.db"));
    let regrets = regrets(size, &mut Numbers(7))?;
    let n_regrets = keep(&path, regrets)?;
    keep(&empty, Regrets::default())?;
    let n_bytes = std::fs::metadata(&path)?.len() - std::fs::metadata(&empty)?.len();
    let n_bytes = u32::try_from(n_bytes)?;
    let store = Store::open(&path.clone().into())?;
    let began = Instant::now();
    black_box(store.learned(model::topic::TopicId::FIRST, None)?);
    let took = began.elapsed().as_secs_f64() * 1e3;
    let what = format!("learned state, {:?} absent: stored", size.away);
    let a_regret = f64::from(n_bytes) / of(n_regrets);
    let figure = format!("{} kB, {a_regret:.2} B a regret, {took:.1} ms", n_bytes / 1000);
    print(&what, &figure, "none")
}

/// Stores `regrets` in a database at `path` and returns the number of regrets.
fn keep(path: &Path, regrets: Regrets) -> Outcome<usize> {
    let store = Store::open(&path.to_owned().into())?;
    let (topic, at) = (crate::network::topic(1, 12)?, Timestamp::from_seconds(1));
    store.open_epoch(topic.id, 1, 1, at)?;
    let worker = "allo1a".parse()?;
    let payload = inference::network::submission::Payload {
        values: vec![("y".to_owned(), "1".to_owned())],
        ..Default::default()
    };
    let submission =
        inference::network::submission::Submission::checked(&topic, worker, None, payload)?;
    store.submit(topic.id, 1, submission, inference::network::submission::Origin::NETWORK, at)?;
    let settings = topic.clone();
    let options = EndOptions { at, date: at, retention: Retention::USUAL, known: None };
    store.close(topic.id, 1, options.clone(), move |closable| {
        let close_context = inference::network::close::CloseContext {
            labels: &settings.labels,
            learned: &closable.learned,
            baseline: None,
        };
        let submissions = closable.arrivals.iter().map(|arrival| arrival.submission.clone());
        let submissions: Vec<_> = submissions.collect();
        inference::network::close::close(&settings, 1, &submissions, close_context)
    })?;
    let n_regrets = [&regrets.one_out_inferer, &regrets.one_out_forecaster]
        .into_iter()
        .chain([&regrets.one_in_forecaster])
        .flat_map(|pairwise| [&pairwise.inferer, &pairwise.forecaster])
        .map(|pairs| pairs.numbers().len())
        .sum();
    store.learn(topic.id, 1, options, move |bundle, learned| {
        let rule = Judging::usual(LossMethod::Mse, 1e-3).loss;
        let losses = inference::network::learned::losses(rule, bundle, &[1.0], 0.0).ok()?;
        Some(Lesson { truth: Vec::new(), losses, learned: Learned { regrets, ..learned.clone() } })
    })?;
    Ok(n_regrets)
}
