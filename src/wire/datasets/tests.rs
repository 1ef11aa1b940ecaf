use model::dataset::{Dataset, DatasetId};
use serde_json::json;

use super::*;

#[test]
fn json_of_a_flat_row_contains_columns_and_timestamp() {
    let row: FlatRow = serde_json::from_value(json!({
        "close": 67388.71, "trades_done": 134, "timestamp": "2026-07-30T21:57:00Z"
    }))
    .unwrap();
    assert_eq!(row.values["close"], ValueBody::Float(67388.71));
    assert_eq!(row.values["trades_done"], ValueBody::Integer(134));
}

#[test]
fn json_of_a_dataset_round_trips() {
    let dataset = Dataset {
        id: DatasetId::new(3).unwrap(),
        name: "tiingo_btcusd_1min".into(),
        description: "minutes".into(),
        metadata: [("source".to_owned(), "tiingo".to_owned())].into(),
        created_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        updated_at: "2026-01-02T03:04:05.5Z".parse().unwrap(),
    };
    assert_eq!(DatasetBody::from(dataset.clone()).try_into(), Ok(dataset));
}

#[test]
fn last_page_has_null_as_its_next_link() {
    let page = Envelope::<i64> { count: 0, next: None, previous: None, results: vec![] };
    assert_eq!(
        serde_json::to_string(&page).unwrap(),
        r#"{"count":0,"next":null,"previous":null,"results":[]}"#
    );
}

#[test]
fn escaped_name_has_no_comma_and_is_restored() {
    for name in ["close", "a,b", "100%", "a%2Cb", "a%252Cb,%25", "%,"] {
        let escaped = escape_name(name);
        assert!(!escaped.contains(','), "{escaped}");
        assert_eq!(unescape_name(&escaped), name);
    }
}
