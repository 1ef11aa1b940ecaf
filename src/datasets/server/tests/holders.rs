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
    assert_eq!(
        service.get(&service.reader, PATH).await,
        hidden,
        "it holds it, and does not own it"
    );
    let unknown = (404, refusal("key not found"));
    assert_eq!(service.post(&service.owner, PATH, &json!({"key": 3})).await, unknown);
    assert_eq!(service.delete(&service.owner, &format!("{PATH}x/")).await, unknown);
    let nothing = "/api/tags/nothing/holders/";
    assert_eq!(service.get(&service.owner, nothing).await, (404, refusal("tag not found")));
    let public = "/api/tags/public/holders/";
    assert_eq!(service.post(&service.owner, public, &body).await.0, 403, "it is the service's");
}

#[tokio::test]
async fn a_name_that_another_key_uses_is_free_and_tells_nothing() {
    let service = with_members().await;
    assert_eq!(service.post(&service.owner, PATH, &json!({"key": 1})).await.0, 201);
    let create = async |name: &str, tag: &str| {
        let body = json!({"name": name, "tags": [tag]});
        let (status, mut made) = service.post(&service.reader, "/api/datasets/", &body).await;
        let id = made["id"].take();
        made["name"].take();
        made.as_object_mut().unwrap().retain(|member, _| !member.ends_with("_at"));
        (status, id, made)
    };
    let (used, other) = (create("b", "members").await, create("c", "unused").await);
    assert_eq!(used.0, 201);
    assert_eq!((used.0, &used.2), (other.0, &other.2), "a name in use is like any other");
    for tag in ["members", "unused"] {
        let add = json!({"tag_name": tag});
        let path = format!("/api/datasets/{}/tags/", other.1);
        let want = if tag == "unused" { 200 } else { 201 };
        assert_eq!(service.post(&service.reader, &path, &add).await.0, want, "{tag}");
    }
    for id in [used.1, other.1] {
        let path = format!("/api/datasets/{id}/");
        assert_eq!(service.get(&service.owner, &path).await.0, 404, "it holds its own alone");
    }
    // Both have holders of their own.
    let nobody = json!({"count": 0, "next": null, "previous": null, "results": []});
    assert_eq!(service.get(&service.reader, PATH).await, (200, nobody));
    assert_eq!(service.post(&service.owner, PATH, &json!({"key": 2})).await.0, 201);
    let (_, tags) = service.get(&service.reader, "/api/tags/").await;
    let names: Vec<_> =
        tags["results"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    assert_eq!(names, ["members", "public", "unused"], "each name once");
    let path = "/api/datasets/2/tags/members/";
    assert_eq!(service.delete(&service.reader, path).await.0, 200);
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await.0, 200);
}
