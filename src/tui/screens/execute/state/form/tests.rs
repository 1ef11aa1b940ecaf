use std::time::Duration;

use super::*;
use crate::event::{Effect, Event};
use crate::harness::{FUNCTION_ID, Harness};

/// Returns the result of checking `text` as the value of `field`.
fn checked(field: FormField, text: &str) -> Check {
    let mut screen = Harness::ready(160, 45);
    screen.state.execute.form.set(field, text);
    screen.state.execute.form.check(field, screen.state.cluster_context())
}

#[track_caller]
fn check(field: FormField, text: &str, is_right: impl Fn(&Check) -> bool) {
    let checked = checked(field, text);
    assert!(is_right(&checked), "{text:?}: {checked:?}");
}

#[test]
fn each_field_of_the_execute_form_is_checked() {
    use FormField::{Arguments, Environment, FunctionId, Method, Nodes, Selector, Subgroup};
    let fit = |check: &Check| matches!(check, Check::Fit(_));
    let doubtful = |check: &Check| matches!(check, Check::Doubtful(_));
    let unfit = |check: &Check| matches!(check, Check::Unfit(_));
    check(FunctionId, FUNCTION_ID, fit);
    check(FunctionId, "QmPZ9gcCEpqKTo6aq61g2nXGUhM4iCL3ewB6LDXZCtioEB", fit);
    check(FunctionId, "", unfit);
    check(FunctionId, "bafy", unfit);
    check(Method, "mean.wasm", fit);
    check(Method, "mean", doubtful);
    check(Method, "../mean.wasm", unfit);
    check(Nodes, "3", fit);
    check(Nodes, "-1", fit);
    check(Nodes, "4", doubtful);
    check(Nodes, "0", unfit);
    check(Nodes, "many", unfit);
    check(Subgroup, "gpu", fit);
    check(Subgroup, "", fit);
    check(Subgroup, "tpu", doubtful);
    check(Subgroup, "two words", unfit);
    check(Selector, "", fit);
    check(Selector, "zone=a,!old", doubtful);
    check(Selector, "zone in a", unfit);
    check(Arguments, "a 'b c'", fit);
    check(Arguments, "'open", unfit);
    check(Environment, "A=1 B='x y'", fit);
    check(Environment, "A", unfit);
    check(FormField::Timeout, "", fit);
    check(FormField::Timeout, "10", fit);
    check(FormField::RunLimit, "0", unfit);
    check(FormField::RunLimit, "an hour", unfit);
}

#[test]
fn each_error_of_the_execute_form_is_on_the_screen() {
    use FormField::{
        Arguments, Environment, Function, FunctionId, Method, Nodes, RunLimit, Selector, Subgroup,
    };
    for (field, text, want) in [
        (Function, "nameless", "no function has this name; enter an id"),
        (FunctionId, "", "a content id (CID) is required"),
        (FunctionId, "bafy", "not a content id (CID) such as bafkrei…"),
        (Method, "", "expected a file name such as hello.wasm"),
        (Nodes, "many", "an integer of at least 1, or -1 for all"),
        (Subgroup, "two words", "1 to 128 bytes without spaces"),
        (Selector, "zone in a", "`zone in a` is not a selector such as"),
        (Arguments, "'open", "quotation mark is not closed"),
        (Environment, "A", "`A` is not NAME=value"),
        (RunLimit, "an hour", "seconds, 1 to"),
    ] {
        let mut screen = Harness::after("e");
        screen.state.execute.form.set(field, text);
        screen.take_effects();
        screen.press("ctrl-r");
        let shown = screen.text();
        assert!(shown.contains(want), "{text:?}: `{want}` is not in\n{shown}");
        assert_eq!(screen.take_effects(), [], "{text:?} is not sent");
    }
}

#[test]
fn function_can_be_chosen_by_name_or_by_id_or_by_file() {
    let fit = |check: &Check| matches!(check, Check::Fit(_));
    let unfit = |check: &Check| matches!(check, Check::Unfit(_));
    check(FormField::Function, "", fit);
    check(FormField::Function, "hello", fit);
    check(FormField::Function, "./my.wasm", fit);
    check(FormField::Function, FUNCTION_ID, fit);
    let mut screen = Harness::after("e ctrl-u");
    screen.type_text("div");
    let form = &screen.state.execute.form;
    assert_eq!(form.text(FormField::Method), "hello.wasm", "no function is chosen yet");
    screen.press("down");
    let form = &screen.state.execute.form;
    let want = ("divide", "divide.wasm");
    assert_eq!((form.text(FormField::Function), form.text(FormField::Method)), want);
    screen.press("ctrl-u");
    screen.type_text("bin/my.wasm");
    assert_eq!(screen.state.execute.form.file(), Some("bin/my.wasm"));
    screen.press("ctrl-u");
    screen.type_text("mean");
    let form = &screen.state.execute.form;
    assert_eq!((form.file(), form.text(FormField::Method)), (None, "mean.wasm"));
    check(FormField::FunctionId, "nonsense", unfit);
}

