"""The program in this process: the sub-commands, exit codes, Ctrl-C and progress line of build/camber."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from . import _processes
from ._library import find_library

_LIBRARY = "libcamber_program.so"


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(find_library(_LIBRARY)))


@functools.cache
def _entry() -> Callable[..., int]:
    entry = _library().camber_run_program
    words = ctypes.POINTER(ctypes.c_char_p)
    entry.argtypes = [ctypes.c_int, words, ctypes.c_int, words]
    entry.restype = ctypes.c_int
    return entry


def _words(words: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(words))(*(word.encode("utf-8", "surrogateescape") for word in words))


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Gives Python its handlers back after sub-commands that set their own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # set from C
                signal.signal(number, handler)


def run_program(arguments: Sequence[str]) -> int:
    """Runs a command line, without the program's own name, and returns its exit code.

    Answers go to standard output and sentences to standard error, below Python's own streams. Work that a sub-command
    gives to other processes is started as `python -m camber`. A Ctrl-C is answered when the call returns, unless the
    sub-command ends its work on one (train, fewshot): `python -m camber` is for what takes long.

    >>> import camber
    >>> camber.run_program(["analyze", "bund"])       # a sentence on standard error: the nearest is bound
    2
    """
    command, launcher = ["camber", *arguments], [sys.executable, "-m", "camber"]
    sys.stdout.flush()
    with _own_signals():
        return _entry()(len(command), _words(command), len(launcher), _words(launcher))


def main() -> int:
    """`python -m camber`, and the command `camber` of an installed package."""
    # The program's own handling of signals: Python would hold Ctrl-C back until the call returns, and has turned the
    # signal of a closed pipe off.
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    if not _processes.are_launched():
        return run_program(sys.argv[1:])
    with _processes.joined(_library()):
        code = run_program(sys.argv[1:])
        if code != 0:  # with a process gone, the end of the interpreter would wait for it
            sys.stdout.flush()
            os._exit(code)
    return code
