//! `GET /api/columns/`

use super::*;

#[tokio::test]
async fn columns_are_listed_in_their_order() {
    let service = Service::with_bars(0).await;
    let (status, body) = service.get(&service.reader, "/api/columns/?dataset=1").await;
    assert_eq!((status, &body["count"], &body["next"]), (200, &json!(5), &Value::Null));
    let first =
        json!({"id": 1, "dataset_id": 1, "name": "open", "dtype": "float", "created_at": NOW});
    assert_eq!(body["results"][0], first);
    assert_eq!(body["results"][4]["name"], "volume");
    let required = refusal("one of dataset or dataset_name is required: bad request");
    assert_eq!(service.get(&service.reader, "/api/columns/").await, (400, required));
}
