"""go-plugin's protocol as a third implementation speaks it: pyvider-rpcplugin, a client written in Python.

Fleeting's own messages are few and small, so they are encoded here by hand; the package knows only what every go-plugin
has: the handshake, the health service, the broker, standard streams, and the controller by which a plugin is told to
leave.
"""

import asyncio
import json
import os
import subprocess

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pyvider.rpcplugin.client import RPCPluginClient
from pyvider.rpcplugin.config import rpcplugin_config

COOKIE = {"FLEETING_INSTANCE_GROUP_PLUGIN": "4c6410b1-cb78-4962-8c76-ab936d0ea908"}
SECRET = "11111111-2222-4333-8444-555555555555"
CREATING, RUNNING = 0, 1
# Seconds: far more than anything here takes, also on a busy machine.
LIMIT = 300
PAUSE = 0.1


async def until(what, is_so):
    for _ in range(round(LIMIT / PAUSE)):
        if await is_so():
            return
        await asyncio.sleep(PAUSE)
    raise AssertionError(f"it never came to this: {what}")


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(**fields):
    """Fields by number (`f1=...`): bytes, or a whole number."""
    out = b""
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def fields(data):
    """The fields of a message by number, each a list of its values."""
    found, at = {}, 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            value = number()
        else:
            assert key & 7 == 2, "strings, bytes and numbers only"
            length = number()
            value, at = data[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


class Group:
    """The service `proto.InstanceGroup` over a channel of the package."""

    def __init__(self, channel):
        self.channel = channel

    async def call(self, name, request=b""):
        return fields(await self.channel.unary_unary(f"/proto.InstanceGroup/{name}")(request, timeout=LIMIT))

    async def update(self):
        answers = self.channel.unary_stream("/proto.InstanceGroup/Update")(b"", timeout=LIMIT)
        told = {}
        async for answer in answers:
            report = fields(answer)
            told[report[1][0].decode()] = report.get(2, [CREATING])[0]
        return told


@pytest.fixture
def cloud():
    process = subprocess.Popen(
        [os.environ["WINDLASS_SIMULATOR"], "--listen", "127.0.0.1:0", "--time-scale", "20"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


class Client(RPCPluginClient):
    """The package's client with an authority that is one.

    gRPC's C core, on which Python's gRPC stands, names the percent-encoded path of a unix socket as `:authority`
    (grpc/grpc#38142). Rust's HTTP/2 refuses that as malformed (hyperium/h2#487). Go's gRPC, and so every runner, says
    `localhost`.
    """

    def _get_channel_options(self):
        return [*super()._get_channel_options(), ("grpc.default_authority", "localhost")]


async def started():
    # Fleeting asks for no mutual TLS.
    rpcplugin_config.plugin_auto_mtls = False
    rpcplugin_config.plugin_handshake_timeout = LIMIT
    rpcplugin_config.plugin_channel_ready_timeout = LIMIT
    rpcplugin_config.plugin_client_retry_total_timeout_s = LIMIT
    client = Client(command=[os.environ["WINDLASS_FLEETING_PLUGIN"]], config={"env": COOKIE})
    await client.start()
    return client


def test_an_instance_comes_and_goes_through_a_client_that_is_not_hashicorps(cloud, tmp_path):
    async def scenario():
        client = await started()
        group = Group(client.grpc_channel)
        try:
            health = health_pb2_grpc.HealthStub(client.grpc_channel)
            answer = await health.Check(health_pb2.HealthCheckRequest(service="plugin"))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING

            config = {
                "name": "py",
                "secret_key": SECRET,
                "project": SECRET,
                "endpoint": cloud,
                "zone": "fr-par-1",
                "server_type": "DEV1-S",
                "image": "ubuntu_noble",
                "state_dir": str(tmp_path),
                "max_size": 300,
            }
            introduced = await group.call("Init", message(f1=json.dumps(config).encode()))
            assert introduced[1] == [b"scaleway/fr-par-1/py"]
            assert introduced[2] == [300]
            assert await group.update() == {}

            assert await group.call("Increase", message(f1=1)) == {1: [1]}
            told = await group.update()
            assert len(told) == 1, "told from the first update on"
            (instance,) = told
            assert instance.startswith("py-")

            async def runs():
                return (await group.update()).get(instance) == RUNNING

            await until("it runs", runs)
            assert await group.call("Heartbeat", message(f1=instance.encode())) == {}
            reached = await group.call("ConnectInfo", message(f1=instance.encode()))
            assert b"ssh" in fields(reached[1][0])[3] and reached[2][0]

            assert await group.call("Decrease", message(f1=instance.encode())) == {1: [instance.encode()]}

            async def nothing_is_told():
                return not await group.update()

            await until("it is gone", nothing_is_told)

            async def has_left():
                return not client._process.is_running()

            await client.shutdown_plugin()
            # Asked by the controller, it leaves by itself.
            await until("the plugin has left", has_left)
            assert client._process.process.returncode == 0
        finally:
            await client.close()

    asyncio.run(scenario())


def test_an_error_of_the_group_crosses_as_words(cloud, tmp_path):
    async def scenario():
        client = await started()
        try:
            with pytest.raises(Exception, match="did you mean `server_type`"):
                await Group(client.grpc_channel).call("Init", message(f1=b'{"server_typ": "x"}'))
        finally:
            await client.shutdown_plugin()
            await client.close()

    asyncio.run(scenario())
