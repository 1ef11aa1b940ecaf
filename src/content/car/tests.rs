use proptest::prelude::*;

use super::super::pack::{self, CUT};
use super::*;
use crate::FUNCTION_BYTES_MAX;
use crate::dag::{Dag, Tree};

/// A directory of the files `a.wasm` and `b.txt`, written by `@ipld/car` 5 (npm).
const SMALL: &str = "3aa265726f6f747381d82a58250001701220cf7ec72458945815115296044cc23687a06533f8f\
cb9a763cf021346bc4cfaf06776657273696f6e013801551220502559b04e48eed228c71cc2aa1b17f01d864ca357d63b\
b17b7df1dd49e633480061736d0100000031a1cd13be12ed426966ce2425015512203e23e8160039594a33894f6564e1b\
1348bbd7a0088d42c4acb73eeaed59c009d628b0101701220cf7ec72458945815115296044cc23687a06533f8fcb9a763\
cf021346bc4cfaf012300a2401551220502559b04e48eed228c71cc2aa1b17f01d864ca357d63bb17b7df1dd49e633481\
206612e7761736d1814122f0a24015512203e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c00\
9d1205622e74787418010a020801";

fn small() -> Vec<u8> {
    let digits = SMALL.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn car_file_written_by_another_tool_is_read() {
    let dag = Dag::read_any(&small().into()).unwrap();
    let want = "bafybeigpp3dsiweulakrcuuwargmenuhubsth6h4xgtwhtyccndlyth26a";
    assert_eq!(dag.root.to_string(), want);
    let Tree::Folder(files) = dag.tree(FUNCTION_BYTES_MAX).unwrap() else { panic!("a folder") };
    assert_eq!((files[0].path.as_str(), &files[0].bytes[..4]), ("a.wasm", &b"\0asm"[..]));
    assert_eq!((files[1].path.as_str(), &files[1].bytes[..]), ("b.txt", &b"b"[..]));
}

#[test]
fn car_round_trips_for_any_order_of_blocks() {
    let dag = pack::tests::tree().to_dag().unwrap();
    let car = dag.car(None).unwrap();
    assert_eq!(Dag::read_any(&car).unwrap(), dag);
    let other = write(dag.root, dag.blocks.iter().rev().map(|(id, block)| (*id, block)));
    assert_ne!(other, car);
    assert_eq!(Dag::read_any(&other).unwrap().car(None).unwrap(), car);
}

#[test]
fn blocks_that_the_root_does_not_reach_are_not_written() {
    let mut dag = pack::file(&Bytes::from_static(b"\0asm and so on"), CUT);
    let car = dag.car(None).unwrap();
    let further = Bytes::from_static(b"further");
    let id = ContentId::from_block(Codec::Raw, &further);
    dag.blocks.insert(id, further);
    assert_eq!(dag.car(None).unwrap(), car);
    let with = Dag::read_any(&dag.car(Some(id)).unwrap()).unwrap();
    assert_eq!(with.blocks.len(), 2);
}

#[test]
fn block_that_does_not_fit_its_hash_is_rejected() {
    let mut car = small();
    let at = car.windows(4).position(|bytes| bytes == b"\0asm").unwrap();
    car[at + 5] ^= 1;
    let error = read(&car.into()).unwrap_err();
    assert!(matches!(error, ContentError::Mismatch { .. }), "{error}");
}

#[test]
fn car_file_of_version_2_or_without_roots_is_rejected() {
    // First bytes of version 2.
    let version_2 = [&[0x0a, 0xa1, 0x67], b"version".as_slice(), &[0x02]].concat();
    assert!(read(&version_2.into()).is_err());
    let no_root = [&[0x11, 0xa2, 0x65], b"roots".as_slice(), &[0x80, 0x67], b"version", &[0x01]];
    assert!(read(&no_root.concat().into()).is_err());
}

proptest! {
    #[test]
    fn parsing_arbitrary_bytes_as_car_does_not_panic(bytes: Vec<u8>) {
        drop(read(&bytes.into()));
    }

    #[test]
    fn parsing_a_damaged_car_does_not_panic(at in 0..500_usize, byte: u8, n_bytes in 0..500_usize) {
        let mut car = small();
        let at = at % car.len();
        car[at] = byte;
        car.truncate(n_bytes.max(at + 1));
        if let Ok(dag) = Dag::read_any(&car.into()) {
            drop(dag.tree(FUNCTION_BYTES_MAX));
        }
    }
}
