use std::time::Duration;

use super::*;
use crate::event::Event;
use crate::harness::Harness;
use crate::local::Addresses;
use crate::profiles::{KeyPlace, Opened, Profile};
use crate::state::resource::Failure;

/// A key that differs from the key of the harness's services.
const KEY: &str = "UP-00112233445566778899aabb";

fn far() -> Addresses {
    Addresses { datasets: Some("https://far/api".to_owned()), ..Addresses::default() }
}

/// Returns a screen that uses the local stack and lists a profile.
fn screen() -> Harness {
    let mut screen = Harness::ready(120, 40);
    screen.state.profiles.list = vec![Profile { name: "far".to_owned(), addresses: far() }];
    screen.take_effects();
    screen
}

fn opened(place: Option<KeyPlace>) -> Event {
    let result = Ok(Opened { addresses: far(), key_place: place });
    Event::Profile(ProfileEvent::Opened { name: "far".to_owned(), result })
}

/// Returns the event for a key that `profile` has from now on.
fn kept(profile: &str) -> Event {
    let result = Ok((KeyPlace::File, KEY.parse().unwrap()));
    Event::Profile(ProfileEvent::Kept { profile: profile.to_owned(), result })
}
/// Returns the effect that stores the entered key for `profile`.
fn keep(profile: &str) -> Effect {
    Effect::KeepKey { profile: profile.to_owned(), addresses: far(), key: KEY.parse().unwrap() }
}
/// Returns the effect that connects with the entered key.
fn connect() -> Effect {
    Effect::Connect(Addresses { api_key: Some(KEY.parse().unwrap()), ..far() })
}
#[test]
fn choosing_a_profile_connects_to_its_services() {
    let mut screen = screen();
    assert_eq!(screen.effects_of("P down enter"), [Effect::OpenProfile("far".to_owned())]);
    screen.take(opened(Some(KeyPlace::Keyring)));
    assert_eq!(screen.take_effects().first(), Some(&Effect::Connect(far())));
    assert_eq!(screen.state.profiles.current.as_deref(), Some("far"));
    screen.press("P up enter");
    let local = screen.state.stack.addresses.clone();
    assert_eq!(screen.take_effects().first(), Some(&Effect::Connect(local)));
}

#[test]
fn profile_that_opens_later_does_not_close_the_list_of_profiles() {
    let mut screen = screen();
    screen.press("P down enter P");
    screen.take(opened(None));
    assert_eq!(screen.state.profiles.current.as_deref(), Some("far"));
    assert!(matches!(screen.state.overlays[..], [Overlay::Profiles(_)]));
}

#[test]
fn profile_that_opens_after_another_profile_was_chosen_is_ignored() {
    let mut screen = screen();
    screen.press("P down enter P up enter");
    screen.take_effects();
    screen.take(opened(None));
    assert_eq!(screen.take_effects(), []);
    assert_eq!(screen.state.profiles.current, None);
}

#[test]
fn entered_key_is_checked_stored_and_used() {
    let mut screen = screen();
    screen.press("P down enter");
    screen.take(opened(None));
    screen.take_effects();
    screen.press("P e");
    screen.take(Event::Paste("UP-short".to_owned()));
    assert_eq!(screen.effects_of("enter"), [], "that is no key");
    screen.press("ctrl-u");
    screen.take(Event::Paste(KEY.to_owned()));
    assert_eq!(screen.effects_of("enter enter"), [keep("far")], "and once only");
    assert!(!format!("{:?}", screen.state.overlays).contains("0011"));
    screen.take(kept("far"));
    assert_eq!(screen.take_effects().first(), Some(&connect()));
    screen.shows(&["in a file only you can read"]);
}

#[test]
fn refused_key_stays_masked_in_the_form_with_the_reason() {
    let mut screen = screen();
    screen.press("P down e");
    screen.take(Event::Paste(KEY.to_owned()));
    screen.press("enter");
    let result = Err(Failure::new("try the key", "401 Invalid API key", ""));
    screen.take(Event::Profile(ProfileEvent::Kept { profile: "far".to_owned(), result }));
    screen.shows(&["401 Invalid API key"]);
    screen.hides(&["0011"]);
    screen.press("backspace");
    screen.hides(&["401"]);
}

/// Returns a screen at given addresses, with a dataset service that rejects the key.
fn refused_screen() -> Harness {
    let mut screen = screen();
    screen.state.profiles.given = Some(far());
    let opened = Opened { addresses: far(), key_place: None };
    screen.state.profiles.opening = Some(NO_PROFILE.to_owned());
    let event = ProfileEvent::Opened { name: NO_PROFILE.to_owned(), result: Ok(opened) };
    screen.take(Event::Profile(event));
    let why = Failure { status: Some(401), ..Failure::default() };
    let response = Some(Err(why));
    screen.take(Event::Probed { service: Service::Data, response, latency: Duration::ZERO });
    screen.take_effects();
    screen
}

#[test]
fn api_key_entered_for_addresses_from_flags_is_stored_and_used() {
    let mut screen = refused_screen();
    screen.press("P");
    screen.type_text(KEY);
    assert_eq!(screen.effects_of("enter"), [keep(NO_PROFILE)]);
    screen.take(kept(NO_PROFILE));
    assert_eq!(screen.take_effects().first(), Some(&connect()));
}

#[test]
fn api_key_typed_into_the_list_of_profiles_does_not_perform_commands() {
    let mut screen = refused_screen();
    screen.press("P esc");
    screen.shows(&["https://far/api  (flags, environment)"]);
    screen.type_text(KEY);
    assert_eq!(screen.take_effects(), []);
    let Some(Overlay::Form(form)) = screen.state.overlays.last() else { panic!("a key form") };
    assert_eq!(form.value("key"), KEY);
    assert_eq!(form.purpose, Purpose::Key(NO_PROFILE.to_owned()));
    screen.press("esc");
    screen.take(Event::Paste(KEY.to_owned()));
    let Some(Overlay::Form(form)) = screen.state.overlays.last() else { panic!("a key form") };
    assert_eq!(form.value("key"), KEY);
}

#[test]
fn api_key_entered_for_addresses_from_flags_is_not_used_for_the_local_stack() {
    let mut screen = screen();
    screen.state.profiles.given = Some(far());
    screen.press("P down e");
    screen.type_text(KEY);
    assert_eq!(screen.effects_of("enter"), [keep(NO_PROFILE)]);
    screen.take(kept(NO_PROFILE));
    assert!(!screen.take_effects().iter().any(|it| matches!(it, Effect::Connect(_))));
}
