//! Runs each demo function on input as the services send it.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| caching_runtime(2));

/// Ten one-minute bars, latest first, as sent by `/api/rows/live/`.
const BARS: &str = r#"{"close":104.5,"high":105,"low":103,"open":103.5,"timestamp":"2026-11-20T09:09:00Z","volume":12}
{"close":103.5,"high":104,"low":102.5,"open":103,"timestamp":"2026-11-20T09:08:00Z","volume":9}
{"close":103,"high":103.25,"low":102,"open":102.75,"timestamp":"2026-11-20T09:07:00Z","volume":7.5}
{"close":102.75,"high":103,"low":102,"open":102,"timestamp":"2026-11-20T09:06:00Z","volume":11}
{"close":102,"high":103.5,"low":101.5,"open":103,"timestamp":"2026-11-20T09:05:00Z","volume":20}
{"close":103,"high":103,"low":101,"open":101.25,"timestamp":"2026-11-20T09:04:00Z","volume":14}
{"close":101.25,"high":102,"low":101,"open":101.5,"timestamp":"2026-11-20T09:03:00Z","volume":3}
{"close":101.5,"high":101.75,"low":100.5,"open":101,"timestamp":"2026-11-20T09:02:00Z","volume":5}
{"close":101,"high":101.5,"low":99.5,"open":100,"timestamp":"2026-11-20T09:01:00Z","volume":8}
{"close":100,"high":100.5,"low":99,"open":99.5,"timestamp":"2026-11-20T09:00:00Z","volume":10}
"#;

