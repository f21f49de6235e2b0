//! The objects that clients create.

use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};

use super::{ensure, typed};
use crate::simulate::plan::{Bounds, DISKS, NAMESPACES};
use api::{Api, ApiError};
use object::Key;

/// The grace period in which a pod must end.
const GRACE_SECONDS: i64 = 10;
/// The time that a pod stays on a node that is not ready or unreachable.
const TOLERATED_SECONDS: i64 = 20;

pub(super) fn register_key(register: u8) -> Key {
    Key::new(NAMESPACES[0], format!("register-{register}"))
}

pub(super) fn template(app: &str, version: u8, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}, "annotations": {"version": version.to_string()}},
        "spec": {"terminationGracePeriodSeconds": GRACE_SECONDS, "tolerations": tolerations(),
            "containers": [{"name": "app", "image": image, "resources": {"requests": {"cpu": "100m"}}}]}})
}

/// Returns tolerations that make pods leave a node that is not ready or unreachable before the default five minutes.
fn tolerations() -> Value {
    let of = |key: &str| {
        json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": TOLERATED_SECONDS})
    };
    json!([of("not-ready"), of("unreachable")])
}

pub(super) fn deployment(key: &Key, replicas: u8, version: u8, bounds: Bounds) -> Value {
    let (surge, unavailable) = bounds.numbers();
    json!({"metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": key.name}},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": template(&key.name, version, &format!("app:v{version}"))}})
}

pub(super) fn stateful_set(key: &Key, replicas: u8, version: u8) -> Value {
    json!({"metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": template("db", version, &format!("db:v{version}"))}})
}

/// The name of the storage class of the disks, which are volumes without a provisioner.
const BY_HAND: &str = "by-hand";

/// The storage class of the disks. The class has no provisioner, because the simulator has none: a claim waits until a
/// volume is free.
pub(super) fn class_of_disks() -> Value {
    json!({"metadata": {"name": BY_HAND}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"})
}

/// Creates all disks, one for each replica. If a write was refused halfway, the next call creates the missing ones.
pub(super) fn make_disks(api: &Api) -> Result<(), ApiError> {
    for number in 0..DISKS {
        let name = format!("disk-{number}");
        let volume = json!({"metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "storageClassName": BY_HAND, "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": "disk.podium.dev", "volumeHandle": name,
                    "volumeAttributes": {"path": format!("/nonexistent/podium-simulate/{name}")}}}});
        ensure(api, typed::<PersistentVolume>(volume))?;
    }
    Ok(())
}

/// Returns a StatefulSet with disks. The checker of identities recognizes its pods by the prefix `db-` of their names.
pub(super) fn set_with_disks(replicas: u8, version: u8) -> Value {
    const NAME: &str = "db-with-disks";
    let mut template = template(NAME, version, &format!("db:v{version}"));
    template["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": BY_HAND, "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"metadata": {"name": NAME, "namespace": NAMESPACES[0]},
        "spec": {"replicas": replicas, "serviceName": NAME, "selector": {"matchLabels": {"app": NAME}},
            "template": template, "volumeClaimTemplates": [claim]}})
}

pub(super) fn job(key: &Key, completions: u8, seconds: u8) -> Value {
    let mut template = template(&key.name, 0, &format!("ends:{seconds}"));
    template["spec"]["restartPolicy"] = json!("Never");
    json!({"metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"completions": completions, "parallelism": 1, "backoffLimit": 20, "template": template}})
}

/// Returns a DaemonSet, which runs one pod on each node.
pub(super) fn daemon_set(key: &Key, version: u8) -> Value {
    json!({"metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"selector": {"matchLabels": {"app": key.name}},
            "template": template(&key.name, version, &format!("agent:v{version}"))}})
}

/// Returns a CronJob that starts a Job each minute; the Job may run for more than a minute.
pub(super) fn cron_job(key: &Key, replaces: bool, seconds: u8) -> Value {
    let one = job(key, 1, seconds);
    json!({"metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"schedule": "* * * * *", "suspend": false,
            "concurrencyPolicy": if replaces { "Replace" } else { "Forbid" },
            "jobTemplate": {"spec": one["spec"]}}})
}

/// Returns a Service that selects the pods of the Deployment of the same name.
pub(super) fn service(key: &Key) -> Value {
    json!({"metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"selector": {"app": key.name}, "ports": [{"port": 80}]}})
}
