"""The number of partitions that each broker leads after another one died, for each assignment of replicas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from . import style


def draw(loads: Mapping[str, Mapping[int, int]], dead: int, path: Path) -> None:
    """Write the figure. loads: by assignment, the number of partitions that each surviving broker leads."""
    survivors = list(next(iter(loads.values())))
    mean = sum(next(iter(loads.values())).values()) / len(survivors)
    with style.look():
        title = f"Broker {dead} died: partitions that the others lead, by the assignment of their replicas"
        figure, axes = style.sheet(title, [1.0] * len(loads), 1.1 + 1.2 * len(loads))
        for axis, (name, led) in zip(axes, loads.items(), strict=True):
            heights = [led[broker] for broker in survivors]
            colours = [style.ORANGE if height > mean else style.BLUE for height in heights]
            bars = axis.barh([f"broker {broker}" for broker in survivors], heights, color=colours, height=0.7)
            axis.bar_label(bars, padding=3)
            axis.axvline(mean, color=style.FAINT, linewidth=0.8, linestyle=":")
            axis.invert_yaxis()
            axis.set_title(name)
            axis.set_xlim(0, 1.1 * max(max(one.values()) for one in loads.values()))
        axes[-1].set_xlabel("partitions led (dotted: the mean)")
        style.save(figure, path)
