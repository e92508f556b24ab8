"""Options of rewrite_data_files: what is taken, what it becomes, what is refused and how that is said."""

from __future__ import annotations

import pytest

from metastore.errors import InvalidRequestError
from metastore.lake.writes.limits import RewriteOptions
from metastore.procedures.rewrite.options import parse_options


def test_defaults_are_those_of_the_reference() -> None:
    """A target of 512 MB, three quarters and 180 percent of it as limits, five files at least."""
    assert parse_options({}, {}, "binpack") == RewriteOptions()
    assert RewriteOptions().min_bytes == 402653184
    assert RewriteOptions().max_bytes == 966367641


def test_limits_follow_the_target() -> None:
    """Whoever sets one size need not set the others."""
    options = parse_options({"target-file-size-bytes": "1000"}, {}, "binpack")
    assert (options.min_bytes, options.max_bytes) == (750, 1800)


def test_the_table_says_the_target_unless_the_call_does() -> None:
    """By the property that writers obey."""
    properties = {"write.target-file-size-bytes": "2000"}
    assert parse_options({}, properties, "binpack").target_bytes == 2000
    assert parse_options({"target-file-size-bytes": "1000"}, properties, "binpack").target_bytes == 1000


def test_as_many_commits_may_fail_as_there_may_be() -> None:
    """Unless the call says otherwise."""
    assert parse_options({"partial-progress.max-commits": "3"}, {}, "binpack").max_failed_commits == 3


def test_every_option_is_read() -> None:
    """Text to values, without regard to case where words are expected."""
    options = parse_options(
        {
            "target-file-size-bytes": "1000",
            "min-file-size-bytes": "0",
            "max-file-size-bytes": "1001",
            "min-input-files": "1",
            "rewrite-all": "TRUE",
            "max-file-group-size-bytes": "5",
            "max-file-group-input-files": "6",
            "delete-file-threshold": "7",
            "delete-ratio-threshold": "1.0",
            "output-spec-id": "0",
            "remove-dangling-deletes": "true",
            "max-files-to-rewrite": "8",
            "max-concurrent-file-group-rewrites": "9",
            "partial-progress.enabled": "true",
            "partial-progress.max-commits": "10",
            "partial-progress.max-failed-commits": "0",
            "use-starting-sequence-number": "false",
            "rewrite-job-order": "Bytes-ASC",
            "compression-factor": "0.5",
        },
        {},
        "sort",
    )
    assert options == RewriteOptions(
        1000, 0, 1001, 1, True, 5, 6, 7, 1.0, 0, True, 8, 9, True, 10, 0, False, "bytes-asc", 0.5
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"min-input-file": "5"},
            "has no option 'min-input-file' for strategy binpack; did you mean 'min-input-files'?",
        ),
        ({"shuffle-partitions-per-file": "5"}, "has no option 'shuffle-partitions-per-file'"),
        ({"compression-factor": "2"}, "has no option 'compression-factor' for strategy binpack"),
        ({"min-input-files": "many"}, "min-input-files must be a whole number, not 'many'"),
        ({"min-input-files": "0"}, "min-input-files must be at least 1, not 0"),
        ({"target-file-size-bytes": "0"}, "target-file-size-bytes must be at least 1"),
        ({"min-file-size-bytes": "-1"}, "min-file-size-bytes must be at least 0"),
        (
            {"target-file-size-bytes": "5", "min-file-size-bytes": "5"},
            "target-file-size-bytes (5) must be greater than min-file-size-bytes (5)",
        ),
        (
            {"target-file-size-bytes": "5", "max-file-size-bytes": "5"},
            "target-file-size-bytes (5) must be less than max-file-size-bytes (5)",
        ),
        ({"rewrite-all": "yes"}, "rewrite-all must be true or false, not 'yes'"),
        ({"delete-ratio-threshold": "0"}, "delete-ratio-threshold must be greater than 0"),
        ({"delete-ratio-threshold": "1.1"}, "delete-ratio-threshold must be at most 1"),
        ({"delete-ratio-threshold": "nan"}, "delete-ratio-threshold must be greater than 0"),
        ({"delete-ratio-threshold": "half"}, "delete-ratio-threshold must be a number"),
        ({"rewrite-job-order": "random"}, "rewrite-job-order must be one of none, bytes-asc"),
    ],
)
def test_what_is_no_option_is_refused_by_name(given: dict[str, str], message: str) -> None:
    """An option that were ignored would be believed to hold."""
    with pytest.raises(InvalidRequestError) as raised:
        parse_options(given, {}, "binpack")
    assert message in str(raised.value)
