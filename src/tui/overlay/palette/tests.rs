use super::*;
use crate::event::Event;
use crate::harness::Harness;
use crate::keymap::default_rows;
use crate::state::overlay::Overlay;
use crate::theme::Name;

#[track_caller]
fn check(typed: &str, want: &str) {
    let mut screen = Harness::split((160, 45));
    screen.press("esc ctrl-p");
    screen.take(Event::Paste(typed.to_owned()));
    let Some(Overlay::Palette(palette)) = screen.state.overlays.last() else {
        panic!("no palette")
    };
    let found = palette.selected().map_or_else(String::new, |entry| {
        format!("{} {} {}", entry.group, entry.text, entry.keys).trim_end().to_owned()
    });
    assert_eq!(found, want, "for `{typed}`");
}

#[test]
fn palette_search_finds_commands_screens_nodes_and_runs() {
    check("resol coa", "Data Coarser resolution ,");
    check("logs", "View Logs 5");
    check("h-contrast", "Theme high-contrast T");
    check("!worker-2", "node worker-2");
    check(&format!("!{}", crate::harness::PEERS[2]), "node worker-2");
    check("%mean", "function mean");
    check("#hello 2 result", "run 1 hello.wasm");
    check("zzzz", "");
}

#[test]
fn prefix_restricts_the_palette_search_to_one_kind() {
    let entries = entries(&Harness::ready(160, 45).state);
    let mut palette = Palette::new(entries);
    for kind in ItemKind::VARIANTS {
        palette.input.set(&kind.sign().to_string());
        palette.find();
        let n_of_kind = palette.entries.iter().filter(|entry| entry.kind == *kind).count();
        assert_eq!(palette.matches.len(), n_of_kind, "{kind:?}");
    }
}

#[test]
fn every_action_except_movement_is_in_the_palette() {
    let state = Harness::ready(160, 45).state;
    let found = entries(&state);
    for (_, (_, _, action, _)) in default_rows().filter(|(layer, _)| group(*layer).is_some()) {
        let is_it = |entry: &Item| matches!(entry.goal, Goal::Act(_, it) if it == action);
        let is_left_out =
            action == Action::Palette || (action.is_step() && !matches!(action, Action::Show(_)));
        assert_ne!(found.iter().any(is_it), is_left_out, "{action:?}");
    }
}

#[test]
fn choosing_a_palette_entry_performs_its_action() {
    let mut screen = Harness::after(":");
    screen.type_text("logs");
    screen.press("enter");
    assert_eq!(screen.state.screen, Screen::Logs);
    assert!(screen.state.overlays.is_empty());
    screen.press(":");
    screen.type_text("!worker-3");
    screen.press("enter");
    assert_eq!(screen.state.screen, Screen::Cluster);
    assert_eq!(screen.state.cluster.node.as_deref(), Some(crate::harness::PEERS[3]));
}

#[test]
fn selected_theme_is_previewed_and_applied_on_confirm() {
    let mut screen = Harness::ready(160, 45);
    assert_eq!(screen.state.theme_name(), Name::Dark);
    screen.take(Event::Background([250, 250, 250]));
    assert_eq!(screen.state.theme_name(), Name::Light);
    screen.press("T down");
    assert_eq!(screen.state.theme_name(), Name::Dark);
    screen.press("esc");
    assert_eq!((screen.state.theme, screen.state.theme_name()), (None, Name::Light));
    screen.press("T down down down enter");
    assert_eq!(screen.state.theme, Some(Name::Cvd));
}
