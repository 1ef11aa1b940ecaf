use std::collections::BTreeMap;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use wire::inference::network::PredictorSettings;

use super::*;
use crate::tests::fake::Fake;

async fn service() -> (Fake, Inference) {
    let latest = |Path((version, topic)): Path<(String, String)>, uri: axum::http::Uri| async move {
        assert_eq!(uri.query(), Some("leave_out=all"), "it includes all values of forecasters");
        if version != "v10" || topic != "14" {
            let body = json!({ "code": 5, "message": "no such topic", "details": [] });
            return (StatusCode::NOT_FOUND, Json(body));
        }
        let y = |value| json!([{ "label_id": 1, "label_name": "y", "value": value }]);
        let body = json!({
            "network_inferences": {
                "topic_id": "14", "nonce": "480", "combined_value": y("0.25"),
                "inferer_values": [{ "worker": "allo1abc", "values": y("0.30") }],
                "forecaster_values": [], "naive_value": y("0.20"), "one_out_inferer_values": []
            },
            "inference_block_height": "483"
        });
        (StatusCode::OK, Json(body))
    };
    let history = || async { Json(json!({ "topic_id": 14, "epochs": [] })) };
    let epochs = |uri: axum::http::Uri| async move {
        assert_eq!(uri.query(), Some("from=1&to=9&limit=5&actor=mine"));
        Json(json!([{ "timestamp": "2027-01-15T08:00:00Z", "nonce": 4, "worker": "allo1abc",
            "role": "inferer", "name": "mine", "label": "y", "value": 0.25 }]))
    };
    let router = Router::new()
        .route(paths::TOPIC_EPOCHS, get(epochs))
        .route(paths::LATEST_NETWORK_INFERENCES, get(latest))
        .route(paths::TOPIC_HISTORY, get(history));
    let fake = Fake::serve(router).await;
    let inference = Inference::new(Transport::new(&fake.address, None).unwrap());
    (fake, inference)
}

#[tokio::test]
async fn decimal_strings_of_the_latest_bundle_are_parsed() {
    let (_fake, inference) = service().await;
    let latest = inference.latest(TopicId::new(14).unwrap()).await.unwrap();
    assert_eq!((latest.bundle.nonce, latest.block_height), (480, 483));
    assert!((latest.bundle.combined_value[0].value - 0.25).abs() < 1e-12);
    assert!((latest.bundle.inferer_values[0].values[0].value - 0.3).abs() < 1e-12);
}

#[tokio::test]
async fn history_of_topic_is_read() {
    let (_fake, inference) = service().await;
    let history = inference.history(TopicId::new(14).unwrap(), 10).await.unwrap();
    assert_eq!(history.topic_id, 14);
}

#[tokio::test]
async fn epochs_of_one_actor_are_read() {
    let (_fake, inference) = service().await;
    let topic = TopicId::new(14).unwrap();
    let rows = inference.epoch_actors(topic, 1..=9, Some("mine"), 5).await.unwrap();
    assert_eq!((rows[0].nonce, rows[0].value, rows[0].loss), (4, Some(0.25), None));
}

#[tokio::test]
async fn edit_of_a_topic_keeps_settings_that_others_changed() {
    let settings = |metadata: &str, workers: &[&str]| {
        let mut settings = TopicSettings { metadata: metadata.to_owned(), ..Default::default() };
        settings.worker_whitelist = workers.iter().map(|worker| (*worker).to_owned()).collect();
        settings
    };
    let predictor = |function: &str, n_rows| PredictorSettings {
        function: function.to_owned(),
        method: "predict.wasm".to_owned(),
        subgroup: None,
        n_nodes: None,
        n_rows,
        env: BTreeMap::new(),
        models: Vec::new(),
    };
    let mut current = settings("load", &[]);
    current.predictor = Some(predictor("old", Some(7)));
    current.target = Some("volatility".to_owned());
    let (sender, mut received) = tokio::sync::mpsc::channel(1);
    let put = async move |Json(body): Json<TopicSettings>| {
        sender.send(body).await.unwrap();
        StatusCode::NOT_FOUND
    };
    let read = {
        let current = current.clone();
        async move || Json(current)
    };
    let fake = Fake::serve(Router::new().route(paths::TOPIC_SETTINGS, get(read).put(put))).await;
    let inference = Inference::new(Transport::new(&fake.address, None).unwrap());

    let mut before = settings("load", &["allo1removed"]);
    before.predictor = Some(predictor("old", None));
    before.target = Some("volatility".to_owned());
    let mut after = settings("the load", &["allo1removed"]);
    after.predictor = Some(predictor("new", None));
    inference.edit_topic(TopicId::FIRST, &before, &after).await.unwrap_err();
    let want = TopicSettings {
        metadata: "the load".to_owned(),
        predictor: Some(predictor("new", Some(7))),
        target: None,
        ..current
    };
    assert_eq!(received.recv().await, Some(want));
}
