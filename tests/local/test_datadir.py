"""The data folder and the sentences for what is wrong with it."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from moderation_site.local import datadir
from moderation_site.local.datadir import DataDir, write_private
from moderation_site.local.errors import StackError, sentence_for, sentence_for_output
from moderation_site.local.logs import RotatingLog
from moderation_site.local.ports import free_ports, require_free
from moderation_site.local.servers import parse_replicas, plan_servers
from moderation_site.local.triton import Replica

EVERYTHING = frozenset({"postgres", "redis", "triton"})


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    made = DataDir(tmp_path / "data")
    made.create()
    return made


def test_a_second_stack_in_the_same_folder_is_refused_and_told_of_the_first(
    data_dir: DataDir,
) -> None:
    with (
        data_dir.lock(),
        pytest.raises(StackError, match=rf"already runs in .* \(process {os.getpid()}\)"),
        DataDir(data_dir.path).lock(),
    ):
        pass


def test_the_lock_leaves_no_file(data_dir: DataDir) -> None:
    with data_dir.lock():
        assert (data_dir.path / "lock").exists()
    assert not (data_dir.path / "lock").exists()


def test_secrets_are_made_once_and_only_their_owner_may_read_them(data_dir: DataDir) -> None:
    first = data_dir.secrets(("one", "two"))
    again = DataDir(data_dir.path).secrets(("two", "three"))
    assert again["two"] == first["two"]
    assert len({again["one"], again["two"], again["three"]}) == 3
    mode = (data_dir.path / "secrets.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_file_that_can_not_be_written_whole_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    write_private(path, "whole")
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "half \udc00")
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_sockets_lie_in_the_folder_when_its_path_is_short() -> None:
    assert DataDir(Path("/srv/chat")).socket_dir() == Path("/srv/chat/run")


def test_sockets_move_to_a_short_path_when_the_folder_has_a_long_one(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / ("long-" * 30))
    inside = data_dir.socket_dir() / datadir.SOCKET_NAME
    assert len(os.fsencode(inside)) <= datadir.MAX_SOCKET_PATH_BYTES
    with socket.socket(socket.AF_UNIX) as server:
        inside.parent.mkdir()
        try:
            server.bind(str(inside))  # the kernel agrees
        finally:
            inside.unlink()
            inside.parent.rmdir()


def test_two_folders_never_share_a_socket_or_a_region(tmp_path: Path) -> None:
    one, two = (DataDir(tmp_path / (letter * 120)) for letter in "ab")
    assert one.socket_dir() != two.socket_dir()
    assert one.stack_id != two.stack_id


def test_when_no_socket_path_is_short_enough_the_sentence_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datadir.tempfile, "gettempdir", lambda: "/" + "t" * 100)
    with pytest.raises(StackError, match=r"too long for a socket.*TMPDIR"):
        DataDir(tmp_path / ("long-" * 30)).socket_dir()


def test_ports_stay_from_run_to_run_while_they_are_free(data_dir: DataDir) -> None:
    first = data_dir.ports(4)
    assert data_dir.ports(4) == first
    with socket.create_server(("127.0.0.1", first[2])):
        assert first[2] not in data_dir.ports(4)


def test_a_folder_that_can_not_be_made_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StackError, match=r"file/data cannot be made: .*--data-dir"):
        DataDir(tmp_path / "file" / "data").create()


def test_a_full_disk_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No disk has so much: to the check, this one is full.
    monkeypatch.setattr(datadir, "LEAST_FREE_BYTES", 2**62)
    with pytest.raises(StackError, match=r"The disk that holds .* is full .*make room"):
        DataDir(tmp_path / "data").create()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "The disk that holds /data is full: make room, or choose another"),
        (errno.EROFS, "/data cannot be written (Read-only file system): choose another"),
        (errno.EACCES, "/data cannot be written (Permission denied): choose another"),
    ],
)
def test_a_failed_write_becomes_one_sentence(number: int, said: str) -> None:
    sentence = sentence_for(OSError(number, os.strerror(number)), Path("/data"))
    assert sentence.startswith(said)
    assert "\n" not in sentence


def test_a_server_that_ran_out_of_disk_is_understood(tmp_path: Path) -> None:
    said = "FATAL:  could not write lock file: No space left on device"
    assert "is full" in (sentence_for_output(said, tmp_path) or "")
    assert sentence_for_output("FATAL:  something else", tmp_path) is None


def test_a_port_in_use_is_said_with_the_option_to_change_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(StackError, match=rf"^Port {port} is in use on 127.0.0.1.*--port\.$"):
            require_free("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(StackError, match=r"192\.0\.2\.1 is no address of this machine"):
        require_free("192.0.2.1", 0)


def test_free_ports_are_distinct_and_can_be_listened_on() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        require_free("127.0.0.1", port)


@pytest.mark.parametrize(
    ("value", "replicas"),
    [
        ("gpu=triton:8001:8000:8002", [Replica("gpu", "triton", 8001, 8000, 8002)]),
        ("10.0.0.5:8001", [Replica("triton-1", "10.0.0.5", 8001, 8000, 8002)]),
        (
            "a:1:2, b=b:3",
            [Replica("triton-1", "a", 1, 2, 8002), Replica("b", "b", 3, 8000, 8002)],
        ),
        ("", []),
    ],
)
def test_replicas_are_read_with_triton_s_own_ports_as_defaults(
    value: str, replicas: list[Replica]
) -> None:
    assert parse_replicas(value) == replicas


@pytest.mark.parametrize("value", ["host", "host:", ":8001", "host:x", "host:1:2:3:4", "n="])
def test_a_replica_that_can_not_be_read_is_named(value: str) -> None:
    with pytest.raises(StackError, match="TRITON_REPLICAS must list"):
        parse_replicas(value)


def test_a_replica_reads_back_from_its_own_variable() -> None:
    replica = Replica("triton-2", "127.0.0.1", 1, 2, 3)
    assert parse_replicas(replica.as_variable()) == [replica]


def test_servers_of_others_replace_the_embedded_ones(data_dir: DataDir) -> None:
    given = {"DATABASE_URL": "postgresql://db/chat", "TRITON_REPLICAS": "gpu=triton:8001"}
    servers = plan_servers(data_dir, replicas=1, given=given, wanted=EVERYTHING)
    assert servers.postgres is None
    assert not servers.runs_triton
    assert servers.redis is not None
    assert servers.environment == {**given, "REDIS_URL": servers.redis.redis_url}


async def test_servers_of_others_that_do_not_answer_are_named_without_their_password(
    data_dir: DataDir,
) -> None:
    [port] = free_ports(1)
    for variable, scheme in (("DATABASE_URL", "postgresql"), ("REDIS_URL", "redis")):
        given = {variable: f"{scheme}://user:hush@127.0.0.1:{port}/0"}
        servers = plan_servers(data_dir, replicas=1, given=given, wanted=EVERYTHING)
        with pytest.raises(StackError, match=f"{variable} is set, but nothing") as caught:
            await servers.check_given()
        assert "hush" not in str(caught.value)


def test_a_log_is_kept_in_files_of_bounded_size(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "web.log", max_bytes=10, kept=3)
    for number in range(6):
        log.write(b"line %d\n" % number)
    log.close()
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == {"web.log": "line 5\n", "web.log.1": "line 4\n", "web.log.2": "line 3\n"}
