"""A short example of a model: reads a dataset, predicts, and submits once per epoch.

    TRIPTYCH_API_KEY=UP-... python3 drift.py http://127.0.0.1:8082 http://127.0.0.1:8081/api 1

Needs only Python 3.
"""
import json, os, sys, time
from urllib import error, parse, request

if len(sys.argv) != 4 or "TRIPTYCH_API_KEY" not in os.environ:
    sys.exit(__doc__)
inference, datasets, topic_id = sys.argv[1].rstrip("/"), sys.argv[2].rstrip("/"), sys.argv[3]
headers = {"x-api-key": os.environ["TRIPTYCH_API_KEY"], "content-type": "application/json"}


def call(url, body=None, **query):
    """Sends POST if there is a body, otherwise GET. Returns status and text of the response."""
    url = f"{url}?{parse.urlencode(query)}" if query else url
    data = None if body is None else json.dumps(body).encode()
    try:
        with request.urlopen(request.Request(url, data, headers), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except error.HTTPError as refused:
        return refused.code, refused.read().decode()


def get(url, **query):
    status, text = call(url, **query)
    return text if status == 200 else sys.exit(f"{url}: {status} {text}")


def predict(topic):
    """Returns the latest value plus half of the change over the last 30 rows."""
    lines = get(f"{datasets}/rows/live/", dataset_name=topic["dataset"], limit=30).splitlines()
    rows = [json.loads(line) for line in lines if line]
    values = [float(row[topic["column"]]) for row in rows if row.get(topic["column"]) is not None]
    return values[0] + (values[0] - values[-1]) / 2


call(f"{datasets}/tags/acquire/", {"tag_name": "public"})  # 409 if the key already has it
while True:
    topics = json.loads(get(f"{inference}/api/v1/topics"))
    topic = next((topic for topic in topics["topics"] if str(topic["topic_id"]) == topic_id), None)
    if topic is None:
        sys.exit(f"there is no topic {topic_id}")
    if topic["close_height"]:  # an epoch is open
        payload = {"model": "drift.py", "value": str(predict(topic))}
        print(payload["value"], *call(f"{inference}/api/v1/topics/{topic_id}/submissions", payload), flush=True)
    blocks = max(topic["next_epoch_height"] - topics["block_height"], 1)
    time.sleep(blocks * topics["block_time_ms"] / 1000)
