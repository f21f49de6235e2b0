//! Nodes that are added and removed while the cluster runs (NODE-6), with real processes.

use rustix::process::Signal;

use crate::instance::{DataDir, Instance, seconds_of_its_own, wait_for};
use crate::needs::needs;

/// Counts the `sleep` processes with this argument.
fn sleepers(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    commands.filter(|command| *command == format!("sleep\0{mark}\0").into_bytes()).count()
}

/// A pod that runs `sleep MARK` on nodes with the label `disk: ssd`.
fn pod(name: &str, mark: &str, extra: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  nodeSelector: {{disk: ssd}}\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n  - name: main\n    image: busybox\n    \
         command: [sleep, \"{mark}\"]\n{extra}"
    )
}

fn nodes(instance: &Instance) -> String {
    instance.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"])
}

fn field(instance: &Instance, object: &str, path: &str) -> String {
    instance.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
}

fn ready(instance: &Instance, node: &str) {
    wait_for("the node", || nodes(instance).split(' ').any(|name| name == node).then_some(()));
    instance.kubectl(&["wait", "--for=condition=Ready", &format!("node/{node}"), "--timeout=60s"]);
}

fn events(instance: &Instance, reason: &str) -> String {
    let selector = format!("reason={reason}");
    instance.kubectl(&[
        "get", "events", "-A", "--field-selector", &selector, "-o", "jsonpath={.items[*].message}",
    ])
}

/// NODE-6, NODE-1, NODE-5, SAFE-3: a name in the file is a node, the node of a removed name is deleted, and an invalid
/// file changes nothing.
#[test]
fn the_config_files_nodes_come_and_go_while_the_cluster_runs_node_6() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let config = home.path("config.yaml");
    let write = |nodes: &str| {
        // Editors replace the file by another one.
        let draft = home.path("draft.yaml");
        std::fs::write(&draft, format!("timings: {{fileCheckFrequency: 0.1}}\nnodes:\n{nodes}")).unwrap();
        std::fs::rename(&draft, &config).unwrap();
    };
    let gpu = "- name: gpu\n  zone: east\n  labels: {disk: ssd}\n  capacity: {example.com/gpu: \"2\"}\n";
    write("- {name: node-1, labels: {disk: hdd}}\n");
    let instance = home.start(&["--nodes", "1", "--config", config.to_str().unwrap()]);
    assert_eq!(nodes(&instance), "node-1");

    write(gpu);
    ready(&instance, "gpu");
    let zone = ".metadata.labels['topology\\.kubernetes\\.io/zone']";
    assert_eq!(field(&instance, "node/gpu", zone), "east");
    assert_eq!(field(&instance, "node/gpu", ".status.allocatable['example\\.com/gpu']"), "2");
    assert_eq!(field(&instance, "node/node-1", ".metadata.labels.disk"), "", "it says so no more");
    let asks = "    resources: {limits: {example.com/gpu: \"1\"}}\n";
    instance.apply(&pod("trainer", &mark, asks));
    instance.until_ready("trainer");
    assert_eq!((field(&instance, "pod/trainer", ".spec.nodeName").as_str(), sleepers(&mark)), ("gpu", 1));

    write("- name: gpu\n  taints:\n  - {key: a, effect: NoSchedul}\n");
    let place =
        format!("{}:5:14: nodes[0].taints[0].effect: Unsupported value: \"NoSchedul\"", config.display());
    wait_for("the event about the mistake", || {
        events(&instance, "InvalidConfigFile").contains(&place).then_some(())
    });
    assert_eq!((nodes(&instance).as_str(), sleepers(&mark)), ("gpu node-1", 1));

    write("- {name: pretend, hollow: true}\n");
    ready(&instance, "pretend");
    wait_for("the node to be gone", || (nodes(&instance) == "node-1 pretend").then_some(()));
    wait_for("its process to be gone", || (sleepers(&mark) == 0).then_some(()));
    assert_eq!(instance.kubectl(&["get", "pods", "-o", "name"]), "", "its pod is gone with it");
    assert!(events(&instance, "NodeRemoved").contains("The configuration no longer contains node gpu"));

    write(gpu);
    ready(&instance, "gpu");
    instance.apply(&pod("again", &mark, ""));
    instance.until_ready("again");
    instance.crash();
    assert_eq!(sleepers(&mark), 1);
    // All entries are commented out, as editors leave them.
    write("# - name: gpu\n");
    let instance = home.start(&["--nodes", "1", "--config", config.to_str().unwrap()]);
    assert_eq!(nodes(&instance), "node-1");
    wait_for("the crash's leftovers to be gone", || (sleepers(&mark) == 0).then_some(()));
    instance.stop();
}

const NODE_MANIFEST: &str = "apiVersion: v1\nkind: Node\nmetadata:\n  name: extra\n  labels: {disk: ssd}\n  \
    annotations: {podium.dev/node: process}\nspec:\n  taints: [{key: team, value: a, effect: NoExecute}]\n\
    status:\n  capacity: {cpu: \"7\", example.com/gpu: \"2\"}\n";

