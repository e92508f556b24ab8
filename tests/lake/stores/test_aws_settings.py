"""Profiles of the AWS command line: they open S3 where nothing nearer says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from metastore.lake.stores.objects.aws_settings import with_profile

KEYS = {"s3.access-key-id": "AKIA", "s3.secret-access-key": "se%cret"}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A home with profiles ``default`` and ``other``."""
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = AKIA\naws_secret_access_key = se%cret\n"
        "[other]\naws_access_key_id = OTHER\naws_secret_access_key = x\naws_session_token = t\n"
    )
    (tmp_path / ".aws/config").write_text("[default]\nregion = eu-west-1\n[profile other]\nregion = eu-west-2\n")
    return {"HOME": str(tmp_path)}


def test_a_profile_is_the_last_word(environ: dict[str, str]) -> None:
    """Keys and region come from it, each only where neither a key nor a variable has it."""
    assert with_profile({}, environ) == {**KEYS, "s3.region": "eu-west-1"}
    other = with_profile({}, {**environ, "AWS_PROFILE": "other"})
    assert (other["s3.access-key-id"], other["s3.session-token"], other["s3.region"]) == ("OTHER", "t", "eu-west-2")
    assert with_profile({"s3.region": "x"}, environ) == {**KEYS, "s3.region": "x"}
    mine = {"s3.access-key-id": "mine", "s3.secret-access-key": "m"}
    assert with_profile(mine, environ) == {**mine, "s3.region": "eu-west-1"}
    assert with_profile({"s3.anonymous": "true"}, environ) == {"s3.anonymous": "true", "s3.region": "eu-west-1"}
    assert with_profile({}, {**environ, "AWS_ACCESS_KEY_ID": "v", "AWS_REGION": "r"}) == {}
    assert with_profile({}, {**environ, "AWS_CONTAINER_CREDENTIALS_FULL_URI": "u"}) == {"s3.region": "eu-west-1"}


def test_the_file_of_credentials_may_name_the_region(environ: dict[str, str], tmp_path: Path) -> None:
    """As for the AWS command line, it wins there."""
    with (tmp_path / ".aws/credentials").open("a") as file:
        file.write("region = eu-north-1\n")
    assert with_profile({}, {**environ, "AWS_PROFILE": "other"})["s3.region"] == "eu-north-1"


def test_what_is_no_profile_adds_nothing(environ: dict[str, str], tmp_path: Path) -> None:
    """A profile that is not there, files that are not there, and one that is no INI file."""
    assert with_profile({}, {**environ, "AWS_PROFILE": "none"}) == {}
    assert with_profile({}, {"HOME": str(tmp_path / "elsewhere")}) == {}
    (tmp_path / "odd").write_bytes(b"\xff[[")
    odd = str(tmp_path / "odd")
    assert with_profile({}, {"HOME": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": odd, "AWS_CONFIG_FILE": odd}) == {}
