use super::*;

#[test]
fn a_module_has_the_id_that_ipfs_gives_it() {
    // `printf 'hello world' | ipfs add --cid-version=1 --raw-leaves -Q`
    let id = FunctionId::from_module(b"hello world");
    assert_eq!(id.to_string(), "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e");
    assert_ne!(id, FunctionId::from_module(b"hello worle"));
}

#[test]
fn an_id_of_another_form_is_read_but_names_no_module() {
    let id: FunctionId = "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn".parse().unwrap();
    assert_ne!(id, FunctionId::from_module(b""));
}

#[test]
fn what_is_no_content_id_is_refused() {
    for text in ["", "hello", "bafkrei", "../../etc/passwd"] {
        assert!(text.parse::<FunctionId>().is_err(), "{text}");
    }
}

#[test]
fn a_chosen_name_is_an_id_where_allowed() {
    let id = FunctionId::parse_any("whatever-cid").unwrap();
    assert_eq!(id.to_string(), "whatever-cid");
    assert!(!id.is_cid() && id.content().is_none());
    for text in ["", "..", "-a", "a/b", "a b", "a\u{202e}", "../../etc/passwd", &"a".repeat(65)] {
        assert!(FunctionId::parse_any(text).is_err(), "{text}");
    }
    let cid = FunctionId::from_module(b"hello world");
    assert_eq!(FunctionId::parse_any(&cid.to_string()), Ok(cid));
}

#[test]
fn a_method_is_one_file_name() {
    assert_eq!("hello.wasm".parse::<Method>().unwrap().as_str(), "hello.wasm");
    for text in ["", ".", "..", "a/b.wasm", "..\\a", "c:a", "a\0"] {
        assert!(text.parse::<Method>().is_err(), "{text:?}");
    }
}

#[test]
fn an_id_of_an_address_is_its_hash_in_lowercase_hexadecimal() {
    // `printf 'https://example.com/manifest.json' | sha256sum`
    let text = "1eb50a3f96621a44c9e3c8172bd36862a719b887e8434c39c3e04e9cd5160a8d";
    let id = FunctionId::from_address("https://example.com/manifest.json");
    assert_eq!(id.to_string(), text);
    assert_eq!(text.parse(), Ok(id));
    assert!(id.is_address_hash() && id.content().is_none());
    assert!(text.to_uppercase().parse::<FunctionId>().is_err());
}

#[test]
fn a_version_0_id_is_kept_as_its_version_1() {
    let id: FunctionId = "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn".parse().unwrap();
    // `ipfs cid base32 Qm…`, the empty directory
    let want = "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354";
    assert_eq!(id.normalize().to_string(), want);
    assert_eq!(id.to_string(), "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn");
}
