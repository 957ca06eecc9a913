"""A circuit of four qubits whose rotations are trained until it makes all of them zero, or all of them one.

    python examples/quantum_circuit.py

The state is an array of complex numbers with an axis of size two for each qubit. Angles are real, so that their
gradients are.
"""

import numpy as np

import symgrad as sg

QUBITS, LAYERS = 4, 3
TARGET = np.zeros((2,) * QUBITS, complex)
TARGET[(0,) * QUBITS] = TARGET[(1,) * QUBITS] = np.sqrt(0.5)
CONTROLLED = np.diag([1.0, 1.0, 1.0, -1.0]).reshape(2, 2, 2, 2)  # a sign where both qubits are one


def rotation(angles):
    """The matrix of a rotation about y and one about z."""
    about_y, about_z = angles / 2
    turn = np.exp(1j * about_z)
    c, s = np.cos(about_y), np.sin(about_y)
    return np.array([[c * np.conj(turn), -s * np.conj(turn)], [s * turn, c * turn]])


def applied(gate, state, *qubits):
    """The state behind a gate on some qubits."""
    n = len(qubits)
    moved = np.tensordot(gate, state, (range(n, 2 * n), qubits))
    return np.moveaxis(moved, range(n), qubits)


def circuit(angles):
    state = np.zeros((2,) * QUBITS, complex)
    state[(0,) * QUBITS] = 1
    for layer in range(LAYERS):
        for qubit in range(QUBITS):
            state = applied(rotation(angles[layer, qubit]), state, qubit)
        for qubit in range(QUBITS - 1):
            state = applied(CONTROLLED, state, qubit, qubit + 1)
    return state


def infidelity(angles):
    """The probability that is missing to the target, whatever the phase of the state."""
    return 1 - np.abs(np.vdot(TARGET, circuit(angles))) ** 2


def main(steps=60):
    angles = np.random.default_rng(0).normal(size=(LAYERS, QUBITS, 2))
    step = sg.value_and_grad(infidelity)
    velocity = np.zeros_like(angles)
    for k in range(steps + 1):
        value, gradient = step(angles)
        if k % 10 == 0:
            print(f"step {k:2}: {value:.4f} is missing")
        velocity = 0.8 * velocity - 0.3 * gradient
        angles += velocity
    state = circuit(angles)
    print("\nprobabilities of more than a thousandth")
    for bits in zip(*np.nonzero(np.abs(state) ** 2 > 1e-3), strict=True):
        print(f"{''.join(map(str, bits))}: {np.abs(state[bits]) ** 2:.3f}")
    return value, state


if __name__ == "__main__":
    main()
