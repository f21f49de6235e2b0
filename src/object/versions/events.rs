//! `events.k8s.io/v1` Event: the core group's Event with other field names.

use serde_json::Value;

/// Fields: (the name in `events.k8s.io`, the name in the core group).
const NAMES: [(&str, &str); 7] = [
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
];

/// Field labels of selectors: (the name in `events.k8s.io`, the name in the core group).
pub(super) const FIELDS: &[(&str, &str)] = &[
    ("regarding.kind", "involvedObject.kind"),
    ("regarding.namespace", "involvedObject.namespace"),
    ("regarding.name", "involvedObject.name"),
    ("regarding.uid", "involvedObject.uid"),
    ("regarding.apiVersion", "involvedObject.apiVersion"),
    ("regarding.resourceVersion", "involvedObject.resourceVersion"),
    ("regarding.fieldPath", "involvedObject.fieldPath"),
    ("reportingController", "reportingComponent"),
];

pub(super) fn show(event: &mut Value) {
    for (here, core) in NAMES {
        rename(event, core, here);
    }
}

pub(super) fn read(event: &mut Value) {
    for (here, core) in NAMES {
        rename(event, here, core);
    }
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(fields) = object.as_object_mut()
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_says_the_same_in_both_groups_api_7() {
        let core = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "message": "m", "count": 2,
            "firstTimestamp": "t", "lastTimestamp": "t", "source": {"component": "kubelet"}, "reason": "Killing",
            "reportingComponent": "kubelet", "reportingInstance": "n1", "type": "Normal"});
        let mut event = core.clone();
        show(&mut event);
        assert_eq!(
            event,
            json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod"}, "note": "m", "deprecatedCount": 2,
                "deprecatedFirstTimestamp": "t", "deprecatedLastTimestamp": "t",
                "deprecatedSource": {"component": "kubelet"}, "reason": "Killing",
                "reportingController": "kubelet", "reportingInstance": "n1", "type": "Normal"})
        );
        read(&mut event);
        assert_eq!(event, core);
    }
}
