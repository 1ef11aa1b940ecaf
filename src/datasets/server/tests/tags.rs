//! Tests of `/api/tags/…` and `/api/datasets/{id}/tags/…`.

use super::*;

const ACQUIRE: &str = "/api/tags/acquire/";

#[tokio::test]
async fn public_tag_can_be_acquired_once_and_again_after_its_release() {
    let service = Service::start().await;
    let tag = json!({"tag_name": "public"});
    let done = json!({"message": "Tag acquired successfully"});
    assert_eq!(service.post(&service.reader, ACQUIRE, &tag).await, (200, done));
    let held = refusal("tag already acquired: conflict");
    assert_eq!(service.post(&service.reader, ACQUIRE, &tag).await, (409, held));
    assert_eq!(service.post(&service.reader, "/api/tags/release/", &tag).await.0, 200);
    assert_eq!(service.post(&service.reader, ACQUIRE, &tag).await.0, 200);
}

#[tokio::test]
async fn private_tag_of_another_key_is_rejected_like_a_missing_tag() {
    let service = Service::start().await;
    let dataset = json!({"name": "a", "tags": ["members"]});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &dataset).await.0, 201);
    let private = service.post(&service.reader, ACQUIRE, &json!({"tag_name": "members"})).await;
    let unknown = service.post(&service.reader, ACQUIRE, &json!({"tag_name": "nothing"})).await;
    assert_eq!(unknown, (404, refusal("tag not found")));
    assert_eq!(private, unknown, "nobody learns of it");
    let own = service.post(&service.owner, ACQUIRE, &json!({"tag_name": "members"})).await;
    let refused = refusal("tag cannot be acquired; only public tags can: forbidden");
    assert_eq!(own, (403, refused));
}

#[tokio::test]
async fn owner_can_list_and_add_tags() {
    let service = Service::with_bars(0).await;
    let public = json!({"name": "public", "is_public": true});
    let members = json!({"name": "members", "is_public": false});
    let path = "/api/datasets/1/tags/";
    let tag = json!({"tag_name": "members"});
    let refused = refusal("only the owner of the dataset can do this: forbidden");
    assert_eq!(service.post(&service.reader, path, &tag).await, (403, refused));
    assert_eq!(service.post(&service.owner, path, &tag).await.0, 201);
    assert_eq!(service.post(&service.owner, path, &tag).await.0, 200);
    let both = json!({"count": 2, "next": null, "previous": null, "results": [members, public]});
    let one = json!({"count": 1, "next": null, "previous": null, "results": [public]});
    for path in [path, "/api/tags/"] {
        assert_eq!(service.get(&service.owner, path).await, (200, both.clone()), "{path}");
        assert_eq!(service.get(&service.reader, path).await, (200, one.clone()), "{path}");
    }
    let holder = json!({"key": 2});
    assert_eq!(service.post(&service.owner, "/api/tags/members/holders/", &holder).await.0, 201);
    for path in [path, "/api/tags/"] {
        assert_eq!(service.get(&service.reader, path).await, (200, both.clone()), "{path}: given");
    }
    let nothing = refusal("dataset not found");
    assert_eq!(service.get(&service.reader, "/api/datasets/9/tags/").await, (404, nothing.clone()));
    let answer = service.post(&service.owner, "/api/datasets/x/tags/", &tag).await;
    assert_eq!(answer, (404, nothing));
}

#[tokio::test]
async fn removed_tag_hides_the_dataset_from_holders_of_the_tag() {
    let service = Service::with_bars(1).await;
    let refused = refusal("only the owner of the dataset can do this: forbidden");
    let path = "/api/datasets/1/tags/public/";
    assert_eq!(service.delete(&service.reader, path).await, (403, refused));
    let done = json!({"message": "Tag removed successfully"});
    assert_eq!(service.delete(&service.owner, path).await, (200, done));
    let unknown = (404, refusal("tag not found"));
    assert_eq!(service.delete(&service.owner, path).await, unknown);
    let nothing = (404, refusal("dataset not found"));
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await, nothing);
    assert_eq!(service.delete(&service.reader, path).await, nothing);
    assert_eq!(service.get(&service.reader, "/api/datasets/").await.1["count"], 0);
    let tag = json!({"tag_name": "public"});
    assert_eq!(service.post(&service.owner, "/api/datasets/1/tags/", &tag).await.0, 201);
    assert_eq!(service.get(&service.reader, "/api/datasets/").await.1["count"], 1);
}

const PATH: &str = "/api/tags/members/holders/";

/// Starts a service in which key 1 owns the tag `members`, which dataset 1 has.
async fn with_members() -> Service {
    let service = Service::start().await;
    let body = json!({"name": "a", "tags": ["members"]});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &body).await.0, 201);
    service
}

#[tokio::test]
async fn owner_of_a_tag_can_grant_and_revoke_it() {
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
async fn holder_can_give_up_a_tag_that_was_granted_without_consent() {
    let service = with_members().await;
    let release = async |tag: &str| {
        service.post(&service.reader, "/api/tags/release/", &json!({"tag_name": tag})).await
    };
    assert_eq!(release("members").await, (404, refusal("tag not found")));
    assert_eq!(service.post(&service.owner, PATH, &json!({"key": 2})).await.0, 201);
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await.0, 200);
    let own = format!("{PATH}2/");
    let refused = service.delete(&service.reader, &own).await;
    assert_eq!(refused, (404, refusal("tag not found")), "only the owner revokes a tag");
    assert_eq!(release("members").await, (200, json!({"message": "Tag released successfully"})));
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await.0, 404);
    assert_eq!(service.delete(&service.owner, &own).await, (404, refusal("key not found")));
}

#[tokio::test]
async fn only_the_owner_can_grant_a_tag_and_only_to_existing_keys() {
    let service = with_members().await;
    let hidden = (404, refusal("tag not found"));
    let body = json!({"key": 2});
    assert_eq!(service.post(&service.reader, PATH, &body).await, hidden);
    assert_eq!(service.get(&service.reader, PATH).await, hidden);
    assert_eq!(service.delete(&service.reader, &format!("{PATH}1/")).await, hidden);
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
async fn tag_names_of_other_keys_are_neither_reserved_nor_revealed() {
    let service = with_members().await;
    assert_eq!(service.post(&service.owner, PATH, &json!({"key": 1})).await.0, 201);
    // The reader uses the name `members`, which is a tag of the owner, and the name `unused`.
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
    assert_eq!((used.0, &used.2), (other.0, &other.2), "a name of the owner is not revealed");
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
    // Tags of different keys with the same name have different holders.
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

#[tokio::test]
async fn names_that_urls_resolve_are_refused() {
    let service = Service::with_bars(0).await;
    for name in [".", ".."] {
        let text = |what| refusal(&format!("{what} must not be `{name}`: bad request"));
        let tag = json!({"tag_name": name});
        let tag = service.post(&service.owner, "/api/datasets/1/tags/", &tag).await;
        assert_eq!(tag, (400, text("tag_name")));
        let dataset = json!({"name": "a", "tags": [name]});
        let dataset = service.post(&service.owner, "/api/datasets/", &dataset).await;
        assert_eq!(dataset, (400, text("a tag")));
    }
}
