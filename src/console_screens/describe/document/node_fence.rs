//! A fence of a node: its steps with their state, and its last message (SAFE-5).

use serde_json::Value;

use super::builder::{DocumentBuilder, Tone, at, identity, items, text, time};

pub(crate) fn describe(doc: &mut DocumentBuilder, object: &Value) {
    identity(doc, object);
    doc.field(0, "Reason", at(object, "/spec/reason"));
    let fenced = items(object, "/status/conditions").find(|condition| condition["type"] == "Fenced");
    let message = fenced.map(|fenced| text(&fenced["message"])).unwrap_or_default();
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Pending");
    let returning = object["metadata"]["deletionTimestamp"].is_string();
    doc.head(0, "Steps");
    let stamp = |path: &str| time(object.pointer(path).unwrap_or(&Value::Null));
    let mut steps = vec![
        ("requested", time(&object["metadata"]["creationTimestamp"]), true),
        (
            "the kubelet is stopped; the node's processes are being killed",
            stamp("/status/startedAt"),
            phase != "Pending",
        ),
        ("all processes are dead", stamp("/status/fencedAt"), phase == "Fenced"),
        (
            "out of service: its pods and disks move to other nodes",
            stamp("/status/fencedAt"),
            phase == "Fenced",
        ),
    ];
    if returning {
        steps.push((
            "unfenced; it starts with no processes",
            time(&object["metadata"]["deletionTimestamp"]),
            false,
        ));
    }
    // The first unfinished step is the current one.
    let mut previous_done = true;
    for (step, when, done) in steps {
        let now = !done && previous_done;
        previous_done &= done;
        let (glyph, tone) = match (done, now) {
            (true, _) => ("✔", Tone::Good),
            (false, true) => ("◐", Tone::Waiting),
            (false, false) => ("·", Tone::Dim),
        };
        let when = if when.is_empty() || !(done || returning) { String::new() } else { format!("  {when}") };
        doc.line(2, format!("{glyph} {step}{when}"), tone);
    }
    if !message.is_empty() {
        let status = fenced.and_then(|fenced| fenced["status"].as_str());
        let reason = fenced.map(|fenced| text(&fenced["reason"])).unwrap_or_default();
        let stuck = matches!(
            reason.as_str(),
            "NotRunHere" | "NoSuchNode" | "DeathNotConfirmed" | "NodeBusy" | "NotStarted"
        );
        let tone = match (status, stuck) {
            (_, true) => Tone::Bad,
            (Some("True"), _) => Tone::Good,
            _ => Tone::Waiting,
        };
        doc.toned(0, "Message", message, tone);
    }
}
