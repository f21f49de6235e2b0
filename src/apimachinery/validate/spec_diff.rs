//! The difference of two specs as the API server's responses show it: field by field, with two fields of context, in
//! Go's order and notation.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

use base::quote::quote;
use object::ObjectPart as _;

/// Go's type of a field, which decides its notation.
#[derive(Clone, Copy)]
enum GoForm {
    /// Text; absent is empty.
    Text,
    /// A pointer; absent is nil.
    Pointer,
    /// A list, map or struct; absent is nil.
    Other,
}

use GoForm::{Other, Pointer, Text};

/// A type of the API server: its name, and its fields with their names in Go and in JSON.
pub struct GoStruct {
    name: &'static str,
    /// In the order of the Go type.
    fields: &'static [(&'static str, &'static str, GoForm)],
    /// Fields that are listed only if they differ.
    rare: &'static [(&'static str, &'static str, GoForm)],
}

/// The spec of a claim.
pub const CLAIM: GoStruct = GoStruct {
    name: "core.PersistentVolumeClaimSpec",
    fields: &[
        ("AccessModes", "accessModes", Other),
        ("Selector", "selector", Pointer),
        ("Resources", "resources", Other),
        ("VolumeName", "volumeName", Text),
        ("StorageClassName", "storageClassName", Pointer),
        ("VolumeMode", "volumeMode", Pointer),
        ("DataSource", "dataSource", Pointer),
        ("DataSourceRef", "dataSourceRef", Pointer),
        ("VolumeAttributesClassName", "volumeAttributesClassName", Pointer),
    ],
    rare: &[],
};

/// The sources of a persistent volume, as far as Podium's nodes can mount them and users use them.
pub const VOLUME_SOURCE: GoStruct = GoStruct {
    name: "core.PersistentVolumeSource",
    fields: &[
        ("HostPath", "hostPath", Pointer),
        ("NFS", "nfs", Pointer),
        ("ISCSI", "iscsi", Pointer),
        ("Local", "local", Pointer),
        ("CSI", "csi", Pointer),
    ],
    rare: &[],
};

const POD: GoStruct = GoStruct { name: "core.PodSpec", fields: FIELDS, rare: RARE_FIELDS };

const FIELDS: &[(&str, &str, GoForm)] = &[
    ("Volumes", "volumes", Other),
    ("InitContainers", "initContainers", Other),
    ("Containers", "containers", Other),
    ("EphemeralContainers", "ephemeralContainers", Other),
    ("RestartPolicy", "restartPolicy", Text),
    ("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", Pointer),
    ("ActiveDeadlineSeconds", "activeDeadlineSeconds", Pointer),
    ("DNSPolicy", "dnsPolicy", Text),
    ("NodeSelector", "nodeSelector", Other),
    ("ServiceAccountName", "serviceAccountName", Text),
    ("AutomountServiceAccountToken", "automountServiceAccountToken", Pointer),
    ("NodeName", "nodeName", Text),
    ("SecurityContext", "securityContext", Pointer),
    ("ImagePullSecrets", "imagePullSecrets", Other),
    ("Hostname", "hostname", Text),
    ("Subdomain", "subdomain", Text),
    ("SetHostnameAsFQDN", "setHostnameAsFQDN", Pointer),
    ("Affinity", "affinity", Pointer),
    ("SchedulerName", "schedulerName", Text),
    ("Tolerations", "tolerations", Other),
    ("HostAliases", "hostAliases", Other),
    ("PriorityClassName", "priorityClassName", Text),
    ("Priority", "priority", Pointer),
    ("PreemptionPolicy", "preemptionPolicy", Pointer),
    ("DNSConfig", "dnsConfig", Pointer),
    ("ReadinessGates", "readinessGates", Other),
    ("RuntimeClassName", "runtimeClassName", Pointer),
    ("Overhead", "overhead", Other),
    ("EnableServiceLinks", "enableServiceLinks", Pointer),
    ("TopologySpreadConstraints", "topologySpreadConstraints", Other),
];

const RARE_FIELDS: &[(&str, &str, GoForm)] = &[
    ("HostNetwork", "hostNetwork", Pointer),
    ("HostPID", "hostPID", Pointer),
    ("HostIPC", "hostIPC", Pointer),
    ("ShareProcessNamespace", "shareProcessNamespace", Pointer),
    ("HostUsers", "hostUsers", Pointer),
    ("OS", "os", Pointer),
    ("SchedulingGates", "schedulingGates", Other),
    ("ResourceClaims", "resourceClaims", Other),
    ("Resources", "resources", Pointer),
];

