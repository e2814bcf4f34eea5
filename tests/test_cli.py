"""The command line: dispatch, exit codes, one clear line for every wrong use."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from liftlog import cli, version
from liftlog.commands import pubsub, serve, stream
from liftlog.security import ensure_secret_file
from liftlog.types import LiftlogError

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "liftlog", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def group_that(action: Callable[[argparse.Namespace], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the group `demo` do `action`."""

    def add_parser(subparsers: Any) -> None:
        parser = subparsers.add_parser("demo")
        parser.add_argument("--number", type=int)
        parser.set_defaults(run=action)

    monkeypatch.setattr(cli.importlib, "import_module", lambda name: SimpleNamespace(add_parser=add_parser))


def test_alone_it_prints_an_overview_that_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in cli.GROUPS)


@pytest.mark.parametrize("flag", ["--version", "-V", "version"])
def test_it_tells_its_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([flag]) == 0
    assert capsys.readouterr().out == f"liftlog {version.VERSION}\n"


def test_an_unknown_command_is_one_line_that_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pubb"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("liftlog: there is no command 'pubb'") and "pub, sub" in error
    assert error.count("\n") == 1


def test_a_wrong_argument_is_one_line_that_names_the_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group_that(lambda options: 0, monkeypatch)
    assert cli.main(["demo", "--number", "many"]) == 2
    error = capsys.readouterr().err
    assert "--number" in error and "liftlog demo --help" in error and error.count("\n") == 1


def parsed(*arguments: str) -> argparse.Namespace:
    parser = cli.Parser(prog="liftlog")
    subparsers = parser.add_subparsers(parser_class=cli.Parser)
    pubsub.add_parser(subparsers)
    stream.add_parser(subparsers)
    return parser.parse_args(arguments)


def test_options_may_stand_between_a_subject_and_its_messages() -> None:
    """As `liftlog pub state --key user-17 '{...}'` in docs/start.md."""
    found = parsed("pub", "state", "--key", "user-17", "a", "--timeout", "3", "b", "-5", "--", "-x")
    assert (found.subject, found.key, found.timeout) == ("state", "user-17", 3)
    assert found.messages == ["a", "b", "-5", "-x"]
    assert parsed("stream", "create", "orders", "--replicas", "2", "orders.>").subject == "orders.>"


@pytest.mark.parametrize(
    ("arguments", "unknown"),
    [
        (("pub", "state", "a", "--nope"), "--nope"),
        (("stream", "create", "a", "b", "--min-insink", "2"), "--min-insink 2"),
    ],
)
def test_an_option_that_nobody_knows_is_refused_with_the_command_s_own_help(
    arguments: tuple[str, ...], unknown: str
) -> None:
    words = [word for word in arguments[:2] if word in ("pub", "stream", "create")]
    with pytest.raises(LiftlogError) as caught:
        parsed(*arguments)
    assert str(caught.value) == f"unrecognized arguments: {unknown}; see 'liftlog {' '.join(words)} --help'"


def test_what_dev_says_to_try_reaches_this_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    cluster: Any = SimpleNamespace(
        nats_url="nats://127.0.0.1:9", nodes={}, folder="data", client_secret_file="secret", authority=None
    )
    serve._announce(argparse.Namespace(json=False, cluster="other"), cluster)
    hints = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  liftlog")]
    assert len(hints) == 3
    assert all(line.endswith("--nats nats://127.0.0.1:9 --cluster other") for line in hints)


def test_a_command_decides_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    group_that(lambda options: 1, monkeypatch)
    assert cli.main(["demo"]) == 1


def raising(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def action(_options: argparse.Namespace) -> int:
        raise error

    return action


@pytest.mark.parametrize(
    "error",
    [
        LiftlogError("port 1 is taken;\nchoose another"),
        ExceptionGroup(
            "nursery", [ExceptionGroup("inner", [LiftlogError("port 1 is taken; choose another")])]
        ),
    ],
)
def test_a_user_error_is_one_line_and_exit_code_2_also_out_of_a_nursery(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group_that(raising(error), monkeypatch)
    assert cli.main(["demo"]) == 2
    assert capsys.readouterr().err == "liftlog: port 1 is taken; choose another\n"


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), BaseExceptionGroup("nursery", [KeyboardInterrupt(), ValueError()])]
)
def test_an_interrupt_ends_with_130(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    group_that(raising(error), monkeypatch)
    assert cli.main(["demo"]) == 130


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), ExceptionGroup("nursery", [LiftlogError("x"), ZeroDivisionError()])]
)
def test_a_bug_is_not_dressed_up_as_a_user_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    group_that(raising(error), monkeypatch)
    with pytest.raises(type(error)):
        cli.main(["demo"])


def test_an_output_without_space_is_one_line_that_says_so() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m liftlog --help > /dev/full"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left" in done.stderr and "make space" in done.stderr


