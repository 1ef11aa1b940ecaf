use std::collections::HashSet;

use super::*;
use crate::{
    harness::Harness,
    state::{Screen, overlay::Overlay},
};

/// Every chain of layers that is ever in force.
fn chains() -> Vec<&'static [Layer]> {
    let mut screen = Harness::ready(160, 45);
    let mut chains = Vec::new();
    for digit in ["1", "2", "3", "4", "5", "0"] {
        screen.press(digit);
        chains.push(screen.state.layers());
        screen.press("/");
        chains.push(screen.state.layers());
        screen.press("esc");
        if digit == "2" {
            screen.press("e");
            chains.push(screen.state.layers());
            screen.press("esc");
        }
    }
    for key in [":", "f1", "T", "!", "P"] {
        screen.press(key);
        chains.push(screen.state.layers());
        screen.press("esc");
    }
    screen.press(":");
    screen.type_text("api key");
    screen.press("enter");
    chains.push(screen.state.layers());
    screen.press("esc");
    for overlay in [
        Overlay::ConfirmQuit,
        Overlay::AddNode,
        Overlay::ConfirmStop,
        Overlay::Presets,
        Overlay::PresetName,
    ] {
        screen.state.open(overlay);
        chains.push(screen.state.layers());
    }
    chains
}

#[track_caller]
fn check(layers: &[Layer], keys: &str, want: Resolved) {
    let mut pending = Vec::new();
    let mut resolved = Resolved::Nothing;
    for key in keys.split(' ') {
        let chord = Chord::named(key).unwrap();
        resolved = resolve(layers, &pending, chord);
        pending.push(chord);
    }
    assert_eq!(resolved, want, "{keys}");
}

#[test]
fn every_key_of_the_table_can_be_pressed() {
    for binding in TABLE {
        for keys in binding.keys {
            for word in keys.split(' ') {
                assert!(Chord::named(word).is_some(), "`{word}` of {:?}", binding.action);
            }
        }
    }
}

#[test]
fn no_layer_has_two_meanings_for_a_key() {
    let mut seen = HashSet::new();
    for binding in TABLE {
        for keys in binding.keys {
            assert!(seen.insert((binding.layer, *keys)), "{keys} twice in {:?}", binding.layer);
        }
    }
}

#[test]
fn no_key_hides_the_start_of_a_sequence() {
    for layers in chains() {
        let keys: Vec<&str> = layers
            .iter()
            .flat_map(|layer| TABLE.iter().filter(move |binding| binding.layer == *layer))
            .flat_map(|binding| binding.keys.iter().copied())
            .collect();
        for sequence in keys.iter().filter(|keys| keys.contains(' ')) {
            let start = sequence.split(' ').next().unwrap();
            assert!(!keys.contains(&start), "`{start}` hides `{sequence}`");
        }
    }
}

#[test]
fn keys_that_terminals_and_multiplexers_keep_are_free() {
    let kept = ["ctrl-b", "ctrl-a", "ctrl-s", "ctrl-q", "ctrl-j", "ctrl-h", "ctrl-m", "ctrl-i"];
    for binding in TABLE {
        // In forms, where it saves as everywhere else.
        let is_free = |key: &str| key == "ctrl-s" && binding.layer == Layer::Form;
        let is_kept = binding.keys.iter().any(|key| kept.contains(key) && !is_free(key));
        assert!(!is_kept, "{:?}", binding.action);
    }
}

#[test]
fn the_help_of_every_screen_lists_every_key_in_force() {
    let mut screen = Harness::ready(160, 60);
    for digit in ["1", "2", "3", "4", "5", "0"] {
        screen.press(digit);
        if screen.state.screen == Screen::Execute {
            screen.press("esc");
        }
        let bindings = in_force(screen.state.layers());
        screen.press("f1");
        let help = screen.shown();
        for binding in bindings {
            let title = binding.action.title();
            assert!(help.contains(title), "`{title}` is missing on {digit}:\n{help}");
        }
        screen.press("esc");
    }
}

#[test]
fn an_action_is_somewhere_in_a_layer_that_is_in_force() {
    let reachable: HashSet<Layer> = chains().into_iter().flatten().copied().collect();
    for binding in TABLE {
        assert!(reachable.contains(&binding.layer), "{:?}", binding.action);
    }
}

#[test]
fn sequences_and_earlier_layers_resolve() {
    use Action::{First, Refresh, Sort};
    let cluster = &[Layer::Cluster, Layer::List, Layer::Global, Layer::Always];
    check(cluster, "g", Resolved::Pending);
    check(cluster, "g g", Resolved::Action(First));
    check(cluster, "g x", Resolved::Nothing);
    check(cluster, "s", Resolved::Action(Sort));
    check(cluster, "r", Resolved::Action(Refresh));
    check(&[Layer::Form, Layer::Always], "r", Resolved::Nothing);
    check(&[Layer::Form, Layer::Always], "ctrl-c", Resolved::Action(Action::Interrupt));
}

#[test]
fn presses_are_read_as_people_write_them() {
    let chord = |code, modifiers| Chord::of(&KeyEvent::new(code, modifiers)).to_string();
    assert_eq!(chord(KeyCode::Char('R'), KeyModifiers::CONTROL), "^R");
    assert_eq!(chord(KeyCode::Char('g'), KeyModifiers::SHIFT), "G");
    assert_eq!(chord(KeyCode::Tab, KeyModifiers::SHIFT), "⇧⇥");
    assert_eq!(chord(KeyCode::Char('?'), KeyModifiers::SHIFT), "?");
}
