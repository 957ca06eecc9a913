"""Graphs that a person holds: built by hand from Variables, or traced."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from symgrad.core.graph import Graph as Nodes
from symgrad.core.provenance import here
from symgrad.core.size_scope import Sizes
from symgrad.core.text import is_name
from symgrad.errors import ArgumentError
from symgrad.frontend.arguments import input_aval, is_array, spec
from symgrad.frontend.variable import Variable


class Graph(Nodes):
    """A program to build by hand from Variables.

    Attributes
    ----------
    nodes : list of Node
        In order of creation, in which inputs exist before their users.
    dag : networkx.DiGraph
        The same nodes with edges from input to user.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> g = sg.Graph()
    >>> x = g.input("x", "float64[n]")
    >>> y = np.sum(np.tanh(x) ** 2)
    >>> (dx,) = sg.gradients(y, [x])
    >>> sg.function([x], [y, dx])(np.zeros(2))
    [np.float64(0.0), array([0., 0.])]
    """

    @cached_property
    def sizes(self) -> Sizes:
        """The symbolic sizes of the inputs."""
        return Sizes(None, lift=lambda dim: Variable(self, self.size(dim)))

    def input(self, name: str, like: Any) -> Variable:
        """A new input.

        Parameters
        ----------
        name : str
            A Python name, new to the graph.
        like : str, Spec, or anything with a shape and a dtype
            Such as ``"float64[n, 3]"``; the same letter is the same size throughout the graph.

        Returns
        -------
        Variable

        Raises
        ------
        ArgumentError
            If `name` is no Python name, or `like` no spec.
        GraphError
            If the graph has an input of this name.
        """
        if not is_name(name):
            raise ArgumentError(f"{name!r} is not a Python name", 'An input has a name such as "x".')
        if not isinstance(like, str) and not is_array(like):
            raise ArgumentError(
                f"the input {name} is like {like!r}", 'Describe it as "float64[n, 3]", or give an array.'
            )
        aval = input_aval(spec(like) if isinstance(like, str) else like, self.sizes, path=name)
        return Variable(self, self.add_input(name, aval, here()))
