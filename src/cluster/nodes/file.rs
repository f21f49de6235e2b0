//! The config file's part about nodes: checked at start and at each change, with a position for every error.

use std::path::Path;

use serde_json::{Value, json};

use super::desired::counted_name;
use crate::config::{ClusterConfig, ConfigFile, MOST_HOLLOW_NODES, MOST_NODES};
use crate::node_settings::{NodeCounts, NodeSettings, REGION, ZONE};
use apimachinery::validate::FieldError;
use kinds::validate_create;
use manifest::{ConfigText, ManifestError};
use object::{DecodeError, Kind, Object};

/// Parses a config file; an empty one sets nothing, so defaults apply.
pub fn parse_config(text: &str, name: &str, config: &ClusterConfig) -> Result<ConfigFile, ManifestError> {
    let text = ConfigText::parse(text, name)?;
    let file = match of_another_program(&text)? {
        Some(scheduler) => ConfigFile { scheduler: Some(scheduler), ..ConfigFile::default() },
        None => text.decode()?.unwrap_or_default(),
    };
    check(&text, &file, config.counts(&file))?;
    Ok(file)
}

/// Reads a config file that has a `kind`, unlike Podium's own. A KubeSchedulerConfiguration becomes the content of
/// `scheduler:`; every other kind is refused.
fn of_another_program(text: &ConfigText) -> Result<Option<Value>, ManifestError> {
    let Some(document) = text.decode::<Value>()? else { return Ok(None) };
    let part = |name: &str| document.get(name).and_then(Value::as_str);
    match (part("apiVersion"), part("kind")) {
        (_, Some("KubeSchedulerConfiguration")) => Ok(Some(document)),
        (Some(version), None) if version.starts_with("kubescheduler.config.k8s.io/") => Ok(Some(document)),
        (Some(_), Some(kind)) => {
            let message = format!(
                "a {kind} is not a configuration of Podium; apply objects with -f; a KubeSchedulerConfiguration can be \
                 the whole file, or stand below scheduler:"
            );
            Err(text.fault("kind", message))
        }
        _ => Ok(None),
    }
}

/// Validates the nodes of a config file, by the validation of the Node objects that they become.
fn check(text: &ConfigText, file: &ConfigFile, counts: NodeCounts) -> Result<(), ManifestError> {
    for (field, count, most) in [
        ("nodeCount", file.node_count, MOST_NODES),
        ("hollowNodeCount", file.hollow_node_count, MOST_HOLLOW_NODES),
    ] {
        if count.is_some_and(|count| count > usize::from(most)) {
            return Err(text.fault(field, format!("must be at most {most}")));
        }
    }
    for (index, settings) in file.nodes.iter().enumerate() {
        let path = format!("nodes[{index}]");
        let fault = |field: &str, message: String| Err(text.fault(&format!("{path}.{field}"), message));
        if let Some(first) = file.nodes[..index].iter().position(|other| other.name == settings.name) {
            return fault("name", format!("{} is already the name of nodes[{first}]", settings.name));
        }
        if let Some(counted) = counted_as(&settings.name, counts)
            && settings.hollow.is_some_and(|hollow| hollow != counted)
        {
            let field = if counted { "hollowNodeCount" } else { "nodeCount" };
            return fault("hollow", format!("{} is one of the nodes of {field}", settings.name));
        }
        for (field, key, value) in [("zone", ZONE, &settings.zone), ("region", REGION, &settings.region)] {
            let label = settings.labels.get(key);
            if value.is_some() && label.is_some() && value.as_ref() != label {
                return fault(field, format!("the label {key} has another value"));
            }
        }
        if let Some(resource) = settings.capacity.keys().find(|name| !is_resource(name)) {
            let message = format!(
                "unknown resource \"{resource}\"; a node has cpu, memory, ephemeral-storage, pods and DOMAIN/NAME"
            );
            return fault(&format!("capacity.{resource}"), message);
        }
        let errors = faults(settings).map_err(|error| text.fault(&path, error.to_string()))?;
        if let Some(error) = errors.first() {
            return Err(text.fault(&in_file(&path, &error.path), error.message()));
        }
    }
    Ok(())
}

/// Returns true for the name of a counted hollow node, false for that of a counted process node, else `None`.
fn counted_as(name: &str, counts: NodeCounts) -> Option<bool> {
    [(false, counts.nodes), (true, counts.hollow)].into_iter().find_map(|(hollow, count)| {
        let number = name.rsplit('-').next()?.parse::<usize>().ok().filter(|n| (1..=count).contains(n))?;
        (counted_name(hollow, number - 1) == name).then_some(hollow)
    })
}

fn is_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage" | "pods")
        || name.starts_with("hugepages-")
        || name.contains('/')
}

