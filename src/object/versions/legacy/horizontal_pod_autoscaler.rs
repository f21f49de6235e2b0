//! Autoscalers of `autoscaling/v2beta1`: the values of a metric lie beside its name, as in the annotations of
//! `autoscaling/v1`.

use serde_json::Value;

use crate::versions::autoscaling::{deep, flat};

pub(super) fn read(autoscaler: &mut Value) {
    each_metric(autoscaler, deep);
}

pub(super) fn show(autoscaler: &mut Value) {
    each_metric(autoscaler, flat);
}

fn each_metric(autoscaler: &mut Value, form: fn(&Value, &str) -> Value) {
    for (path, part) in [("/spec/metrics", "target"), ("/status/currentMetrics", "current")] {
        let metrics = autoscaler.pointer_mut(path).and_then(Value::as_array_mut);
        for metric in metrics.into_iter().flatten().filter(|metric| metric.is_object()) {
            *metric = form(metric, part);
        }
    }
}
