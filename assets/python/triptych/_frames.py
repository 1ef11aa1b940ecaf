"""DataFrames of pandas, polars or Arrow: made of responses, and read for inserts."""

from __future__ import annotations

import functools
import importlib.util
import io
import json
import math
import numbers
import os
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from . import _time
from ._errors import TriptychError

MODULES = {"pandas": ("pandas", "pyarrow"), "polars": ("polars",), "arrow": ("pyarrow",)}
PARQUET = "application/vnd.apache.parquet"
NDJSON = "application/x-ndjson"
NUMPY_TIMES = ("datetime64", "timedelta64")
# Times that rows can have, in microseconds: from the year 0 to before 9999-12-30.
EARLIEST, TOO_LATE = -62_167_219_200_000_000, 253_402_128_000_000_000
OUT_OF_RANGE = "is not in the years 0 to 9999, up to 9999-12-29"
TEXT_BYTES_MAX, ROW_TEXT_BYTES_MAX = 10_000, 16_384
LONG_TEXTS = f"all texts of a row have more than {ROW_TEXT_BYTES_MAX} bytes"

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
    if name == "polars":
        import polars

        return polars.read_parquet(file, columns=columns)
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(file, columns=columns)
    return _pandas_of(table) if name == "pandas" else table


def from_rows(rows: list[dict[str, Any]], name: str, kinds: dict[str, str] | None = None) -> Frame:
    """Returns `rows` as a frame of the library `name`.

    Args:
        rows: Rows with the same keys.
        name: Library of the frame.
        kinds: "text", "integer", "float" or "time" by column. These columns have their types even without
            values. Others follow them, with the types of their values.
    """
    kinds = kinds or {}
    columns: dict[str, list[Any]] = {
        column: [row.get(column) for row in rows] for column in {**kinds, **(rows[0] if rows else {})}
    }
    for column, kind in kinds.items():
        if kind == "time":
            columns[column] = [None if at is None else _time.parse(at) for at in columns[column]]
    if name == "polars":
        import polars

        dtypes: dict[str, Any] = {
            "text": polars.String, "integer": polars.Int64, "float": polars.Float64,
            "time": polars.Datetime("us", "UTC"),
        }
        return polars.DataFrame([
            polars.Series(column, found, dtypes.get(kinds.get(column, "")), strict=False)
            for column, found in columns.items()
        ])
    import pyarrow

    types = {
        "text": pyarrow.string(), "integer": pyarrow.int64(), "float": pyarrow.float64(),
        "time": pyarrow.timestamp("us", "UTC"),
    }
    table = pyarrow.table({
        column: pyarrow.array(found, types.get(kinds.get(column, "")))
        for column, found in columns.items()
    })
    return _pandas_of(table) if name == "pandas" else table


def _pandas_of(table: Any) -> Frame:
    """Returns an Arrow table as a pandas frame, with nullable dtypes where integers or booleans are missing.

    Other dtypes would make such columns rounded floats or objects.
    """
    import pandas
    import pyarrow

    frame = table.to_pandas()
    nullable = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
    for name, column in zip(table.column_names, table.columns):
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame


def part(frame: Frame, begin: int, end: int, name: str) -> Frame:
    """Returns a copy of the rows from `begin` to before `end`.

    A slice would share its memory with the rows after `end`.
    """
    if name == "pandas":
        import numpy

        return frame.take(numpy.arange(begin, end)).reset_index(drop=True)
    if name == "polars":
        import polars

        return frame[polars.int_range(begin, end, eager=True)]
    import pyarrow

    # The filter copies the values, also texts, without numpy.
    return frame.slice(begin, end - begin).filter(pyarrow.repeat(True, end - begin))


def values(frame: Frame, column: str) -> list[Any]:
    """Returns a column as a list. A missing value is `None`."""
    if column not in (frame.column_names if hasattr(frame, "column_names") else list(frame.columns)):
        return []
    found = frame[column]
    return [_plain(one) for one in (found.to_pylist() if hasattr(found, "to_pylist") else found.to_list())]


def reversed_rows(frame: Frame, name: str) -> Frame:
    """Returns the rows in the opposite order."""
    if name == "pandas":
        return frame.iloc[::-1].reset_index(drop=True)
    if name == "polars":
        return frame.reverse()
    import pyarrow

    return frame.take(pyarrow.array(range(len(frame) - 1, -1, -1), pyarrow.int64()))