def test_a_closed_output_and_an_encoding_without_letters_are_no_traceback() -> None:
    program = f"{sys.executable} -m liftlog"
    closed = subprocess.run(
        ["bash", "-c", f"{program} --version >&-; echo $?; {program} pubb 2>&-; echo $?"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert (closed.stdout, closed.stderr) == ("0\n2\n", "")
    script = "import sys; from liftlog import cli; cli.main(['--version']); print('k\u00e4se')"
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout.endswith(b"k\\xe4se\n")


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f"{sys.executable} -m liftlog --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stderr == "" and done.stdout.strip() in ("0", "141")


def test_a_full_pipe_whose_reader_is_gone_ends_with_141() -> None:
    source = (
        "import sys; from liftlog import cli\n"
        "cli.overview = lambda: 'x' * 1_000_000\n"
        "sys.exit(cli.main([]))\n"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert reader.stdout is not None and reader.stderr is not None
    reader.stdout.close()
    assert reader.stderr.read() == b""
    reader.stderr.close()
    assert reader.wait(timeout=60) == 141


def assert_runs(source: str) -> None:
    """In a process that has imported nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_only_the_module_of_the_named_group_is_imported() -> None:
    source = (
        "import sys; from liftlog import cli; cli.main(['--help'])\n"
        "rooms = {'liftlog_sim', 'liftlog_spec', 'liftlog_jepsen', 'liftlog.bench', 'liftlog.core'}\n"
        "heavy = rooms | {'trio', 'nats', 'rich', 'pyspark', 'z3'}\n"
        "sys.exit(sorted(heavy & set(sys.modules)) or 0)\n"
    )
    assert_runs(source)


def test_a_node_starts_without_what_only_clients_need() -> None:
    source = (
        "import sys; import liftlog.commands.serve\n"
        "sys.exit(sorted({'liftlog.client', 'nats', 'rich'} & set(sys.modules)) or 0)\n"
    )
    assert_runs(source)


@pytest.mark.parametrize(
    ("module", "remedy"),
    [
        (
            "pyarrow.types",
            "needs the Python package pyarrow: run `make venv`, or `pip install 'liftlog[spark]'`",
        ),
        ("z3", "needs the Python package z3: run `make venv`, or `pip install 'liftlog[spec]'`"),
        ("liftlog_sim.sweeps.sweep", "liftlog_sim is not installed beside liftlog: install liftlog anew"),
    ],
)
def test_a_library_that_is_not_installed_is_one_line_with_the_remedy(
    module: str, remedy: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(options: argparse.Namespace) -> int:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    group_that(lacks, monkeypatch)
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["demo"]) == 2
    error = capsys.readouterr().err
    assert remedy in error and error.count("\n") == 1


def test_a_module_of_ours_that_is_named_wrongly_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(options: argparse.Namespace) -> int:
        raise ModuleNotFoundError("No module named 'liftlog_sim.sweeep'", name="liftlog_sim.sweeep")

    group_that(lacks, monkeypatch)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["demo"])


@pytest.mark.parametrize("group", cli.GROUPS)
def test_every_group_has_a_help(group: str) -> None:
    done = run(group, "--help", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert f"liftlog {group}" in done.stdout


def test_a_good_configuration_is_shown_as_it_is_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIFTLOG_SERVE_NATS_URL", "nats://10.0.0.9:4222")
    path = tmp_path / "liftlog.toml"
    path.write_text(
        '[node]\nid = 1\ndata = "/data"\nlisten = "127.0.0.1:4701"\n[peers]\n1 = "127.0.0.1:4701"\n'
    )
    assert cli.main(["config", "check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert 'data = "/data"' in shown and "nats://10.0.0.9:4222" in shown


@pytest.mark.parametrize("text", ["[node]\nidd = 1\n", "[node\n", "[protocol]\ntick_ms = -1\n"])
def test_a_broken_configuration_is_one_line_that_names_the_file(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "liftlog.toml"
    path.write_text(text)
    assert cli.main(["config", "check", str(path)]) == 2
    error = capsys.readouterr().err
    assert str(path) in error and error.count("\n") == 1


def test_config_check_reads_the_secrets_of_other_clusters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """R28: as nodes do when they start."""
    path, secret = tmp_path / "liftlog.toml", tmp_path / "east.secret"
    text = '[node]\nid = 1\ndata = "/tmp/x"\nlisten = "127.0.0.1:1"\n[clusters.east]\nnodes = ["a:1"]\n'
    path.write_text(f'{text}client_secret_file = "{secret}"\n')
    assert cli.main(["config", "check", str(path)]) == 2
    assert "[clusters.east] client_secret_file: cannot read" in capsys.readouterr().err
    ensure_secret_file(secret)
    assert cli.main(["config", "check", str(path)]) == 0
    assert "[clusters.east]" in capsys.readouterr().out
    assert cli.main(["config", "check", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["clusters"]
    assert (told[0]["name"], told[0]["nodes"]) == ("east", ["a:1"])


CLIENTS = """# who may do what
[clients.billing]
secret_file = "billing.secret"
read = [
    "orders",
    "audit_*",
]
groups = ["billing"]
subjects = ["billing.>"]

[clients.ops]
secret_file = "ops.secret"
administer = ["*"]
operate = true
"""


@pytest.fixture
def clients_file(tmp_path: Path) -> Path:
    path = tmp_path / "clients.toml"
    path.touch(mode=0o600)
    path.write_text(CLIENTS)
    return path


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ("billing read orders", 0, "yes: FILE, line 5: [clients.billing] read has 'orders'"),
        ("billing read audit_eu", 0, "yes: FILE, line 6: [clients.billing] read has 'audit_*'"),
        ("billing read secret", 1, "no: read of [clients.billing] does not give it"),
        ("billing consume orders", 1, "no: consume of [clients.billing] does not give it"),
        ("billing read __groups", 1, "in part: that of billing, by groups of [clients.billing]"),
        ("ops administer orders", 0, "yes: FILE, line 13: [clients.ops] administer has '*'"),
        ("ops administer __groups", 1, "no: administer of [clients.ops] does not give it"),
        ("ops operate", 0, "yes: FILE, line 14: [clients.ops] operate = true"),
        ("billing operate", 1, "no: operate of [clients.billing] does not give it"),
    ],
)
def test_V9_config_rights_says_what_a_client_may_and_which_line_says_so(
    asked: str, code: int, said: str, clients_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client, right, *stream = asked.split()
    command = ["config", "rights", str(clients_file), "--client", client, "--right", right]
    assert cli.main([*command, *(("--stream", *stream) if stream else ())]) == code
    assert capsys.readouterr().out == said.replace("FILE", str(clients_file)) + "\n"


def test_V9_config_rights_shows_all_and_names_who_is_not_there(
    clients_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """None of the secrets is there: the file alone is read."""
    command = ["config", "rights", str(clients_file)]
    assert cli.main(command) == 0
    assert capsys.readouterr().out == (
        "client billing: read orders, audit_*; groups billing; subjects billing.>\n"
        "client ops: administer *; operate\n"
    )
    assert cli.main([*command, "--json", "--stream", "orders"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told[0]["may"] == {"read": True, "consume": False, "administer": False}
    for more, words in (
        (["--client", "nobody"], "has no client 'nobody'; there are: billing, ops"),
        (["--right", "read"], "say --client, and --stream"),
        (["--client", "ops", "--right", "operate", "--stream", "orders"], "all rights but 'operate'"),
    ):
        assert cli.main([*command, *more]) == 2
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1


def test_V9_config_permissions_prints_what_nats_can_say(
    clients_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["config", "permissions", str(clients_file), "--cluster", "east"]
    assert cli.main([*command, "--client", "billing"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# For nats-server: ")
    assert printed.endswith(
        'client_billing: {\n  publish: { allow: ["$LIFTLOG.east.API.CLUSTER.STATUS", "billing.>", '
        '"__groups.billing", "__cursors.billing.>"] }\n  subscribe: { allow: ["_INBOX.>"] }\n}\n'
    )
    clients_file.write_text(CLIENTS.replace('groups = ["billing"]', 'groups = ["b_*"]'))
    assert cli.main(command) == 2
    assert "groups = 'b_*' cannot be said to NATS" in capsys.readouterr().err
    clients_file.write_text(CLIENTS.replace('"billing.>"', '"*.billing"'))
    assert cli.main(command) == 2
    assert "subjects = '*.billing' cannot be said to NATS" in capsys.readouterr().err
    assert cli.main([*command[:-1], "a.b"]) == 2


def test_V9_config_check_says_what_is_open_to_whom(
    clients_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, shared = tmp_path / "liftlog.toml", tmp_path / "shared.secret"
    ensure_secret_file(shared)
    text = '[node]\nid = 1\ndata = "/tmp/x"\nlisten = "127.0.0.1:1"\n[security]\n'
    path.write_text(f'{text}clients_file = "{clients_file}"\nclient_secret_file = "{shared}"\n')
    assert cli.main(["config", "check", str(path)]) == 2
    assert "[clients.billing] secret_file: cannot read" in capsys.readouterr().err
    for name in ("billing", "ops"):
        ensure_secret_file(tmp_path / f"{name}.secret")
    assert cli.main(["config", "check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "# client ops: administer *; operate\n" in shown
    assert f"# whoever has a secret of {shared} may do everything\n" in shown
    assert "# over NATS these rights bind nobody" in shown
    assert "INSECURE" not in shown
