"""Every command that README, docs and examples show is executed: here is the list of the tests that do it.

A block that is not in the list fails this test, so a new command needs a test (or a reason in CHECKED).
Pages in Japanese have the code of their English pages; tests/docs/test_translations.py compares them.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping

import pytest

from tests.docs.test_contract import functions_in
from tests.docs.test_examples import BIN, ROOT, blocks
from tests.tidy.repository import tracked_text_files

SHELLS = {"sh", "bash", "shell", "console", "zsh", "fish"}
GENERATED = "docs/reference/cli-reference.md"
BLOCK = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
OURS = re.compile(r"\bpyoco-(?:client|server|server-admin|worker)\b")

README = "tests/docs/test_examples.py::test_the_readme"
TUTORIAL = "tests/docs/test_first_ten_minutes.py::test_"
GUIDES = "tests/docs/test_how_to_pages.py::test_"
PROJECTS = "tests/examples/test_projects.py::test_"
CLI = "tests/docs/test_cli_page.py::test_"

# The page and the first line of each block, and the test that executes it.
EXECUTED: Mapping[tuple[str, str], str] = {
    (
        "README.md",
        "pip install pyoco-server",
    ): f"{TUTORIAL}the_installation_names_the_package_and_its_command",
    ("README.md", "pyoco-client submit hello"): f"{README}_commands_do_what_it_says",
    ("README.md", "curl -s localhost:8000/runs"): f"{README}_curl_lines_work",
    ("README.md", "pyoco-server up --flow-resolver"): f"{README}_flow_runs",
    ("docs/how-to/alerts.md", "pyoco-client submit fails"): (
        f"{GUIDES}the_commands_of_an_upgrade_and_of_a_failed_run_work"
    ),
    ("docs/how-to/approvals.md", "pyoco-server up"): (
        "tests/docs/test_approvals_page.py::test_the_flow_of_the_page_waits_and_goes_on_or_is_rejected"
    ),
    ("docs/how-to/batches.md", "echo"): f"{GUIDES}the_batch_of_the_page_is_submitted",
    ("docs/how-to/deploy-flows.md", "PYOCO_WHEEL_SYNC_ENABLED=1"): (
        f"{GUIDES}a_wheel_with_flows_is_deployed_and_replaced"
    ),
    ("docs/how-to/deploy-flows.md", "pyoco-server-admin api-key"): (
        f"{GUIDES}the_key_of_a_pipeline_can_be_created"
    ),
    ("docs/how-to/nightly-etl.md", "for day in"): f"{GUIDES}every_day_of_the_loop_is_submitted",
    ("docs/how-to/recheck.md", "make demo-recheck"): (
        "tests/recheck/test_example.py::test_the_demonstration_runs_to_its_end"
    ),
    ("docs/how-to/recheck.md", "pyoco-server-admin strategy"): (
        "tests/docs/test_recheck_page.py::test_the_commands_of_the_page_do_what_it_says"
    ),
    ("docs/how-to/recheck.md", "curl -s localhost:8000/pdca"): (
        "tests/docs/test_recheck_page.py::test_the_commands_of_the_page_do_what_it_says"
    ),
    ("docs/how-to/schedules.md", "pyoco-client schedule add"): (
        "tests/docs/commands/test_schedules_page.py::test_the_commands_add_list_and_delete"
    ),
    ("docs/how-to/schedules.md", "curl -s localhost:8000/schedules"): (
        "tests/docs/commands/test_schedules_page.py::test_the_requests_do_the_same"
    ),
    ("docs/how-to/schedules.md", "pyoco-client schedule show"): (
        "tests/docs/commands/test_schedules_page.py::test_a_schedule_is_shown_paused_edited_and_filled"
    ),
    ("docs/how-to/schedules.md", "curl -s -X POST localhost:8000/schedules/<schedule_id>/pause"): (
        "tests/docs/commands/test_schedules_page.py::test_a_schedule_is_shown_paused_edited_and_filled"
    ),
    ("docs/how-to/secrets.md", "SHOP_TOKEN="): f"{GUIDES}a_secret_of_the_worker_reaches_the_flow",
    ("docs/how-to/upgrading.md", "pyoco-server-admin doctor"): (
        f"{GUIDES}the_commands_of_an_upgrade_and_of_a_failed_run_work"
    ),
    ("docs/how-to/upgrading.md", "pyoco-client worker drain"): (
        f"{GUIDES}the_commands_of_an_upgrade_and_of_a_failed_run_work"
    ),
    ("docs/operations/jwt.md", "PYOCO_HTTP_AUTH_MODE=jwt"): (
        "tests/docs/test_recheck_page.py::test_tokens_open_a_server_that_asks_for_them"
    ),
    ("docs/operations/keys.md", "PYOCO_HTTP_AUTH_MODE=api_key"): (
        "tests/docs/test_keys_page.py::test_the_commands_of_the_page_do_what_it_says"
    ),
    ("docs/operations/keys.md", "pyoco-server-admin api-key"): (
        "tests/docs/test_keys_page.py::test_the_commands_of_the_page_do_what_it_says"
    ),
    ("docs/operations/keys.md", "curl -s -H"): (
        "tests/docs/test_keys_page.py::test_the_commands_of_the_page_do_what_it_says"
    ),
    ("docs/operations/operations.md", "export PYOCO_NATS_URL"): (
        "tests/docs/commands/test_cluster_page.py::test_the_cluster_of_the_page_serves_runs"
    ),
    ("docs/operations/operations.md", "pyoco-client worker drain"): (
        "tests/docs/commands/test_workers_page.py::test_a_worker_drains_resumes_and_is_stopped"
    ),
    ("docs/operations/workers.md", "pyoco-worker --flow-resolver"): (
        "tests/docs/commands/test_workers_page.py::test_a_worker_of_the_page_serves_its_tags"
    ),
    ("docs/operations/workers.md", "pyoco-server-admin logs"): (
        "tests/docs/commands/test_workers_page.py::test_a_worker_of_the_page_serves_its_tags"
    ),
    ("docs/operations/workers.md", "pyoco-client worker drain"): (
        "tests/docs/commands/test_workers_page.py::test_a_worker_drains_resumes_and_is_stopped"
    ),
    ("docs/reference/cli.md", "pyoco-client config set"): f"{CLI}profiles_are_set_used_listed_and_removed",
    ("docs/reference/cli.md", "pyoco-client submit hello"): f"{CLI}the_beginning_of_an_id_is_enough",
    ("docs/reference/cli.md", "pyoco-client run list"): f"{CLI}runs_are_found_and_cancelled_by_filter",
    ("docs/reference/cli.md", "pip install 'pyoco-server[top]'\npyoco-client top"): (
        "tests/cli/client/test_top.py::test_ctrl_c_leaves_the_terminal_as_it_was"
    ),
    ("docs/reference/cli.md", "pyoco-client completion"): f"{CLI}completion_scripts_are_written",
    (
        "docs/reference/executions.md",
        "at=http",
    ): "tests/docs/test_executions_page.py::test_the_shell_client_does_the_same",
    ("docs/reference/idempotency.md", "curl -si"): (
        "tests/docs/test_examples.py::test_the_same_request_twice_is_one_run"
    ),
    ("docs/reference/logs.md", "curl -s localhost"): "tests/docs/test_logs_page.py::test_the_curl_lines_work",
    ("docs/reference/logs.md", "pyoco-client logs"): "tests/docs/test_logs_page.py::test_the_commands_work",
    ("docs/reference/workflow-yaml.md", "pyoco-server up"): (
        "tests/docs/test_workflow_yaml.py::test_the_documented_workflow_does_what_it_says"
    ),
    ("docs/tutorial/quickstart.md", "python3 -m venv"): (
        f"{TUTORIAL}the_installation_names_the_package_and_its_command"
    ),
    ("docs/tutorial/quickstart.md", "pyoco-client submit hello"): (
        f"{TUTORIAL}the_demo_flows_do_what_the_tutorial_says"
    ),
    ("docs/tutorial/quickstart.md", "pyoco-client submit ticker"): (
        f"{TUTORIAL}the_demo_flows_do_what_the_tutorial_says"
    ),
    ("docs/tutorial/quickstart.md", "pyoco-server up"): (
        f"{TUTORIAL}a_flow_of_ones_own_succeeds_fails_and_is_retried"
    ),
    ("docs/tutorial/quickstart.md", "pyoco-client submit measure --param"): (
        f"{TUTORIAL}a_flow_of_ones_own_succeeds_fails_and_is_retried"
    ),
    ("docs/tutorial/quickstart.md", "pyoco-client submit measure --wait"): (
        f"{TUTORIAL}a_flow_of_ones_own_succeeds_fails_and_is_retried"
    ),
    ("docs/tutorial/quickstart.md", "pyoco-client retry"): (
        f"{TUTORIAL}a_flow_of_ones_own_succeeds_fails_and_is_retried"
    ),
    ("docs/tutorial/quickstart.md", "pyoco-worker"): f"{TUTORIAL}a_worker_serves_a_tag_of_its_own",
    ("examples/fan_out/README.md", "pyoco-server up"): f"{PROJECTS}fan_out_counts_every_file_once",
    ("examples/human_approval/README.md", "pyoco-server up"): f"{PROJECTS}human_approval_waits_and_pays",
    ("examples/idempotent_side_effects/README.md", "pyoco-server up"): (
        f"{PROJECTS}idempotent_side_effects_charge_once"
    ),
    ("examples/nightly_etl/README.md", "pyoco-server up"): (
        f"{PROJECTS}nightly_etl_loads_a_day_once_however_often_it_runs"
    ),
    ("examples/testing_a_flow/README.md", "python -m pytest"): f"{PROJECTS}testing_a_flow_needs_no_server",
}

# What the suite cannot execute, why, and what is checked instead: see the tests below.
CHECKED: Mapping[tuple[str, str], str] = {
    ("README.md", "make up"): "`make test` is this suite; the targets and what they start are checked",
    ("docs/operations/measurements.md", "make bench"): "takes hours; targets and arguments are checked",
    ("docs/how-to/mcp.md", "pip install"): "needs an index of packages; the extra is checked",
}


def pages() -> Iterator[tuple[str, str]]:
    for path in tracked_text_files():
        name = path.relative_to(ROOT).as_posix()
        is_read = name.startswith(("docs/", "examples/")) or "/" not in name
        if name.endswith(".md") and not name.endswith(".ja.md") and is_read and name != "CHANGELOG.md":
            yield name, path.read_text(encoding="utf-8")


def shell_blocks() -> Iterator[tuple[str, str]]:
    for page, text in pages():
        for language, block in BLOCK.findall(text):
            if language in SHELLS:
                yield page, block


def listed(page: str, block: str) -> list[tuple[str, str]]:
    return [key for key in (*EXECUTED, *CHECKED) if key[0] == page and block.startswith(key[1])]


def test_every_block_of_commands_is_in_the_list() -> None:
    missing = [(page, block.splitlines()[0]) for page, block in shell_blocks() if not listed(page, block)]
    assert missing == []


def test_everything_in_the_list_is_on_its_page() -> None:
    used = {key for page, block in shell_blocks() for key in listed(page, block)}
    assert {*EXECUTED, *CHECKED} - used == set()


@pytest.mark.parametrize("test", sorted(set(EXECUTED.values())))
def test_the_tests_in_the_list_exist(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in functions_in(ROOT / file)


def test_commands_are_in_blocks_for_a_shell() -> None:
    """So that the list is about all of them. The generated reference has its own test."""
    others = [
        (page, line)
        for page, text in pages()
        for language, block in BLOCK.findall(text)
        if language not in SHELLS and page != GENERATED
        for line in block.splitlines()
        if re.match(rf"\s*(?:[A-Z_]+=\S+ )*{OURS.pattern} \w", line) and "is ready" not in line
    ]
    assert others == []


MADE = [line for _, block in shell_blocks() for line in block.splitlines() if line.startswith("make ")]


@pytest.mark.parametrize("line", MADE)
def test_targets_of_make_exist(line: str) -> None:
    command = shlex.split(line, comments=True)
    done = subprocess.run([*command, "--dry-run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_arguments_of_the_measurements_are_accepted() -> None:
    [block] = blocks("docs/operations/measurements.md", "sh")
    for line in block.splitlines():
        [*settings] = (word for word in shlex.split(line, comments=True) if word.startswith("ARGS="))
        arguments = shlex.split("".join(settings).removeprefix("ARGS="))
        done = subprocess.run(
            [BIN / "python", "-m", "bench", *arguments, "--help"], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_extras_that_are_installed_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    named = [extra for page, block in shell_blocks() for extra in re.findall(r"pyoco-server\[(\w+)\]", block)]
    assert named
    assert [extra for extra in named if f"\n{extra} = [" not in project] == []
