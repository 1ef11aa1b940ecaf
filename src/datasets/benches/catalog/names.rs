//! Names and metadata of datasets, generated from a number, similar to names and metadata of the
//! upstream service.

use serde_json::{Value, json};

/// Sources of the datasets.
const SOURCES: [(&str, &str); 3] =
    [("tiingo", "Tiingo"), ("kraken", "Kraken"), ("candlegpt", "CandleGPT")];

/// Returns a ticker: the number in letters, followed by a currency.
pub(crate) fn ticker(idx: usize) -> String {
    let mut left = idx / SOURCES.len();
    let mut letters = String::new();
    for _ in 0..5 {
        letters.push(char::from(b'a' + u8::try_from(left % 26).unwrap_or_default()));
        left /= 26;
    }
    letters + "usd"
}

/// Returns the name of dataset number `idx`.
pub(crate) fn name(idx: usize) -> String {
    format!("{}_{}_1min", source(idx).0, ticker(idx))
}

/// Returns the body of the request that creates dataset number `idx`.
pub(crate) fn dataset(idx: usize, is_rare: bool) -> Value {
    let (source, title) = source(idx);
    let ticker = ticker(idx);
    let tags = if is_rare { vec!["public", "members"] } else { vec!["public"] };
    json!({
        "name": name(idx),
        "description": format!("{title} 1-minute OHLCV data for {}", ticker.to_uppercase()),
        "metadata": {
            "source": source, "ticker": ticker, "provider": "bench", "frequency": "1min",
        },
        "tags": tags,
    })
}

fn source(idx: usize) -> (&'static str, &'static str) {
    SOURCES.get(idx % SOURCES.len()).copied().unwrap_or_default()
}
