//! The header: names of the screens, health of the services, and time of the frame.

use ratatui::prelude::*;

use super::{Frame, Tier, spinner};
use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::screens::Screen;
use crate::state::State;
use crate::state::services::{Health, Service};
use crate::theme::Theme;
use crate::widget::{format, paint};

/// Draws the header into `area`, which is one row high.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, tier, .. } = frame;
    buf.set_style(area, theme.bar);
    let is_narrow = tier < Tier::Large;
    // Names of screens are omitted if the space is needed for the failure of a service.
    let is_troubled = state.services.all().any(|it| is_trouble(state.services.health(it)));
    let is_tiny = tier < Tier::Medium || (is_narrow && is_troubled);
    let bold = theme.text.add_modifier(Modifier::BOLD);
    paint::text(buf, area, (1, 0), "◆", theme.focus);
    let name = if is_narrow { "" } else { "TRIPTYCH" };
    let mut x = paint::text(buf, area, (3, 0), name, bold) + u16::from(!is_narrow) * 2;
    for screen in Screen::ALL {
        let name = if is_narrow { screen.short_name() } else { screen.name() };
        let key = state.keys.key_of(Layer::Global, Action::Show(screen)).unwrap_or_default();
        let from = x;
        if screen == state.screen {
            let gap = if key.is_empty() { "" } else { " " };
            let text = format!(" {key}{gap}{name} ");
            x = paint::text(buf, area, (x, 0), &text, theme.tag(theme.focus));
        } else {
            x = paint::text(buf, area, (x + 1, 0), &key, theme.key);
            let name = if is_tiny { "" } else { name };
            x = paint::text(buf, area, (x + u16::from(!is_tiny), 0), name, theme.muted) + 1;
        }
        let place = Rect { x: area.x.saturating_add(from), width: x - from, ..area };
        frame.hits.add(place, Target::Screen(screen));
    }
    // From complete to short: the first form that fits is drawn. Shorter forms have a shorter time or no
    // time, and then shorter notes.
    let time = |is_short| frame_time(state, is_short);
    let zoned = |is_short| time(is_short).map(|time| format!("{time} {}", format::zone(state.now)));
    let full = [zoned(false), time(false), zoned(true), None].map(|time| (HealthForm::Full, time));
    let short = [HealthForm::Words, HealthForm::Brief]
        .into_iter()
        .flat_map(|form| [(form, zoned(true)), (form, time(true)), (form, None)]);
    let forms = full.into_iter().filter(|_| !is_narrow).chain(short);
    let mut rights = forms.map(|(form, time)| {
        let mut right = Line::from(health(state, theme, form));
        if let Some(time) = time {
            right.push_span(Span::styled(format!("  {time} "), theme.muted));
        }
        right
    });
    let room = usize::from(area.width.saturating_sub(x));
    if let Some(right) = rights.find(|right| room > right.width()) {
        paint::line_right(buf, area, 0, &right);
    }
}

/// Length of the notes in the header. Usual notes all have the same width, so a different latency does
/// not change the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HealthForm {
    /// Full names of the services, each with a note.
    Full,
    /// Short names of the services. Only services in trouble have a note.
    Words,
    /// Short names of the services. Unavailable services have a note with the duration.
    Brief,
}

/// Width of a usual note. `up 999 ms` fits into it.
const NOTE_WIDTH: usize = 9;

/// Draws only the health of the services. For terminals that are too small for a screen.
pub(crate) fn draw_health(area: Rect, buf: &mut Buffer, state: &State, theme: &Theme) {
    paint::line(buf, area, (0, 0), &Line::from(health(state, theme, HealthForm::Brief)));
}

/// Describes the time to which all visible ages refer. The time does not advance while the screen
/// is idle.
fn frame_time(state: &State, is_narrow: bool) -> Option<String> {
    if !state.services.is_any_known() {
        return None;
    }
    Some(if is_narrow {
        format!("@{}", format::hour_minute(state.now))
    } else {
        format!("as of {}", format::clock(state.now))
    })
}