/// The number of unchanged fields on each side of a change.
const CONTEXT: usize = 2;

/// The largest gap between two changes that is shown in full.
const MAX_GAP: usize = 2 * CONTEXT + 2;

/// Returns the difference from a pod's `old` spec to its `new` one.
pub fn diff(new: &PodSpec, old: &PodSpec) -> String {
    differences(&POD, &new.to_value(), &old.to_value())
}

/// Returns the difference, with fields of `first` marked with `-` and those of `second` with `+`.
pub fn differences(shape: &GoStruct, first: &Value, second: &Value) -> String {
    let differs = |json: &str| first.get(json) != second.get(json);
    let fields: Vec<_> =
        shape.fields.iter().chain(shape.rare.iter().filter(|(_, json, _)| differs(json))).collect();
    let changed: Vec<bool> = fields.iter().map(|(_, json, _)| differs(json)).collect();
    let shown = visible_fields(&changed);
    let width =
        fields.iter().zip(&shown).filter(|(_, s)| **s).map(|((go, ..), _)| go.len()).max().unwrap_or(0);

    let mut text = format!("  {}{{\n", shape.name);
    let mut hidden = 0;
    let flush = |text: &mut String, hidden: &mut usize| {
        if *hidden > 0 {
            let plural = if *hidden == 1 { "" } else { "s" };
            let _ = writeln!(text, "  \t... // {hidden} identical field{plural}");
            *hidden = 0;
        }
    };
    for (i, (go, json, form)) in fields.iter().enumerate() {
        if !shown[i] {
            hidden += 1;
            continue;
        }
        flush(&mut text, &mut hidden);
        let mut line = |mark: &str, value: Option<&Value>| {
            let label = format!("{go}:");
            let _ = writeln!(text, "{mark}\t{label:<w$} {},", written(value, *form), w = width + 1);
        };
        if changed[i] {
            line("- ", first.get(*json));
            line("+ ", second.get(*json));
        } else {
            line("  ", first.get(*json));
        }
    }
    flush(&mut text, &mut hidden);
    text.push_str("  }\n");
    text
}

/// Returns for each field if it is changed or near enough to a change to be shown.
fn visible_fields(changed: &[bool]) -> Vec<bool> {
    let changes: Vec<usize> = (0..changed.len()).filter(|i| changed[*i]).collect();
    (0..changed.len())
        .map(|i| {
            let before = changes.iter().rev().find(|c| **c <= i);
            let after = changes.iter().find(|c| **c >= i);
            let near = |change: Option<&usize>| change.is_some_and(|c| c.abs_diff(i) <= CONTEXT);
            let in_short_gap = matches!((before, after), (Some(b), Some(a)) if a - b <= MAX_GAP);
            near(before) || near(after) || in_short_gap
        })
        .collect()
}

fn written(value: Option<&Value>, form: GoForm) -> String {
    match (value, form) {
        (None, Text) => quote(""),
        (None | Some(Value::Null), _) => "nil".to_string(),
        (Some(Value::String(text)), Pointer) => format!("&{}", quote(text)),
        (Some(Value::String(text)), _) => quote(text),
        (Some(value), Pointer) => format!("&{value}"),
        (Some(value), _) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_reads_as_the_api_servers_api_5() {
        let old: PodSpec = serde_json::from_value(serde_json::json!({
            "containers": [{"name": "c"}], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "nodeName": "fake-00000",
            "securityContext": {}}))
        .unwrap();
        let new =
            PodSpec { termination_grace_period_seconds: Some(3), node_name: Some("x".into()), ..old.clone() };
        // Verbatim from reference/errors.txt.
        assert_eq!(
            diff(&new, &old),
            "  core.PodSpec{\n  \t... // 3 identical fields\n  \tEphemeralContainers:           nil,\n  \tRestartPolicy:                 \"Always\",\n- \tTerminationGracePeriodSeconds: &3,\n+ \tTerminationGracePeriodSeconds: &30,\n  \tActiveDeadlineSeconds:         nil,\n  \tDNSPolicy:                     \"ClusterFirst\",\n  \tNodeSelector:                  nil,\n  \tServiceAccountName:            \"default\",\n  \tAutomountServiceAccountToken:  nil,\n- \tNodeName:                      \"x\",\n+ \tNodeName:                      \"fake-00000\",\n  \tSecurityContext:               &{},\n  \tImagePullSecrets:              nil,\n  \t... // 16 identical fields\n  }\n"
        );
    }
}
