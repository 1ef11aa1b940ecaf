//! Modules that compile slowly: they occupy a slot of the worker, but do not block the worker otherwise.

use std::time::Duration;

use serde_json::{Value, json};
use task::wait;

use crate::support::cluster::{Node, WITHIN};
use crate::support::command::{Home, demo};
use crate::support::http::Http;
use crate::support::process;

/// Time limit of compilations on the workers, in seconds. Compiling the bomb takes longer.
const COMPILE_LIMIT_S: u64 = 3;

/// Maximum memory by which a worker may have grown after a costly module.
const KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum time for which other tests may occupy the processors.
const OTHERS_END_WITHIN: Duration = Duration::from_mins(8);

/// A head, a worker with one slot, and a home directory for commands.
struct Pair {
    head: Http,
    home: Home,
    worker: Node,
    _head: Node,
}

impl Pair {
    async fn start(compile_limit_s: u64) -> Self {
        Self::with_limits(compile_limit_s, 18).await
    }

    async fn with_limits(compile_limit_s: u64, run_limit_s: u64) -> Self {
        let limits = [compile_limit_s.to_string(), run_limit_s.to_string()];
        let [compile_limit, run_limit] = &limits;
        let limits = ["--compile-limit", compile_limit, "--run-limit", run_limit];
        let node = Node::head(&limits);
        let more = ["--concurrency", "1", "--memory-limit", "65536"];
        let worker = Node::worker(&node, &[&limits[..], &more[..]].concat());
        node.has_workers(1).await;
        let home = Home::new().with("TRIPTYCH_HEAD", &node.rest_api());
        Self { head: Http::new(&node.rest_api(), None), home, worker, _head: node }
    }

    /// Adds a function. Returns the body of a request that executes it.
    fn add(&self, path: &str, method: &str) -> Value {
        let id = self.home.run_ok(&["function", "add", path]);
        let id = id.split_whitespace().find(|word| word.starts_with("baf")).unwrap();
        json!({"function_id": id, "method": method, "config": {"number_of_nodes": 1}})
    }

    /// Waits until the head lists function `id` as compiled on the worker.
    async fn wait_ready(&self, id: &Value) {
        let look = || async {
            let nodes = self.head.get_ok("/api/v1/nodes").await;
            let lists = |node: &Value, what: &str| {
                node[what].as_array().is_some_and(|ids| ids.contains(id))
            };
            let mut workers =
                nodes["nodes"].as_array().unwrap().iter().filter(|node| node["slots"] == 1);
            if workers.any(|worker| lists(worker, "functions") && lists(worker, "ready")) {
                Ok(())
            } else {
                Err(nodes)
            }
        };
        wait::until(OTHERS_END_WITHIN, look).await.unwrap();
    }

    async fn execute(&self, request: &Value) -> Value {
        self.head.post("/api/v1/functions/execute", request).await.1
    }

    /// Waits until the head counts this number of free slots.
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

/// Returns a module with `n_functions` functions. Each function has `n_loops` nested loops, all of which
/// change 1 000 locals.
fn bomb(n_functions: usize, n_loops: usize) -> Vec<u8> {
    wat::parse_str(wat_bomb(n_functions, n_loops)).unwrap()
}

fn wat_bomb(n_functions: usize, n_loops: usize) -> String {
    let locals = "i64 ".repeat(1000);
    let change =
        |local: usize| format!("(local.set {local} (i64.add (local.get {local}) (i64.const 1)))");
    let changes = (0..1000).map(change).collect::<Vec<_>>().concat();
    let open = "(loop ".repeat(n_loops);
    let close = "(br_if 0 (i32.wrap_i64 (local.get 0))))".repeat(n_loops);
    let function = format!("(func (local {locals}) {open} {changes} {close})");
    let functions = function.repeat(n_functions);
    let start = r#"(memory (export "memory") 1) (func (export "_start"))"#;
    format!("(module {start} {functions})")
}

/// Adds a custom section called `name`, so that compiled code from an earlier run is not found.
fn renamed(mut module: Vec<u8>, name: &str) -> Vec<u8> {
    let name = &name.as_bytes()[..name.len().min(100)];
    let n_bytes = u8::try_from(name.len()).unwrap();
    module.extend([0, n_bytes + 1, n_bytes]);
    module.extend(name);
    module
}

/// Returns a module with many functions, each of which drops four numbers.
fn crowd(n_functions: usize) -> Vec<u8> {
    let function = "(func i32.const 0 drop i32.const 0 drop i32.const 1 drop i32.const 1 drop)";
    let functions = function.repeat(n_functions);
    let start = r#"(memory (export "memory") 1) (func (export "_start"))"#;
    wat::parse_str(format!("(module {start} {functions})")).unwrap()
}

/// Returns true if the response `refused` says that a module was not compiled within the limit.
fn is_too_slow(refused: &Value, compile_limit_s: u64) -> bool {
    let refused = refused.to_string();
    let own = format!("compilation of the module exceeds {compile_limit_s}s");
    let busy = format!("module was not compiled within {compile_limit_s}s");
    // On a slow machine, the request can give up before the compiler does.
    let waited = "module is not compiled after".to_owned();
    [own, busy, waited].iter().any(|reason| refused.contains(reason))
}

#[tokio::test]
async fn module_that_compiles_too_long_holds_its_slot_until_the_compile_limit() {
    let pair = Pair::start(COMPILE_LIMIT_S).await;
    let hello = pair.add(&demo("hello.wasm"), "hello.wasm");
    let first = pair.execute(&hello).await;
    assert_eq!(first["code"], "200", "{first}");
    let before = process::memory_bytes(pair.worker.pid());
    let bomb = pair.add(&pair.home.write("bomb.wasm", &bomb(150, 19)), "bomb.wasm");

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
        (answer, compilers)
    };
    let (refused, (answer, compilers)) = tokio::join!(pair.execute(&bomb), meanwhile);
    assert_eq!(answer["results"][0]["result"]["stdout"], "Hello from WebAssembly\n");
    assert_eq!(process::all_gone(&Vec::from_iter(compilers)), Ok(()));
    pair.wait_free(1).await;
    assert!(is_too_slow(&refused, COMPILE_LIMIT_S), "{refused}");
    let after = process::memory_bytes(pair.worker.pid());
    assert!(after <= before + KEPT_BYTES, "{before} bytes before, {after} after");
}

