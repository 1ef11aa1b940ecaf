//! Tests of `/api/columns/`.

use futures::StreamExt as _;
use model::block::{Rows, Series};
use model::resolution::Resolution;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use tsdb::span::{Order, Span};
use tsdb::store::{Count, PageRead, Store};

use super::*;

#[tokio::test]
async fn columns_are_listed_in_order() {
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
async fn owner_can_add_a_column() {
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
        (
            add("x ", "float"),
            (400, "a column's name must not begin or end with a space: bad request"),
        ),
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
    let body = service.rows().await;
    let n_values = |row: usize| body["results"][row]["values"].as_object().unwrap().len();
    assert_eq!((n_values(0), n_values(1)), (5, 7), "rows before have no value in it");
    let values = &body["results"][1]["values"];
    assert_eq!((&values["note"], &values["n"]), (&json!("corrected"), &json!(7)));
}

#[tokio::test]
async fn values_of_a_renamed_column_are_unchanged() {
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
        (rename("vwap", "open"), (404, "column not found")),
        (rename("average", "open"), (409, "column name is already taken: conflict")),
        (rename("average", "timestamp"), (400, "a column cannot be called timestamp: bad request")),
        (
            rename("close", "last"),
            (
                409,
                "the stored buckets of the dataset would not match its columns after this change; only a dataset without rows can be changed in this way: conflict",
            ),
        ),
    ] {
        assert_eq!(patch(&service.owner, &body).await, (want.0, refusal(want.1)), "{body}");
    }
    let refused = patch(&service.reader, &rename("average", "x")).await;
    assert_eq!(refused.0, 403);
}

#[tokio::test]
async fn deleted_column_is_invisible_and_its_name_is_available() {
    let service = Service::with_bars(0).await;
    add_column(&service, "vwap", "float").await;
    add_column(&service, "note", "string").await;
    // Inserts enough rows that some of them are in chunks.
    service.insert((0..2_500).map(|minute| bar_with_note(minute, "vwap", 7.5)).collect()).await;
    let refused = service.delete(&service.reader, "/api/columns/?dataset=1&name=vwap").await;
    assert_eq!(refused.0, 403);
    for (name, want) in [
        ("none", (404, "column not found")),
        ("", (400, "name is required: bad request")),
        ("timestamp", (400, "the timestamp cannot be deleted: bad request")),
        (
            "close",
            (409, "the dataset has rows, and their buckets depend on column close: conflict"),
        ),
        (
            "volume",
            (409, "the dataset has rows, and their buckets depend on column volume: conflict"),
        ),
    ] {
        assert_eq!(delete_column(&service, name).await, (want.0, refusal(want.1)), "{name}");
    }
    // Reads the column, so that all caches contain it.
    check_vwap(&service, 2_499, Some("7.5")).await;
    let want = json!({"message": "Column deleted successfully"});
    assert_eq!(delete_column(&service, "vwap").await, (200, want));
    check_vwap(&service, 2_499, None).await;
    assert_eq!(delete_column(&service, "vwap").await, (404, refusal("column not found")));
    let rename = json!({"dataset": 1, "name": "", "new_name": "vwap"});
    let answer = service.call(&service.owner, "PATCH", "/api/columns/", &rename).await;
    assert_eq!(answer, (404, refusal("column not found")));
    let (_, columns) = service.get(&service.reader, "/api/columns/?dataset=1").await;
    assert_eq!(columns["count"], 6, "{columns}");
    for name in ["vwap", ""] {
        let body = json!({"dataset": 1, "rows": [bar_with_note(2_500, name, 1.0)]});
        let answer = service.post(&service.owner, "/api/rows/bulk_insert/", &body).await;
        assert_eq!(answer.1["details"]["rows"][0]["reason"], "there is no such column");
    }

    let store = Arc::clone(&service.app.datasets.store);
    assert!(stored_in_sixth(&*store).contains(&Some(7.5)));
    store.settle().await.unwrap();
    let stored = stored_in_sixth(&*store);
    assert!(!stored.contains(&Some(7.5)), "packed chunks have no values of it");
    drop(store);

    // A new column of the same name begins without values and can have another type.
    let column = add_column(&service, "vwap", "integer").await;
    assert_eq!((&column["id"], &column["dtype"]), (&json!(8), &json!("integer")));
    check_vwap(&service, 2_499, Some("")).await;
    service.insert(vec![bar_with_note(2_500, "vwap", 9.0)]).await;
    check_vwap(&service, 2_500, Some("9")).await;
    let body = json!({"dataset": 1, "rows": [
        {"timestamp": timestamp_of(2_400), "values": {"vwap": 4}},
    ]});
    let answer = service.post(&service.owner, "/api/rows/bulk_insert/?mode=merge", &body).await;
    assert_eq!(answer, (201, json!({"inserted": 1})));
    let service = service.restart().await;
    for (minute, vwap) in [(2_499, ""), (2_500, "9"), (2_400, "4"), (0, "")] {
        check_vwap(&service, minute, Some(vwap)).await;
    }
    assert_eq!(delete_column(&service, "vwap").await.0, 200);
    check_vwap(&service, 2_500, None).await;
}

async fn add_column(service: &Service, name: &str, dtype: &str) -> Value {
    let body = json!({"dataset": 1, "name": name, "dtype": dtype});
    let (status, column) = service.post(&service.owner, "/api/columns/", &body).await;
    assert_eq!(status, 201, "{column}");
    column
}

