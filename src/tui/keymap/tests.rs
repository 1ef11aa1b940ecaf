use std::collections::HashSet;
use std::time::Duration;

use super::*;
use crate::harness::{Harness, entries};
use crate::screens::Screen;
use crate::state::form::{Form, Purpose, node};
use crate::state::overlay::Overlay;
use crate::user_file::Setting;

/// Returns, for each screen and each overlay, the layers that are active in it.
fn chains() -> Vec<Vec<Layer>> {
    let mut screen = Harness::ready(160, 45);
    let mut chains = Vec::new();
    for digit in ["1", "2", "3", "4", "5", "0"] {
        screen.press(digit);
        chains.push(screen.state.layers());
        if screen.state.screen == Screen::Execute {
            screen.press("enter");
            chains.push(screen.state.layers());
            screen.press("esc esc");
        }
        screen.press("/");
        chains.push(screen.state.layers());
        screen.press("esc");
    }
    for key in [":", "f1", "T", "!", "@", "P"] {
        screen.press(key);
        chains.push(screen.state.layers());
        screen.press("esc");
    }
    screen.press(":");
    screen.type_text("api key");
    screen.press("enter");
    chains.push(screen.state.layers());
    screen.press("esc");
    screen.draw();
    screen.pass(Duration::from_secs(2));
    screen.draw();
    screen.press("<");
    chains.push(screen.state.layers());
    screen.press("esc");
    for overlay in [
        Overlay::ConfirmQuit,
        Overlay::Form(Box::new(node::form(&[]))),
        Overlay::ConfirmStop("worker-1".to_owned()),
        Overlay::ConfirmNode(crate::state::nodes::NodeChange::default()),
        Overlay::Presets(0),
        Overlay::Jump(String::new()),
        Overlay::Form(Box::new(Form::new(Purpose::Preset, "", "", Vec::new()))),
        Overlay::Keys(0),
        Overlay::Form(Box::new(Form::report("", String::new(), None))),
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
        resolved = Keymap::default().resolve(layers, &pending, chord);
        pending.push(chord);
    }
    assert_eq!(resolved, want, "{keys}");
}

#[test]
fn no_single_key_is_also_the_start_of_a_sequence() {
    for layers in chains() {
        let rows = default_rows().filter(|(layer, _)| layers.contains(layer));
        let keys: Vec<&str> = rows.flat_map(|(_, row)| row.1.iter().copied()).collect();
        for sequence in keys.iter().filter(|keys| keys.contains(' ')) {
            let start = sequence.split(' ').next().unwrap();
            assert!(!keys.contains(&start), "`{start}` hides `{sequence}`");
        }
    }
}

#[test]
fn every_action_has_keys_that_can_be_pressed_and_have_no_other_action_in_its_layer() {
    // Keys intercepted by terminals and multiplexers.
    let kept = ["ctrl-b", "ctrl-a", "ctrl-s", "ctrl-q", "ctrl-j", "ctrl-h", "ctrl-m", "ctrl-i"];
    let mut seen = HashSet::new();
    for (layer, (_, sequences, action, _)) in default_rows() {
        assert!(sequences.iter().any(|keys| !keys.contains("alt-")), "{action:?}");
        for keys in sequences {
            assert!(seen.insert((layer, *keys)), "{keys} twice in {layer:?}");
            assert!(keys.split(' ').all(|key| Chord::named(key).is_some()), "{keys} of {action:?}");
            // `^S` is allowed in forms, where it saves as in other programs.
            let is_free = *keys == "ctrl-s" && layer == Layer::Form;
            assert!(is_free || !kept.contains(keys), "{action:?}");
        }
    }
}

#[test]
fn help_of_every_screen_lists_every_key_that_has_an_effect() {
    let mut screen = Harness::ready(160, 60);
    for digit in ["1", "2", "3", "4", "5", "0"] {
        screen.press(digit);
        if screen.state.screen == Screen::Execute {
            screen.press("esc");
        }
        let keys = screen.state.keys.clone();
        let bindings = keys.in_force(&screen.state.layers());
        screen.press("f1");
        let help = screen.text();
        for binding in bindings {
            let title = binding.action.title();
            assert!(help.contains(title), "`{title}` is missing on {digit}:\n{help}");
        }
        screen.press("esc");
    }
}

#[test]
fn every_action_belongs_to_a_layer_that_some_screen_uses() {
    let reachable: HashSet<Layer> = chains().into_iter().flatten().collect();
    for (layer, (_, _, action, _)) in default_rows() {
        assert!(reachable.contains(&layer), "{action:?}");
    }
}