/// Returns a node's capacity of cpu, of which the test sets more than any machine has, and of an extended resource.
fn capacity(instance: &Instance, node: &str) -> String {
    let node = format!("node/{node}");
    let gpu = field(instance, &node, ".status.capacity['example\\.com/gpu']");
    format!("{} {gpu}", field(instance, &node, ".status.capacity.cpu"))
}

/// Every Node object has a `nodeInfo`, which was taken for a kubelet's report: the capacity beside it did not count.
#[test]
fn a_node_object_offers_the_capacity_that_kubectl_sends_node_6() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0"]);
    let apply = |manifest: &str| {
        let file = home.path("node.yaml");
        std::fs::write(&file, manifest).unwrap();
        instance.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    };
    for how in ["hollow", "process"] {
        let manifest = NODE_MANIFEST.replace("extra", how).replace("node: process", &format!("node: {how}"));
        apply(&manifest);
        ready(&instance, how);
        assert_eq!(capacity(&instance, how), "7 2");
        assert_eq!(field(&instance, &format!("node/{how}"), ".status.allocatable.cpu"), "7");
    }
    // As a Go client writes it.
    let zeros = "  nodeInfo: {machineID: \"\", systemUUID: \"\", bootID: \"\", kernelVersion: \"\", osImage: \"\", \
                 containerRuntimeVersion: \"\", kubeletVersion: \"\", kubeProxyVersion: \"\", operatingSystem: \"\", \
                 architecture: \"\"}\n  daemonEndpoints: {kubeletEndpoint: {Port: 0}}\n";
    let manifest = NODE_MANIFEST.replace("extra", "typed").replace("node: process", "node: hollow");
    apply(&format!("{manifest}{zeros}"));
    ready(&instance, "typed");
    assert_eq!(capacity(&instance, "typed"), "7 2");
    instance.stop();
}

/// NODE-6, NODE-5, SAFE-7: a Node object with the annotation is a node until it is deleted, also after restarts.
#[test]
fn a_node_object_that_asks_to_be_run_is_a_node_until_it_is_deleted_node_6_node_5() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let mut instance = home.start(&["--nodes", "1"]);
    instance.apply("apiVersion: v1\nkind: Node\nmetadata: {name: foreign}\n");
    // An obstacle to the start is reported as an event, and the start is tried again.
    let obstacle = home.data_dir().join("nodes/broken");
    std::fs::write(&obstacle, "").unwrap();
    instance.apply(&NODE_MANIFEST.replace("extra", "broken"));
    let failures = || events(&instance, "NodeStartFailed");
    wait_for("the event about the failure", || {
        failures().contains("Node broken cannot be started: ").then_some(())
    });
    std::fs::remove_file(&obstacle).unwrap();
    ready(&instance, "broken");
    instance.kubectl(&["delete", "node", "broken"]);
    wait_for("it to be gone", || (nodes(&instance) == "foreign node-1").then_some(()));
    instance.apply(NODE_MANIFEST);
    ready(&instance, "extra");
    assert_eq!(field(&instance, "node/extra", ".spec.taints[?(@.key==\"team\")].effect"), "NoExecute");
    assert_eq!(capacity(&instance, "extra"), "7 2");
    let tolerates = "  tolerations: [{key: team, operator: Exists}]\n";
    instance.apply(&pod("keeper", &mark, tolerates));
    instance.until_ready("keeper");
    let id = || ".status.containerStatuses[0].containerID";
    let before = field(&instance, "pod/keeper", id());

    instance.crash();
    assert_eq!(sleepers(&mark), 1);
    instance = home.start(&["--nodes", "1"]);
    ready(&instance, "extra");
    assert_eq!((field(&instance, "pod/keeper", id()), sleepers(&mark)), (before, 1), "found again");
    assert_eq!(capacity(&instance, "extra"), "7 2");
    instance.signal(Signal::TERM);
    assert_eq!((instance.wait(), sleepers(&mark)), (0, 0));
    instance = home.start(&["--nodes", "1"]);
    wait_for("the workload to come back", || (sleepers(&mark) == 1).then_some(()));

    instance.kubectl(&["delete", "node", "extra"]);
    wait_for("its process to be gone", || (sleepers(&mark) == 0).then_some(()));
    wait_for("its pod to be gone", || {
        instance.kubectl(&["get", "pods", "-o", "name"]).is_empty().then_some(())
    });
    // The same name again is a new node, and so is a counted one that was deleted.
    instance.apply(NODE_MANIFEST);
    ready(&instance, "extra");
    instance.kubectl(&["delete", "node", "extra", "node-1"]);
    wait_for("both to be gone", || (nodes(&instance) == "foreign").then_some(()));
    instance.stop();

    let instance = home.start(&["--nodes", "1"]);
    assert_eq!(nodes(&instance), "foreign node-1", "the counted node is back, the other is not");
    instance.stop();
}
