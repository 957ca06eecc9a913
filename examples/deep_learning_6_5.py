"""The graph w -> x -> y -> z of Goodfellow, Bengio and Courville, *Deep Learning*, section 6.5, and its derivative.

    python examples/deep_learning_6_5.py [picture.svg]

Symbol to value, as a tape does it: numbers go forward, are kept, and numbers come back. Symbol to symbol, as symgrad
does it: the derivative is appended to the graph, can be drawn and compiled, and is differentiated by the same pass.
"""

import math
import sys

import numpy as np

import symgrad as sg


def symbol_to_value(w):
    """dz/dw at one number, by a tape: what was computed, and the slope there."""
    value, tape = w, []
    for name in "xyz":
        tape.append((name, math.cos(value)))
        value = math.sin(value)
    gradient = 1.0  # of z by itself
    for name, slope in reversed(tape):
        gradient *= slope
        print(f"  back through {name} = sin(.): times {slope:.4f} is {gradient:.4f}")
    return gradient


def symbol_to_symbol():
    """The graph of x = sin(w), y = sin(x), z = sin(y), with dz/dw and its derivative: w, z, and the two."""
    g = sg.Graph()
    w = g.input("w", "float64[]")
    x = sg.name(np.sin(w), "x")
    y = sg.name(np.sin(x), "y")
    z = sg.name(np.sin(y), "z")
    (dz,) = sg.gradients(z, [w])
    (ddz,) = sg.gradients(dz, [w])  # the same pass, on what it has made
    return w, z, dz, ddz


def main(picture=None):
    print("by a tape, at w = 1:")
    by_tape = symbol_to_value(1.0)

    w, z, dz, ddz = symbol_to_symbol()
    program = sg.function([w], [z, dz], optimize=1)
    print(f"\nby a graph, at any w:\n\n{program.source}")
    first, second = sg.function([w], [dz, ddz])(1.0)
    print(f"at w = 1 that is {first:.4f}, and its own derivative, for which a tape has no record, {second:.4f}")
    if picture:
        sg.draw(program, picture)
    return by_tape, first, second


if __name__ == "__main__":
    main(*sys.argv[1:])
