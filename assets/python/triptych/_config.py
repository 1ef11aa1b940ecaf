"""Addresses and keys of services, found as the commands of `triptych` find them.

Arguments come first, then environment variables, then the profile of the configuration file. If none
of them names a service or a key, the local stack of this user that runs is used.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import stat
import sys
from dataclasses import dataclass, replace
from typing import Any

from ._errors import TriptychError

DATASETS = "http://127.0.0.1:8081/api"
INFERENCE = "http://127.0.0.1:8082"
# Number of stacks that a user can run without naming their directories.
STACKS_MAX = 8
START = "start one with `triptych up` in a second terminal, or open the screen with `triptych`"


@dataclass(frozen=True)
class Services:
    """Addresses of services, and the key that goes with them."""

    head: str | None = None
    datasets: str | None = None
    inference: str | None = None
    key: str | None = None
    is_local: bool = False
    """True if they belong to a local stack, which may have other ports after a restart."""


def find(
    head: str | None = None,
    datasets: str | None = None,
    inference: str | None = None,
    profile: str | None = None,
    key: str | None = None,
) -> Services:
    """Returns the services to use."""
    heads = head or _variable("TRIPTYCH_HEAD")
    head = next((text.strip() for text in (heads or "").split(",") if text.strip()), None)
    datasets = datasets or _variable("TRIPTYCH_DATASETS")
    inference = inference or _variable("TRIPTYCH_INFERENCE")
    name, chosen = _profile(profile or _variable("TRIPTYCH_PROFILE"))
    is_named = any((head, datasets, inference)) or name is not None
    key = key or _key(name or "default")
    named = [(datasets or chosen.get("datasets"), "datasets"), (inference or chosen.get("inference"), "inference")]
    named = [(address.rstrip("/"), service) for address, service in named if address]
    # The key of the stack is not sent to any other service.
    if key is None and (named or not is_named) and (local := running_stack()):
        if all(address == getattr(local, service) for address, service in named):
            head = head or _first(chosen.get("head"))
            return replace(local, head=head, is_local=False) if head else local
    return Services(
        head=head or _first(chosen.get("head")),
        datasets=datasets or chosen.get("datasets") or DATASETS,
        inference=inference or chosen.get("inference") or INFERENCE,
        key=_checked_key(key, "the API key"),
    )


def running_stack() -> Services | None:
    """Returns the local stack of this user that runs; `None` if none does."""
    for folder in _stack_folders():
        try:
            record = json.loads((folder / "running.json").read_text())
        except (OSError, ValueError):
            continue
        # The record of a stack that was killed still exists, but its lock is free.
        if record.get("api_key") and _is_locked(folder / "lock"):
            names = ("head", "datasets", "inference")
            found = {name: record.get(name) for name in names}
            return Services(**found, key=record["api_key"], is_local=True)
    return None


def token() -> str | None:
    """Returns the token of heads, if the environment has one."""
    return _variable("TRIPTYCH_REST_TOKEN")


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


def _folder(variable: str, default: str) -> pathlib.Path:
    """Returns the directory of this platform that `variable` or `default` below the home names."""
    if sys.platform == "darwin":
        return pathlib.Path.home() / "Library/Application Support/triptych"
    named = os.environ.get(variable, "")
    base = pathlib.Path(named) if named.startswith("/") else pathlib.Path.home() / default
    return base / "triptych"


def _config_folder() -> pathlib.Path:
    return _folder("XDG_CONFIG_HOME", ".config")


def _stack_folders() -> list[pathlib.Path]:
    named = _variable("TRIPTYCH_DATA_DIR")
    if named:
        return [pathlib.Path(named)]
    base = _folder("XDG_DATA_HOME", ".local/share")
    return [base / "stack", *(base / f"stack-{number}" for number in range(2, STACKS_MAX + 1))]


def _is_locked(path: pathlib.Path) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows, which has no local stacks
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _profile(name: str | None) -> tuple[str | None, dict[str, Any]]:
    """Returns the name and the addresses of a profile, by default the one that the file names."""
    path = _config_folder() / "config.toml"
    try:
        text = path.read_text()
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise TriptychError(f"cannot read {path}: {error.strerror}") from None
    config = _parsed_toml(path, text) if text else {}
    name = name or config.get("profile")
    if name is None:
        return None, {}
    profiles = config.get("profiles", {})
    if name not in profiles:
        known = ", ".join(profiles) or "none"
        raise TriptychError(f"unknown profile `{name}`: {path} has {known}")
    return name, profiles[name]


def _parsed_toml(path: pathlib.Path, text: str) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib  # Python 3.10
    try:
        parsed: dict[str, Any] = tomllib.loads(text)
        return parsed
    except tomllib.TOMLDecodeError as error:
        raise TriptychError(f"{path} is not valid TOML: {error}") from None


def _first(heads: str | list[str] | None) -> str | None:
    if isinstance(heads, list):
        return heads[0] if heads else None
    return heads


def _key(profile: str) -> str | None:
    """Returns the key of a profile: of a named file, the environment, the keyring, or its own file."""
    named = _variable("TRIPTYCH_API_KEY_FILE")
    if named:
        try:
            text = pathlib.Path(named).read_text().strip()
        except OSError as error:
            raise TriptychError(f"cannot read the API key in {named}: {error.strerror}") from None
        return _checked_key(text, f"the text in {named}")
    if key := _variable("TRIPTYCH_API_KEY"):
        return _checked_key(key, "TRIPTYCH_API_KEY")
    return _key_in_keyring(profile) or _key_in_file(profile)


def _key_in_keyring(profile: str) -> str | None:
    if os.environ.get("TRIPTYCH_KEYRING") == "off":
        return None
    try:
        import keyring

        return _checked_key(keyring.get_password("triptych", profile), "the text in the keyring")
    except TriptychError:
        raise
    except Exception:  # No package or no keyring: the key may be in a file.
        return None


def _key_in_file(profile: str) -> str | None:
    path = _config_folder() / "keys" / profile
    try:
        mode, text = path.stat().st_mode, path.read_text().strip()
    except OSError:
        return None
    if stat.S_IMODE(mode) & 0o077:
        raise TriptychError(f"other users can read the API key in {path}: run `chmod 600 {path}`")
    return _checked_key(text, f"the text in {path}")


def _checked_key(key: str | None, what: str) -> str | None:
    """Returns `key` if it has the form of one. It is never repeated in an error."""
    if key is not None and not re.fullmatch(r"UP-[0-9a-f]{24}", key.strip()):
        raise TriptychError(f"{what} is not an API key, which is UP- and 24 digits from 0 to f")
    return key and key.strip()
