use super::*;
use crate::harness::{FUNCTION_ID, Harness};

/// What is said about `text` in `field`.
fn said(field: FormField, text: &str) -> Check {
    let mut screen = Harness::ready(160, 45);
    screen.state.execute.form.set(field, text);
    screen.state.execute.form.check(field, screen.state.known())
}

#[track_caller]
fn check(field: FormField, text: &str, is_right: impl Fn(&Check) -> bool) {
    let said = said(field, text);
    assert!(is_right(&said), "{text:?}: {said:?}");
}

#[test]
fn each_field_is_checked() {
    use FormField::{Arguments, Environment, FunctionId, Method, Nodes, Subgroup};
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
    check(Arguments, "a 'b c'", fit);
    check(Arguments, "'open", unfit);
    check(Environment, "A=1 B='x y'", fit);
    check(Environment, "A", unfit);
}

#[test]
fn a_request_comes_back_as_the_form_that_made_it() {
    let mut screen = Harness::ready(160, 45);
    let form = &mut screen.state.execute.form;
    form.set(FormField::Arguments, "one 'two three'");
    form.set(FormField::Environment, "A=1 B='x y'");
    form.set(FormField::Stdin, "a\\nb");
    form.set(FormField::Subgroup, "gpu");
    let request = form.preview();
    assert_eq!(request.arguments(), ["one", "two three"]);
    assert_eq!(request.config.environment()["B"], "x y");
    assert_eq!(request.config.stdin.as_deref(), Some("a\nb"));
    let mut other = Form::default();
    other.fill(&request);
    assert_eq!(other.preview(), request);
}
