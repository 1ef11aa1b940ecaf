//! One example of each body, with every field that may be there.

use serde_json::Value;
use wire::{
    executions::{
        ClusterEvent, ClusterEventKind, ExecutionBody, ExecutionPeerBody, ExecutionsResponse, Usage,
    },
    functions::{
        AttributesBody, ClusterBody, EnvVar, ExecuteConfig, ExecuteRequest, ExecuteResponse,
        FileBody, FunctionBody, FunctionDetail, FunctionsResponse, InstallRequest, InstallResponse,
        NodeBody, NodesResponse, OutcomeBody, Parameter, ResultGroupBody, ResultRequest,
        RuntimeConfig,
    },
};

/// An example of a peer id.
const PEER: &str = "12D3KooWH9GerdSEroL2nqjpd2GuE5dwmqNi7uHX7FoywBdKcP4q";
/// An example of a content id.
const CID: &str = "bafkreifzjut3te7nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e";
/// An example of a request's id.
const REQUEST: &str = "0b3d1c43-6a0e-4a3d-9d6e-0b0a6d0f1a11";
/// An example of a date.
const DATE: &str = "2026-07-30T21:57:00Z";

/// All of them, each with the name of its schema.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    let event = ClusterEvent {
        time: DATE.to_owned(),
        kind: ClusterEventKind::Dispatched { request_id: REQUEST.into(), peer_id: PEER.into() },
    };
    let bodies = [
        ("ExecuteRequest", serde_json::to_value(execute_request())),
        ("ExecuteResponse", serde_json::to_value(execute_response())),
        ("InstallRequest", serde_json::to_value(install_request())),
        ("InstallResponse", serde_json::to_value(install_response())),
        ("ResultRequest", serde_json::to_value(ResultRequest { id: REQUEST.to_owned() })),
        (
            "ExecutionsResponse",
            serde_json::to_value(ExecutionsResponse { executions: vec![execution()] }),
        ),
        ("ExecutionBody", serde_json::to_value(execution())),
        ("ClusterEvent", serde_json::to_value(event)),
        ("NodesResponse", serde_json::to_value(NodesResponse { nodes: vec![node()] })),
        ("FunctionBody", serde_json::to_value(function())),
        ("FunctionDetail", serde_json::to_value(function_detail())),
        (
            "FunctionsResponse",
            serde_json::to_value(FunctionsResponse { functions: vec![function()] }),
        ),
    ];
    bodies.into_iter().filter_map(|(name, body)| Some((name, body.ok()?))).collect()
}

fn execute_request() -> ExecuteRequest {
    let variable = || EnvVar { name: "KEY".to_owned(), value: "value".to_owned() };
    ExecuteRequest {
        function_id: CID.to_owned(),
        method: "hello.wasm".to_owned(),
        parameters: Some(vec![Parameter { name: Some("name".into()), value: "value".into() }]),
        config: ExecuteConfig {
            number_of_nodes: 3,
            timeout: 5,
            stdin: Some("input".to_owned()),
            env_vars: Some(vec![variable()]),
            consensus_algorithm: Some(String::new()),
            threshold: Some(0.6),
            attributes: Some(AttributesBody {
                values: Some(vec![variable()]),
                attestation_required: false,
                attestors: None,
            }),
            permissions: Some(vec!["https://example.com/".to_owned()]),
            runtime: Some(RuntimeConfig {
                entry: "_start".to_owned(),
                run_time_ms: 1000,
                debug_info: true,
                limited_fuel: 1_000_000,
                limited_memory_pages: 16,
                runtime_logger: "unused".to_owned(),
                drivers_root_path: "unused".to_owned(),
            }),
            result_aggregation: None,
            quorum: Some(2),
            is_async: Some(false),
        },
        subgroup: Some("gpu".to_owned()),
        topic: Some("gpu".to_owned()),
    }
}

fn group() -> ResultGroupBody {
    let (stdout, stderr) = ("hello\n".to_owned(), String::new());
    ResultGroupBody {
        result: OutcomeBody { stdout, stderr, exit_code: 0 },
        peers: vec![PEER.to_owned()],
        frequency: 66.7,
    }
}

fn execute_response() -> ExecuteResponse {
    ExecuteResponse {
        code: "200".to_owned(),
        request_id: REQUEST.to_owned(),
        message: "2 of 3 nodes gave a result".to_owned(),
        results: vec![group()],
        cluster: ClusterBody { peers: vec![PEER.to_owned()] },
    }
}

fn install_request() -> InstallRequest {
    InstallRequest {
        cid: CID.to_owned(),
        uri: "https://example.com/manifest.json".to_owned(),
        subgroup: Some("gpu".to_owned()),
        topic: Some("gpu".to_owned()),
    }
}

fn install_response() -> InstallResponse {
    InstallResponse { code: "500".to_owned(), message: "no node has the function".to_owned() }
}

fn execution() -> ExecutionBody {
    ExecutionBody {
        request_id: REQUEST.to_owned(),
        state: "done".to_owned(),
        function_id: CID.to_owned(),
        method: "hello.wasm".to_owned(),
        subgroup: Some("gpu".to_owned()),
        number_of_nodes: 1,
        warm: true,
        started_at: DATE.to_owned(),
        elapsed_ms: 1.5,
        code: Some("200".to_owned()),
        message: String::new(),
        peers: vec![ExecutionPeerBody {
            peer_id: PEER.to_owned(),
            state: "answered".to_owned(),
            dispatched_ms: 0.1,
            answered_ms: Some(1.4),
            exit_code: Some(0),
            usage: Some(Usage {
                wall_clock_ns: 100_000,
                cpu_user_ns: 90_000,
                cpu_sys_ns: 10_000,
                memory_max_kib: 64,
            }),
            signed: true,
            reason: "was lost".to_owned(),
        }],
        results: vec![group()],
    }
}

fn node() -> NodeBody {
    NodeBody {
        peer_id: PEER.to_owned(),
        role: Some("worker".to_owned()),
        subgroups: vec!["gpu".to_owned()],
        addresses: vec![format!("/ip4/10.0.0.2/tcp/9527/p2p/{PEER}")],
        connected: true,
        latency_ms: Some(0.4),
        last_seen: Some(DATE.to_owned()),
        runs: 3,
        agreed: 3,
        agreement_percent: Some(99.9),
        slots: Some(10),
        slots_free: Some(9),
        functions: vec![CID.to_owned()],
    }
}

fn function() -> FunctionBody {
    FunctionBody {
        name: "hello".to_owned(),
        function_id: CID.to_owned(),
        method: "hello.wasm".to_owned(),
        bytes: 1234,
        by_manifest: Vec::new(),
    }
}

fn function_detail() -> FunctionDetail {
    let file = FileBody { path: "hello.wasm".to_owned(), bytes: 1234, runs: true };
    FunctionDetail { function: function(), files: vec![file] }
}
