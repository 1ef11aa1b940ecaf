//! `triptych inference leaderboard`: a topic's actors by their mean loss, and the network's values
//! beside a baseline.

use anyhow::Context as _;
use clap::Args;
use wire::inference::leaderboard::{EpochLosses, Leaderboard, RankedActor};

use super::TopicFlags;
use crate::cli::output::{print, print_body, table};

/// The flags of `inference leaderboard`.
#[derive(Debug, Args)]
pub(crate) struct LeaderboardCommand {
    /// The newest epochs to take means of, from 1 to 500
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    epochs: u32,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    topic: TopicFlags,
}

/// Prints the leaderboard.
///
/// # Errors
/// If there is no such topic, or the service refuses.
pub(crate) async fn run(command: LeaderboardCommand) -> anyhow::Result<()> {
    let LeaderboardCommand { topic, epochs, json } = command;
    let (topic, service) = topic.connect().await?;
    let board = service.leaderboard(topic, epochs).await;
    let board = board.with_context(|| format!("read the leaderboard of topic {topic}"))?;
    if json {
        return print_body(&board);
    }
    print(&text(&board))
}

fn text(board: &Leaderboard) -> String {
    if board.epochs.is_empty() {
        return "no epoch was learned from yet: the first truth is to come".to_owned();
    }
    let actor = |(idx, actor): (usize, &RankedActor)| {
        vec![
            (idx + 1).to_string(),
            actor.name.clone().unwrap_or_else(|| actor.worker.clone()),
            actor.role.clone(),
            actor.n_epochs.to_string(),
            format!("{:.6}", actor.mean_loss),
        ]
    };
    let rows: Vec<_> = board.actors.iter().enumerate().map(actor).collect();
    let header = ["rank", "actor", "role", "epochs", "mean loss"];
    format!("{}\n{}", sums(&board.epochs), table(&header, &rows, &[0, 3, 4]))
}

/// The mean losses of the values, over the epochs that all of them have.
fn sums(epochs: &[EpochLosses]) -> String {
    let known: Vec<_> = epochs.iter().filter(|epoch| epoch.uninformed.is_some()).collect();
    #[expect(clippy::cast_precision_loss, reason = "epochs are few")]
    let mean = |of: &dyn Fn(&EpochLosses) -> f64| {
        known.iter().map(|epoch| of(epoch)).sum::<f64>() / known.len().max(1) as f64
    };
    format!(
        "mean loss of {} epochs: combined {:.6}, naive {:.6}, uninformed {:.6}",
        known.len(),
        mean(&|epoch| epoch.combined),
        mean(&|epoch| epoch.naive),
        mean(&|epoch| epoch.uninformed.unwrap_or_default())
    )
}
