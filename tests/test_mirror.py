"""Tests lie where the code lies: ``src/dynamite_fl/a/_b.py`` is tested in ``tests/a/test_b.py``."""

from pathlib import Path

import dynamite_fl

SOURCE = Path(dynamite_fl.__file__).parent
TESTS = Path(__file__).parent

# Test files that belong to no source file, and what they test instead.
OTHER_TESTS = {
    "faults/test_folders.py": "run folders that were damaged",
    "faults/test_jobs.py": "job files with wrong types and damaged text",
    "faults/test_kills.py": "trainings that are killed",
    "faults/test_load.py": "one server with many nodes",
    "faults/test_nodes.py": "nodes with a key that do harm, and nodes and servers that stand still",
    "findings/test_algorithms.py": "whole trainings: Algorithms 1 to 3, line by line",
    "findings/test_estimates.py": "whole trainings: estimates and bounds on a known loss",
    "findings/test_streams.py": "whole trainings: what the paper finds about streams",
    "flower/test_example.py": "examples/flower and examples/flower_strategy",
    "flower/test_lies.py": "whole trainings: real nodes of which one lies",
    "gallery/test_examples.py": "examples/, quickly",
    "gallery/test_mistakes.py": "ordinary mistakes in a task, in Python and as a command",
    "gallery/test_memory.py": "whole trainings: data that is larger than memory",
    "gallery/test_models.py": "whole trainings: models of every kind",
    "gallery/test_own_data.py": "whole trainings: machines with data of their own",
    "gallery/test_projects.py": "whole trainings: projects of ordinary kinds",
    "gallery/test_whole.py": "examples/, as they are",
    "report/test_browser.py": "reports in a real browser",
    "test_deploy.py": "the guide to real machines",
    "test_docs.py": "docs/",
    "test_documents.py": "what README.md, docs/ and --help show, run to its end",
    "test_imports.py": "which package may import which",
    "test_mirror.py": "this rule",
    "test_readme.py": "README.md",
}

# Source files without a test file of their own, and where their behaviour is tested.
_RECORDS = "records without behaviour"
_COMMANDS = "every test of a command"
_REPORTS = "tests/report/test_write.py, on whole pages"
TESTED_ELSEWHERE = {
    "_extras.py": "tests/test_imports.py, without what extras install",
    "_cli/all_commands.py": _COMMANDS,
    "_cli/app.py": _COMMANDS,
    "_cli/options.py": _COMMANDS,
    "_cli/show.py": "tests/_cli/test_resume.py and test_run.py, with the runs that they make",
    "_cli/train.py": "tests/_cli/test_run.py and test_resume.py, which it is the inside of",
    "_cli/views/plan.py": "tests/_cli/test_plan.py",
    "client/executors/one_by_one.py": "tests/client/executors/test_executor.py",
    "client/incoming.py": "tests/client/test_client.py, with samples that arrive",
    "client/messages.py": _RECORDS,
    "client/probe_settings.py": f"{_RECORDS}; tests/client/test_client.py uses them",
    "client/probing.py": "tests/client/test_client.py, by hand",
    "control/controller.py": "a protocol; tests/testing/test_controllers.py checks controllers",
    "training/threads.py": "tests/training/test_session.py, which counts the threads",
    "errors.py": f"{_RECORDS}; tests/_cli/test_errors.py shows them",
    "metrics.py": "tests/task/test_metrics.py; it only has the names",
    "flower/app_engine.py": "tests/flower/test_strategy.py, through the strategy",
    "flower/app_nodes.py": "tests/flower/test_strategy.py, through the strategy",
    "flower/app_replies.py": "tests/flower/test_strategy.py, through the strategy",
    "flower/cluster.py": "tests/_cli/test_cluster.py, in processes",
    "flower/failed_rounds.py": "tests/flower/test_engine.py and test_strategy.py, in trainings",
    "flower/join.py": "tests/_cli/test_node.py and test_serve.py, in processes",
    "flower/round_outcome.py": "tests/flower/test_engine.py",
    "flower/serve.py": "tests/_cli/test_serve.py",
    "flower/stock_bundle.py": "tests/flower/test_stock_app.py",
    "flower/timeouts.py": "tests/flower/test_engine.py, which waits, and an example",
    "plan/_predict.py": "tests/plan/test_cooptfl.py, against brute force",
    "plan/_search.py": "tests/plan/test_cooptfl.py, against brute force",
    "plan/_sizing.py": "tests/plan/test_cooptfl.py, against brute force",
    "job/build_data.py": "tests/job/test_build.py, with what is built of it",
    "job/from_python.py": "tests/test_api.py, which gives everything in Python",
    "report/chart.py": _REPORTS,
    "report/comparison_charts.py": _REPORTS,
    "report/comparison_page.py": _REPORTS,
    "report/contents.py": _RECORDS,
    "report/page.py": _REPORTS,
    "report/read_job.py": _REPORTS,
    "report/read_runs.py": f"{_REPORTS}, with damaged and missing files",
    "report/run_charts.py": _REPORTS,
    "report/run_page.py": _REPORTS,
    "reports.py": _RECORDS,
    "simulation/round_outcome.py": "tests/simulation/test_engine.py",
    "simulation/worker.py": "tests/simulation/test_workers.py, in processes",
    "task/dataset_samples.py": "tests/task/test_samples.py, with data of every kind",
    "task/datasets/dataset.py": f"{_RECORDS}, and conversions with examples",
    "task/datasets/files.py": "tests/task/datasets/test_idx.py and test_cifar.py",
    "task/datasets/sources.py": f"{_RECORDS}; tests/task/datasets/test_load.py loads them",
    "task/mistakes.py": "tests/task/test_trial.py, which makes them",
    "task/partition_checks.py": "tests/test_partitions.py, through the recipes",
    "task/tensor_samples.py": "tests/task/test_samples.py, with data of every kind",
    "task/trial_samples.py": "tests/task/test_trial.py, which tries every kind of data",
    "testing/_training.py": "tests/testing/test_controllers.py",
    "tracking/mlflow.py": "tests/tracking/test_track.py, which reads back what was recorded",
    "tracking/tensorboard.py": "tests/tracking/test_track.py, which reads back what was recorded",
    "tracking/tracker.py": "tests/tracking/test_track.py",
    "training/engine.py": f"{_RECORDS}, and a protocol",
    "training/named.py": "tests/training/test_averaging.py and test_server_optimizer.py",
    "training/result.py": "tests/test_api.py, which looks at results",
    "training/training.py": f"{_RECORDS}; tests/training/test_private_rules.py plans with privacy",
}


def mirrored(source: Path) -> str:
    folder = source.relative_to(SOURCE).parent
    return (folder / f"test_{source.stem.lstrip('_')}.py").as_posix()


SOURCES = {
    file.relative_to(SOURCE).as_posix(): mirrored(file)
    for file in SOURCE.rglob("*.py")
    if file.name != "__init__.py"
}
TEST_FILES = {file.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")}


def test_every_test_file_mirrors_a_source_file() -> None:
    assert TEST_FILES - set(SOURCES.values()) <= OTHER_TESTS.keys()


def test_every_source_file_is_mirrored_by_a_test_file() -> None:
    alone = {source for source, test in SOURCES.items() if test not in TEST_FILES}
    assert alone == TESTED_ELSEWHERE.keys()
