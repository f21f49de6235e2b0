//! The schemas of resources without a type in the library: metrics, and Podium's own kinds.

use serde_json::{Map, Value, json};

use super::reference::REFERENCE;
use crate::http::{controllers, metrics, verdicts};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The name and content of a kind's schema.
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
                "What one container uses.",
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
    schema["properties"]["window"] = text("The time over which cpu was averaged.");
    schema
}

fn usage() -> Value {
    json!({"description": "What is used: `cpu` in cores and `memory` in bytes.", "type": "object",
        "additionalProperties": {"type": "string"}})
}

fn verdict() -> Value {
    let refusal = object(
        "A filter that refuses a node.",
        [
            ("plugin", text("The filter, by the name of its scheduler plugin.")),
            ("reasons", list("Why, as the pod's events say it.", json!({"type": "string"}))),
        ],
    );
    let node = object(
        "One node's verdict.",
        [
            ("name", text("The node.")),
            ("refusals", list("What refuses the pod; empty when it fits.", refusal)),
            (
                "scores",
                list(
                    "The points of each plugin in `scoredBy`.",
                    json!({"type": "integer", "format": "int64"}),
                ),
            ),
        ],
    );
    let hint = object(
        "What would have to change for the pod to fit a node.",
        [
            ("node", text("A node that is near.")),
            ("changes", list("The changes, all of which are needed.", json!({"type": "string"}))),
            (
                "alike",
                json!({"description": "How many nodes would do with the same changes.", "type": "integer"}),
            ),
        ],
    );
    let scorer = object(
        "A plugin that gives points.",
        [
            ("plugin", text("Its name.")),
            (
                "weight",
                json!({"description": "What its points are multiplied with.", "type": "integer", "format": "int64"}),
            ),
        ],
    );
    kind(
        "SchedulingVerdict says why a pod waits for a node: what the scheduler found when it last tried. It is named \
         like the pod, cannot be written, and is not kept.",
        [
            ("attemptedAt", time("When the scheduler last tried.")),
            ("message", text("The outcome, as the pod's condition PodScheduled has it.")),
            ("hints", list("What would make the pod fit, nearest first.", hint)),
            ("filters", list("The filters that were asked, in their order.", json!({"type": "string"}))),
            ("scoredBy", list("The plugins that gave points.", scorer)),
            ("nodes", list("Every node's verdict; only of a single pod, not in lists.", node)),
        ],
    )
}

fn number(description: &str) -> Value {
    json!({"description": description, "type": "integer", "format": "int64"})
}

/// A key of a queue, with additional properties.
fn queued_key<const N: usize>(description: &str, more: [(&'static str, Value); N]) -> Value {
    let of = object(
        "The object that the key is of; it may be gone.",
        [
            ("apiVersion", text("Its version.")),
            ("kind", text("Its kind.")),
            ("namespace", text("Its namespace.")),
            ("name", text("Its name.")),
        ],
    );
    let mut schema =
        object(description, [("key", text("As it is written; unique in its queue.")), ("object", of)]);
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.extend(more.into_iter().map(|(name, property)| (name.to_string(), property)));
    }
    schema
}

fn reconciled(description: &str) -> Value {
    queued_key(
        description,
        [
            ("at", time("When it ended.")),
            (
                "result",
                text(
                    "Done, Requeued, Failed or Panicked; of the scheduler Scheduled, Unschedulable or Held.",
                ),
            ),
            ("waitedMicroseconds", number("How long the key had waited, where that is known.")),
            ("workedMicroseconds", number("How long the reconcile took.")),
            ("message", text("Why it failed; of the scheduler the node, or why none takes the pod.")),
            (
                "requeuedAfterMicroseconds",
                number("In how long the key comes again, where it asked for that."),
            ),
        ],
    )
}

fn controller() -> Value {
    let quantiles = |description: &str| {
        object(
            description,
            [
                ("p50Microseconds", number("Half of them were no longer.")),
                ("p99Microseconds", number("Ninety-nine of a hundred were no longer.")),
                ("samples", number("Of how many.")),
            ],
        )
    };
    let queue = object(
        "What waits.",
        [
            ("depth", number("Keys that are to be reconciled now.")),
            ("inFlight", number("Keys that are being reconciled.")),
            ("delayed", number("Keys that come later: after a back-off, or because they asked for it.")),
            (
                "oldestMicroseconds",
                number("How long the key has waited that waits longest of those that are due."),
            ),
            ("unschedulable", number("Of the scheduler: pods that wait for a change.")),
            ("gated", number("Of the scheduler: pods that wait for their gates.")),
        ],
    );
    let failures = || number("How often it has failed in a row.");
    let waiting = queued_key(
        "A key that is due.",
        [
            ("waitedMicroseconds", number("For how long it has been; absent where that is not known.")),
            ("failures", failures()),
        ],
    );
    let delayed = queued_key(
        "A key that comes later.",
        [("dueInMicroseconds", number("In how long.")), ("failures", failures())],
    );
    let in_flight = queued_key(
        "A key that is being reconciled.",
        [("workedMicroseconds", number("For how long it has been."))],
    );
    let status = object(
        "How it works. Of one that does not run the state alone is known.",
        [
            (
                "state",
                text(
                    "Running, Paused, Starting (it waits for its first lists), Restarting (it panicked) or Stopped.",
                ),
            ),
            ("component", text("What a Fault's target calls the component that it is of.")),
            ("workers", number("How many keys it may reconcile at once.")),
            ("startedAt", time("Since when its figures count.")),
            ("panics", number("Its panics since the process began.")),
            ("queue", queue),
            ("reconciles", number("Reconciles that have ended, however they did.")),
            ("errors", number("Those that failed or panicked.")),
            ("lastMinute", number("Reconciles that ended in the last minute.")),
            ("queueDuration", quantiles("How long the last keys waited before they were reconciled.")),
            ("workDuration", quantiles("How long the last reconciles took.")),
            ("lastError", reconciled("The last reconcile that failed.")),
            ("waiting", list("The first keys that are due, in their order; not in lists.", waiting)),
            ("delayed", list("The first keys that come later, by when they do; not in lists.", delayed)),
            ("inFlight", list("Keys that are being reconciled; not in lists.", in_flight)),
            ("recent", list("The last reconciles, newest first; not in lists.", reconciled("A reconcile."))),
            (
                "lastErrors",
                list("The last that failed, newest first; not in lists.", reconciled("A reconcile.")),
            ),
        ],
    );
    kind(
        "Controller says how a controller of this control plane works: its queue, its last reconciles, its errors. It \
         cannot be written, and is not kept. A Fault of type Pause has it stand still.",
        [("status", status)],
    )
}

fn step() -> Value {
    let spec = object(
        "What is to be reconciled.",
        [(
            "key",
            text("A key of the queue, due or not; the next that is due without. The scheduler takes none."),
        )],
    );
    kind(
        "ControllerStep has a controller that is paused reconcile one key.",
        [("spec", spec), ("status", reconciled("What came of it."))],
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
        properties.into_iter().map(|(name, property)| (name.to_string(), property)).collect();
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
