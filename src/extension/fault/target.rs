//! The targets of faults that are not of the network: a component, nodes, pods, a claim or a webhook; and the
//! parameters of faults of disks, clocks and image pulls.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use object::time::read_go_duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{labels, rules};

/// The failures of a disk.
pub const DISK_FAILURES: &[&str] = &["Failing", "Full", "Slow"];

/// FaultTarget is what a fault affects that is not a network fault. The fault's type determines the fields to set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FaultTarget {
    /// component is kubelet (of `node` or `nodeSelector`), scheduler, controllers, store, or the name of one controller
    /// in kube-controller-manager. For Crash, Pause, Disk and ClockSkew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::of_subdomain()))]
    pub component: Option<String>,
    /// node is the name of a node. For the component kubelet, and for PowerOff, Disk, ClockSkew and ImagePull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::of_subdomain()))]
    pub node: Option<String>,
    /// nodeSelector selects nodes by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector")]
    pub node_selector: Option<LabelSelector>,
    /// pod is the name of a pod in `namespace`. For OutOfMemory, and with `volume` for VolumeFull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::of_subdomain()))]
    pub pod: Option<String>,
    /// namespace is the namespace of `pod`, `podSelector` or `claim`. Defaults to default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules::of_label()))]
    pub namespace: Option<String>,
    /// podSelector selects pods by their labels, in `namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector")]
    pub pod_selector: Option<LabelSelector>,
    /// container is the name of one of the pods' containers. Defaults to all containers. For OutOfMemory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules::of_label()))]
    pub container: Option<String>,
    /// claim is the name of a PersistentVolumeClaim in `namespace`. For VolumeFull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::of_subdomain()))]
    pub claim: Option<String>,
    /// volume is the name of an emptyDir volume of `pod`. For VolumeFull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules::of_label()))]
    pub volume: Option<String>,
    /// webhook is the name of a mutating or validating webhook configuration. For Webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::of_subdomain()))]
    pub webhook: Option<String>,
}

/// A part of Podium that a fault can affect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component<'a> {
    /// The kubelets of the nodes in the target's `node` or `nodeSelector`.
    Kubelet,
    /// The one scheduler.
    Scheduler,
    /// All controllers.
    Controllers,
    /// The store.
    Store,
    /// One controller, by its name in kube-controller-manager.
    Controller(&'a str),
}

/// FaultDisk selects how a disk fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::of_disk)]
pub struct FaultDisk {
    /// failure is Full (writes fail because the disk is full), Failing (writes fail with an I/O error) or Slow (each
    /// write takes `delay` longer).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, extend("enum" = DISK_FAILURES))]
    pub failure: String,
    /// delay is the time by which each write of a slow disk is delayed, such as 200ms; at most 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_delay("1m0s")))]
    pub delay: Option<String>,
}

/// FaultSkew changes the time that a clock shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FaultSkew {
    /// by is the time by which the clock is fast, such as 5m, or slow, such as -1h30m; at most one year.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 64), extend("x-kubernetes-validations" = rules::of_skew()))]
    pub by: String,
}

/// FaultImage delays image pulls or makes them fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::of_image)]
pub struct FaultImage {
    /// delay is the time by which a pull is delayed, such as 30s; at most 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_delay("1h0m0s")))]
    pub delay: Option<String>,
    /// failing makes the pull fail after the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<bool>,
    /// pattern limits the fault to images whose name in the container matches it; * stands for any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = rules::of_pattern()))]
    pub pattern: Option<String>,
}

impl FaultTarget {
    /// Returns the component it names, if any.
    pub fn component(&self) -> Option<Component<'_>> {
        Some(match self.component.as_deref()? {
            "kubelet" => Component::Kubelet,
            "scheduler" => Component::Scheduler,
            "controllers" => Component::Controllers,
            "store" => Component::Store,
            name => Component::Controller(name),
        })
    }
}

impl FaultDisk {
    /// Returns the additional time of a write; zero if it is invalid.
    pub fn delay(&self) -> Duration {
        self.delay.as_deref().and_then(read_go_duration).unwrap_or_default()
    }
}

