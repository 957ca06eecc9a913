"""The languages that programs are written in."""
