"""From a source as it is delivered to typed rows."""
