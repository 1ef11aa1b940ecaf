//! The packets of multicast DNS that are written and read here. Values alone, no I/O.

use super::ADDRESSES_MAX;

/// The service that is asked for.
const SERVICE: [&str; 3] = ["_p2p", "_udp", "local"];

/// What an address begins with in a text record.
const ADDRESS: &str = "dnsaddr=";

/// The longest text in a text record, in bytes: its length is one byte.
const TEXT_BYTES_MAX: usize = 255;

/// How long others may remember an answer, in seconds.
const LIVES_S: u32 = 6 * 60;

/// Records of one packet that are read.
const RECORDS_MAX: usize = 64;

/// The type of a record that points to a name.
const TYPE_PTR: u16 = 12;
/// The type of a record that holds texts.
const TYPE_TXT: u16 = 16;
/// The type that asks for records of every type.
const TYPE_ANY: u16 = 255;
/// The class of the internet, the only one in use.
const CLASS_IN: u16 = 1;
/// Set in the flags of an answer.
const FLAG_ANSWER: u16 = 0x8000;
/// An answer of somebody who knows.
const FLAGS_OF_ANSWER: u16 = FLAG_ANSWER | 0x0400;

/// What a packet says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// It asks for nodes.
    Question,
    /// It tells addresses of nodes.
    Answer(Vec<String>),
}

/// Returns the question for nodes.
pub(super) fn question() -> Vec<u8> {
    let mut packet = header(0, [1, 0, 0, 0]);
    put_name(&mut packet, SERVICE);
    put(&mut packet, &[TYPE_PTR, CLASS_IN]);
    packet
}

/// Returns the answer that tells `addresses`. Those too long for a record are left out.
pub(super) fn answer<'a>(addresses: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let texts: Vec<String> = addresses
        .map(|address| format!("{ADDRESS}{address}"))
        .filter(|text| text.len() <= TEXT_BYTES_MAX)
        .collect();
    let mut packet = header(FLAGS_OF_ANSWER, [0, 1, 0, 1]);
    // The name of a node is of no meaning; who has several answers under one.
    let own = ["triptych", SERVICE[0], SERVICE[1], SERVICE[2]];
    let mut name = Vec::new();
    put_name(&mut name, own);
    put_name(&mut packet, SERVICE);
    put_record(&mut packet, TYPE_PTR, &name);
    packet.extend_from_slice(&name);
    let mut data = Vec::new();
    for text in texts {
        data.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        data.extend_from_slice(text.as_bytes());
    }
    put_record(&mut packet, TYPE_TXT, &data);
    packet
}

/// Reads a packet, or returns none if it is none, or neither question nor answer of ours.
pub(super) fn read(packet: &[u8]) -> Option<Read> {
    let mut reader = Reader { packet, at: 0 };
    let (_id, flags) = (reader.u16()?, reader.u16()?);
    let n_questions = reader.u16()?;
    let n_records =
        usize::from(reader.u16()?) + usize::from(reader.u16()?) + usize::from(reader.u16()?);
    let mut is_asked = false;
    for _ in 0..usize::from(n_questions).min(RECORDS_MAX) {
        let is_service = reader.name()?;
        let (kind, _class) = (reader.u16()?, reader.u16()?);
        is_asked |= is_service && matches!(kind, TYPE_PTR | TYPE_ANY);
    }
    if flags & FLAG_ANSWER == 0 {
        return is_asked.then_some(Read::Question);
    }
    let mut addresses = Vec::new();
    for _ in 0..n_records.min(RECORDS_MAX) {
        reader.name()?;
        let (kind, _class) = (reader.u16()?, reader.u16()?);
        reader.bytes(4)?;
        let n_bytes = reader.u16()?;
        let data = reader.bytes(n_bytes.into())?;
        if kind == TYPE_TXT {
            addresses.extend(
                texts(data).filter_map(|text| text.strip_prefix(ADDRESS)).map(str::to_owned),
            );
        }
    }
    addresses.truncate(ADDRESSES_MAX);
    (!addresses.is_empty()).then_some(Read::Answer(addresses))
}

/// The texts of a text record.
fn texts(data: &[u8]) -> impl Iterator<Item = &str> {
    let mut reader = Reader { packet: data, at: 0 };
    std::iter::from_fn(move || {
        let n_bytes = reader.bytes(1)?.first().copied()?;
        reader.bytes(n_bytes.into())
    })
    .filter_map(|text| str::from_utf8(text).ok())
}

