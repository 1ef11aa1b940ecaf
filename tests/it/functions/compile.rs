//! Modules that are costly to compile: they hold their slot, and not the worker.

use std::time::Duration;

use serde_json::{Value, json};
use task::wait;
use tokio::time::Instant;

use crate::support::{
    cluster::{Node, WITHIN},
    command::{Home, demo},
    http::Http,
    process,
};

/// The run limit of the workers here, in seconds: shorter than compiling the bomb takes.
const RUN_LIMIT_S: u64 = 3;

/// How much later than the run limit the next function is answered.
const MARGIN: Duration = Duration::from_secs(2);

/// What a worker may keep of memory when a costly module is done with.
const KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// How long other tests may have the processors.
const OTHERS_END_WITHIN: Duration = Duration::from_mins(8);

/// A head, a worker with one slot, and a home to call them from.
struct Pair {
    head: Http,
    home: Home,
    worker: Node,
    _head: Node,
}

impl Pair {
    async fn start(run_limit_s: u64) -> Self {
        let limit = run_limit_s.to_string();
        let node = Node::head(&["--run-limit", &limit]);
        let limits = ["--concurrency", "1", "--run-limit", &limit, "--memory-limit", "65536"];
        let worker = Node::worker(&node, &limits);
        node.has_workers(1).await;
        let home = Home::new().with("TRIPTYCH_HEAD", &node.rest_api());
        Self { head: Http::new(&node.rest_api(), None), home, worker, _head: node }
    }

    /// Adds a function, and returns the request that executes it.
    fn add(&self, path: &str, method: &str) -> Value {
        let id = self.home.done(&["function", "add", path]);
        let id = id.split_whitespace().find(|word| word.starts_with("baf")).unwrap();
        json!({"function_id": id, "method": method, "config": {"number_of_nodes": 1}})
    }

    async fn execute(&self, request: &Value) -> Value {
        self.head.post("/api/v1/functions/execute", request).await.1
    }

    /// Waits until the head sees so many free slots of the worker.
    async fn wait_free(&self, n_free: u64) {
        let look = || async {
            let nodes = self.head.get_ok("/api/v1/nodes").await;
            let mut nodes = nodes["nodes"].as_array().unwrap().iter();
            if nodes.any(|node| node["slots"] == 1 && node["slots_free"] == n_free) {
                Ok(())
            } else {
                Err(())
            }
        };
        wait::until(WITHIN, look).await.unwrap();
    }
}

/// A module of `n_functions`, each with `n_loops` nested loops that all change 1 000 locals.
fn bomb(n_functions: usize, n_loops: usize) -> Vec<u8> {
    let locals = "i64 ".repeat(1000);
    let change =
        |local: usize| format!("(local.set {local} (i64.add (local.get {local}) (i64.const 1)))");
    let changes = (0..1000).map(change).collect::<Vec<_>>().concat();
    let open = "(loop ".repeat(n_loops);
    let close = "(br_if 0 (i32.wrap_i64 (local.get 0))))".repeat(n_loops);
    let function = format!("(func (local {locals}) {open} {changes} {close})");
    let functions = function.repeat(n_functions);
    let start = r#"(memory (export "memory") 1) (func (export "_start"))"#;
    wat::parse_str(format!("(module {start} {functions})")).unwrap()
}

/// A module of so many functions that drop four numbers.
fn crowd(n_functions: usize) -> Vec<u8> {
    let function = "(func i32.const 0 drop i32.const 0 drop i32.const 1 drop i32.const 1 drop)";
    let functions = function.repeat(n_functions);
    let start = r#"(memory (export "memory") 1) (func (export "_start"))"#;
    wat::parse_str(format!("(module {start} {functions})")).unwrap()
}

#[tokio::test]
async fn a_module_that_compiles_too_long_holds_its_slot_and_no_longer_than_the_run_limit() {
    let pair = Pair::start(RUN_LIMIT_S).await;
    let hello = pair.add(&demo("hello.wasm"), "hello.wasm");
    let first = pair.execute(&hello).await;
    assert_eq!(first["code"], "200", "{first}");
    let before = process::memory_bytes(pair.worker.pid());
    let bomb = pair.add(&pair.home.write("bomb.wasm", &bomb(150, 19)), "bomb.wasm");

    let began = Instant::now();
    let meanwhile = async {
        pair.wait_free(0).await;
        let compiling = || async {
            let compilers = process::descendants(pair.worker.pid());
            if compilers.len() == 1 { Ok(compilers) } else { Err(compilers) }
        };
        let compilers = wait::until(WITHIN, compiling).await.unwrap();
        let answer = loop {
            let answer = pair.execute(&hello).await;
            if answer["code"] == "200" {
                break answer;
            }
        };
        (answer, began.elapsed(), compilers)
    };
    let (refused, (answer, elapsed, compilers)) = tokio::join!(pair.execute(&bomb), meanwhile);
    assert_eq!(answer["results"][0]["result"]["stdout"], "Hello from WebAssembly\n");
    assert!(elapsed <= Duration::from_secs(RUN_LIMIT_S) + MARGIN, "{elapsed:?}");
    assert_eq!(process::all_gone(&Vec::from_iter(compilers)), Ok(()));
    pair.wait_free(1).await;
    assert!(refused.to_string().contains("compile the module within 3s"), "{refused}");
    let after = process::memory_bytes(pair.worker.pid());
    assert!(after <= before + KEPT_BYTES, "{before} bytes before, {after} after");
}

#[tokio::test]
async fn a_module_that_used_up_its_time_is_refused_at_once_the_next_time() {
    let pair = Pair::start(1).await;
    // One function, which takes one processor for longer than a second.
    let bomb = pair.add(&pair.home.write("bomb.wasm", &bomb(1, 19)), "bomb.wasm");
    // While others have the processors, that is not the module's fault, and it is tried again until
    // the other tests leave them.
    let used_up = async || {
        let refused = pair.execute(&bomb).await.to_string();
        assert!(refused.contains("compile the module within 1s"), "{refused}");
        if refused.contains("make its functions smaller") { Ok(()) } else { Err(refused) }
    };
    wait::until(OTHERS_END_WITHIN, used_up).await.unwrap();
    let began = Instant::now();
    let refused = pair.execute(&bomb).await.to_string();
    assert!(refused.contains("make its functions smaller"), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(process::descendants(pair.worker.pid()).is_empty());
}

#[tokio::test]
async fn modules_beyond_the_bounds_are_refused_at_once_and_leave_nothing_in_memory() {
    let pair = Pair::start(RUN_LIMIT_S).await;
    let hello = pair.add(&demo("hello.wasm"), "hello.wasm");
    assert_eq!(pair.execute(&hello).await["code"], "200");
    let before = process::memory_bytes(pair.worker.pid());
    let home = &pair.home;
    for (path, method, why) in [
        (home.write("loops.wasm", &bomb(1, 300)), "loops.wasm", "1000 locals and 300 nested loops"),
        (home.write("many.wasm", &crowd(350_000)), "many.wasm", "take 350001 functions"),
    ] {
        let request = pair.add(&path, method);
        let refused = pair.execute(&request).await;
        assert!(refused.to_string().contains(why), "{refused}");
        let began = Instant::now();
        let answer = pair.execute(&hello).await;
        assert_eq!(answer["code"], "200", "{answer}");
        assert!(began.elapsed() < MARGIN, "{:?}", began.elapsed());
        let after = process::memory_bytes(pair.worker.pid());
        assert!(after <= before + KEPT_BYTES, "{method}: {before} bytes before, {after} after");
    }
}
