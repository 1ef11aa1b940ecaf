use std::collections::BTreeMap;
use std::time::Duration;

use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::topic::TopicId;
use ratatui::layout::Rect;
use wire::accounts::{Credentials, KeyBody, KeyLimits, KeyWithSecret, Secret};
use wire::datasets::{CreateColumn, CreateDataset, UpdateDataset};
use wire::inference::network::{LossParameters, TopicSettings};

use super::*;
use crate::event::{DataEvent, DatasetSearch, Event, InferenceEvent, StreamEvent};
use crate::harness::{self, Harness};
use crate::screens::update::connect;
use crate::state::change::{Account, DatasetEdit, Session};

fn id(number: i64) -> DatasetId {
    DatasetId::new(number).unwrap()
}

/// Returns the Data screen with a dataset of two columns that is selected.
fn data_screen(size: (u16, u16)) -> Harness {
    let mut screen = Harness::quiet(size);
    screen.press("3");
    let metadata = [("keep_days", "30"), ("ticker", "btcusd")];
    let dataset = Dataset {
        description: "hourly".to_owned(),
        metadata: metadata.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..harness::dataset(1, "prices", screen.state.now)
    };
    let result = Ok(harness::datasets(vec![dataset]));
    screen.take(Event::Data(DataEvent::Datasets { search: DatasetSearch::ALL, result }));
    screen.take(Event::Data(DataEvent::Columns { dataset: id(1), result: Ok(columns()) }));
    let tags = Ok(vec!["public".to_owned(), "team".to_owned()]);
    screen.take(Event::Data(DataEvent::Tags { dataset: id(1), result: tags }));
    screen.take_effects();
    screen
}

fn columns() -> Vec<Column> {
    harness::columns(id(1), &[("open", Dtype::Float), ("close", Dtype::Float)])
}

/// Presses `key`, which opens a form, and reports that the action is possible.
#[track_caller]
fn open_form(screen: &mut Harness, key: &str, settings: Option<Box<TopicSettings>>) {
    let effects = screen.effects_of(key);
    let [Effect::Prepare(preparation)] = effects.as_slice() else { panic!("{effects:?}") };
    let tags = vec!["public".to_owned(), "team".to_owned()];
    let prepared = Prepared { settings, tags, columns: columns() };
    screen.take(Event::Prepared(*preparation, Ok(prepared)));
    assert!(matches!(screen.state.overlays.last(), Some(Overlay::Form(_))), "{}", screen.text());
}

/// Returns the Data screen with the form that `key` opens.
#[track_caller]
fn data_form(size: (u16, u16), key: &str) -> Harness {
    let mut screen = data_screen(size);
    open_form(&mut screen, key, None);
    screen
}

/// Types each text into a field of the form, in order. The first field has focus.
fn fill(screen: &mut Harness, texts: &[&str]) {
    for text in texts {
        screen.press("ctrl-u");
        screen.take(Event::Paste((*text).to_owned()));
        screen.press("tab");
    }
}

/// Submits the form and returns the change that it requests.
#[track_caller]
fn submitted(screen: &mut Harness) -> Change {
    let effects = screen.effects_of("enter");
    let [Effect::Change(change)] = effects.as_slice() else { panic!("{effects:?}") };
    change.clone()
}

#[test]
fn refused_dataset_stays_in_the_form_until_it_is_created() {
    let mut screen = data_form((80, 24), "a");
    assert!(screen.effects_of("enter").is_empty());
    screen.shows(&["the name is missing"]);
    fill(&mut screen, &["cpu", "a load", "load, cores:integer", "public", "90", "2GB"]);
    insta::assert_snapshot!("create_dataset_80x24", screen.text());
    let change = submitted(&mut screen);
    let column = |name: &str, dtype| CreateColumn::new(name, dtype);
    let limits = [("keep_days", "90"), ("keep_bytes", "2000000000")];
    assert_eq!(
        change,
        Change::CreateDataset(CreateDataset {
            name: "cpu".to_owned(),
            description: "a load".to_owned(),
            metadata: limits.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            columns: vec![column("load", Dtype::Float), column("cores", Dtype::Integer)],
            tags: vec!["public".to_owned()],
        })
    );
    screen.shows(&["waiting for the service"]);
    assert!(screen.effects_of("enter").is_empty(), "it is sent once");
    let failure = Failure::new("create dataset cpu", "409 the key owns cpu", "correct the request");
    screen.take(Event::Changed(change, Err(failure)));
    screen.shows(&["✗ failed to create dataset cpu: 409 the key owns cpu", "load, cores:integer"]);
    screen.press("2");
    screen.hides(&["409"]);
    let change = submitted(&mut screen);
    screen.effects.clear();
    screen.take(Event::Changed(change, Ok(Changed::Dataset(id(7)))));
    assert_eq!(screen.state.overlays.len(), 0);
    assert!(screen.take_effects().contains(&Effect::LoadDatasets(DatasetSearch::ALL)));
    assert_eq!(screen.state.data.wanted, Some(id(7)));
}