class Rows:
    """Rows to insert: their columns, and bodies of requests.

    Attributes:
        columns: Types of the columns by name, without `timestamp`.
        content_type: Media type of the bodies.
    """

    def __init__(self, frame: Frame, time: str = "timestamp") -> None:
        _check_frame(frame)
        table = _arrow_of(frame, time)
        if table is not None:
            self.content_type = PARQUET
            self._table = _normal_table(table, time, _without_duplicates(frame, time))
            fields = [field for field in self._table.schema if field.name != "timestamp"]
            self.columns = {field.name: _dtype_of_arrow(field) for field in fields}
        else:
            self.content_type = NDJSON
            self._table = None
            self._rows = _normal_rows(_dicts_of(frame, time), time, _without_duplicates(frame, time))
            self.columns = _dtypes_of_rows(self._rows)

    def __len__(self) -> int:
        return len(self._rows if self._table is None else self._table)

    def cast(self, types: dict[str, str]) -> None:
        """Converts the values to the stored types of their columns."""
        if self._table is None:
            self._rows = [_cast_row(row, types) for row in self._rows]
        else:
            self._table = _cast(self._table, types)

    def bodies(self, rows_max: int) -> Iterator[bytes]:
        """Yields bodies of up to `rows_max` rows."""
        for begin in range(0, len(self), rows_max):
            if self._table is None:
                some = self._rows[begin : begin + rows_max]
                yield "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in some).encode()
            else:
                yield _parquet(self._table.slice(begin, rows_max))


def _library(frame: Frame) -> str:
    """Returns the library that the class of `frame` or one of its bases is from, "" if there is none."""
    modules = (base.__module__.partition(".")[0] for base in type(frame).__mro__)
    return next((module for module in modules if module in ("pandas", "polars", "pyarrow")), "")


def _check_frame(frame: Frame) -> None:
    """Raises an error if `frame` is neither a frame with distinct column names nor iterable."""
    library, name = _library(frame), type(frame).__name__
    if library in ("pandas", "polars") and "DataFrame" not in (base.__name__ for base in type(frame).__mro__):
        hint = {"Series": '.to_frame("value")', "LazyFrame": ".collect()"}.get(name)
        raise TriptychError(
            f"the rows are a {name} of {library}: pass a DataFrame" + (f", made with {hint}" if hint else "")
        )
    if library in ("pandas", "polars"):
        columns = frame.columns
    elif hasattr(frame, "schema"):
        columns = frame.schema.names
    elif isinstance(frame, Iterable):
        return
    else:
        raise TriptychError(f"{frame!r:.80} has no rows: pass a DataFrame, an Arrow table or dicts")
    if getattr(columns, "nlevels", 1) > 1:
        flat = "frame.columns = ['_'.join(names) for names in frame.columns]"
        raise TriptychError(f"the names of the columns have several levels: join them, such as with {flat}")
    twice = duplicate(map(str, columns))
    if twice is not None:
        raise TriptychError(f"several columns are called `{twice}`: rename or drop all but one")


def duplicate(values: Iterable[Any]) -> Any:
    """Returns the first value that occurred before; `None` if all are distinct."""
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def _without_duplicates(frame: Frame, time: str) -> str:
    """Returns a hint how to keep one row of each time."""
    library = _library(frame)
    if library == "polars":
        return f': keep one of them, such as with frame.unique("{time}", keep="last", maintain_order=True)'
    if library != "pandas":
        return ": keep one of them"
    if time in frame.columns:
        return f': keep one of them, such as with frame.drop_duplicates("{time}", keep="last")'
    return ': keep one of them, such as with frame[~frame.index.duplicated(keep="last")]'


def _duplicate_error(
    rows: tuple[int, int], stored: str, given: tuple[str, str] | None, hint: str
) -> TriptychError:
    """Returns the error for two rows with the timestamp `stored`, which `given` are converted to."""
    error = f"rows {rows[0]} and {rows[1]} have the same timestamp {stored}"
    if given is None:
        return TriptychError(error + hint)
    return TriptychError(
        f"{error}, since timestamps are stored in microseconds: {given[0]} and {given[1]} are "
        "the same, so keep one of them"
    )