/// Runs a demo function. `settings` are the variables of its environment as words `NAME=value`.
async fn finished(name: &str, arguments: &[&str], settings: &str, stdin: &str) -> RunOutcome {
    let setting = |word: &str| {
        let (name, value) = word.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    let run = Run {
        name: format!("{name}.wasm"),
        entry: START.to_owned(),
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        environment: settings.split_whitespace().map(setting).collect(),
        stdin: stdin.as_bytes().to_owned(),
        files: None,
        limits: LIMITS,
        client: Arc::default(),
    };
    RUNTIME.execute(&demo(name), run).await.unwrap()
}

/// Returns the JSON line that a demo function prints on success.
async fn answer(name: &str, arguments: &[&str], settings: &str, stdin: &str) -> Value {
    let finished = finished(name, arguments, settings, stdin).await;
    assert_eq!(
        (text(&finished.stderr), finished.exit_code, finished.ended),
        ("", 0, RunEnd::Exited)
    );
    assert_eq!(text(&finished.stdout).lines().count(), 1);
    serde_json::from_slice(&finished.stdout).unwrap()
}

/// Returns the line that a demo function prints for invalid input.
async fn refusal(name: &str, arguments: &[&str], settings: &str, stdin: &str) -> String {
    let finished = finished(name, arguments, settings, stdin).await;
    assert_eq!(
        (text(&finished.stdout), finished.exit_code, finished.ended),
        ("", 1, RunEnd::Exited)
    );
    text(&finished.stderr).trim_end().to_owned()
}

async fn predicted(settings: &str) -> f64 {
    let answer = answer("predict", &[], settings, BARS).await;
    answer["value"].as_str().unwrap().parse().unwrap()
}

/// Returns the printed probabilities in millionths by label.
async fn beliefs(settings: &str) -> BTreeMap<String, u32> {
    let answer = answer("predict", &[], settings, BARS).await;
    let millionths = |share: &str| match share.strip_prefix("0.") {
        Some(digits) => format!("{digits:0<6}").parse().unwrap(),
        None => share.parse::<u32>().unwrap() * 1_000_000,
    };
    let shares = answer["values"].as_object().unwrap();
    shares
        .iter()
        .map(|(label, share)| (label.clone(), millionths(share.as_str().unwrap())))
        .collect()
}

#[track_caller]
fn check_close(number: f64, want: f64) {
    assert!((number - want).abs() <= 1e-9 * want.abs().max(1.0), "{number}, not {want}");
}

#[tokio::test]
async fn hello_module_prints_its_input_and_nothing_about_the_host() {
    let finished =
        finished("hello", &["x", "y z"], "ZONE=b AREA=a PEER_ID=12D3KooW", "one\ntwo").await;
    let want = "Hello from WebAssembly\nargument 1: x\nargument 2: y z\nenvironment: AREA=a\n\
                environment: ZONE=b\ninput:\none\ntwo\n";
    assert_eq!(text(&finished.stdout), want);
    assert_eq!((text(&finished.stderr), finished.exit_code), ("", 0));
    assert!(finished.memory_peak_bytes > 0 && finished.memory_peak_bytes <= LIMITS.memory_bytes);
}

#[tokio::test]
async fn hello_module_sees_an_argument_up_to_its_nul_byte() {
    let finished = finished("hello", &["a\0b", "c"], "NAME=x\0y", "").await;
    assert_eq!(finished.exit_code, 0);
    assert!(text(&finished.stdout).contains("argument 1: a\nargument 2: c\nenvironment: NAME=x\n"));
}

#[tokio::test]
async fn stats_module_accepts_bars_in_any_order() {
    let stats = answer("ohlcv-stats", &[], "", BARS).await;
    assert_eq!((&stats["n"], &stats["skipped"]), (&json!(10), &json!(0)));
    assert_eq!(stats["first"], "2026-11-20T09:00:00Z");
    assert_eq!(stats["last"], "2026-11-20T09:09:00Z");
    let bars: Vec<Value> =
        BARS.lines().rev().map(|bar| serde_json::from_str(bar).unwrap()).collect();
    let sum = |of: &dyn Fn(&Value) -> f64| bars.iter().map(of).sum::<f64>();
    let number = |bar: &Value, key: &str| bar[key].as_f64().unwrap();
    let volume = sum(&|bar| number(bar, "volume"));
    let traded = sum(&|bar| {
        let price = (number(bar, "high") + number(bar, "low") + number(bar, "close")) / 3.0;
        price * number(bar, "volume")
    });
    let returns: Vec<f64> = bars
        .windows(2)
        .map(|pair| (number(&pair[1], "close") / number(&pair[0], "close")).ln())
        .collect();
    let mean = returns.iter().sum::<f64>() / 9.0;
    let variance = returns.iter().map(|step| (step - mean).powi(2)).sum::<f64>() / 8.0;
    for (key, want) in [
        ("mean_close", sum(&|bar| number(bar, "close")) / 10.0),
        ("min_low", 99.0),
        ("max_high", 105.0),
        ("vwap", traded / volume),
        ("return_deviation", variance.sqrt()),
        ("volume", volume),
    ] {
        check_close(number(&stats, key), want);
    }
}

#[tokio::test]
async fn stats_module_skips_rows_without_a_bar() {
    let lines = "\r\n{\"timestamp\":\"2026-11-20T09:00:00Z\",\"close\":2,\"tags\":[\"}\",{}]}\r\n\
                 {\"close\":1e999,\"timestamp\":\"x\"}\nnot a row\n{\"close\":3\n\n{\"high\":3}\n\
                 { \"close\" : 4 , \"timestamp\" : \"2026-11-20T09:00:00.5Z\", \"volume\": null }";
    let stats = answer("ohlcv-stats", &[], "", lines).await;
    let want = json!({"n": 2, "skipped": 4, "first": "2026-11-20T09:00:00Z",
        "last": "2026-11-20T09:00:00.5Z", "mean_close": 3, "min_low": 2, "max_high": 4,
        "vwap": null, "return_deviation": null, "volume": 0});
    assert_eq!(stats, want);
}

#[tokio::test]
async fn stats_module_accepts_the_maximum_number_of_rows() {
    let row = |row_idx: u32| {
        format!(
            "{{\"close\":{},\"high\":9,\"low\":1,\"open\":2,\"timestamp\":\
             \"2026-11-{:02}T{:02}:{:02}:00Z\",\"volume\":1.5}}\n",
            3 + row_idx % 2,
            1 + row_idx / 1440,
            row_idx / 60 % 24,
            row_idx % 60,
        )
    };
    let rows: String = (0..10_000).rev().map(row).collect();
    let stats = answer("ohlcv-stats", &[], "", &rows).await;
    assert_eq!((&stats["n"], &stats["volume"]), (&json!(10_000), &json!(15_000)));
    assert_eq!(
        (&stats["mean_close"], &stats["last"]),
        (&json!(3.5), &json!("2026-11-07T22:39:00Z"))
    );
}

#[tokio::test]
async fn each_model_of_the_predict_module_follows_its_formula() {
    check_close(predicted("MODEL=last").await, 104.5);
    check_close(predicted("MODEL=mean VALUE=volume").await, 9.95);
    check_close(predicted("MODEL=drift HORIZON=2").await, 105.5);
    let slope = 34.5 / 82.5; // Σ (x − 4.5)(y − mean) / Σ (x − 4.5)²
    check_close(predicted("MODEL=trend HORIZON=3").await, 102.25 + slope * 7.5);
    let step = "MODEL=momentum HORIZON=3 WINDOW=2";
    check_close(predicted(step).await, 104.5 + 0.8 * 3.0);
    check_close(predicted(&format!("{step} STALE=1")).await, 104.5 + 0.8 * 1.5);
    check_close(predicted("MODEL=reversion WINDOW=2").await, 104.5 - 0.9 * 0.5);
    check_close(predicted("MODEL=seasonal").await, 104.5);
}

#[tokio::test]
async fn predicted_deviation_depends_on_the_source_the_factor_and_the_time_of_day() {
    let flat = async |settings: &str| {
        let labels = format!("{settings} LABELS=up,down,flat THRESHOLD=0.01 HORIZON=2 WINDOW=10");
        beliefs(&labels).await["flat"]
    };
    let usual = flat("MODEL=last").await;
    assert!(flat("MODEL=last SPREAD=0.5").await > usual);
    assert!(flat("MODEL=last SPREAD=2").await < usual);
    assert_ne!(flat("MODEL=last NOISE_OF=moves").await, usual);
    assert_ne!(flat("MODEL=seasonal").await, usual);
}

#[tokio::test]
async fn random_error_of_a_prediction_depends_on_the_seed() {
    let lucky = async |seed: &str| predicted(&format!("MODEL=last LUCK=1 SEED={seed}")).await;
    let first = lucky("a").await;
    assert_eq!(first.to_bits(), lucky("a").await.to_bits());
    assert!((first - lucky("b").await).abs() > 1e-9);
}

#[tokio::test]
async fn each_worker_has_a_different_and_stable_model() {
    let first = predicted("SEED=nonce-7 PEER_ID=12D3KooWaaa").await;
    let second = predicted("SEED=nonce-7 PEER_ID=12D3KooWbbb").await;
    assert!(first > 100.0 && first < 105.0 && second > 100.0 && second < 105.0);
    assert!((first - second).abs() > 1e-6, "{first} and {second}");
    let again = predicted("SEED=nonce-7 PEER_ID=12D3KooWaaa").await;
    assert_eq!(first.to_bits(), again.to_bits());
}

#[tokio::test]
async fn label_probabilities_sum_to_one_and_follow_the_price_move() {
    for settings in ["MODEL=drift HORIZON=5", "MODEL=last", "MODEL=mean THRESHOLD=0.05"] {
        let beliefs = beliefs(&format!("{settings} LABELS=up,down,flat")).await;
        assert_eq!(beliefs.values().sum::<u32>(), 1_000_000, "{settings}: {beliefs:?}");
        assert_eq!(beliefs.len(), 3);
    }
    let rising = beliefs("MODEL=drift HORIZON=5 LABELS=up,down,flat").await;
    assert!(rising["up"] > rising["down"] && rising["down"] > 0);
    let steady = beliefs("MODEL=last THRESHOLD=1 LABELS=up,down,flat").await;
    assert!(steady["flat"] > 900_000);
    let of_two = beliefs("MODEL=last LABELS=up,down").await;
    assert_eq!((of_two["up"], of_two["down"]), (500_000, 500_000));
}

#[tokio::test]
async fn predict_module_uses_the_first_numeric_column_by_default() {
    let rows = "{\"timestamp\":\"2026-11-20T09:00:00Z\",\"host\":\"a\",\"load\":0.25}\n";
    assert_eq!(answer("predict", &[], "", rows).await, json!({"value": "0.25"}));
}

#[tokio::test]
async fn modules_reject_unusable_input() {
    let models = "MODEL must be last, mean, drift, ema, trend, momentum, reversion or seasonal";
    let none = "no rows with a timestamp and a close on standard input (1 lines skipped)";
    for (name, arguments, settings, stdin, want) in [
        ("ohlcv-stats", &[] as &[&str], "", "{}\n", none),
        ("predict", &[], "", "", "no rows with a number on standard input"),
        ("predict", &[], "VALUE=x", BARS, "no rows with a number in column x on standard input"),
        ("predict", &[], "MODEL=oracle", BARS, models),
        ("predict", &[], "HORIZON=soon", BARS, "HORIZON must be a number from 1 to 100000"),
        (
            "predict",
            &[],
            "LABELS=up,sideways",
            BARS,
            "LABELS must be some of up, down and flat, each once",
        ),
        ("whoami", &[], "", "", "PEER_ID is not set: the worker does not say who it is"),
        ("whoami", &["0"], "PEER_ID=a", "", "the number of buckets must be from 1 to 1000000"),
    ] {
        assert_eq!(refusal(name, arguments, settings, stdin).await, want);
    }
}

#[tokio::test]
async fn whoami_module_distinguishes_workers() {
    let mut buckets = BTreeMap::<i64, u32>::new();
    for peer_idx in 0..16 {
        let settings = format!("PEER_ID=12D3KooW{peer_idx}");
        let answer = answer("whoami", &["2"], &settings, "").await;
        assert_eq!(answer["of"], 2);
        *buckets.entry(answer["bucket"].as_i64().unwrap()).or_default() += 1;
    }
    assert_eq!(buckets.keys().copied().collect::<Vec<_>>(), [0, 1], "{buckets:?}");
    let id = answer("whoami", &[], "PEER_ID=12D3KooWabcdefgh", "").await;
    assert_eq!(id, json!({"peer": "abcdefgh"}));
}
