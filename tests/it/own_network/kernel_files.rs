//! /proc and /sys of pods: the information about the machine in them, and the settings that could be changed by them.

use super::{Cluster, needs, users};
use crate::fabric::User;

fn pod(name: &str, of_pod: &str, of_container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  nodeName: node-1\n  terminationGracePeriodSeconds: 0\n{of_pod}  \
         containers:\n  - {{name: c, image: busybox, command: [sleep, '100000'], securityContext: {{{of_container}}}}}\n---\n"
    )
}

/// NET-5, POD-16: /sys shows the pod's network, is mounted once and read-only; the paths that containerd masks and
/// makes read-only are so here, with a writable root and with a read-only one, but not in privileged pods.
#[test]
fn proc_and_sys_are_the_pods_and_tell_nothing_of_the_machine_net_5_pod_16() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let is_root = user == User::Own && rustix::process::geteuid().is_root();
        let mut pods = vec![
            pod("plain", "", ""),
            pod("closed", "", "readOnlyRootFilesystem: true"),
            pod("of-node", "  hostNetwork: true\n", ""),
            pod("of-machine", "  hostPID: true\n", ""),
            pod("privileged", "", "privileged: true"),
        ];
        let mut names = vec!["plain", "closed", "of-node", "of-machine", "privileged"];
        let node = cluster.instance.kubectl(&["get", "node", "node-1", "-o", "json"]);
        if node.contains(r#""podium.dev/pod-users": "yes""#) {
            pods.push(pod("unmasked", "  hostUsers: false\n", "procMount: Unmasked"));
            names.push("unmasked");
        }
        cluster.apply(&pods.concat());
        for name in names {
            cluster.ready(name);
            assert_eq!(cluster.shell(name, "ls /sys/class/net"), "eth0\nlo", "{name} as {user:?}");
            let own: std::net::Ipv4Addr = cluster.ip(name).parse().unwrap();
            let address: Vec<_> = own.octets().iter().map(|byte| format!("{byte:02x}")).collect();
            let address = format!("02:42:{}", address.join(":"));
            assert_eq!(cluster.shell(name, "cat /sys/class/net/eth0/address"), address, "{name} as {user:?}");
            let writes = cluster.shell(name, "echo 5 > /sys/class/net/lo/gro_flush_timeout && echo written");
            assert!(!writes.contains("written"), "{name} as {user:?}: {writes}");
            assert_eq!(
                cluster.shell(name, "test -e /sys/fs/cgroup/cgroup.procs -o -d /sys/fs/cgroup/memory -o -z \"$(ls /sys/fs/cgroup)\" && echo yes"),
                "yes"
            );
            assert_eq!(cluster.shell(name, "test -d /sys/devices/system/cpu/cpu0 && echo yes"), "yes");
            if is_root {
                // The machine's /sys is not mounted below it, and its control groups are not mounted a second time.
                let mounts = "for at in /sys /sys/fs/cgroup; do cut -d ' ' -f 5 /proc/self/mountinfo | grep -c -x $at; done";
                assert_eq!(cluster.shell(name, mounts), "1\n1", "{name}");
            }
            let open = name == "privileged" || name == "unmasked";
            let masked = "for f in /proc/kcore /proc/keys /proc/timer_list; do test -e $f && test -c $f && echo masked; done | uniq";
            assert_eq!(cluster.shell(name, masked) == "masked", !open, "{name} as {user:?}");
            let writable = "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/vm/drop_caches; do test -w $f && echo writable; done | uniq";
            assert_eq!(
                cluster.shell(name, writable) == "writable",
                name == "privileged" && is_root,
                "{name} as {user:?}"
            );
            if !open {
                // They reveal the activity of other processes of the machine.
                let activity = "test -c /proc/interrupts && cat /proc/interrupts /sys/devices/system/cpu/cpu*/thermal_throttle/* 2>/dev/null | wc -c";
                assert_eq!(cluster.shell(name, activity), "0", "{name}");
                assert_eq!(
                    cluster.shell(name, "ls -A /sys/firmware 2>/dev/null; cat /proc/keys | wc -c"),
                    "0",
                    "{name}"
                );
            }
        }
        cluster.instance.stop();
    }
}