fn faults(settings: &NodeSettings) -> Result<Vec<FieldError>, DecodeError> {
    let node = json!({
        "metadata": {"name": settings.name, "labels": settings.all_labels()},
        "spec": {"taints": settings.taints},
        "status": {"capacity": settings.capacity},
    });
    Object::from_value(Kind::Node, node).map(|object| validate_create(&object))
}

/// The config file's field for a field of the Node object.
fn in_file(path: &str, field: &str) -> String {
    for (object, file) in [
        ("metadata.name", "name"),
        ("metadata.labels", "labels"),
        ("metadata.taints", "taints"),
        ("status.capacity", "capacity"),
    ] {
        if let Some(rest) = field.strip_prefix(object) {
            return format!("{path}.{file}{rest}");
        }
    }
    path.to_string()
}

/// Reads a config file again while the cluster runs.
pub(super) fn read(path: &Path, config: &ClusterConfig) -> Result<ConfigFile, String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    parse_config(&text, &name, config).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_about_a_node_has_its_place_node_6_cli_6() {
        for (text, expected) in [
            ("nodes: [{name: a}, {name: node-2, labels: {disk: ssd}}]", ""),
            (
                "nodes:\n- name: a\n- name: a\n",
                "c.yaml:3:3: nodes[1].name: a is already the name of nodes[0]",
            ),
            (
                "nodes:\n- labels: {a: b}\n",
                "c.yaml:2:3: nodes[0].name: Required value: name or generateName is required",
            ),
            ("nodes:\n- name: A_b\n", "c.yaml:2:3: nodes[0].name: Invalid value: \"A_b\": a lowercase"),
            (
                "nodes:\n- name: a\n  taints:\n  - {key: gpu, effect: NoSchedul}\n",
                "c.yaml:4:16: nodes[0].taints[0].effect: Unsupported value: \"NoSchedul\"",
            ),
            (
                "nodes:\n- name: a\n  labels: {a: \"b c\"}\n",
                "c.yaml:3:12: nodes[0].labels[a]: Invalid value: \"b c\"",
            ),
            ("nodes:\n- name: a\n  capacity: {cpu: much}\n", "c.yaml:3:14: nodes[0].capacity"),
            (
                "nodes:\n- name: a\n  capacity: {gpus: 2}\n",
                "c.yaml:3:14: nodes[0].capacity.gpus: unknown resource \"gpus\"; a node has cpu,",
            ),
            (
                "nodes:\n- name: node-3\n  hollow: true\n",
                "c.yaml:3:3: nodes[0].hollow: node-3 is one of the nodes of nodeCount",
            ),
            ("nodeCount: 2\nnodes:\n- {name: node-3, hollow: true}\n", ""),
            (
                "hollowNodeCount: 7\nnodes: [{name: hollow-00007, hollow: false}]\n",
                "c.yaml:2:30: nodes[0].hollow: hollow-00007 is one of the nodes of hollowNodeCount",
            ),
            (
                "nodes: [{name: a, zone: b, labels: {topology.kubernetes.io/zone: c}}]\n",
                "c.yaml:1:19: nodes[0].zone: the label topology.kubernetes.io/zone has another value",
            ),
            (
                "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n",
                "c.yaml:2:1: kind: a Node is not a configuration of Podium; apply objects with -f;",
            ),
            ("apiVersion: v1\n", "c.yaml:1:1: apiVersion: unknown field \"apiVersion\""),
            ("nodeCount: 1001\n", "c.yaml:1:1: nodeCount: must be at most 1000"),
        ] {
            let outcome = parse_config(text, "c.yaml", &ClusterConfig::default());
            let message = outcome.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(
                if expected.is_empty() { message.is_empty() } else { message.starts_with(expected) },
                "{text}{message}\nis not {expected}"
            );
        }
    }

    /// The example is valid, names every key, and the table has every timing with its default.
    #[test]
    fn the_documented_configuration_is_valid_and_complete_cli_2() {
        let page = include_str!("../../../docs/use/configuration.md");
        let example = page.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("```"));
        let (example, _) = example.expect("an example of the file");
        let parsed = parse_config(example, "configuration.md", &ClusterConfig::default());
        assert!(parsed.is_ok(), "{parsed:?}");
        let text = ConfigText::parse(example, "configuration.md").expect("YAML");
        let documented: Value = text.decode().expect("values").expect("a document");
        let defaults = serde_json::to_value(ConfigFile::default()).expect("JSON");
        for (key, default) in defaults.as_object().expect("an object") {
            let shown = documented.get(key).unwrap_or_else(|| panic!("{key} is not documented"));
            let parts = default.as_object().filter(|_| key != "timings").into_iter().flatten();
            let missing: Vec<_> =
                parts.map(|(part, _)| part).filter(|part| shown.get(part.as_str()).is_none()).collect();
            assert!(missing.is_empty(), "{key}: {missing:?} are not documented");
        }
        for (timing, default) in defaults["timings"].as_object().expect("an object") {
            let row =
                page.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{timing}`")));
            let cells: Vec<&str> =
                row.unwrap_or_else(|| panic!("{timing} is not documented")).split('|').collect();
            let place = cells[1].split(',').position(|name| name.trim() == format!("`{timing}`"));
            let shown = cells[2].split(',').nth(place.expect("the name")).expect("a default").trim();
            assert_eq!(shown.parse::<f64>().ok(), default.as_f64(), "{timing}");
        }
    }

    /// A file of an earlier version is read as before; a key is given in one spelling.
    #[test]
    fn the_keys_of_earlier_versions_are_still_read_cli_2() {
        let read = |text: &str| parse_config(text, "c.yaml", &ClusterConfig::default());
        let tables: [(&str, &[(&str, &str)]); 7] = [
            (
                "timings: {KEY: 7.5}",
                &[
                    ("nodeMonitorGrace", "nodeMonitorGracePeriod"),
                    ("nodeStartupGrace", "nodeStartupGracePeriod"),
                    ("nodeStatusReport", "nodeStatusReportFrequency"),
                    ("nodeLeaseRenew", "nodeLeaseRenewInterval"),
                    ("shutdownGraceLimit", "shutdownGracePeriod"),
                    ("staticPodCheck", "fileCheckFrequency"),
                    ("streamIdle", "streamingConnectionIdleTimeout"),
                    ("evictionCheck", "evictionMonitoringPeriod"),
                    ("metricsResolution", "metricResolution"),
                    ("defaultToleration", "defaultTolerationSeconds"),
                    ("schedulerBackOffInitial", "podInitialBackoff"),
                    ("schedulerBackOffMax", "podMaxBackoff"),
                    ("schedulerFlush", "podMaxInUnschedulablePodsDuration"),
                    ("eventTimeToLive", "eventTtl"),
                    ("watchHistory", "watchHistoryRetention"),
                    ("watchBookmark", "bookmarkInterval"),
                    ("httpHeader", "httpHeaderTimeout"),
                    ("httpIdle", "httpIdleTimeout"),
                    ("httpRequest", "httpRequestTimeout"),
                    ("forceDeleteGrace", "forceDeleteGracePeriod"),
                    ("selfCheck", "selfCheckInterval"),
                    ("nodeEvictionCheck", "nodeEvictionInterval"),
                    ("missingNodeQuarantine", "missingNodeQuarantineTime"),
                    ("podRelist", "probeRelistTolerance"),
                    ("unclaimedHost", "unclaimedHostTimeout"),
                ],
            ),
            (
                "hollow: {KEY: 7.5}",
                &[
                    ("runTime", "runDuration"),
                    ("initRunTime", "initRunDuration"),
                    ("jobRunTime", "jobRunDuration"),
                    ("stopTime", "stopDuration"),
                ],
            ),
            (
                "network: {KEY: 10.128.0.0/16}",
                &[("pods", "podSubnet"), ("services", "serviceSubnet"), ("nodes", "nodeSubnet")],
            ),
            (
                "network: {ipv6: {KEY: 'fd01::/48'}}",
                &[("pods", "podSubnet"), ("services", "serviceSubnet"), ("nodes", "nodeSubnet")],
            ),
            ("ingress: {KEY: 7}", &[("http", "httpPort"), ("https", "httpsPort")]),
            ("limits: {KEY: 7}", &[("requestsInFlight", "maxRequestsInFlight")]),
            ("KEY: true", &[("legacyVersions", "removedApiVersions")]),
        ];
        for (template, keys) in tables {
            for (old, new) in keys {
                let of = |key: &str| read(&template.replace("KEY", key)).expect("a valid file");
                assert_eq!(of(old), of(new), "{old}");
                assert_ne!(of(new), ConfigFile::default(), "{new}");
            }
        }
        let both = read("timings: {podRelist: 1, probeRelistTolerance: 1}\n");
        assert!(both.err().is_some_and(|error| error.to_string().contains("duplicate field")));
    }

    #[test]
    fn a_configuration_of_kube_scheduler_is_taken_as_it_is_sch_6() {
        let profiles = "profiles: [{schedulerName: mine}]\n";
        let read = |text: &str| parse_config(text, "c.yaml", &ClusterConfig::default());
        for head in [
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
            "kind: KubeSchedulerConfiguration\n",
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\n",
        ] {
            let plain = read(&format!("{head}{profiles}")).unwrap();
            let body = format!("{head}{profiles}").replace('\n', "\n  ");
            let nested = read(&format!("scheduler:\n  {}\n", body.trim_end())).unwrap();
            assert_eq!(plain, nested, "{head}");
            assert_eq!(plain.scheduler.unwrap()["profiles"][0]["schedulerName"], "mine");
        }
    }
}
