//! Rules of events: those that hold for all, and those of the new form, events.k8s.io.

use k8s_openapi::api::core::v1::Event;

use super::field::{FieldErrors, Path};
use super::names;

/// The most that an instance, an action or a reason may have; Kubernetes' limits of the new form.
const MAX_CHARACTERS: usize = 128;
/// The same of the message.
const MAX_NOTE: usize = 1024;

pub(super) fn event(errors: &mut FieldErrors, event: &Event) {
    let own = event.metadata.namespace.as_deref().unwrap_or_default();
    let about = event.involved_object.namespace.as_deref().unwrap_or_default();
    // Events about cluster-scoped objects live in `default`.
    let fits = if about.is_empty() { matches!(own, "" | "default" | "kube-system") } else { about == own };
    if !fits {
        errors.invalid(&Path::root("involvedObject.namespace"), about, "does not match event.namespace");
    }
}

/// What a new event must hold when it is written in the new form.
pub(super) fn new_event(errors: &mut FieldErrors, event: &Event) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    if event.event_time.is_none() {
        errors.required(&Path::root("eventTime"), "");
    } else {
        let controller = text(&event.reporting_component);
        let path = Path::root("reportingController");
        if controller.is_empty() {
            errors.required(&path, "");
        }
        errors.invalid_each(&path, &controller, names::qualified_name(&controller));
        for (field, value) in [
            ("reportingInstance", text(&event.reporting_instance)),
            ("action", text(&event.action)),
            ("reason", text(&event.reason)),
        ] {
            if value.is_empty() {
                errors.required(&Path::root(field), "");
            }
            if value.len() > MAX_CHARACTERS {
                let detail = format!("can have at most {MAX_CHARACTERS} characters");
                errors.invalid(&Path::root(field), "", detail);
            }
        }
        if text(&event.message).len() > MAX_NOTE {
            errors.invalid(&Path::root("message"), "", format!("can have at most {MAX_NOTE} characters"));
        }
    }
    let type_ = text(&event.type_);
    if !["Normal", "Warning"].contains(&type_.as_str()) {
        errors.invalid(&Path::root("type"), "", format!("has invalid value: {type_}"));
    }
    let source = event.source.as_ref();
    let named = source.is_some_and(|s| !text(&s.component).is_empty() || !text(&s.host).is_empty());
    for (field, given) in [
        ("firstTimestamp", event.first_timestamp.is_some()),
        ("lastTimestamp", event.last_timestamp.is_some()),
        ("count", event.count.unwrap_or(0) != 0),
        ("source", named),
    ] {
        if given {
            errors.invalid(&Path::root(field), "", "needs to be unset");
        }
    }
    if let Some(series) = &event.series {
        if series.count.unwrap_or(0) < 2 {
            let path = Path::root("series.count");
            errors.invalid(&path, &series.count.unwrap_or(0), "should be at least 2");
        }
        if series.last_observed_time.is_none() {
            errors.required(&Path::root("series.lastObservedTime"), "");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{join, validate_new_event};
    use crate::object::{Kind, Object};

    /// API-FOUND 24: an event without time and reporter was stored.
    #[test]
    fn a_new_event_in_the_new_form_says_when_who_and_what_api_11() {
        let told = |extra: Value| {
            let mut event = json!({"metadata": {"name": "e", "namespace": "default"}, "type": "Normal",
                "involvedObject": {"namespace": "default"}, "eventTime": "2026-11-21T00:00:00.000000Z", "reason": "R",
                "action": "A", "reportingComponent": "x.y/z", "reportingInstance": "i"});
            for (name, value) in extra.as_object().unwrap() {
                event[name] = value.clone();
            }
            join(&validate_new_event(&Object::from_value(Kind::Event, event).unwrap()))
        };
        let long = "x".repeat(129);
        for (extra, expected) in [
            (json!({}), "[]"),
            (json!({"eventTime": null}), "eventTime: Required value"),
            (
                json!({"reportingComponent": null, "reportingInstance": ""}),
                "[reportingController: Required value, reportingController: Invalid value: \"\": name part must be \
                 non-empty, reportingController: Invalid value: \"\": name part must consist of alphanumeric \
                 characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
                 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), \
                 reportingInstance: Required value]",
            ),
            (json!({"action": long}), "action: Invalid value: \"\": can have at most 128 characters"),
            (json!({"type": "Odd"}), "type: Invalid value: \"\": has invalid value: Odd"),
            (
                json!({"count": 1, "source": {"component": "c"}, "firstTimestamp": "2026-11-21T00:00:00Z"}),
                "[firstTimestamp: Invalid value: \"\": needs to be unset, count: Invalid value: \"\": needs to be \
                 unset, source: Invalid value: \"\": needs to be unset]",
            ),
            (
                json!({"series": {"count": 1}}),
                "[series.count: Invalid value: 1: should be at least 2, series.lastObservedTime: Required value]",
            ),
        ] {
            assert_eq!(told(extra.clone()), expected, "{extra}");
        }
    }
}