#[test]
fn configured_keys_override_the_default_table() {
    let lines = [
        ("global", "alt-t", "themes"),
        ("global", "Z", "zoom"),
        ("cluster", "a", "none"),
        ("data", "g c", "next-chart"),
        ("logs", "alt-z", "zoom"),
    ];
    let mut screen = Harness::ready(160, 60);
    screen.state.keys = Keymap::with_overrides(&entries(&lines)).unwrap();
    screen.press("a");
    assert_eq!(screen.state.overlays.len(), 0, "freed");
    screen.press("Z");
    assert!(screen.state.is_zoomed && screen.text().contains("Z unzoom"));
    screen.press("Z f1");
    screen.shows(&["Z  z  zoom pane"]);
    screen.hides(&["add a node"]);
    screen.press("esc 3 g");
    assert!(screen.text().contains("candles / line"), "what may follow is shown");
    screen.press("c 5 alt-z alt-t");
    assert!(screen.state.is_zoomed && matches!(screen.state.overlays[0], Overlay::Themes(_)));
}

#[test]
fn each_invalid_key_entry_is_reported() {
    let faults = |lines: &[(&str, &str, &str)]| -> Vec<(usize, String)> {
        let faults = Keymap::with_overrides(&entries(lines)).unwrap_err();
        faults.into_iter().map(|fault| (fault.line, fault.why)).collect()
    };
    let told = faults(&[
        ("globl", "x", "zoom"),
        ("global", "hyper-x", "zoom"),
        ("global", "x", "zoooom"),
        ("form", "x", "run"),
        ("global", "ctrl-b", "zoom"),
        ("global", "ctrl-c", "zoom"),
        ("global", "w", "zoom"),
        ("global", "w", "none"),
    ]);
    let parts = [
        "expected one of always, global",
        "`hyper-x` is not a key",
        "no action `zoooom`, expected one of show-cluster",
        "`x` is typed as text in [form]",
        "intercepted by terminals",
        "always cancels",
        "is bound twice in [global]",
    ];
    assert_eq!(told.len(), parts.len(), "{told:?}");
    for ((wish, why), part) in told.iter().zip(parts) {
        assert!(why.contains(part), "{wish}: {why}");
    }
    let hiding = faults(&[("cluster", "g", "zoom")]);
    assert!(
        hiding[0].1.contains("`g` and `g g` of [list], first, begin with the same keys"),
        "{hiding:?}"
    );
    assert!(
        Keymap::with_overrides(&entries(&[("list", "g g", "none"), ("cluster", "g", "zoom")]))
            .is_ok()
    );
}

#[test]
fn every_key_of_the_table_can_be_read_from_a_file() {
    let mut lines: Vec<Setting> = Vec::new();
    let mut layer = String::new();
    for (number, line) in defaults_text().lines().enumerate() {
        if let Some(name) = line.strip_prefix('[') {
            layer = name.trim_end_matches(']').to_owned();
        } else if let Some((keys, rest)) = line.split_once(" = ") {
            let (keys, action) = (keys.trim_matches('"').to_owned(), rest.split('"').nth(1));
            lines.push(Setting {
                table: layer.clone(),
                name: keys,
                value: action.unwrap().to_owned(),
                line: number,
            });
        }
    }
    // Removes entries that the key file cannot contain: `^C` cannot be bound, and a layer with text
    // input takes `?` as text.
    lines.retain(|wish| wish.name != "ctrl-c" && wish.name != "?");
    let keymap = Keymap::with_overrides(&lines).unwrap();
    for bound in Keymap::default().bindings() {
        for keys in &bound.sequences {
            let (last, before) = keys.split_last().unwrap();
            let resolved = keymap.resolve(&[bound.layer], before, *last);
            assert_eq!(resolved, Resolved::Action(bound.action), "{}", keymap.keys_text(bound));
        }
    }
}

#[test]
fn typing_a_jump_label_clicks_its_target() {
    let mut screen = Harness::after(";");
    let labels = screen.hits().labels();
    let row = crate::event::Target::Row { pane: 0, row: 2 };
    let (label, ..) = labels.iter().find(|(_, _, target)| *target == row).unwrap();
    let keys: Vec<String> = label.chars().map(String::from).collect();
    screen.press(&keys.join(" "));
    assert_eq!(screen.state.overlays.len(), 0);
    assert_eq!(screen.state.cluster.node.as_deref(), Some(crate::harness::PEERS[2]));
    screen.press("; esc ; ~");
    assert_eq!(screen.state.overlays.len(), 1, "no label begins so, nor is it a key");
    screen.press("~");
    assert_eq!(screen.state.overlays.len(), 0);
}

#[test]
fn key_sequences_are_completed_and_earlier_layers_take_precedence() {
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
fn key_chords_are_parsed_from_their_common_names() {
    let chord = |code, modifiers| Chord::from_event(&KeyEvent::new(code, modifiers)).to_string();
    assert_eq!(chord(KeyCode::Char('R'), KeyModifiers::CONTROL), "^R");
    assert_eq!(chord(KeyCode::Char('g'), KeyModifiers::SHIFT), "G");
    assert_eq!(chord(KeyCode::Tab, KeyModifiers::SHIFT), "⇧⇥");
    assert_eq!(chord(KeyCode::Char('?'), KeyModifiers::SHIFT), "?");
}
