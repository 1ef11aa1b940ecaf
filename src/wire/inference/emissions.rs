//! Paths of the queries in the chain's API, grouped by subject. For each group, the inference service
//! has a module of the same name.

/// Expands to the path of a query with this suffix. Its `{version}` is any of
/// [`EMISSIONS_VERSIONS`](crate::paths::EMISSIONS_VERSIONS).
macro_rules! query {
    ($path:literal) => {
        concat!("/emissions/{version}/", $path)
    };
}

/// The latest epoch's bundle without outliers, and bundles of given epochs.
pub mod bundles {
    /// Latest bundle without outliers.
    pub const LATEST_OUTLIER_RESISTANT: &str =
        query!("latest_network_inferences_outlier_resistant/{topic_id}");
    /// Bundle of an epoch, given by its nonce.
    pub const AT_BLOCK: &str =
        query!("network_inferences/{topic_id}/last_inference/{block_height}");
    /// Bundle of an epoch without outliers.
    pub const AT_BLOCK_OUTLIER_RESISTANT: &str =
        query!("network_inferences_outlier_resistant/{topic_id}/last_inference/{block_height}");
}

/// Submissions as they were received.
pub mod submissions {
    /// Inferences of an epoch.
    pub const INFERENCES: &str = query!("inferences/{topic_id}/{block_height}");
    /// Inferences of the latest closed epoch.
    pub const LATEST_INFERENCES: &str = query!("latest_inferences/{topic_id}");
    /// Forecasts of an epoch.
    pub const FORECASTS: &str = query!("forecasts/{topic_id}/{block_height}");
    /// Latest inference of a worker.
    pub const LATEST_INPUT_INFERENCE: &str =
        query!("topics/{topic_id}/workers/{worker}/latest_input_inference");
    /// Latest inference of a worker, by its name up to v9.
    pub const LATEST_INFERENCE: &str =
        query!("topics/{topic_id}/workers/{worker}/latest_inference");
}

/// Losses and regrets.
pub mod losses {
    /// Losses of all the network's values in an epoch.
    pub const NETWORK_LOSS: &str = query!("network_loss/{topic_id}/{block_height}");
    /// Losses reported by reputers for an epoch.
    pub const REPUTER_LOSS_BUNDLES: &str = query!("reputer_loss_bundles/{topic_id}/{block_height}");
    /// Regret of an inferer.
    pub const INFERER_REGRET: &str = query!("inferer_network_regret/{topic_id}/{actor_id}");
    /// Regret of a forecaster.
    pub const FORECASTER_REGRET: &str = query!("forecaster_network_regret/{topic_id}/{worker}");
    /// Regret of an actor if a forecaster is the only one.
    pub const ONE_IN_FORECASTER_REGRET: &str =
        query!("one_in_forecaster_network_regret/{topic_id}/{forecaster}/{inferer}");
    /// Regret of an inferer against the naive value: `?topic_id=&inferer=`.
    pub const NAIVE_REGRET: &str = query!("naive_inferer_network_regret");
    /// Regret of an inferer against the naive value, by the misspelt name up to v9.
    pub const NATIVE_REGRET: &str = query!("native_inferer_network_regret");
    /// Regret of an inferer if another inferer is left out: `?topic_id=&one_out_inferer=&inferer=`.
    pub const ONE_OUT_INFERER_INFERER_REGRET: &str =
        query!("one_out_inferer_inferer_network_regret");
    /// Regret of a forecaster if an inferer is left out: `?topic_id=&one_out_inferer=&forecaster=`.
    pub const ONE_OUT_INFERER_FORECASTER_REGRET: &str =
        query!("one_out_inferer_forecaster_network_regret");
    /// Regret of an inferer if a forecaster is left out: `?topic_id=&one_out_forecaster=&inferer=`.
    pub const ONE_OUT_FORECASTER_INFERER_REGRET: &str =
        query!("one_out_forecaster_inferer_network_regret");
    /// Regret of a forecaster if another forecaster is left out:
    /// `?topic_id=&one_out_forecaster=&forecaster=`.
    pub const ONE_OUT_FORECASTER_FORECASTER_REGRET: &str =
        query!("one_out_forecaster_forecaster_network_regret");
}

/// Weights that follow from the latest regrets.
pub mod weights {
    /// Scale by which regrets are divided for the weights.
    pub const REGRET_STDNORM: &str = query!("latest_regret_stdnorm/{topic_id}");
    /// Weight of an inferer.
    pub const INFERER_WEIGHT: &str = query!("latest_inferer_weight/{topic_id}/{actor_id}");
    /// Weight of a forecaster.
    pub const FORECASTER_WEIGHT: &str = query!("latest_forecaster_weight/{topic_id}/{actor_id}");
}

