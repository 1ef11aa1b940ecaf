//! Learning over several epochs, without a store or a clock.

use super::*;
use crate::network::close::{CloseContext, close};
use crate::network::submission::{Payload, Submission};

fn load() -> Topic {
    crate::tests::test_topics().remove(0)
}

fn close_context<'a>(topic: &'a Topic, learned: &'a Learned) -> CloseContext<'a> {
    CloseContext { labels: &topic.labels, learned, baseline: None }
}

fn submission(topic: &Topic, worker: &str, value: f64) -> Submission {
    let payload =
        Payload { values: vec![("y".to_owned(), value.to_string())], ..Payload::default() };
    let worker = format!("allo1{worker}").parse().unwrap();
    Submission::checked(topic, worker, None, payload).unwrap()
}

/// Returns the state learned from `n_epochs`, in which `good` has an error of 1 and `bad` an error of
/// 10 in the opposite direction.
fn after(n_epochs: u64) -> Learned {
    let topic = load();
    let mut learned = Learned::default();
    for nonce in (0..n_epochs).map(|idx| 1 + idx * topic.timing.epoch_length) {
        let submissions = [submission(&topic, "good", 51.0), submission(&topic, "bad", 40.0)];
        let closing = close(&topic, nonce, &submissions, close_context(&topic, &learned)).unwrap();
        learned.learn(&topic, &closing.bundle, &[50.0]).unwrap();
    }
    learned
}

fn bundle_after(n_epochs: u64) -> FullBundle {
    let topic = load();
    let submissions = [submission(&topic, "good", 51.0), submission(&topic, "bad", 40.0)];
    close(&topic, 1_000_000, &submissions, close_context(&topic, &after(n_epochs))).unwrap().bundle
}

fn combined(bundle: &FullBundle) -> f64 {
    bundle.combined_value[0].value
}

#[test]
fn combined_value_of_the_first_epoch_is_the_mean_of_the_inferers() {
    let bundle = bundle_after(0);
    assert!((combined(&bundle) - 45.5).abs() < 1e-12);
    assert_eq!(bundle.naive_value, bundle.combined_value);
    assert_eq!(bundle.forecaster_values, []);
    assert_eq!(bundle.one_out_inferer_values.len(), 2);
}

#[test]
fn accurate_inferer_gains_weight() {
    assert!(combined(&bundle_after(1)) > 47.0, "{}", combined(&bundle_after(1)));
    assert!((combined(&bundle_after(30)) - 51.0).abs() < 0.5);
    let learned = after(30);
    let score = |name: &str| learned.scores.inferer[&format!("allo1{name}").parse().unwrap()];
    assert!(score("good") > score("bad"));
}

#[test]
fn forecasters_are_active_once_losses_are_known() {
    let bundle = bundle_after(2);
    assert_eq!(bundle.forecaster_values.len(), 5);
    assert_eq!(bundle.one_out_forecaster_values.len(), 5);
    assert_eq!(bundle.one_in_forecaster_values.len(), 5);
    assert_eq!(bundle.without_inferer.numbers().len(), 10);
}

#[test]
fn losses_are_logarithms_of_squared_errors() {
    let topic = load();
    let losses = losses(topic.judging.loss, &bundle_after(0), &[50.0], 0.0).unwrap();
    assert!((losses.inferer[&"allo1bad".parse().unwrap()] - 2.0).abs() < 1e-9);
    assert!(losses.inferer[&"allo1good".parse().unwrap()].abs() < 1e-9);
    assert!((losses.combined - 20.25_f64.log10()).abs() < 1e-9);
}

#[test]
fn initial_regret_of_newcomers_is_below_the_regret_of_an_accurate_actor() {
    let learned = after(30);
    let good = learned.regrets.ordinary.inferer[&"allo1good".parse().unwrap()];
    assert!(learned.initial_regret < good, "{} {good}", learned.initial_regret);
}

