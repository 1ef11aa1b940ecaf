use super::*;

/// Returns the command of a shell with the script `script` in place of a service.
fn command(script: &str) -> Command {
    Command {
        process: "service".into(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("SECRET", "s3cret".into())],
        log: None,
        is_detached: false,
    }
}

/// Starts a process.
fn started(command: Command) -> (Group, Running, mpsc::Receiver<Line>) {
    let group = Group::default();
    let (lines, received) = mpsc::channel(16);
    let running = command.run(&group, &lines).unwrap();
    (group, running, received)
}

/// Starts a shell with the script `script` in place of a service.
fn shell(script: &str) -> (Group, Running, mpsc::Receiver<Line>) {
    started(command(script))
}

#[tokio::test]
async fn addresses_of_a_service_are_read_from_its_log() {
    let (group, running, _lines) = shell(
        r#"echo '{"message":"created host","id":"12D3","addresses":["/ip4/127.0.0.1/tcp/1/p2p/12D3"]}'
           echo '{"message":"Node API starting","address":"127.0.0.1:80"}'; cat"#,
    );
    let peer = running.wait_for(|facts| facts.peer_id.clone()).await.unwrap();
    let address = running.wait_for(|facts| facts.address.clone()).await.unwrap();
    assert_eq!((peer.as_str(), address.as_str()), ("12D3", "127.0.0.1:80"));
    group.shutdown().await;
}

#[tokio::test]
async fn error_for_an_early_exit_contains_its_cause() {
    let (_group, running, _lines) =
        shell(r#"echo '{"level":"error","message":"bind","error":"in use"}'; exit 3"#);
    let error = running.wait_for(|facts| facts.address.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "the service exited (exit status: 3): bind: in use");
}

#[tokio::test]
async fn last_log_line_is_read_before_the_exit_is_reported() {
    // A child of the shell writes the line once the shell has exited and its exit was collected.
    let (_group, running, _lines) = shell(
        r#"(while kill -0 $$ 2>/dev/null; do :; done
            echo '{"level":"error","message":"disk full"}') & exit 3"#,
    );
    let error = running.wait_for(|facts| facts.address.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "the service exited (exit status: 3): disk full");
}

#[tokio::test]
async fn stopping_the_group_closes_the_pipe_and_waits_for_the_exit() {
    let (group, running, mut lines) = shell("cat; echo drained");
    group.shutdown().await;
    assert_eq!(running.wait_for_exit().await.text, "exit status: 0");
    assert_eq!(lines.recv().await.map(|line| line.text).as_deref(), Some("drained"));
}

#[tokio::test]
async fn process_that_does_not_exit_after_a_stop_is_killed() {
    let (group, running, mut lines) = shell("trap '' TERM INT; echo up; exec sleep 600");
    assert_eq!(lines.recv().await.map(|line| line.text).as_deref(), Some("up"));
    group.shutdown().await;
    assert!(running.wait_for_exit().await.text.contains("signal: 9"));
}

/// The first of two fatal signals determines the exit status, whenever the process is scheduled.
#[tokio::test(start_paused = true)]
async fn process_that_does_not_drain_in_time_is_terminated_before_it_is_killed() {
    let (_group, running, _lines) = shell("exec sleep 600");
    assert_eq!(running.stop().await.text, "signal: 15 (SIGTERM)");
}

#[tokio::test]
async fn process_that_is_stopped_before_its_restart_is_not_restarted() {
    let (group, running, _lines) = shell("exit 3");
    let (lines, _received) = mpsc::channel(1);
    let stopped = running.clone();
    let report = |_| {
        let stopped = stopped.clone();
        async move { drop(stopped.stop().await) }
    };
    let exit = crate::supervise::supervise(running, group, lines, report).await;
    assert_eq!(exit.code, Some(3));
}

#[tokio::test]
async fn log_file_is_read_after_a_line_that_is_not_utf_8_or_has_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"printf '\377\n'; head -c 20000 /dev/zero | tr '\0' x; echo
        echo '{"message":"created host","id":"12D3"}'; cat"#;
    let (group, running, _lines) =
        started(Command { log: Some(folder.path().join("log")), ..command(script) });
    let peer_id = running.wait_for(|facts| facts.peer_id.clone()).await.unwrap();
    assert_eq!(peer_id, "12D3");
    group.shutdown().await;
}

#[tokio::test]
async fn stopped_process_restarts_on_the_same_ports() {
    let (group, running, _lines) = shell("cat");
    assert!(!running.has_exited());
    assert_eq!(running.stop().await.code, Some(0));
    assert!(running.has_exited() && !group.is_stopped());

    let mut arguments: Vec<String> =
        ["--port", "0", "--rest-api", "127.0.0.1:0"].map(str::to_owned).to_vec();
    set_value(&mut arguments, "--port", "39517");
    set_value(&mut arguments, "--listen", "x");
    assert_eq!(arguments, ["--port", "39517", "--rest-api", "127.0.0.1:0"]);
}

#[tokio::test]
async fn detached_process_outlives_its_group_and_logs_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (group, running, mut received) = started(Command {
        log: Some(folder.path().join("log")),
        is_detached: true,
        ..command("echo hello; exec sleep 600")
    });
    assert_eq!(received.recv().await.map(|line| line.text).as_deref(), Some("hello"));
    let request = Arc::clone(&running.stop_request);
    group.shutdown().await;
    assert!(!running.has_exited(), "the group is gone, the process is not");
    drop(request);
    // A dropped handle cannot stop the process, so its id is used.
    send_signal(Some(running.pid), Signal::TERM);
}

#[tokio::test]
async fn process_with_a_log_file_outlives_its_group_only_if_detached() {
    for is_detached in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        std::fs::write(&log, "earlier run\n").unwrap();
        let (group, running, mut received) = started(Command {
            log: Some(log.clone()),
            ..command("echo up; read word; echo got $word; cat")
        });
        assert_eq!(received.recv().await.map(|line| line.text).as_deref(), Some("up"));
        if is_detached {
            running.detach();
        }
        group.shutdown().await;
        assert_eq!(running.has_exited(), !is_detached);
        assert_eq!(running.is_detached(), is_detached);
        while is_detached && !std::fs::read_to_string(&log).unwrap().contains("got stay") {
            tokio::task::yield_now().await;
        }
    }
}
