//! Commands that approve, cordon and drain nodes.

use serde_json::Value;
use task::wait;

use crate::support::cluster::{ENDLESS, Node, WITHIN};
use crate::support::command::{Home, demo};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn worker_is_approved_cordoned_and_uncordoned() {
    let head = Node::head(&["--require-approval"]);
    let home = Home::new().with("TRIPTYCH_HEAD", &head.rest_api());
    let worker = Node::worker(&head, &["--attribute", "zone=a"]);
    let id = worker.id();
    let pending = wait::until(WITHIN, || async {
        let listed = json(&home.run_ok(&["nodes", "list", "--selector", "zone=a", "--json"]));
        if listed["nodes"][0]["approval"] == "pending" { Ok(()) } else { Err(listed) }
    });
    pending.await.unwrap();
    let run = ["function", "run", &demo("hello.wasm"), "--timeout", "1", "--raw"];
    let refused = home.run_err(&run);
    assert!(refused.contains("1 more is waiting for approval (see triptych nodes)"), "{refused}");
    let approved = home.run_ok(&["nodes", "approve", &id]);
    assert!(approved.contains("zone=a") && !approved.contains("pending"), "{approved}");
    let hello = ["function", "run", &demo("hello.wasm"), "--selector", "zone=a"];
    assert!(home.run_ok(&hello).contains("1 of 1 node "));

    let cordoned = home.run_ok(&["nodes", "cordon", "--selector", "zone in (a,b)"]);
    assert!(cordoned.lines().nth(1).unwrap().contains("cordoned"), "{cordoned}");
    let refused = home.run_err(&run);
    assert!(refused.contains("1 more is cordoned (see triptych nodes)"), "{refused}");
    let listed = home.run_ok(&["nodes"]);
    assert!(listed.lines().any(|line| line.starts_with(&id) && line.contains("cordoned")));
    home.run_ok(&["nodes", "uncordon", &id]);
    home.run_ok(&run);

    let none = home.run_err(&["nodes", "cordon", "--selector", "zone=b"]);
    assert!(none.contains("no worker matches `zone=b`"), "{none}");
    let unknown = home.run_err(&["nodes", "cordon", &head.id()]);
    assert!(unknown.contains("this is the head itself"), "{unknown}");
    let cut = home.run(&["nodes", "approve", "12D3KooWshort"]);
    assert!(cut.code == 2 && cut.err.contains("incomplete id"), "{cut:?}");
}

#[tokio::test]
async fn drain_command_lists_running_requests_and_waits_for_them() {
    let head = Node::head(&[]);
    let worker = Node::worker(&head, &["--run-limit", "3600", "--log-level", "debug"]);
    head.has_workers(1).await;
    let home = Home::new().with("TRIPTYCH_HEAD", &head.rest_api());
    let id = worker.id();
    let idle = json(&home.run_ok(&["nodes", "drain", &id, "--json"]));
    assert_eq!(idle["nodes"][0]["orders"], Value::Array(Vec::new()), "{idle}");
    home.run_ok(&["nodes", "uncordon", &id]);
    let module = home.write("endless.wasm", &wat::parse_str(ENDLESS).unwrap());
    let request = home.run_ok(&["function", "run", &module, "--async"]);
    worker.wait_log("execution begins");
    let busy = home.run(&["nodes", "drain", &id, "--timeout", "0"]);
    assert_eq!(busy.code, 1, "{busy:?}");
    assert!(busy.out.contains("draining"), "{busy:?}");
    let want = format!("{id} still runs 1 of requests {}", request.trim());
    assert!(busy.err.contains(&want), "{busy:?}");
    home.run_ok(&["function", "cancel", request.trim()]);
    let drained = home.run_ok(&["nodes", "drain", &id]);
    assert!(drained.contains("cordoned"), "{drained}");
}

#[tokio::test]
async fn drain_command_cancels_executions_at_its_deadline_and_detects_an_uncordon() {
    let head = Node::head(&[]);
    let worker = Node::worker(&head, &["--run-limit", "3600"]);
    head.has_workers(1).await;
    let home = Home::new().with("TRIPTYCH_HEAD", &head.rest_api());
    let id = worker.id();
    let module = home.write("endless.wasm", &wat::parse_str(ENDLESS).unwrap());
    let node =
        || json(&home.run_ok(&["nodes", "--json", "--selector", "!none"]))["nodes"][0].clone();
    let start_run = async || {
        let request = home.run_ok(&["function", "run", &module, "--async"]);
        wait::until(WITHIN, || async {
            let node = node();
            if node["running"] == 1 { Ok(()) } else { Err(node) }
        })
        .await
        .unwrap();
        request.trim().to_owned()
    };
    let request = start_run().await;
    let drained = home.run(&["nodes", "drain", &id, "--deadline", "0"]);
    assert_eq!(drained.code, 0, "{drained:?}");
    assert!(drained.err.contains(&format!("canceled execution {request}")), "{drained:?}");
    home.run_ok(&["nodes", "uncordon", &id]);

    let request = start_run().await;
    let mut draining = home.start(&["nodes", "drain", &id, "--timeout", "600"]);
    wait::until(WITHIN, || async {
        let node = node();
        if node["cordoned"] == true { Ok(()) } else { Err(node) }
    })
    .await
    .unwrap();
    home.run_ok(&["nodes", "uncordon", &id]);
    assert_eq!(draining.wait_exit(), Some(4));
    home.run_ok(&["function", "cancel", &request]);
}
