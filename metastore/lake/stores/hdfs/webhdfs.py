"""One HDFS cluster over WebHDFS: its operations as calls, its answers as Python's errors.

Guarantees. Results are certain: a call succeeds only on WebHDFS's own status for it. :class:`NotDone` and Python's
named errors mean that the cluster did not execute it; any other OSError leaves that open. Only idempotent requests are
sent again after an answer was lost. Every request has its own connection, so threads and forks share nothing, and no
request waits longer than its timeout. Messages contain no URL, because it may include a token.
"""

from __future__ import annotations

import errno
import json
import os
import ssl
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from metastore.errors import StorageError
from metastore.ground.user import user_name
from metastore.lake.stores.hdfs.hdfs_access import HdfsAccess, hdfs_access
from metastore.lake.stores.locations import StoreLocation

_PAUSES_S: Final = (0.1, 0.4, 1.6)
"""Pauses in seconds between tries, while a namenode fails over or cannot be reached."""

_BYTES: Final = "application/octet-stream"
_Options = Mapping[str, object]

_DONE: Final = 200
_CREATED: Final = 201
_SENT_ON: Final = 307
_SENDING_ON: Final = {"OPEN": (_DONE, _SENT_ON), "CREATE": (_SENT_ON,)}
"""Operations that a namenode redirects to a datanode, with the statuses; some gateways read themselves. It executes all
others itself."""

_LONGEST_TEXT: Final = 400
_ELSEWHERE: Final = {"StandbyException", "ObserverRetryOnActiveException", "RetriableException", "SafeModeException"}
"""Errors of a namenode that does nothing now: another one may, or this one later."""


class NotDone(OSError):  # noqa: N818 - said of a request, as Python's own FileExistsError is of a file
    """The cluster has certainly not executed the request."""


@dataclass(frozen=True)
class Status:
    """A file or folder; ``name`` is empty if it was requested by path. ``identity`` is unique to the file."""

    name: str
    is_folder: bool
    size: int
    modified_ms: int
    identity: tuple[int, int]


@dataclass(frozen=True)
class _Answer:
    status: int
    location: str
    kind: str
    content: bytes

    def field(self, key: str) -> Any:
        """Return WebHDFS's value of ``key``. OSError if the answer is not WebHDFS's."""
        try:
            return json.loads(self.content)[key]
        except (ValueError, KeyError, TypeError):
            raise OSError(errno.EIO, f"no answer of WebHDFS: {self.status}, without {key}") from None


