//! The operations that read scores.

use web::openapi::{Operation, part};
use wire::paths::emissions::scores as of;

use super::{ADDRESS, HEIGHT, TOPIC};

/// What a score is.
const SCORE: &str = "By how much the network would have lost more without the actor, in the unit of the \
    topic's losses.";

/// What a moving average begins with.
const AVERAGE: &str = "The topic's `merit_sortition_alpha` is the share of the newest score. In an epoch in \
    which the actor submits and rests, it moves likewise toward the topic's quantile of the newest scores. \
    0 for an actor without one.";

/// The operations of this group, in the order of the description.
pub(super) const OPERATIONS: [Operation; 13] = [
    asks!(
        "scores",
        of::INFERER_EMA,
        "inferer_score_ema",
        "The moving average of an inferer's scores.",
        AVERAGE,
        [TOPIC, part("inferer", ADDRESS, "The inferer's address.")],
        "ScoreResponse"
    ),
    asks!(
        "scores",
        of::FORECASTER_EMA,
        "forecaster_score_ema",
        "The moving average of a forecaster's scores.",
        AVERAGE,
        [TOPIC, part("forecaster", ADDRESS, "The forecaster's address.")],
        "ScoreResponse"
    ),
    asks!(
        "scores",
        of::REPUTER_EMA,
        "reputer_score_ema",
        "The moving average of a reputer's scores: 0, since nobody scores the dataset.",
        "",
        [TOPIC, part("reputer", ADDRESS, "The reputer's address.")],
        "ScoreResponse"
    ),
    asks!(
        "scores",
        of::INFERERS_UNTIL,
        "inference_scores_until_block",
        "Inferers' scores of the 25 newest epochs up to a block, newest first.",
        SCORE,
        [TOPIC, HEIGHT],
        "Scores"
    ),
    asks!(
        "scores",
        of::FORECASTERS_UNTIL,
        "forecast_scores_until_block",
        "Forecasters' scores of the 25 newest epochs up to a block, newest first.",
        SCORE,
        [TOPIC, HEIGHT],
        "Scores"
    ),
    asks!(
        "scores",
        of::INFERERS_AT,
        "worker_inference_scores_at_block",
        "Inferers' scores of one epoch.",
        SCORE,
        [TOPIC, HEIGHT],
        "ScoresAtBlock"
    ),
    asks!(
        "scores",
        of::FORECASTERS_AT,
        "worker_forecast_scores_at_block",
        "Forecasters' scores of one epoch.",
        SCORE,
        [TOPIC, HEIGHT],
        "ScoresAtBlock"
    ),
    asks!(
        "scores",
        of::REPUTERS_AT,
        "reputers_scores_at_block",
        "The reputer's score of one epoch: 0.",
        "",
        [TOPIC, HEIGHT],
        "ScoresAtBlock"
    ),
    asks!(
        "scores",
        of::LOWEST_INFERER,
        "current_lowest_inferer_score",
        "The lowest moving average of an active inferer of the newest epoch that closed.",
        "",
        [TOPIC],
        "ScoreResponse"
    ),
    asks!(
        "scores",
        of::LOWEST_FORECASTER,
        "current_lowest_forecaster_score",
        "The lowest moving average of an active forecaster of the newest epoch that closed.",
        "",
        [TOPIC],
        "ScoreResponse"
    ),
    asks!(
        "scores",
        of::LOWEST_REPUTER,
        "current_lowest_reputer_score",
        "The lowest moving average of a reputer: 0.",
        "",
        [TOPIC],
        "ScoreResponse"
    ),
    asks!(
        "scores",
        of::INFERER_INCLUSIONS,
        "count_inferer_inclusions_in_topic",
        "In how many epochs an inferer took part.",
        "",
        [TOPIC, part("address", ADDRESS, "The inferer's address.")],
        "CountResponse"
    ),
    asks!(
        "scores",
        of::FORECASTER_INCLUSIONS,
        "count_forecaster_inclusions_in_topic",
        "In how many epochs a forecaster took part.",
        "",
        [TOPIC, part("address", ADDRESS, "The forecaster's address.")],
        "CountResponse"
    ),
];
