//! Clusters of servers: created, scaled and terminated by their objects, with hooks as Jobs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use kube::ResourceExt;
use kube::api::{WatchEvent, WatchParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_simulator::{Effect, FaultKind};
use windlass_test_kubernetes::{
    ControlPlane, Controller, ControllerOptions, Kind, Kubelet, Moment, Scene, User, eventually,
};

const NAME: &str = "farm";
const SERVERS: &str = "/instance/v1/zones/*/servers";

/// A scene with a kubelet, and a folder in which hooks write down what they did and find how they are to end.
struct Farm<'plane> {
    scene: Scene<'plane>,
    folder: PathBuf,
    _kubelet: Kubelet,
}

impl<'plane> Farm<'plane> {
    async fn new(plane: &'plane ControlPlane, name: &str) -> Result<Self> {
        let scene = Scene::new(plane, name).await?;
        let folder = scene.folder().join("hooks");
        std::fs::create_dir_all(&folder)?;
        let kubelet = Kubelet::run(scene.client().clone(), scene.namespace(), scene.folder());
        Ok(Self { scene, folder, _kubelet: kubelet })
    }

    /// A Job that writes its stage, its operation's number and its nodes into `done`, waits while there is a file
    /// `hold-<stage>`, and ends as the file `exit-<stage>` says.
    fn hook(&self) -> Value {
        let folder = self.folder.display();
        let script = format!(
            r#"set -eu
nodes=$(sed 's/"others":.*//' "$WINDLASS_INPUT" | grep -o '"name":"[^"]*"' | cut -d'"' -f4 | tr '\n' ' ')
echo "$WINDLASS_STAGE ${{WINDLASS_OPERATION_ID##*-}} $nodes$LEVEL" >> {folder}/done
while [ -e {folder}/hold-$WINDLASS_STAGE ]; do sleep 0.1; done
if [ -e {folder}/exit-$WINDLASS_STAGE ]; then echo "no license left" >&2; exit "$(cat {folder}/exit-$WINDLASS_STAGE)"; fi
echo "all is well" > /dev/termination-log"#
        );
        json!({"job": {
            "image": "example.org/farm:1", "command": ["sh", "-c"], "args": [script],
            "env": {"LEVEL": "of-level-1"},
        }, "timeLimitSeconds": 60})
    }

    /// The object, with every hook.
    fn cluster(&self, groups: &[(&str, u32)]) -> Value {
        let hook = self.hook();
        let mut cluster = bare(groups);
        cluster["spec"]["hooks"] = json!({"decommission": hook, "configure": hook, "start": hook});
        cluster
    }