#[test]
fn invalid_field_gets_the_focus_and_its_problem_is_shown() {
    let mut screen = data_form((60, 20), "a");
    fill(&mut screen, &["cpu", "", "load:number"]);
    assert!(screen.effects_of("enter").is_empty());
    insta::assert_snapshot!("create_dataset_60x20", screen.text());
    let Some(Overlay::Form(form)) = screen.state.overlays.last() else { panic!("a form") };
    assert_eq!(form.focus, 2);
}

#[test]
fn edit_of_a_dataset_requests_only_what_differs() {
    let mut screen = data_form((100, 40), "E");
    let texts =
        ["prices", "daily", "public, new", "open, volume:integer", "open = close", "closed"];
    fill(&mut screen, &texts);
    fill(&mut screen, &["", ""]);
    assert!(screen.effects_of("enter").is_empty());
    screen.shows(&["a column close exists", "no closed exists"]);
    screen.press("tab backspace");
    assert!(screen.effects_of("enter").is_empty());
    screen.hides(&["exists"]);
    screen.shows(&["deletes columns close with their values, for good"]);
    screen.press("esc");
    let Some(Overlay::Form(form)) = screen.state.overlays.last() else { panic!("a form") };
    assert!(!form.is_sent(), "it was not confirmed");
    screen.press("enter");
    let text = |text: &str| text.to_owned();
    let change = submitted(&mut screen);
    assert_eq!(
        change,
        Change::EditDataset(Box::new(DatasetEdit {
            dataset: id(1),
            name: text("prices"),
            update: UpdateDataset {
                name: None,
                description: Some(text("daily")),
                metadata: BTreeMap::from([(text("keep_days"), None)]),
            },
            added_columns: vec![(text("open"), Dtype::Float), (text("volume"), Dtype::Integer)],
            renamed_columns: vec![(text("open"), text("close"))],
            deleted_columns: columns().split_off(1),
            added_tags: vec![text("new")],
            removed_tags: vec![text("team")],
        }))
    );
    screen.take(Event::Changed(change, Ok(Changed::Dataset(id(1)))));
    assert_eq!(screen.state.overlays.len(), 0, "both forms are closed");
}

#[test]
fn dataset_is_deleted_only_after_its_name_was_typed() {
    let mut screen = data_form((80, 24), "D");
    fill(&mut screen, &["price"]);
    assert!(screen.effects_of("enter").is_empty());
    screen.shows(&["dataset 1, prices, with all its rows, for good", "not prices"]);
    fill(&mut screen, &["prices"]);
    insta::assert_snapshot!("delete_dataset_80x24", screen.text());
    let change = submitted(&mut screen);
    assert_eq!(change, Change::DeleteDataset { dataset: id(1), name: "prices".to_owned() });
    screen.effects.clear();
    screen.take(Event::Data(DataEvent::Stream { dataset: id(1), news: StreamEvent::Connected }));
    let why = Failure::new("follow the dataset", "the service closed the connection", "");
    let news = StreamEvent::Lost { why, retry_in: Duration::from_secs(1) };
    screen.take(Event::Data(DataEvent::Stream { dataset: id(1), news }));
    screen.take(Event::Changed(change, Ok(Changed::Done)));
    screen.shows(&["deleted dataset prices"]);
    screen.hides(&["failed to follow"]);
    assert!(screen.take_effects().contains(&Effect::LoadDatasets(DatasetSearch::ALL)));
}

