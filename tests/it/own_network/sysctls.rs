//! Settings of the kernel in pods' own namespaces.

use super::{Cluster, idle, needs, users, wait_for};
use crate::fabric::User;
use crate::instance::{DataDir, Instance};

/// A pod that waits, with these `sysctls`.
fn asking(name: &str, sysctls: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  nodeName: node-1\n  terminationGracePeriodSeconds: 0\n  \
         securityContext: {{sysctls: [{sysctls}]}}\n  containers:\n  - {{name: c, image: busybox, command: [sleep, '100000']}}\n---\n"
    )
}

/// The messages of a pod's events with this reason.
fn events(instance: &Instance, pod: &str, reason: &str) -> String {
    let about = format!("involvedObject.name={pod},reason={reason}");
    instance.kubectl(&["get", "events", "--field-selector", &about, "-o", "jsonpath={.items[*].message}"])
}

const KEEPALIVE: &str = "cat /proc/sys/net/ipv4/tcp_keepalive_time";

/// POD-16, NET-5: safe settings apply to the pod alone, in both notations, after a restart too; others fail the pod,
/// and a value that the kernel refuses is reported.
#[test]
fn safe_settings_are_set_in_the_pods_own_namespaces_pod_16_net_5() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let is_root = user == User::Own && rustix::process::geteuid().is_root();
        let settings = "{name: net.ipv4.tcp_keepalive_time, value: '1234'}, {name: net/ipv4/ip_local_port_range, value: 20000 20099}, \
                        {name: net.ipv4.ip_unprivileged_port_start, value: '500'}, {name: kernel.shm_rmid_forced, value: '1'}, \
                        {name: net.ipv4.tcp_rmem, value: 4096 8192 16384}";
        let pods = [
            asking("set", settings),
            asking("forbidden", "{name: kernel.msgmax, value: '65536'}"),
            asking("wrong", "{name: net.ipv4.tcp_keepalive_time, value: often}"),
            idle("plain", "node-1"),
        ];
        cluster.apply(&pods.concat());
        cluster.ready("set");
        cluster.ready("plain");
        let plain = cluster.shell("plain", KEEPALIVE);
        assert_ne!(plain, "1234");
        assert_eq!(cluster.shell("set", KEEPALIVE), "1234", "as {user:?}");
        assert_eq!(cluster.shell("set", "cat /proc/sys/net/ipv4/ip_local_port_range"), "20000\t20099");
        assert_eq!(cluster.shell("set", "cat /proc/sys/net/ipv4/tcp_rmem"), "4096\t8192\t16384");
        assert_eq!(cluster.shell("set", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"), "500");
        let port = "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); connect(S, pack_sockaddr_in(443, inet_aton(\"10.96.0.1\"))) or die $!; \
                    ($port) = unpack_sockaddr_in(getsockname(S)); print $port'";
        let port: u16 = cluster.shell("set", port).parse().unwrap();
        assert!((20_000..20_100).contains(&port), "{port} as {user:?}");
        if is_root {
            assert_eq!(cluster.shell("set", "cat /proc/sys/kernel/shm_rmid_forced"), "1");
        } else {
            let messages = events(&cluster.instance, "set", "SecurityContextIgnored");
            assert!(messages.contains("sysctls{kernel.shm_rmid_forced} is ignored: only root"), "{messages}");
        }

        let failed = wait_for("the pod to fail", || {
            let status = "jsonpath={.status.phase} {.status.reason}: {.status.message}";
            let phase = cluster.instance.kubectl(&["get", "pod", "forbidden", "-o", status]);
            phase.starts_with("Failed").then_some(phase)
        });
        assert_eq!(
            failed,
            "Failed SysctlForbidden: Pod was rejected: forbidden sysctl: \"kernel.msgmax\" not allowlisted"
        );
        wait_for("the event", || {
            let messages = events(&cluster.instance, "wrong", "FailedCreatePodSandBox");
            messages.contains("sysctl net.ipv4.tcp_keepalive_time=\"often\": invalid argument").then_some(())
        });

        let Cluster { instance, home, user } = cluster;
        instance.crash();
        let cluster = Cluster { instance: Cluster::serve(&home, user), home, user };
        cluster.ready("set");
        assert_eq!(cluster.shell("set", KEEPALIVE), "1234", "as {user:?}");
        assert_eq!(cluster.shell("plain", KEEPALIVE), plain);
        cluster.instance.stop();
    }
}

/// POD-16: pods in the machine's network cannot change its settings, and an event says so.
#[test]
fn settings_of_the_machines_network_are_ignored_with_an_event_pod_16() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1", "--network", "loopback"]);
    let own = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_keepalive_time").unwrap();
    instance.apply(&asking("set", "{name: net.ipv4.tcp_keepalive_time, value: '1234'}"));
    instance.until_ready("set");
    wait_for("the event", || {
        let messages = events(&instance, "set", "SecurityContextIgnored");
        messages
            .contains("sysctls{net.ipv4.tcp_keepalive_time} is ignored: pods share the machine's network")
            .then_some(())
    });
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/tcp_keepalive_time").unwrap(), own);
    instance.stop();
}
