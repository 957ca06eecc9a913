"""Programs as JSON: written, and read without executing anything."""
