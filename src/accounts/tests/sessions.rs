//! Tests of accounts, their sessions and their keys.

use super::*;

fn name(text: &str) -> AccountName {
    text.parse().unwrap()
}

fn word(text: &str) -> Password {
    text.parse().unwrap()
}

const GOOD: &str = "correct horse";

async fn ada(accounts: &Accounts) -> AuthenticatedAccount {
    accounts.register(name("Ada@example.org"), word(GOOD)).await.unwrap()
}

async fn log_in(
    accounts: &Accounts,
    authenticated: &AuthenticatedAccount,
) -> (SessionId, SessionToken) {
    let StartedSession { token, .. } =
        accounts.begin_session(authenticated.clone(), "a\nbrowser").await.unwrap();
    let (id, found) = accounts.session(&token).await.unwrap().unwrap();
    assert_eq!(found, authenticated.account);
    (id, token)
}

async fn log_in_ignores_the_case_of_names(place: &Place) {
    let accounts = place.open().await;
    let account = ada(&accounts).await.account;
    assert_eq!(account.name, "Ada@example.org");
    let again = accounts.register(name("ADA@example.org"), word("another word")).await;
    assert!(matches!(again, Err(AccountsError::NameTaken)), "{again:?}");
    let found = accounts.authenticate(name("ada@EXAMPLE.org"), word(GOOD)).await.unwrap();
    assert_eq!(found.account, account);
    for (who, password) in [("ada@example.org", "correct house"), ("bob", GOOD)] {
        let refused = accounts.authenticate(name(who), word(password)).await;
        assert!(matches!(refused, Err(AccountsError::WrongPassword)), "{refused:?}");
    }
}

async fn session_lasts_until_it_ends_or_expires(place: &Place) {
    let clock = clock();
    let accounts = place.open_at(clock.clone()).await;
    let authenticated = ada(&accounts).await;
    let account = &authenticated.account;
    let (first, token) = log_in(&accounts, &authenticated).await;
    let (second, other) = log_in(&accounts, &authenticated).await;
    let listed = accounts.sessions(account.id).await.unwrap();
    assert_eq!(listed.iter().map(|session| session.id).collect::<Vec<_>>(), [second, first]);
    assert_eq!(listed.first().unwrap().client, "abrowser");
    assert!(accounts.end_session(account.id, first).await.unwrap());
    assert!(!accounts.end_session(account.id, first).await.unwrap());
    assert!(accounts.session(&token).await.unwrap().is_none());
    clock.advance(SESSION_LIFETIME.saturating_sub(Duration::from_secs(1)));
    assert!(accounts.session(&other).await.unwrap().is_some());
    clock.advance(Duration::from_secs(1));
    assert!(accounts.session(&other).await.unwrap().is_none());
    assert_eq!(accounts.sessions(account.id).await.unwrap(), []);
    accounts.run_maintenance().await.unwrap();
    let stored =
        accounts.shared.store.query("SELECT id FROM sessions", [], |row| row.get::<i64>(0));
    assert_eq!(stored.await.unwrap(), [0; 0]);
    assert!(accounts.session(&SessionToken::from_cookie("nonsense")).await.unwrap().is_none());
}

async fn oldest_session_is_evicted(place: &Place) {
    let accounts = place.open().await;
    let authenticated = ada(&accounts).await;
    let (_, oldest) = log_in(&accounts, &authenticated).await;
    let (_, next) = log_in(&accounts, &authenticated).await;
    for _ in 0..49 {
        log_in(&accounts, &authenticated).await;
    }
    assert!(accounts.session(&oldest).await.unwrap().is_none());
    assert!(accounts.session(&next).await.unwrap().is_some());
}