impl FaultSkew {
    /// Returns the clock's offset; `None` if it is invalid.
    pub fn by(&self) -> Option<SignedDuration> {
        let (is_less, text) = match self.by.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, self.by.strip_prefix('+').unwrap_or(&self.by)),
        };
        let by = SignedDuration::try_from(read_go_duration(text)?).ok()?;
        Some(if is_less { -by } else { by })
    }
}

impl FaultImage {
    /// Returns the additional time of a pull; zero if it is invalid.
    pub fn delay(&self) -> Duration {
        self.delay.as_deref().and_then(read_go_duration).unwrap_or_default()
    }
}

/// A target in the notation of `podium fault`: `kubelet/node-1`, `scheduler`, `pod/default/web/app`.
impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = |f: &mut fmt::Formatter<'_>, of: &str| match (&self.node, &self.node_selector) {
            (Some(node), _) => write!(f, "{of}/{node}"),
            (None, Some(nodes)) => write!(f, "{of}s:{}", labels(nodes)),
            (None, None) => f.write_str("?"),
        };
        let namespace = self.namespace.as_deref().unwrap_or("default");
        match self.component() {
            Some(Component::Kubelet) => return nodes(f, "kubelet"),
            Some(Component::Controller(name)) => return write!(f, "controller/{name}"),
            Some(_) => return f.write_str(self.component.as_deref().unwrap_or_default()),
            None => {}
        }
        if let Some(claim) = &self.claim {
            return write!(f, "claim/{namespace}/{claim}");
        }
        if let (Some(pod), Some(volume)) = (&self.pod, &self.volume) {
            return write!(f, "emptydir/{namespace}/{pod}/{volume}");
        }
        match (&self.pod, &self.pod_selector, &self.webhook) {
            (Some(pod), ..) => write!(f, "pod/{namespace}/{pod}")?,
            (None, Some(pods), _) => write!(f, "pods/{namespace}:{}", labels(pods))?,
            (None, None, Some(webhook)) => return write!(f, "webhook/{webhook}"),
            (None, None, None) => return nodes(f, "node"),
        }
        self.container.as_ref().map_or(Ok(()), |container| write!(f, "/{container}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_reads_as_the_command_line_takes_it_fault_1() {
        for (target, text) in [
            (json!({"component": "kubelet", "node": "a"}), "kubelet/a"),
            (
                json!({"component": "kubelet", "nodeSelector": {"matchLabels": {"zone": "z"}}}),
                "kubelets:zone=z",
            ),
            (json!({"component": "scheduler"}), "scheduler"),
            (json!({"component": "job"}), "controller/job"),
            (json!({"node": "a"}), "node/a"),
            (json!({"nodeSelector": {"matchLabels": {"zone": "z"}}}), "nodes:zone=z"),
            (json!({"pod": "web"}), "pod/default/web"),
            (json!({"pod": "web", "namespace": "n", "container": "app"}), "pod/n/web/app"),
            (json!({"podSelector": {"matchLabels": {"app": "web"}}}), "pods/default:app=web"),
            (json!({"claim": "data"}), "claim/default/data"),
            (json!({"claim": "data", "namespace": "n"}), "claim/n/data"),
            (json!({"pod": "web", "volume": "cache"}), "emptydir/default/web/cache"),
            (json!({"webhook": "checks"}), "webhook/checks"),
        ] {
            let read: FaultTarget = serde_json::from_value(target.clone()).unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(serde_json::to_value(&read).unwrap(), target);
        }
    }

    #[test]
    fn a_clock_is_off_either_way_fault_1() {
        for (text, seconds) in [
            ("5m", Some(300)),
            ("-1h30m", Some(-5400)),
            ("+2s", Some(2)),
            ("--2s", None),
            ("soon", None),
            ("-", None),
        ] {
            let by = FaultSkew { by: text.into() }.by();
            assert_eq!(by, seconds.map(SignedDuration::from_secs), "{text}");
        }
    }
}