def _arrow_of(frame: Frame, time: str) -> Any:
    """Returns a frame as an Arrow table; `None` if it is no frame, or pyarrow is not installed."""
    library = _library(frame)
    if not library or importlib.util.find_spec("pyarrow") is None:
        return None
    import pyarrow

    if library == "pandas":
        return _arrow_of_pandas(_with_index(frame, time))
    try:
        return frame.to_arrow() if library == "polars" else pyarrow.table(frame)
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise TriptychError(
            f"the {type(frame).__name__} cannot be read ({error}): pass a table with columns of numbers, "
            "texts or booleans"
        ) from error


def _arrow_of_pandas(frame: Frame) -> Any:
    import pyarrow

    try:
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    except Exception:
        # Errors of several kinds, of which some do not name the column.
        for name in frame.columns:
            try:
                pyarrow.Table.from_pandas(frame[[name]], preserve_index=False)
            except Exception as error:
                reason = error.args[0] if isinstance(error, pyarrow.ArrowException) else error
                raise TriptychError(
                    f"column `{name}` has values of several types or of an unknown one ({reason}): convert "
                    f"it to numbers, texts or booleans, such as with frame[{name!r}].astype(str)"
                ) from error
        raise


def _with_index(frame: Frame, time: str) -> Frame:
    """Returns a pandas frame whose index is its column `time`, if it has times and no such column."""
    if time in frame.columns or frame.index.dtype.kind != "M":
        return frame
    return frame.rename_axis(index=time).reset_index()


def _normal_table(table: Any, time: str, hint: str) -> Any:
    """Returns `table` with its times in UTC as `timestamp`, NaN as null, and no empty column."""
    import pyarrow
    import pyarrow.compute

    _check_time(time, table.column_names)
    names, columns = ["timestamp"], [_arrow_times(_decoded(table[time]), time, hint)]
    for field, column in zip(table.schema, table.columns):
        if field.name == time or pyarrow.types.is_null(field.type):
            continue
        column = _decoded(column)
        if pyarrow.types.is_floating(column.type):
            column = pyarrow.compute.if_else(pyarrow.compute.is_nan(column), None, column)
        names.append(field.name)
        columns.append(column)
    return pyarrow.table(columns, names=names)


