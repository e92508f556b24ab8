"""A Hive Metastore 2.3 on Derby, from the jars of PySpark: for the session, on loopback, in a folder of its own.

``make hms`` (this module as a program) starts one for people, in a folder that may be kept between two starts.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest
from services.processes import BRIEFLY, free_port, serving

from metastore.engines.java import find_java

LOGGING = """
status = off
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
"""

LOCK_TABLES = """
CREATE TABLE TXNS (TXN_ID BIGINT PRIMARY KEY, TXN_STATE CHAR(1) NOT NULL, TXN_STARTED BIGINT NOT NULL,
  TXN_LAST_HEARTBEAT BIGINT NOT NULL, TXN_USER VARCHAR(128) NOT NULL, TXN_HOST VARCHAR(128) NOT NULL,
  TXN_AGENT_INFO VARCHAR(128), TXN_META_INFO VARCHAR(128), TXN_HEARTBEAT_COUNT INTEGER);
CREATE TABLE TXN_COMPONENTS (TC_TXNID BIGINT REFERENCES TXNS, TC_DATABASE VARCHAR(128) NOT NULL,
  TC_TABLE VARCHAR(128), TC_PARTITION VARCHAR(767), TC_OPERATION_TYPE CHAR(1) NOT NULL);
CREATE TABLE COMPLETED_TXN_COMPONENTS (CTC_TXNID BIGINT, CTC_DATABASE VARCHAR(128) NOT NULL, CTC_TABLE VARCHAR(256),
  CTC_PARTITION VARCHAR(767));
CREATE TABLE NEXT_TXN_ID (NTXN_NEXT BIGINT NOT NULL);
INSERT INTO NEXT_TXN_ID VALUES (1);
CREATE TABLE HIVE_LOCKS (HL_LOCK_EXT_ID BIGINT NOT NULL, HL_LOCK_INT_ID BIGINT NOT NULL, HL_TXNID BIGINT,
  HL_DB VARCHAR(128) NOT NULL, HL_TABLE VARCHAR(128), HL_PARTITION VARCHAR(767), HL_LOCK_STATE CHAR(1) NOT NULL,
  HL_LOCK_TYPE CHAR(1) NOT NULL, HL_LAST_HEARTBEAT BIGINT NOT NULL, HL_ACQUIRED_AT BIGINT,
  HL_USER VARCHAR(128) NOT NULL, HL_HOST VARCHAR(128) NOT NULL, HL_HEARTBEAT_COUNT INTEGER,
  HL_AGENT_INFO VARCHAR(128), HL_BLOCKEDBY_EXT_ID BIGINT,
  HL_BLOCKEDBY_INT_ID BIGINT, PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID));
CREATE TABLE NEXT_LOCK_ID (NL_NEXT BIGINT NOT NULL);
INSERT INTO NEXT_LOCK_ID VALUES (1);
CREATE TABLE WRITE_SET (WS_DATABASE VARCHAR(128) NOT NULL, WS_TABLE VARCHAR(128) NOT NULL, WS_PARTITION VARCHAR(767),
  WS_TXNID BIGINT NOT NULL, WS_COMMIT_ID BIGINT NOT NULL, WS_OPERATION_TYPE CHAR(1) NOT NULL);
CREATE TABLE AUX_TABLE (MT_KEY1 VARCHAR(128) NOT NULL, MT_KEY2 BIGINT NOT NULL, MT_COMMENT VARCHAR(255),
  PRIMARY KEY (MT_KEY1, MT_KEY2));
"""
"""What its locks need, and the service does not make by itself."""


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The thrift URI of the service."""
    with hive_metastore_in(tmp_path_factory.mktemp("hms")) as uri:
        yield uri


@contextmanager
def hive_metastore_in(folder: Path, port: int = 0) -> Iterator[str]:
    """The thrift URI of a service whose database and warehouse are in ``folder``; port 0 means any free one."""
    port = port or free_port()
    (folder / "hive-log4j2.properties").write_text(LOGGING)
    jars = Path(pyspark.__file__).parent / "jars"
    java = [
        str(find_java().home / "bin/java"),
        "-Xmx512m",
        *BRIEFLY,
        f"-Dderby.system.home={folder}",
        f"-Djava.io.tmpdir={folder}",
        "-cp",
        f"{folder}:{jars}/*",
    ]
    if not (folder / "db").exists():
        (folder / "locks.sql").write_text(f"CONNECT 'jdbc:derby:{folder}/db;create=true';\n{LOCK_TABLES}")
        subprocess.run([*java, "org.apache.derby.tools.ij", "locks.sql"], cwd=folder, check=True, capture_output=True)
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{folder}/db",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
        "hive.async.log.enabled": "false",
    }
    given = [argument for key, value in settings.items() for argument in ("--hiveconf", f"{key}={value}")]
    command = [*java, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port), *given]
    with serving(command, port, folder):
        yield f"thrift://127.0.0.1:{port}"


def main() -> None:
    """Start a service and keep it until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Start a Hive Metastore on loopback, until Ctrl-C.")
    parser.add_argument("--folder", type=Path, help="where its database and warehouse are kept; else a temporary one")
    parser.add_argument("--port", type=int, default=0, help="else a free one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (asked.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt), hive_metastore_in(folder, asked.port) as uri:
            print(uri, flush=True)  # noqa: T201 - what this program is for
            threading.Event().wait()


if __name__ == "__main__":
    main()
