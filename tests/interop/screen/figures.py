"""Compares numbers on the screen with the responses of the services: figures.py PROGRAM

Each figure is read from a drawn screen between two requests for its value. It is correct if it agrees with
one of the two responses. Otherwise it is read again, since the screen may lag.
"""

import re
import sys

from service import Stack

N_FIGURES = 40
# The Overview screen polls topics every 15 s, and a try takes at least a second.
N_TRIES = 30


def number(text):
    """Parses a number of the screen: `60 446.21`, `295.8k`, `+7.37`."""
    text = text.replace(" ", "")
    scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1:], 1)
    return float(text.rstrip("kMG%")) * scale


def shown(value, text):
    """Returns True if `text` is `value` rounded to its digits."""
    digits = text.strip().rstrip("kMG%")
    n_decimals = len(digits.split(".")[1]) if "." in digits else 0
    scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text.strip()[-1:], 1)
    return abs(number(text) - value) <= 0.500001 * scale * 10**-n_decimals


class Figures:
    def __init__(self, stack):
        self.stack = stack
        self.right = []
        self.wrong = []

    def check(self, name, key, pattern, api):
        """Compares the first group of `pattern` on screen `key` with `api()` before or after."""
        terminal = self.stack.terminal
        seen = []
        for _ in range(N_TRIES):
            before = api()
            terminal.press(key, 0.4)
            found = re.search(pattern, terminal.text())
            after = api()
            text = found.group(1).strip() if found else None
            seen.append((before, text, after))
            if text is not None and any(self.agrees(text, value) for value in (before, after)):
                self.right.append(name)
                return
            terminal.read(0.7)
        self.wrong.append((name, seen[-3:], "" if found else terminal.text()))

    @staticmethod
    def agrees(text, value):
        if isinstance(value, list):
            return any(Figures.agrees(text, one) for one in value)
        if value is None:
            return False
        if isinstance(value, str):
            return text == value
        try:
            return shown(value, text)
        except ValueError:
            return False


def check_cluster(figures):
    stack = figures.stack

    def nodes():
        return stack.get("HEAD", "/api/v1/nodes")["nodes"]

    def workers():
        return sorted((it for it in nodes() if it["role"] == "worker"), key=lambda it: it["peer_id"])

    figures.check("cluster: nodes", "1", r"Nodes ─+ (\d+) · ", lambda: len(nodes()))
    figures.check("overview: nodes", "0", r"(\d+) nodes ", lambda: len(nodes()))
    figures.check("overview: workers", "0", r"(\d+) workers", lambda: len(workers()))
    for idx in range(3):
        end = workers()[idx]["peer_id"][-6:]
        row = rf"…{end} worker[^│]*?"
        figures.check(
            f"cluster: free slots of {end}", "1", row + r"(\d+)/\d+ ",
            lambda idx=idx: workers()[idx]["slots_free"],
        )
        figures.check(
            f"cluster: slots of {end}", "1", row + r"\d+/(\d+) ",
            lambda idx=idx: workers()[idx]["slots"],
        )
        figures.check(
            f"cluster: runs of {end}", "1", row + r"\d+/\d+ +([\d ]*\d) +(?:\d+%|—)",
            lambda idx=idx: workers()[idx]["runs"],
        )
    functions = lambda: len(stack.get("HEAD", "/api/v1/functions")["functions"])
    figures.check("cluster: functions", "1", r"(\d+) functions to run", functions)


def check_data(figures):
    stack = figures.stack
    stack.terminal.press("3", 3)

    def listed():
        return stack.get("DATASETS", "/datasets/?limit=100")

    figures.check("data: datasets", "3", r"Datasets ─+ (\d+) ╮", lambda: listed()["count"])
    figures.check("overview: datasets", "0", r"· (\d+) datasets", lambda: listed()["count"])
    ids = {it["name"]: it["id"] for it in listed()["results"]}

    def newest(name, column):
        return float(stack.newest(ids[name], 1)[0][column])

    for name in ("ethusd", "solusd", "eurusd"):
        # Values are polled one after the other and can be 10 s old.
        figures.check(
            f"data: LAST of {name}", "3", rf"synthetic_{name}[^│\n]*[▁-█] *(\d[\d ]*\.\d+) ││",
            lambda name=name: [row["close"] for row in stack.newest(ids[f"synthetic_{name}"], 12)],
        )
    figures.check(
        "data: close in the header", "3", r"close ([\d ]+\.\d+) ",
        lambda: newest("synthetic_btcusd", "close"),
    )
    tape = r"LOW [^\n]*\n│ \d\d:\d\d:\d\d +"
    cell = r"[\d ]*\d\.\d+"
    for idx, column in enumerate(("close", "volume", "high", "low")):
        skip = rf"{cell} [▲▼ ] +" + rf"{cell} +" * (idx - 1) if idx else ""
        figures.check(
            f"tape: newest {column}", "3", tape + skip + rf"({cell})",
            lambda column=column: newest("synthetic_btcusd", column),
        )
    figures.check("data: id", "3", r"  id (\d+)", lambda: ids["synthetic_btcusd"])
    figures.check("data: price tag", "3", r"◂ ([\d ]+\.\d+)", lambda: newest("synthetic_btcusd", "close"))
    figures.check(
        "overview: btcusd", "0", r"synthetic_btcusd [^│]*? ([\d ]+\.\d+) ",
        lambda: newest("synthetic_btcusd", "close"),
    )


