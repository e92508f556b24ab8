"""What a secret is: by its name, by its form, and by its value once a configuration held it."""

from __future__ import annotations

import copy
import json
import pickle
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import StorageError
from metastore.redaction import (
    HIDDEN,
    names_secret,
    redact_value,
    remember,
    remember_environment,
    secrets_in,
    showable,
    without_secrets,
)

NAMES = [
    "password",
    "spark.ssl.keyPassword",
    "javax.net.ssl.trustStorePassword",
    "db.pass",
    "pwd",
    "passphrase",
    "fs.s3a.secret.key",
    "s3.secret-access-key",
    "s3.access-key-id",
    "s3.session-token",
    "client.secret-access-key",
    "token",
    "daemon.http.token",
    "credential",
    "fs.azure.account.key.box.dfs.core.windows.net",
    "fs.azure.sas.fixed.token.box.dfs.core.windows.net",
    "fs.azure.sas.box",
    "fs.azure.account.oauth2.client.secret",
    "adls.account-key",
    "adls.sas-token",
    "adls.client-secret",
    "adls.connection-string",
    "adls.token",
    "gcs.oauth2.token",
    "gcs.service-account-json",
    "fs.gs.auth.service.account.private.key",
    "header.Authorization",
    "header.X-Api-Key",
    "header.Cookie",
    "api_key",
    "fs.s3a.encryption.key",
    "hdfs.delegation-token",
    "basic.auth",
    "sasl.jaas.config",
    "spark.authenticate.secret",
    "AWS_SECRET_ACCESS_KEY",
    "PGPASSWORD",
    "storage_key",
    "shared-access-signature",
    "X-Amz-Signature",
    "sig",
]
HARMLESS = [
    "uri",
    "warehouse",
    "user",
    "fs.s3a.endpoint",
    "fs.s3a.aws.credentials.provider",
    "fs.azure.account.oauth.provider.type",
    "fs.azure.account.oauth2.client.endpoint",
    "fs.azure.account.oauth2.refresh.token.endpoint",
    "oauth2-server-uri",
    "scope",
    "fs.gs.auth.service.account.json.keyfile",
    "token-refresh-enabled",
    "gcs.oauth2.token-expires-at",
    "s3.region",
    "table.name",
    "spark.executor.memory",
    "hadoop.security.credential.provider.path",
    "design.id",
    "passenger",
    "compass",
    "sasquatch",
]
FORMS = [
    "postgresql+psycopg2://ann:{}@host/db",
    "jdbc:postgresql://host/db?user=ann&password={}",
    "jdbc:sqlserver://host;databaseName=db;password={};encrypt=true",
    "jdbc:oracle:thin:scott/{}@//host:1521/db",
    "https://{}@git.example/x",
    "https://box.blob/x?sv=1&sig={}&se=2",
    "https://box.s3/x?X-Amz-Credential={}&X-Amz-Date=1",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
    "BlobEndpoint=https://a.example;SharedAccessSignature=sv=1&sig={}",
    "-Xmx1g -Djavax.net.ssl.trustStorePassword={} -Dx=y",
    "http://namenode:9870/webhdfs/v1/x?op=OPEN&delegation={}&offset=0",
    "refused: {{'Authorization': 'Bearer {}'}}",
    "Authorization: Basic {}",
    '{{"private_key": "{}", "type": "service_account"}}',
    "fs.s3a.secret.key = {}",
    """SET PROPERTIES "fs.s3a.secret.key" = '{}'""",
    "--token {}",
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
]
SECRET = "hUnter2+f7"


@pytest.mark.parametrize("name", NAMES)
def test_these_names_tell_a_secret(name: str) -> None:
    """Names of Hadoop, PyIceberg, Spark, Java, clouds and shells."""
    assert names_secret(name)
    assert redact_value(name, SECRET) == HIDDEN


@pytest.mark.parametrize("name", HARMLESS)
def test_these_names_tell_none(name: str) -> None:
    """Where a secret is, who gives it and until when it is good may be shown: people look for errors there."""
    assert not names_secret(name)
    assert redact_value(name, "as it is") == "as it is"


