//! Screens in states that no other snapshot contains, and the theme tokens of cells.

use ratatui::style::Style;

use super::*;
use crate::event::{DataEvent, DatasetSearch, DatasetsPage, InferenceEvent};
use crate::harness::{self, entries};
use crate::keymap::Keymap;

fn refused(what: &str) -> Failure {
    Failure::new(what, "connection refused", "check that the service runs")
}

/// Delivers failures of all services to the Overview screen.
fn fail(screen: &mut Harness) {
    screen.take(Event::Nodes(screen.head(), Err(refused("list the nodes")), Duration::ZERO));
    let result = Err(refused("list the datasets"));
    screen.take(Event::Data(DataEvent::Datasets { search: DatasetSearch::ALL, result }));
    screen.take(Event::Inference(InferenceEvent::Topics(Err(refused("list the topics")))));
    screen.state.notices.clear();
}

/// Returns a screen that knows the addresses of services, none of which has responded yet.
fn asked(width: u16, height: u16) -> Harness {
    let mut screen = Harness::starting(width, height);
    let ready = harness::ready();
    let ready = crate::local::LocalReady { nodes: Vec::new(), services: Vec::new(), ..ready };
    screen.take(Event::Local(LocalEvent::Ready(ready)));
    screen.state.notices.clear();
    screen
}

#[test]
fn overview_is_drawn_before_any_response() {
    let (width, height) = STATE_SIZE;
    let mut screen = asked(width, height);
    screen.press("0");
    check_state("overview-loading", &screen);
    fail(&mut screen);
    check_state("overview-failed", &screen);
    let mut screen = asked(width, height);
    screen.press("0");
    screen.take(Event::Nodes(screen.head(), Ok(Vec::new()), Duration::from_millis(12)));
    let page = DatasetsPage { n_datasets: Some(0), datasets: Vec::new(), has_more: false };
    screen.take(Event::Data(DataEvent::Datasets { search: DatasetSearch::ALL, result: Ok(page) }));
    let topics =
        wire::inference::TopicList { block_height: 1, block_time_ms: 1_000, topics: Vec::new() };
    screen.take(Event::Inference(InferenceEvent::Topics(Ok(topics))));
    check_state("overview-empty", &screen);
    screen.pass(Duration::from_mins(3));
    fail(&mut screen);
    check_state("overview-stale", &screen);
}

#[test]
fn run_that_failed_on_all_peers_is_drawn() {
    let mut screen = Harness::ready(STATE_SIZE.0, STATE_SIZE.1);
    let id = screen.run();
    screen.pass(Duration::from_millis(900));
    let response = harness::failed_response();
    screen.take(Event::Executed(id, Ok(Box::new(response))));
    screen.state.notices.clear();
    check_state("execute-exit", &screen);
    screen.press("1 tab");
    check_state("cluster-exit", &screen);
}

#[test]
fn execute_screen_fits_a_middle_sized_terminal() {
    let mut screen = Harness::ready(110, 30);
    screen.run_split();
    screen.state.notices.clear();
    screen.press("e");
    check("execute-form", &screen);
}

/// A name with letters that are two columns wide, and a name with 64 letters.
const NAMES: [&str; 2] = [
    "東京の気温を一時間ごとに予測する関数その一",
    "a_function_whose_name_has_as_many_letters_as_one_of_them_may_have",
];

#[test]
fn list_of_functions_shows_ids_chosen_in_manifests() {
    let mut screen = Harness::ready(160, 45);
    let mut functions = screen.state.execute.form.functions.clone();
    functions[1].by_manifest = vec!["whatever-cid".to_owned()];
    screen.state.execute.form.know(functions);
    screen.press("e ctrl-u");
    screen.type_text("hel");
    screen.shows(&["by manifest: whatever"]);
}

/// Returns a screen with twelve nodes that have long names. Three of them returned different
/// results.
fn crowd(width: u16, height: u16) -> Harness {
    let mut screen = Harness::ready(width, height);
    let known = harness::nodes();
    let node = |idx: usize| {
        let mut node = known[1 + idx % 3].clone();
        let end: String = node.peer_id.chars().skip(15).collect();
        node.peer_id = format!("12D3KooWCrowd{idx:02}{end}");
        node.subgroups = vec![NAMES[idx % 2].to_owned()];
        node
    };
    let nodes: Vec<_> = known[..1].iter().cloned().chain((0..11).map(node)).collect();
    screen.take(Event::Nodes(screen.head(), Ok(nodes), Duration::from_millis(12)));
    let function = |name: &&str| wire::functions::FunctionBody {
        name: (*name).to_owned(),
        function_id: harness::FUNCTION_ID.to_owned(),
        method: format!("{name}.wasm"),
        bytes: 18_432,
        by_manifest: Vec::new(),
    };
    for name in &NAMES {
        screen.take(Event::FunctionAdded(screen.head(), Ok(function(name))));
        screen.press("e ctrl-r");
        screen.pass(Duration::from_millis(900));
        let id = screen.state.runs.newest().unwrap().id;
        let mut response = harness::split_response();
        let mut third = response.results[1].clone();
        third.result.stdout = format!("{{ \"{name}\": 1 }}\n");
        response.results.push(third);
        screen.take(Event::Executed(id, Ok(Box::new(response))));
    }
    screen.state.notices.clear();
    screen
}