/// Topics and the windows in which they accept submissions.
pub mod windows {
    /// Parameters of the chain.
    pub const PARAMS: &str = query!("params");
    /// True if a topic exists.
    pub const TOPIC_EXISTS: &str = query!("topic_exists/{topic_id}");
    /// True if epochs of a topic open.
    pub const IS_TOPIC_ACTIVE: &str = query!("is_topic_active/{topic_id}");
    /// Topics whose epochs open.
    pub const ACTIVE_TOPICS: &str = query!("active_topics_at_block/{block_height}");
    /// Height at which the next epoch opens.
    pub const NEXT_CHURNING_BLOCK: &str = query!("next_churning_block_by_topic_id/{topic_id}");
    /// True if an epoch is open.
    pub const IS_WORKER_NONCE_UNFULFILLED: &str =
        query!("is_worker_nonce_unfulfilled/{topic_id}/{block_height}");
    /// True if an epoch has not been learned from.
    pub const IS_REPUTER_NONCE_UNFULFILLED: &str =
        query!("is_reputer_nonce_unfulfilled/{topic_id}/{block_height}");
    /// Open epochs.
    pub const UNFULFILLED_WORKER_NONCES: &str = query!("unfulfilled_worker_nonces/{topic_id}");
    /// Epochs that have not been learned from.
    pub const UNFULFILLED_REPUTER_NONCES: &str = query!("unfulfilled_reputer_nonces/{topic_id}");
    /// Epochs that accept submissions now.
    pub const OPEN_WORKER_WINDOWS: &str = query!("open_worker_submission_windows/{topic_id}");
    /// Epochs with a pending ground truth.
    pub const OPEN_REPUTER_WINDOWS: &str = query!("open_reputer_submission_windows/{topic_id}");
    /// Window in which workers submit: `?address=`.
    pub const WORKER_WINDOW_STATUS: &str = query!("worker_submission_window_status/{topic_id}");
    /// Window in which the reputer submits: `?address=`.
    pub const REPUTER_WINDOW_STATUS: &str = query!("reputer_submission_window_status/{topic_id}");
    /// Latest closed epoch.
    pub const LAST_WORKER_COMMIT: &str = query!("topic_last_worker_commit_info/{topic_id}");
    /// Latest epoch learned from.
    pub const LAST_REPUTER_COMMIT: &str = query!("topic_last_reputer_commit_info/{topic_id}");
    /// Nonce of the latest epoch learned from.
    pub const REWARD_NONCE: &str = query!("topic_reward_nonce/{topic_id}");
}

/// Scores of actors: at a nonce, or their moving averages.
pub mod scores {
    /// Moving average of an inferer's scores.
    pub const INFERER_EMA: &str = query!("inferer_score_ema/{topic_id}/{inferer}");
    /// Moving average of a forecaster's scores.
    pub const FORECASTER_EMA: &str = query!("forecaster_score_ema/{topic_id}/{forecaster}");
    /// Moving average of a reputer's scores.
    pub const REPUTER_EMA: &str = query!("reputer_score_ema/{topic_id}/{reputer}");
    /// Scores of inferers up to a block, newest first.
    pub const INFERERS_UNTIL: &str =
        query!("inference_scores_until_block/{topic_id}/{block_height}");
    /// Scores of forecasters up to a block, newest first.
    pub const FORECASTERS_UNTIL: &str =
        query!("forecast_scores_until_block/{topic_id}/{block_height}");
    /// Scores of inferers at a nonce.
    pub const INFERERS_AT: &str =
        query!("worker_inference_scores_at_block/{topic_id}/{block_height}");
    /// Scores of forecasters at a nonce.
    pub const FORECASTERS_AT: &str =
        query!("worker_forecast_scores_at_block/{topic_id}/{block_height}");
    /// Scores of reputers at a nonce.
    pub const REPUTERS_AT: &str = query!("reputers_scores_at_block/{topic_id}/{block_height}");
    /// Lowest moving average among the scores of inferers.
    pub const LOWEST_INFERER: &str = query!("current_lowest_inferer_score/{topic_id}");
    /// Lowest moving average among the scores of forecasters.
    pub const LOWEST_FORECASTER: &str = query!("current_lowest_forecaster_score/{topic_id}");
    /// Lowest moving average among the scores of reputers.
    pub const LOWEST_REPUTER: &str = query!("current_lowest_reputer_score/{topic_id}");
    /// Number of epochs in which an inferer took part.
    pub const INFERER_INCLUSIONS: &str =
        query!("count_inferer_inclusions_in_topic/{topic_id}/{address}");
    /// Number of epochs in which a forecaster took part.
    pub const FORECASTER_INCLUSIONS: &str =
        query!("count_forecaster_inclusions_in_topic/{topic_id}/{address}");
    /// Quantile of inferers' scores, toward which the scores of resting inferers move.
    pub const INFERER_QUANTILE: &str = query!("topic_quantile_inferer_score_ema/{topic_id}");
    /// Quantile of forecasters' scores, toward which the scores of resting forecasters move.
    pub const FORECASTER_QUANTILE: &str = query!("topic_quantile_forecaster_score_ema/{topic_id}");
    /// Quantile of reputers' scores.
    pub const REPUTER_QUANTILE: &str = query!("topic_quantile_reputer_score_ema/{topic_id}");
    /// Initial score of an inferer.
    pub const INFERER_INITIAL: &str = query!("initial_inferer_ema_score/{topic_id}");
    /// Initial score of a forecaster.
    pub const FORECASTER_INITIAL: &str = query!("initial_forecaster_ema_score/{topic_id}");
    /// Initial score of a reputer.
    pub const REPUTER_INITIAL: &str = query!("initial_reputer_ema_score/{topic_id}");
}

