//! The schemas of resources without a type in the library: metrics, and Podium's own kinds.

use serde_json::{Map, Value, json};

use super::reference::REFERENCE;
use crate::{controllers, metrics, verdicts};
use base::sort::CollectMap;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns the name and content of a kind's schema.
pub(super) fn schema(group: &str, version: &str, kind: &str) -> Option<(String, Value)> {
    let of_metrics = (group, version) == (metrics::GROUP, metrics::VERSION);
    match kind {
        verdicts::KIND if (group, version) == (verdicts::GROUP, verdicts::VERSION) => {
            Some(("dev.podium.v1alpha1.SchedulingVerdict".into(), verdict()))
        }
        controllers::KIND if (group, version) == (verdicts::GROUP, verdicts::VERSION) => {
            Some(("dev.podium.v1alpha1.Controller".into(), controller()))
        }
        controllers::STEP_KIND if (group, version) == (verdicts::GROUP, verdicts::VERSION) => {
            Some(("dev.podium.v1alpha1.ControllerStep".into(), step()))
        }
        "NodeMetrics" if of_metrics => {
            let usage = [("usage", usage())];
            let text = "NodeMetrics sets resource usage metrics of a node.";
            Some((metrics_name(kind), measured(text, usage)))
        }
        "PodMetrics" if of_metrics => {
            let container = object(
                "ContainerMetrics sets resource usage metrics of a container.",
                [
                    ("name", text("Container name corresponding to the one from pod.spec.containers.")),
                    ("usage", usage()),
                ],
            );
            let containers = [("containers", list("Metrics for all containers.", container))];
            Some((
                metrics_name(kind),
                measured("PodMetrics sets resource usage metrics of a pod.", containers),
            ))
        }
        _ => None,
    }
}

fn metrics_name(kind: &str) -> String {
    format!("io.k8s.metrics.pkg.apis.metrics.v1beta1.{kind}")
}

