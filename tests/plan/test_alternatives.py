import csv
import io

from dynamite_fl import cooptimize, uniform_plan
from dynamite_fl.plan.alternatives import report_plan, to_csv, to_json
from dynamite_fl.plan.fixed import fixed_plan
from tests.plan.fixtures import EXAMPLE, example


def test_a_report_has_the_best_plan_and_its_alternatives() -> None:
    fleet, limits = example()
    report = report_plan(fleet, limits, EXAMPLE)
    assert report.plan.bound == cooptimize(fleet, limits, EXAMPLE).bound == report.bounds.min()
    assert report.uniform.bound == uniform_plan(fleet, limits, EXAMPLE).bound
    assert report.fedavg is not None
    assert report.fedavg.bound == fixed_plan(fleet, limits, EXAMPLE).bound


def test_json_and_csv_agree() -> None:
    report = report_plan(*example(), EXAMPLE)
    values, rows = to_json(report), list(csv.DictReader(io.StringIO(to_csv(report))))
    assert [row["name"] for row in rows] == values["clients"]
    assert [int(row["batch_size"]) for row in rows] == values["batch_sizes"]
    assert [row["held_by"] or None for row in rows] == values["held_by"]