    /// What the hooks did, in order.
    fn done(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join("done")).unwrap_or_default();
        text.lines().map(|line| line.trim_end_matches(" of-level-1").to_owned()).collect()
    }

    fn put(&self, file: &str, content: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.join(file), content)?)
    }

    fn take(&self, file: &str) -> Result<()> {
        Ok(std::fs::remove_file(self.folder.join(file))?)
    }

    async fn apply(&self, groups: &[(&str, u32)]) -> Result<()> {
        self.scene.apply(&self.cluster(groups)).await.map(drop)
    }

    async fn object(&self) -> Result<DynamicObject> {
        Ok(self.scene.api(Kind::ServerCluster).get(NAME).await?)
    }

    async fn status(&self) -> Result<Value> {
        Ok(self.object().await?.data["status"].clone())
    }

    /// Waits until the cluster is in this state, with nothing under way.
    async fn settled(&self, state: &str) -> Result<Value> {
        eventually(&format!("{NAME} is {state}"), || async {
            let status = self.status().await?;
            let idle = condition(&status, "Progressing")["status"] == "False";
            ensure!(status["state"] == state && idle, "{}", brief(&status));
            Ok(status)
        })
        .await
    }

    /// Waits until the cluster is active and ready with these nodes, and nothing beside them is at Scaleway.
    async fn ready(&self, nodes: &[&str]) -> Result<Value> {
        let status = eventually(&format!("{NAME} is ready with {nodes:?}"), || async {
            let status = self.status().await?;
            let ready = condition(&status, "Ready");
            ensure!(ready["status"] == "True", "{}", brief(&status));
            ensure!(names(&status["nodes"]) == nodes, "{}", brief(&status));
            Ok(status)
        })
        .await?;
        ensure!(self.servers() == nodes, "{:?}", self.servers());
        self.whole()?;
        Ok(status)
    }

    /// The names of the servers at Scaleway, sorted.
    fn servers(&self) -> Vec<String> {
        let mut servers: Vec<String> = names(&json!(self.scene.scaleway().instances()));
        servers.sort();
        servers
    }

    /// Each server has its address and its volume, and nothing is there beside them.
    fn whole(&self) -> Result<()> {
        let there = self.scene.scaleway().simulator().resources();
        let count = there.servers.len();
        ensure!(there.ips.len() == count && there.volumes.len() == count, "{there:#?}");
        Ok(())
    }

    /// Deletes the object and waits until it and everything of it is gone.
    async fn delete(&self) -> Result<()> {
        self.scene.delete(Kind::ServerCluster, NAME).await?;
        self.nothing_is_left().await
    }

    async fn nothing_is_left(&self) -> Result<()> {
        self.scene.gone(Kind::ServerCluster, NAME).await?;
        let resources = self.scene.scaleway().simulator().resources();
        ensure!(resources.is_empty(), "{resources:#?}");
        eventually("no Job, no ConfigMap and no pod is left", || async {
            for kind in [Kind::Job, Kind::ConfigMap, Kind::Pod] {
                let left: Vec<String> = self.scene.list(kind).await?.iter().map(ResourceExt::name_any).collect();
                // Every namespace has one.
                ensure!(left.iter().all(|name| name == "kube-root-ca.crt"), "{kind:?}: {left:?}");
            }
            Ok(())
        })
        .await
    }

    async fn looked_at_again(&self, controller: &Controller) -> Result<()> {
        self.scene.looked_at_again(controller, Kind::ServerCluster, NAME).await
    }

    /// Has the controller look so often, and so late, that it would have begun again what failed; it has not.
    async fn not_tried_again(&self, controller: &Controller) -> Result<()> {
        let begun = |status: &Value| (status["attempt"].clone(), status["operation"]["number"].clone());
        let before = begun(&self.status().await?);
        self.scene.looked_at_later(controller, Kind::ServerCluster, NAME).await?;
        let status = self.status().await?;
        ensure!(begun(&status) == before, "before: {before:?}; {}", brief(&status));
        ensure!(condition(&status, "Progressing")["status"] == "False", "{}", brief(&status));
        Ok(())
    }

    /// Who runs the open operation.
    async fn runner(&self) -> Result<String> {
        let operation = self.status().await?["operation"].clone();
        ensure!(operation["state"] == "open", "{operation:#}");
        Ok(operation["runner"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until another than `before` runs the open operation.
    async fn taken_over(&self, before: &str) -> Result<String> {
        eventually("the operation is taken over", || async {
            let runner = self.runner().await?;
            ensure!(runner != before, "{runner} runs it");
            Ok(runner)
        })
        .await
    }

    async fn annotate(&self, key: &str, value: &str) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.scene.patch(Kind::ServerCluster, NAME, patch).await.map(drop)
    }
}

/// A cluster without hooks.
fn bare(groups: &[(&str, u32)]) -> Value {
    let group = |(name, count): &(&str, u32)| {
        json!({"name": name, "count": count, "types": ["DEV1-S"],
        "image": "ubuntu_noble"})
    };
    json!({
        "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "ServerCluster", "metadata": {"name": NAME},
        "spec": {"zone": "fr-par-1", "groups": groups.iter().map(group).collect::<Vec<_>>()},
    })
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn condition(status: &Value, kind: &str) -> Value {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// A status for messages.
fn brief(status: &Value) -> String {
    let mut status = status.clone();
    if let Some(map) = status.as_object_mut() {
        map.remove("events");
        if let Some(operation) = map.get_mut("operation").and_then(Value::as_object_mut) {
            operation.remove("policies");
        }
    }
    format!("{status:#}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_created_with_its_hooks_in_order_and_deleted_without_a_trace() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "farm").await?;
    let _controller = farm.scene.start(&ControllerOptions::default()).await?;
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "first-boot"}});
    secret["stringData"] = json!({"value": "#cloud-config\nhostname: from-a-secret\n"});
    farm.scene.apply(&secret).await?;
    let mut cluster = farm.cluster(&[("cache", 1), ("web", 2)]);
    cluster["spec"]["groups"][0]["cloudInit"] = json!({"secretName": "first-boot"});
    cluster["spec"]["groups"][1]["cloudInit"] = json!({"inline": "#cloud-config\nhostname: inline\n"});
    farm.scene.apply(&cluster).await?;
    let status = farm.ready(&["farm-cache-1", "farm-web-1", "farm-web-2"]).await?;
    ensure!(
        farm.done() == ["configure 1 farm-cache-1 farm-web-1 farm-web-2", "start 1 farm-cache-1 farm-web-1 farm-web-2"],
        "{:?}",
        farm.done()
    );
    for node in status["nodes"].as_array().into_iter().flatten() {
        ensure!(node["configured"] == true && node["started"] == true && node["role"] == "staying", "{node:#}");
        ensure!(node["addresses"].as_array().is_some_and(|addresses| addresses.len() == 1), "{node:#}");
        let wanted = if node["group"] == "cache" { "from-a-secret" } else { "inline" };
        ensure!(
            farm.scene.scaleway().cloud_init(node["serverID"].as_str().unwrap_or_default())?.contains(wanted),
            "{node:#}"
        );
    }
    ensure!(status["history"][0]["kind"] == "create" && status["history"][0]["state"] == "done", "{}", brief(&status));
    ensure!(!status.to_string().contains("from-a-secret"), "the Secret's content is in the status");
    let printed =
        plane.kubectl(windlass_test_kubernetes::User::Admin, &["-n", farm.scene.namespace(), "get", "scl"], "")?;
    ensure!(printed.contains("active") && printed.contains("True"), "{printed}");
    let events = farm.scene.events(NAME).await?;
    for wanted in
        ["OperationBegan", "Servers", "Configure", "HookOutput: operation 1: configure: all is well", "OperationDone"]
    {
        ensure!(events.iter().any(|event| event.contains(wanted)), "{wanted}: {events:#?}");
    }
    farm.delete().await?;
    ensure!(farm.done()[2..] == ["decommission 2 farm-cache-1 farm-web-1 farm-web-2"], "{:?}", farm.done());
    farm.scene.end().await
}

/// Every version of the object from now on, as the API server tells it to who watches.
fn versions(farm: &Farm<'_>, from: &DynamicObject) -> Result<Arc<Mutex<Vec<DynamicObject>>>> {
    let (api, seen) = (farm.scene.api(Kind::ServerCluster), Arc::new(Mutex::new(Vec::new())));
    let (into, from) = (Arc::clone(&seen), from.resource_version().context("no version")?);
    tokio::spawn(async move {
        let Ok(events) = api.watch(&WatchParams::default().timeout(290), &from).await else { return };
        let mut events = std::pin::pin!(events);
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Modified(object) = event
                && let Ok(mut all) = into.lock()
            {
                all.push(object);
            }
        }
    });
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_never_called_ready_while_an_operation_changes_it() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "unready").await?;
    let _controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.scene.apply(&bare(&[("web", 1)])).await?;
    farm.ready(&["farm-web-1"]).await?;
    let seen = versions(&farm, &farm.object().await?)?;
    farm.scene.apply(&bare(&[("web", 2)])).await?;
    farm.ready(&["farm-web-1", "farm-web-2"]).await?;
    let last = farm.object().await?.resource_version();
    let versions = eventually("the last version is seen", || async {
        let seen = seen.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.clone();
        ensure!(seen.iter().any(|object| object.resource_version() == last), "{} versions", seen.len());
        Ok(seen)
    })
    .await?;
    let open = versions.iter().map(|object| &object.data["status"]).filter(|one| one["operation"]["state"] == "open");
    ensure!(open.clone().count() > 0, "no operation in {} versions", versions.len());
    for status in open {
        ensure!(condition(status, "Ready")["status"] == "False", "{}", brief(status));
    }
    farm.delete().await?;
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_go_up_and_down_at_once_and_named_nodes_leave_first() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "scale").await?;
    let _controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.apply(&[("cache", 1), ("web", 3)]).await?;
    farm.ready(&["farm-cache-1", "farm-web-1", "farm-web-2", "farm-web-3"]).await?;
    let mut wanted = farm.cluster(&[("cache", 2), ("web", 2)]);
    wanted["spec"]["remove"] = json!(["farm-web-1"]);
    farm.scene.apply(&wanted).await?;
    farm.ready(&["farm-cache-1", "farm-cache-2", "farm-web-2", "farm-web-3"]).await?;
    let scaled = ["decommission 2 farm-web-1", "configure 2 farm-cache-2", "start 2 farm-cache-2"];
    ensure!(farm.done()[2..] == scaled, "{:?}", farm.done());
    // A name that has left says nothing any more, and numbers are never given twice.
    wanted["spec"]["groups"][1]["count"] = json!(3);
    farm.scene.apply(&wanted).await?;
    farm.ready(&["farm-cache-1", "farm-cache-2", "farm-web-2", "farm-web-3", "farm-web-4"]).await?;
    // A named node needs a place to lose: that is said, and nothing is begun until it is asked for otherwise.
    wanted["spec"]["remove"] = json!(["farm-web-2"]);
    farm.scene.apply(&wanted).await?;
    eventually("the request is refused", || async {
        let status = farm.status().await?;
        let ready = condition(&status, "Ready");
        let told = ready["message"].as_str().is_some_and(|words| words.contains("lower the count"));
        ensure!(ready["reason"] == "Differs" && told, "{}", brief(&status));
        Ok(())
    })
    .await?;
    wanted["spec"]["groups"][1]["count"] = json!(2);
    farm.scene.apply(&wanted).await?;
    farm.ready(&["farm-cache-1", "farm-cache-2", "farm-web-3", "farm-web-4"]).await?;
    farm.delete().await?;
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_configure_deletes_nothing_and_is_begun_again_when_it_is_asked_for() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "configure").await?;
    let controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.apply(&[("web", 1)]).await?;
    farm.ready(&["farm-web-1"]).await?;
    farm.put("exit-configure", "3")?;
    farm.apply(&[("web", 2)]).await?;
    let status = farm.settled("error").await?;
    let reasons = status["reasons"].to_string();
    ensure!(reasons.contains("exit code 3") && reasons.contains("no license left"), "{reasons}");
    ensure!(farm.servers() == ["farm-web-1", "farm-web-2"], "{:?}", farm.servers());
    let done = farm.done();
    farm.not_tried_again(&controller).await?;
    ensure!(farm.done() == done, "it is tried again and again: {:?}", farm.done());
    let ready = condition(&farm.status().await?, "Ready");
    ensure!(ready["reason"] == "Error" && ready["message"].to_string().contains("windlass.dev/retry"), "{ready:#}");
    farm.take("exit-configure")?;
    farm.annotate("windlass.dev/retry", "1").await?;
    farm.ready(&["farm-web-1", "farm-web-2"]).await?;
    // Only what was not configured is.
    ensure!(farm.done()[done.len()..] == ["configure 3 farm-web-2", "start 3 farm-web-2"], "{:?}", farm.done());
    farm.delete().await?;
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_resize_returns_to_active_and_shows_what_differs() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "resize").await?;
    let controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.apply(&[("cache", 2), ("web", 1)]).await?;
    farm.ready(&["farm-cache-1", "farm-cache-2", "farm-web-1"]).await?;
    farm.scene.scaleway().fail("POST", SERVERS, None, FaultKind::QuotaExceeded, Effect::Before)?;
    farm.apply(&[("cache", 1), ("web", 3)]).await?;
    let status = eventually("it is active again, and differs", || async {
        let status = farm.status().await?;
        let ready = condition(&status, "Ready");
        ensure!(ready["reason"] == "Differs" && status["state"] == "active", "{}", brief(&status));
        Ok(status)
    })
    .await?;
    // What was to leave has left, what was to come is not there.
    ensure!(farm.servers() == ["farm-cache-1", "farm-web-1"], "{:?}", farm.servers());
    farm.whole()?;
    ensure!(status["reasons"][0].as_str().is_some_and(|reason| reason.contains("resize")), "{}", brief(&status));
    farm.scene.scaleway().simulator().clear_requests();
    farm.not_tried_again(&controller).await?;
    let created: Vec<String> = farm.scene.scaleway().changes();
    ensure!(created.is_empty(), "it is tried again and again: {created:?}");
    farm.scene.scaleway().calm();
    farm.annotate("windlass.dev/retry", "now").await?;
    farm.ready(&["farm-cache-1", "farm-web-1", "farm-web-4", "farm-web-5"]).await?;
    farm.delete().await?;
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_creation_is_undone_and_begun_anew_with_another_generation() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "create").await?;
    let controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.put("exit-start", "1")?;
    farm.apply(&[("web", 2)]).await?;
    let status = farm.settled("error").await?;
    let resources = farm.scene.scaleway().simulator().resources();
    ensure!(resources.is_empty(), "{resources:#?}");
    ensure!(status["reasons"].to_string().contains("stage start"), "{}", brief(&status));
    farm.not_tried_again(&controller).await?;
    ensure!(farm.done().len() == 2, "{:?}", farm.done());
    farm.take("exit-start")?;
    // Another count is another generation.
    farm.apply(&[("web", 1)]).await?;
    farm.ready(&["farm-web-1"]).await?;
    farm.delete().await?;
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_is_called_off_by_its_number_and_by_deletion() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "cancel").await?;
    let controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.put("hold-configure", "")?;
    farm.apply(&[("web", 2)]).await?;
    eventually("the hook runs", || async {
        ensure!(farm.done().len() == 1, "{:?}", farm.done());
        Ok(())
    })
    .await?;
    // That of another operation says nothing.
    farm.annotate("windlass.dev/cancel", "7").await?;
    farm.scene.looked_at_later(&controller, Kind::ServerCluster, NAME).await?;
    ensure!(farm.status().await?["operation"]["state"] == "open");
    farm.annotate("windlass.dev/cancel", "1").await?;
    let status = farm.settled("error").await?;
    ensure!(status["history"][0]["cause"] == "cancelled", "{}", brief(&status));
    let resources = farm.scene.scaleway().simulator().resources();
    ensure!(resources.is_empty(), "{resources:#?}");
    eventually("the Job of the hook is stopped", || async {
        let jobs = farm.scene.list(Kind::Job).await?;
        ensure!(jobs.is_empty(), "{:?}", jobs.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
        Ok(())
    })
    .await?;
    farm.annotate("windlass.dev/retry", "1").await?;
    eventually("the hook runs again", || async {
        ensure!(farm.done().len() == 2, "{:?}", farm.done());
        Ok(())
    })
    .await?;
    farm.delete().await?;
    // Its nodes may hold data, since their configuring had begun.
    let done = farm.done();
    ensure!(done.len() == 3 && done[2].starts_with("decommission "), "{done:?}");
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decommission_that_fails_holds_the_deletion_until_it_is_forced() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "force").await?;
    let _controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.apply(&[("web", 1)]).await?;
    farm.ready(&["farm-web-1"]).await?;
    farm.put("exit-decommission", "1")?;
    farm.scene.delete(Kind::ServerCluster, NAME).await?;
    eventually("it is told why the deletion waits", || async {
        let status = farm.status().await?;
        ensure!(
            status["state"] == "error" && status["reasons"].to_string().contains("decommission"),
            "{}",
            brief(&status)
        );
        Ok(())
    })
    .await?;
    ensure!(farm.servers() == ["farm-web-1"], "{:?}", farm.servers());
    farm.annotate("windlass.dev/force", "true").await?;
    farm.nothing_is_left().await?;
    farm.scene.end().await
}

