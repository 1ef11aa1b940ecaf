//! The operations that read losses, regrets and weights.

use web::openapi::{Operation, Parameter, part, query};
use wire::paths::emissions::{losses as of, weights};

use super::{ADDRESS, HEIGHT, TOPIC};

/// A topic in the query.
const TOPIC_ASKED: Parameter = query(
    "topic_id",
    r#"{"type":"integer","format":"uint64","minimum":1,"x-required":true}"#,
    "The topic's number.",
);

/// What an address in the query looks like.
const ADDRESS_ASKED: &str =
    r#"{"type":"string","pattern":"^allo1[a-z0-9]{1,85}$","x-required":true}"#;

/// An inferer in the query.
const INFERER: Parameter = query("inferer", ADDRESS_ASKED, "The inferer's address.");

/// A forecaster in the query.
const FORECASTER: Parameter = query("forecaster", ADDRESS_ASKED, "The forecaster's address.");

/// The inferer left out.
const WITHOUT_INFERER: Parameter =
    query("one_out_inferer", ADDRESS_ASKED, "The address of the inferer left out.");

/// The forecaster left out.
const WITHOUT_FORECASTER: Parameter =
    query("one_out_forecaster", ADDRESS_ASKED, "The address of the forecaster left out.");

/// Path parameter: the actor's address.
const ACTOR: Parameter = part("actor_id", ADDRESS, "The actor's address.");

/// Who has no regret.
const NEWCOMER: &str = "Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.";

/// What shares are.
const SHARE: &str = "0 to 1; those of all actors of a topic sum to 1. 0 for who has none.";

/// The operations of this group, in the order of the description.
pub(super) const OPERATIONS: [Operation; 14] = [
    asks!(
        "losses",
        of::NETWORK_LOSS,
        "network_loss",
        "The losses of every quantity of one epoch.",
        "Base-10 logarithms, unless the topic allows negative losses.",
        [TOPIC, HEIGHT],
        "NetworkLoss"
    ),
    asks!(
        "losses",
        of::REPUTER_LOSS_BUNDLES,
        "reputer_loss_bundles",
        "What each reputer reported for one epoch: the dataset is the one reputer here.",
        "",
        [TOPIC, HEIGHT],
        "Reported"
    ),
    asks!(
        "losses",
        of::INFERER_REGRET,
        "inferer_network_regret",
        "An inferer's regret.",
        NEWCOMER,
        [TOPIC, ACTOR],
        "RegretResponse"
    ),
    asks!(
        "losses",
        of::FORECASTER_REGRET,
        "forecaster_network_regret",
        "A forecaster's regret.",
        NEWCOMER,
        [TOPIC, part("worker", ADDRESS, "The forecaster's address.")],
        "RegretResponse"
    ),
    asks!(
        "losses",
        of::ONE_IN_FORECASTER_REGRET,
        "one_in_forecaster_network_regret",
        "A regret with one forecaster alone.",
        NEWCOMER,
        [
            TOPIC,
            part("forecaster", ADDRESS, "The forecaster's address."),
            part("inferer", ADDRESS, "The inferer's address, or the forecaster's again.")
        ],
        "RegretResponse"
    ),
    asks!(
        "losses",
        of::NAIVE_REGRET,
        "naive_inferer_network_regret",
        "An inferer's regret against the naive value.",
        NEWCOMER,
        [TOPIC_ASKED, INFERER],
        "RegretResponse"
    ),
    asks!(
        "losses",
        of::NATIVE_REGRET,
        "native_inferer_network_regret",
        "The same as it is spelled up to `v9`.",
        NEWCOMER,
        [TOPIC_ASKED, INFERER],
        "RegretResponse"
    ),
    asks!(
        "losses",
        of::ONE_OUT_INFERER_INFERER_REGRET,
        "one_out_inferer_inferer_network_regret",
        "An inferer's regret without another one.",
        NEWCOMER,
        [TOPIC_ASKED, WITHOUT_INFERER, INFERER],
        "RegretResponse"
    ),
    asks!(
        "losses",
        of::ONE_OUT_INFERER_FORECASTER_REGRET,
        "one_out_inferer_forecaster_network_regret",
        "A forecaster's regret without an inferer.",
        NEWCOMER,
        [TOPIC_ASKED, WITHOUT_INFERER, FORECASTER],
        "RegretResponse"
    ),
    asks!(
        "losses",
        of::ONE_OUT_FORECASTER_INFERER_REGRET,
        "one_out_forecaster_inferer_network_regret",
        "An inferer's regret without a forecaster.",
        NEWCOMER,
        [TOPIC_ASKED, WITHOUT_FORECASTER, INFERER],
        "RegretResponse"
    ),
    asks!(
        "losses",
        of::ONE_OUT_FORECASTER_FORECASTER_REGRET,
        "one_out_forecaster_forecaster_network_regret",
        "A forecaster's regret without another one.",
        NEWCOMER,
        [TOPIC_ASKED, WITHOUT_FORECASTER, FORECASTER],
        "RegretResponse"
    ),
    asks!(
        "losses",
        weights::REGRET_STDNORM,
        "latest_regret_stdnorm",
        "The scale of regrets that weights are reckoned with; 0 before there is one.",
        "",
        [TOPIC],
        "ValueResponse"
    ),
    asks!(
        "losses",
        weights::INFERER_WEIGHT,
        "latest_inferer_weight",
        "An inferer's share, as it follows from the newest regrets.",
        SHARE,
        [TOPIC, ACTOR],
        "WeightResponse"
    ),
    asks!(
        "losses",
        weights::FORECASTER_WEIGHT,
        "latest_forecaster_weight",
        "A forecaster's share, as it follows from the newest regrets.",
        SHARE,
        [TOPIC, ACTOR],
        "WeightResponse"
    ),
];
