//! `autoscaling/v1` HorizontalPodAutoscaler: it has a field for one percentage of cpu; everything else is in
//! annotations, in the form of the version's Go types.

use serde_json::{Map, Value, json};

use base::sort::CollectMap;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The field of the percentage in the spec.
const TARGET: &str = "targetCPUUtilizationPercentage";
const CURRENT: &str = "currentCPUUtilizationPercentage";
const CURRENT_REPLICAS: &str = "currentReplicas";

/// Converts v2 to v1.
pub(super) fn show(autoscaler: &mut Value) {
    let mut notes = Map::new();
    if let Some(Value::Object(spec)) = autoscaler.get_mut("spec") {
        let mut metrics = list(spec.remove("metrics"));
        if let Some(at) = metrics.iter().position(|metric| percentage(metric, "target").is_some()) {
            spec.insert(TARGET.into(), percentage(&metrics.remove(at), "target").into());
        }
        note_list(&mut notes, METRICS, &metrics, |metric| flat(metric, "target"));
        if let Some(behavior) = spec.remove("behavior") {
            notes.insert(BEHAVIOR.into(), capitalised(&behavior, true).to_string().into());
        }
    }
    if let Some(Value::Object(status)) = autoscaler.get_mut("status") {
        let metrics = list(status.remove("currentMetrics"));
        if let Some(percent) = metrics.iter().find_map(|metric| percentage(metric, "current")) {
            status.insert(CURRENT.into(), percent.into());
        }
        note_list(&mut notes, CURRENT_METRICS, &metrics, |metric| flat(metric, "current"));
        note_list(&mut notes, CONDITIONS, &list(status.remove("conditions")), Value::clone);
        // v2 omits the current replicas while they are zero; v1 always has the field.
        status.entry(CURRENT_REPLICAS).or_insert_with(|| json!(0));
    }
    if !notes.is_empty()
        && let Some(Value::Object(metadata)) = autoscaler.get_mut("metadata")
        && let Some(annotations) = metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
    {
        annotations.extend(notes);
    }
}