#[test]
fn submitted_form_remains_open_if_its_dataset_is_left() {
    let mut screen = data_screen((80, 24));
    let effects = screen.effects_of("D");
    let [Effect::Prepare(preparation)] = effects.as_slice() else { panic!("{effects:?}") };
    fill(&mut screen, &["prices"]);
    let change = submitted(&mut screen);
    screen.state.data.selected = Some(id(2));
    screen.take(Event::Prepared(*preparation, Ok(Prepared::default())));
    assert_eq!(screen.state.overlays.len(), 1, "the response is shown in the form");
    screen.take(Event::Changed(change, Err(Failure::new("delete", "no space", ""))));
    screen.shows(&["✗ failed to delete: no space"]);
}

#[test]
fn text_typed_before_the_service_responds_runs_no_command() {
    for (key, typed) in [("a", "Dep"), ("D", "Dep"), ("I", "Dep"), ("E", "")] {
        let mut screen = data_screen((80, 24));
        let effects = screen.effects_of(key);
        let [Effect::Prepare(preparation)] = effects.as_slice() else { panic!("{effects:?}") };
        screen.type_text("Dep");
        assert_eq!(screen.take_effects(), []);
        if key == "E" {
            insta::assert_snapshot!("waiting_80x24", screen.text());
        }
        screen.take(Event::Prepared(*preparation, Ok(Prepared::default())));
        let [Overlay::Form(form)] = screen.state.overlays.as_mut_slice() else { panic!("a form") };
        assert!(form.fields.iter().any(|field| field.text.value().starts_with(typed)), "{key}");
        screen.press("esc");
        screen.take(Event::Prepared(*preparation, Ok(Prepared::default())));
        assert_eq!(screen.state.overlays.len(), 0, "the form was closed");
    }
}

#[test]
fn refused_action_is_reported_in_its_form() {
    for key in ["a", "E", "D", "I"] {
        let mut screen = data_screen((80, 24));
        let effects = screen.effects_of(key);
        let [Effect::Prepare(preparation)] = effects.as_slice() else { panic!("{effects:?}") };
        let why = Failure::new("edit", "the API key does not own the dataset", "");
        screen.take(Event::Prepared(*preparation, Err(why)));
        screen.shows(&["✗ failed to edit: the API key does not own the dataset"]);
        if key == "E" {
            assert_eq!(screen.effects_of("enter"), [Effect::Prepare(*preparation)]);
            screen.state.data.selected = Some(id(2));
            screen.take(Event::Prepared(*preparation, Ok(Prepared::default())));
            assert_eq!(screen.state.overlays.len(), 0, "another dataset was selected");
        }
    }
    let mut screen = data_screen((80, 24));
    screen.state.services.addresses.api_key = None;
    for key in ["a", "E", "D", "I"] {
        assert_eq!(screen.effects_of(key), []);
    }
    screen.shows(&["datasets import: no API key is in use"]);
    assert_eq!(screen.state.overlays.len(), 0);
}

#[test]
fn import_shows_its_progress_and_its_report_or_is_cancelled() {
    let mut screen = data_form((80, 24), "I");
    screen.shows(&["prices"]);
    screen.take(Event::Paste("data/prices.csv".to_owned()));
    let change = submitted(&mut screen);
    let Change::Import { dataset, .. } = &change else { panic!("an import") };
    assert_eq!(dataset.as_deref(), Some("1"), "the suggested dataset is named by its id");
    screen.take(Event::Importing("12.5 k rows · 1.0 MB of 4.0 MB · 25 %".to_owned()));
    insta::assert_snapshot!("importing_80x24", screen.text());
    assert_eq!(screen.effects_of("esc"), [Effect::DropChange(change.clone())]);
    screen.shows(&["it was cancelled", "data/prices.csv"]);
    assert_eq!(submitted(&mut screen), change);
    let report = "prices.csv: 3 rows read, 3 stored\n  time column at: 2026 to 2027".to_owned();
    screen.take(Event::Changed(change, Ok(Changed::Imported(Some(id(1)), report))));
    screen.shows(&["3 rows read, 3 stored", "time column at: 2026 to 2027"]);
    screen.press("enter");
    assert_eq!(screen.state.overlays.len(), 0);
}

