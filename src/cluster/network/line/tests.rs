use futures::io::Cursor;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use proptest::prelude::*;

use super::super::MESSAGE_BYTES_MAX;
use super::*;

fn written(frames: &[Frame]) -> Vec<u8> {
    let mut together = Vec::new();
    for frame in frames {
        put(&mut together, frame);
    }
    together
}

/// Reads a frame with the limit [`MESSAGE_BYTES_MAX`].
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
    let incoming = super::read(stream, MESSAGE_BYTES_MAX, None, &mut 0, &|| true).await?;
    Ok(incoming.map(|incoming| match incoming {
        Incoming::Whole(frame) | Incoming::Cut(frame) => frame,
    }))
}

#[tokio::test]
async fn too_long_frame_is_truncated_and_the_next_frame_is_complete() {
    let long = Frame { kind: 7, content: vec![b'x'; 3000].into() };
    let short = Frame { kind: 8, content: Bytes::from_static(b"short") };
    let mut stream = Cursor::new(written(&[long, short.clone()]));
    let mut to_skip = 0;
    let start = Frame { kind: 7, content: vec![b'x'; START_BYTES].into() };
    let cut = super::read(&mut stream, 2000, None, &mut to_skip, &|| true).await.unwrap();
    assert_eq!(cut, Some(Incoming::Cut(start)));
    let whole = super::read(&mut stream, 2000, None, &mut to_skip, &|| true).await.unwrap();
    assert_eq!(whole, Some(Incoming::Whole(short)));
    assert_eq!(super::read(&mut stream, 2000, None, &mut to_skip, &|| true).await.unwrap(), None);
}

#[tokio::test]
async fn parts_of_a_long_frame_are_reported_while_they_arrive() {
    let n_parts = std::sync::atomic::AtomicUsize::default();
    let note_part = || {
        n_parts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        true
    };
    for (n_bytes, n_reported) in [(PART_BYTES / 2, 0), (8 * PART_BYTES, 7)] {
        let frame = Frame { kind: 7, content: vec![b'x'; n_bytes].into() };
        let mut stream = Cursor::new(written(std::slice::from_ref(&frame)));
        let mut to_skip = 0;
        let read = super::read(&mut stream, MESSAGE_BYTES_MAX, None, &mut to_skip, &note_part);
        let read = read.await.unwrap();
        assert_eq!(read, Some(Incoming::Whole(frame)));
        assert_eq!(n_parts.load(std::sync::atomic::Ordering::Relaxed), n_reported);
    }
}

#[tokio::test]
async fn rest_of_an_unwanted_frame_is_skipped() {
    let long = Frame { kind: 7, content: vec![b'x'; 8 * PART_BYTES].into() };
    let short = Frame { kind: 8, content: Bytes::from_static(b"short") };
    let mut stream = Cursor::new(written(&[long, short.clone()]));
    let mut to_skip = 0;
    let mut read = async || {
        super::read(&mut stream, MESSAGE_BYTES_MAX, None, &mut to_skip, &|| false).await.unwrap()
    };
    let start = Frame { kind: 7, content: vec![b'x'; START_BYTES].into() };
    assert_eq!(read().await, Some(Incoming::Cut(start)));
    assert_eq!(read().await, Some(Incoming::Whole(short)));
}

#[tokio::test]
async fn incomplete_frame_closes_the_line() {
    let frame = Frame { kind: 7, content: Bytes::from_static(b"content") };
    let whole = written(std::slice::from_ref(&frame));
    assert_eq!(read(&mut Cursor::new(&whole)).await.unwrap(), Some(frame));
    assert_eq!(read(&mut Cursor::new([])).await.unwrap(), None);
    for n_bytes in 1..whole.len() {
        let cut = read(&mut Cursor::new(&whole[..n_bytes])).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof, "{n_bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn reading_a_stalled_frame_times_out() {
    let begun = stream::iter([Ok::<_, io::Error>(vec![0, 0, 0, 9, 1, b'x'])]);
    let mut stalling = begun.chain(stream::pending()).into_async_read();
    assert_eq!(read(&mut stalling).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

proptest! {
    #[test]
    fn frames_round_trip(
        frames in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)), 0..5),
    ) {
        let frames: Vec<Frame> =
            frames.into_iter().map(|(kind, content)| Frame { kind, content: content.into() }).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut stream = Cursor::new(written(&frames));
        for frame in frames {
            prop_assert_eq!(runtime.block_on(read(&mut stream)).unwrap(), Some(frame));
        }
        prop_assert_eq!(runtime.block_on(read(&mut stream)).unwrap(), None);
    }

    #[test]
    fn reading_arbitrary_bytes_as_frames_does_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut stream = Cursor::new(&bytes);
        let mut n_read = 0;
        while let Ok(Some(frame)) = runtime.block_on(read(&mut stream)) {
            n_read += HEADER_BYTES + frame.content.len();
        }
        prop_assert!(n_read <= bytes.len());
    }
}
