//! Metrics that the dashboard and the alerts in `assets/monitoring` use must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::ROOT;
use crate::support::up::Up;

/// Prefixes of the program's metrics.
const PREFIXES: [&str; 4] = ["b7s_", "triptych_datasets_", "triptych_inference_", "process_"];

/// Suffixes that the samples of a histogram or summary add to the name of the metric.
const SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Returns the names of the metrics in `text`, without the suffixes of samples.
fn metric_names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)));
    let without_suffix = |name: &str| {
        let short = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
        short.unwrap_or(name).to_owned()
    };
    names.map(without_suffix).collect()
}

#[tokio::test]
async fn dashboard_and_alert_rules_use_only_existing_metrics() {
    let up = Up::shared();
    let mut served = BTreeSet::new();
    for service in [up.head(), up.datasets(), up.inference()] {
        let (_, text) = service.get("/metrics").await;
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        served.extend(names.map(|(name, _)| name.to_owned()));
    }
    for (name, n_min) in [("dashboard.json", 28), ("alerts.yml", 12)] {
        let path = Path::new(ROOT).join("assets/monitoring").join(name);
        let names = metric_names(&fs::read_to_string(path).unwrap());
        assert!(names.len() >= n_min, "{name} uses {} metrics", names.len());
        let unknown: Vec<_> = names.difference(&served).collect();
        assert!(unknown.is_empty(), "{name} uses unknown metrics: {unknown:?}");
    }
}