#[tokio::test]
async fn first_run_waits_for_the_compiler_longer_than_a_run_may_take() {
    // Without optimizations, compiling takes some seconds, whereas the head waits 3 s for a run.
    let pair = Pair::with_limits(3600, 1).await;
    let module = renamed(bomb(1, 19), &pair.home.path(""));
    let mut bomb = pair.add(&pair.home.write("bomb.wasm", &module), "bomb.wasm");
    bomb["config"]["async"] = json!(true);
    let id = pair.execute(&bomb).await["request_id"].as_str().unwrap().to_owned();
    let execution = format!("/api/v1/executions/{id}");
    let compiling = || async {
        let body = pair.head.get_ok(&execution).await;
        let part = &body["peers"][0];
        if (&body["state"], &part["state"]) == (&json!("compiling"), &json!("compiling")) {
            Ok(())
        } else {
            Err(body)
        }
    };
    wait::until(WITHIN, compiling).await.unwrap();
    let ended = || async {
        let body = pair.head.get_ok(&execution).await;
        if body["state"] == "done" { Ok(body) } else { Err(body) }
    };
    let body = wait::until(OTHERS_END_WITHIN, ended).await.unwrap();
    assert_eq!(body["code"], "200", "{body}");
    assert!(body["peers"][0]["compiled_ms"].is_number(), "{body}");
    pair.wait_ready(&bomb["function_id"]).await;
}

#[tokio::test]
async fn installed_function_is_compiled_before_its_first_run() {
    let pair = Pair::start(3600).await;
    let hello = pair.add(&demo("hello.wasm"), "hello.wasm");
    let installed = json!({"cid": hello["function_id"]});
    let (_, answer) = pair.head.post("/api/v1/functions/install", &installed).await;
    assert_eq!(answer["code"], "200", "{answer}");
    pair.wait_ready(&hello["function_id"]).await;
    let listed = pair.home.run_ok(&["nodes"]);
    assert!(listed.contains("READY"), "{listed}");
    let answer = pair.execute(&hello).await;
    assert_eq!(answer["code"], "200", "{answer}");
}

#[tokio::test]
async fn modules_too_costly_to_compile_are_refused_without_using_memory_afterwards() {
    let pair = Pair::start(COMPILE_LIMIT_S).await;
    let hello = pair.add(&demo("hello.wasm"), "hello.wasm");
    assert_eq!(pair.execute(&hello).await["code"], "200");
    let before = process::memory_bytes(pair.worker.pid());
    let home = &pair.home;
    for (path, method) in [
        (home.write("loops.wasm", &bomb(1, 300)), "loops.wasm"),
        (home.write("many.wasm", &crowd(350_000)), "many.wasm"),
    ] {
        let request = pair.add(&path, method);
        let refused = pair.execute(&request).await;
        let is_crowd = refused.to_string().contains("350001 functions exceed");
        assert!(is_crowd || is_too_slow(&refused, COMPILE_LIMIT_S), "{refused}");
        let answer = pair.execute(&hello).await;
        assert_eq!(answer["code"], "200", "{answer}");
        let after = process::memory_bytes(pair.worker.pid());
        assert!(after <= before + KEPT_BYTES, "{method}: {before} bytes before, {after} after");
    }
}
