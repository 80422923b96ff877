# SPDX-License-Identifier: GPL-2.0
"""The raw results: one row for each measurement, in the file they are written to at once."""

import csv

COLUMNS = ["driver", "round", "position", "workload", "metric", "value"]


class Records:
    """Appends rows to a CSV file; what was measured before a crash is not lost."""

    def __init__(self, path):
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.writer = csv.writer(self.file)
        self.writer.writerow(COLUMNS)
        self.driver = self.round = self.position = ""

    def turn(self, driver, round_number, position):
        """From now on rows belong to this driver's turn in this round."""
        self.driver, self.round, self.position = driver, round_number, position

    def add(self, workload, metric, value):
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        self.writer.writerow(
            [self.driver, self.round, self.position, workload, metric, text]
        )

    def keep(self):
        self.file.flush()


def read(path):
    """The rows of a file as dictionaries, values as numbers."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["value"] = float(row["value"])
        row["round"] = int(row["round"])
        row["position"] = int(row["position"])
    return rows
