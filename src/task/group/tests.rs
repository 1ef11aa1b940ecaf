use std::future::pending;
use std::time::Duration;

use tokio::sync::oneshot;

use super::*;

#[tokio::test(start_paused = true)]
async fn shutdown_drops_pending_tasks_and_waits_for_tasks_marked_to_complete() {
    let group = Group::default();
    let (dropped, was_dropped) = oneshot::channel::<()>();
    group.spawn("pending", async move {
        let _held = dropped;
        pending::<()>().await;
    });
    let (done, was_done) = oneshot::channel();
    let watcher = group.clone();
    group.spawn_to_end("drain", async move {
        watcher.stopped().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        done.send(()).unwrap();
    });
    group.shutdown().await;
    assert!(was_dropped.await.is_err());
    assert_eq!(was_done.await, Ok(()));
}

#[tokio::test]
async fn child_group_stops_with_its_parent_or_separately() {
    let parent = Group::default();
    let (first, second) = (parent.child(), parent.child());
    first.shutdown().await;
    assert!(!parent.is_stopped() && !second.is_stopped());
    parent.stop();
    assert!(second.is_stopped());
}
