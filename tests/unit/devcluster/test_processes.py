"""Starting, knowing again and ending processes, with a shell in Java's place."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tocsin.devcluster import DevClusterError, processes
from tocsin.devcluster.files import excerpt, locked, tail, write_atomically
from tocsin.devcluster.processes import ProcessId, mark
from tocsin.devcluster.state import NodeState, StateFile

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def marked(tmp_path):
    marked = mark(tmp_path)
    yield marked
    processes.stop([marked], grace_s=None)


def start(tmp_path, marked, script=SLEEP):
    log = tmp_path / "logs" / "node.log"
    process = processes.spawn([sys.executable, "-c", script, marked], log=log, cwd=tmp_path)
    deadline = time.monotonic() + 10
    while "up" not in tail(log) and time.monotonic() < deadline:
        time.sleep(0.01)
    return process


def test_a_started_process_is_known_by_pid_time_and_mark(tmp_path, marked):
    process = start(tmp_path, marked)
    assert processes.is_alive(process, marked)
    assert processes.find_marked(marked) == [process]
    assert not processes.is_alive(process, mark(tmp_path / "other"))
    assert not processes.is_alive(ProcessId(process.pid, process.start_ticks + 1), marked)
    assert os.getsid(process.pid) == process.pid  # Ctrl-C at our terminal does not reach it


def test_a_mark_is_compared_whole(tmp_path, marked):
    start(tmp_path, mark(tmp_path / "kafka-10"))
    assert processes.find_marked(mark(tmp_path / "kafka-1")) == []
    processes.stop([mark(tmp_path / "kafka-10")])


def test_stop_ends_it_and_can_be_repeated(tmp_path, marked):
    process = start(tmp_path, marked)
    assert processes.stop([marked]) == []
    assert not processes.is_alive(process, marked)
    assert processes.stop([marked]) == []


def test_what_does_not_end_is_killed(tmp_path, marked):
    process = start(tmp_path, marked, STUBBORN)
    assert processes.stop([marked], grace_s=0.2) == [process.pid]
    assert not processes.is_alive(process, marked)


def test_one_killed_from_outside_is_not_alive_and_leaves_no_zombie(tmp_path, marked):
    process = start(tmp_path, marked)
    os.kill(process.pid, 9)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process.pid}").exists() and time.monotonic() < deadline:
        processes.is_alive(process, marked)
        time.sleep(0.01)
    assert not processes.is_alive(process, marked)
    with pytest.raises(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)


def test_the_log_of_the_run_before_is_kept(tmp_path, marked):
    start(tmp_path, marked, "print('first: up', flush=True); import time; time.sleep(60)")
    processes.stop([marked])
    start(tmp_path, marked)
    assert tail(tmp_path / "logs" / "node.log") == "up"
    assert tail(tmp_path / "logs" / "node.log.1") == "first: up"


def test_die_with_parent_ends_the_child_of_a_killed_process(tmp_path, marked):
    script = (
        "import sys, time; from pathlib import Path; from tocsin.devcluster import processes\n"
        f"processes.spawn([sys.executable, '-c', {SLEEP!r}, {marked!r}], log=Path({str(tmp_path / 'log')!r}),"
        f" cwd=Path({str(tmp_path)!r}), die_with_parent=True)\n"
        "print('started', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        assert processes.find_marked(marked)
        parent.kill()
    deadline = time.monotonic() + 10
    while processes.find_marked(marked) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes.find_marked(marked) == []


def test_memory_is_told_while_it_runs():
    assert processes.rss_mb(os.getpid()) > 1
    assert processes.rss_mb(2**22 + 1) is None


def test_state_survives_and_a_broken_file_is_an_empty_one(tmp_path):
    path = tmp_path / "state.json"
    node = NodeState({"client": 1}, ProcessId(2, 3), ready=True)
    StateFile(path).put("a", node)
    StateFile(path).put("b", NodeState({"client": 4}))
    assert StateFile(path).get("a") == node
    assert StateFile(path).ports_of_others("a") == {4}
    StateFile(path).forget_process("a")
    assert StateFile(path).get("a") == NodeState({"client": 1})
    for broken in ("{", "[]", '{"version": 99, "nodes": {}}', '{"version": 1, "nodes": {"a": {}}}'):
        path.write_text(broken)
        assert StateFile(path).get("a") == NodeState()


def test_a_lock_keeps_a_second_one_out_and_says_so(tmp_path):
    waits = []
    with (
        locked(tmp_path / "lock", on_wait=lambda: None),
        pytest.raises(DevClusterError, match="another process"),
        locked(tmp_path / "lock", on_wait=lambda: waits.append(1), wait_s_max=0.0),
    ):
        pass
    assert waits == [1]
    with locked(tmp_path / "lock", on_wait=lambda: waits.append(2)):
        pass
    assert waits == [1]


def test_an_excerpt_shows_errors_that_lie_before_the_end(tmp_path):
    log = tmp_path / "log"
    log.write_text("INFO a\nERROR what went wrong\n" + "INFO chatter\n" * 30)
    assert excerpt(log, lines=2) == "ERROR what went wrong\n…\nINFO chatter\nINFO chatter"
    assert excerpt(tmp_path / "absent") == ""


def test_a_write_leaves_no_part_behind(tmp_path):
    write_atomically(tmp_path / "file", "one")
    write_atomically(tmp_path / "file", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "two"
