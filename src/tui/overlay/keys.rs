//! The API keys of an account: lists, creates and revokes them.

use ratatui::prelude::*;
use wire::accounts::{KeyBody, KeyWithSecret};

use crate::event::Effect;
use crate::keymap::{Action, Layer};
use crate::overlay::view::{List, raise};
use crate::state::State;
use crate::state::change::{Account, Change};
use crate::state::form::Form;
use crate::state::form::keys::{create_form, log_in_form, revoke_form};
use crate::state::overlay::Overlay;
use crate::state::resource::Failure;
use crate::view::{Frame, centered, text_cut};
use crate::widget::pane::Pane;
use crate::widget::{format, paint};

/// State of a key that services accept.
const VALID: &str = "valid";

/// Handles an action on keys. Opens the form that logs in if no account is logged in. Returns false for
/// other actions.
pub(crate) fn act(state: &mut State, action: Action) -> bool {
    if !matches!(action, Action::Keys | Action::CreateKey | Action::RevokeKey | Action::LogOut) {
        return false;
    }
    let row = match state.overlays.last() {
        Some(Overlay::Keys(row)) => Some(*row),
        _ => None,
    };
    let Some(Account { session, keys }) = &state.account else {
        state.open_form(log_in_form());
        return true;
    };
    match (action, row) {
        (Action::Keys, _) => state.open(Overlay::Keys(0)),
        (Action::CreateKey, _) => state.open_form(create_form(session)),
        (Action::RevokeKey, Some(row)) => {
            let valid = keys.get(row).filter(|key| key.state == VALID);
            match valid.map(|key| revoke_form(session, key)) {
                Some(revoke) => state.open_form(revoke),
                None => state.notify_refused("this key is revoked already", ""),
            }
        }
        (Action::LogOut, _) => {
            state.effects.push(Effect::Change(Change::LogOut(session.clone())));
            state.account = None;
            state.close();
        }
        _ => {}
    }
    true
}

/// Records the keys of an account unless `change` belongs to an earlier session, and shows the secret
/// of a new key.
pub(crate) fn on_keys(
    state: &mut State,
    change: &Change,
    account: Account,
    created: Option<Box<KeyWithSecret>>,
) {
    if matches!(change, Change::LogIn { .. }) || is_in_session(state, change) {
        for overlay in &mut state.overlays {
            if let Overlay::Keys(row) = overlay {
                *row = (*row).min(account.keys.len().saturating_sub(1));
            }
        }
        state.account = Some(account);
    }
    if let Some(created) = created {
        let KeyWithSecret { key, api_key } = *created;
        let text = format!(
            "Key {}, {}. It cannot be shown again: copy it now. To use it here, enter it for a \
             profile.",
            key.id, key.name
        );
        state.open_form(Form::report("New API key", text, Some(api_key)));
    }
}

/// Handles the failure of `change`: forgets a session that has ended.
pub(crate) fn on_failure(state: &mut State, change: &Change, failure: &Failure) {
    if failure.status == Some(401) && is_in_session(state, change) {
        state.account = None;
        state.overlays.retain(|overlay| !matches!(overlay, Overlay::Keys(_)));
    }
}

/// Returns true if `change` is one of keys in the current session.
fn is_in_session(state: &State, change: &Change) -> bool {
    let (Change::CreateKey { session, .. } | Change::RevokeKey { session, .. }) = change else {
        return false;
    };
    state.account.as_ref().is_some_and(|account| account.session == *session)
}

/// Draws the list of keys.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, selected: usize) {
    let theme = frame.theme;
    let Some(Account { session, keys }) = &frame.state.account else { return };
    let n_rows = u16::try_from(keys.len()).unwrap_or(u16::MAX).max(1);
    let height = n_rows.saturating_add(2).min(area.height);
    let place = centered(area, 100.min(area.width.saturating_sub(2)), height);
    let hints = [
        (Action::CreateKey, "creates"),
        (Action::RevokeKey, "revokes"),
        (Action::LogOut, "logs out"),
    ];
    let of = Pane::new(format!("API keys of {}", session.account))
        .info(keys.len().to_string())
        .footer(frame.hints(Layer::Keys, &hints));
    let inside = raise(place, buf, frame, of);
    if keys.is_empty() {
        paint::text(buf, inside, (0, 0), "no keys yet", theme.muted);
        return;
    }
    let list = List { items: keys, selected, pitch: 1 };
    list.draw(inside, buf, frame, |buf, place, key: &KeyBody| {
        let is_valid = key.state == VALID;
        let (glyph, style) = if is_valid { ('●', theme.up) } else { ('○', theme.faint) };
        paint::put(buf, place, (2, 0), glyph, style);
        let day = |time: &str| time.get(..10).unwrap_or(time).to_owned();
        let used = key
            .last_used_at
            .as_deref()
            .map_or("never used".to_owned(), |time| format!("used {}", day(time)));
        let x =
            paint::text(buf, place, (4, 0), &format::right(&key.id.to_string(), 5), theme.muted);
        let prefix = format!("{}…", key.prefix.as_deref().unwrap_or("UP-"));
        let x = paint::text(buf, place, (x + 2, 0), &prefix, theme.accent2);
        let facts = format!("{}  {}", day(&key.created_at), format::left(&used, 15));
        let x = paint::text(buf, place, (x.max(24) + 2, 0), &facts, theme.muted);
        let style = if is_valid { theme.text } else { theme.faint };
        text_cut(buf, place, (x + 2, 0), &key.name, style);
    });
}
