"""Limits on the stored metadata that a reader holds in memory: above them, it reads in parts."""

from __future__ import annotations

from dataclasses import dataclass

from metastore.config.section import Section


@dataclass(frozen=True)
class ReadSettings:
    """Numbers of files and rows, and bytes of stored data files. Decoded units take ten times the stored bytes.

    Up to ``small_files`` files with ``small_size`` bytes in total are decoded whole and cached. Larger answers are read
    in parts of at most ``part_rows`` rows and ``part_size`` bytes, or one file. Pruning reads the units of a whole
    table up to ``memory_size``, and those of one top-level segment up to ``segment_rows`` and ``segment_size``.
    """

    small_files: int = 32
    small_size: int = 4 << 20
    part_rows: int = 10_000
    part_size: int = 4 << 20
    memory_size: int = 8 << 20
    segment_rows: int = 20_000
    segment_size: int = 8 << 20


def read_settings(section: Section) -> ReadSettings:
    """Read the settings below ``drill.metastore.iceberg.read``. Raises ConfigError for a number out of range."""

    def size(name: str, least: int) -> int:
        found = section.require(name, section.size(name))
        if found < least:
            raise section.refusal(name, f"a size of {least} or more is expected")
        return found

    return ReadSettings(
        small_files=section.require("small_files", section.whole("small_files", least=0)),
        small_size=size("small_size", 0),
        part_rows=section.require("part_rows", section.whole("part_rows", least=1)),
        part_size=size("part_size", 1),
        memory_size=size("memory_size", 0),
        segment_rows=section.require("segment_rows", section.whole("segment_rows", least=1)),
        segment_size=size("segment_size", 1),
    )
