"""Checks the OpenAPI description with `openapi-spec-validator` and Schemathesis."""

import requests
from openapi_spec_validator import OpenAPIV31SpecValidator

import network as of
import schema


def check(network):
    document = requests.get(f"{network.url}/api/openapi.json", timeout=15).json()
    OpenAPIV31SpecValidator(document).validate()
    page = requests.get(f"{network.url}/api/docs/", timeout=15)
    assert page.status_code == 200 and all(path in page.text for path in document["paths"])
    schema.run(network.url, of.HERE / "schemathesis.toml", f"X-API-Key: {network.key}", network.folder, examples=4)
