"""Options that several commands share, and what they say."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from typing import Any, NamedTuple

from symgrad.cli.kinds import Derivative
from symgrad.cli.output import progress
from symgrad.cli.shapes import Call, Entries, arrays_in, parse_entries
from symgrad.compiler.compiled import Compiled
from symgrad.compiler.function import Function
from symgrad.core.options import OF_SOURCE
from symgrad.errors import ArgumentError
from symgrad.export.target import load_function
from symgrad.frontend.trace import Program

EXIT_CODES = "exit codes: 0 fine; 1 a check failed, or a file is not current; 2 wrong usage, or an error of the model"


class Command(NamedTuple):
    """A command: its options, and what it does with them."""

    name: str
    summary: str
    examples: tuple[str, ...]
    add: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    description: str = ""

    def add_to(self, commands: Any) -> None:
        """Add its parser to those of the others."""
        shown = "".join(f"  {example}\n" for example in self.examples)
        parser = commands.add_parser(
            self.name,
            help=self.summary,
            description=self.description or f"{self.summary[0].upper()}{self.summary[1:]}.",
            epilog=f"examples:\n{shown}\n{EXIT_CODES}",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add(parser)
        add_general(parser, SUPPRESS)
        parser.set_defaults(run=self.run)


def add_general(parser: ArgumentParser, default: Any) -> None:
    """Options that stand before or behind the command."""
    parser.add_argument("--json", action="store_true", default=default, help="one JSON document on standard output")
    parser.add_argument(
        "--traceback", action="store_true", default=default, help="with an error, also where in Python it was raised"
    )


# ---- the function, its arguments, the derivative


def add_target(parser: ArgumentParser) -> None:
    """The function, and what it is called with."""
    parser.add_argument("target", help="FILE.py:function or package.module:function; the module is run")
    add_shapes(parser)


def add_shapes(parser: ArgumentParser) -> None:
    """Add the options for shapes and values of the arguments."""
    shapes = parser.add_argument_group("shapes of the arguments; by default the function's annotations and defaults")
    shapes.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="TEXT",
        help='"w=float64[d], X=float64[n, d]"; parts as "params.W=float64[3, 4]", values as "steps=10"',
    )
    shapes.add_argument(
        "--like", action="append", default=[], metavar="FILE", help="arrays by name: data.npz, data.json, X=x.npy"
    )


def add_kind(parser: ArgumentParser) -> None:
    """Add the options for the kind of derivative."""
    kinds = parser.add_argument_group("what to derive; by default the gradient").add_mutually_exclusive_group()
    kinds.set_defaults(kind="grad")
    for flag, kind, text in (
        ("--value", "value_and_grad", "value and gradient"),
        ("--hessian", "hessian", "dense second derivatives"),
        ("--hvp", "hvp", "product of the Hessian with a vector, an argument more"),
        ("--jacobian", "jacobian", "derivative of a result that is not a scalar"),
        ("--function", "function", "no derivative, the function itself"),
    ):
        kinds.add_argument(flag, dest="kind", action="store_const", const=kind, help=text)
    kinds.add_argument(
        "--order",
        type=int,
        default=1,
        metavar="K",
        help="of the gradient: 2 is the Hessian, each further order the Jacobian of the one before; for a scalar "
        "argument simply the derivative of that order",
    )
    add_wrt(parser)


def add_wrt(parser: ArgumentParser) -> None:
    """With respect to what."""
    by = parser.add_argument_group("with respect to; by default the first argument").add_mutually_exclusive_group()
    by.add_argument("--wrt", metavar="NAMES", help="arguments, parts of them or values inside, by commas: w,params.b")
    by.add_argument("--argnums", metavar="NUMBERS", help="positions of arguments instead, by commas: 0,2")


def add_compiler(parser: ArgumentParser, optimize: int) -> None:
    """Options of the compiler."""
    compiler = parser.add_argument_group("the compiler")
    compiler.add_argument(
        "--optimize",
        type=int,
        choices=(0, 1, 2),
        default=optimize,
        help="0 the graph as it is, 1 what reads best, 2 what runs fastest; default %(default)s",
    )
    compiler.add_argument(
        "--numerics", choices=("stable", "ieee"), default="stable", help="ieee: no rewrite that could change a NaN"
    )
    compiler.add_argument("--threads", type=int, metavar="N", help="at most; default: as many as cores")


def add_output(parser: ArgumentParser, help: str) -> None:
    """A file to write."""
    parser.add_argument("-o", "--output", metavar="FILE", help=help)
    parser.add_argument("--force", action="store_true", help="also over a file that symgrad did not write")


class Asked(NamedTuple):
    """A function, its derivative, and what that is traced for."""

    function: Callable[..., Any]
    derivative: Function
    call: Call

    @classmethod
    def by(cls, options: Namespace) -> Asked:
        derivative = derivative_of(options)
        with progress(f"reading {options.target}"):
            function = load_function(options.target)
        made = derivative.of(function, **compiler_options(options))
        return cls(function, made, derivative.call(function, entries_of(options)))

    def compiled(self) -> Compiled:
        with progress(f"compiling {self.derivative.__name__}"):
            return self.derivative.compile(*self.call.args, **self.call.kwargs)

    def traced(self) -> Program:
        with progress(f"tracing {self.derivative.__name__}"):
            return self.derivative.trace(*self.call.args, **self.call.kwargs)


def entries_of(options: Namespace) -> Entries:
    """Return the entries of ``--spec`` and ``--like``; a spec overrides an array."""
    found: Entries = {}
    for text in options.like:
        found.update(arrays_in(text))
    for text in options.spec:
        found.update(parse_entries(text))
    return found


def derivative_of(options: Namespace) -> Derivative:
    """The derivative that was asked for."""
    wrt = None if options.wrt is None else one_or_more([x.strip() for x in options.wrt.split(",")])
    kind, order = getattr(options, "kind", "grad"), getattr(options, "order", 1)
    return Derivative(kind, wrt, _numbers(options.argnums), order)


def _numbers(text: str | None) -> int | tuple[int, ...]:
    try:
        return 0 if text is None else one_or_more([int(x) for x in text.split(",")])
    except ValueError:
        raise ArgumentError(f"--argnums {text}", "Give numbers by commas, as in 0,2; names go into --wrt.") from None


def one_or_more(items: list[Any]) -> Any:
    """The one of them, or a tuple: it decides whether a derivative is bare or a tuple."""
    return items[0] if len(items) == 1 else tuple(items)


def compiler_options(options: Namespace) -> dict[str, Any]:
    """Return the compiler's options that were given, as keywords of a transform."""
    return {name: getattr(options, name) for name in OF_SOURCE if hasattr(options, name)}
