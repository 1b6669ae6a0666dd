"""Every admin operation with something to ask, an answer of a broker, and what is to be read from it.

An answer is built for a version, because old versions cannot carry everything; so is what is read from it.
"""

from __future__ import annotations

from tests.unit.admin.cases import cluster, configs, groups, offsets, topics
from tests.unit.admin.cases.base import FIRST, SECOND, Case

CASES = [*topics.CASES, *cluster.CASES, *configs.CASES, *groups.CASES, *offsets.CASES]

__all__ = ["CASES", "FIRST", "SECOND", "Case"]
