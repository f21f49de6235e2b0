//! The workload of the tortured cluster.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::directory::TortureDir;
use super::plan::Set;

/// The Deployment's name.
pub(super) const DEPLOYMENT: &str = "web";
/// Mount path of a claim in a container.
const VOLUME: &str = "/data";

/// A StatefulSet of pods that hold their identities.
pub(super) fn stateful_set(set: &Set, place: &TortureDir) -> Result<Value> {
    let program = std::env::current_exe()?;
    let program = program.to_str().context("this program's path is not UTF-8")?;
    let witness = place.witness();
    let witness = witness.to_str().context("the directory's path is not UTF-8")?;
    let mut command = vec![program, super::identity_holder::PROGRAM, witness, "$(NAME)", "$(UID)"];
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut container = json!({
        "name": "holder", "image": "host",
        "env": [field("NAME", "metadata.name"), field("UID", "metadata.uid")],
    });
    let mut claims = json!([]);
    if set.claim {
        command.push(VOLUME);
        container["volumeMounts"] = json!([{"name": "data", "mountPath": VOLUME}]);
        claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}}}}]);
        if set.attached {
            claims[0]["spec"]["storageClassName"] = json!("disk");
        }
    }
    container["command"] = json!(command);
    let policy = if set.parallel { "Parallel" } else { "OrderedReady" };
    Ok(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": set.name},
        "spec": {"replicas": set.replicas, "serviceName": set.name, "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": set.name}},
            "volumeClaimTemplates": claims,
            "template": {"metadata": {"labels": {"app": set.name}},
                "spec": {"terminationGracePeriodSeconds": set.grace, "containers": [container]}}}
    }))
}

/// Web servers with readiness probes.
pub(super) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": DEPLOYMENT},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": DEPLOYMENT}},
            "template": {"metadata": {"labels": {"app": DEPLOYMENT}},
                "spec": {"terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}],
                        "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1}}]}}}
    })
}

/// A Job of two pods that end by themselves.
pub(super) fn job(number: usize) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("job-{number}")},
        "spec": {"completions": 2, "parallelism": 2, "backoffLimit": 1000,
            "template": {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "work", "image": "busybox", "command": ["sleep", "1"]}]}}}
    })
}