/// A signed webhook's receiver: notes the headers and the body of each request, and answers 200 with a text. It ends with the
/// test's runtime.
async fn receive(into: Arc<Mutex<Vec<String>>>) -> Result<u16> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut text, mut part) = (String::new(), [0_u8; 4096]);
            while !text.ends_with("}\n") {
                match stream.read(&mut part).await {
                    Ok(0) | Err(_) => break,
                    Ok(length) => text.push_str(&String::from_utf8_lossy(&part[..length])),
                }
            }
            if let Ok(mut all) = into.lock() {
                all.push(text);
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 14\r\nconnection: close\r\n\r\nof this server";
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Ok(port)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_signed_with_its_secret() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "webhook").await?;
    // The receiver is on this machine, which webhooks reach only where the operator says so.
    let options = ControllerOptions::default().argument("--webhook-network=127.0.0.0/8");
    let _controller = farm.scene.start(&options).await?;
    let received = Arc::new(Mutex::new(Vec::new()));
    let port = receive(Arc::clone(&received)).await?;
    let mut cluster = bare(&[("web", 1)]);
    let url = format!("http://127.0.0.1:{port}/configure?token=hunter2hunter2");
    cluster["spec"]["hooks"] =
        json!({"configure": {"webhook": {"url": url, "secretName": "signs", "plainHTTP": true}}});
    farm.scene.apply(&cluster).await?;
    let status = farm.settled("error").await?;
    ensure!(status["reasons"].to_string().contains("no Secret signs"), "{}", brief(&status));
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "signs"}});
    secret["stringData"] = json!({"secret": "0123456789abcdef"});
    farm.scene.apply(&secret).await?;
    farm.annotate("windlass.dev/retry", "1").await?;
    let status = farm.ready(&["farm-web-1"]).await?;
    let requests = received.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.clone();
    ensure!(requests.len() == 1, "{requests:?}");
    let uid = farm.object().await?.uid().unwrap_or_default();
    ensure!(
        requests[0].contains("windlass-signature: t=") && requests[0].contains("\"name\":\"farm-web-1\""),
        "{requests:?}"
    );
    // Never that of an object of this name that was there before.
    let delivery = requests[0].lines().find(|line| line.starts_with("windlass-delivery: ")).unwrap_or_default();
    let begins = format!("windlass-delivery: {}-farm-", farm.scene.namespace());
    ensure!(delivery.starts_with(&begins) && delivery.ends_with("-3-configure"), "{delivery} {uid}");
    ensure!(!status.to_string().contains("hunter2"), "a token is in the status");
    let events = farm.scene.events(NAME).await?.join("\n");
    ensure!(!events.contains("hunter2"), "a token is in the events");
    let told = format!("{status} {events}");
    ensure!(!told.contains("of this server"), "what was answered can be read: {told}");
    farm.delete().await?;
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_reaches_neither_the_controllers_machine_nor_private_networks() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "forged").await?;
    let _controller = farm.scene.start(&ControllerOptions::default()).await?;
    let received = Arc::new(Mutex::new(Vec::new()));
    let port = receive(Arc::clone(&received)).await?;
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "signs"}});
    secret["stringData"] = json!({"secret": "0123456789abcdef"});
    farm.scene.apply(&secret).await?;
    for host in ["127.0.0.1", "localhost", "169.254.169.254", "10.96.0.1"] {
        let mut cluster = bare(&[("web", 1)]);
        let url = format!("http://{host}:{port}/");
        cluster["spec"]["hooks"] =
            json!({"configure": {"webhook": {"url": url, "secretName": "signs", "plainHTTP": true}}});
        farm.scene.apply(&cluster).await?;
        let status = farm.settled("error").await?;
        ensure!(status["reasons"].to_string().contains("may not reach"), "{host}: {}", brief(&status));
        farm.delete().await?;
    }
    let requests = received.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.clone();
    ensure!(requests.is_empty(), "{requests:?}");
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_the_operator_has_switched_off_is_refused_before_anything_is_made() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "switched-off").await?;
    let options = ControllerOptions::default().argument("--hook-jobs=false").argument("--webhooks=false");
    let _controller = farm.scene.start(&options).await?;
    for (hook, option) in [
        (json!({"job": {"image": "example.org/farm:1"}}), "--hook-jobs"),
        (json!({"webhook": {"url": "https://example.org/", "secretName": "signs"}}), "--webhooks"),
    ] {
        let mut cluster = bare(&[("web", 1)]);
        cluster["spec"]["hooks"] = json!({"start": hook});
        farm.scene.apply(&cluster).await?;
        eventually("it says what is switched off", || async {
            let status = farm.status().await?;
            let conditions = status["conditions"].to_string();
            ensure!(conditions.contains("InvalidSpecification") && conditions.contains(option), "{conditions}");
            Ok(())
        })
        .await?;
        farm.delete().await?;
    }
    ensure!(farm.scene.scaleway().changes().is_empty(), "{:?}", farm.scene.scaleway().changes());
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_runs_where_pods_are_restricted() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "restricted").await?;
    let label = "pod-security.kubernetes.io/enforce=restricted";
    plane.kubectl(User::Admin, &["label", "namespace", farm.scene.namespace(), label], "")?;
    let _controller = farm.scene.start(&ControllerOptions::default()).await?;
    let mut cluster = bare(&[("web", 1)]);
    cluster["spec"]["hooks"] = json!({"configure": farm.hook()});
    farm.scene.apply(&cluster).await?;
    farm.ready(&["farm-web-1"]).await?;
    farm.delete().await?;
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_by_the_api_server_with_a_remedy() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "rules").await?;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut cluster = bare(&[("web", 1)]);
        change(&mut cluster);
        cluster
    };
    for (change, part) in [
        (&(|c: &mut Value| c["metadata"]["name"] = json!("f".repeat(33))) as &dyn Fn(&mut Value), "at most 32"),
        (&|c| c["spec"]["groups"][0]["name"] = json!("Web"), "spec.groups[0].name"),
        (&|c| c["spec"]["groups"] = json!([]), "spec.groups"),
        (&|c| c["spec"]["groups"][0]["count"] = json!(1001), "less than or equal to 1000"),
        (&|c| c["spec"]["hooks"] = json!({"start": {}}), "either a job or a webhook"),
        (
            &|c| c["spec"]["hooks"] = json!({"start": {"webhook": {"url": "http://example.org", "secretName": "s"}}}),
            "plainHTTP must be true",
        ),
        (&|c| c["spec"]["groups"][0]["cloudInit"] = json!({}), "either inline or in the Secret"),
        (&|c| c["spec"]["groups"][0]["tags"] = json!(["windlass-owner=me"]), "reserved"),
        (&|c| c["spec"]["groups"][0]["additionalVolumes"] = json!([{}]), "needs sizeGB"),
    ] {
        let refused = farm.scene.apply(&with(change)).await;
        let words = format!("{:#}", refused.err().with_context(|| format!("it was taken: {part}"))?);
        ensure!(words.contains(part), "{part}: {words}");
    }
    // Two groups that are too much together.
    let refused = farm.scene.apply(&bare(&[("a", 600), ("b", 401)])).await;
    ensure!(format!("{:#}", refused.err().context("it was taken")?).contains("at most 1000 nodes"));
    // `ssh` is no hook here: the API server drops what it does not know, and the rule speaks.
    let ssh = farm.scene.apply(&with(&|c| c["spec"]["hooks"] = json!({"start": {"ssh": {"command": "true"}}}))).await;
    let words = format!("{:#}", ssh.err().context("it was taken")?);
    ensure!(words.contains("ssh"), "{words}");
    // Nobody works here, so this one stays as it is.
    farm.scene.apply(&bare(&[("a", 0), ("web", 1)])).await?;
    for (change, part) in [
        (json!({"zone": "fr-par-2"}), "zone and project cannot be changed"),
        (
            json!({"groups": [{"name": "web", "count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble"}]}),
            "added or removed",
        ),
        (
            json!({"groups": [{"name": "a", "count": 0, "types": ["DEV1-S"], "image": "ubuntu_noble"},
                {"name": "web", "count": 1, "types": ["DEV1-S"], "image": "debian_bookworm"}]}),
            "types, image and volumes of a group cannot be changed",
        ),
    ] {
        let refused = farm.scene.patch(Kind::ServerCluster, NAME, json!({"spec": change})).await;
        let words = format!("{:#}", refused.err().with_context(|| format!("it was taken: {part}"))?);
        ensure!(words.contains(part), "{part}: {words}");
    }
    farm.scene.delete(Kind::ServerCluster, NAME).await?;
    farm.scene.end().await
}