#[test]
fn absent_actors_are_forgotten() {
    let topic = load();
    let mut learned = after(3);
    let nonce = 3 * 12 + (FORGOTTEN_AFTER_EPOCHS + 1) * topic.timing.epoch_length;
    let submissions = [submission(&topic, "good", 51.0)];
    let closing = close(&topic, nonce, &submissions, close_context(&topic, &learned)).unwrap();
    learned.learn(&topic, &closing.bundle, &[50.0]).unwrap();
    let good: Address = "allo1good".parse().unwrap();
    assert_eq!(learned.experience.inferer.keys().collect::<Vec<_>>(), [&good]);
    assert_eq!(learned.regrets.naive.keys().collect::<Vec<_>>(), [&good]);
    let Regrets { one_out_inferer, one_out_forecaster, .. } = learned.regrets;
    assert!(one_out_inferer.by_row().keys().all(|name| *name == good));
    let columns = [one_out_inferer, one_out_forecaster].map(|pairwise| pairwise.inferer);
    assert!(columns.iter().all(|pairs| pairs.columns().iter().all(|name| *name == good)));
}

#[test]
fn infinite_loss_is_not_learned() {
    let topic = load();
    let mut learned = after(3);
    let before = learned.clone();
    assert_eq!(learned.learn(&topic, &bundle_after(3), &[1e300]), Err(BundleError));
    assert_eq!(learned, before);
}

#[test]
fn number_of_remembered_actors_is_limited() {
    let seen = |last_nonce| Experience { n_epochs: 1, last_nonce };
    let name = |idx: usize| -> Address { format!("allo1{idx:05}").parse().unwrap() };
    let all = (0..KNOWN_MAX + 10).map(|idx| (name(idx), seen(if idx < 20 { 5 } else { 9 })));
    let mut experience: ByActor<Experience> = all.collect();
    forget(&mut experience, 0);
    assert_eq!(experience.len(), KNOWN_MAX);
    assert!(!experience.contains_key(&name(9)) && experience.contains_key(&name(10)));
}

#[test]
fn inferers_with_equal_losses_have_equal_regrets_and_their_naive_value_is_the_mean() {
    let topic = load();
    let mut learned = Learned::default();
    let submissions = ["a", "b", "c"].map(|worker| submission(&topic, worker, 40.0));
    for nonce in [1, 13, 25] {
        let closing = close(&topic, nonce, &submissions, close_context(&topic, &learned)).unwrap();
        learned.learn(&topic, &closing.bundle, &[50.0]).unwrap();
    }
    assert!(learned.regrets.ordinary.all().all(|regret| regret.abs() < 1e-12));
    assert!(learned.scores.inferer.values().all(|score| score.abs() < 1e-12));
    let apart: Vec<Submission> = [("a", 30.0), ("b", 40.0), ("c", 80.0)]
        .map(|(worker, value)| submission(&topic, worker, value))
        .into();
    let bundle = close(&topic, 37, &apart, close_context(&topic, &learned)).unwrap().bundle;
    let naive = bundle.naive_value[0].value;
    assert!((naive - 50.0).abs() < 1e-9, "{naive}");
}

#[test]
fn topic_with_a_single_inferer_is_learned() {
    let topic = load();
    let mut learned = Learned::default();
    for nonce in [1, 13] {
        let only = [submission(&topic, "only", 51.0)];
        let closing = close(&topic, nonce, &only, close_context(&topic, &learned)).unwrap();
        assert_eq!(closing.bundle.one_out_inferer_values, []);
        learned.learn(&topic, &closing.bundle, &[50.0]).unwrap();
    }
    let only: Address = "allo1only".parse().unwrap();
    assert!(learned.regrets.ordinary.inferer[&only].abs() < 1e-12);
    assert!(learned.scores.inferer[&only].abs() < 1e-12);
    assert_eq!(learned.experience.inferer[&only].n_epochs, 2);
    assert!(learned.regrets.one_out_inferer.by_row().is_empty());
}
