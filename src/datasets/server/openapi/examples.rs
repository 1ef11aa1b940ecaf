//! One example of each body, after the documented data.

use model::dataset::BAR_COLUMNS;
use serde_json::{Value, json};

/// All of them, each with the name of its schema.
pub(super) fn all() -> [(&'static str, Value); 16] {
    let metadata = json!({
        "frequency": "1min", "provider": "forge-data-provider", "source": "tiingo", "ticker": "btcusd",
    });
    let description = "Tiingo 1-minute OHLCV data for BTCUSD";
    let dataset = json!({
        "id": 3, "name": "tiingo_btcusd_1min", "description": description, "metadata": metadata,
        "created_at": "2026-03-01T00:00:00Z", "updated_at": "2026-03-01T00:00:00Z",
    });
    let columns = BAR_COLUMNS.map(|name| json!({"name": name, "dtype": "float"}));
    let values = json!({"open": 64_000.5, "high": 64_010, "low": 63_990.25, "close": 64_001, "volume": 1.25});
    let at = "2026-07-30T21:57:00Z";
    [
        (
            "CreateDataset",
            json!({
                "name": "tiingo_btcusd_1min", "description": description, "metadata": metadata,
                "columns": columns, "tags": ["public"],
            }),
        ),
        ("DatasetBody", dataset),
        (
            "ColumnBody",
            json!({"id": 15, "dataset_id": 3, "name": "open", "dtype": "float", "created_at": "2026-03-01T00:00:00Z"}),
        ),
        ("TagName", json!({"tag_name": "public"})),
        ("TagBody", json!({"name": "public", "is_public": true})),
        ("AddColumn", json!({"dataset": 3, "name": "vwap", "dtype": "float"})),
        ("RenameColumn", json!({"dataset": 3, "name": "vwap", "new_name": "average"})),
        ("UpdateDataset", json!({"metadata": {"provider": null, "source": "tiingo"}})),
        ("HolderBody", json!({"key": 7})),
        ("AccessCheck", json!({"dataset_id": 3, "require_write": false})),
        ("AccessBody", json!({"has_access": true, "is_owner": false, "matching_tags": ["public"]})),
        ("BulkInsert", json!({"dataset": 3, "rows": [{"timestamp": at, "values": values}]})),
        (
            "RawRowBody",
            json!({
                "id": 910_254_487, "dataset_id": 3, "timestamp": at,
                "created_at": "2026-07-30T21:58:00.376123Z", "values": values,
            }),
        ),
        (
            "BucketBody",
            json!({
                "dataset_id": 3, "timestamp": "2026-07-30T21:00:00Z", "open": 63_900, "high": 64_100,
                "low": 63_850.5, "close": 64_001, "volume": 75.5, "count": 60,
            }),
        ),
        (
            "FlatRow",
            json!({
                "close": 64_001, "high": 64_010, "low": 63_990.25, "open": 64_000.5, "timestamp": at,
                "volume": 1.25,
            }),
        ),
        (
            "DatasetsError",
            json!({
                "details": null,
                "error": "time range exceeds maximum of 24h0m0s for resolution=raw; use a coarser resolution: bad request",
            }),
        ),
    ]
}
