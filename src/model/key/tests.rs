use super::*;

#[test]
fn a_key_is_read_back_and_never_shown_by_debug() {
    let key = ApiKey::from_random([0xab; 12]);
    assert_eq!(key.reveal(), "UP-abababababababababababab");
    assert_eq!(key.reveal().parse(), Ok(key.clone()));
    assert_eq!(format!("{key:?}"), "ApiKey(UP-…)");
}

#[test]
fn what_is_no_key_is_refused_without_repeating_it() {
    for text in ["", "UP-", "UP-xyz", "AP-abababababababababababab", "UP-ababababababababababababé"]
    {
        assert_eq!(text.parse::<ApiKey>(), Err(KeyError), "{text}");
    }
}