/// Who may submit to a topic, and who has taken part.
pub mod whitelist {
    /// True if a topic accepts submissions only from listed workers.
    pub const IS_ENABLED: &str = query!("is_topic_worker_whitelist_enabled/{topic_id}");
    /// True if a worker is on a topic's whitelist.
    pub const IS_WHITELISTED: &str = query!("is_whitelisted_topic_worker/{topic_id}/{address}");
    /// True if a topic accepts submissions from a worker.
    pub const CAN_SUBMIT: &str = query!("can_submit_worker_payload/{topic_id}/{address}");
    /// Inferers that were active in the latest closed epoch.
    pub const ACTIVE_INFERERS: &str = query!("active_inferers/{topic_id}");
    /// Forecasters that were active in the latest closed epoch.
    pub const ACTIVE_FORECASTERS: &str = query!("active_forecasters/{topic_id}");
    /// True if a worker was ever active in a topic.
    pub const WORKER_REGISTERED: &str = query!("worker_registered/{topic_id}/{address}");
    /// True if an address is the reputer of a topic.
    pub const REPUTER_REGISTERED: &str = query!("reputer_registered/{topic_id}/{address}");
    /// Network node of a worker.
    pub const WORKER_NODE: &str = query!("worker/{address}");
    /// Network node of a reputer.
    pub const REPUTER_NODE: &str = query!("reputer/{address}");
    /// True if an address is that of the topic's reputer.
    pub const IS_WHITELISTED_REPUTER: &str =
        query!("is_whitelisted_topic_reputer/{topic_id}/{address}");
    /// True if a topic accepts losses from an address.
    pub const CAN_SUBMIT_REPUTER: &str = query!("can_submit_reputer_payload/{topic_id}/{address}");
    /// True if an address can change a topic's whitelist.
    pub const CAN_UPDATE: &str = query!("can_update_topic_whitelist/{topic_id}/{address}");
}

/// Queries about stakes, rewards, fees and global whitelists. This network has none of these, so each
/// query has a constant response, in the form of `x/emissions/proto/emissions/v10/query.proto`.
pub mod fixed {
    /// A query with a constant response.
    #[derive(Debug, Clone, Copy)]
    pub struct FixedQuery {
        /// Path of the query.
        pub path: &'static str,
        /// Summary for the API description.
        pub summary: &'static str,
        /// Response as JSON.
        pub body: &'static str,
    }

    /// Declares queries by path, summary and response.
    macro_rules! fixed {
        ($($path:literal, $summary:literal, $body:literal;)+) => {
            /// All queries with a constant response.
            pub const QUERIES: &[FixedQuery] =
                &[$(FixedQuery { path: query!($path), summary: $summary, body: $body }),+];
        };
    }