def check_inference(figures):
    stack = figures.stack
    stack.terminal.press("4", 3)

    def bundle():
        return stack.get("INFERENCE", "/emissions/v10/latest_network_inferences/1")["network_inferences"]

    def value(values):
        return float(values[0]["value"])

    def actors(kind):
        return len(bundle()[kind])

    combined = lambda: value(bundle()["combined_value"])
    figures.check("inference: nonce", "4", r"nonce (\d+) · ", lambda: float(bundle()["nonce"]))
    figures.check("inference: combined", "4", r"│ ([\d ]+\.\d+) +[\d ]+\.\d+ +[\d.]+ +\d+ ", combined)
    figures.check(
        "inference: naive", "4", r"│ [\d ]+\.\d+ +([\d ]+\.\d+) +[\d.]+ +\d+ ",
        lambda: value(bundle()["naive_value"]),
    )
    figures.check(
        "inference: difference", "4", r"([+-][\d.]+) vs naive ",
        lambda: combined() - value(bundle()["naive_value"]),
    )
    count = r"│ [\d ]+\.\d+ +[\d ]+\.\d+ +[\d.]+ +"
    figures.check("inference: inferers", "4", count + r"(\d+) ", lambda: actors("inferer_values"))
    figures.check("overview: inferers", "0", r"Topic 1 ·[^\n]*\n[^\n]*?(\d+) inferers", lambda: actors("inferer_values"))
    figures.check("overview: combined", "0", r"Topic 1 ·[^\n]*\n[^\n]*?││   ([\d ]+\.\d+) ", combined)
    beliefs = lambda: {
        it["label_name"]: float(it["value"])
        for it in stack.get("INFERENCE", "/emissions/v10/latest_network_inferences/2")[
            "network_inferences"
        ]["combined_value"]
    }
    for label in beliefs():
        figures.check(
            f"overview: {label}", "0", rf"{label} (\d\.\d+) ", lambda label=label: beliefs().get(label)
        )
    board = lambda: stack.get("INFERENCE", "/api/v1/topics/1/leaderboard")
    figures.check("inference: actors", "4", r"Leaderboard ─+ (\d+) · ", lambda: len(board()["actors"]))
    names = [actor["name"] for actor in board()["actors"] if actor["role"] == "inferer"][:6]
    for name in names:
        def of(name=name):
            worker = next(it["worker"] for it in board()["actors"] if it["name"] == name)
            values = [it for it in bundle()["inferer_values"] if it["worker"] == worker]
            return value(values[0]["values"]) if values else None

        figures.check(f"inference: value of {name}", "4", rf"● {re.escape(name)} +([\d ]+\.\d+) ", of)
    topics = lambda: stack.get("INFERENCE", "/api/v1/topics")["topics"]
    figures.check(
        "inference: epochs learned", "4", r"twelve seconds ahead +\* +(\d+) ",
        lambda: next(it["n_learned"] for it in topics() if it["topic_id"] == 1),
    )


def check_without_outliers(figures):
    """Checks that the outlier-resistant bundle changes with the epochs, too."""
    stack = figures.stack
    stack.terminal.press("4", 1)
    stack.terminal.press("o", 2)
    nonces = set()
    for _ in range(30):
        title = next(line for line in stack.terminal.text().splitlines() if "Topic 1 ·" in line)
        assert "without outliers" in title and "stale" not in title, title
        nonces.add(re.search(r"nonce (\d+)", title).group(1))
        stack.terminal.read(1)
    assert len(nonces) >= 2, nonces
    path = "/emissions/v10/latest_network_inferences_outlier_resistant/1"

    def bundle():
        return stack.get("INFERENCE", path)["network_inferences"]

    figures.check("without outliers: nonce", "4", r"nonce (\d+) · ", lambda: float(bundle()["nonce"]))
    figures.check(
        "without outliers: combined", "4", r"│ ([\d ]+\.\d+) +[\d ]+\.\d+ +[\d.]+ +\d+ ",
        lambda: float(bundle()["combined_value"][0]["value"]),
    )


def main():
    stack = Stack(sys.argv[1])
    try:
        stack.terminal.press("4", 1)
        # Wait until the losses of the first epochs are known.
        stack.terminal.wait(r"mean of \d+ epochs", 180)
        figures = Figures(stack)
        check_cluster(figures)
        check_data(figures)
        check_inference(figures)
        check_without_outliers(figures)
    finally:
        stack.close()
    for name, seen, text in figures.wrong:
        print(f"WRONG {name}: (before, screen, after) {seen}\n{text}")
    print(f"{len(figures.right)} of {len(figures.right) + len(figures.wrong)} figures are right")
    assert not figures.wrong and len(figures.right) >= N_FIGURES


if __name__ == "__main__":
    main()
