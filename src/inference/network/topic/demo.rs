//! The topics of the local stack: one on the machine's own load, one on the synthetic market.

use std::{collections::BTreeMap, time::Duration};

use model::topic::{SINGLE_LABEL, TopicId};

use super::{
    ActiveMax, ActiveQuantiles, Judging, Keep, Labeling, Predictor, PredictorModel, Source, Timing,
    Topic, TopicKind, Truth, WorkerWhitelist,
};
use crate::math::loss::LossMethod;

/// A new value every twelve blocks: the shortest epoch the chain allows. Half of it is for
/// submitting. The lag covers the horizon of a minute at one block a second.
const LOAD_TIMING: Timing =
    Timing { epoch_length: 12, worker_submission_window: 6, ground_truth_lag: 60 };

/// As [`LOAD_TIMING`], with a lag of three epochs: the market's thirty simulated minutes take thirty
/// blocks, and forecasters join once the first truth is known.
const MARKET_TIMING: Timing = Timing { ground_truth_lag: 36, ..LOAD_TIMING };

/// How far ahead the processor load is predicted.
const LOAD_HORIZON: Duration = Duration::from_mins(1);

/// How far ahead the market's direction is predicted, in the market's own time.
const MARKET_HORIZON: Duration = Duration::from_mins(30);

/// The relative move within [`MARKET_HORIZON`] that still counts as flat.
const MARKET_THRESHOLD: f64 = 0.001;

/// Squared errors of the load below this, an error of a tenth of a percent, are luck.
const LOAD_LOSS_MIN: f64 = 0.01;

/// Brier scores below this say that the truth was believed with 93 %.
const MARKET_LOSS_MIN: f64 = 0.01;

/// How many rows a predictor reads: more than the longest window any of them looks back on.
const N_ROWS: u32 = 120;

/// What infers the load: names, and variables of the function `predict`. Averages are right while
/// work comes and goes, momentum while it swells, persistence in between; one is lucky at best, and
/// one late.
const LOAD_MODELS: [(&str, &str); 8] = [
    ("persistence", "MODEL=last"),
    ("average 30 s", "MODEL=mean WINDOW=30"),
    ("average 2 min", "MODEL=mean WINDOW=120"),
    ("momentum 1 min", "MODEL=momentum WINDOW=60"),
    ("momentum 2 min", "MODEL=momentum WINDOW=120"),
    ("half reversion", "MODEL=reversion WINDOW=60 RETURN=0.5"),
    ("noisy", "MODEL=mean WINDOW=60 LUCK=0.5 SEED=load"),
    ("stale", "MODEL=mean WINDOW=20 STALE=80"),
];

/// What infers the market's direction, likewise. The specialists are sure of themselves, and right
/// in one regime only.
const MARKET_MODELS: [(&str, &str); 11] = [
    ("persistence", "MODEL=last WINDOW=120"),
    ("momentum 15 min", "MODEL=momentum WINDOW=15 NOISE_OF=moves"),
    ("momentum 1 h", "MODEL=momentum WINDOW=60 NOISE_OF=moves SPREAD=0.8"),
    ("reversion 40 min", "MODEL=reversion WINDOW=40 NOISE_OF=moves SPREAD=0.6"),
    ("reversion 2 h", "MODEL=reversion WINDOW=120 NOISE_OF=moves SPREAD=0.8"),
    ("volatility-scaled", "MODEL=last NOISE_OF=moves"),
    ("seasonal", "MODEL=seasonal WINDOW=120"),
    ("noisy", "MODEL=momentum WINDOW=30 NOISE_OF=moves LUCK=1 SEED=market"),
    ("stale", "MODEL=momentum WINDOW=60 STALE=45 NOISE_OF=moves SPREAD=0.8"),
    ("trend specialist", "MODEL=momentum WINDOW=45 NOISE_OF=moves SPREAD=0.35"),
    ("range specialist", "MODEL=reversion WINDOW=25 NOISE_OF=moves SPREAD=0.35"),
];

/// The two topics of the local stack.
///
/// Their actors are few, so two experienced ones are enough to set the regret of newcomers.
pub fn demo_topics() -> Vec<Topic> {
    let judging = |floor| Judging {
        alpha_regret: 0.2,
        n_experienced_min: 2,
        ..Judging::usual(LossMethod::Mse, floor)
    };
    let predictor = |env: &str, models: &[(&str, &str)]| Predictor {
        function: "predict".to_owned(),
        method: "predict.wasm".to_owned(),
        subgroup: None,
        n_nodes: 1,
        n_rows: N_ROWS,
        env: variables(env),
        models: (models.iter())
            .map(|(name, env)| PredictorModel { name: (*name).to_owned(), env: variables(env) })
            .collect(),
    };
    let ids = [1, 2].into_iter().filter_map(TopicId::new);
    let load = |id| Topic {
        id,
        name: "processor load one minute ahead, %".to_owned(),
        kind: TopicKind::Regression,
        labels: vec![SINGLE_LABEL.to_owned()],
        labeling: Labeling::SINGLE,
        creator: None,
        is_active: true,
        active_quantiles: ActiveQuantiles::USUAL,
        active_max: ActiveMax::USUAL,
        whitelist: WorkerWhitelist::default(),
        keep: Keep::default(),
        is_experimental: false,
        has_built_in_forecasters: true,
        unity_tolerance: None,
        timing: LOAD_TIMING,
        judging: judging(LOAD_LOSS_MIN),
        source: source("machine_cpu", "load_percent", LOAD_HORIZON),
        truth: Truth::Value,
        predictor: Some(predictor("VALUE=load_percent HORIZON=60", &LOAD_MODELS)),
    };
    let market = |id| Topic {
        id,
        name: "direction of synthetic BTC/USD over 30 minutes".to_owned(),
        kind: TopicKind::Classification,
        labels: ["up", "down", "flat"].map(str::to_owned).to_vec(),
        labeling: Labeling::MULTI,
        unity_tolerance: Some(1e-6),
        timing: MARKET_TIMING,
        judging: judging(MARKET_LOSS_MIN),
        source: source("synthetic_btcusd_1min", "close", MARKET_HORIZON),
        truth: Truth::Direction { threshold: MARKET_THRESHOLD },
        predictor: Some(predictor(
            "VALUE=close HORIZON=30 LABELS=up,down,flat THRESHOLD=0.001",
            &MARKET_MODELS,
        )),
        ..load(id)
    };
    let makers: [&dyn Fn(TopicId) -> Topic; 2] = [&load, &market];
    ids.zip(makers).map(|(id, make)| make(id)).collect()
}

/// The variables of a text such as `MODEL=last WINDOW=120`.
fn variables(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A column of the dataset of that name.
fn source(dataset: &str, column: &str, horizon: Duration) -> Source {
    Source { dataset: dataset.to_owned(), dataset_id: None, column: column.to_owned(), horizon }
}
