//! `POST /api/access/check/`

use super::*;

#[track_caller]
fn check(got: &(u16, Value), has_access: bool, is_owner: bool, matching_tags: &[&str]) {
    let body =
        json!({"has_access": has_access, "is_owner": is_owner, "matching_tags": matching_tags});
    assert_eq!(got, &(200, body));
}

#[tokio::test]
async fn owners_write_holders_read_and_others_see_nothing() {
    let service = Service::with_bars(0).await;
    let ask = async |key: &str, dataset_id: i64, require_write: bool| {
        let body = json!({"dataset_id": dataset_id, "require_write": require_write});
        service.post(key, "/api/access/check/", &body).await
    };
    check(&ask(&service.owner, 1, true).await, true, true, &["public"]);
    check(&ask(&service.reader, 1, false).await, true, false, &["public"]);
    check(&ask(&service.reader, 1, true).await, false, false, &["public"]);
    check(&ask(&service.reader, 2, false).await, false, false, &[]);
    check(&ask(&service.reader, -5, false).await, false, false, &[]);
}
