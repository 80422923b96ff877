# SPDX-License-Identifier: GPL-2.0
"""Raw results put side by side: turns of the first driver, A, and of the second, B."""

import collections
import statistics


class Comparison:
    """Some rows of one or several runs of the same contenders."""

    def __init__(self, rows):
        self.rows = rows
        self.drivers = list(dict.fromkeys(row["driver"] for row in rows))
        self.a = self.drivers[0]
        self.b = self.drivers[1] if len(self.drivers) > 1 else self.a
        # Drivers that ran in a guest of their own: shown, but never paired.
        self.others = self.drivers[2:]

    def metrics(self):
        return list(dict.fromkeys(row["metric"] for row in self.rows))

    def by_workload(self, metric):
        """{workload: Values} in the order of the rows."""
        found = collections.defaultdict(lambda: Values(self))
        for row in self.rows:
            if row["metric"] == metric:
                turn = row["round"], row["position"]
                found[row["workload"]].turns[row["driver"]][turn].append(row["value"])
        return found


class Values:
    """Everything measured of one metric on one workload."""

    def __init__(self, comparison):
        self.comparison = comparison
        self.turns = collections.defaultdict(lambda: collections.defaultdict(list))

    def all(self, driver):
        return sorted(value for turn in self.turns[driver].values() for value in turn)

    def median(self, driver):
        values = self.all(driver)
        return statistics.median(values) if values else None

    def percentile(self, driver, percent):
        """The smallest value that so many percent of all do not exceed."""
        values = self.all(driver)
        return values[max(0, -(-len(values) * percent // 100) - 1)] if values else None

    def pairs(self):
        """Ratios B/A of neighbouring turns' medians: A B B A has two neighbours of each."""
        a, b = self.turns[self.comparison.a], self.turns[self.comparison.b]
        if self.comparison.a == self.comparison.b:
            return []
        return self._ratios(b, a, ((1, 0), (2, 3)))

    def null_pairs(self):
        """Ratios A/A of a round's last turn and its first. What differs here is noise."""
        a = self.turns[self.comparison.a]
        return self._ratios(a, a, ((3, 0),))

    @staticmethod
    def _ratios(over, under, positions):
        return [
            statistics.median(over[number, top]) / statistics.median(under[number, bottom])
            for number in sorted({number for number, _ in under})
            for top, bottom in positions
            if (number, top) in over and (number, bottom) in under
        ]