async fn delete_column(service: &Service, name: &str) -> (u16, Value) {
    service.delete(&service.owner, &format!("/api/columns/?dataset=1&name={name}")).await
}

/// Returns a bar with a note, and with `value` in the column `name`.
fn bar_with_note(minute: usize, name: &str, value: f64) -> Value {
    let mut row = bar(minute);
    row["values"]["note"] = json!(format!("n{minute}"));
    row["values"][name] = json!(value);
    row
}

/// Returns the values that the store has in the sixth column of the first rows.
fn stored_in_sixth(store: &dyn Store) -> Vec<Option<f64>> {
    let span = Span { first: Timestamp::MIN, last: Timestamp::MAX };
    let read = PageRead {
        resolution: Resolution::Raw,
        span,
        order: Order::Ascending,
        skip: 0,
        limit: 1_000,
        count: Count::Nothing,
    };
    let page = store.page("1".parse().unwrap(), &read).unwrap();
    let Rows::Raw(block) = page.rows else { panic!("buckets") };
    let Series::Float(values) = &block.columns[5] else { panic!("not floats") };
    values.clone()
}

/// Checks the row at `minute` in every kind of read. `vwap` is the expected text in this column: empty
/// for a missing value, `None` if the column does not exist.
async fn check_vwap(service: &Service, minute: usize, vwap: Option<&str>) {
    let (at, value) = (timestamp_of(minute), vwap.filter(|value| !value.is_empty()));
    let check_json = |row: &Value| {
        let found = row.get("vwap").map(Value::to_string);
        assert_eq!(found.as_deref(), value, "{row}");
        assert_eq!(row["note"], format!("n{minute}"), "{row}");
        assert_eq!(row.get(""), None, "{row}");
    };
    let all = format!(
        "/api/rows/?dataset=1&start={}&end={}&limit=1",
        timestamp_of(1_000),
        timestamp_of(2_399)
    );
    let (_, all) = service.get(&service.reader, &all).await;
    assert_eq!(all["count"], 1_400, "{all}");
    let range = format!("dataset=1&start={at}&end={at}");
    let (_, page) = service.get(&service.reader, &format!("/api/rows/?{range}")).await;
    assert_eq!(page["count"], 1, "{page}");
    check_json(&page["results"][0]["values"]);

    let download = format!("/api/rows/bulk_download/?{range}&output=");
    let (ndjson, _) = service.text(&format!("{download}ndjson")).await;
    check_json(&serde_json::from_str(ndjson.trim_end()).unwrap());
    let (csv, _) = service.text(&format!("{download}csv")).await;
    let (header, line) = csv.trim_end().split_once('\n').unwrap();
    let header: Vec<_> = header.split(',').collect();
    let line: Vec<_> = line.split(',').collect();
    let cell = |name| header.iter().position(|column| *column == name).map(|idx| line[idx]);
    assert_eq!((cell("vwap"), line.len()), (vwap, header.len()), "{csv}");
    assert_eq!(cell("note"), Some(format!("n{minute}").as_str()), "{csv}");

    let path = format!("{download}parquet");
    let response = service.send(&service.reader, "GET", &path, Body::empty()).await;
    let file = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let file = SerializedFileReader::new(file).unwrap();
    let row = file.get_row_iter(None).unwrap().next().unwrap().unwrap();
    let column = |name| row.get_column_iter().find(|column| column.0 == name);
    let cell = column("vwap").map(|column| column.1.to_string());
    let want = vwap.map(|value| if value.is_empty() { "null" } else { value });
    assert_eq!((cell.as_deref(), row.len()), (want, header.len()), "{row}");
    assert_eq!(column("note").unwrap().1.to_string(), format!("\"n{minute}\""), "{row}");

    // A stream replays only the latest rows.
    if minute >= 2_499 {
        let path = "/api/rows/stream/?dataset=1";
        let response = service.send(&service.reader, "GET", path, Body::empty()).await;
        let (mut stream, mut text) = (response.into_body().into_data_stream(), String::new());
        let row = loop {
            text.push_str(std::str::from_utf8(&stream.next().await.unwrap().unwrap()).unwrap());
            let data = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let mut rows = data.filter_map(|line| line.strip_prefix("data: "));
            if let Some(row) = rows.find(|row| row.contains(&at)) {
                break serde_json::from_str(row).unwrap();
            }
        };
        check_json(&row);
    }
}

#[tokio::test]
async fn columns_with_a_comma_or_a_percent_sign_in_their_names_can_be_selected() {
    let service = Service::with_bars(1).await;
    let names =
        [("bid,ask", "bid%252Cask"), ("bid%2Cask", "bid%25252Cask"), ("bid%25", "bid%252525")];
    for (name, _) in names {
        let column = json!({"dataset": 1, "name": name, "dtype": "float"});
        assert_eq!(service.post(&service.owner, "/api/columns/", &column).await.0, 201);
    }
    let values = json!({"bid,ask": 3, "bid%2Cask": 4, "bid%25": 5, "close": 1});
    service.insert(vec![json!({"timestamp": FIRST, "values": values})]).await;
    for (name, escaped) in names {
        let path = format!("/api/rows/?dataset=1&columns={escaped},close");
        let (status, page) = service.get(&service.reader, &path).await;
        assert_eq!(status, 200, "{page}");
        assert_eq!(page["results"][0]["values"], json!({name: values[name], "close": 1}));
    }
}
