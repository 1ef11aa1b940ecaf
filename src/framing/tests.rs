use futures::{
    FutureExt as _, SinkExt as _, StreamExt as _, TryStreamExt as _, executor::block_on,
    io::Cursor, stream,
};

use super::*;

/// Lines of text.
struct Lines;

impl Encoder for Lines {
    type Item<'a> = &'a str;
    type Error = io::Error;

    fn encode(&mut self, item: &str, dst: &mut BytesMut) -> io::Result<()> {
        dst.extend_from_slice(item.as_bytes());
        dst.extend_from_slice(b"\n");
        Ok(())
    }
}

impl Decoder for Lines {
    type Item = String;
    type Error = io::Error;

    fn decode(&mut self, src: &mut BytesMut) -> io::Result<Option<String>> {
        let Some(end) = src.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = src.split_to(end + 1);
        Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()))
    }
}

/// Reads from pieces, each of which comes by itself, then waits for ever.
fn waiting(pieces: Vec<&'static [u8]>) -> impl AsyncRead + Unpin {
    let pieces = stream::iter(pieces.into_iter().map(io::Result::Ok));
    pieces.chain(stream::pending()).into_async_read()
}

#[test]
fn messages_come_whole_however_they_are_cut() {
    let pieces: Vec<&[u8]> = vec![b"on", b"e\ntwo\nth", b"ree", b"\n", b"fo"];
    let mut lines = FramedRead::new(waiting(pieces), Lines);
    for want in ["one", "two", "three"] {
        assert_eq!(block_on(lines.next()).unwrap().unwrap(), want);
    }
    assert!(lines.next().now_or_never().is_none());
    assert_eq!(&lines.0.parts.read_buffer[..], b"fo", "it waits for the rest");
}

#[test]
fn an_idle_stream_has_no_buffers() {
    let mut lines = Framed::new(waiting(vec![b"one\n"]), Lines);
    assert_eq!(block_on(lines.next()).unwrap().unwrap(), "one");
    assert!(lines.next().now_or_never().is_none());
    assert_eq!(lines.parts.read_buffer.capacity(), 0);
    let mut lines = Framed::new(Cursor::new(Vec::new()), Lines);
    block_on(lines.send("one")).unwrap();
    block_on(lines.send("two")).unwrap();
    assert_eq!(lines.parts.write_buffer.capacity(), 0);
    assert_eq!(lines.into_parts().io.into_inner(), b"one\ntwo\n");
}

#[test]
fn what_is_buffered_survives_another_codec() {
    let mut lines = Framed::new(waiting(vec![b"one\ntwo\n"]), Lines);
    assert_eq!(block_on(lines.next()).unwrap().unwrap(), "one");
    let parts = lines.into_parts().map_codec(Some).map_codec(|codec| codec.unwrap());
    assert_eq!(block_on(Framed::from_parts(parts).next()).unwrap().unwrap(), "two");
}

#[test]
fn a_stream_that_ends_in_a_message_is_an_error() {
    let mut lines = Framed::new(Cursor::new(b"one\ntw".to_vec()), Lines);
    assert_eq!(block_on(lines.next()).unwrap().unwrap(), "one");
    let cut = block_on(lines.next()).unwrap().unwrap_err();
    assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    let mut whole = Framed::new(Cursor::new(b"one\n".to_vec()), Lines);
    assert_eq!(block_on(whole.next()).unwrap().unwrap(), "one");
    assert!(block_on(whole.next()).is_none());
}

#[test]
fn a_sender_waits_for_a_full_buffer() {
    let mut sink = FramedWrite::new(Cursor::new(Vec::new()), Lines);
    let long = "x".repeat(WAITING_BYTES_MAX);
    block_on(sink.feed(long.as_str())).unwrap();
    assert!(sink.0.parts.write_buffer.len() > WAITING_BYTES_MAX, "it is not written yet");
    block_on(sink.feed("next")).unwrap();
    assert_eq!(&sink.0.parts.write_buffer[..], b"next\n");
    block_on(sink.close()).unwrap();
    assert_eq!(sink.0.parts.io.get_ref().len(), long.len() + 6);
}
