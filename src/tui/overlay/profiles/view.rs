//! Draws the choice of a profile, and the form that takes a key without showing it.

use ratatui::text::{Line, Span};

use super::state::{KeyForm, KeyStep};
use crate::{
    action::Action,
    keymap::Layer,
    local::Addresses,
    overlay::view::{List, Surface, raise},
    state::profiles::Choice,
    view::{centered, spinner, split_rows, strip, wrap::wrapped},
    widget::{format, paint, pane::Pane},
};

/// The widest the list is.
const WIDTH_MAX: u16 = 100;

/// The width of the form: a line of the words about where a key goes.
const FORM_WIDTH: u16 = 64;

/// The width of a profile's name.
const NAME_WIDTH: u16 = 18;

pub(crate) fn draw(on: Surface<'_>, selected: usize) {
    let Surface { area, buf, frame, hits } = on;
    let (theme, profiles) = (frame.theme, &frame.state.profiles);
    let choices = profiles.choices();
    let n_rows = u16::try_from(choices.len()).unwrap_or(u16::MAX).max(1);
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
    let inside = raise(place, buf, frame, of, hits);
    let list = List { n_rows: choices.len(), selected, pitch: 2 };
    list.draw(split_rows(inside, 1)[1], buf, frame, hits, |buf, place, row| {
        let Some(choice) = choices.get(row) else { return };
        let (name, words) = words(*choice);
        let is_current = profiles.is_in_use(*choice, &frame.state.services.addresses)
            && (*choice != Choice::Local || frame.state.stack.summary().is_some());
        let (glyph, style) = if is_current { ('●', theme.up) } else { ('○', theme.faint) };
        paint::put(buf, place, (2, 0), glyph, style);
        let name = format::left(&name, usize::from(NAME_WIDTH) - 1);
        paint::text(buf, place, (4, 0), &name, theme.text);
        paint::text(buf, place, (4 + NAME_WIDTH, 0), &words, theme.muted);
    });
    if choices.is_empty() {
        paint::text(buf, inside, (2, 1), "The configuration file names no profile.", theme.muted);
    }
    let key = match (&frame.state.services.addresses.api_key, profiles.key_place) {
        (None, _) => "no API key is in use".to_owned(),
        (Some(_), None) => "the API key in use is the local stack's own".to_owned(),
        (Some(_), Some(place)) => format!("the API key in use is {place}"),
    };
    paint::text(buf, inside, (2, inside.height.saturating_sub(2)), &key, theme.muted);
}

/// Name of a choice, and where its services are.
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

pub(crate) fn draw_key(on: Surface<'_>, form: &KeyForm) {
    let Surface { area, buf, frame, hits } = on;
    let theme = frame.theme;
    let place = centered(area, FORM_WIDTH.min(area.width.saturating_sub(2)), 11);
    let of = Pane::new(format!("API key of {}", form.profile))
        .info(format!("{} closes", frame.key(Layer::Secret, Action::Back)));
    let inside = raise(place, buf, frame, of, hits);
    // One mark a letter, and nothing that tells letters apart.
    let n_letters = form.input.value().chars().count();
    let row = strip(inside, (0, 1), inside.width);
    paint::row_style(buf, row, 0, theme.sel);
    let room = usize::from(row.width.saturating_sub(3));
    let x = paint::text(buf, row, (1, 0), &"•".repeat(n_letters.min(room)), theme.text);
    paint::put(buf, row, (x, 0), '▏', theme.focus);
    if n_letters == 0 {
        paint::text(buf, row, (2, 0), "UP-…", theme.muted);
    }
    let (lines, style) = match &form.step {
        KeyStep::Typed => {
            let words = "It is tried on the service, then kept in the system's keyring, or in a \
                         file only you can read where there is none. It is never shown.";
            (wrapped(words, inside.width), theme.muted)
        }
        KeyStep::Tried => {
            let words = format!("{} checking with the service", spinner::picture(frame.state.now));
            (vec![words], theme.info)
        }
        KeyStep::Refused(failure) => {
            let words = format!("✗ failed to {}: {}. {}", failure.what, failure.why, failure.next);
            (wrapped(&words, inside.width), theme.down)
        }
    };
    for (y, line) in (3..inside.height.saturating_sub(1)).zip(&lines) {
        paint::text(buf, inside, (0, y), line, style);
    }
    let keys = Line::from(vec![
        Span::styled(frame.key(Layer::Secret, Action::Open), theme.key),
        Span::styled(" check and store   ", theme.muted),
        Span::styled("^U", theme.key),
        Span::styled(" clear", theme.muted),
    ]);
    paint::line(buf, inside, (0, inside.height.saturating_sub(1)), &keys);
}
