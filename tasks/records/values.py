"""A record as JSON: objects whose values are texts, numbers, lists and objects."""

from __future__ import annotations

from typing import Any

Values = dict[str, Any]
