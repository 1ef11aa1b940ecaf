//! Creation of several topics at once.

use super::*;
use crate::network::topics::TOPICS_OF_KEY_MAX;

fn settings(name: &str, horizon: u64) -> Value {
    super::settings(&json!({"metadata": name, "horizon_seconds": horizon}))
}

async fn create(fixture: &Fixture, topics: &[Value]) -> (u16, Value) {
    fixture.put("POST", "/api/v1/topics/batch", &json!({"topics": topics})).await
}

async fn names(fixture: &Fixture) -> Vec<String> {
    let (_, list) = fixture.get("/api/v1/topics").await;
    let topics = list["topics"].as_array().unwrap();
    topics.iter().skip(2).map(|topic| topic["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn batch_creates_a_topic_for_each_of_its_settings() {
    let fixture = Fixture::new().await;
    let (status, created) = create(&fixture, &[settings("5m", 300), settings("1h", 3600)]).await;
    assert_eq!(status, 200, "{created}");
    let created = created["topics"].as_array().unwrap().iter();
    let ids: Vec<&Value> = created.map(|created| &created["topic"]["id"]).collect();
    assert_eq!(ids, ["3", "4"]);
    assert_eq!(names(&fixture).await, ["5m", "1h"]);
    let (_, shown) = fixture.get("/api/v1/topics/4").await;
    assert_eq!(shown["horizon_seconds"], 3600);
}

#[tokio::test]
async fn batch_with_a_refused_topic_creates_no_topic() {
    let fixture = Fixture::new().await;
    let late = "400d: invalid topic settings: horizon_seconds is missing, or not between 1 second and 366 days";
    let missing = "dataset nowhere does not exist, or is not readable by this service; readable \
                   datasets: machine_cpu";
    for (refused, message) in [
        (settings("400d", 400 * 86_400), late.to_owned()),
        (
            super::settings(&json!({"metadata": "other", "dataset": "nowhere"})),
            format!("other: {missing}"),
        ),
    ] {
        let got = create(&fixture, &[settings("5m", 300), refused]).await;
        Fixture::check(got, 400, 3, &message);
    }
    let unknown = json!({"metadata": "a", "colour": "red"});
    let (status, refused) = create(&fixture, &[settings("5m", 300), unknown]).await;
    assert_eq!(status, 400);
    assert!(refused["message"].as_str().unwrap().contains("unknown field `colour`"), "{refused}");
    for n_topics in [0, 65] {
        let got = create(&fixture, &vec![settings("5m", 300); n_topics]).await;
        Fixture::check(got, 400, 3, "topics must be 1 to 64");
    }
    assert_eq!(names(&fixture).await, [""; 0]);
}

#[tokio::test]
async fn batch_beyond_the_limit_of_a_key_creates_nothing() {
    let fixture = Fixture::new().await;
    for n_topics in [64, 64, 64, 62] {
        let (status, created) = create(&fixture, &vec![settings("5m", 300); n_topics]).await;
        assert_eq!(status, 200, "{created}");
    }
    assert_eq!(create(&fixture, &vec![settings("5m", 300); 3]).await.0, 409);
    assert_eq!(names(&fixture).await.len(), TOPICS_OF_KEY_MAX - 2);
    assert_eq!(create(&fixture, &vec![settings("5m", 300); 2]).await.0, 200);
}
