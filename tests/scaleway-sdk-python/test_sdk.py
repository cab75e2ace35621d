"""Scaleway's own Python SDK, unchanged, against the simulator: what it sends must be understood, what it gets must
parse
into its types."""

import datetime
import time

import pytest
from scaleway.applesilicon.v1alpha1 import ApplesiliconV1Alpha1API
from scaleway.block.v1 import BlockV1API, CreateVolumeRequestFromEmpty
from scaleway.iam.v1alpha1 import IamV1Alpha1API
from scaleway.instance.v1 import (
    InstanceV1API,
    IpState,
    IpType,
    ServerAction,
    ServerState,
    VolumeServerTemplate,
    VolumeVolumeType,
)
from scaleway.marketplace.v2 import LocalImageType, MarketplaceV2API
from scaleway.vpc.v2 import VpcV2API
from scaleway_core.api import ScalewayException

LABEL = "ubuntu_jammy"


def until(question):
    """Asks again until the answer is true, as the SDK's own waiters do: for far longer than anything here takes."""
    for _ in range(15_000):
        answer = question()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError("it never came to be true")


def image(client, kind=LocalImageType.INSTANCE_SBS):
    images = MarketplaceV2API(client).list_local_images_all(image_label=LABEL, zone="fr-par-1", type_=kind)
    return next(image.id for image in images if "DEV1-S" in image.compatible_commercial_types)


def create(client, name="sdk", **more):
    return (
        InstanceV1API(client)
        ._create_server(
            commercial_type="DEV1-S",
            name=name,
            image=image(client),
            dynamic_ip_required=False,
            protected=False,
            volumes={"0": VolumeServerTemplate(volume_type=VolumeVolumeType.SBS_VOLUME)},
            **more,
        )
        .server
    )


def in_state(client, server_id, state):
    api = InstanceV1API(client)
    return until(lambda: (server := api.get_server(server_id=server_id).server).state == state and server)


def gone(ask):
    def is_gone():
        try:
            ask()
        except ScalewayException as refusal:
            assert refusal.status_code == 404, refusal
            return True
        return False

    return until(is_gone)


def test_a_server_is_created_powered_on_listed_and_terminated(client, resources):
    api, block = InstanceV1API(client), BlockV1API(client)
    before = resources()
    ip = api.create_ip(type_=IpType.ROUTED_IPV4, tags=["sdk"]).ip
    server = create(client, tags=["sdk", "terminated"], public_ips=[ip.id])
    assert server.state == ServerState.STOPPED
    assert [address.id for address in server.public_ips] == [ip.id]

    task = api.server_action(server_id=server.id, action=ServerAction.POWERON).task
    assert task.description == "fake task"
    running = in_state(client, server.id, ServerState.RUNNING)
    assert running.location.zone_id == "fr-par-1"

    listed = api.list_servers_all(tags=["sdk", "terminated"])
    assert [found.id for found in listed] == [server.id]

    root = running.volumes["0"].id
    api.server_action(server_id=server.id, action=ServerAction.TERMINATE)
    gone(lambda: api.get_server(server_id=server.id))
    assert block.get_volume(volume_id=root).status == "available"
    block.delete_volume(volume_id=root)
    assert api.get_ip(ip=ip.id).ip.state == IpState.DETACHED
    api.delete_ip(ip=ip.id)
    assert resources() == before


def test_a_stopped_server_is_deleted_and_a_running_one_refused(client, resources):
    api, block = InstanceV1API(client), BlockV1API(client)
    before = resources()
    server = create(client)
    api.server_action(server_id=server.id, action=ServerAction.POWERON)
    in_state(client, server.id, ServerState.RUNNING)
    with pytest.raises(ScalewayException, match="server should be stopped"):
        api.delete_server(server_id=server.id)
    api.server_action(server_id=server.id, action=ServerAction.POWEROFF)
    root = in_state(client, server.id, ServerState.STOPPED).volumes["0"].id
    api.delete_server(server_id=server.id)
    until(lambda: block.get_volume(volume_id=root).status == "available")
    block.delete_volume(volume_id=root)
    assert resources() == before


def test_addresses_move_between_servers(client, resources):
    api, block = InstanceV1API(client), BlockV1API(client)
    before = resources()
    first, second = create(client, name="one"), create(client, name="two")
    ip = api.create_ip(type_=IpType.ROUTED_IPV6, server=first.id).ip
    assert ip.prefix.endswith("::/64") and ip.server.id == first.id
    # This SDK cannot detach: it leaves a None out of the body where the API wants null. So the address is made anew.
    assert api.update_ip(ip=ip.id, server=None, tags=["kept"]).ip.server.id == first.id
    api.delete_ip(ip=ip.id)
    assert api.get_server(server_id=first.id).server.public_ips == []
    ip = api.create_ip(type_=IpType.ROUTED_IPV6).ip
    moved = api.update_ip(ip=ip.id, server=second.id).ip
    assert moved.server.id == second.id
    assert api.get_server(server_id=second.id).server.public_ips[0].family == "inet6"
    api.delete_ip(ip=ip.id)
    for server in (first, second):
        root = server.volumes["0"].id
        api.delete_server(server_id=server.id)
        until(lambda: block.get_volume(volume_id=root).status == "available")
        block.delete_volume(volume_id=root)
    assert resources() == before


