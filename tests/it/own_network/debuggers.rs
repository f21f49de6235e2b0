//! Debug containers with the capability SYS_PTRACE (`kubectl debug --profile=general`): they see the processes of their
//! target, and nothing of the machine through Podium's own processes there (POD-16, POD-18).

use serde_json::{Value, json};

use super::{Cluster, needs, users, wait_for};
use crate::fabric::User;
use crate::instance::Instance;

/// A script that looks for a file of the machine through every process, until another process ends it.
pub(crate) fn search(secret: &str) -> String {
    format!(
        "look() {{ for place in /proc/[0-9]*/root /proc/[0-9]*/cwd /proc/[0-9]*/fd/*; do \
         if [ -e $place{secret} ]; then echo REACHED $place; fi; done; }}; look; \
         grep CapEff /proc/self/status; echo pid 1: $(cat /proc/1/comm) $(ls -A /proc/1/root 2>/dev/null | wc -l) \
         $(grep CapPrm /proc/1/status); until [ -e /dev/shm/over ]; do look; done 2>/dev/null; echo searched"
    )
}

/// Runs a debug container with the script beside a pod's container `c`, and commands in the pod meanwhile; returns its log.
pub(crate) fn debug(instance: &Instance, pod: &str, script: &str) -> String {
    let arguments =
        ["debug", pod, "--profile=general", "--image=busybox", "--container=debugger", "--target=c"];
    instance.kubectl(&[&arguments[..], &["--", "sh", "-c", script]].concat());
    let log_with = |text: &str| instance.logs_of(pod, "debugger").filter(|log| log.contains(text));
    wait_for("the debugger", || log_with("pid 1:"));
    for _ in 0..5 {
        assert_eq!(instance.exec_in(pod, "c", &["sh", "-c", "echo there"]), "there\n");
    }
    assert_eq!(instance.exec_in(pod, "c", &["sh", "-c", ": > /dev/shm/over"]), "");
    wait_for("the debugger's end", || log_with("searched"))
}

fn pod(name: &str, image: &str, more: &Value) -> String {
    let mut spec = json!({"nodeName": "node-1", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": image, "command": ["sleep", "100000"]}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("---\n{}\n", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}))
}

#[test]
fn debuggers_reach_nothing_of_the_machine_pod_16_pod_18() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let secret = cluster.home.path("secret");
        std::fs::write(&secret, "x").unwrap();
        let is_root = user == User::Own && rustix::process::geteuid().is_root();
        let node = cluster.instance.kubectl(&["get", "node", "node-1", "-o", "json"]);
        let (busybox, image) = ("busybox", super::pod_users::IMAGE);
        // The pod, its image, more of its spec, and the name of process 1.
        let mut pods = vec![
            ("plain", busybox, json!({}), "pause"),
            ("shared", busybox, json!({"shareProcessNamespace": true}), "pause"),
        ];
        if user == User::Own {
            super::pod_users::load(&cluster);
            pods.extend([
                ("image", image, json!({}), "sleep"),
                ("shared-image", image, json!({"shareProcessNamespace": true}), "pause"),
            ]);
        }
        if is_root && node.contains(r#""podium.dev/pod-users": "yes""#) {
            pods.extend([
                ("own-users", busybox, json!({"hostUsers": false}), "pause"),
                ("own-users-image", image, json!({"hostUsers": false}), "sleep"),
                (
                    "own-users-shared",
                    image,
                    json!({"hostUsers": false, "shareProcessNamespace": true}),
                    "pause",
                ),
            ]);
        }
        let manifests: Vec<_> = pods.iter().map(|(name, image, more, _)| pod(name, image, more)).collect();
        cluster.apply(&manifests.concat());
        for (name, _, _, first) in &pods {
            cluster.ready(name);
            let log = debug(&cluster.instance, name, &search(secret.to_str().unwrap()));
            assert!(!log.contains("REACHED"), "{name} as {user:?}: {log}");
            assert!(log.contains(&format!("pid 1: {first} ")), "{name} as {user:?}: {log}");
            if is_root {
                // The debugger has the capability, over its own user namespace.
                let held = log.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
                assert_ne!(u64::from_str_radix(held, 16).unwrap() & 1 << 19, 0, "{name}: {log}");
            }
            if *first == "pause" {
                assert!(
                    log.contains("pid 1: pause 0 CapPrm: 0000000000000000\n"),
                    "{name} as {user:?}: {log}"
                );
            }
        }
        cluster.instance.stop();
    }
}