struct Reader<'a> {
    packet: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, n_bytes: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n_bytes)?;
        let bytes = self.packet.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    /// Passes over a name, and returns whether it is the service's, written in full.
    fn name(&mut self) -> Option<bool> {
        let mut is_service = true;
        let mut n_labels = 0;
        loop {
            let length = self.bytes(1)?.first().copied()?;
            match length {
                0 => return Some(is_service && n_labels == SERVICE.len()),
                1..64 => {
                    let label = self.bytes(length.into())?;
                    let wanted = SERVICE.get(n_labels).map(|label| label.as_bytes());
                    is_service &= wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(label));
                    n_labels += 1;
                }
                // The rest of the name is elsewhere in the packet.
                192.. => {
                    self.bytes(1)?;
                    return Some(false);
                }
                _ => return None,
            }
        }
    }
}

fn header(flags: u16, counts: [u16; 4]) -> Vec<u8> {
    let mut packet = Vec::new();
    put(&mut packet, &[0, flags]);
    put(&mut packet, &counts);
    packet
}

fn put(packet: &mut Vec<u8>, numbers: &[u16]) {
    for number in numbers {
        packet.extend_from_slice(&number.to_be_bytes());
    }
}

fn put_name<const N: usize>(packet: &mut Vec<u8>, labels: [&str; N]) {
    for label in labels {
        packet.push(u8::try_from(label.len()).unwrap_or_default());
        packet.extend_from_slice(label.as_bytes());
    }
    packet.push(0);
}

fn put_record(packet: &mut Vec<u8>, kind: u16, data: &[u8]) {
    put(packet, &[kind, CLASS_IN]);
    packet.extend_from_slice(&LIVES_S.to_be_bytes());
    put(packet, &[u16::try_from(data.len()).unwrap_or_default()]);
    packet.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The question as go-libp2p and rust-libp2p send it.
    const QUESTION: &[u8] = b"\0\0\0\0\0\x01\0\0\0\0\0\0\x04_p2p\x04_udp\x05local\0\0\x0c\0\x01";

    #[test]
    fn the_question_is_the_one_other_libp2p_nodes_ask_and_answer() {
        assert_eq!(question(), QUESTION);
        assert_eq!(read(QUESTION), Some(Read::Question));
        let other = b"\0\0\0\0\0\x01\0\0\0\0\0\0\x04_ssh\x04_tcp\x05local\0\0\x0c\0\x01";
        assert_eq!(read(other), None);
    }

    #[test]
    fn an_answer_of_another_node_is_read_through_its_shortened_names() {
        let mut packet = b"\0\0\x84\0\0\0\0\x01\0\0\0\x01\x04_p2p\x04_udp\x05local\0".to_vec();
        packet.extend_from_slice(b"\0\x0c\0\x01\0\0\x01\x68\0\x06\x03abc\xc0\x0c");
        packet.extend_from_slice(b"\xc0\x27\0\x10\x80\x01\0\0\x01\x68\0\x1e");
        packet.extend_from_slice(b"\x05other\x17dnsaddr=/ip4/10.0.0.1/t");
        let want = Read::Answer(vec!["/ip4/10.0.0.1/t".to_owned()]);
        assert_eq!(read(&packet), Some(want));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written_without_what_is_too_long() {
        let long = format!("/dns4/{}/tcp/1", "x".repeat(260));
        let written =
            answer(["/ip4/10.0.0.1/tcp/1/p2p/a", &long, "/ip6/::1/tcp/1/p2p/a"].into_iter());
        let want = ["/ip4/10.0.0.1/tcp/1/p2p/a", "/ip6/::1/tcp/1/p2p/a"].map(str::to_owned);
        assert_eq!(read(&written), Some(Read::Answer(want.to_vec())));
        assert_eq!(read(&answer([].into_iter())), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            drop(read(&bytes));
        }

        #[test]
        fn a_damaged_answer_is_read_within_bounds_or_not(at in 0..80_usize, byte in any::<u8>()) {
            let mut packet = answer(["/ip4/10.0.0.1/tcp/1/p2p/a"; 20].into_iter());
            packet[at] = byte;
            if let Some(Read::Answer(addresses)) = read(&packet) {
                prop_assert!(addresses.len() <= ADDRESSES_MAX);
            }
        }
    }
}
