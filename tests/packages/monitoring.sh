#!/usr/bin/env bash
# Checks the alert rules and every query of the dashboard with promtool. Tests when alerts fire:
#     tests/packages/monitoring.sh
# Needs Python 3. Prometheus is installed from Debian's packages if missing.
set -euo pipefail
cd "$(dirname "$0")"
. ../interop/debian.sh
debian_packages promtool:prometheus
promtool check rules ../../assets/monitoring/alerts.yml
promtool test rules alerts.yml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Writes each query as a rule, with values in place of Grafana's variables.
python3 - ../../assets/monitoring/dashboard.json >"$work/queries.yml" <<'PYTHON'
import json, sys

panels = json.load(open(sys.argv[1]))["panels"]
queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
for name, value in {"__rate_interval": "5m", "__range": "1h", "job": ".*", "instance": ".*"}.items():
    queries = [query.replace(f"${name}", value) for query in queries]
rules = [{"record": f"query{number}", "expr": query} for number, query in enumerate(queries)]
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
PYTHON
promtool check rules "$work/queries.yml"