/// Kills the controller while a request hangs, and starts another.
async fn killed_at(farm: &Farm<'_>, controller: &mut Controller, successor: &ControllerOptions) -> Result<()> {
    farm.scene.scaleway().held().await?;
    controller.kill();
    farm.scene.scaleway().calm();
    *controller = farm.scene.start(successor).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_in_a_creation_or_a_scaling_has_it_ended_by_the_next_with_or_without_its_volume()
-> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    for kept in [true, false] {
        let farm = Farm::new(plane, "killed").await?;
        let successor = |name: &str| ControllerOptions {
            state: if kept { "state".to_owned() } else { name.to_owned() },
            ..ControllerOptions::default()
        };
        let mut controller = farm.scene.start(&ControllerOptions::default()).await?;
        // The second server is there, and nobody heard of it.
        farm.scene.scaleway().hold("POST", SERVERS, 2, Moment::After)?;
        farm.apply(&[("cache", 1), ("web", 2)]).await?;
        killed_at(&farm, &mut controller, &successor("one")).await?;
        // What was interrupted is undone, and begun anew by itself.
        let status = farm.ready(&["farm-cache-1", "farm-web-1", "farm-web-2"]).await?;
        ensure!(status["history"].to_string().contains("interrupted"), "{}", brief(&status));

        for (moment, state) in [(Moment::Before, "two"), (Moment::After, "three")] {
            farm.scene.scaleway().hold("POST", &format!("{SERVERS}/*/action"), 1, moment)?;
            let web = if state == "two" { 3 } else { 4 };
            farm.apply(&[("cache", 1), ("web", web)]).await?;
            killed_at(&farm, &mut controller, &successor(state)).await?;
            let status = eventually("it is whole with the wanted counts", || async {
                let status = farm.status().await?;
                ensure!(condition(&status, "Ready")["status"] == "True", "{}", brief(&status));
                ensure!(names(&status["nodes"]).len() == 1 + web as usize, "{}", brief(&status));
                Ok(status)
            })
            .await?;
            ensure!(farm.servers() == names(&status["nodes"]), "{:?}", farm.servers());
            farm.whole()?;
        }
        farm.delete().await?;
        farm.scene.end().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_while_a_hook_runs_has_the_same_job_found_by_the_next() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "found").await?;
    let mut controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.apply(&[("web", 2)]).await?;
    farm.ready(&["farm-web-1", "farm-web-2"]).await?;
    farm.put("hold-decommission", "")?;
    farm.scene.delete(Kind::ServerCluster, NAME).await?;
    eventually("the hook runs", || async {
        ensure!(farm.done().len() == 3, "{:?}", farm.done());
        Ok(())
    })
    .await?;
    let first = farm.runner().await?;
    controller.kill();
    controller = farm.scene.start(&ControllerOptions::default()).await?;
    let second = farm.taken_over(&first).await?;
    farm.looked_at_again(&controller).await?;
    // And asked to end, it leaves the Job to the next one, too.
    controller.stop()?;
    let controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.taken_over(&second).await?;
    farm.looked_at_again(&controller).await?;
    farm.take("hold-decommission")?;
    farm.nothing_is_left().await?;
    ensure!(farm.done()[2..] == ["decommission 2 farm-web-1 farm-web-2"], "it ran once: {:?}", farm.done());
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_that_dies_with_its_controller_takes_its_hook_with_it() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "dies").await?;
    let mut controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.put("hold-configure", "")?;
    farm.apply(&[("web", 1)]).await?;
    eventually("the hook runs", || async {
        ensure!(farm.done().len() == 1, "{:?}", farm.done());
        Ok(())
    })
    .await?;
    let first = farm.scene.list(Kind::Job).await?[0].name_any();
    controller.kill();
    let _controller = farm.scene.start(&ControllerOptions::default()).await?;
    eventually("its Job is gone, and that of the next creation runs", || async {
        let jobs: Vec<String> = farm.scene.list(Kind::Job).await?.iter().map(ResourceExt::name_any).collect();
        ensure!(!jobs.contains(&first) && jobs.len() == 1 && farm.done().len() == 2, "{jobs:?} {:?}", farm.done());
        Ok(())
    })
    .await?;
    farm.take("hold-configure")?;
    farm.ready(&["farm-web-1"]).await?;
    farm.delete().await?;
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hangs_in_a_scaling_is_overtaken_and_does_no_harm_when_it_wakes() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "hangs").await?;
    // Each with a volume of its own: nothing but the Lease and the record is between them.
    let one_of_two = |state: &str| ControllerOptions {
        state: state.to_owned(),
        lease: Some(farm.scene.namespace().to_owned()),
        ..ControllerOptions::default()
    };
    let mut first = farm.scene.start(&one_of_two("first")).await?;
    farm.apply(&[("web", 1)]).await?;
    farm.ready(&["farm-web-1"]).await?;
    // Both creations: one that is frozen between its record and its call would call late.
    farm.scene.scaleway().hold_all("POST", SERVERS, 2, farm.apply(&[("web", 3)])).await?;
    first.freeze()?;
    farm.scene.scaleway().calm();
    let second = farm.scene.start(&one_of_two("second")).await?;
    let status = eventually("the second has ended it and made what is wanted", || async {
        let status = farm.status().await?;
        ensure!(condition(&status, "Ready")["status"] == "True", "{}", brief(&status));
        ensure!(names(&status["nodes"]).len() == 3, "{}", brief(&status));
        Ok(status)
    })
    .await?;
    first.thaw()?;
    first.wait()?;
    farm.looked_at_again(&second).await?;
    ensure!(farm.servers() == names(&status["nodes"]), "{:?}", farm.servers());
    farm.whole()?;
    farm.delete().await?;
    farm.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_somebody_deletes_is_missed_by_a_cluster_that_was_settled() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "missed").await?;
    let _controller = farm.scene.start(&ControllerOptions::default()).await?;
    farm.scene.apply(&bare(&[("web", 2)])).await?;
    farm.ready(&["farm-web-1", "farm-web-2"]).await?;
    let servers = farm.scene.scaleway().instances();
    let gone = servers.iter().find(|server| server["name"] == "farm-web-1").context("no such server")?;
    let id = gone["id"].as_str().context("no id")?.to_owned();
    farm.scene.scaleway().simulator().set_server_state(&id, windlass_simulator::ForcedState::Deleted)?;
    eventually("it says so", || async {
        let ready = condition(&farm.status().await?, "Ready");
        ensure!(ready["status"] == "False", "{ready}");
        Ok(())
    })
    .await?;
    farm.delete().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_was_restored_without_its_status_has_its_servers_and_no_second_set() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let farm = Farm::new(plane, "restored").await?;
    let scene = &farm.scene;
    let owner = format!("--owner={}", scene.namespace());
    let mut before = scene.start(&ControllerOptions::default().argument(&owner)).await?;
    scene.apply(&bare(&[("web", 2)])).await?;
    farm.ready(&["farm-web-1", "farm-web-2"]).await?;
    let ids = |status: &Value| {
        status["nodes"].as_array().into_iter().flatten().map(|node| node["serverID"].clone()).collect::<Vec<_>>()
    };
    let had = ids(&farm.status().await?);
    before.stop()?;
    scene.patch(Kind::ServerCluster, NAME, json!({"metadata": {"finalizers": null}})).await?;
    scene.delete(Kind::ServerCluster, NAME).await?;
    scene.gone(Kind::ServerCluster, NAME).await?;

    // The backup has neither a status nor a finalizer, and the volume is lost, too.
    scene.scaleway().simulator().clear_requests();
    scene.apply(&bare(&[("web", 2)])).await?;
    let fresh = ControllerOptions { state: "fresh".to_owned(), ..ControllerOptions::default() };
    let controller = scene.start(&fresh.argument(&owner)).await?;
    eventually("it says what it found", || async {
        let ready = condition(&farm.status().await?, "Ready");
        ensure!(ready["reason"] == "ServersFound" && ready["message"].to_string().contains("2 servers"), "{ready}");
        Ok(())
    })
    .await?;
    scene.looked_at_again(&controller, Kind::ServerCluster, NAME).await?;
    ensure!(scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());
    scene.approve(&[("server-cluster.farm", NAME)]).await?;
    let status = farm.ready(&["farm-web-1", "farm-web-2"]).await?;
    ensure!(ids(&status) == had && scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());

    // It is a cluster like any other.
    scene.patch(Kind::ServerCluster, NAME, json!({"spec": {"groups": bare(&[("web", 3)])["spec"]["groups"]}})).await?;
    farm.ready(&["farm-web-1", "farm-web-2", "farm-web-3"]).await?;
    farm.delete().await
}
