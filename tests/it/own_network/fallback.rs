//! The default network of a cluster, and the fallback if the machine forbids the pods' own network (NET-11).

use std::process::Command;

use super::{can_be_made, idle, lacks, needs};
use crate::fabric::User;
use crate::instance::{DataDir, Instance};
use crate::needs::Need;

/// A start on a machine that allows no further network namespace.
fn forbidden(home: &DataDir, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    // The limit is the new user namespace's own.
    let script = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$0\" serve --nodes 1 --listen 127.0.0.1:0 \"$@\"";
    command.args(["--user", "--map-root-user", "sh", "-c", script]).arg(env!("CARGO_BIN_EXE_podium"));
    command.arg("--data-dir").arg(home.data_dir()).args(arguments).env_remove("PODIUM_NETWORK");
    command
}

fn annotation(instance: &Instance, name: &str) -> String {
    let path = format!("jsonpath={{.metadata.annotations.podium\\.dev/{name}}}");
    instance.kubectl(&["get", "node", "node-1", "-o", &path])
}

#[test]
fn pods_share_the_network_of_the_machine_and_the_node_says_why_if_none_can_be_made_net_11() {
    needs!(Kubectl);
    if lacks(Need::PodNetwork, can_be_made(User::Own)) {
        return;
    }
    let home = DataDir::new();
    let instance = DataDir::start_command(&mut forbidden(&home, &[]), &home.data_dir().join("kubeconfig"));
    assert_eq!(annotation(&instance, "network"), "loopback");
    let (step, remedy) = ("new network namespace: ", "\"sudo sysctl user.max_net_namespaces=15000\"");
    let note = annotation(&instance, "network-note");
    assert!(note.starts_with(step) && note.contains(remedy), "{note}");
    let arguments = ["events", "-n", "default", "--for", "node/node-1", "--types", "Warning", "-o", "json"];
    let events = instance.kubectl(&arguments);
    assert!(events.contains("\"NetworkShared\"") && events.contains("new network namespace: "), "{events}");
    instance.apply(&idle("p", "node-1"));
    instance.until_ready("p");
    let ip = instance.field("p", ".status.podIP");
    assert!(ip.starts_with("127."), "{ip}");
    instance.stop();

    // An explicit request for it fails.
    let insisted = forbidden(&home, &["--network", "fabric"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&insisted.stderr).into_owned();
    assert!(
        !insisted.status.success() && stderr.contains("was created with the network \"loopback\""),
        "{stderr}"
    );
    let other = DataDir::new();
    let insisted = forbidden(&other, &["--network", "fabric"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&insisted.stderr).into_owned();
    assert!(!insisted.status.success() && stderr.contains(step), "{stderr}");

    // The machine allows network namespaces later: the objects keep their addresses, and the log says what to do.
    let mut allowed = Command::new(env!("CARGO_BIN_EXE_podium"));
    allowed.args(["serve", "--nodes", "1", "--listen", "127.0.0.1:0", "--data-dir"]).arg(home.data_dir());
    allowed.env_remove("PODIUM_NETWORK");
    let instance = DataDir::start_command(&mut allowed, &home.data_dir().join("kubeconfig"));
    assert_eq!(annotation(&instance, "network"), "loopback");
    let note = annotation(&instance, "network-note");
    assert!(note.contains("was created with the machine's network") && note.contains(step), "{note}");
    instance.stop();
}

/// The preflight is complete: an operation that a namespace allows but the kernel cannot do is found before pods depend
/// on it.
#[test]
fn pods_share_the_network_of_the_machine_if_the_kernel_lacks_a_feature_net_11() {
    needs!(Kubectl);
    if lacks(Need::PodNetwork, can_be_made(User::Own)) {
        return;
    }
    for piece in ["tproxy", "numgen"] {
        let home = DataDir::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
        command.args(["serve", "--nodes", "1", "--listen", "127.0.0.1:0", "--data-dir"]).arg(home.data_dir());
        command.env_remove("PODIUM_NETWORK").env("PODIUM_KERNEL_WITHOUT", piece);
        let instance = DataDir::start_command(&mut command, &home.data_dir().join("kubeconfig"));
        assert_eq!(annotation(&instance, "network"), "loopback", "{piece}");
        let note = annotation(&instance, "network-note");
        assert!(note.contains("sudo modprobe -a nf_tables") && note.contains("nft_tproxy"), "{note}");
        instance.apply(&idle("p", "node-1"));
        instance.until_ready("p");
        instance.stop();
    }
}

#[test]
fn pods_have_a_network_of_their_own_by_default_if_possible_net_11() {
    needs!(Kubectl);
    if lacks(Need::PodNetwork, can_be_made(User::Own)) {
        return;
    }
    let home = DataDir::new();
    let config = home.path("config.yaml");
    for (file, network, expected) in
        [("{}\n", "fabric", ""), ("namespaces: false\n", "loopback", "namespaces: false")]
    {
        std::fs::write(&config, file).unwrap();
        let data = home.path(network);
        let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
        command.args(["serve", "--nodes", "1", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--data-dir").arg(&data).env_remove("PODIUM_NETWORK");
        let instance = DataDir::start_command(&mut command, &data.join("kubeconfig"));
        assert_eq!(annotation(&instance, "network"), network);
        let note = annotation(&instance, "network-note");
        assert!(note.contains(expected) && (!expected.is_empty() || note.is_empty()), "{note}");
        instance.stop();
    }
}