#[test]
fn fields_and_buttons_of_a_form_can_be_clicked() {
    let mut screen = data_form((80, 24), "a");
    let row = Target::Row { pane: 0, row: 3 };
    let hits = screen.hits();
    let place = |target: Target| hits.labels().into_iter().find(|(.., it)| *it == target);
    let (_, Rect { x, y, .. }, _) = place(row).expect("a field");
    assert_eq!(hits.target_at(x, y), Some(row));
    screen.take(Event::Click(row));
    let Some(Overlay::Form(form)) = screen.state.overlays.last() else { panic!("a form") };
    assert_eq!(form.focus, 3);
    let (_, _, submit) = place(Target::Action(Action::Open)).expect("a button");
    screen.take(Event::Click(submit));
    screen.shows(&["the name is missing"]);
    let (_, _, cancel) = place(Target::Action(Action::Back)).expect("a button");
    screen.take(Event::Click(cancel));
    assert_eq!(screen.state.overlays.len(), 0);
}

/// Returns the Inference screen with a topic that is selected.
fn inference_screen(size: (u16, u16)) -> Harness {
    let mut screen = Harness::quiet(size);
    screen.press("4");
    screen.take(Event::Inference(InferenceEvent::Topics(Ok(harness::topics(None)))));
    screen.take_effects();
    screen
}

#[test]
fn topic_of_a_direction_is_created_with_its_labels() {
    let mut screen = inference_screen((80, 24));
    open_form(&mut screen, "a", None);
    fill(&mut screen, &["BTC up or down", "btcusd", "close", "1500ms", "20"]);
    assert!(screen.effects_of("enter").is_empty());
    screen.shows(&["expected whole seconds: 12s, 5m, 1d …"]);
    fill(&mut screen, &["5m", "20"]);
    screen.press("up");
    assert!(screen.effects_of("enter").is_empty());
    screen.shows(&["a direction needs this change"]);
    fill(&mut screen, &["0.001"]);
    screen.press("down");
    insta::assert_snapshot!("create_topic_80x24", screen.text());
    let Change::CreateTopic(settings) = submitted(&mut screen) else { panic!("a topic") };
    let labels = ["up", "down", "flat"].map(str::to_owned).to_vec();
    assert_eq!(settings.label_whitelist, labels);
    assert_eq!((settings.horizon_seconds, settings.epoch_length), (300, Some(20)));
    assert_eq!(settings.direction_threshold.unwrap().0, "0.001");
    assert_eq!(settings.target, None);
    assert_eq!(settings.loss_method.as_deref(), Some("mae"));
    assert_eq!(settings.predictor, None);
}

#[test]
fn edit_of_a_topic_keeps_all_other_settings_and_can_pause_it() {
    let mut screen = inference_screen((60, 20));
    let settings = TopicSettings {
        metadata: "load".to_owned(),
        dataset: "cpu".to_owned(),
        dataset_id: Some(1),
        column: "load".to_owned(),
        horizon_seconds: 60,
        epoch_length: Some(12),
        loss_method: Some("huber".to_owned()),
        algorithm: Some("mad-v0.17".to_owned()),
        min_experienced: Some(2),
        ..TopicSettings::default()
    };
    open_form(&mut screen, "E", Some(Box::new(settings.clone())));
    screen.press("shift-tab down");
    insta::assert_snapshot!("edit_topic_60x20", screen.text());
    let topic = TopicId::new(1).unwrap();
    let paused = Change::EditTopic { topic, settings: None, active: Some(false) };
    assert_eq!(submitted(&mut screen), paused);
    screen.take(Event::Changed(paused, Err(Failure::new("change topic 1", "no", ""))));
    screen.press("tab");
    fill(&mut screen, &["the load"]);
    let changed = TopicSettings { metadata: "the load".to_owned(), ..settings.clone() };
    let settings = Some(Box::new([settings, changed]));
    let want = Change::EditTopic { topic, settings, active: Some(false) };
    assert_eq!(submitted(&mut screen), want);
}

#[test]
fn topic_is_deleted_after_its_number_was_typed() {
    let mut screen = inference_screen((80, 24));
    open_form(&mut screen, "D", None);
    fill(&mut screen, &["1"]);
    let topic = TopicId::new(1).unwrap();
    assert_eq!(submitted(&mut screen), Change::DeleteTopic { topic, name: "load".to_owned() });
}

fn key(id: i64, name: &str, state: &str) -> KeyBody {
    KeyBody {
        id,
        account_id: Some(1),
        name: name.to_owned(),
        prefix: Some(format!("UP-0{id}")),
        state: state.to_owned(),
        created_at: "2026-07-01T10:00:00Z".to_owned(),
        last_used_at: None,
        revoked_at: None,
        limits: KeyLimits::default(),
    }
}

