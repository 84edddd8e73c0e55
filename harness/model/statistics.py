"""Statistics of a share after a number of trials."""

from __future__ import annotations

from math import comb, sqrt

Z = 1.959963984540054
"""The quantile of the normal distribution for 95 %."""


def wilson(passed: int, trials: int) -> tuple[float, float] | None:
    """The 95 % interval (Wilson's) of the share that passes; None without trials."""
    if trials == 0:
        return None
    share, square = passed / trials, Z * Z / trials
    middle = (share + square / 2) / (1 + square)
    half = Z * sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return (0.0 if passed == 0 else max(0.0, middle - half), 1.0 if passed == trials else min(1.0, middle + half))


def pass_hat(passed: int, trials: int) -> tuple[float, ...]:
    """pass^k for k = 1, 2, ..., `trials`: the chance that k trials all pass, without bias: C(c, k) / C(n, k)."""
    return tuple(comb(passed, k) / comb(trials, k) for k in range(1, trials + 1))
