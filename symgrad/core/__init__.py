"""What everything stands on: errors' places, sizes, shapes, graphs, axes, trees, options, text."""
