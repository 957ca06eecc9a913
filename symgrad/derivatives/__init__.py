"""Derivatives: pullbacks, pushforwards, rematerialisation, batching, Jacobians."""
