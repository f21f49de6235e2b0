//! Draining, by kubectl and by the console (NODE-3, CON-6): pods that leave, pods that stay, and obstacles.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use podium::console_data::builtin_kinds;
use podium::console_data::context::ScreenId;
use podium::console_data::message::Message;
use podium::console_data::resource::{ClusterId, ObjectRef};
use podium::console_operations::effect::Outbox;
use podium::console_operations::operations::drain::{EvictionState, Options, Progress, driver};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::needs;

/// A daemon, two pods that a budget protects, one with data, and one without a controller.
const WORK: &str = r"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: pause}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: pause}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cache}
spec:
  selector: {matchLabels: {app: cache}}
  template:
    metadata: {labels: {app: cache}}
    spec: {containers: [{name: c, image: pause}], volumes: [{name: data, emptyDir: {}}]}
";

const LONELY: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: lonely, labels: {app: lonely}}\n\
    spec: {nodeName: NODE, containers: [{name: c, image: pause}]}\n";

/// Returns the apps of the pods on a node, each once.
fn apps(instance: &Instance, node: &str) -> String {
    let (selector, path) = (format!("spec.nodeName={node}"), "jsonpath={.items[*].metadata.labels.app}");
    let text = instance.kubectl(&["get", "pods", "--field-selector", &selector, "-o", path]);
    text.split_whitespace().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}

fn settled(instance: &Instance) {
    for name in ["web", "cache"] {
        instance.kubectl(&["rollout", "status", &format!("deploy/{name}"), "--timeout=60s"]);
    }
    wait_for("the budget to count them", || {
        let path = "jsonpath={.status.currentHealthy}";
        (instance.kubectl(&["get", "pdb", "web", "-o", path]) == "2").then_some(())
    });
}

/// Drains a node with the console; returns its last report about each pod, and about the node.
async fn console_drain(
    instance: &Instance,
    node: &str,
    options: Options,
) -> (Vec<EvictionState>, Result<(), String>) {
    let client = instance.client().await;
    let object = Api::<Node>::all(client.clone()).get(node).await.unwrap();
    let target = ObjectRef::of(builtin_kinds::kind::<Node>(), &object);
    let (sender, mut messages) = tokio::sync::mpsc::channel(16);
    let out = Outbox::new(client, sender, ScreenId::new(1, ClusterId::HOME));
    tokio::spawn(driver::run(out, vec![target], 0, options, BTreeSet::new()));
    let (mut evictions, mut ended) = (std::collections::BTreeMap::new(), Ok(()));
    while let Some(message) = messages.recv().await {
        let Message::Data(_, data) = message else { continue };
        match data.take() {
            Some(Progress::Evictions { evictions: news, .. }) => evictions.extend(news),
            Some(Progress::Ended { result, .. }) => ended = result,
            Some(Progress::Over) => break,
            Some(Progress::Began { .. }) | None => {}
        }
    }
    (evictions.into_values().collect(), ended)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_drain_asks_what_it_must_and_leaves_the_rest_node_3() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0", "--hollow-nodes", "2"]);
    let (one, two) = ("hollow-00001", "hollow-00002");
    instance.kubectl(&["cordon", two]);
    instance.apply(WORK);
    instance.apply(&LONELY.replace("NODE", one));
    settled(&instance);
    instance.kubectl(&["uncordon", two]);
    assert_eq!(apps(&instance, one), "agent cache lonely web");

    let drain = |more: &[&str]| {
        let output = instance.kubectl_output(&[&["drain", one], more].concat());
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (done, stderr) = drain(&[]);
    assert!(!done);
    for reason in [
        "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): default/agent-",
        "with local storage (use --delete-emptydir-data to override): default/cache-",
        "that declare no controller (use --force to override): default/lonely",
    ] {
        assert!(stderr.contains(reason), "{stderr}");
    }
    assert_eq!(apps(&instance, one), "agent cache lonely web", "all or nothing");
    assert_eq!(instance.kubectl(&["get", "node", one, "-o", "jsonpath={.spec.unschedulable}"]), "true");

    let all = ["--ignore-daemonsets", "--delete-emptydir-data", "--force"];
    let (done, stderr) = drain(&[&all[..], &["--timeout=5s"]].concat());
    assert!(!done && stderr.contains("global timeout reached: 5s"), "{stderr}");
    assert!(stderr.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{stderr}");
    wait_for("pods without a budget to be gone", || (apps(&instance, one) == "agent web").then_some(()));
    let (done, stderr) = drain(&[&all[..], &["--disable-eviction", "--timeout=60s"]].concat());
    assert!(done, "{stderr}");
    assert_eq!(apps(&instance, one), "agent");
    instance.kubectl(&["uncordon", one]);
    settled(&instance);

    // The console drains the other node in the same way.
    instance.apply(&LONELY.replace("NODE", two));
    instance.until_ready("lonely");
    let careful = Options { timeout: Some(Duration::from_secs(5)), ..Options::default() };
    let (evictions, ended) = console_drain(&instance, two, careful.clone()).await;
    assert_eq!(ended, Ok(()));
    assert!(
        !evictions.iter().any(|eviction| matches!(eviction, EvictionState::Deleted { .. })),
        "{evictions:?}"
    );
    assert_eq!(
        apps(&instance, two),
        "agent cache lonely web",
        "pods with a budget, with data and without a controller stay"
    );
    let (_, ended) = console_drain(
        &instance,
        two,
        Options { force: true, delete_empty_dir_data: true, ..careful.clone() },
    )
    .await;
    assert_eq!(ended, Ok(()));
    wait_for("what no budget holds to be gone", || (apps(&instance, two) == "agent web").then_some(()));
    // Budgets are ignored: both are deleted, and come back on other nodes.
    let ruthless = Options { disable_eviction: true, timeout: None, ..careful };
    let (evictions, ended) = console_drain(&instance, two, ruthless).await;
    assert_eq!(ended, Ok(()));
    assert!(
        evictions.iter().all(|eviction| matches!(eviction, EvictionState::Deleted { .. })),
        "{evictions:?}"
    );
    assert_eq!(apps(&instance, two), "agent");
    settled(&instance);
    tokio::task::spawn_blocking(move || instance.stop()).await.unwrap();
}
