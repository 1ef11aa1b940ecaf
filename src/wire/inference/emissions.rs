//! The chain's queries, in its own families. A family is answered in one file, named as it is here.

/// The path of a query of the chain, of either version.
macro_rules! query {
    ($path:literal) => {
        concat!("/emissions/{version}/", $path)
    };
}

/// Bundles: of the newest epoch without its outliers, and of the epoch at a block.
pub mod bundles {
    /// The newest bundle without outliers.
    pub const LATEST_OUTLIER_RESISTANT: &str =
        query!("latest_network_inferences_outlier_resistant/{topic_id}");
    /// The bundle of one nonce.
    pub const AT_BLOCK: &str =
        query!("network_inferences/{topic_id}/last_inference/{block_height}");
    /// The bundle of one nonce without outliers.
    pub const AT_BLOCK_OUTLIER_RESISTANT: &str =
        query!("network_inferences_outlier_resistant/{topic_id}/last_inference/{block_height}");
}

/// Submissions, as they came.
pub mod submissions {
    /// The inferences of one nonce.
    pub const INFERENCES: &str = query!("inferences/{topic_id}/{block_height}");
    /// The inferences of the newest nonce that closed.
    pub const LATEST_INFERENCES: &str = query!("latest_inferences/{topic_id}");
    /// The forecasts of one nonce.
    pub const FORECASTS: &str = query!("forecasts/{topic_id}/{block_height}");
    /// A worker's newest inference.
    pub const LATEST_INPUT_INFERENCE: &str =
        query!("topics/{topic_id}/workers/{worker}/latest_input_inference");
    /// The same as it was called up to v9.
    pub const LATEST_INFERENCE: &str =
        query!("topics/{topic_id}/workers/{worker}/latest_inference");
}

/// Losses, and the regrets that follow from them.
pub mod losses {
    /// The network's losses of one nonce.
    pub const NETWORK_LOSS: &str = query!("network_loss/{topic_id}/{block_height}");
    /// What each reputer reported for one nonce.
    pub const REPUTER_LOSS_BUNDLES: &str = query!("reputer_loss_bundles/{topic_id}/{block_height}");
    /// An inferer's regret.
    pub const INFERER_REGRET: &str = query!("inferer_network_regret/{topic_id}/{actor_id}");
    /// A forecaster's regret.
    pub const FORECASTER_REGRET: &str = query!("forecaster_network_regret/{topic_id}/{worker}");
    /// A regret with one forecaster alone.
    pub const ONE_IN_FORECASTER_REGRET: &str =
        query!("one_in_forecaster_network_regret/{topic_id}/{forecaster}/{inferer}");
    /// An inferer's regret against the naive value; `?topic_id=&inferer=`.
    pub const NAIVE_REGRET: &str = query!("naive_inferer_network_regret");
    /// The same as it is spelled up to v9.
    pub const NATIVE_REGRET: &str = query!("native_inferer_network_regret");
    /// An inferer's regret without another; `?topic_id=&one_out_inferer=&inferer=`.
    pub const ONE_OUT_INFERER_INFERER_REGRET: &str =
        query!("one_out_inferer_inferer_network_regret");
    /// A forecaster's regret without an inferer; `?topic_id=&one_out_inferer=&forecaster=`.
    pub const ONE_OUT_INFERER_FORECASTER_REGRET: &str =
        query!("one_out_inferer_forecaster_network_regret");
    /// An inferer's regret without a forecaster; `?topic_id=&one_out_forecaster=&inferer=`.
    pub const ONE_OUT_FORECASTER_INFERER_REGRET: &str =
        query!("one_out_forecaster_inferer_network_regret");
    /// A forecaster's regret without another; `?topic_id=&one_out_forecaster=&forecaster=`.
    pub const ONE_OUT_FORECASTER_FORECASTER_REGRET: &str =
        query!("one_out_forecaster_forecaster_network_regret");
}

/// Weights, as they follow from the newest regrets.
pub mod weights {
    /// The scale of regrets.
    pub const REGRET_STDNORM: &str = query!("latest_regret_stdnorm/{topic_id}");
    /// An inferer's share.
    pub const INFERER_WEIGHT: &str = query!("latest_inferer_weight/{topic_id}/{actor_id}");
    /// A forecaster's share.
    pub const FORECASTER_WEIGHT: &str = query!("latest_forecaster_weight/{topic_id}/{actor_id}");
}