    fixed! {
        "total_stake", "Stake of all reputers.", r#"{"amount":"0"}"#;
        "stake/{topic_id}", "Stake in a topic.", r#"{"amount":"0"}"#;
        "reputer_stake/{address}/{topic_id}", "Stake of a reputer.", r#"{"amount":"0"}"#;
        "reputers_stakes/{topic_id}", "Stakes of several reputers.", r#"{"amounts":[]}"#;
        "reputer_stake_self/{address}/{topic_id}", "Own stake of a reputer.", r#"{"amount":"0"}"#;
        "reputer_delegate_stake/{address}/{topic_id}", "Stake delegated to a reputer.",
            r#"{"amount":"0"}"#;
        "delegate_stake/{delegator}/{topic_id}", "Stake of a delegator.", r#"{"amount":"0"}"#;
        "delegate_stake/{delegator}/{reputer}/{topic_id}", "Stake of a delegator upon a reputer.",
            r#"{"amount":"0"}"#;
        "delegate_stake_placement/{topic_id}/{delegator}/{target}",
            "Stake of a delegator upon a reputer, with its debt.",
            r#"{"delegator_info":{"amount":"0","reward_debt":"0"}}"#;
        "delegate_stake_upon_reputer/{topic_id}/{target}", "Stake delegated to a reputer.",
            r#"{"stake":"0"}"#;
        "delegate_reward_per_share/{topic_id}/{reputer}", "Reward of a share of delegated stake.",
            r#"{"reward_per_share":"0"}"#;
        "stake_reputer_authority/{topic_id}/{reputer}", "Stake that determines a reputer's weight.",
            r#"{"authority":"0"}"#;
        "stake_removals/{block_height}", "Removals of stake up to a block.", r#"{"removals":[]}"#;
        "delegate_stake_removals/{block_height}", "Removals of delegated stake up to a block.",
            r#"{"removals":[]}"#;
        // Two queries of the chain have this path, with the two parameters in either order.
        "stake_removal/{part}/{other}", "Removal of a reputer's stake.",
            r#"{"removal":null,"stake_removal_info":null}"#;
        "delegate_stake_removal/{topic_id}/{delegator}/{reputer}", "Removal of a delegator's stake.",
            r#"{"removal":null}"#;
        "delegate_stake_removal/{block_height}/{topic_id}/{delegator}/{reputer}",
            "Removal of a delegator's stake that completes at a block.",
            r#"{"stake_removal_info":null}"#;
        "previous_topic_weight/{topic_id}", "Weight of a topic in the shares of rewards.",
            r#"{"weight":"0","not_found":true}"#;
        "sum_previous_total_topic_weight", "Weights of all topics in the shares of rewards.",
            r#"{"weight":"0"}"#;
        "topic_fee_revenue/{topic_id}", "Fees that a topic earned.", r#"{"fee_revenue":"0"}"#;
        // Default of `GetListeningCoefficient` in `x/emissions/keeper/keeper.go`.
        "listening_coefficient/{topic_id}/{reputer}", "Share of a reputer's stake that counts.",
            r#"{"listening_coefficient":{"coefficient":"1"}}"#;
        "previous_reputer_reward_fraction/{topic_id}/{reputer}", "Share of a reputer in rewards.",
            r#"{"reward_fraction":"0","not_found":true}"#;
        "previous_inference_reward_fraction/{topic_id}/{worker}", "Share of an inferer in rewards.",
            r#"{"reward_fraction":"0","not_found":true}"#;
        "previous_forecast_reward_fraction/{topic_id}/{worker}", "Share of a forecaster in rewards.",
            r#"{"reward_fraction":"0","not_found":true}"#;
        "previous_percentage_reward_to_staked_reputers", "Share of all reputers in rewards.",
            r#"{"percentage_reward":"0"}"#;
        "total_reward_to_distribute", "Rewards to distribute.", r#"{"total_reward":"0"}"#;
        "whitelist_admin/{address}", "Permission of an address to administer whitelists.",
            r#"{"is_admin":false}"#;
        "is_whitelisted_global_worker/{address}", "Permission of an address to work on all topics.",
            r#"{"is_whitelisted_global_worker":false}"#;
        "is_whitelisted_global_reputer/{address}", "Permission of an address to report on all topics.",
            r#"{"is_whitelisted_global_reputer":false}"#;
        "is_whitelisted_global_admin/{address}", "Permission of an address to administer all whitelists.",
            r#"{"is_whitelisted_global_admin":false}"#;
        "is_whitelisted_global_actor/{address}", "Permission of an address to act on all topics.",
            r#"{"is_whitelisted_global_actor":false}"#;
        "is_whitelisted_topic_creator/{address}", "Permission of an address to create topics.",
            r#"{"is_whitelisted_topic_creator":false}"#;
        // The only reputer of a topic is its dataset.
        "is_topic_reputer_whitelist_enabled/{topic_id}", "True, since only listed reputers count.",
            r#"{"is_topic_reputer_whitelist_enabled":true}"#;
        "can_update_all_global_whitelists/{address}", "Permission of an address to change all whitelists.",
            r#"{"can_update_all_global_whitelists":false}"#;
        "can_update_global_worker_whitelist/{address}",
            "Permission of an address to change the global whitelist of workers.",
            r#"{"can_update_global_worker_whitelist":false}"#;
        "can_update_global_reputer_whitelist/{address}",
            "Permission of an address to change the global whitelist of reputers.",
            r#"{"can_update_global_reputer_whitelist":false}"#;
        "can_update_params/{address}", "Permission of an address to change parameters.",
            r#"{"can_update_params":false}"#;
        // Topics are created with keys of operators, which cannot be found by an address.
        "can_create_topic/{address}", "Permission of an address to create topics.",
            r#"{"can_create_topic":false}"#;
    }
}
