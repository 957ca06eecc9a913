"""The version, also stated in generated sources."""

VERSION = "0.1.0"