async fn password_change_ends_other_sessions(place: &Place) {
    let accounts = place.open().await;
    let authenticated = ada(&accounts).await;
    let account = &authenticated.account;
    let (_, elsewhere) = log_in(&accounts, &authenticated).await;
    let (kept, here) = log_in(&accounts, &authenticated).await;
    let new = "a longer password";
    let wrong = accounts.change_password(account.id, word("wrong word"), word(new), kept).await;
    assert!(matches!(wrong, Err(AccountsError::WrongPassword)), "{wrong:?}");
    assert!(accounts.session(&elsewhere).await.unwrap().is_some());
    let changed = accounts.change_password(account.id, word(GOOD), word(new), kept).await.unwrap();
    assert_eq!(changed, 1);
    assert!(accounts.session(&elsewhere).await.unwrap().is_none());
    assert!(accounts.session(&here).await.unwrap().is_some());
    assert!(accounts.authenticate(name("ada@example.org"), word(GOOD)).await.is_err());
    assert!(accounts.authenticate(name("ada@example.org"), word(new)).await.is_ok());
    // An operator can set a password without the current password. All sessions end.
    let changed = accounts.set_password(name("ada@example.org"), word(GOOD)).await.unwrap();
    assert_eq!(changed, Some(1));
    assert!(accounts.session(&here).await.unwrap().is_none());
    assert!(accounts.set_password(name("nobody"), word(GOOD)).await.unwrap().is_none());
}

async fn pending_log_in_fails_after_a_password_change(place: &Place) {
    let accounts = place.open().await;
    ada(&accounts).await;
    let shown = accounts.authenticate(name("ada@example.org"), word(GOOD)).await.unwrap();
    // Setting the same password again also ends all other sessions, since the password gets a new hash.
    for new in ["a longer password", GOOD] {
        accounts.set_password(name("ada@example.org"), word(new)).await.unwrap().unwrap();
        let late = accounts.begin_session(shown.clone(), "late").await;
        assert!(matches!(late, Err(AccountsError::WrongPassword)), "{late:?}");
    }
    assert_eq!(accounts.sessions(shown.account.id).await.unwrap(), []);
}

