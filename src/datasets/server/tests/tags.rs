//! `/api/tags/` and `/api/datasets/{id}/tags/`

use super::*;

#[tokio::test]
async fn tags_are_listed_and_added_by_the_owner() {
    let service = Service::with_bars(0).await;
    let public = json!({"name": "public", "is_public": true});
    let members = json!({"name": "members", "is_public": false});
    let path = "/api/datasets/1/tags/";
    let tag = json!({"tag_name": "members"});
    let refused = refusal("only the owner of the dataset may do that: forbidden");
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
async fn a_tag_taken_away_hides_the_dataset_from_its_holders() {
    let service = Service::with_bars(1).await;
    let refused = refusal("only the owner of the dataset may do that: forbidden");
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