#[test]
fn many_nodes_and_results_with_long_names_are_drawn() {
    let (width, height) = STATE_SIZE;
    let mut screen = crowd(width, height);
    check_state("execute-crowd", &screen);
    let steps = [
        ("e", "execute-form-crowd"),
        ("esc 1 G", "cluster-crowd"),
        ("tab", "cluster-runs-crowd"),
        ("tab", "cluster-groups-crowd"),
        ("0", "overview-crowd"),
    ];
    check_steps(&mut screen, &steps);
}

#[test]
fn topic_with_forty_inferers_is_drawn() {
    const LETTERS: [char; 8] = ['q', 'p', 'z', 'r', 'y', '9', 'x', '8'];
    let inferers = (0..40_u32).map(|idx| {
        let letters = [LETTERS[idx as usize / 8], LETTERS[idx as usize % 8]];
        let address = format!("allo1{}k8w2h7t{}", letters[0], letters[1]);
        (address, 67_500.0 + f64::from(idx * idx % 97))
    });
    let mut screen = Harness::quiet(STATE_SIZE);
    screen.press("4");
    let topic = model::topic::TopicId::new(1).unwrap();
    screen.state.inference.selected = Some(topic);
    let bundle = harness::bundle(1_440, "value", [67_502.8, 67_499.1], inferers);
    let latest = crate::event::LatestBundle { bundle, block_height: 1_440 };
    screen.take(Event::Inference(InferenceEvent::Latest {
        topic,
        is_resistant: false,
        result: Ok(latest),
    }));
    check_state("inference-crowd", &screen);
}

/// Returns a letter for each cell: the token of its color, or a bar if its color belongs to no
/// token.
fn tokens(screen: &Harness, name: theme::Name) -> String {
    let theme = Theme::new(name, theme::depth::Depth::TrueColor);
    let known: Vec<(char, Style)> = vec![
        (' ', theme.bg),
        ('t', theme.text),
        ('m', theme.muted),
        ('f', theme.focus),
        ('a', theme.accent2),
        ('u', theme.up),
        ('d', theme.down),
        ('w', theme.warn),
        ('k', theme.key),
        ('i', theme.info),
        ('.', theme.faint),
        ('-', theme.border),
    ];
    let buffer = screen.drawn(name);
    let width = usize::from(buffer.area.width);
    let token = |cell: &buffer::Cell| {
        let is_it = |style: &Style| style.fg.unwrap_or_default() == cell.fg;
        // The colors of a tag are inverted: its text has the color of the background.
        let is_tag = |style: &Style| style.fg == Some(cell.bg);
        let found = known.iter().find(|(_, style)| is_it(style) && cell.symbol() != " ");
        let tagged = known.iter().find(|(_, style)| is_tag(style));
        match (cell.symbol(), tagged, found) {
            (" ", None, _) => ' ',
            (_, Some((letter, _)), _) => letter.to_ascii_uppercase(),
            (_, None, Some((letter, _))) => *letter,
            (_, None, None) => '|',
        }
    };
    let rows = buffer.content().chunks(width);
    let rows = rows.map(|row| row.iter().map(token).collect::<String>().trim_end().to_owned());
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_cell_uses_a_theme_token() {
    let mut screen = Harness::quiet((80, 24));
    screen.run_split();
    screen.press("1");
    for name in theme::Name::ALL {
        let tokens = tokens(&screen, name);
        insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("tokens-{name}-80x24"), tokens);
        });
    }
}

#[test]
fn hints_in_the_footer_show_overridden_keys() {
    let wishes = [
        ("global", "9", "show-logs"),
        ("global", "alt-n", "notices"),
        ("cluster", "X", "stop-process"),
        ("cluster", "R", "none"),
        ("cluster", "alt-e", "open-form"),
        ("form", "ctrl-g", "run"),
        ("profiles", "K", "enter-key"),
        ("choice", "space", "open"),
        ("confirm", "Y", "confirm"),
    ];
    let mut screen = Harness::ready(160, 45);
    screen.state.keys = Keymap::with_overrides(&entries(&wishes)).unwrap();
    let shown = |screen: &mut Harness, keys: &str, wanted: &[&str]| {
        screen.press(keys);
        let shown = screen.text();
        for words in wanted {
            assert!(shown.contains(words), "`{words}` after {keys}:\n{shown}");
        }
    };
    let processes = "─ a add  X stop  9 logs ╯";
    shown(&mut screen, "1", &["9 Logs", processes, "alt-e then ^G "]);
    shown(&mut screen, "0", &["alt-n all of them"]);
    shown(&mut screen, "P", &["⏎ use  K enter its key  D remove its key"]);
    shown(&mut screen, "esc T", &["space takes it  esc goes back"]);
    screen.press("esc e ctrl-g esc q");
    screen.shows(&["Y quit   n stay"]);
}

#[test]
fn action_without_the_data_it_requires_shows_the_reason() {
    let mut screen = Harness::starting(160, 45);
    for (keys, wanted) in [
        ("0", "starting the local stack"),
        ("2 ctrl-r", "! cannot run yet"),
        ("esc", "the head is starting; its functions are listed then"),
        ("esc 1 tab tab tab D", "! no local process is selected"),
        ("4 y", "! nothing to copy here"),
    ] {
        screen.press(keys);
        assert!(screen.text().contains(wanted), "`{wanted}` after {keys}:\n{}", screen.text());
        screen.hides(&["is configured"]);
    }
}
