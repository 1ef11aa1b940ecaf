//! `/api/columns/`

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

#[tokio::test]
async fn a_column_is_added_by_the_owner() {
    let service = Service::with_bars(2).await;
    let path = "/api/columns/";
    let add = |name: &str, dtype: &str| json!({"dataset": 1, "name": name, "dtype": dtype});
    let want =
        json!({"id": 6, "dataset_id": 1, "name": "note", "dtype": "string", "created_at": NOW});
    assert_eq!(service.post(&service.owner, path, &add("note", "string")).await, (201, want));
    for (body, want) in [
        (add("note", "float"), (409, "column name is already taken: conflict")),
        (
            add("x", "decimal"),
            (400, "dtype of column x must be one of float, integer, string, boolean: bad request"),
        ),
        (add("timestamp", "float"), (400, "a column cannot be called timestamp: bad request")),
        (json!({"dataset": 9, "name": "x", "dtype": "float"}), (404, "dataset not found")),
        (
            json!({"name": "x", "dtype": "float"}),
            (400, "one of dataset or dataset_name is required: bad request"),
        ),
    ] {
        let answer = service.post(&service.owner, path, &body).await;
        assert_eq!(answer, (want.0, refusal(want.1)), "{body}");
    }
    for (name, dtype) in [("n", "integer"), ("ok", "boolean"), ("z", "float")] {
        assert_eq!(service.post(&service.owner, path, &add(name, dtype)).await.0, 201, "{dtype}");
    }
    let mut row = bar(1);
    row["values"]["note"] = json!("corrected");
    row["values"]["n"] = json!(7);
    service.insert(vec![row.clone()]).await;
    let (_, body) = service.get(&service.reader, "/api/rows/?dataset=1").await;
    let n_values = |row: usize| body["results"][row]["values"].as_object().unwrap().len();
    assert_eq!((n_values(0), n_values(1)), (5, 7), "rows before have no value in it");
    let values = &body["results"][1]["values"];
    assert_eq!((&values["note"], &values["n"]), (&json!("corrected"), &json!(7)));
}

#[tokio::test]
async fn a_column_is_renamed_with_its_values() {
    let service = Service::with_bars(2).await;
    let path = "/api/columns/";
    let add = json!({"dataset": 1, "name": "vwap", "dtype": "float"});
    assert_eq!(service.post(&service.owner, path, &add).await.0, 201);
    let mut row = bar(2);
    row["values"]["vwap"] = json!(7.5);
    service.insert(vec![row]).await;
    let page = "/api/rows/?dataset=1&ordering=-timestamp&limit=1";
    let value = async |name: &str| {
        let (_, page) = service.get(&service.reader, page).await;
        page["results"][0]["values"][name].clone()
    };
    assert_eq!(value("vwap").await, 7.5);
    let rename = |name: &str, new: &str| json!({"dataset": 1, "name": name, "new_name": new});
    let patch = async |key: &str, body: &Value| service.call(key, "PATCH", path, body).await;
    let want =
        json!({"id": 6, "dataset_id": 1, "name": "average", "dtype": "float", "created_at": NOW});
    assert_eq!(patch(&service.owner, &rename("vwap", "average")).await, (200, want));
    assert_eq!((value("average").await, value("vwap").await), (json!(7.5), Value::Null));
    let mut row = bar(3);
    row["values"]["average"] = json!(8.5);
    service.insert(vec![row]).await;
    assert_eq!(value("average").await, 8.5);
    for (body, want) in [
        (rename("vwap", "x"), (404, "column not found")),
        (rename("average", "open"), (409, "column name is already taken: conflict")),
        (rename("average", "timestamp"), (400, "a column cannot be called timestamp: bad request")),
        (
            rename("close", "last"),
            (409, "the dataset has rows, and its buckets would be made of other columns: conflict"),
        ),
    ] {
        assert_eq!(patch(&service.owner, &body).await, (want.0, refusal(want.1)), "{body}");
    }
    let refused = patch(&service.reader, &rename("average", "x")).await;
    assert_eq!(refused.0, 403);
}
