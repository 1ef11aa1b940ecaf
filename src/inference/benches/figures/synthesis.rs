//! How long one bundle takes, with all that is left out, on one core.

use std::{collections::BTreeMap, hint::black_box, time::Duration};

use inference::{
    regret::{Regrets, Standing},
    synthesis::{
        Epoch, Newcomers, Values, synthesize,
        weights::{Generation, Params},
    },
};
use model::topic::Address;
use tokio::time::Instant;

use crate::{Outcome, rows::print};

/// How often each size is taken; the median counts.
const RUNS: usize = 15;

/// An epoch that owns what is combined.
struct Owned {
    inferences: BTreeMap<Address, Values>,
    forecasts: BTreeMap<Address, BTreeMap<Address, f64>>,
    regrets: Regrets,
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let unit = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        unit - 0.5
    }
}

pub(crate) fn measure() -> Outcome<()> {
    for (n_inferers, n_forecasters, bar) in
        [(100, 10, "1 ms"), (1000, 50, "50 ms"), (500, 50, "half of it"), (1000, 25, "half of it")]
    {
        let took = median(n_inferers, n_forecasters)?;
        let what = format!("full bundle, {n_inferers} inferers x {n_forecasters} forecasters");
        print(&what, &format!("{:.3} ms", took.as_secs_f64() * 1e3), bar)?;
    }
    Ok(())
}

fn median(n_inferers: usize, n_forecasters: usize) -> Outcome<Duration> {
    let owned = epoch(n_inferers, n_forecasters)?;
    let params = Params {
        generation: Generation::MadV017,
        p_norm: 3.0,
        c_norm: 0.75,
        epsilon: 0.01,
        epsilon_safe_div: 1e-7,
        regret_scale: Some(0.3),
    };
    let mut took = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        let synthesis = synthesize(&Epoch {
            params: &params,
            inferences: &owned.inferences,
            forecasts: &owned.forecasts,
            previous_loss: Some(-2.0),
            regrets: &owned.regrets,
            newcomers: Newcomers::WithRegret(-0.5),
        })?;
        took.push(began.elapsed());
        if black_box(&synthesis).one_out_inferer.len() != n_inferers {
            return Err("a bundle lacks what is left out".into());
        }
    }
    took.sort();
    took.get(RUNS / 2).copied().ok_or_else(|| "no runs".into())
}

fn epoch(n_inferers: usize, n_forecasters: usize) -> Outcome<Owned> {
    let named = |role: &str, idx: usize| format!("allo1{role}{idx:05}").parse::<Address>();
    let inferers = (0..n_inferers).map(|idx| named("inf", idx)).collect::<Result<Vec<_>, _>>()?;
    let forecasters =
        (0..n_forecasters).map(|idx| named("fore", idx)).collect::<Result<Vec<_>, _>>()?;
    let mut numbers = Numbers(7);
    let mut family = |names: &[Address]| -> BTreeMap<Address, f64> {
        names.iter().map(|name| (name.clone(), numbers.next())).collect()
    };
    let mut standing = |inferer: &[Address], forecaster: &[Address]| Standing {
        inferer: family(inferer),
        forecaster: family(forecaster),
    };
    let mut each = |names: &[Address]| -> BTreeMap<Address, Standing> {
        names.iter().map(|name| (name.clone(), standing(&inferers, &forecasters))).collect()
    };
    let (one_out_inferer, one_out_forecaster, one_in_forecaster) =
        (each(&inferers), each(&forecasters), each(&forecasters));
    let ordinary = standing(&inferers, &forecasters);
    let naive = family(&inferers);
    let forecasts = forecasters.iter().map(|name| (name.clone(), family(&inferers))).collect();
    let inferences = family(&inferers).into_iter().map(|(n, v)| (n, vec![3000.0 + v])).collect();
    let regrets =
        Regrets { ordinary, naive, one_out_inferer, one_out_forecaster, one_in_forecaster };
    Ok(Owned { inferences, forecasts, regrets })
}
