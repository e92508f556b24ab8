"""Work in a forked child, which no test waits for longer than it must."""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable

SECONDS_AT_MOST = 60


def in_child(work: Callable[[], None]) -> Callable[[], int]:
    """Fork; the child does ``work`` and ends. What to call for its exit code: 0 if it went well, negative if it hung.

    One that hangs is aborted from outside, wherever it is, and then says where that was, as pytest has it do.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)  # beside threads is what is tried
        child = os.fork()
    if not child:
        try:
            work()
        except BaseException:  # noqa: BLE001 - nothing may get out of the child into pytest
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    watch = threading.Timer(SECONDS_AT_MOST, os.kill, (child, signal.SIGABRT))
    watch.start()

    def end() -> int:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        watch.cancel()
        watch.join()
        return code

    return end
