//! `/api/tags/{tag_name}/holders/`

use super::*;

const PATH: &str = "/api/tags/members/holders/";

/// A service where key 1 owns the tag `members` and dataset 1, which carries it.
async fn with_members() -> Service {
    let service = Service::start().await;
    let body = json!({"name": "a", "tags": ["members"]});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &body).await.0, 201);
    service
}

#[tokio::test]
async fn the_owner_of_a_tag_gives_it_and_takes_it_back() {
    let service = with_members().await;
    let holder = json!({"key": 2});
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await.0, 404);
    assert_eq!(service.post(&service.owner, PATH, &holder).await.0, 201);
    assert_eq!(service.post(&service.owner, PATH, &holder).await.0, 200);
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await.0, 200);
    assert_eq!(service.get(&service.reader, "/api/datasets/?search=a").await.1["count"], 1);
    let body = json!({"dataset_id": 1, "require_write": false});
    let (_, access) = service.post(&service.reader, "/api/access/check/", &body).await;
    assert_eq!(access["matching_tags"], json!(["members"]));
    let tag = json!({"tag_name": "members"});
    assert_eq!(service.post(&service.reader, "/api/tags/acquire/", &tag).await.0, 409);
    let list = json!({"count": 1, "next": null, "previous": null, "results": [holder]});
    assert_eq!(service.get(&service.owner, PATH).await, (200, list));
    let one = format!("{PATH}2/");
    assert_eq!(service.delete(&service.owner, &one).await.0, 200);
    assert_eq!(service.delete(&service.owner, &one).await, (404, refusal("key not found")));
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await.0, 404);
    assert_eq!(service.get(&service.reader, "/api/datasets/").await.1["count"], 0);
}

#[tokio::test]
async fn only_the_owner_of_a_tag_gives_it_and_only_to_keys_there_are() {
    let service = with_members().await;
    let hidden = (404, refusal("tag not found"));
    let body = json!({"key": 2});
    assert_eq!(service.post(&service.reader, PATH, &body).await, hidden);
    assert_eq!(service.get(&service.reader, PATH).await, hidden);
    assert_eq!(service.delete(&service.reader, &format!("{PATH}2/")).await, hidden);
    assert_eq!(service.post(&service.owner, PATH, &body).await.0, 201);
    let foreign = (403, refusal("tag belongs to another key: members: forbidden"));
    assert_eq!(service.get(&service.reader, PATH).await, foreign, "it holds it, and knows");
    let unknown = (404, refusal("key not found"));
    assert_eq!(service.post(&service.owner, PATH, &json!({"key": 3})).await, unknown);
    assert_eq!(service.delete(&service.owner, &format!("{PATH}x/")).await, unknown);
    let nothing = "/api/tags/nothing/holders/";
    assert_eq!(service.get(&service.owner, nothing).await, (404, refusal("tag not found")));
    let public = "/api/tags/public/holders/";
    assert_eq!(service.post(&service.owner, public, &body).await.0, 403, "it is the service's");
}

#[tokio::test]
async fn a_tag_of_another_key_is_no_way_to_its_holders() {
    let service = with_members().await;
    let foreign = (403, refusal("tag belongs to another key: members: forbidden"));
    let body = json!({"name": "b", "tags": ["members"]});
    assert_eq!(service.post(&service.reader, "/api/datasets/", &body).await, foreign);
    assert_eq!(service.post(&service.reader, "/api/datasets/", &json!({"name": "b"})).await.0, 201);
    let tag = json!({"tag_name": "members"});
    assert_eq!(service.post(&service.reader, "/api/datasets/2/tags/", &tag).await, foreign);
    assert_eq!(service.post(&service.owner, PATH, &json!({"key": 2})).await.0, 201);
    assert_eq!(service.post(&service.reader, "/api/datasets/2/tags/", &tag).await.0, 201);
    assert_eq!(service.get(&service.owner, "/api/datasets/2/").await.0, 404, "it does not hold it");
    assert_eq!(service.post(&service.owner, PATH, &json!({"key": 1})).await.0, 201);
    assert_eq!(service.get(&service.owner, "/api/datasets/2/").await.0, 200);
}
