"""compare_with_scipy.py PROGRAM: thousands of cases through study_statistics and through scipy and statsmodels.

Prints {"what": [cases, largest difference]} as JSON; a difference is relative where the number is above 1.
"""

import json
import subprocess
import sys
import warnings

import numpy as np
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

warnings.filterwarnings("ignore", category=RuntimeWarning)  # nct's far tails, where the sum does not need them


def power_of(noncentrality, freedom):
    """Two-sided at 0.05. The far tail is below 1e-12 where nct has no number for it."""
    critical = stats.t.ppf(0.975, freedom)
    return stats.nct.sf(critical, freedom, noncentrality) + np.nan_to_num(
        stats.nct.cdf(-critical, freedom, noncentrality)
    )


def detectable(deviation, count):
    root = optimize.brentq(lambda x: power_of(x, count - 1) - 0.8, 1e-6, 14, xtol=1e-14, rtol=1e-14)
    return root * deviation / np.sqrt(count)


def needed(margin, deviation):
    count = 2
    while power_of(margin / deviation * np.sqrt(count), count - 1) < 0.8:
        count += 1
    # statsmodels' own power, where the far tail has a number.
    other, own = (
        TTestPower().power(margin / deviation, count, 0.05),
        power_of(margin / deviation * np.sqrt(count), count - 1),
    )
    assert np.isnan(other) or abs(other - own) < 1e-9, (other, own)
    return count


def expected(a, b, margin):
    test = stats.ttest_rel(a, b)
    interval = test.confidence_interval(0.95)
    difference = a - b
    deviation = difference.std(ddof=1)
    return {
        "mean": difference.mean(),
        "deviation": deviation,
        "t": test.statistic,
        "p": test.pvalue,
        "interval, low": interval.low,
        "interval, high": interval.high,
        "equivalence p": DescrStatsW(difference).ttost_mean(-margin, margin)[0],
        "power": power_of(margin / deviation * np.sqrt(len(a)), len(a) - 1),
        "detectable effect": detectable(deviation, len(a)),
        "seeds needed": needed(margin, deviation),
    }


def main():
    dice = np.random.default_rng(0)
    cases, lines, corrections = [], [], []
    for _ in range(400):
        count = int(dice.integers(3, 25))
        spread = 10 ** dice.uniform(-2.6, -1.3)
        a = 0.3 + dice.normal(0, 0.02, count)
        b = a + dice.normal(dice.normal(0, spread), spread, count)
        margin = float(spread * dice.uniform(0.4, 2.5))
        cases.append((a, b, margin))
        lines.append(" ".join([str(count), *(repr(float(x)) for x in [*a, *b, margin])]))
    for _ in range(400):
        p = dice.uniform(0, 1, int(dice.integers(1, 40))) ** 3
        corrections.append(p)
        lines.append(" ".join(["holm", str(len(p)), *(repr(float(x)) for x in p)]))
    answer = subprocess.run([sys.argv[1]], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    ours = [[float(word) for word in row.split()] for row in answer.stdout.splitlines()]
    worst = {}

    def compare(name, got, wanted):
        count, most = worst.get(name, (0, 0.0))
        worst[name] = (count + 1, max(most, abs(got - wanted) / max(1.0, abs(wanted))))

    for (a, b, margin), row in zip(cases, ours):
        for (name, wanted), got in zip(expected(a, b, margin).items(), row, strict=True):
            compare(name, got, float(wanted))
    for p, row in zip(corrections, ours[len(cases) :], strict=True):
        for got, wanted in zip(row, multipletests(p, method="holm")[1], strict=True):
            compare("Holm", got, float(wanted))
    print(json.dumps(worst))


main()