#[test]
fn new_key_is_shown_once_and_can_be_copied() {
    const SECRET: &str = "UP-00112233445566778899aabb";
    let mut screen = Harness::quiet((80, 24));
    assert_eq!(screen.effects_of("U"), []);
    fill(&mut screen, &["ada", "correct horse"]);
    screen.hides(&["correct horse"]);
    insta::assert_snapshot!("log_in_80x24", screen.text());
    let change = submitted(&mut screen);
    let (name, password) = ("ada".to_owned(), Secret("correct horse".to_owned()));
    let credentials = Credentials { name: name.clone(), password };
    assert_eq!(change, Change::LogIn { credentials, is_new: false });
    assert!(!format!("{:?} {change:?}", screen.state.overlays).contains("correct"));
    let session = Session { account: name, cookie: Secret("triptych_session=x".to_owned()) };
    let keys = vec![key(2, "laptop", "valid"), key(1, "old", "revoked")];
    let account = Account { session: session.clone(), keys };
    screen.take(Event::Changed(change, Ok(Changed::Keys(account.clone(), None))));
    insta::assert_snapshot!("keys_80x24", screen.text());

    screen.press("a");
    fill(&mut screen, &["server"]);
    let change = submitted(&mut screen);
    assert_eq!(change, Change::CreateKey { session: session.clone(), name: "server".to_owned() });
    let created = KeyWithSecret { key: key(3, "server", "valid"), api_key: Secret(SECRET.into()) };
    let changed = Changed::Keys(account, Some(Box::new(created)));
    screen.take(Event::Changed(change, Ok(changed)));
    insta::assert_snapshot!("new_key_80x24", screen.text());
    assert!(!format!("{:?}", screen.state.overlays).contains(SECRET));
    assert_eq!(screen.effects_of("y"), [Effect::Copy(SECRET.to_owned())]);
    assert_eq!(screen.effects_of("enter"), [Effect::Copy(SECRET.to_owned())]);
    screen.shows(&[SECRET]);
    screen.press("esc");
    screen.hides(&[SECRET]);
    assert!(!format!("{:?}", screen.state).contains(SECRET));

    screen.press("D");
    screen.shows(&["Revokes key 2, laptop, for good"]);
    let want = Change::RevokeKey { session, id: 2, name: "laptop".to_owned() };
    assert_eq!(submitted(&mut screen), want);
    let failure = Failure { status: Some(401), ..Failure::new("revoke", "log in first", "") };
    screen.take(Event::Changed(want, Err(failure)));
    screen.shows(&["log in first"]);
    assert!(screen.state.account.is_none(), "the session has ended");
}

#[test]
fn form_for_one_service_is_dropped_when_the_address_of_a_service_changes() {
    let mut screen = data_form((80, 24), "D");
    let mut addresses = screen.state.services.addresses.clone();
    connect(&mut screen.state, &addresses);
    assert_eq!(screen.state.overlays.len(), 1, "the services are the same");
    addresses.datasets = Some("http://127.0.0.1:9".to_owned());
    connect(&mut screen.state, &addresses);
    assert_eq!(screen.state.overlays.len(), 0);
}

#[test]
fn form_of_an_export_is_dropped_by_a_connection_which_selects_no_dataset() {
    let mut screen = data_screen((80, 24));
    screen.press("x");
    screen.shows(&["Export the rows"]);
    let addresses = screen.state.services.addresses.clone();
    connect(&mut screen.state, &addresses);
    screen.hides(&["Export the rows"]);
}

#[test]
fn edit_of_a_dataset_keeps_a_tag_with_a_comma() {
    let mut screen = data_screen((100, 40));
    let effects = screen.effects_of("E");
    let [Effect::Prepare(preparation)] = effects.as_slice() else { panic!("{effects:?}") };
    let tags = vec!["a,b".to_owned(), "ok".to_owned()];
    let prepared = Prepared { settings: None, tags, columns: columns() };
    screen.take(Event::Prepared(*preparation, Ok(prepared)));
    screen.press("tab tab x");
    assert!(screen.effects_of("enter").is_empty());
    screen.shows(&["tag `a,b` has a comma: use `triptych datasets tags`"]);
    screen.press("backspace");
    let Change::EditDataset(edit) = submitted(&mut screen) else { panic!("an edit") };
    assert_eq!((edit.added_tags, edit.removed_tags), (Vec::new(), Vec::new()));
}

