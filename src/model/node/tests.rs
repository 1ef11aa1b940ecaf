use super::*;

#[test]
fn a_peer_id_is_base58_and_bounded() {
    let id = "12D3KooWH9GerdSEroL2nqjpd2GuE5dwmqNi7uHX7FoKcP4qXabc";
    assert_eq!(id.parse::<PeerId>().unwrap().to_string(), id);
    for text in ["", "with space", "0OIl", "12D3/../etc", &"1".repeat(129)] {
        assert!(text.parse::<PeerId>().is_err(), "{text}");
    }
}

#[test]
fn a_role_is_head_or_worker() {
    assert_eq!("head".parse(), Ok(Role::Head));
    assert_eq!("worker".parse(), Ok(Role::Worker));
    assert!("Head".parse::<Role>().is_err());
}

#[test]
fn a_subgroup_has_no_spaces_and_an_end() {
    assert_eq!("gpu".parse::<Subgroup>().unwrap().as_str(), "gpu");
    for text in ["", "a b", "a\n", "a\u{202e}", &"x".repeat(129)] {
        assert!(text.parse::<Subgroup>().is_err(), "{text:?}");
    }
}