fn measured<const N: usize>(description: &str, more: [(&'static str, Value); N]) -> Value {
    let mut schema = kind(description, more);
    schema["properties"]["timestamp"] =
        time("The following fields define time interval from which metrics were collected.");
    schema["properties"]["window"] = text("window is the time over which CPU usage was averaged.");
    schema
}

fn usage() -> Value {
    json!({"description": "usage has the resources in use: `cpu` in cores and `memory` in bytes.", "type": "object",
        "additionalProperties": {"type": "string"}})
}

fn verdict() -> Value {
    let refusal = object(
        "A filter that rejects a node.",
        [
            ("plugin", text("plugin is the name of the filter's scheduler plugin.")),
            ("reasons", list("reasons has the reasons, as in the pod's events.", json!({"type": "string"}))),
        ],
    );
    let node = object(
        "The verdict for one node.",
        [
            ("name", text("name is the name of the node.")),
            (
                "refusals",
                list("refusals lists the filters that reject the node; empty if the pod fits.", refusal),
            ),
            (
                "scores",
                list(
                    "scores has the points from each plugin in `scoredBy`.",
                    json!({"type": "integer", "format": "int64"}),
                ),
            ),
        ],
    );
    let hint = object(
        "The changes that would make the pod fit a node.",
        [
            ("node", text("node is the name of the node.")),
            (
                "changes",
                list("changes lists the changes; all of them are needed.", json!({"type": "string"})),
            ),
            (
                "alike",
                json!({"description": "alike is the number of nodes that the pod would fit with the same changes.",
                    "type": "integer"}),
            ),
        ],
    );
    let scorer = object(
        "A plugin that scores nodes.",
        [
            ("plugin", text("plugin is the name of the plugin.")),
            ("weight", number("weight is the factor of the plugin's points.")),
        ],
    );
    kind(
        "SchedulingVerdict explains why a pod is not scheduled: the result of the scheduler's last attempt. It has \
         the name of the pod, is read-only, and is not stored.",
        [
            ("attemptedAt", time("attemptedAt is the time of the scheduler's last attempt.")),
            ("message", text("message is the result, as in the pod's condition PodScheduled.")),
            ("hints", list("hints lists changes that would make the pod fit, smallest first.", hint)),
            (
                "filters",
                list("filters lists the filters that ran, in this order.", json!({"type": "string"})),
            ),
            ("scoredBy", list("scoredBy lists the plugins that scored the nodes.", scorer)),
            ("nodes", list("nodes has the verdict for each node. Lists omit it.", node)),
        ],
    )
}

fn number(description: &str) -> Value {
    json!({"description": description, "type": "integer", "format": "int64"})
}

/// A key of a queue, with additional properties.
fn queued_key<const N: usize>(description: &str, more: [(&'static str, Value); N]) -> Value {
    let of = object(
        "object is the object of the key; it may have been deleted.",
        [
            ("apiVersion", text("apiVersion is the API version of the object.")),
            ("kind", text("kind is the kind of the object.")),
            ("namespace", text("namespace is the namespace of the object.")),
            ("name", text("name is the name of the object.")),
        ],
    );
    let mut schema = object(
        description,
        [("key", text("key is the text of the key; unique in its queue.")), ("object", of)],
    );
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.extend(more.into_iter().map(|(name, property)| (name.to_string(), property)));
    }
    schema
}

fn reconciled(description: &str) -> Value {
    queued_key(
        description,
        [
            ("at", time("at is the time at which the reconcile ended.")),
            (
                "result",
                text(
                    "result is Done, Requeued, Failed or Panicked; for the scheduler, Scheduled, Unschedulable or \
                     Held.",
                ),
            ),
            (
                "waitedMicroseconds",
                number("waitedMicroseconds is the time the key waited in the queue, if known."),
            ),
            ("workedMicroseconds", number("workedMicroseconds is the duration of the reconcile.")),
            (
                "message",
                text("message is the error; for the scheduler, the node, or the reason why no node fits."),
            ),
            (
                "requeuedAfterMicroseconds",
                number(
                    "requeuedAfterMicroseconds is the delay of the requeue, if the reconcile requested one.",
                ),
            ),
        ],
    )
}

fn controller() -> Value {
    let quantiles = |description: &str| {
        object(
            description,
            [
                ("p50Microseconds", number("p50Microseconds is the median.")),
                ("p99Microseconds", number("p99Microseconds is the 99th percentile.")),
                ("samples", number("samples is the number of measured values.")),
            ],
        )
    };
    let queue = object(
        "queue describes the work queue.",
        [
            ("depth", number("depth is the number of keys that are due.")),
            ("inFlight", number("inFlight is the number of keys that are being reconciled.")),
            (
                "delayed",
                number(
                    "delayed is the number of keys that are due later: after a back-off or a requested delay.",
                ),
            ),
            (
                "oldestMicroseconds",
                number("oldestMicroseconds is the longest wait of the keys that are due."),
            ),
            (
                "unschedulable",
                number(
                    "unschedulable is the number of pods that wait for a change in the cluster. Scheduler only.",
                ),
            ),
            ("gated", number("gated is the number of pods with scheduling gates. Scheduler only.")),
        ],
    );
    let counter = object(
        "A counter.",
        [
            ("name", text("name is the name of the counter.")),
            ("count", number("count is the present number.")),
        ],
    );
    let failures = || number("failures is the number of consecutive failures.");
    let waiting = queued_key(
        "A key that is due.",
        [
            (
                "waitedMicroseconds",
                number("waitedMicroseconds is the time for which the key has been due; absent if not known."),
            ),
            ("failures", failures()),
        ],
    );
    let delayed = queued_key(
        "A key that is due later.",
        [
            ("dueInMicroseconds", number("dueInMicroseconds is the time until the key is due.")),
            ("failures", failures()),
        ],
    );
    let in_flight = queued_key(
        "A key that is being reconciled.",
        [(
            "workedMicroseconds",
            number("workedMicroseconds is the time for which the key has been reconciled."),
        )],
    );
    let status = object(
        "status reports the state of the controller. If the controller does not run, only `state` is known.",
        [
            (
                "state",
                text(
                    "state is Running, Paused, Starting (before the first lists), Restarting (after a panic) or \
                     Stopped.",
                ),
            ),
            ("subsystem", text("subsystem is Controllers, Scheduler, Kubelet, Network or Cluster.")),
            ("component", text("component is the controller's component in a Fault's target.")),
            ("node", text("node is the node of a kubelet.")),
            ("cannotPause", text("cannotPause is the reason why no Fault pauses the controller.")),
            ("cannotStep", text("cannotStep is the reason why the controller takes no single steps.")),
            ("workers", number("workers is the maximum number of concurrent reconciles.")),
            ("startedAt", time("startedAt is the time from which the figures count.")),
            ("panics", number("panics is the number of panics since the process started.")),
            ("queue", queue),
            ("counts", list("counts lists further counters.", counter)),
            ("reconciles", number("reconciles is the number of finished reconciles, with any result.")),
            ("errors", number("errors is the number of reconciles that failed or panicked.")),
            ("lastMinute", number("lastMinute is the number of reconciles that ended in the last minute.")),
            (
                "queueDuration",
                quantiles("queueDuration is the distribution of the last keys' waiting times."),
            ),
            (
                "workDuration",
                quantiles("workDuration is the distribution of the last reconciles' durations."),
            ),
            ("lastError", reconciled("lastError is the last reconcile that failed.")),
            (
                "waiting",
                list("waiting lists the first keys that are due, in queue order. Lists omit it.", waiting),
            ),
            (
                "delayed",
                list(
                    "delayed lists the first keys that are due later, earliest first. Lists omit it.",
                    delayed,
                ),
            ),
            (
                "inFlight",
                list("inFlight lists the keys that are being reconciled. Lists omit it.", in_flight),
            ),
            (
                "recent",
                list(
                    "recent lists the last reconciles, newest first. Lists omit it.",
                    reconciled("A reconcile."),
                ),
            ),
            (
                "lastErrors",
                list(
                    "lastErrors lists the last failed reconciles, newest first. Lists omit it.",
                    reconciled("A reconcile."),
                ),
            ),
        ],
    );
    kind(
        "Controller reports the state of a controller of this control plane: its queue, its last reconciles, its \
         errors. It is read-only and is not stored. A Fault of type Pause pauses it.",
        [("status", status)],
    )
}

fn step() -> Value {
    let spec = object(
        "spec selects the key to reconcile.",
        [(
            "key",
            text(
                "key is a key of the queue, due or not. Defaults to the next key that is due. The scheduler \
                 accepts no key.",
            ),
        )],
    );
    kind(
        "ControllerStep makes a paused controller reconcile one key.",
        [("spec", spec), ("status", reconciled("status is the result of the reconcile."))],
    )
}

fn kind<const N: usize>(description: &str, more: [(&'static str, Value); N]) -> Value {
    let mut schema = object(
        description,
        [
            (
                "apiVersion",
                text("APIVersion defines the versioned schema of this representation of an object."),
            ),
            ("kind", text("Kind is a string value representing the REST resource this object represents.")),
            (
                "metadata",
                json!({"description": "Standard object's metadata.", "default": {},
                    "allOf": [{"$ref": format!("{REFERENCE}{OBJECT_META}")}]}),
            ),
        ],
    );
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.extend(more.into_iter().map(|(name, property)| (name.to_string(), property)));
    }
    schema
}

fn object<const N: usize>(description: &str, properties: [(&'static str, Value); N]) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, property)| (name.to_string(), property)).collect_map();
    json!({"description": description, "type": "object", "properties": properties})
}

#[expect(clippy::needless_pass_by_value, reason = "schemas are written where they stand")]
fn list(description: &str, items: Value) -> Value {
    json!({"description": description, "type": "array", "items": items, "x-kubernetes-list-type": "atomic"})
}

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

fn time(description: &str) -> Value {
    json!({"description": description, "type": "string", "format": "date-time"})
}