def _decoded(column: Any) -> Any:
    """Returns a column without a dictionary, and with texts of a type that Parquet files can have."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pyarrow.string()) if str(column.type) == "string_view" else column


def _arrow_times(given: Any, name: str, hint: str) -> Any:
    """Returns the column of times in UTC, in microseconds and distinct."""
    import pyarrow
    import pyarrow.compute

    if given.null_count:
        at = given.is_null().to_pylist().index(True)
        raise TriptychError(f"row {at} has no {name}: fill it in or drop the row")
    column = given
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        parsed = [_time.parse(text) for text in column.to_pylist()]
        column = pyarrow.array(parsed, pyarrow.timestamp("us", "UTC"))
    if pyarrow.types.is_timestamp(column.type):
        # Times without a zone are in UTC.
        column = column.cast(pyarrow.timestamp(column.type.unit))
        if column.type.unit == "ns":
            column = pyarrow.compute.floor_temporal(column, unit="microsecond")
    elif not pyarrow.types.is_date(column.type):
        raise TriptychError(f"column `{name}` is of type {column.type}, not of times: see pandas.to_datetime")
    try:
        column = column.cast(pyarrow.timestamp("us"))
    except pyarrow.ArrowInvalid as error:
        raise TriptychError(f"column `{name}` has a time that is too early or too late: {error}") from error
    micros = column.cast(pyarrow.int64())
    is_in_range = pyarrow.compute.and_(
        pyarrow.compute.greater_equal(micros, EARLIEST), pyarrow.compute.less(micros, TOO_LATE)
    )
    at = pyarrow.compute.index(is_in_range, False).as_py()
    if at >= 0:
        raise TriptychError(f"row {at}: the time in `{name}` {OUT_OF_RANGE}")
    if len(column.unique()) < len(column):
        raise _arrow_duplicate(column, given, hint)
    return pyarrow.compute.assume_timezone(column, "UTC")


def _arrow_duplicate(column: Any, given: Any, hint: str) -> TriptychError:
    """Returns the error for the first time in `column` that occurred before."""
    import pyarrow

    micros = column.cast(pyarrow.int64()).to_pylist()
    repeated = duplicate(micros)
    first = micros.index(repeated)
    rows = (first, micros.index(repeated, first + 1))
    if pyarrow.types.is_timestamp(given.type):
        given = given.cast(pyarrow.timestamp(given.type.unit))
    texts = [given.slice(row, 1).cast(pyarrow.string())[0].as_py() for row in rows]
    shown = None if texts[0] == texts[1] else (texts[0], texts[1])
    return _duplicate_error(rows, _stored_time(column, first), shown, hint)


def _stored_time(times: Any, row: int) -> str:
    """Returns a time of a column in UTC as services write it."""
    import pyarrow

    text: str = times.slice(row, 1).cast(pyarrow.timestamp("us")).cast(pyarrow.string())[0].as_py()
    return text.replace(" ", "T").removesuffix("000000").rstrip(".") + "Z"


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
    """Returns `table` with columns of the stored types.

    Raises:
        TriptychError: If a value does not fit, or if the service would reject it.
    """
    import pyarrow

    arrow = {
        "float": pyarrow.float64(), "integer": pyarrow.int64(), "string": pyarrow.string(),
        "boolean": pyarrow.bool_(),
    }
    for at, name in enumerate(table.column_names):
        wanted = arrow.get(types.get(name, ""))
        column = table[name]
        if wanted is None:
            continue
        is_number = pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)
        try:
            if column.null_count == len(column):
                column = pyarrow.chunked_array([pyarrow.nulls(len(column), wanted)])
            elif types[name] == "string" and (is_number or pyarrow.types.is_boolean(column.type)):
                raise ValueError(f"convert its values of type {column.type} to texts")
            elif types[name] == "boolean" and column.type != wanted:
                raise ValueError(f"convert its values of type {column.type} to booleans")
            elif pyarrow.types.is_decimal(column.type) and types[name] == "float":
                # A cast of Arrow rounds silently, and not always to the nearest float.
                floats = [None if value is None else _float(value) for value in column.to_pylist()]
                column = pyarrow.chunked_array([floats], wanted)
            elif column.type != wanted:
                column = column.cast(wanted)
        except (pyarrow.ArrowException, ValueError) as error:
            raise TriptychError(f"column `{name}` is stored as {types[name]}: {error}") from error
        _check_values(name, column, table["timestamp"])
        table = table.set_column(at, name, column)
    texts = [column for column in table.columns if column.type == pyarrow.string()]
    lengths = [pyarrow.compute.fill_null(pyarrow.compute.binary_length(text), 0) for text in texts]
    if lengths:
        total = functools.reduce(pyarrow.compute.add, lengths)
        at = pyarrow.compute.index(pyarrow.compute.greater(total, ROW_TEXT_BYTES_MAX), True).as_py()
        if at >= 0:
            raise TriptychError(f"{LONG_TEXTS} at {_stored_time(table['timestamp'], at)}")
    return table


def _check_values(name: str, column: Any, times: Any) -> None:
    """Raises an error if a value is infinite or too long."""
    import pyarrow
    import pyarrow.compute

    if column.type == pyarrow.float64():
        unfit, reason = pyarrow.compute.is_inf(column), "an infinite value"
    elif column.type == pyarrow.string():
        unfit = pyarrow.compute.greater(pyarrow.compute.binary_length(column), TEXT_BYTES_MAX)
        reason = f"a text of more than {TEXT_BYTES_MAX} bytes"
    else:
        return
    at = pyarrow.compute.index(unfit, True).as_py()
    if at >= 0:
        raise TriptychError(f"column `{name}` has {reason} at {_stored_time(times, at)}")


def _float(value: Any) -> float:
    """Returns a number as a float.

    Raises:
        ValueError: If it is an integer or a decimal number with more digits than a float has.
    """
    number = float(value)
    exact = Decimal(repr(number)) if isinstance(value, Decimal) else number
    if isinstance(value, (int, Decimal)) and exact != value:
        raise ValueError(
            f"{value} has more digits than a float: convert the column to floats to round it, or to texts "
            "to keep all digits"
        )
    return number


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


def _normal_rows(dicts: Iterable[dict[str, Any]], time: str, hint: str) -> list[dict[str, Any]]:
    """Returns rows with distinct times."""
    rows: list[dict[str, Any]] = []
    seen: dict[str, tuple[int, Any]] = {}
    for number, row in enumerate(dicts):
        rows.append(_normal_row(row, time, number))
        stored = rows[-1]["timestamp"]
        first, given = seen.setdefault(stored, (number, row[time]))
        if first != number:
            texts = None if given == row[time] else (str(given), str(row[time]))
            raise _duplicate_error((first, number), stored, texts, hint)
    return rows


def _normal_row(row: dict[str, Any], time: str, number: int) -> dict[str, Any]:
    """Returns a row with its time as text, plain values, and nothing in the place of missing ones."""
    if not isinstance(row, dict):
        raise TriptychError(f"row {number} is a {type(row).__name__}, expected a dict")
    _check_time(time, row)
    try:
        normal = {"timestamp": _time.text(row[time])}
    except TriptychError as error:
        raise TriptychError(f"row {number}: {error}") from error
    if normal["timestamp"] >= "9999-12-30":
        raise TriptychError(f"row {number}: the time in `{time}` {OUT_OF_RANGE}")
    for name, value in row.items():
        value = _plain(value)
        if name != time and value is not None:
            normal[str(name)] = value
    return normal


def _plain(value: Any) -> Any:
    """Returns a value of numpy as one of Python, and a missing value as `None`."""
    # `item` of a time in nanoseconds is an integer.
    if hasattr(value, "item") and type(value).__name__ not in NUMPY_TIMES:
        try:
            value = value.item()
        except (RuntimeError, TypeError, ValueError):
            return value  # An array
    try:
        return value if bool(value == value) else None
    except (ArithmeticError, TypeError, ValueError):
        return None if type(value).__name__ == "NAType" else value


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
                    both = f"both {known} and {dtype} values"
                    raise TriptychError(f"column `{name}` has {both}: convert them to one type")
                types[name] = "float"
    return types


def _dtype_of_value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, str):
        return "string"
    # A numpy.timedelta64 counts as an integer in Python.
    if isinstance(value, (numbers.Real, Decimal)) and type(value).__name__ not in NUMPY_TIMES:
        return "float"
    raise TriptychError(f"column `{name}` has a {type(value).__name__}, expected numbers, texts or booleans")


def _cast_row(row: dict[str, Any], types: dict[str, str]) -> dict[str, Any]:
    """Returns a row with values of the stored types."""
    cast: dict[str, Any] = {}
    n_text_bytes = 0
    for name, value in row.items():
        dtype = types.get(name)
        try:
            if dtype in ("float", "integer") and isinstance(value, str) and "_" in value:
                raise ValueError(f"{value!r:.80} is not a number")  # Python would ignore the "_".
            if dtype == "float":
                value = _float(value)
                if math.isnan(value):  # From a text
                    continue
            elif dtype == "integer":
                whole = int(value)
                if not isinstance(value, str) and value != whole:
                    raise ValueError(f"{value} is not an integer")
                value = whole
            elif dtype == "string" and isinstance(value, (int, float)):
                raise ValueError(f"convert {value} to a text")
            elif dtype == "boolean" and not isinstance(value, bool):
                raise ValueError(f"convert {value!r:.80} to a boolean")
            elif isinstance(value, str):
                n_bytes = len(value.encode())  # Fails if it is not Unicode.
                n_text_bytes += n_bytes if name != "timestamp" else 0
            elif not isinstance(value, bool):
                value = str(value)
                n_text_bytes += len(value)
        except (ArithmeticError, ValueError) as error:
            raise TriptychError(f"column `{name}` is stored as {dtype}: {error}") from error
        reason = ""
        if isinstance(value, float) and math.isinf(value):
            reason = "an infinite value"
        elif isinstance(value, str) and len(value.encode()) > TEXT_BYTES_MAX:
            reason = f"a text of more than {TEXT_BYTES_MAX} bytes"
        elif dtype == "integer" and isinstance(value, int) and not -(2**63) <= value < 2**63:
            reason = "an integer of more than 64 bits"
        if reason:
            raise TriptychError(f"column `{name}` has {reason} at {row['timestamp']}")
        cast[name] = value
    if n_text_bytes > ROW_TEXT_BYTES_MAX:
        raise TriptychError(f"{LONG_TEXTS} at {row['timestamp']}")
    return cast


def _check_time(time: str, names: Iterable[Any]) -> None:
    """Raises an error if there is no column `time`, or if another column would take its place."""
    if time not in names:
        shown = ", ".join(map(str, names)) or "none"
        raise TriptychError(f"there is no column `{time}` among {shown}: name the column of times with time=")
    if time != "timestamp" and "timestamp" in names:
        raise TriptychError(f"column `timestamp` would replace the times in `{time}`: rename or drop it")
