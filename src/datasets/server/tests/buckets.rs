//! Tests of computed buckets, filled gaps, and the field `complete` of buckets.

use futures::poll;
use model::key::KeyId;

use super::*;
use crate::read::LONG_READS_MAX;

/// Starts a service with bars at minutes 0, 1, 20 and 31. Their buckets of five minutes begin at minutes
/// 0, 20 and 30.
async fn service_with_gaps() -> Service {
    let service = Service::with_bars(0).await;
    service.insert([0, 1, 20, 31].map(bar).to_vec()).await;
    service
}

fn path(query: &str) -> String {
    format!("/api/rows/?dataset=1&resolution=5m&{query}")
}

async fn page(service: &Service, path: &str) -> Value {
    let (status, body) = service.get(&service.reader, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// Returns the buckets of a page, as pairs of the minute and the closing price.
fn closes(page: &Value) -> Vec<(String, Value)> {
    let results = page["results"].as_array().unwrap();
    results
        .iter()
        .map(|it| {
            (it["timestamp"].as_str().unwrap().get(14..16).unwrap().to_owned(), it["close"].clone())
        })
        .collect()
}

fn minutes_and<T: Into<Value>>(closes: impl IntoIterator<Item = T>) -> Vec<(String, Value)> {
    let minutes = (0..).step_by(5).map(|minute| format!("{minute:02}"));
    minutes.zip(closes.into_iter().map(Into::into)).collect()
}

#[tokio::test]
async fn gaps_between_buckets_are_filled_as_requested() {
    let service = service_with_gaps().await;
    let plain = page(&service, &path("")).await;
    assert_eq!(closes(&plain).len(), 3);
    assert_eq!(page(&service, &path("fill=none")).await["results"], plain["results"]);
    for (fill, want) in [
        ("previous", vec![json!(1.5); 4]),
        ("linear", vec![json!(1.5), json!(6.25), json!(11), json!(15.75)]),
        ("null", vec![json!(1.5), json!(null), json!(null), json!(null)]),
    ] {
        let between = if fill == "null" { json!(null) } else { json!(20.5) };
        let between = if fill == "linear" { json!(26) } else { between };
        let want = [want, vec![json!(20.5), between, json!(31.5)]].concat();
        let filled = page(&service, &path(&format!("fill={fill}"))).await;
        assert_eq!(closes(&filled), minutes_and(want.clone()), "{fill}");
        assert_eq!(filled["count"], 7);
        let inserted = &filled["results"][1];
        for price in ["open", "high", "low"] {
            assert_eq!(inserted[price], inserted["close"], "{fill}: all four prices are the same");
        }
        assert_eq!((&inserted["volume"], &inserted["count"]), (&json!(0), &json!(0)));
        let file = format!("/api/rows/bulk_download/?dataset=1&resolution=5m&fill={fill}&output=");
        let csv = service.text(&format!("{file}csv&columns=close")).await.0;
        let cell = |close: &Value| if close.is_null() { String::new() } else { close.to_string() };
        let cells: Vec<_> =
            csv.lines().skip(1).map(|line| line.split_once(',').unwrap().1.to_owned()).collect();
        let want: Vec<_> = want.iter().map(|close| cell(close).replace(".0", "")).collect();
        assert_eq!(cells, want, "{fill}");
        for output in ["parquet", "arrow"] {
            let path = format!("{file}{output}");
            let answer = service.send(&service.reader, "GET", &path, Body::empty()).await;
            assert_eq!(answer.status(), StatusCode::OK);
            assert_eq!(answer.headers()["x-row-count"], "7");
        }
    }
}

#[tokio::test]
async fn pages_of_filled_buckets_contain_each_bucket_once() {
    let service = service_with_gaps().await;
    let ascending = minutes_and([1.5, 1.5, 1.5, 1.5, 20.5, 20.5, 31.5]);
    let descending: Vec<_> = ascending.iter().rev().cloned().collect();
    for (start, want) in [
        ("limit=2", &ascending),
        ("limit=2&ordering=-timestamp", &descending),
        ("limit=3&after=2026-01-01T00:00:00Z", &ascending),
        ("limit=1&after=2026-07-29T00:00:00Z", &ascending[1..].to_vec()),
        ("limit=3&after=2026-12-01T00:00:00Z&ordering=-timestamp", &descending),
        ("limit=1&after=2026-07-29T00:30:00Z&ordering=-timestamp", &descending[1..].to_vec()),
        ("limit=9&offset=5", &ascending[5..].to_vec()),
        ("limit=9&offset=18446744073709551615", &Vec::new()),
        ("start=2026-07-29T00:05:00Z&end=2026-07-29T00:30:00Z", &ascending[4..5].to_vec()),
        ("start=2027-07-29T00:05:00Z", &Vec::new()),
    ] {
        let pages = service.pages(&service.reader, &path(&format!("{start}&fill=previous"))).await;
        let seen: Vec<_> = pages.iter().flat_map(closes).collect();
        assert_eq!(seen, *want, "{start}");
    }
}

#[tokio::test]
async fn gap_of_a_century_is_read_page_by_page() {
    let service = Service::with_bars(1).await;
    let first = json!({"timestamp": "1926-07-29T00:00:00Z", "values": {"close": 3}});
    service.insert(vec![first]).await;
    let path = path("fill=previous&limit=10000&start=1926-01-01T00:00:00Z&offset=9000000");
    let page = page(&service, &path).await;
    assert_eq!(page["count"], 36_525 * 288 + 1);
    assert!(closes(&page).len() == 10_000 && closes(&page).iter().all(|(_, close)| *close == 3));
    let day = json!({"timestamp": "0001-01-01T00:00:00Z", "values": {"close": 3}});
    service.insert(vec![day]).await;
    let path = "/api/rows/bulk_download/?dataset=1&resolution=5m&fill=null&output=";
    for output in ["csv", "parquet"] {
        let (status, body) = service.get(&service.reader, &format!("{path}{output}")).await;
        let why = body["error"].as_str().unwrap();
        assert!(
            status == 400 && why.contains("use narrower bounds or a coarser resolution"),
            "{why}"
        );
    }
}

#[tokio::test]
async fn bucket_is_complete_once_it_has_ended() {
    let service = Service::with_bars(0).await;
    // The latest row is at 22:00, the current time of the service.
    let row = |minute: &str| json!({"timestamp": format!("2026-07-30T{minute}:00Z"), "values": {"close": 1}});
    service.insert(vec![row("21:56"), row("22:00")]).await;
    let path =
        path("complete=true&columns=close&start=2026-07-30T00:00:00Z&end=2026-07-31T00:00:00Z");
    let marks = async || {
        let page = page(&service, &path).await;
        let results = page["results"].as_array().unwrap();
        results.iter().map(|it| it["complete"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    let tag = async || {
        let answer = service.send(&service.reader, "GET", &path, Body::empty()).await;
        answer.headers()["etag"].clone()
    };
    let (before, old) = (marks().await, tag().await);
    assert_eq!(before, [true, false]);
    service.clock.advance(Duration::from_mins(4));
    assert_eq!((marks().await, tag().await == old), (vec![true, false], true));
    service.clock.advance(Duration::from_mins(1));
    assert_eq!(
        (marks().await, tag().await == old),
        (vec![true, true], false),
        "no commit was needed"
    );
    let file = "/api/rows/bulk_download/?dataset=1&resolution=1h&complete=true&output=ndjson";
    let lines = service.text(&format!("{file}&columns=close")).await.0;
    let line = |hour, complete| {
        format!(
            "{{\"close\":1,\"complete\":{complete},\"timestamp\":\"2026-07-30T{hour}:00:00Z\"}}\n"
        )
    };
    assert_eq!(lines, line(21, true) + &line(22, false));
}

#[tokio::test]
async fn bucket_options_for_raw_rows_are_rejected() {
    let service = Service::with_bars(1).await;
    let buckets = "fill and complete apply to buckets; add a resolution such as 1h: bad request";
    for (query, want) in [
        ("fill=previous", buckets),
        ("complete=true", buckets),
        (
            "resolution=1h&fill=next",
            "fill must be one of none, null, previous, linear: bad request",
        ),
        ("resolution=1h&complete=1", "complete must be true or false: bad request"),
    ] {
        for path in ["", "bulk_download/"] {
            let path = format!("/api/rows/{path}?dataset=1&{query}");
            assert_eq!(service.get(&service.reader, &path).await, (400, refusal(want)), "{path}");
        }
    }
    let plain = service.text("/api/rows/?dataset=1&fill=none&complete=false").await.0;
    assert!(plain.contains("\"values\""), "{plain}");
}

#[tokio::test]
async fn every_bucket_response_fits_the_described_schema() {
    let service = service_with_gaps().await;
    let (_, api) = service.get("", "/api/openapi.json").await;
    let schema = &api["components"]["schemas"]["BucketBody"];
    for query in ["", "columns=close", "fill=null&complete=true", "columns=timestamp&fill=linear"] {
        for bucket in page(&service, &path(query)).await["results"].as_array().unwrap() {
            let bucket = bucket.as_object().unwrap();
            let required = schema["required"].as_array().unwrap();
            assert!(required.iter().all(|name| bucket.contains_key(name.as_str().unwrap())));
            for (name, value) in bucket {
                let types = &schema["properties"][name]["type"];
                let is_nullable =
                    types.as_array().is_some_and(|them| them.contains(&json!("null")));
                assert!(
                    types != &json!(null) && (is_nullable || !value.is_null()),
                    "{name}: {types}"
                );
            }
        }
    }
}

/// Buckets of lengths that are not stored are computed from rows or from stored buckets.
#[tokio::test]
async fn buckets_of_unstored_resolutions_are_computed() {
    let service = Service::with_bars(1500).await;
    let read = async |query: &str| {
        let path = format!("/api/rows/?dataset=1&{query}");
        let pages = service.pages(&service.reader, &path).await;
        let buckets = pages.iter().flat_map(|page| page["results"].as_array().unwrap().clone());
        buckets.collect::<Vec<_>>()
    };
    // Buckets are aligned to 1970, so the first bucket can begin before the first row.
    let start = "start=2026-07-25T00:00:00Z";
    for (resolution, minutes) in [("1m", 1), ("7m", 7), ("10m", 10), ("3h", 180), ("2d", 2880)] {
        let all = read(&format!("resolution={resolution}&{start}&limit=10000")).await;
        let counts: Vec<u64> = all.iter().map(|it| it["count"].as_u64().unwrap()).collect();
        assert_eq!(counts.iter().sum::<u64>(), 1500, "{resolution}");
        let full = counts.iter().filter(|count| **count == minutes).count();
        assert!(full + 2 >= counts.len(), "{resolution}: {counts:?}");
        for bucket in &all {
            let (open, n) = (bucket["open"].as_f64().unwrap(), bucket["count"].as_f64().unwrap());
            let want = json!([open + n, open - 1.0, open + n - 0.5, n * 2.0]);
            let got = ["high", "low", "close", "volume"].map(|name| bucket[name].as_f64().unwrap());
            assert_eq!(json!(got), want, "{resolution}");
        }
        let reversed: Vec<_> = all.iter().rev().cloned().collect();
        for (query, want) in [
            (format!("{start}&limit=90"), &all),
            (format!("{start}&limit=90&ordering=-timestamp"), &reversed),
            ("after=2026-01-01T00:00:00Z&limit=70".to_owned(), &all),
            ("after=2026-12-01T00:00:00Z&limit=70&ordering=-timestamp".to_owned(), &reversed),
            (format!("{start}&limit=90&fill=previous"), &all),
        ] {
            assert_eq!(read(&format!("resolution={resolution}&{query}")).await, *want, "{query}");
        }
        let path = format!("/api/rows/bulk_download/?dataset=1&resolution={resolution}&output=csv");
        let csv = service.text(&format!("{path}&columns=count")).await.0;
        let column: Vec<u64> =
            csv.lines().skip(1).map(|it| it.split_once(',').unwrap().1.parse().unwrap()).collect();
        assert_eq!(column, counts);
    }
    let hours = read("resolution=60m").await;
    assert_eq!(hours, read("resolution=1h").await);
    let wide = "resolution=45s&start=2026-07-01T00:00:00Z&end=2026-07-29T00:00:00Z";
    let (status, body) =
        service.get(&service.reader, &format!("/api/rows/?dataset=1&{wide}")).await;
    let why = body["error"].as_str().unwrap();
    assert!(status == 400 && why.contains("maximum of 25h12m0s for resolution=45s"), "{why}");
}

#[tokio::test]
async fn latest_computed_buckets_are_found_across_gaps() {
    let service = service_with_gaps().await;
    let old = json!({"timestamp": "2020-01-01T00:00:30Z", "values": {"close": 3}});
    service.insert(vec![old]).await;
    let query = "resolution=45s&limit=2&ordering=-timestamp&after=2026-12-01T00:00:00Z";
    let path = format!("/api/rows/?dataset=1&{query}");
    let pages = service.pages(&service.reader, &path).await;
    let counts: Vec<_> =
        pages.iter().map(|page| page["results"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [2, 2, 1]);
}

#[tokio::test]
async fn long_computations_wait_for_each_other_without_delaying_stored_pages() {
    let service = service_with_gaps().await;
    let limit = &service.app.datasets.long_reads;
    let mut others = [98, 99].map(|key| limit.empty_permit(KeyId::new(key)));
    for other in &mut others {
        other.acquire(2).await;
    }
    assert_eq!(limit.n_acquired(), LONG_READS_MAX);
    let paths = ["/api/rows/?dataset=1&resolution=7m", "/api/datasets/1/coverage/"];
    let mut waiting = paths.map(|path| Box::pin(page(&service, path)));
    for _ in 0..3 {
        for read in &mut waiting {
            assert!(poll!(read).is_pending());
        }
        page(&service, &path("limit=1")).await;
    }
    drop(others);
    let [computed, coverage] = waiting;
    assert_eq!(computed.await["count"], 3);
    assert_eq!(coverage.await["rows"], 4);
}

/// Returns the offset of Berlin from UTC in 2026, in seconds.
fn berlin_offset(second: i64) -> i64 {
    let [spring, autumn] = ["2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"]
        .map(|change| change.parse::<Timestamp>().unwrap().seconds());
    if (spring..autumn).contains(&second) { 7200 } else { 3600 }
}

#[tokio::test]
async fn daily_buckets_in_a_time_zone_equal_a_plain_computation() {
    let service = Service::with_bars(0).await;
    let mut days: Vec<(i64, f64, u64)> = Vec::new();
    for (first, n_hours) in [("2026-03-26T22:07:00Z", 100), ("2026-10-22T20:59:00Z", 150)] {
        let first = first.parse::<Timestamp>().unwrap().seconds();
        let mut rows = Vec::new();
        for hour in 0..n_hours {
            let second = first + hour * 3600;
            let timestamp = Timestamp::from_seconds(second).to_string();
            let close = f64::from(u32::try_from(hour).unwrap());
            rows.push(json!({"timestamp": timestamp, "open": 1, "high": close, "low": 0,
                "close": close, "volume": 2}));
            let midnight = (second + berlin_offset(second)).div_euclid(86_400) * 86_400;
            let offset = [3600, 7200].into_iter().find(|it| berlin_offset(midnight - it) == *it);
            let start = midnight - offset.unwrap();
            match days.last_mut() {
                Some(day) if day.0 == start => *day = (start, close, day.2 + 1),
                _ => days.push((start, close, 1)),
            }
        }
        service.insert(rows).await;
    }
    assert!([23, 25].iter().all(|n| days.iter().any(|day| day.2 == *n)), "both changes: {days:?}");
    let read = async |query: &str| {
        let path = format!("/api/rows/?dataset=1&time_zone=Europe%2FBerlin&{query}");
        let page = page(&service, &path).await;
        let results = page["results"].as_array().unwrap().iter().map(|day| {
            let start = day["timestamp"].as_str().unwrap().parse::<Timestamp>().unwrap().seconds();
            let count = day["count"].as_u64().unwrap();
            assert_eq!((&day["open"], &day["volume"]), (&json!(1), &json!(2 * count)));
            (start, day["close"].as_f64().unwrap(), count)
        });
        (page["count"].as_u64().unwrap(), results.collect::<Vec<_>>())
    };
    let n_days = u64::try_from(days.len()).unwrap();
    let year = "resolution=1d&start=2026-01-01T00:00:00Z&end=2026-12-31T00:00:00Z";
    assert_eq!(read(year).await, (n_days, days.clone()));
    let reversed: Vec<_> = days.iter().rev().skip(3).take(4).copied().collect();
    let latest = read(&format!("{year}&ordering=-timestamp&offset=3&limit=4")).await;
    assert_eq!(latest, (n_days, reversed));
    // A bucket belongs to a range that contains its start.
    let spring = "resolution=1d&start=2026-03-28T23:00:00Z&end=2026-03-29T22:00:00Z";
    assert_eq!(read(spring).await.1.iter().map(|day| day.2).collect::<Vec<_>>(), [23]);
    let later = "resolution=1d&start=2026-03-28T23:00:01Z&end=2026-03-29T22:00:00Z";
    assert_eq!(read(later).await, (0, vec![]));
    let pairs = read(&year.replace("1d", "2d")).await.1;
    assert_eq!(pairs.iter().map(|pair| pair.2).sum::<u64>(), 250);
    assert!(pairs.iter().all(|pair| days.iter().any(|day| day.0 == pair.0)));
    let file = format!("/api/rows/bulk_download/?dataset=1&{year}&output=csv&columns=close");
    let csv = service.text(&format!("{file}&time_zone=Europe/Berlin")).await.0;
    let starts = csv.lines().skip(1).map(|line| line.split_once(',').unwrap().0.to_owned());
    let want = days.iter().map(|day| Timestamp::from_seconds(day.0).to_string());
    assert_eq!(starts.collect::<Vec<_>>(), want.collect::<Vec<_>>());
    for (query, reason) in [
        ("resolution=1h&time_zone=Europe/Berlin", "time_zone applies to buckets of whole days"),
        ("time_zone=Europe/Berlin", "time_zone applies to buckets of whole days"),
        (
            "resolution=1d&time_zone=Mars",
            "unknown time_zone Mars; use a name such as Europe/Berlin",
        ),
        ("resolution=1d&timezone=UTC", "unknown parameter timezone; did you mean time_zone?"),
        ("resolution=1d&time_zone=UTC&fill=null", "fill and time_zone exclude each other"),
    ] {
        let (status, body) =
            service.get(&service.reader, &format!("/api/rows/?dataset=1&{query}")).await;
        assert_eq!(status, 400, "{query}");
        assert!(body.to_string().contains(reason), "{query}: {body}");
    }
}

#[tokio::test]
async fn buckets_of_a_new_dataset_are_computed_from_the_likely_value() {
    for (names, want) in [
        (&["volume", "close"][..], "close"),
        (&["high", "low", "close"], "close"),
        (&["rtype", "Price", "size"], "Price"),
        (&["column_1", "_value"], "_value"),
        (&["volume", "usage"], "usage"),
        (&["usage", "idle"], "usage"),
        (&["high", "open", "low", "close"], "close"),
        (&["volume"], "volume"),
    ] {
        let service = Service::start().await;
        let columns: Vec<_> =
            names.iter().map(|name| json!({"name": name, "dtype": "float"})).collect();
        let body = json!({"name": "a", "columns": columns});
        assert_eq!(service.post(&service.owner, "/api/datasets/", &body).await.0, 201);
        let values: serde_json::Map<_, _> =
            names.iter().enumerate().map(|(idx, name)| ((*name).to_owned(), json!(idx))).collect();
        service.insert(vec![json!({"timestamp": "2026-07-29T00:00:00Z", "values": values})]).await;
        let (_, page) = service.get(&service.owner, &path("start=2026-07-29T00:00:00Z")).await;
        assert_eq!(page["results"][0]["close"], values[want], "{names:?}: {page}");
        let body = json!({"name": "b", "description": "", "metadata": {"unit": "USD"}});
        let sent = service.send(&service.owner, "PUT", "/api/datasets/1/", body.to_string().into());
        let (status, replaced) = json_of(sent.await).await;
        assert_eq!(status, 200, "{names:?}: {replaced}");
    }
}
