//! Draws the whole screen: the header, the screen in view, its overlays, the footer.

use ratatui::{buffer::Buffer, layout::Rect, style::Modifier};

use crate::{
    action::Action,
    event::Target,
    keymap::Layer,
    overlay::{
        self, Overlay, columns, copy_as, help, notices, palette, profiles, themes,
        view::{Surface, draw_confirm},
    },
    screens::{Screen, cluster, data, execute, inference, logs, overview},
    state::State,
    theme::Theme,
    view::{Frame, SIZE_MIN, Tier, centered, draw_empty, footer, header, hits::Hits, split_rows},
    widget::{note, paint, pane::Pane},
};

/// Draws the whole screen; returns what can be clicked.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, state: &State, theme: &Theme) -> Hits {
    let mut hits = Hits::default();
    theme.clear(area, buf);
    let Some(tier) = Tier::for_area(area) else {
        draw_too_small(area, buf, state, theme);
        return hits;
    };
    let frame = Frame { state, theme, tier };
    let [top, middle, bottom] = rows(area, footer::height(frame, area.width));
    match state.screen {
        Screen::Cluster => cluster::view::draw(middle, buf, frame, &mut hits),
        Screen::Execute => execute::view::draw(middle, buf, frame, &mut hits),
        Screen::Data => data::view::draw(middle, buf, frame, &mut hits),
        Screen::Inference => inference::view::draw(middle, buf, frame, &mut hits),
        Screen::Logs => logs::view::draw(middle, buf, frame, &mut hits),
        Screen::Overview => overview::view::draw(middle, buf, frame, &mut hits),
    }
    draw_overlay(middle, buf, frame, &mut hits);
    // After the overlay, which leaves nothing of the screen to be selected.
    header::draw(top, buf, frame, &mut hits);
    footer::draw(bottom, buf, frame, &mut hits);
    if let Some(Overlay::Jump(typed)) = state.overlays.last() {
        overlay::jump::view::draw(buf, theme, &hits, typed);
    }
    overlay::keys::view::draw(middle, buf, frame);
    state.symbols.apply(buf);
    hits
}

/// Draws what can be said where a screen broke while it was drawn: the way to the others, and why.
pub(crate) fn draw_broken(area: Rect, buf: &mut Buffer, state: &State, theme: &Theme, why: &str) {
    theme.clear(area, buf);
    let frame = Frame { state, theme, tier: Tier::for_area(area).unwrap_or(Tier::Small) };
    let [top, middle, bottom] = rows(area, footer::height(frame, area.width));
    header::draw(top, buf, frame, &mut Hits::default());
    footer::draw(bottom, buf, frame, &mut Hits::default());
    let name = state.screen.name();
    let inside = Pane::new(name.to_owned()).draw(middle, buf, theme);
    let title = format!("✗ the {name} screen failed to draw: a bug in this program");
    let next = "other screens still work; any other key retries this one, then the program ends";
    draw_empty(inside, buf, theme, &[title, why.to_owned(), next.to_owned()]);
}

/// The first row, all between, and the last `n_last` rows.
fn rows(area: Rect, n_last: u16) -> [Rect; 3] {
    let [top, rest] = split_rows(area, 1);
    let [middle, bottom] = split_rows(rest, rest.height.saturating_sub(n_last));
    [top, middle, bottom]
}

/// Draws the topmost overlay over `area`, if there is one. The screen beneath cannot be clicked; a
/// click beside the overlay closes it.
fn draw_overlay(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let Some(overlay) = frame.state.overlays.last() else { return };
    if matches!(overlay, Overlay::Jump(_)) {
        // Labels are for what is beneath; the view lays them over the whole frame.
        return;
    }
    hits.clear();
    hits.add(area, Target::Action(Action::Back));
    // A theme is chosen by what it does to the rest of the screen.
    if !matches!(overlay, Overlay::Themes(_)) {
        frame.theme.fade(area, buf);
    }
    let on = Surface { area, buf, frame, hits };
    match overlay {
        Overlay::Jump(_) => {}
        Overlay::Help(help) => help::view::draw(on, help),
        Overlay::ConfirmQuit => draw_confirm(on),
        Overlay::Palette(palette) => palette::view::draw(on, palette),
        Overlay::Themes(themes) => themes::view::draw(on, *themes),
        Overlay::AddNode => cluster::view::node_form::draw(on),
        Overlay::ConfirmStop => cluster::view::node_form::draw_confirm(on),
        Overlay::ConfirmNode(question) => cluster::view::operator::draw(on, question),
        Overlay::Presets(row) => execute::view::presets::draw(on, *row),
        Overlay::PresetName(name) => execute::view::presets::prompt(name, frame).draw(on),
        Overlay::Save(save) => save.prompt(frame).draw(on),
        Overlay::CopyAs(copy_as) => copy_as::view::draw(on, copy_as),
        Overlay::Columns(row) => columns::draw(on, *row),
        Overlay::Profiles(row) => profiles::view::draw(on, *row),
        Overlay::Key(form) => profiles::view::draw_key(on, form),
        Overlay::Notices(row) => notices::view::draw(on, *row),
    }
}

fn draw_too_small(area: Rect, buf: &mut Buffer, state: &State, theme: &Theme) {
    let (width, height) = SIZE_MIN;
    let text = format!("{width}×{height} needed, {}×{} now", area.width, area.height);
    let [top, _, bottom] = rows(area, 1);
    header::draw_health(top, buf, state, theme);
    let bold = theme.text.add_modifier(Modifier::BOLD);
    note::centered(buf, centered(area, area.width, 1), &[(&text, bold)]);
    if area.height > 2 {
        let quit = format!("{} quit", state.keys.key_text(Layer::Global, Action::Quit));
        paint::text(buf, bottom, (0, 0), &quit, theme.muted);
    }
}