@pytest.mark.parametrize("form", FORMS)
def test_a_form_tells_a_secret(form: str) -> None:
    """Whatever the name it stands under. Hiding twice changes nothing more."""
    text = form.format(SECRET)
    hidden = without_secrets(text)
    assert SECRET not in hidden
    assert HIDDEN in hidden
    assert without_secrets(hidden) == hidden
    assert SECRET in "".join(secrets_in({"connection": text}))


def test_text_without_secrets_stays() -> None:
    """Messages name keys, columns, conditions and stores."""
    for text in (
        "abfss://container@account.dfs.core.windows.net/x cannot be read",
        "column token of dfs.w.t is not a number; token = 5 compares it with one",
        "drill.metastore.daemon.http.token is missing: set one, or set the host to 127.0.0.1",
        "no token: a token is needed",
        "s3://bucket/key=1/part-0.parquet at 2026-11-25T10:00:00Z",
    ):
        assert without_secrets(text) == text


def test_a_remembered_value_appears_in_no_error() -> None:
    """Also escaped as URIs and JSON have it, in another process, and in what a pickle holds."""
    value = 'c0nfigured/"value" +=1'
    remember({"fs.s3a.secret.key": value})
    for spelling in (value, quote(value, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1]):
        error = StorageError(f"the store said: {spelling} is wrong")
        assert str(error) == f"the store said: {HIDDEN} is wrong"
        assert b"c0nfigured" not in pickle.dumps(error)
        assert str(copy.copy(error)) == str(error)


def test_the_environment_has_secrets_and_folders() -> None:
    """PWD is where a shell stands, and no password; a file with credentials is told by its path."""
    remember_environment(
        {"PGPASSWORD": "env-s3cret", "PWD": "/jobs/of/all", "OLDPWD": "/jobs/before", "HOME": "/home/x"}
    )
    remember_environment({"GOOGLE_APPLICATION_CREDENTIALS": "/etc/keys/account.json"})
    text = "/jobs/of/all/site.conf, /jobs/before, /etc/keys/account.json"
    assert without_secrets(f"{text} and env-s3cret") == f"{text} and {HIDDEN}"


def test_parts_of_a_remembered_value_are_secrets_too() -> None:
    """A library repeats the password of a URI, the key of a connection string, the secret behind a client's name."""
    remember({"uri": "postgresql://ann:ur1-passw%2Frd@host/db", "x.credential": "client:cr3d-ential"})
    remember({"adls.connection-string": "AccountName=a;AccountKey=c0nn-key==", "spark.opts": "-Da.password=0pt-ion"})
    for secret in ("ur1-passw%2Frd", "ur1-passw/rd", "cr3d-ential", "c0nn-key==", "0pt-ion"):
        assert without_secrets(f"said '{secret}'") == f"said '{HIDDEN}'"


def test_an_everyday_word_is_hidden_where_it_stands_alone() -> None:
    """A password that is a word must not make messages unreadable."""
    remember({"password": "floccus"})
    assert without_secrets("floccus.metastore.x, /floccus/y, floccusses and 'floccus'") == (
        f"floccus.metastore.x, /floccus/y, floccusses and '{HIDDEN}'"
    )


def test_a_cause_with_a_secret_is_not_shown() -> None:
    """A traceback would repeat it; a harmless cause stays."""
    remember({"token": "c4use-of-it"})
    inner = OSError("refused c4use-of-it")
    outer = ValueError("no")
    outer.__cause__ = inner
    assert showable(outer) is None
    assert showable(inner) is None
    assert showable(harmless := OSError("no answer")) is harmless


@given(st.text(max_size=60))
def test_any_text_can_be_searched(text: str) -> None:
    """Whatever it holds, nothing is raised, and a secret within it is gone."""
    assert "Xq7" not in without_secrets(f"{text} password=Xq7 {text}")
