//! Metrics of a node, in the Prometheus text format with the names of b7s.
//!
//! All metrics are in the table [`METRICS`].

use web::metrics::Metrics;

/// Returns the metrics of a node, all zero.
pub fn new() -> Metrics {
    // Prefix of every name, as in b7s.
    Metrics::new("b7s_", &[METRICS])
}

/// Counts a message of type `kind` that was sent to one peer.
pub(crate) fn count_sent(metrics: &Metrics, protocol: &str, kind: &str, n_bytes: usize) {
    metrics.add(SENT, &[kind]);
    metrics.add(MESSAGES_SENT, &[protocol]);
    metrics.add_n(MESSAGES_SENT_BYTES, &[], n_bytes);
}

web::metrics! {
    /// Messages sent to one peer.
    MESSAGES_SENT = counter("host_messages_sent", &["protocol"]);
    /// Bytes of messages sent to one peer.
    MESSAGES_SENT_BYTES = counter("host_messages_sent_bytes", &[]);
    /// Messages published on topics.
    MESSAGES_PUBLISHED = counter("host_messages_published", &["topic"]);
    /// Bytes of messages published.
    MESSAGES_PUBLISHED_BYTES = counter("host_messages_published_bytes", &[]);
    /// Messages that a peer sent directly to this node, not on a topic.
    DIRECT_MESSAGES = counter("node_direct_messages", &[]);
    /// Messages received on a topic.
    TOPIC_MESSAGES = counter("node_topic_messages", &["topic"]);
    /// Topics subscribed to.
    TOPIC_SUBSCRIPTIONS = counter("node_topic_subscriptions", &[]);
    /// Messages sent, by type.
    SENT = counter("node_messages_sent", &["type"]);
    /// Messages published, by type.
    PUBLISHED = counter("node_messages_published", &["type", "topic"]);
    /// Messages processed, by type.
    PROCESSED = counter("node_messages_processed", &["type"]);
    /// Messages processed well, by type.
    PROCESSED_OK = counter("node_messages_processed_ok", &["type"]);
    /// Messages dropped, by type.
    PROCESSED_ERR = counter("node_messages_processed_err", &["type"]);
    /// Roll calls published.
    ROLLCALLS_PUBLISHED = counter("node_rollcalls_published", &["function"]);
    /// Roll calls received.
    ROLLCALLS_SEEN = counter("node_rollcalls_seen", &["function"]);
    /// Positive responses to roll calls.
    ROLLCALLS_APPLIED = counter("node_rollcalls_applied", &["function"]);
    /// Executions requested from this head.
    EXECUTIONS = counter("node_function_executions", &["function", "consensus"]);
    /// Work orders received.
    WORK_ORDERS = counter("node_workorders", &["function"]);
    /// Functions to be installed.
    INSTALLED = counter("fstore_functions_installed", &[]);
    /// Functions installed without an error.
    INSTALLED_OK = counter("fstore_functions_installed_ok", &[]);
    /// Functions that could not be installed.
    INSTALLED_ERR = counter("fstore_functions_installed_err", &[]);
    /// Bytes of functions installed.
    INSTALLED_BYTES = counter("fstore_functions_installed_size_bytes", &[]);
    /// Time to install a function.
    INSTALL_TIME = summary("fstore_functions_installation_milliseconds");
    /// Runs on this worker.
    RUNS = counter("executor_function_executions", &["function"]);
    /// Runs that exited with 0.
    RUNS_OK = counter("executor_function_executions_ok", &["function"]);
    /// Runs that failed.
    RUNS_ERR = counter("executor_function_executions_err", &["function"]);
    /// Processor time of runs.
    RUNS_CPU_USER = counter("executor_function_executions_cpu_user_time_milliseconds", &[]);
    /// Processor time of the system for runs.
    RUNS_CPU_SYS = counter("executor_function_executions_cpu_sys_time_milliseconds", &[]);
    /// Time of a run.
    RUN_TIME = summary("executor_function_executions_milliseconds");
    /// This node: always 1, with a description in its labels.
    NODE_INFO = gauge("node_info", &["id", "version", "role"]);
    /// Executions completed by this head, by code.
    ANSWERS = counter("head_answers", &["code"]);
    /// Executions that needed no roll call.
    WARM = counter("head_warm_dispatches", &[]);
    /// Time from a request to its response.
    EXECUTE_TIME = summary("head_execute_milliseconds");
    /// Executions in progress on this head.
    EXECUTING = gauge("head_executions_under_way", &[]);
    /// Peers connected now.
    PEERS_CONNECTED = gauge("node_peers_connected", &[]);
    /// Functions that this worker could run now.
    SLOTS_FREE = gauge("worker_slots_free", &[]);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn metrics_are_listed_with_their_labels() {
        let metrics = new();
        metrics.add(EXECUTIONS, &["bafy", "none"]);
        metrics.add_n(EXECUTIONS, &["bafy", "none"], 2_u64);
        metrics.observe(RUN_TIME, &[], Duration::from_millis(3));
        metrics.set(EXECUTING, &[], 7);
        let text = metrics.text();
        for line in [
            "# TYPE b7s_node_function_executions counter",
            "b7s_node_function_executions{function=\"bafy\",consensus=\"none\"} 3",
            "b7s_executor_function_executions_milliseconds_sum 3",
            "b7s_executor_function_executions_milliseconds_count 1",
            "b7s_head_executions_under_way 7",
            "b7s_node_direct_messages 0",
        ] {
            assert!(text.lines().any(|actual| actual == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn metrics_have_the_names_that_b7s_dashboards_query() {
        let text = new().text();
        for group in [
            "counter host_messages_sent host_messages_sent_bytes host_messages_published \
             host_messages_published_bytes node_direct_messages node_topic_messages \
             node_topic_subscriptions node_messages_sent node_messages_published \
             node_messages_processed node_messages_processed_ok node_messages_processed_err \
             node_rollcalls_published node_rollcalls_seen node_rollcalls_applied \
             node_function_executions node_workorders fstore_functions_installed \
             fstore_functions_installed_ok fstore_functions_installed_err \
             fstore_functions_installed_size_bytes executor_function_executions \
             executor_function_executions_ok executor_function_executions_err \
             executor_function_executions_cpu_user_time_milliseconds \
             executor_function_executions_cpu_sys_time_milliseconds",
            "summary executor_function_executions_milliseconds \
             fstore_functions_installation_milliseconds",
            "gauge node_info",
        ] {
            let (kind, names) = group.split_once(' ').unwrap();
            for name in names.split_whitespace() {
                let line = format!("# TYPE b7s_{name} {kind}");
                assert!(text.lines().any(|actual| actual == line), "{line} is not in\n{text}");
            }
        }
    }

    #[test]
    fn names_types_and_help_of_metrics_are_unchanged() {
        let text = new().text();
        let comments: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let want = include_str!("../../tests/data/cluster/metrics.txt");
        assert_eq!(comments, want.lines().collect::<Vec<_>>());
    }

    #[test]
    fn no_two_metrics_have_the_same_name() {
        let mut names: Vec<&str> = METRICS.iter().map(web::metrics::Metric::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }
}
