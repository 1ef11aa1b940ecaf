//! `POST /api/tags/acquire/`

use super::*;

const PATH: &str = "/api/tags/acquire/";

#[tokio::test]
async fn a_public_tag_is_acquired_once() {
    let service = Service::start().await;
    let tag = json!({"tag_name": "public"});
    let done = json!({"message": "Tag acquired successfully"});
    assert_eq!(service.post(&service.reader, PATH, &tag).await, (200, done));
    let held = refusal("tag already acquired: conflict");
    assert_eq!(service.post(&service.reader, PATH, &tag).await, (409, held));
}

#[tokio::test]
async fn a_private_tag_of_another_key_is_as_unknown_as_one_that_does_not_exist() {
    let service = Service::start().await;
    let dataset = json!({"name": "a", "tags": ["members"]});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &dataset).await.0, 201);
    let private = service.post(&service.reader, PATH, &json!({"tag_name": "members"})).await;
    let unknown = service.post(&service.reader, PATH, &json!({"tag_name": "nothing"})).await;
    assert_eq!(unknown, (404, refusal("tag not found")));
    assert_eq!(private, unknown, "nobody learns of it");
    let own = service.post(&service.owner, PATH, &json!({"tag_name": "members"})).await;
    let refused = refusal("tag cannot be acquired; only public tags can: forbidden");
    assert_eq!(own, (403, refused));
}
