"""Loops over blocks: tiling of axes, buffer allocation, cost model."""
