//! Updates of profiles and their keys: choosing, opening, checking and storing.

use super::state::{KeyForm, KeyStep};
use crate::{
    action::Action,
    event::{Effect, ProfileEvent},
    overlay::Overlay,
    screens::update::{connect, enter},
    state::{
        State,
        loadable::Failure,
        profiles::{Choice, NO_PROFILE},
        services::{Health, Service},
        stack,
    },
};

/// Returns the row of the services in use.
pub(crate) fn current_row(state: &State) -> usize {
    let in_use = &state.services.addresses;
    let mut choices = state.profiles.choices().into_iter();
    choices.position(|choice| state.profiles.is_in_use(choice, in_use)).unwrap_or(0)
}

/// Returns the form for the key of the services in use, if one of them refuses the key.
pub(crate) fn refused_form(state: &State) -> Option<KeyForm> {
    let is_refused = |service| matches!(state.services.health(service), Health::Refused { .. });
    if !is_refused(Service::Data) && !is_refused(Service::Inference) {
        return None;
    }
    let choices = state.profiles.choices();
    Some(KeyForm::new(choices.get(current_row(state))?.name()?))
}

/// Starts the key form where a key is typed or pasted into the list of profiles.
pub(crate) fn begin_key(state: &mut State, row: usize) {
    if state.profiles.choices().get(row).is_some_and(|choice| choice.name().is_some()) {
        act(state, Action::EnterKey, Some(row));
    }
}

/// Handles an action on the profile at `row`, or on the current one.
pub(crate) fn act(state: &mut State, action: Action, row: Option<usize>) {
    let named = row.map_or_else(
        || Some(state.profiles.key_name().to_owned()),
        |row| Some(state.profiles.choices().get(row)?.name()?.to_owned()),
    );
    let Some(name) = named else {
        state.notify_refused("the local stack has its own key".to_owned(), String::new());
        return;
    };
    if action == Action::ForgetKey {
        state.effects.push(Effect::ForgetKey(name));
    } else {
        state.open(Overlay::Key(KeyForm::new(&name)));
    }
}

/// Uses the profile of `row`.
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
            let addresses = state.stack.ready.addresses.clone();
            state.notify("using this machine".to_owned(), String::new());
            connect(state, &addresses);
        }
        stack::Phase::Starting => {}
        // The process that ran the stack may have stopped it meanwhile.
        stack::Phase::Absent | stack::Phase::Attached | stack::Phase::Failed(_) => {
            state.stack.begin();
            state.effects.push(Effect::StartLocal);
        }
    }
}

/// Checks the typed key and stores it.
pub(crate) fn try_key(state: &mut State) {
    let Some(Overlay::Key(form)) = state.overlays.last_mut() else { return };
    if form.step == KeyStep::Tried {
        return;
    }
    let profile = form.profile.clone();
    let profiles = &state.profiles;
    let listed = profiles.list.iter().find(|listed| listed.name == profile);
    let addresses = match (&profiles.given, listed) {
        (Some(given), _) if profile == NO_PROFILE => given.clone(),
        // Flags may name other addresses than the profile.
        _ if profiles.key_name() == profile => state.services.addresses.clone(),
        (_, Some(listed)) => listed.addresses.clone(),
        (_, None) => return,
    };
    let Some(key) = form.key() else { return };
    state.effects.push(Effect::KeepKey { profile, addresses, key });
}

/// Handles an event of a profile.
pub(crate) fn on(state: &mut State, event: ProfileEvent) {
    match event {
        ProfileEvent::Opened { name, result } => opened(state, name, result),
        ProfileEvent::Kept { profile, result: Ok((place, key)) } => {
            if let Some(Overlay::Key(form)) = state.overlays.last()
                && form.profile == profile
            {
                state.close();
            }
            state.notify(format!("the key of {profile} is valid"), format!("kept {place}"));
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
        ProfileEvent::Kept { profile, result: Err(failure) } => match state.overlays.last_mut() {
            Some(Overlay::Key(form)) if form.profile == profile => {
                form.step = KeyStep::Refused(failure);
            }
            _ => state.notify_failure(&failure),
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

fn opened(state: &mut State, name: String, result: Result<crate::profiles::Opened, Failure>) {
    // Another one was chosen meanwhile.
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

#[cfg(test)]
mod tests;
