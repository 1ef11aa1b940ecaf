"""A model of thirty lines: it follows a dataset, predicts, and submits once an epoch.

    TRIPTYCH_API_KEY=UP-... python3 drift.py http://127.0.0.1:8082 http://127.0.0.1:8081/api 1

Needs Python 3 and `requests` alone.
"""
import json, os, sys, time
import requests

if len(sys.argv) != 4 or "TRIPTYCH_API_KEY" not in os.environ:
    sys.exit(__doc__)
inference, datasets, topic_id = sys.argv[1].rstrip("/"), sys.argv[2].rstrip("/"), sys.argv[3]
session = requests.Session()
session.headers["x-api-key"] = os.environ["TRIPTYCH_API_KEY"]
session.post(f"{datasets}/tags/acquire/", json={"tag_name": "public"})  # 409 if it is held already


def get(url, **query):
    answer = session.get(url, params=query, timeout=30)
    return answer if answer.ok else sys.exit(f"{url}: {answer.status_code} {answer.text}")


def predict(topic):
    """The newest value, and half of the way it went over the last 30 rows."""
    lines = get(f"{datasets}/rows/live/", dataset_name=topic["dataset"], limit=30).text.splitlines()
    rows = [json.loads(line) for line in lines if line]
    values = [float(row[topic["column"]]) for row in rows if row.get(topic["column"]) is not None]
    return values[0] + (values[0] - values[-1]) / 2


while True:
    topics = get(f"{inference}/api/v1/topics").json()
    topic = next((topic for topic in topics["topics"] if str(topic["topic_id"]) == topic_id), None)
    if topic is None:
        sys.exit(f"there is no topic {topic_id}")
    if topic["close_height"]:  # an epoch is open
        payload = {"model": "drift.py", "value": str(predict(topic))}
        answer = session.post(f"{inference}/api/v1/topics/{topic_id}/submissions", json=payload, timeout=30)
        print(payload["value"], answer.status_code, answer.json(), flush=True)
    blocks = max(topic["next_epoch_height"] - topics["block_height"], 1)
    time.sleep(blocks * topics["block_time_ms"] / 1000)
