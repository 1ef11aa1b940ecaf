//! Profiles and their keys: choosing and opening a profile, checking and storing a key.

use model::key::ApiKey;
use ratatui::prelude::*;

use crate::event::{Effect, ProfileEvent};
use crate::keymap::{Action, Layer};
use crate::local::Addresses;
use crate::overlay::view::{List, raise};
use crate::profiles::{Choice, NO_PROFILE};
use crate::screens::update::{connect, enter};
use crate::state::form::{Form, FormField, Purpose, Step};
use crate::state::overlay::Overlay;
use crate::state::resource::Outcome;
use crate::state::services::{Health, Service};
use crate::state::{State, stack};
use crate::view::{Frame, centered, split_rows};
use crate::widget::pane::Pane;
use crate::widget::{format, paint};

/// Returns the row of the entry that is in use.
pub(crate) fn current_row(state: &State) -> usize {
    let in_use = &state.services.addresses;
    let mut choices = state.profiles.choices().into_iter();
    choices.position(|choice| state.profiles.is_in_use(choice, in_use)).unwrap_or(0)
}

/// Returns the form for the key in use, if a service refuses this key.
pub(crate) fn refused_form(state: &State) -> Option<Form> {
    let is_refused = |service| matches!(state.services.health(service), Health::Refused { .. });
    if !is_refused(Service::Data) && !is_refused(Service::Inference) {
        return None;
    }
    let choices = state.profiles.choices();
    Some(key_form(choices.get(current_row(state))?.name()?))
}

/// Opens the form for the key of the profile at `row`. The form receives the key that is typed or
/// pasted into the list.
pub(crate) fn begin_key(state: &mut State, row: usize) {
    if state.profiles.choices().get(row).is_some_and(|choice| choice.name().is_some()) {
        act(state, Action::EnterKey);
    }
}

/// Handles an action on the key of the selected profile if profiles are listed, otherwise of the profile
/// in use.
pub(crate) fn act(state: &mut State, action: Action) {
    let choices = state.profiles.choices();
    let named = match state.overlays.last() {
        Some(Overlay::Profiles(row)) => choices.get(*row).and_then(|choice| choice.name()),
        _ => Some(state.profiles.key_name()),
    };
    let Some(name) = named.map(str::to_owned) else {
        state.notify_refused("the local stack has its own key", String::new());
        return;
    };
    if action == Action::ForgetKey {
        state.effects.push(Effect::ForgetKey(name));
    } else {
        state.open_form(key_form(&name));
    }
}

/// Connects to the services of the entry at `row`.
pub(crate) fn take(state: &mut State, row: usize) {
    let choices = state.profiles.choices();
    let Some(choice) = choices.get(row) else { return };
    let choice = choice.name().map(str::to_owned);
    while state.close() {}
    let Some(name) = choice else { return take_local(state) };
    state.profiles.opening = Some(name.clone());
    state.effects.push(Effect::OpenProfile(name));
}

fn take_local(state: &mut State) {
    state.profiles.opening = None;
    state.profiles.current = None;
    state.profiles.key_place = None;
    match state.stack.phase {
        stack::Phase::Ready => {
            let addresses = state.stack.addresses.clone();
            state.notify("using this machine", String::new());
            connect(state, &addresses);
        }
        stack::Phase::Starting => {}
        // Another process that ran the stack can have stopped it in the meantime, so the stack is
        // attached to or started again.
        stack::Phase::Absent | stack::Phase::Attached | stack::Phase::Failed(_) => {
            state.stack.begin();
            state.effects.push(Effect::StartLocal);
        }
    }
}

/// Returns an empty form for the key of `profile`.
fn key_form(profile: &str) -> Form {
    let key = FormField::new("key", "UP-… It is never shown. ^U clears it", "").required().secret();
    let problem = "a key must be UP- followed by 24 hexadecimal digits";
    let key = key.valid_if(|text| text.parse::<ApiKey>().is_ok(), problem);
    let (purpose, title) = (Purpose::Key(profile.to_owned()), format!("API key of {profile}"));
    Form::new(purpose, title, "Check and store", vec![key]).explained(
        "It is checked with the service, then stored in the system's keyring, or in a file only you \
         can read if there is no keyring.",
    )
}

/// Requests that the key in the form is checked and stored. Returns false if the profile is gone.
pub(crate) fn try_key(state: &mut State, profile: String, key: &str) -> bool {
    let profiles = &state.profiles;
    let listed = profiles.list.iter().find(|listed| listed.name == profile);
    let addresses = match (&profiles.given, listed) {
        (Some(given), _) if profile == NO_PROFILE => given.clone(),
        // Flags can override the addresses of the profile in use, so its key is checked at the
        // addresses in use.
        _ if profiles.key_name() == profile => state.services.addresses.clone(),
        (_, Some(listed)) => listed.addresses.clone(),
        (_, None) => return false,
    };
    let Ok(key) = key.parse() else { return false };
    state.effects.push(Effect::KeepKey { profile, addresses, key });
    true
}

