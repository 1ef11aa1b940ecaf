"""DataFrames of pandas, polars or Arrow: made of responses, and read for inserts."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any

from . import _time
from ._errors import TriptychError

MODULES = {"pandas": ("pandas", "pyarrow"), "polars": ("polars",), "arrow": ("pyarrow",)}
PARQUET = "application/vnd.apache.parquet"
NDJSON = "application/x-ndjson"

Frame = Any


def kind(wanted: str | None) -> str:
    """Returns the library of frames: `wanted`, else TRIPTYCH_FRAME, else the first that is installed."""
    wanted = wanted or os.environ.get("TRIPTYCH_FRAME")
    if wanted and wanted not in MODULES:
        raise TriptychError(f"unknown kind of frame `{wanted}`: choose pandas, polars or arrow")
    for name in [wanted] if wanted else MODULES:
        missing = [module for module in MODULES[name] if importlib.util.find_spec(module) is None]
        if not missing:
            return name
        if wanted:
            raise TriptychError(f"{wanted} frames need: pip install {' '.join(missing)}")
    raise TriptychError("frames need a library: pip install pandas pyarrow, or pip install polars")


def from_parquet(data: bytes, name: str, columns: list[str] | None = None) -> Frame:
    """Returns the rows of a Parquet file as a frame of the library `name`."""
    if not data.startswith(b"PAR1"):
        raise TriptychError("the response is not a Parquet file: check the address of the service")
    file = io.BytesIO(data)
    if name == "pandas":
        import pandas

        return pandas.read_parquet(file, columns=columns)
    if name == "polars":
        import polars

        return polars.read_parquet(file, columns=columns)
    import pyarrow.parquet

    return pyarrow.parquet.read_table(file, columns=columns)


def from_rows(rows: list[dict[str, Any]], name: str) -> Frame:
    """Returns `rows`, which have the same keys, as a frame of the library `name`."""
    if name == "pandas":
        import pandas

        return pandas.DataFrame(rows)
    if name == "polars":
        import polars

        return polars.DataFrame(rows, infer_schema_length=None)
    import pyarrow

    return pyarrow.Table.from_pylist(rows)


def part(frame: Frame, begin: int, end: int, name: str) -> Frame:
    """Returns the rows from `begin` to before `end`."""
    if name == "pandas":
        return frame.iloc[begin:end].reset_index(drop=True)
    return frame.slice(begin, end - begin)


def values(frame: Frame, column: str) -> list[Any]:
    """Returns a column as a list. A missing value is `None` or NaN."""
    if column not in (frame.column_names if hasattr(frame, "column_names") else list(frame.columns)):
        return []
    found = frame[column]
    return list(found.to_pylist() if hasattr(found, "to_pylist") else found.to_list())


def reversed_rows(frame: Frame, name: str) -> Frame:
    """Returns the rows in the opposite order."""
    if name == "pandas":
        return frame.iloc[::-1].reset_index(drop=True)
    if name == "polars":
        return frame.reverse()
    import pyarrow

    return frame.take(pyarrow.array(range(len(frame) - 1, -1, -1), pyarrow.int64()))


def duplicate(values: Iterable[Any]) -> Any:
    """Returns the first value that occurred before; `None` if all are distinct."""
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


class Rows:
    """Rows to insert: their columns, and bodies of requests.

    Attributes:
        columns: Types of the columns by name, without `timestamp`.
        content_type: Media type of the bodies.
    """

    def __init__(self, frame: Frame, time: str = "timestamp") -> None:
        table = _arrow_of(frame, time)
        if table is not None:
            self.content_type = PARQUET
            self._table = _normal_table(table, time)
            self.columns = {
                field.name: _dtype_of_arrow(field) for field in self._table.schema if field.name != "timestamp"
            }
        else:
            self.content_type = NDJSON
            self._table = None
            self._rows = [_normal_row(row, time, number) for number, row in enumerate(_dicts_of(frame, time))]
            self.columns = _dtypes_of_rows(self._rows)

    def __len__(self) -> int:
        return len(self._rows if self._table is None else self._table)

    def bodies(self, types: dict[str, str], rows_max: int) -> Iterator[tuple[bytes, int]]:
        """Yields bodies of up to `rows_max` rows with values of `types`, and the rows in each."""
        for begin in range(0, len(self), rows_max):
            if self._table is None:
                some = self._rows[begin : begin + rows_max]
                yield "".join(_line(row, types) for row in some).encode(), len(some)
            else:
                some = _cast(self._table.slice(begin, rows_max), types)
                yield _parquet(some), len(some)


def _arrow_of(frame: Frame, time: str) -> Any:
    """Returns a frame as an Arrow table; `None` if it is no frame, or pyarrow is not installed."""
    module = type(frame).__module__.partition(".")[0]
    if module not in ("pandas", "polars", "pyarrow") or importlib.util.find_spec("pyarrow") is None:
        return None
    import pyarrow

    if module == "pandas":
        frame = _with_index(frame, time)
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    if module == "polars":
        return frame.to_arrow()
    return pyarrow.table(frame)


def _with_index(frame: Frame, time: str) -> Frame:
    """Returns a pandas frame whose index is its column `time`, if it has times and no such column."""
    if time in frame.columns or frame.index.dtype.kind != "M":
        return frame
    return frame.rename_axis(index=time).reset_index()


def _normal_table(table: Any, time: str) -> Any:
    """Returns `table` with its times in UTC as `timestamp`, NaN as null, and no empty column."""
    import pyarrow
    import pyarrow.compute

    if time not in table.column_names:
        raise TriptychError(_no_time(time, table.column_names))
    names, columns = ["timestamp"], [_arrow_times(table[time], time)]
    for field, column in zip(table.schema, table.columns):
        if field.name == time or pyarrow.types.is_null(field.type):
            continue
        if pyarrow.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
        if pyarrow.types.is_floating(column.type):
            column = pyarrow.compute.if_else(pyarrow.compute.is_nan(column), None, column)
        names.append(field.name)
        columns.append(column)
    return pyarrow.table(columns, names=names)


def _arrow_times(column: Any, name: str) -> Any:
    import pyarrow
    import pyarrow.compute

    if column.null_count:
        at = column.is_null().to_pylist().index(True)
        raise TriptychError(f"row {at} has no {name}: fill it in or drop the row")
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        column = pyarrow.array([_time.parse(text) for text in column.to_pylist()])
    if not (pyarrow.types.is_timestamp(column.type) or pyarrow.types.is_date(column.type)):
        raise TriptychError(f"column `{name}` is of type {column.type}, not of times: see pandas.to_datetime")
    # Times without a zone are in UTC.
    zone = getattr(column.type, "tz", None)
    column = column.cast(pyarrow.timestamp("us", zone), safe=False)
    return column if zone else pyarrow.compute.assume_timezone(column, "UTC")


def _dtype_of_arrow(field: Any) -> str:
    from pyarrow import types

    if types.is_boolean(field.type):
        return "boolean"
    if types.is_integer(field.type):
        return "integer"
    if types.is_floating(field.type) or types.is_decimal(field.type):
        return "float"
    if types.is_string(field.type) or types.is_large_string(field.type):
        return "string"
    raise TriptychError(f"column `{field.name}` is of type {field.type}, expected numbers, texts or booleans")


def _cast(table: Any, types: dict[str, str]) -> Any:
    """Returns `table` with columns of the stored types."""
    import pyarrow

    arrow = {"float": pyarrow.float64(), "integer": pyarrow.int64(), "string": pyarrow.string()}
    for at, name in enumerate(table.column_names):
        wanted = arrow.get(types.get(name, ""))
        if wanted is None or table.schema.field(name).type == wanted:
            continue
        try:
            column = table[name].cast(wanted)
        except pyarrow.ArrowInvalid as error:
            raise TriptychError(f"column `{name}` is stored as {types[name]}: {error}") from None
        table = table.set_column(at, name, column)
    return table


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def _dicts_of(frame: Frame, time: str) -> Any:
    """Returns the rows of a frame, or of what has rows already, as dicts."""
    if hasattr(frame, "iter_rows"):  # polars
        return frame.iter_rows(named=True)
    if hasattr(frame, "to_dict"):  # pandas
        return _with_index(frame, time).to_dict("records")
    if isinstance(frame, dict):
        return [frame]
    return frame


def _normal_row(row: dict[str, Any], time: str, number: int) -> dict[str, Any]:
    """Returns a row with its time as text, plain values, and nothing in the place of missing ones."""
    if not isinstance(row, dict):
        raise TriptychError(f"row {number} is a {type(row).__name__}, expected a dict")
    if time not in row:
        raise TriptychError(_no_time(time, row))
    try:
        normal = {"timestamp": _time.text(row[time])}
    except TriptychError as error:
        raise TriptychError(f"row {number}: {error}") from None
    for name, value in row.items():
        value = value.item() if hasattr(value, "item") else value
        if name != time and value is not None and value == value:
            normal[name] = value
    return normal


def _dtypes_of_rows(rows: list[dict[str, Any]]) -> dict[str, str]:
    types: dict[str, str] = {}
    for row in rows:
        for name, value in row.items():
            if name == "timestamp":
                continue
            dtype = _dtype_of_value(name, value)
            known = types.setdefault(name, dtype)
            if known != dtype:
                if {known, dtype} != {"integer", "float"}:
                    raise TriptychError(f"column `{name}` has both {known} and {dtype} values")
                types[name] = "float"
    return types


def _dtype_of_value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, str):
        return "string"
    if hasattr(value, "__float__"):
        return "float"
    raise TriptychError(f"column `{name}` has a {type(value).__name__}, expected numbers, texts or booleans")


def _line(row: dict[str, Any], types: dict[str, str]) -> str:
    def plain(name: str, value: Any) -> Any:
        if types.get(name) == "float":
            return float(value)
        if types.get(name) == "integer" and isinstance(value, float) and value.is_integer():
            return int(value)
        return value

    shown = {name: plain(name, value) for name, value in row.items()}
    infinite = [name for name, value in shown.items() if isinstance(value, float) and math.isinf(value)]
    if infinite:
        raise TriptychError(f"column `{infinite[0]}` has an infinite value at {row['timestamp']}")
    return json.dumps(shown, ensure_ascii=False) + "\n"


def _no_time(time: str, names: Iterable[str]) -> str:
    return f"there is no column `{time}` among {', '.join(names)}: name the column of times with time="


