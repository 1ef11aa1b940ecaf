//! Range requests: parts of a file, as `Range` names them (RFC 9110, section 14).

use std::{io, sync::Arc};

use axum::{
    body::Body,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_RANGE, IF_RANGE, RANGE},
    },
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::stream;

use crate::download::spool::SpooledFile;

/// The bytes of a file that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteRange {
    All,
    /// From the first to before the second.
    Part(u64, u64),
    /// None that the file has.
    Unsatisfiable,
}

/// The response with the file, or with the part of it that `headers` ask for.
pub(super) fn respond(file: SpooledFile, headers: &HeaderMap) -> Response {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let tag = file.facts.map(|facts| format!("\"{}\"", facts.tag));
    // A part of another file would not go with what the caller has.
    let is_same = headers.get(IF_RANGE).is_none_or(|known| Some(text(known)) == tag);
    let range = headers.get(RANGE).filter(|_| is_same).map(text);
    let size = file.size_bytes;
    let wanted = range.map_or(ByteRange::All, |range| parse_range(&range, size));
    let (begin, end) = match wanted {
        ByteRange::All => (0, size),
        ByteRange::Part(begin, end) => (begin, end),
        ByteRange::Unsatisfiable => {
            let mut response = StatusCode::RANGE_NOT_SATISFIABLE.into_response();
            set_header(&mut response, CONTENT_RANGE, &format!("bytes */{size}"));
            return response;
        }
    };
    let file = Arc::new(file);
    let parts = stream::try_unfold(begin, move |at| {
        let file = Arc::clone(&file);
        async move {
            if at >= end {
                return Ok::<_, io::Error>(None);
            }
            let part: Bytes = file.read(at, end).await?;
            let next = at + part.len() as u64;
            Ok(Some((part, next)))
        }
    });
    let mut response = Body::from_stream(parts).into_response();
    set_header(&mut response, CONTENT_LENGTH, &(end - begin).to_string());
    if wanted != ByteRange::All {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        set_header(&mut response, CONTENT_RANGE, &format!("bytes {begin}-{}/{size}", end - 1));
    }
    response
}

fn set_header(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}

/// What a `Range` of a file of `size` bytes asks for. Several ranges at once, other units and what is
/// no range are answered with the whole file, as the RFC allows.
fn parse_range(range: &str, size: u64) -> ByteRange {
    let Some(bounds) = range.trim().strip_prefix("bytes=") else { return ByteRange::All };
    let Some((first, last)) = bounds.split_once('-') else { return ByteRange::All };
    let (first, last) = (first.trim(), last.trim());
    let part = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, size.min(last.saturating_add(1))),
        (Ok(first), Err(_)) if last.is_empty() => (first, size),
        (Err(_), Ok(n_last)) if first.is_empty() => (size.saturating_sub(n_last), size),
        _ => return ByteRange::All,
    };
    match part {
        (begin, end) if begin < end => ByteRange::Part(begin, end),
        _ => ByteRange::Unsatisfiable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_a_part_the_whole_file_or_unsatisfiable() {
        for (range, want) in [
            ("bytes=0-0", ByteRange::Part(0, 1)),
            ("bytes=5-", ByteRange::Part(5, 10)),
            ("bytes=5-99", ByteRange::Part(5, 10)),
            ("bytes=-3", ByteRange::Part(7, 10)),
            ("bytes=-99", ByteRange::Part(0, 10)),
            ("bytes=10-", ByteRange::Unsatisfiable),
            ("bytes=-0", ByteRange::Unsatisfiable),
            ("bytes=5-4", ByteRange::All),
            ("bytes=0-1,3-4", ByteRange::All),
            ("rows=0-1", ByteRange::All),
            ("bytes=x", ByteRange::All),
        ] {
            assert_eq!(parse_range(range, 10), want, "{range}");
        }
        assert_eq!(parse_range("bytes=0-", 0), ByteRange::Unsatisfiable);
    }
}