/// Handles an event of a profile or its key.
pub(crate) fn on(state: &mut State, event: ProfileEvent) {
    match event {
        ProfileEvent::Opened { name, result } => opened(state, name, result),
        ProfileEvent::Kept { profile, result: Ok((place, key)) } => {
            let is_of_key = |form: &Form| form.purpose == Purpose::Key(profile.clone());
            state.overlays.retain(|it| !matches!(it, Overlay::Form(form) if is_of_key(form)));
            state.notify(format!("the key of {profile} is valid"), format!("stored {place}"));
            let is_given = state
                .profiles
                .given
                .as_ref()
                .map(Choice::Given)
                .is_none_or(|given| state.profiles.is_in_use(given, &state.services.addresses));
            let is_in_use =
                state.profiles.key_name() == profile && (profile != NO_PROFILE || is_given);
            if !is_in_use {
                return;
            }
            state.profiles.key_place = Some(place);
            let mut addresses = state.services.addresses.clone();
            addresses.api_key = Some(key);
            connect(state, &addresses);
        }
        ProfileEvent::Kept { profile, result: Err(failure) } => match form_of(state, &profile) {
            Some(form) => form.step = Step::Failed(failure),
            None => state.notify_failure(&failure),
        },
        ProfileEvent::Forgotten { profile, result } => match result {
            Ok(true) => {
                state.notify(format!("removed the key of {profile}"), String::new());
            }
            Ok(false) => state.notify(format!("no key of {profile} was stored"), String::new()),
            Err(failure) => state.notify_failure(&failure),
        },
    }
}

/// Returns the form for the key of `profile`, if it is open and waits for the response.
fn form_of<'a>(state: &'a mut State, profile: &str) -> Option<&'a mut Form> {
    state.overlays.iter_mut().rev().find_map(|overlay| match overlay {
        Overlay::Form(form)
            if form.is_sent() && form.purpose == Purpose::Key(profile.to_owned()) =>
        {
            Some(&mut **form)
        }
        _ => None,
    })
}

fn opened(state: &mut State, name: String, result: Outcome<crate::profiles::Opened>) {
    // The result is stale if another profile was chosen in the meantime.
    if state.profiles.opening.as_ref() != Some(&name) {
        return;
    }
    state.profiles.opening = None;
    match result {
        Ok(opened) => {
            let key = match opened.key_place {
                Some(place) => format!("its key is {place}"),
                None => "it has no API key".to_owned(),
            };
            if name == NO_PROFILE {
                state.profiles.current = None;
            } else {
                state.notify(format!("using profile {name}"), key);
                state.profiles.current = Some(name);
            }
            state.profiles.key_place = opened.key_place;
            connect(state, &opened.addresses);
            enter(state, state.screen);
        }
        Err(failure) => state.notify_failure(&failure),
    }
}

/// Maximum width of the list.
const WIDTH_MAX: u16 = 100;

/// Width of a profile's name.
const NAME_WIDTH: u16 = 18;

pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, selected: usize) {
    let (theme, profiles) = (frame.theme, &frame.state.profiles);
    let choices = profiles.choices();
    let n_rows = u16::try_from(choices.len()).unwrap_or(u16::MAX);
    let height = n_rows.saturating_mul(2).saturating_add(7).min(area.height);
    let place = centered(area, WIDTH_MAX.min(area.width.saturating_sub(4)), height);
    let of = Pane::new("Profiles").footer(frame.hints(
        Layer::Profiles,
        &[
            (Action::Open, "use"),
            (Action::EnterKey, "enter its key"),
            (Action::ForgetKey, "remove its key"),
        ],
    ));
    let inside = raise(place, buf, frame, of);
    let list = List { items: &choices, selected, pitch: 2 };
    list.draw(split_rows(inside, 1)[1], buf, frame, |buf, place, choice| {
        let (name, words) = words(*choice);
        let is_current = profiles.is_in_use(*choice, &frame.state.services.addresses)
            && (*choice != Choice::Local || frame.state.stack.summary().is_some());
        let (glyph, style) = if is_current { ('●', theme.up) } else { ('○', theme.faint) };
        paint::put(buf, place, (2, 0), glyph, style);
        let name = format::left(&name, usize::from(NAME_WIDTH) - 1);
        paint::text(buf, place, (4, 0), &name, theme.text);
        paint::text(buf, place, (4 + NAME_WIDTH, 0), &words, theme.muted);
    });
    let key = match (&frame.state.services.addresses.api_key, profiles.key_place) {
        (None, _) => "no API key is in use".to_owned(),
        (Some(_), None) => "the API key in use is the local stack's own".to_owned(),
        (Some(_), Some(place)) => format!("the API key in use is {place}"),
    };
    paint::text(buf, inside, (2, inside.height.saturating_sub(2)), &key, theme.muted);
}

/// Returns the name and the addresses of a choice as text.
fn words(choice: Choice<'_>) -> (String, String) {
    let known = |addresses: &Addresses| {
        let Addresses { heads, datasets, inference, .. } = addresses;
        let others = [datasets, inference].into_iter().flatten();
        heads.iter().chain(others).map(String::as_str).collect::<Vec<_>>().join("  ")
    };
    match choice {
        Choice::Local => {
            ("this machine".to_owned(), "the local stack, started if none runs".to_owned())
        }
        Choice::Given(addresses) => {
            ("as started".to_owned(), format!("{}  (flags, environment)", known(addresses)))
        }
        Choice::Profile(profile) => (profile.name.clone(), known(&profile.addresses)),
    }
}

#[cfg(test)]
mod tests;