def test_volumes_of_both_kinds(client, resources):
    api, block = InstanceV1API(client), BlockV1API(client)
    before = resources()
    kind = VolumeVolumeType.L_SSD
    local = api.create_volume(name="local", volume_type=kind, size=10_000_000_000, tags=["sdk"]).volume
    assert [found.id for found in api.list_volumes_all(tags=["sdk"])] == [local.id]
    api.delete_volume(volume_id=local.id)
    gone(lambda: api.get_volume(volume_id=local.id))

    volume = block.create_volume(
        name="block", perf_iops=5000, from_empty=CreateVolumeRequestFromEmpty(size=10_000_000_000), tags=["sdk"]
    )
    until(lambda: block.get_volume(volume_id=volume.id).status == "available")
    assert [found.id for found in block.list_volumes_all(include_deleted=False, tags=["sdk", "other"])] == [volume.id]
    block.update_volume(volume_id=volume.id, tags=[])
    assert block.list_volumes_all(include_deleted=False, tags=["sdk"]) == []
    block.delete_volume(volume_id=volume.id)
    gone(lambda: block.get_volume(volume_id=volume.id))
    assert resources() == before


def test_private_nics(client, resources):
    api, vpc, block = InstanceV1API(client), VpcV2API(client), BlockV1API(client)
    before = resources()
    network = vpc.create_private_network(default_route_propagation_enabled=False, name="sdk", tags=[], subnets=[])
    server = create(client)
    nic = api.create_private_nic(server_id=server.id, private_network_id=network.id, tags=["sdk"]).private_nic
    assert nic.server_id == server.id and len(nic.ipam_ip_ids) == 2
    assert [found.id for found in api.list_private_ni_cs_all(server_id=server.id)] == [nic.id]
    with pytest.raises(ScalewayException) as refusal:
        vpc.delete_private_network(private_network_id=network.id)
    assert refusal.value.status_code == 412
    api.delete_private_nic(server_id=server.id, private_nic_id=nic.id)
    vpc.delete_private_network(private_network_id=network.id)
    root = server.volumes["0"].id
    api.delete_server(server_id=server.id)
    until(lambda: block.get_volume(volume_id=root).status == "available")
    block.delete_volume(volume_id=root)
    assert resources() == before


def test_long_lists_are_read_page_by_page(client):
    api = InstanceV1API(client)
    types = {}
    for page in (1, 2, 3):
        types.update(api.list_servers_types(page=page).servers)
    assert len(types) == 135 and types["DEV1-S"].ncpus == 2
    made = [api.create_ip(type_=IpType.ROUTED_IPV4, tags=["page"]).ip.id for _ in range(53)]
    try:
        assert {ip.id for ip in api.list_ips_all(tags=["page"])} == set(made)
    finally:
        for ip in made:
            api.delete_ip(ip=ip)


def test_refusals_reach_the_sdk_as_its_own_errors(client, control, resources):
    api = InstanceV1API(client)
    before = resources()
    with pytest.raises(ScalewayException) as refusal:
        api.get_server(server_id="5c1a0d5e-0000-4000-8000-000000000000")
    assert refusal.value.status_code == 404
    for kind, status in [("internal-server-error", 500), ("out-of-stock", 503), ("quota-exceeded", 403)]:
        control("DELETE", "faults")
        control("POST", "faults", {"method": "POST", "path": "/instance/**/ips", "kind": kind})
        with pytest.raises(ScalewayException) as refusal:
            api.create_ip(type_=IpType.ROUTED_IPV4)
        assert refusal.value.status_code == status
    control("DELETE", "faults")
    # Done, and the answer lost: what a careful client looks up before it tries again.
    fault = {"method": "POST", "path": "/instance/**/ips", "kind": "internal-server-error", "effect": "after"}
    control("POST", "faults", fault)
    with pytest.raises(ScalewayException):
        api.create_ip(type_=IpType.ROUTED_IPV4, tags=["lost"])
    control("DELETE", "faults")
    (lost,) = api.list_ips_all(tags=["lost"])
    api.delete_ip(ip=lost.id)
    assert resources() == before


def test_quotas_of_the_organization(client):
    iam = IamV1Alpha1API(client)
    quotas = iam.list_quota_all(organization_id=client.default_project_id)
    assert [place.unlimited for quotum in quotas for place in quotum.limits] == [True] * len(quotas)
    assert "IamSshKeys" in [quotum.name for quotum in quotas]
    assert iam.list_quota_all(organization_id="7d0e3a4c-0000-4000-8000-00000000dead") == []


