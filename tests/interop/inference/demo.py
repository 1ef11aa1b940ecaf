"""The demo topics over synthetic rows of many seeds, for ten minutes and for an hour. The combined value must beat
the naive one, a constant one, and the latest value."""

import json
import subprocess

N_SEEDS = 20
# Epochs with known losses after ten minutes and after an hour.
N_EPOCHS = (47, 300)
WINS_MIN = 19
BASELINES = ("naive", "uninformed", "persistence")


def check(network):
    for n_epochs in N_EPOCHS:
        replay(network, n_epochs)


def replay(network, n_epochs):
    command = [network.program, "inference", "backtest", "demo", "--json"]
    command += ["--seeds", str(N_SEEDS), "--epochs", str(n_epochs)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    for topic in (1, 2):
        of_topic = [line for line in lines if line["topic"] == topic]
        assert len(of_topic) == N_SEEDS, text
        losses = [line["loss"] for line in of_topic]
        for baseline in BASELINES:
            wins = sum(loss["combined"] < loss[baseline] for loss in losses)
            text = f"topic {topic}, {n_epochs} epochs: combined beats {baseline} {wins} of {N_SEEDS} times"
            print(text)
            assert wins >= WINS_MIN, f"{text}: {losses}"
        for line in of_topic:
            assert line["epochs"] == n_epochs, line
            actors = {actor["loss"] for actor in line["actors"]}
            assert len(actors) == len(line["actors"]), f"an actor is a copy of another: {line}"
