"""The command ``symgrad``: gradients as files, from a shell."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import sys
import traceback
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import NoReturn

from symgrad.cli import bench, cache, check, coverage, diff, explain, grad, graph, info, sync, verify
from symgrad.cli.common import EXIT_CODES, add_general
from symgrad.cli.failures import failure_of
from symgrad.cli.output import messages, model_apart, paint
from symgrad.core.text import did_you_mean
from symgrad.core.version import VERSION

COMMANDS = (grad, graph, check, bench, explain, coverage, diff, sync, verify, cache, info)
FINE, FAILED, WRONG, INTERRUPTED, CLOSED = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the code to exit with."""
    sys.stdout = sys.stdout or io.StringIO()  # None where whoever runs the command has closed it
    whole = parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could stand here
        import argcomplete

        argcomplete.autocomplete(whole)
    try:
        options = whole.parse_args(argv)
    except SystemExit as ended:  # after --help, --version or a message about usage
        return int(ended.code or 0)
    try:
        with messages(), model_apart(options):
            code = int(options.run(options))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever was to read has seen enough: head, a pager
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except (Exception, SystemExit) as error:  # a model may call sys.exit
        failure = failure_of(error)
        if options.traceback:
            traceback.print_exception(error)
        if options.json:
            print(json.dumps(failure.json(), indent=2, ensure_ascii=False))
        print(f"{paint('symgrad:', 'red', sys.stderr)} {failure.message}", file=sys.stderr)
        return WRONG


def command() -> int:
    """The command as a process: it ends as soon as it has said all, and large graphs go with its memory."""
    code = main()
    gc.freeze()  # else Python looks through all objects once more, which takes as long as a second
    return code


class Parser(ArgumentParser):
    """A parser whose errors name what a mistyped word looks like."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        hint = did_you_mean(found[1], re.findall(r"[\w-]+", found[2]), "") if found else ""
        super().error(f"{message}\n{hint}" if hint else message)


def parser() -> Parser:
    """The parser of all commands."""
    whole = Parser(
        prog="symgrad",
        description="Derivatives of plain NumPy functions, as NumPy source.",
        epilog=f"symgrad COMMAND --help says more, with examples.\n{EXIT_CODES}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"symgrad {VERSION}")
    add_general(whole, False)
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.COMMAND.add_to(commands)
    return whole
