"""The demo's topics over synthetic rows of many seeds: both beat their naive value and knowing nothing."""

import json
import subprocess

N_SEEDS = 20
N_EPOCHS = 300
WINS_MIN = 19


def check(network):
    command = [network.program, "inference", "backtest", "demo", "--json"]
    command += ["--seeds", str(N_SEEDS), "--epochs", str(N_EPOCHS)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    for topic in (1, 2):
        of_topic = [line for line in lines if line["topic"] == topic]
        assert len(of_topic) == N_SEEDS, text
        losses = [line["loss"] for line in of_topic]
        wins = sum(loss["combined"] < min(loss["naive"], loss["uninformed"]) for loss in losses)
        print(f"topic {topic}: combined wins {wins} of {N_SEEDS}")
        assert wins >= WINS_MIN, f"topic {topic}: combined wins {wins} of {N_SEEDS}: {losses}"
        for line in of_topic:
            assert line["epochs"] == N_EPOCHS, line
            actors = {actor["loss"] for actor in line["actors"]}
            assert len(actors) == len(line["actors"]), f"an actor is a copy of another: {line}"