def test_ssh_keys(client):
    iam = IamV1Alpha1API(client)
    key = iam.create_ssh_key(public_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFaked me@example", name="sdk")
    assert key.id in [found.id for found in iam.list_ssh_keys_all()]
    iam.delete_ssh_key(ssh_key_id=key.id)


def mac(apple, name, type_="M4-S"):
    return apple.create_server(type_=type_, name=name, enable_vpc=False, public_bandwidth_bps=0, enable_kext=False)


def test_a_mac_is_ordered_kept_for_a_day_and_gone(client, control):
    apple = ApplesiliconV1Alpha1API(client)
    assert "M4-S" in [kind.name for kind in apple.list_server_types().server_types]
    server = mac(apple, "mac")
    assert (server.status, server.delivered, server.sudo_password) == ("starting", False, "<sealed>")
    until(lambda: apple.get_server(server_id=server.id).status == "ready")
    ready = apple.get_server(server_id=server.id)
    assert ready.delivered and ready.sudo_password in ready.vnc_url and ready.ssh_username == "m1"
    assert ready.deletable_at - ready.created_at == datetime.timedelta(days=1)
    assert [found.name for found in apple.list_servers_all()] == ["mac"]
    with pytest.raises(ScalewayException, match="cannot be deleted before"):
        apple.delete_server(server_id=server.id)
    control("POST", "clock", {"advance_ms": 24 * 60 * 60 * 1000})
    apple.delete_server(server_id=server.id)
    with pytest.raises(ScalewayException) as refusal:
        apple.get_server(server_id=server.id)
    assert refusal.value.status_code == 403


def test_a_mac_is_renamed_rebooted_and_wiped(client, control):
    apple = ApplesiliconV1Alpha1API(client)
    server = mac(apple, "claimed")
    until(lambda: apple.get_server(server_id=server.id).status == "ready")
    before = apple.get_server(server_id=server.id)
    assert apple.update_server(server_id=server.id, name="pool-1").name == "pool-1"
    assert apple.reboot_server(server_id=server.id).status == "rebooting"
    with pytest.raises(ScalewayException) as busy:
        apple.reinstall_server(server_id=server.id, enable_kext=False)
    assert busy.value.status_code == 409
    until(lambda: apple.get_server(server_id=server.id).status == "ready")
    assert apple.reinstall_server(server_id=server.id, enable_kext=False, os_id=before.os.id).status == "reinstalling"
    control("POST", "clock", {"advance_ms": 20 * 60 * 1000})
    until(lambda: apple.get_server(server_id=server.id).status == "ready")
    after = apple.get_server(server_id=server.id)
    assert after.delivered and after.os.id == before.os.id and after.sudo_password != before.sudo_password
    (host,) = [found for found in control("GET", "resources")["apple_silicon_servers"] if found["id"] == server.id]
    assert [wipe["name"] for wipe in host["simulator"]["wiped"]] == ["pool-1"]
    control("POST", f"servers/{server.id}/state", {"state": "deleted"})


def test_a_mac_is_scheduled_for_deletion_and_the_date_is_kept(client, control):
    apple = ApplesiliconV1Alpha1API(client)
    server = mac(apple, "scheduled")
    assert apple.update_server(server_id=server.id, schedule_deletion=True).deletion_scheduled
    assert not apple.update_server(server_id=server.id, schedule_deletion=False).deletion_scheduled
    apple.update_server(server_id=server.id, schedule_deletion=True)
    control("POST", "clock", {"advance_ms": 24 * 60 * 60 * 1000})
    with pytest.raises(ScalewayException) as gone:
        apple.get_server(server_id=server.id)
    assert gone.value.status_code == 403
    (host,) = [found for found in control("GET", "resources")["gone_apple_silicon_servers"] if found["id"] == server.id]
    assert host["deleted_by"] == "schedule"


def test_a_pool_is_listed_in_pages_and_stock_runs_out(client, control):
    apple = ApplesiliconV1Alpha1API(client)
    ids = control("POST", "apple-silicon", {"prefix": "pool-", "count": 105, "type": "M2-L", "ages": ["26h"]})["ids"]
    listed = {found.id: found for found in apple.list_servers_all(page_size=50)}
    assert set(ids) <= set(listed) and all(listed[id].status == "ready" for id in ids)
    assert [kind.name for kind in apple.list_os_all(server_type="M4-XL")] == ["macos-tahoe-26.0", "macos-sequoia-15.6"]
    control("POST", "stock", {"server_type": "M2-L", "left": 0})
    assert apple.get_server_type(server_type="M2-L").stock == "no_stock"
    with pytest.raises(ScalewayException) as empty:
        mac(apple, "one-too-many", "M2-L")
    assert empty.value.status_code == 503
    for id in ids:
        apple.delete_server(server_id=id)
    assert not set(ids) & {found.id for found in apple.list_servers_all()}