/// Topics and their windows.
pub mod windows {
    /// The chain's parameters.
    pub const PARAMS: &str = query!("params");
    /// Whether there is such a topic.
    pub const TOPIC_EXISTS: &str = query!("topic_exists/{topic_id}");
    /// Whether its epochs open.
    pub const IS_TOPIC_ACTIVE: &str = query!("is_topic_active/{topic_id}");
    /// The topics whose epochs open.
    pub const ACTIVE_TOPICS: &str = query!("active_topics_at_block/{block_height}");
    /// When the next epoch opens.
    pub const NEXT_CHURNING_BLOCK: &str = query!("next_churning_block_by_topic_id/{topic_id}");
    /// Whether an epoch is open.
    pub const IS_WORKER_NONCE_UNFULFILLED: &str =
        query!("is_worker_nonce_unfulfilled/{topic_id}/{block_height}");
    /// Whether an epoch is to be learned from.
    pub const IS_REPUTER_NONCE_UNFULFILLED: &str =
        query!("is_reputer_nonce_unfulfilled/{topic_id}/{block_height}");
    /// The epochs that are open.
    pub const UNFULFILLED_WORKER_NONCES: &str = query!("unfulfilled_worker_nonces/{topic_id}");
    /// The epochs that are to be learned from.
    pub const UNFULFILLED_REPUTER_NONCES: &str = query!("unfulfilled_reputer_nonces/{topic_id}");
    /// The epochs that take submissions now.
    pub const OPEN_WORKER_WINDOWS: &str = query!("open_worker_submission_windows/{topic_id}");
    /// The epochs whose truth is asked for now.
    pub const OPEN_REPUTER_WINDOWS: &str = query!("open_reputer_submission_windows/{topic_id}");
    /// Where workers stand; `?address=`.
    pub const WORKER_WINDOW_STATUS: &str = query!("worker_submission_window_status/{topic_id}");
    /// Where reputers stand; `?address=`.
    pub const REPUTER_WINDOW_STATUS: &str = query!("reputer_submission_window_status/{topic_id}");
    /// The newest epoch that closed.
    pub const LAST_WORKER_COMMIT: &str = query!("topic_last_worker_commit_info/{topic_id}");
    /// The newest epoch that was learned from.
    pub const LAST_REPUTER_COMMIT: &str = query!("topic_last_reputer_commit_info/{topic_id}");
    /// The nonce learned from last.
    pub const REWARD_NONCE: &str = query!("topic_reward_nonce/{topic_id}");
}

/// Scores of actors, at one nonce or averaged.
pub mod scores {
    /// The moving average of an inferer's scores.
    pub const INFERER_EMA: &str = query!("inferer_score_ema/{topic_id}/{inferer}");
    /// The moving average of a forecaster's scores.
    pub const FORECASTER_EMA: &str = query!("forecaster_score_ema/{topic_id}/{forecaster}");
    /// The moving average of a reputer's scores.
    pub const REPUTER_EMA: &str = query!("reputer_score_ema/{topic_id}/{reputer}");
    /// Inferers' scores up to a block, newest first.
    pub const INFERERS_UNTIL: &str =
        query!("inference_scores_until_block/{topic_id}/{block_height}");
    /// Forecasters' scores up to a block, newest first.
    pub const FORECASTERS_UNTIL: &str =
        query!("forecast_scores_until_block/{topic_id}/{block_height}");
    /// Inferers' scores of one nonce.
    pub const INFERERS_AT: &str =
        query!("worker_inference_scores_at_block/{topic_id}/{block_height}");
    /// Forecasters' scores of one nonce.
    pub const FORECASTERS_AT: &str =
        query!("worker_forecast_scores_at_block/{topic_id}/{block_height}");
    /// Reputers' scores of one nonce.
    pub const REPUTERS_AT: &str = query!("reputers_scores_at_block/{topic_id}/{block_height}");
    /// The lowest average of an inferer.
    pub const LOWEST_INFERER: &str = query!("current_lowest_inferer_score/{topic_id}");
    /// The lowest average of a forecaster.
    pub const LOWEST_FORECASTER: &str = query!("current_lowest_forecaster_score/{topic_id}");
    /// The lowest average of a reputer.
    pub const LOWEST_REPUTER: &str = query!("current_lowest_reputer_score/{topic_id}");
    /// In how many epochs an inferer took part.
    pub const INFERER_INCLUSIONS: &str =
        query!("count_inferer_inclusions_in_topic/{topic_id}/{address}");
    /// In how many epochs a forecaster took part.
    pub const FORECASTER_INCLUSIONS: &str =
        query!("count_forecaster_inclusions_in_topic/{topic_id}/{address}");
}

/// Who may take part in a topic, and who did.
pub mod whitelist {
    /// Whether a topic takes submissions of listed workers alone.
    pub const IS_ENABLED: &str = query!("is_topic_worker_whitelist_enabled/{topic_id}");
    /// Whether a worker is on a topic's whitelist.
    pub const IS_WHITELISTED: &str = query!("is_whitelisted_topic_worker/{topic_id}/{address}");
    /// Whether a topic takes submissions of a worker.
    pub const CAN_SUBMIT: &str = query!("can_submit_worker_payload/{topic_id}/{address}");
    /// The active inferers of the newest epoch that closed.
    pub const ACTIVE_INFERERS: &str = query!("active_inferers/{topic_id}");
    /// The active forecasters of the newest epoch that closed.
    pub const ACTIVE_FORECASTERS: &str = query!("active_forecasters/{topic_id}");
}
