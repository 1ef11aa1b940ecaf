//! `GET /api/rows/live/`

use super::*;

#[tokio::test]
async fn the_newest_rows_come_first_one_a_line() {
    let service = Service::with_bars(150).await;
    let (body, content_type) = service.text("/api/rows/live/?dataset_name=btc&limit=2").await;
    assert_eq!(content_type, "application/x-ndjson");
    assert_eq!(
        body,
        concat!(
            r#"{"close":149.5,"high":150,"low":148,"open":149,"timestamp":"2026-07-29T02:29:00Z","#,
            "\"volume\":2}\n",
            r#"{"close":148.5,"high":149,"low":147,"open":148,"timestamp":"2026-07-29T02:28:00Z","#,
            "\"volume\":2}\n"
        )
    );
    assert_eq!(service.text("/api/rows/live/?dataset=1").await.0.lines().count(), 100);
    let bounds = format!("start={}&end={}", moment(3), moment(5));
    let (body, _) = service.text(&format!("/api/rows/live/?dataset=1&{bounds}")).await;
    assert_eq!(body.lines().count(), 3);
}
