//! Tests of the maximum age of epochs with a wrong clock.

use super::*;

#[tokio::test]
async fn no_epoch_is_too_old_in_the_first_hour_after_a_start_or_a_leap_of_the_clock() {
    let mut topic = test_topics().remove(0);
    topic.keep.days = Some(1);
    let mut stage = Stage::with_topic(topic, 1).await;
    stage.runner.tick().await;
    stage.pass(30).await;
    let oldest = async |stage: &Stage| stage.inference.holdings(stage.id()).await.unwrap().oldest;
    assert_eq!(oldest(&stage).await, Some(1));
    correct(&stage.clock, 2 * DAY_SECONDS);
    let mut stage = stage.killed_and_reopened().await;
    stage.pass(TWO_EPOCHS).await;
    assert_eq!(oldest(&stage).await, Some(1));
    stage.clock.advance(Duration::from_hours(1));
    stage.pass(2 * TWO_EPOCHS).await;
    assert!(oldest(&stage).await > Some(1));
}