fn health(state: &State, theme: &Theme, form: HealthForm) -> Vec<Span<'static>> {
    let is_short = form != HealthForm::Full;
    if let Some(step) = state.stack.step() {
        let picture = spinner(state.now);
        let step = format::fit(step, if is_short { 20 } else { 40 }).into_owned();
        let words = if is_short { "" } else { "starting " };
        return vec![
            Span::styled(format!("{picture} "), theme.info),
            Span::styled(format!("{words}{step}"), theme.muted),
        ];
    }
    let count = state.services.head_count();
    let spans = state
        .services
        .all()
        .filter(|service| count.is_none() || !matches!(service, Service::Head(_)));
    let heads = count.map_or_else(Vec::new, |count| head_count(count, theme, is_short));
    let spans = spans.flat_map(|service| {
        let health = state.services.health(service);
        let (glyph, style) = mark(health, theme);
        let note_style = if is_trouble(health) { style } else { theme.muted };
        if form == HealthForm::Full {
            let note = note(service, state);
            return vec![
                Span::styled(format!("  {} ", service.name()), theme.muted),
                Span::styled(format!("{glyph}"), style),
                Span::styled(format!(" {note:<NOTE_WIDTH$}"), note_style),
            ];
        }
        let words = match form {
            HealthForm::Words if is_trouble(health) => format!(" {}", note(service, state)),
            _ => state
                .services
                .away_for(service, state.now)
                .map_or_else(String::new, |age| format!(" {}", format::coarse(age))),
        };
        vec![
            Span::styled(format!(" {glyph}"), style),
            Span::styled(service.short_name(), theme.muted),
            Span::styled(words, note_style),
        ]
    });
    heads.into_iter().chain(spans).collect()
}

/// Returns true if the service is in trouble: unavailable, refused or limited.
const fn is_trouble(health: &Health) -> bool {
    health.is_away() || matches!(health, Health::Refused { .. } | Health::Limited { .. })
}

/// Describes the number of heads that respond. With several heads, this number replaces the health of a
/// single head.
fn head_count(count: (usize, usize), theme: &Theme, is_narrow: bool) -> Vec<Span<'static>> {
    let (n_live, n_heads) = count;
    let (glyph, style) = match n_live {
        0 => ('✗', theme.down),
        n if n < n_heads => ('◐', theme.warn),
        _ => ('●', theme.up),
    };
    if is_narrow {
        let text = format!("head {n_live}/{n_heads}");
        return vec![Span::styled(format!(" {glyph}"), style), Span::styled(text, theme.muted)];
    }
    let note_style = if n_live < n_heads { style } else { theme.muted };
    vec![
        Span::styled("  heads ", theme.muted),
        Span::styled(format!("{glyph}"), style),
        Span::styled(format!(" {n_live}/{n_heads} live"), note_style),
        Span::raw(" "),
    ]
}

/// Returns the symbol and the style for the health of a service.
pub(crate) const fn mark(health: &Health, theme: &Theme) -> (char, Style) {
    match health {
        Health::Absent => ('○', theme.faint),
        Health::Unknown => ('◌', theme.muted),
        Health::Idle { .. } => ('◉', theme.up),
        Health::Live => ('●', theme.up),
        Health::Refused { .. } => ('⊘', theme.down),
        Health::Limited { .. } => ('◐', theme.warn),
        Health::Down { .. } => ('✗', theme.down),
        Health::Silent => ('!', theme.down),
    }
}

/// Describes the health of `service` in a short note. If the key was refused, the note contains
/// advice.
pub(crate) fn note(service: Service, state: &State) -> String {
    match state.services.health(service) {
        Health::Absent => "none".to_owned(),
        Health::Unknown => "unknown".to_owned(),
        Health::Idle { latency: Some(latency) } => {
            format!("up {} ms", latency.as_millis().max(1))
        }
        Health::Idle { latency: None } => "up".to_owned(),
        Health::Refused { .. } if matches!(service, Service::Head(_)) => "refused".to_owned(),
        Health::Refused { .. } => {
            let key = state.keys.key_text(Layer::Global, Action::Profiles);
            format!("refused · {key}")
        }
        Health::Live => "live".to_owned(),
        Health::Limited { until } => {
            format!("429 · retry {}", format::age(until.since(state.now)))
        }
        Health::Down { .. } | Health::Silent => away(service, state).unwrap_or_default(),
    }
}

/// Describes how long `service` has been unavailable: `not responding, 12 s`, `down 3 m`.
pub(crate) fn away(service: Service, state: &State) -> Option<String> {
    let age = state.services.away_for(service, state.now).map(format::coarse_spaced);
    match (state.services.health(service), age) {
        (Health::Silent, age) => Some(format!("not responding, {}", age.unwrap_or_default())),
        (Health::Down { .. }, Some(age)) => Some(format!("down {age}")),
        (Health::Down { .. }, None) => Some("down".to_owned()),
        _ => None,
    }
}