class WebHdfs:
    """The cluster that ``access`` reaches; ``pause`` waits between tries. Threads may share it.

    Paths are absolute. Raises FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError, NotDone if the
    request was not executed, and another OSError if that is unknown.
    """

    def __init__(self, access: HdfsAccess, pause: Callable[[float], None] = time.sleep) -> None:
        self._access = access
        self._pause = pause
        self._namenodes = access.namenodes
        self._who = {"delegation": access.token} if access.token else {"user.name": access.user}

    def status(self, path: str) -> Status:
        """Return the file or folder at ``path``. Raises FileNotFoundError."""
        return _status(self._ask_namenodes("GET", path, "GETFILESTATUS", {}, again=True).field("FileStatus"))

    def entries(self, path: str) -> list[Status]:
        """List the folder. Raises FileNotFoundError, and NotADirectoryError for a file."""
        answer = self._ask_namenodes("GET", path, "LISTSTATUS", {}, again=True)
        found = answer.field("FileStatuses")["FileStatus"]
        if [entry["pathSuffix"] for entry in found] == [""]:
            raise NotADirectoryError(errno.ENOTDIR, "no folder", path)
        return [_status(entry) for entry in found]

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return ``length`` bytes from ``offset`` on, or fewer at the end; ``offset`` must be within the file."""
        part = {} if length is None else {"offset": offset, "length": length}
        answer = self._carried_out("GET", path, "OPEN", part, again=True)
        if answer.kind != _BYTES:  # a proxy's page for people must not be taken for a file
            raise OSError(errno.EIO, f"no answer of WebHDFS: {answer.status}, of the type {answer.kind!r}", path)
        return answer.content

    def write(self, path: str, content: bytes, *, overwrite: bool) -> None:
        """Create the file and its parents; on its datanodes' disks when this returns.

        A failure may leave a partial file. With ``overwrite`` it is retried; without, FileExistsError if it exists.
        """
        options = {"overwrite": str(overwrite).lower(), "createflag": "CREATE,SYNC_BLOCK"}
        self._carried_out("PUT", path, "CREATE", options, again=overwrite, body=content)

    @contextmanager
    def writing(self, path: str) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that sends pieces of a file; at the end the complete file replaces an existing one.

        Until then it has a temporary name, because a datanode may begin to write long after its request timed out.
        """
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        connection, target = self._place_for(temporary)
        try:
            with _as_os_errors(path, connection):
                connection.putrequest("PUT", target)
                connection.putheader("Content-Type", _BYTES)
                connection.putheader("Transfer-Encoding", "chunked")
                connection.endheaders()

            def send(content: bytes) -> None:
                if content:
                    with _as_os_errors(path, connection):
                        connection.send(b"%x\r\n%b\r\n" % (len(content), content))

            yield send
            with _as_os_errors(path, connection):
                connection.send(b"0\r\n\r\n")
                self._judge_answer(_answer(connection.getresponse()), path, (_CREATED,))
        except BaseException:
            connection.close()
            with suppress(OSError):
                self.delete(temporary)
            raise
        connection.close()
        self.rename(temporary, path, overwrite=True)

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Rename atomically. FileExistsError if ``target`` exists, FileNotFoundError if ``source`` does not."""
        options = {"destination": target, "renameoptions": "OVERWRITE" if overwrite else "NONE"}
        answer = self._ask_namenodes("PUT", source, "RENAME", options, again=False)
        if answer.content and not answer.field("boolean"):
            # A gateway without support for the options refuses without a reason.
            raise FileExistsError(errno.EEXIST, "not renamed, most likely since the name is taken", target)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete, and return whether there was something. NotDone for a non-empty folder, unless ``recursive``."""
        options = {"recursive": str(recursive).lower()}
        return bool(self._ask_namenodes("DELETE", path, "DELETE", options, again=False).field("boolean"))

    def make_folder(self, path: str) -> None:
        """Create the folder and its parents; no error if it exists."""
        self._ask_namenodes("PUT", path, "MKDIRS", {}, again=True).field("boolean")

    def _place_for(self, path: str) -> tuple[HTTPConnection, str]:
        """Return a connection to a datanode that accepts the file, and the path to request there."""
        problem: OSError | None = None
        for wait in (0.0, *_PAUSES_S):
            if wait:
                self._pause(wait)
            place = self._ask_namenodes("PUT", path, "CREATE", {"overwrite": "true"}, again=True).location
            try:
                return self._connection(place)
            except _NotNow as error:  # the namenode may name another datanode
                problem = error
        assert problem is not None
        raise problem

    def _carried_out(
        self, method: str, path: str, operation: str, options: _Options, *, again: bool, body: bytes | None = None
    ) -> _Answer:
        """Return the answer of the namenode, or of the datanode that it names."""
        problem: OSError | None = None
        for wait in (0.0, *_PAUSES_S):
            if wait:
                self._pause(wait)
            answer = self._ask_namenodes(method, path, operation, options, again=again)
            if answer.status == _DONE:
                return answer
            expected = (_DONE if body is None else _CREATED,)
            tried = self._try_host(answer.location, method, path, body, expected, again=again)
            if isinstance(tried, _Answer):
                return tried
            problem = tried  # this datanode does not answer; the namenode may name another one
        assert problem is not None
        raise problem

    def _ask_namenodes(self, method: str, path: str, operation: str, options: _Options, *, again: bool) -> _Answer:
        """Return the answer of the first active namenode, which may be a redirection."""
        query = urlencode({"op": operation, **self._who, **options})
        target = f"/webhdfs/v1{quote(path, errors='surrogatepass')}?{query}"
        expected = _SENDING_ON.get(operation, (_DONE,))
        problem: OSError | None = None
        for wait in (0.0, *_PAUSES_S):
            if wait:
                self._pause(wait)
            for namenode in self._namenodes:
                tried = self._try_host(f"{namenode}{target}", method, path, None, expected, again=again)
                if isinstance(tried, _Answer):
                    self._namenodes = (namenode, *(other for other in self._namenodes if other != namenode))
                    return tried
                problem = tried
        assert problem is not None
        raise problem

    def _try_host(
        self, url: str, method: str, path: str, body: bytes | None, expected: Collection[int], *, again: bool
    ) -> _Answer | OSError:
        """Return the answer, or the reason to try another host or later. Raises final errors."""
        try:
            return self._judge_answer(self._send(url, method, path, body), path, expected)
        except _NotNow as error:
            return error
        except (NotDone, FileExistsError, FileNotFoundError, PermissionError):
            raise
        except OSError as error:
            if not again:
                raise
            return error

    def _send(self, url: str, method: str, path: str, body: bytes | None) -> _Answer:
        connection, target = self._connection(url)
        try:
            with _as_os_errors(path, connection):
                headers = {} if body is None else {"Content-Type": _BYTES}
                connection.request(method, target, body, headers)
                return _answer(connection.getresponse())
        finally:
            connection.close()

    def _connection(self, url: str) -> tuple[HTTPConnection, str]:
        """Return an open connection, and the path to request. Raises _NotNow if it cannot be opened."""
        try:
            parts = urlsplit(url)
            host, port, timeout = parts.hostname or "", parts.port, self._access.connect_timeout_s
            host.encode("idna")
        except ValueError:  # the message may contain a token
            raise _NotNow(errno.EIO, "the address of the cluster, or one that it redirects to, is invalid") from None
        if parts.scheme == "https":
            connection: HTTPConnection = HTTPSConnection(
                host, port, timeout=timeout, context=ssl.create_default_context()
            )
        else:
            connection = HTTPConnection(host, port, timeout=timeout)
        try:
            connection.connect()
        except OSError as error:
            raise _NotNow(error.errno or errno.EIO, f"cannot reach {host}:{parts.port}: {error}") from error
        connection.sock.settimeout(self._access.read_timeout_s)
        return connection, f"{parts.path}?{parts.query}" if parts.query else parts.path

    def _judge_answer(self, answer: _Answer, path: str, expected: Collection[int]) -> _Answer:
        """Return the answer if its status is expected, otherwise raise its error."""
        if answer.status in expected and (answer.location or answer.status != _SENT_ON):
            return answer
        if answer.status < 400:
            text = f"no answer of WebHDFS: {answer.status}; a proxy may redirect, or require a login"
            raise OSError(errno.EIO, text, path)
        try:
            exception: Mapping[str, str] = json.loads(answer.content)["RemoteException"]
            name, text = exception["exception"], exception["message"]
        except (ValueError, KeyError, TypeError):
            name, text = "", _text(answer.content)
        if self._access.token:
            text = text.replace(self._access.token, "********")
        raise _failure(answer.status, name, text, path)


