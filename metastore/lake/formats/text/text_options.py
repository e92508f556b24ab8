"""How delimited text is written: the options of Spark's and Drill's readers, under the names of both.

Options come from ``ANALYZE … (format => 'csv', delimiter => ';')``, from a workspace, or from a plugin's ``formats``
block, and are sent to tasks as plain data. Defaults are Spark's, with two exceptions: files have a header line by
default, and quoted line breaks are always read.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from metastore.errors import InvalidRequestError
from metastore.lake.formats.text.text_patterns import moment_pattern


@dataclass(frozen=True)
class TextOptions:
    """Options of delimited text. An empty text means none.

    ``delimiter``: one character; empty for the format's. ``quote`` encloses fields; ``escape`` precedes a quote within
    quotes (a doubled quote is always read as one). Lines that begin with ``comment`` are skipped. ``header``: the first
    line has the names. ``skip_lines``: the number of lines before it to skip. ``null_value``: the content of an
    unquoted field without a value. ``date_format`` and ``timestamp_format``: patterns such as ``dd.MM.yyyy``.
    ``multi_line``: quoted fields may hold line breaks. ``names`` is not an option: it has the columns of files without
    a header line, if they are declared.
    """

    delimiter: str = ""
    quote: str = '"'
    escape: str = "\\"
    comment: str = ""
    header: bool = True
    skip_lines: int = 0
    null_value: str = ""
    encoding: str = "UTF-8"
    date_format: str = ""
    timestamp_format: str = ""
    multi_line: bool = True
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TextOptions:
        """Returns the options that ``options`` has, under any of their names, in any case.

        Raises InvalidRequestError for an unknown option, for one that is given twice, and for an invalid value.
        """
        values: dict[str, Any] = {}
        for name, value in options.items():
            if name.lower().replace("_", "") in _LINE_ENDS:
                if str(value) not in ("\n", "\r\n", "\r", "\\n", "\\r\\n", "\\r"):
                    raise _refusal(name, value, "a line break, in any of its three spellings,")
                continue
            option = _NAMES.get(name.lower().replace("_", ""))
            if option == "header" and name.lower() != "header" and "header" in values:
                del values["header"]  # Drill's name for it was given, so the default does not apply
            if option is None:
                raise InvalidRequestError(
                    f"there is no option {name!r} of text; known are {', '.join(dict.fromkeys(_NAMES.values()))}"
                )
            if option in values:
                raise InvalidRequestError(f"the option {option} of text is given twice, once as {name!r}")
            values[option] = _value(option, name, value)
        return cls(**values)

    @property
    def changed_options(self) -> dict[str, Any]:
        """Returns the options that differ from their defaults, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    def to_json(self) -> str:
        """Returns the options that differ from their defaults, as JSON; empty for none."""
        return json.dumps(self.changed_options, sort_keys=True) if self.changed_options else ""

    @classmethod
    def from_json(cls, text: str | None) -> TextOptions:
        """Reads the result of :meth:`to_json`."""
        values = json.loads(text) if text else {}
        return cls(**{**values, "names": tuple(values.get("names", ()))})


DEFAULTS: Final = TextOptions()

_NAMES: Final[Mapping[str, str]] = {
    **{field.name.replace("_", ""): field.name for field in fields(TextOptions) if field.name != "names"},
    "sep": "delimiter",
    "fielddelimiter": "delimiter",
    "extractheader": "header",
    "skipfirstline": "skip_lines",
    "skip": "skip_lines",
    "charset": "encoding",
}
"""Spark's and Drill's names of the options, without underscores and in lower case."""
_LINE_ENDS: Final = ("linedelimiter", "linesep")
"""Line breaks of every kind are recognized, so these options are accepted and have no effect."""
_FLAGS: Final = {"true": True, "false": False}


def is_option(name: str) -> bool:
    """Whether a text option called ``name`` exists, in any case."""
    plain = name.lower().replace("_", "")
    return plain in _NAMES or plain in _LINE_ENDS


def _value(option: str, name: str, value: Any) -> Any:
    """The value of an option in its type; InvalidRequestError under the ``name`` that was written."""
    if option in ("header", "multi_line"):
        flag = _FLAGS.get(str(value).lower())
        if flag is None:
            raise _refusal(name, value, "true or false")
        return flag
    if option == "skip_lines":
        return _lines(name, value)
    text = str(value)
    match option:
        case "delimiter" | "quote" | "escape" | "comment":
            return _character(option, name, text)
        case "encoding":
            return _encoding(name, text)
        case "date_format" | "timestamp_format" if text:
            moment_pattern(text)
    return text


def _lines(name: str, value: Any) -> int:
    text = str(value).lower()
    if text in _FLAGS:  # Drill's skipFirstLine
        return int(_FLAGS[text])
    if not text.isdecimal():
        raise _refusal(name, value, "a number of lines")
    return int(text)


def _character(option: str, name: str, text: str) -> str:
    text = {"\\t": "\t", "\\0": "", "\\\\": "\\", "\u0000": ""}.get(text, text)
    if (option == "delimiter" and len(text) != 1) or len(text) > 1 or not text.isascii():
        raise _refusal(name, text, "one character of ASCII")
    if text in ("\n", "\r"):
        raise _refusal(name, text, "anything but a line break")
    return text


def _encoding(name: str, text: str) -> str:
    try:
        codecs.lookup(text)
    except LookupError as error:
        raise _refusal(name, text, "an encoding such as UTF-8, UTF-16, ISO-8859-1 or windows-1252") from error
    return text


def _refusal(name: str, value: object, expected: str) -> InvalidRequestError:
    return InvalidRequestError(f"{value!r} is no value of the text option {name}: {expected} is expected")
