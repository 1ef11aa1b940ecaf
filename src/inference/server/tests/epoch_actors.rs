//! Export of past epochs in all formats.

use super::*;

const PATH: &str = "/api/v1/topics/1/epochs/";

/// Returns a fixture with three epochs of topic 1. The last has no ground truth yet.
async fn fixture() -> Fixture {
    let fixture = Fixture::new().await;
    for outcome in [50.0, 51.0] {
        fixture.epoch(1, [&[("y", "51")], &[("y", "55")]], outcome).await;
    }
    let nonce = fixture.open(1, 50.0).await;
    fixture.submit_as("allo1a", None, (1, nonce), payload(&[("y", "52.5")])).await;
    fixture.close(1, nonce, None).await;
    fixture
}

/// Exports with the parameters in `query`. Returns the body and the content type of the response.
async fn file(fixture: &Fixture, query: &str) -> (Vec<u8>, String) {
    let response = fixture.respond(&format!("{PATH}?{query}"), &fixture.key).await;
    assert_eq!(response.status(), 200, "{query}");
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    (body_of(response).await, kind)
}

#[tokio::test]
async fn exported_actors_agree_with_other_queries() {
    let fixture = fixture().await;
    let (status, body) = fixture.get(PATH).await;
    assert_eq!(status, 200, "{body}");
    let rows = body.as_array().unwrap();
    let of = |nonce: u64, worker: &str| {
        let is_it = |row: &&Value| row["nonce"] == nonce && row["worker"] == worker;
        rows.iter().find(is_it).unwrap()
    };
    let nonces: Vec<u64> = rows.iter().map(|row| row["nonce"].as_u64().unwrap()).collect();
    assert!(nonces.is_sorted() && nonces.contains(&25));
    let history = fixture.get("/api/v1/topics/1/history").await.1;
    let epoch = fixture.get("/api/v1/topics/1/epochs/13").await.1;
    let row = of(13, "allo1a");
    assert_eq!(row["timestamp"], history["epochs"][1]["opened_at"]);
    assert_eq!(
        (&row["role"], &row["name"], &row["label"]),
        (&json!("inferer"), &json!("peer"), &json!("y"))
    );
    assert_eq!((row["value"].as_f64(), row["truth"].as_f64()), (Some(51.0), Some(51.0)));
    let text = |value: &Value| value.as_f64().unwrap().to_string();
    assert_eq!(text(&row["weight"]), epoch["weights"]["inferers"]["allo1a"]);
    assert_eq!(text(&row["score"]), epoch["inferer_scores"]["allo1a"]);
    assert_eq!(row["combined_loss"], history["epochs"][1]["combined_loss"]);
    assert_eq!(text(&row["combined_value"]), history["epochs"][1]["combined_value"][0]["value"]);
    assert!(row["loss"].as_f64() < of(13, "allo1b")["loss"].as_f64());
    let newest = of(25, "allo1a");
    for absent in ["name", "truth", "loss", "score", "combined_loss"] {
        assert!(newest.get(absent).is_none(), "{absent} in {newest}");
    }
    assert!(rows.iter().any(|row| row["role"] == "forecaster" && row["name"].is_string()));
}

#[tokio::test]
async fn exported_epochs_are_filtered_and_limited() {
    let fixture = fixture().await;
    for (query, want) in [
        ("actor=allo1a", &[1, 13, 25][..]),
        ("actor=allo1a&from=2", &[13, 25]),
        ("actor=allo1b&to=12", &[1]),
        ("actor=allo1a&limit=2", &[13, 25]),
        ("actor=nobody", &[]),
        ("from=26", &[]),
    ] {
        let (_, body) = fixture.get(&format!("{PATH}?{query}")).await;
        let rows = body.as_array().unwrap().iter();
        let nonces: Vec<u64> = rows.map(|row| row["nonce"].as_u64().unwrap()).collect();
        assert_eq!(nonces, want, "{query}");
    }
    for unfit in ["limit=0", "limit=10001", "from=x", "output=xml", "worker=allo1a"] {
        assert_eq!(fixture.get(&format!("{PATH}?{unfit}")).await.0, 400, "{unfit}");
    }
    assert_eq!(fixture.get("/api/v1/topics/9/epochs/").await.0, 404);
}

#[tokio::test]
async fn epochs_are_exported_in_all_formats() {
    let fixture = fixture().await;
    let (csv, kind) = file(&fixture, "output=csv&actor=allo1a").await;
    assert_eq!(kind, "text/csv; charset=utf-8");
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    let header = "timestamp,nonce,worker,role,name,label,value,weight,loss,score,truth,\
        combined_value,naive_value,combined_loss,naive_loss";
    assert_eq!((lines.len(), lines[0]), (4, header));
    assert!(lines[1].starts_with("2027-01-15T08:00:00Z,1,allo1a,inferer,peer,y,51,"), "{csv}");
    let (ndjson, _) = file(&fixture, "output=ndjson&actor=allo1a").await;
    assert_eq!(String::from_utf8(ndjson).unwrap().lines().count(), 3);
    for output in ["parquet", "arrow"] {
        let (bytes, kind) = file(&fixture, &format!("output={output}")).await;
        assert!(kind.starts_with("application/vnd.apache."), "{kind}");
        assert!(output == "arrow" || bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    }
    assert_eq!(
        file(&fixture, "output=csv&from=26").await.0.split(|byte| *byte == b'\n').count(),
        2
    );
}

#[tokio::test]
async fn exported_actors_have_a_row_for_each_label() {
    let fixture = Fixture::new().await;
    let values: [&[_]; 2] = [
        &[("up", "0.5"), ("down", "0.3"), ("flat", "0.2")],
        &[("up", "0.2"), ("down", "0.2"), ("flat", "0.6")],
    ];
    fixture.epoch(2, values, 60.0).await;
    let (status, body) = fixture.get("/api/v1/topics/2/epochs/?actor=allo1a").await;
    assert_eq!(status, 200, "{body}");
    let rows = body.as_array().unwrap().iter();
    let rows: Vec<_> = rows
        .map(|row| {
            (
                row["label"].as_str().unwrap(),
                row["value"].as_f64().unwrap(),
                row["truth"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(rows, [("up", 0.5, 1.0), ("down", 0.3, 0.0), ("flat", 0.2, 0.0)]);
}