class Clusters:
    """The clusters of ``properties``. The user is set by them, by ``HADOOP_USER_NAME``, or is the machine's."""

    def __init__(self, properties: Mapping[str, str], pause: Callable[[float], None] = time.sleep) -> None:
        self._properties = dict(properties)
        self._pause = pause
        self._known: dict[str, WebHdfs] = {}

    def of(self, place: StoreLocation) -> WebHdfs:
        """Return the cluster of ``place``. Raises ConfigError if the properties do not give its address."""
        if place.root not in self._known:
            user = os.environ.get("HADOOP_USER_NAME") or user_name()
            self._known[place.root] = WebHdfs(hdfs_access(place, self._properties, user), self._pause)
        return self._known[place.root]

    def at(self, location: str) -> tuple[WebHdfs, str]:
        """Return the cluster of ``location``, and the path there. Raises StorageError if it is not on HDFS."""
        place = StoreLocation.parse(location)
        if place.kind != "hdfs":
            raise StorageError(f"{location} is not on HDFS")
        path = "/".join(part for part in place.key.split("/") if part)
        return self.of(place), f"/{path}"


class _NotNow(NotDone):
    """Not executed by this namenode, or not yet."""


def _failure(status: int, name: str, text: str, path: str) -> OSError:
    """Return the error of a failure. Without Hadoop's exception name, any proxy may have answered."""
    message = f"{name or status}: {_text(text.encode())}"
    if name in _ELSEWHERE:
        return _NotNow(errno.EAGAIN, message, path)
    no_folder = name in ("AccessControlException", "ParentNotDirectoryException") and "is not a directory" in text
    if name == "FileNotFoundException" or no_folder:
        return FileNotFoundError(errno.ENOENT, message, path)
    if name in ("FileAlreadyExistsException", "AlreadyBeingCreatedException"):
        return FileExistsError(errno.EEXIST, message, path)
    if name == "PathIsNotEmptyDirectoryException":
        return NotDone(errno.ENOTEMPTY, message, path)
    if status in (401, 403) and name in ("", "AccessControlException", "SecurityException", "InvalidToken"):
        return PermissionError(errno.EACCES, message, path)
    return (NotDone if name and status < 500 else OSError)(errno.EIO, message, path)


@contextmanager
def _as_os_errors(path: str, connection: HTTPConnection) -> Iterator[None]:
    """Within, connection errors become OSErrors that name the hosts and leave the outcome open."""
    host = f"{connection.host}:{connection.port}"
    try:
        yield
    except HTTPException as error:
        # Such an error may contain a URL, and so a token.
        text = f"the answer of {host} broke off: {type(error).__name__}"
        raise OSError(errno.EIO, text, path) from None
    except OSError as error:
        # Do not use the number of other errors: in TLS, 1 is not EPERM.
        code = errno.ETIMEDOUT if isinstance(error, TimeoutError) else errno.EIO
        code = (error.errno or code) if isinstance(error, ConnectionError) else code
        raise OSError(code, f"no answer from {host}: {error.strerror or error}", path) from error


def _answer(response: HTTPResponse) -> _Answer:
    location = response.getheader("Location", "") if response.status == _SENT_ON else ""
    kind = response.getheader("Content-Type", "").partition(";")[0]
    return _Answer(response.status, location, kind, response.read())


def _status(entry: Mapping[str, Any]) -> Status:
    return Status(
        name=entry["pathSuffix"],
        is_folder=entry["type"] == "DIRECTORY",
        size=entry["length"],
        modified_ms=entry["modificationTime"],
        identity=(entry.get("fileId", 0), entry["modificationTime"]),
    )


def _text(content: bytes) -> str:
    """Return the first line, without a server's stack trace."""
    return content.decode(errors="replace").partition("\n")[0][:_LONGEST_TEXT]