/// Converts v1 to v2.
pub(super) fn read(autoscaler: &mut Value) {
    let mut take = |name: &str| -> Option<Value> {
        let metadata = autoscaler.get_mut("metadata")?.as_object_mut()?;
        let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
        let text = annotations.remove(name)?;
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
        // An invalid annotation is ignored.
        base::json::from_str(text.as_str()?).ok()
    };
    let (metrics, behavior) = (take(METRICS), take(BEHAVIOR));
    let (current_metrics, conditions) = (take(CURRENT_METRICS), take(CONDITIONS));
    if let Some(Value::Object(spec)) = autoscaler.get_mut("spec") {
        let mut metrics: Vec<Value> = list(metrics).iter().map(|metric| deep(metric, "target")).collect();
        if let Some(percent) = spec.remove(TARGET).filter(|percent| !percent.is_null()) {
            let target = json!({"type": "Utilization", "averageUtilization": percent});
            metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
        }
        if !metrics.is_empty() {
            spec.insert("metrics".into(), metrics.into());
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".into(), capitalised(&behavior, false));
        }
    }
    if let Some(Value::Object(status)) = autoscaler.get_mut("status") {
        status.remove(CURRENT);
        if status.get(CURRENT_REPLICAS).is_some_and(|count| count == 0) {
            status.remove(CURRENT_REPLICAS);
        }
        let metrics: Vec<Value> =
            list(current_metrics).iter().map(|metric| deep(metric, "current")).collect();
        if !metrics.is_empty() {
            status.insert("currentMetrics".into(), metrics.into());
        }
        if let Some(conditions) = conditions {
            status.insert("conditions".into(), conditions);
        }
    }
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn note_list(notes: &mut Map<String, Value>, name: &str, items: &[Value], form: impl Fn(&Value) -> Value) {
    if !items.is_empty() {
        let items: Vec<Value> = items.iter().map(form).collect();
        notes.insert(name.into(), Value::Array(items).to_string().into());
    }
}

/// Returns the percentage if the metric is cpu.
fn percentage(metric: &Value, part: &str) -> Option<i64> {
    let resource = metric.get("resource")?;
    (resource.get("name")? == "cpu")
        .then(|| resource.pointer(&format!("/{part}/averageUtilization"))?.as_i64())?
}

/// Returns `averageValue` as `targetAverageValue`.
fn prefixed(part: &str, name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().fold(part.to_string(), |text, letter| format!("{text}{letter}")) + letters.as_str()
}

/// Returns the names of a source's values in v1, which has no prefix for the average of an Object source.
fn value_names(source: &str, part: &str) -> [(&'static str, String); 3] {
    let average = if source == "object" { "averageValue".into() } else { prefixed(part, "averageValue") };
    [
        ("value", prefixed(part, "value")),
        ("averageValue", average),
        ("averageUtilization", prefixed(part, "averageUtilization")),
    ]
}

const SOURCES: [&str; 5] = ["resource", "containerResource", "pods", "object", "external"];

/// Returns the name of a metric's selector in v1.
fn selector_name(source: &str) -> &'static str {
    if source == "external" { "metricSelector" } else { "selector" }
}

/// Converts a metric of v2 to v1, which has the values side by side.
pub(super) fn flat(metric: &Value, part: &str) -> Value {
    let mut flat = json!({"type": metric.get("type")});
    for source in SOURCES {
        let Some(from) = metric.get(source) else { continue };
        let mut to = Map::new();
        for name in ["name", "container"] {
            to.extend(from.get(name).map(|value| (name.to_string(), value.clone())));
        }
        to.extend(from.get("describedObject").map(|object| ("target".to_string(), object.clone())));
        to.extend(from.pointer("/metric/name").map(|name| ("metricName".to_string(), name.clone())));
        let selector = from.pointer("/metric/selector");
        to.extend(selector.map(|selector| (selector_name(source).to_string(), selector.clone())));
        for (deep, flat) in value_names(source, part) {
            to.extend(from.get(part).and_then(|values| values.get(deep)).map(|value| (flat, value.clone())));
        }
        flat[source] = to.into();
    }
    flat
}

/// Converts a metric of v1 to v2, which nests the values.
pub(super) fn deep(metric: &Value, part: &str) -> Value {
    let mut deep = json!({"type": metric.get("type")});
    for source in SOURCES {
        let Some(from) = metric.get(source) else { continue };
        let mut to = Map::new();
        for name in ["name", "container"] {
            to.extend(from.get(name).map(|value| (name.to_string(), value.clone())));
        }
        if let Some(name) = from.get("metricName") {
            let mut metric = json!({"name": name});
            if let Some(selector) = from.get(selector_name(source)) {
                metric["selector"] = selector.clone();
            }
            to.insert("metric".into(), metric);
        }
        to.extend(from.get("target").map(|object| ("describedObject".to_string(), object.clone())));
        let mut values = Map::new();
        for (deep, flat) in value_names(source, part) {
            values.extend(from.get(&flat).map(|value| (deep.to_string(), value.clone())));
        }
        if part == "target" {
            let type_ = if values.contains_key("averageUtilization") {
                "Utilization"
            } else if values.contains_key("averageValue") {
                "AverageValue"
            } else {
                "Value"
            };
            values.insert("type".into(), type_.into());
        }
        to.insert(part.into(), values.into());
        deep[source] = to.into();
    }
    deep
}

/// Converts the case of field names' first letters: the Go types behind this annotation have no JSON tags.
fn capitalised(value: &Value, capital: bool) -> Value {
    let rename = |name: &str| {
        let mut letters = name.chars();
        let first =
            letters.next().map(|c| if capital { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() });
        first.into_iter().collect::<String>() + letters.as_str()
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (rename(name), capitalised(value, capital)));
            Value::Object(fields.collect_map())
        }
        Value::Array(items) => items.iter().map(|item| capitalised(item, capital)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2() -> Value {
        let metric = |name: &str| json!({"name": name, "selector": {"matchLabels": {"verb": "GET"}}});
        json!({"metadata": {"name": "web", "annotations": {"a": "b"}},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 5,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                        "target": {"type": "Utilization", "averageUtilization": 60}}},
                    {"type": "Pods", "pods": {"metric": metric("p"), "target": {"type": "AverageValue", "averageValue": "1k"}}},
                    {"type": "Object", "object": {"metric": metric("o"), "describedObject": {"kind": "Ingress", "name": "i"},
                        "target": {"type": "Value", "value": "10k"}}},
                    {"type": "External", "external": {"metric": metric("e"), "target": {"type": "AverageValue", "averageValue": "30"}}},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
                "behavior": {"scaleDown": {"selectPolicy": "Min",
                    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}}},
            "status": {"currentReplicas": 1, "desiredReplicas": 2,
                "conditions": [{"type": "AbleToScale", "status": "True"}],
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "current": {"averageUtilization": 10, "averageValue": "20m"}}}]}})
    }

    #[test]
    fn v1_always_tells_how_many_there_are_api_7() {
        let new = json!({"metadata": {"name": "web"}, "spec": {"maxReplicas": 5}, "status": {"desiredReplicas": 0}});
        let mut autoscaler = new.clone();
        show(&mut autoscaler);
        assert_eq!(autoscaler["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
        read(&mut autoscaler);
        assert_eq!(autoscaler, new);
    }

    #[test]
    fn v1_keeps_in_annotations_what_it_has_no_fields_for_api_7() {
        let mut autoscaler = v2();
        show(&mut autoscaler);
        let spec = &autoscaler["spec"];
        assert_eq!((&spec["targetCPUUtilizationPercentage"], &spec["metrics"]), (&json!(50), &Value::Null));
        assert_eq!(
            autoscaler["status"],
            json!({"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 10})
        );
        let annotations = &autoscaler["metadata"]["annotations"];
        let note = |name: &str| {
            serde_json::from_str::<Value>(annotations[name].as_str().expect("a note")).expect("JSON")
        };
        assert_eq!(
            note(METRICS)[1],
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                "targetAverageUtilization": 60}})
        );
        let get = json!({"matchLabels": {"verb": "GET"}});
        assert_eq!(
            note(METRICS)[3]["object"],
            json!({"metricName": "o", "target": {"kind": "Ingress", "name": "i"}, "selector": get, "targetValue": "10k"})
        );
        assert_eq!(note(METRICS)[4]["external"]["metricSelector"], get);
        assert_eq!(note(BEHAVIOR)["ScaleDown"]["Policies"][0]["PeriodSeconds"], 60);
        assert_eq!(note(CURRENT_METRICS)[0]["resource"]["currentAverageValue"], "20m");
        read(&mut autoscaler);
        assert_eq!(autoscaler, v2());
    }

    #[test]
    fn an_autoscaler_written_in_v1_has_one_metric_api_7() {
        let mut autoscaler = json!({"metadata": {"name": "web", "annotations": {METRICS: "nonsense"}},
            "spec": {"maxReplicas": 5, "targetCPUUtilizationPercentage": 50}});
        read(&mut autoscaler);
        assert_eq!(
            autoscaler,
            json!({"metadata": {"name": "web"}, "spec": {"maxReplicas": 5, "metrics": [{"type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}})
        );
    }
}
