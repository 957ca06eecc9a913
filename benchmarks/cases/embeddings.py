"""A classifier of texts by the mean of the vectors of their words."""

import numpy as np

from cases.classify import cross_entropy, cross_entropy_by_hand, cross_entropy_in_jax, cross_entropy_in_torch
from cases.model import Model, cases


def scores_of(table, weights, words):
    return table[words].mean(1) @ weights


def loss(xp, table, weights, words, labels):
    return cross_entropy(xp, scores_of(table, weights, words), labels)


def in_jax(table, weights, words, labels):
    return cross_entropy_in_jax(scores_of(table, weights, words), labels)


def in_torch(table, weights, words, labels):
    return cross_entropy_in_torch(scores_of(table, weights, words), labels)


def by_hand(table, weights, words, labels):
    """Words that a text and others share are added up by a sparse matrix."""
    from scipy.sparse import csr_array

    texts, length = words.shape
    places = np.arange(0, words.size + 1, length)
    counts = csr_array((np.full(words.size, 1 / length), words.ravel(), places), (texts, len(table)))
    means = counts @ table
    value, d_scores = cross_entropy_by_hand(means @ weights, labels)
    return value, (counts.T @ (d_scores @ weights.T), means.T @ d_scores)


def example(rng, texts, length, words, d, classes=10):
    table, weights = rng.normal(size=(words, d)), rng.normal(size=(d, classes))
    return table, weights, rng.integers(words, size=(texts, length)), rng.integers(classes, size=texts)


CASES = cases(
    "mean of embeddings",
    Model(loss, example, by_hand, wrt=2, peers={"jax": in_jax, "torch": in_torch}),
    "texts=512 length=40 words=20000 d=64",
    small="texts=7 length=5 words=20 d=3 classes=4",
)