#[test]
fn shorter_retention_of_a_dataset_must_be_confirmed() {
    let mut screen = data_form((100, 40), "E");
    screen.press("shift-tab shift-tab");
    fill(&mut screen, &["+90"]);
    submitted(&mut screen);
    screen.press("esc");
    open_form(&mut screen, "E", None);
    screen.press("shift-tab shift-tab");
    fill(&mut screen, &["7", "2GB"]);
    assert!(screen.effects_of("enter").is_empty());
    screen.shows(&["the oldest rows beyond 1.9 GiB, and rows older than 7"]);
}

#[test]
fn response_reaches_a_form_below_the_help() {
    let mut screen = data_form((80, 24), "a");
    fill(&mut screen, &["cpu"]);
    let change = submitted(&mut screen);
    screen.shows(&["also after this form is closed", "Close"]);
    screen.press("f1");
    assert_eq!(screen.state.overlays.len(), 2);
    screen.take(Event::Changed(change.clone(), Err(Failure::new("create dataset cpu", "no", ""))));
    screen.press("esc");
    screen.shows(&["✗ failed to create dataset cpu: no"]);
    assert_eq!(submitted(&mut screen), change);
    screen.press("f1");
    screen.take(Event::Changed(change, Ok(Changed::Dataset(id(7)))));
    screen.press("esc");
    assert_eq!(screen.state.overlays.len(), 0);
}

#[test]
fn late_response_does_not_restore_a_session_after_log_out() {
    let mut screen = Harness::quiet((80, 24));
    let session =
        |cookie: &str| Session { account: "ada".to_owned(), cookie: Secret(cookie.to_owned()) };
    let account = |cookie| Account { session: session(cookie), keys: Vec::new() };
    let change = Change::RevokeKey { session: session("old"), id: 1, name: "old".to_owned() };
    screen.take(Event::Changed(change.clone(), Ok(Changed::Keys(account("old"), None))));
    assert!(screen.state.account.is_none());
    screen.state.account = Some(account("new"));
    let failure = Failure { status: Some(401), ..Failure::new("revoke", "log in first", "") };
    screen.take(Event::Changed(change, Err(failure)));
    assert!(screen.state.account.is_some(), "another session has ended");
}

#[test]
fn new_epoch_length_and_loss_of_a_topic_drop_what_follows_from_the_old_ones() {
    let mut screen = inference_screen((100, 40));
    let settings = TopicSettings {
        metadata: "load".to_owned(),
        dataset: "cpu".to_owned(),
        column: "load".to_owned(),
        horizon_seconds: 60,
        epoch_length: Some(12),
        ground_truth_lag: Some(12),
        worker_submission_window: Some(3),
        loss_method: Some("mse".to_owned()),
        loss_parameters: Some(LossParameters::default()),
        ..TopicSettings::default()
    };
    open_form(&mut screen, "E", Some(Box::new(settings)));
    fill(&mut screen, &["load", "cpu", "load", "60s", "24"]);
    screen.press("up");
    screen.hides(&["direction  "]);
    screen.press("tab tab down");
    let Change::EditTopic { settings: Some(edit), .. } = submitted(&mut screen) else {
        panic!("new settings")
    };
    let [_, settings] = *edit;
    assert_eq!((settings.epoch_length, settings.ground_truth_lag), (Some(24), None));
    assert_eq!(settings.worker_submission_window, Some(3), "it was no default");
    assert_eq!(settings.loss_method.as_deref(), Some("mae"));
    assert_eq!(settings.loss_parameters, None);
    assert_eq!(settings.target.as_deref(), Some("volatility"));
}

#[test]
fn screen_does_nothing_but_quit_while_the_terminal_is_too_small() {
    for key in ["a", "x", "?", ":", "/", "<"] {
        let mut screen = data_screen((80, 24));
        screen.press(key);
        let shown = screen.text();
        screen.take(Event::Resized { width: 50, height: 10 });
        assert_eq!(screen.effects_of("enter esc j D 1"), [], "{key}");
        screen.take(Event::Resized { width: 80, height: 24 });
        assert_eq!(screen.text(), shown, "{key}");
        screen.take(Event::Resized { width: 50, height: 10 });
        assert_eq!(screen.effects_of("q"), [Effect::Quit], "{key}");
    }
}
