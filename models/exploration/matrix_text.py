"""The matrix in words: how the result of a search differs from it, and its table for the documentation."""

from __future__ import annotations

from .matrix import CELLS, SETTINGS, SOUND
from .search import Explored


def differences(setting: str, variant: str, explored: Explored) -> list[str]:
    """How the result of a search differs from the cell, as sentences."""
    cell = CELLS[setting][variant]
    missing = [f"{name} was not broken in {explored.runs} runs" for name in cell.broken if name not in explored.first]
    allowed = (*cell.broken, *cell.unclaimed)
    extra = [
        f"{name} is broken by seed {seed}: {text}"
        for name, (seed, text) in explored.first.items()
        if name not in allowed
    ]
    return [f"{variant}, {setting}: {sentence}" for sentence in missing + extra]


def table() -> str:
    """The matrix in Markdown."""
    lines = ["| setting | variant | breaks | within runs |", "|---|---|---|---|"]
    for setting, cells in CELLS.items():
        first = f"**{setting}**: {SETTINGS[setting].summary}"
        sound = [variant for variant, cell in cells.items() if cell == SOUND]
        for variant, cell in cells.items():
            if cell.broken:
                lines.append(f"| {first} | {variant} | {', '.join(cell.broken)} | {cell.runs} |")
                first = ""
        if sound:
            lines.append(f"| {first} | {', '.join(sound)} | nothing | |")
    return "\n".join(lines)
