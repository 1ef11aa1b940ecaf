//! Closing an epoch: from what was submitted to the bundle that is served.

use std::collections::BTreeMap;

use model::{
    bundle::{
        Bundle, OneInForecaster, OneOutInfererForecaster, WithheldForecaster, WithheldInferer,
        WorkerValues,
    },
    topic::{Address, BlockHeight},
};

use crate::{
    actor::AddressError,
    forecast::built_in,
    learned::Learned,
    regret::{Family, Standing},
    submission::{Submission, decimal, with_labels},
    synthesis::{Epoch, Synthesis, SynthesisError, Values, synthesize},
    topic::Topic,
};

/// What closing an epoch gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    /// The bundle.
    pub bundle: Bundle,
    /// Each actor's share in the combined value.
    pub shares: Standing,
    /// What the built-in forecasters expected, as submissions of theirs.
    pub forecasts: Vec<Submission>,
}

/// Why an epoch closes without a bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// Its values could not be combined: most often, because there are none.
    #[error("infer")]
    Synthesis(#[from] SynthesisError),
    /// A built-in forecaster has no address.
    #[error("forecast")]
    Address(#[from] AddressError),
}

/// Combines `submissions`, and what the built-in forecasters make of them, into the bundle of
/// `nonce`. Values that were submitted stay the texts they came as.
///
/// # Errors
/// [`CloseError::Synthesis`] without inferences.
pub fn close(
    topic: &Topic,
    nonce: BlockHeight,
    submissions: &[Submission],
    learned: &Learned,
) -> Result<Closing, CloseError> {
    let inferring = submissions.iter().filter(|submission| !submission.inference.is_empty());
    let inferences: BTreeMap<Address, Values> = inferring
        .clone()
        .filter_map(|submission| Some((submission.worker.clone(), submission.values()?)))
        .collect();
    let forecasts: Vec<Submission> = built_in(topic, &inferences, learned)?
        .into_iter()
        .map(|forecast| Submission {
            worker: forecast.address,
            name: Some(format!("built-in: {}", forecast.name)),
            inference: Vec::new(),
            forecast: texts(&forecast.losses),
        })
        .collect();
    let forecasting = submissions.iter().chain(&forecasts);
    let expected: BTreeMap<Address, Family> = forecasting
        .filter(|submission| !submission.forecast.is_empty())
        .map(|submission| (submission.worker.clone(), submission.expected_losses()))
        .collect();
    let synthesis = synthesize(&Epoch {
        params: &topic.params(learned.regret_scale),
        inferences: &inferences,
        forecasts: &expected,
        previous_loss: learned.combined_loss,
        regrets: &learned.regrets,
        newcomers: learned.newcomers(),
    })?;
    let mut inferer_values: Vec<WorkerValues> = inferring
        .map(|submission| WorkerValues {
            worker: submission.worker.clone(),
            values: submission.inference.clone(),
        })
        .collect();
    inferer_values.sort_by(|a, b| a.worker.cmp(&b.worker));
    let shares = Standing {
        inferer: synthesis.inferer_weights.clone(),
        forecaster: synthesis.forecaster_weights.clone(),
    };
    Ok(Closing { bundle: bundle(topic, nonce, inferer_values, &synthesis), shares, forecasts })
}

fn bundle(
    topic: &Topic,
    nonce: BlockHeight,
    inferer_values: Vec<WorkerValues>,
    synthesis: &Synthesis,
) -> Bundle {
    let labeled = |values: &Values| with_labels(topic, values);
    let mut one_out_inferer_forecaster_values = Vec::new();
    for (forecaster, by_inferer) in &synthesis.one_out_inferer_forecaster {
        for (withheld_inferer, values) in by_inferer {
            one_out_inferer_forecaster_values.push(OneOutInfererForecaster {
                forecaster: forecaster.clone(),
                withheld_inferer: withheld_inferer.clone(),
                combined_inference: labeled(values),
            });
        }
    }
    Bundle {
        topic_id: topic.id,
        nonce,
        combined_value: labeled(&synthesis.combined),
        inferer_values,
        forecaster_values: each(&synthesis.implied, |worker, values| WorkerValues {
            worker,
            values: labeled(values),
        }),
        naive_value: labeled(&synthesis.naive),
        one_out_inferer_values: each(&synthesis.one_out_inferer, |name, values| WithheldInferer {
            withheld_inferer: name,
            combined_inference: labeled(values),
        }),
        one_out_forecaster_values: each(&synthesis.one_out_forecaster, |name, values| {
            WithheldForecaster { withheld_forecaster: name, combined_inference: labeled(values) }
        }),
        one_in_forecaster_values: each(&synthesis.one_in_forecaster, |name, values| {
            OneInForecaster { forecaster: name, combined_inference: labeled(values) }
        }),
        one_out_inferer_forecaster_values,
    }
}

fn each<T>(values: &BTreeMap<Address, Values>, make: impl Fn(Address, &Values) -> T) -> Vec<T> {
    values.iter().map(|(name, values)| make(name.clone(), values)).collect()
}

fn texts(losses: &Family) -> BTreeMap<Address, String> {
    losses.iter().map(|(name, loss)| (name.clone(), decimal(*loss))).collect()
}