#[test]
fn standard_input_can_be_typed_or_a_file_or_rows_of_a_dataset() {
    let mut screen = Harness::ready(160, 45);
    let form = &mut screen.state.execute.form;
    form.set_datasets(["btc", "eth"].map(str::to_owned).into_iter());
    screen.press("e tab tab tab tab tab tab tab tab down");
    assert_eq!(screen.state.execute.form.source, Source::File);
    let known = screen.state.cluster_context();
    assert!(!screen.state.execute.form.check(FormField::Stdin, known).is_fit());
    screen.press("down");
    assert_eq!(screen.state.execute.form.text(FormField::Stdin), "btc 24h");
    screen.press("tab down");
    let form = &screen.state.execute.form;
    assert_eq!(form.text(FormField::Stdin), "eth 24h");
    assert!(matches!(form.input(), Input::Rows { dataset, .. } if dataset == "eth"));
    assert_eq!(form.preview().config.stdin, None);
}

#[test]
fn execute_form_is_filled_in_from_an_earlier_request() {
    let mut screen = Harness::ready(160, 45);
    let form = &mut screen.state.execute.form;
    form.set(FormField::Arguments, "one 'two three'");
    form.set(FormField::Environment, "A=1 B='x y'");
    form.set(FormField::Stdin, "a\\nb");
    form.set(FormField::Subgroup, "gpu");
    form.set(FormField::Selector, "zone=a");
    let request = form.preview();
    assert_eq!(request.arguments(), ["one", "two three"]);
    assert_eq!(request.config.environment()["B"], "x y");
    assert_eq!(request.config.stdin.as_deref(), Some("a\nb"));
    let mut other = Form::default();
    other.fill(&request, &Input::Typed);
    assert_eq!(other.preview(), request);
}

#[test]
fn functions_with_the_same_content_are_one_entry_with_all_their_names() {
    let mut screen = Harness::ready(160, 45);
    let form = &mut screen.state.execute.form;
    let hello = form.functions.iter().find(|it| it.name == "hello").unwrap().clone();
    let copy = FunctionBody { name: "copy".to_owned(), ..hello.clone() };
    form.know(vec![hello.clone(), copy.clone()]);
    assert_eq!(form.functions, std::slice::from_ref(&hello));
    assert_eq!(form.names_of(&hello).collect::<Vec<_>>(), ["hello", "copy"]);
    // The head already has the content, so the upload returns the existing function.
    form.added(&copy);
    assert_eq!(form.functions.len(), 1);
    screen.press("e ctrl-u c o p y");
    let form = &screen.state.execute.form;
    assert_eq!(form.chosen_function(), Some(&hello), "any of its names selects it");
    screen.shows(&["hello · copy"]);
}

#[test]
fn dataset_name_is_completed_from_a_part_of_it() {
    let mut screen = Harness::ready(160, 45);
    let form = &mut screen.state.execute.form;
    form.set_datasets(["btc_usd", "eth_usd", "cpu"].map(str::to_owned).into_iter());
    screen.press("e tab tab tab tab tab tab tab tab down down tab ctrl-u");
    screen.type_text("usd");
    let shown = screen.text();
    let listed = |name: &str| shown.lines().any(|line| line.contains(&format!("  {name} ")));
    assert!(listed("btc_usd") && listed("eth_usd") && !listed("cpu"), "{shown}");
    screen.press("down down");
    assert_eq!(screen.state.execute.form.text(FormField::Stdin), "eth_usd 24h");
    screen.press("ctrl-u c p tab");
    assert_eq!(screen.state.execute.form.text(FormField::Stdin), "cpu 24h");
}

#[test]
fn tab_key_moves_to_the_next_field_while_a_file_is_uploaded() {
    let mut screen = Harness::after("e ctrl-u");
    screen.type_text("./a.wasm");
    let want = [Effect::AddFunction { head: screen.head(), path: "./a.wasm".to_owned() }];
    assert_eq!(screen.effects_of("tab"), want);
    assert_eq!(screen.state.execute.form.focus, FormField::FunctionId);
    screen.press("tab");
    let want = (vec![], FormField::Method);
    assert_eq!((screen.take_effects(), screen.state.execute.form.focus), want);
    assert_eq!(screen.effects_of("shift-tab shift-tab tab"), [], "the upload is in progress");
}

#[test]
fn node_selector_is_checked_sent_and_filled_in_again() {
    let mut screen = Harness::ready(160, 45);
    screen.take(Event::Nodes(screen.head(), Ok(crate::harness::many_nodes()), Duration::ZERO));
    screen.press("e tab tab tab tab tab");
    screen.type_text("zone=a,gpu=");
    screen.press("(");
    screen.take_effects();
    screen.press("ctrl-r");
    screen.shows(&["`zone=a,gpu=(` is not a selector"]);
    assert_eq!(screen.take_effects(), [], "the request is not sent");
    screen.press("ctrl-u");
    screen.type_text("zone=a,gpu=a100");
    screen.shows(&["15 of 294 known workers"]);
    let asked = screen.effects_of("ctrl-r");
    let Some(Effect::Execute(_, order)) = asked.last() else { panic!("{asked:?}") };
    assert_eq!(order.request.config.selector.as_deref(), Some("zone=a,gpu=a100"));
    screen.shows(&["zone=a,gpu=a100"]);
    let mut other = Form::default();
    other.fill(&order.request, &Input::Typed);
    assert_eq!(other.preview(), order.request);
}
