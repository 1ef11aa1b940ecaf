//! Topics with many actors: which data queries read, and streaming of long responses.

use std::collections::BTreeMap;

use futures::FutureExt;

use super::*;
use crate::store::Inputs;

/// Number of inferers of the large topic. Together with [`N_FORECASTERS`] it results in so many pairs
/// that responses are streamed.
const N_INFERERS: usize = 120;
const N_FORECASTERS: usize = 40;

fn address(role: &str, idx: usize) -> Address {
    format!("allo1{role}{idx:03}").parse().unwrap()
}

/// Runs an epoch of topic 1 in which each forecaster forecasts all inferers, and learns from it.
async fn epoch(fixture: &Fixture, n_inferers: usize, n_forecasters: usize) {
    let nonce = fixture.open(1, 50.0).await;
    let submit = async |worker: Address, payload: Payload| {
        fixture.submit_as(worker.as_str(), None, (1, nonce), payload).await;
    };
    for idx in 0..n_inferers {
        submit(address("inf", idx), payload(&[("y", &format!("5{}.{idx}", idx % 3))])).await;
    }
    for idx in 0..n_forecasters {
        let loss = |of: usize| (address("inf", of), format!("-0.{}", (of + idx) % 7));
        let forecast: BTreeMap<Address, String> = (0..n_inferers).map(loss).collect();
        submit(address("for", idx), Payload { forecast, ..Payload::default() }).await;
    }
    fixture.close(1, nonce, Some(51.0)).await;
}

/// Returns a fixture in which all actors of a large epoch of topic 1 are active.
async fn large() -> Fixture {
    let fixture = Fixture::new().await;
    let topic = fixture.inference.topic(topic(1)).unwrap();
    let active_max = crate::math::regret::ByRole { inferer: 1000, forecaster: 1000 };
    let topic = Topic { active_max, ..topic.as_ref().clone() };
    let put = |change| fixture.inference.put_topic(change, topic.clone(), Inputs::Keep).boxed();
    fixture.inference.change_list(put).await.unwrap();
    fixture
}

#[tokio::test]
async fn queries_read_only_the_stored_data_that_they_return() {
    let fixture = Fixture::new().await;
    for _ in 0..3 {
        epoch(&fixture, 3, 2).await;
    }
    let paths = [
        "/api/v1/topics",
        "/api/v1/topics/1/history",
        "/emissions/v10/latest_regret_stdnorm/1",
        "/emissions/v10/inferer_network_regret/1/allo1inf000",
        "/emissions/v10/one_out_inferer_inferer_network_regret?topic_id=1\
            &one_out_inferer=allo1inf000&inferer=allo1inf001",
        "/emissions/v10/topic_last_worker_commit_info/1",
        "/emissions/v10/inferer_score_ema/1/allo1inf000",
    ];
    let mut before = Vec::new();
    for path in paths {
        before.push(fixture.get(path).await);
    }
    // Corrupts these records, so that a query that reads one of them fails.
    let spoil = "UPDATE bundles SET record = '?'; UPDATE learned SET record = '?'";
    fixture.inference.shared.store.execute(spoil);
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(before.0, 200, "{path}: {}", before.1);
        assert_eq!(fixture.get(path).await, before, "{path}");
    }
}

#[tokio::test]
async fn long_bundle_is_streamed_completely() {
    let fixture = large().await;
    for _ in 0..2 {
        epoch(&fixture, N_INFERERS, N_FORECASTERS).await;
    }
    for version in ["v10", "v9"] {
        let path = format!("/emissions/{version}/latest_network_inferences/1?leave_out=all");
        let response = fixture.respond(&path, &fixture.key).await;
        assert!(response.headers().get("content-length").is_none(), "{path}");
        let (_, body) = read(response).await;
        let bundle = &body["network_inferences"];
        let values = bundle["one_out_inferer_forecaster_values"].as_array().unwrap();
        // Including built-in forecasters.
        let n_rows = bundle["forecaster_values"].as_array().unwrap().len();
        assert!(n_rows > N_FORECASTERS, "{path}");
        let n_values = if version == "v9" { n_rows } else { n_rows * N_INFERERS };
        assert_eq!(values.len(), n_values, "{path}");
        let (_, at) = fixture
            .get(&format!(
                "/emissions/{version}/network_inferences/1/last_inference/13?leave_out=all"
            ))
            .await;
        assert_eq!(at["network_inferences"], *bundle, "{path}");
    }
    let (_, loss) = fixture.get("/emissions/v10/network_loss/1/13").await;
    let (_, epoch) = fixture.get("/api/v1/topics/1/epochs/13").await;
    let of_pairs = &loss["loss_bundle"]["one_out_inferer_forecaster_values"];
    let n_rows = loss["loss_bundle"]["forecaster_values"].as_array().unwrap().len();
    assert_eq!(of_pairs.as_array().unwrap().len(), n_rows);
    let row = &of_pairs[0]["one_out_inferer_values"];
    assert_eq!(row.as_array().unwrap().len(), N_INFERERS, "{row}");
    assert_eq!(epoch["losses"]["one_out_inferer_forecaster_values"], *of_pairs);
    let values = &epoch["network_inferences"]["one_out_inferer_forecaster_values"];
    assert_eq!(values.as_array().unwrap().len(), n_rows * N_INFERERS);
}

#[tokio::test]
async fn id_of_a_deleted_topic_is_not_reused() {
    let fixture = Fixture::new().await;
    let (status, created) = create(&fixture, &json!({})).await;
    assert_eq!((status, &created["topic"]["id"]), (200, &json!("3")));
    let key = || Some(("x-api-key", fixture.key.reveal()));
    let built_in = fixture.send("DELETE", "/api/v1/topics/1", key()).await;
    assert_eq!(built_in.0, 403, "{}", built_in.1);
    assert_eq!(fixture.send("DELETE", "/api/v1/topics/3", key()).await, (204, Value::Null));
    assert_eq!(fixture.get("/emissions/v10/topics/3").await.0, 404);
    assert_eq!(fixture.send("DELETE", "/api/v1/topics/3", key()).await.0, 404);
    fixture.inference.drop_leftovers().await.unwrap();
    let (_, created) = create(&fixture, &json!({})).await;
    assert_eq!(created["topic"]["id"], "4");
}
