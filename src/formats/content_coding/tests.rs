//! Tests the negotiation, and that other implementations decompress bodies that consist of pieces.

use std::io::Read as _;

use flate2::read::GzDecoder;

use super::*;

#[track_caller]
fn check(accept: &str, want: Option<Coding>) {
    assert_eq!(Coding::negotiate(accept), want, "{accept}");
}

#[test]
fn preferred_content_coding_is_selected() {
    assert_eq!(Coding::negotiate(""), Some(Coding::Identity));
    check("", Some(Coding::Identity));
    check("gzip, deflate", Some(Coding::Gzip));
    check("gzip, deflate, br, zstd", Some(Coding::Zstd));
    check("zstd;q=0.5, gzip;q=0.8", Some(Coding::Gzip));
    check("GZIP ; Q=1", Some(Coding::Gzip));
    check("gzip;q=0", Some(Coding::Identity));
    check("gzip;q=0.5, identity", Some(Coding::Identity));
    check("gzip, identity", Some(Coding::Gzip));
    check("*", Some(Coding::Identity));
    check("br", Some(Coding::Identity));
    check("gzip;q=nonsense", Some(Coding::Identity));
}

#[test]
fn unsupported_content_codings_are_rejected() {
    check("identity;q=0", None);
    check("br, *;q=0", None);
    check("gzip, *;q=0", Some(Coding::Gzip));
    check("identity;q=0.1, *;q=0", Some(Coding::Identity));
}

/// Builds a body from a cached piece, a new piece and separators. Returns it compressed and plain.
fn body(coding: Coding) -> (Vec<u8>, Vec<u8>) {
    let texts: Vec<Vec<u8>> = (0..40_u32)
        .map(|n| (0..n * 97).flat_map(|m| (m * n).to_string().into_bytes()).collect())
        .collect();
    let mut encoder = Encoder::new(coding);
    let (mut body, mut plain) = (Vec::new(), Vec::new());
    encoder.begin(&mut body);
    for (idx, text) in texts.iter().enumerate() {
        encoder.glue(&mut body, b",").unwrap();
        plain.push(b',');
        if idx % 2 == 0 {
            encoder.push(&mut body, text).unwrap();
        } else {
            encoder.push_packed(&mut body, &pack(coding, text).unwrap());
        }
        plain.extend_from_slice(text);
    }
    encoder.end(&mut body);
    (body, plain)
}

#[test]
fn pieces_of_a_gzip_body_form_one_member_with_a_valid_checksum() {
    let (body, plain) = body(Coding::Gzip);
    let mut reader = GzDecoder::new(body.as_slice());
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert_eq!(read, plain);
    assert!(body.len() < plain.len());
    let cut = body.get(..body.len() - 9).unwrap();
    GzDecoder::new(cut).read_to_end(&mut Vec::new()).unwrap_err();
}

#[test]
fn pieces_of_a_zstd_body_are_consecutive_frames() {
    let (body, plain) = body(Coding::Zstd);
    assert_eq!(zstd::stream::decode_all(body.as_slice()).unwrap(), plain);
}

#[test]
fn body_without_content_coding_is_unchanged() {
    let (body, plain) = body(Coding::Identity);
    assert_eq!(body, plain);
    assert_eq!(compress(Coding::Identity, b"abc").unwrap(), b"abc");
    assert_eq!(
        zstd::decode_all(compress(Coding::Zstd, b"abc").unwrap().as_slice()).unwrap(),
        b"abc"
    );
}

/// The compressor does not complete a flush that the end of its buffer interrupted.
#[test]
fn gzip_pieces_of_texts_that_hardly_compress_are_complete() {
    let mut state = 1_u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b'0' + state.to_be_bytes()[0] / 4
    };
    let text: Vec<u8> = (0..70_000).map(|_| letter()).collect();
    for n_bytes in (50_000..text.len()).step_by(199) {
        let (plain, mut read) = (&text[..n_bytes], Vec::new());
        let body = compress(Coding::Gzip, plain).unwrap();
        let result = GzDecoder::new(body.as_slice()).read_to_end(&mut read);
        assert!(read == plain, "{} of {n_bytes} bytes: {result:?}", read.len());
    }
}