async fn account_has_access_to_only_its_own_keys(place: &Place) {
    let accounts = place.open().await;
    let account = ada(&accounts).await.account;
    let bob = accounts.register(name("bob"), word(GOOD)).await.unwrap().account;
    let (of_nobody, _) = accounts.create_key("mine").await.unwrap();
    let (id, key) = accounts.create_account_key(account.id, "mine").await.unwrap();
    let (scope, others) = (Scope::Of(account.id), Scope::Of(bob.id));
    let ids = async |scope| {
        let list = accounts.list_keys(scope).await.unwrap();
        list.iter().map(|key| key.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(scope).await, [id]);
    assert_eq!(ids(others).await, []);
    assert_eq!(ids(Scope::All).await, [id, of_nobody]);
    assert!(accounts.key(others, id).await.unwrap().is_none());
    assert!(!accounts.rename_key(others, id, "stolen").await.unwrap());
    assert!(accounts.renew(others, id).await.unwrap().is_none());
    assert!(!accounts.revoke_key(others, id).await.unwrap());
    let verified = accounts.check(KeyHash::from_key(&key)).await.unwrap().unwrap();
    assert_eq!((verified.id, verified.account), (id, Some(account.id)));
    assert!(accounts.rename_key(scope, id, " yours ").await.unwrap());
    let renewed = accounts.renew(scope, id).await.unwrap().unwrap();
    let record = accounts.key(scope, id).await.unwrap().unwrap();
    assert_eq!(
        (record.name.as_str(), record.prefix.as_deref()),
        ("yours", renewed.reveal().get(..7))
    );
    assert_eq!(accounts.verify(&key).await.unwrap(), None);
    // `renew_key` ignores the account's key of the same name, since it finds only keys that belong to
    // no account.
    let (same, _) = accounts.renew_key("mine").await.unwrap();
    assert_eq!(same, of_nobody);
    assert!(accounts.revoke_key(scope, id).await.unwrap());
    assert_eq!(accounts.verify(&renewed).await.unwrap(), None);
    assert!(!accounts.rename_key(scope, id, "gone").await.unwrap());
}

async fn number_of_keys_per_account_is_limited(place: &Place) {
    let accounts = place.open().await;
    let account = ada(&accounts).await.account;
    let mut last = None;
    for _ in 0..KEYS_MAX {
        last = Some(accounts.create_account_key(account.id, "one").await.unwrap().0);
    }
    let more = accounts.create_account_key(account.id, "more").await;
    assert!(matches!(more, Err(AccountsError::TooManyKeys)), "{more:?}");
    accounts.create_key("an operator's").await.unwrap();
    accounts.revoke_key(Scope::All, last.unwrap()).await.unwrap();
    accounts.create_account_key(account.id, "more").await.unwrap();
}

async fn concurrent_creation_respects_the_key_limit(place: &Place) {
    let (here, there) = (place.open().await, place.open().await);
    let account = ada(&here).await.account;
    let make = (0..KEYS_MAX + 20).map(|nth| {
        let accounts = if nth % 2 == 0 { &here } else { &there };
        accounts.create_account_key(account.id, "one of many")
    });
    let made = futures::future::join_all(make).await;
    let n_refused =
        made.iter().filter(|made| matches!(made, Err(AccountsError::TooManyKeys))).count();
    assert_eq!(n_refused, 20);
    let n_keys = here.list_keys(Scope::All).await.unwrap().len();
    assert_eq!(u32::try_from(n_keys).unwrap(), KEYS_MAX);
}

async fn keys_of_a_deleted_account_are_rejected(place: &Place) {
    let (accounts, there) = (place.open().await, place.open().await);
    let authenticated = ada(&accounts).await;
    let account = &authenticated.account;
    let (_, token) = log_in(&accounts, &authenticated).await;
    let (id, key) = accounts.create_account_key(account.id, "Ada's own").await.unwrap();
    assert_eq!(there.verify(&key).await.unwrap(), Some(id));
    let wrong = accounts.delete_account(account.id, word("wrong word")).await;
    assert!(matches!(wrong, Err(AccountsError::WrongPassword)), "{wrong:?}");
    assert_eq!(accounts.delete_account(account.id, word(GOOD)).await.unwrap(), 1);
    wait_out_the_cache().await;
    assert_eq!(there.verify(&key).await.unwrap(), None);
    assert!(accounts.session(&token).await.unwrap().is_none());
    assert!(accounts.begin_session(authenticated.clone(), "").await.is_err());
    assert!(accounts.authenticate(name("ada@example.org"), word(GOOD)).await.is_err());
    let record = accounts.key(Scope::All, id).await.unwrap().unwrap();
    assert_eq!((record.account, record.name.as_str()), (None, "key 1"));
    assert_ne!(ada(&accounts).await.account.id, account.id, "ids are not reused");
    assert_eq!(accounts.remove_account(name("nobody")).await.unwrap(), None);
    assert_eq!(accounts.remove_account(name("Ada@example.org")).await.unwrap(), Some(0));
    assert_eq!(accounts.accounts().await.unwrap(), []);
}

#[tokio::test]
async fn stored_file_contains_no_password_and_no_token() {
    let folder = tempdir().unwrap();
    let accounts = open(&folder).await;
    let authenticated = ada(&accounts).await;
    assert!(!format!("{authenticated:?}").contains("argon2"));
    let (_, token) = log_in(&accounts, &authenticated).await;
    for file in std::fs::read_dir(folder.path().join("new")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for secret in [GOOD, token.reveal()] {
            let secret = secret.as_bytes();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret));
        }
    }
}

async fn sign_up_is_open_until_an_operator_closes_it(place: &Place) {
    let (here, there) = (place.open().await, place.open().await);
    assert_eq!(here.sign_up().await.unwrap(), SignUp::Open);
    for sign_up in [SignUp::Closed, SignUp::Open] {
        there.set_sign_up(sign_up).await.unwrap();
        assert_eq!(here.sign_up().await.unwrap(), sign_up);
    }
}

async fn default_closing_of_sign_up_yields_to_operators(place: &Place) {
    let accounts = place.open().await;
    assert!(accounts.close_sign_up_by_default().await.unwrap());
    assert_eq!(accounts.sign_up().await.unwrap(), SignUp::Closed);
    accounts.set_sign_up(SignUp::Open).await.unwrap();
    assert!(!accounts.close_sign_up_by_default().await.unwrap());
    assert_eq!(accounts.sign_up().await.unwrap(), SignUp::Open);
}

on_both! {
    log_in_ignores_the_case_of_names,
    session_lasts_until_it_ends_or_expires,
    oldest_session_is_evicted,
    password_change_ends_other_sessions,
    pending_log_in_fails_after_a_password_change,
    account_has_access_to_only_its_own_keys,
    number_of_keys_per_account_is_limited,
    concurrent_creation_respects_the_key_limit,
    keys_of_a_deleted_account_are_rejected,
    sign_up_is_open_until_an_operator_closes_it,
    default_closing_of_sign_up_yields_to_operators,
}
