//! Events in the form of the core group. Events that are written as events.k8s.io have additional rules.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use serde_json::{Value, json};

use super::columns::Column;
use super::resource::{Resource, SelectableField, selectable, text};
use apimachinery::validate::{FieldErrors, Path, names};
use object::time::{UNKNOWN, human_age};

/// The maximum number of characters of a reporting instance, an action or a reason in the new form (events.k8s.io), as
/// in Kubernetes.
const MAX_CHARACTERS: usize = 128;

/// The maximum number of characters of a message in the new form.
const MAX_NOTE: usize = 1024;

impl Resource for Event {
    const ALLOWS_CREATE_ON_UPDATE: bool = true;
    // Events are excluded from quotas, since controllers create them and they expire on their own.
    const COUNTED: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text("Last Seen", "Time when this event was last observed.", |event, now| {
            age(last_seen(event), now)
        }),
        Column::text(
            "Type",
            "Type of this event (Normal, Warning), new types could be added in the future.",
            |event, _| json!(event.type_.as_deref().unwrap_or_default()),
        ),
        Column::text(
            "Reason",
            "The reason for the transition into the object's current status.",
            |event, _| json!(event.reason.as_deref().unwrap_or_default()),
        ),
        Column::text("Object", "The object that this event is about.", |event, _| {
            json!(target(&event.involved_object))
        }),
        Column::wide("Subobject", "The part of the object that this event is about.", |event, _| {
            json!(event.involved_object.field_path.as_deref().unwrap_or_default())
        }),
        Column::wide("Source", "The component reporting this event.", |event, _| json!(source(event))),
        Column::text(
            "Message",
            "A human-readable description of the status of this operation.",
            |event, _| json!(event.message.as_deref().unwrap_or_default().trim()),
        ),
        Column::wide("First Seen", "The time at which the event was first recorded.", |event, now| {
            age(first_seen(event), now)
        }),
        Column::<Self>::number("Count", "The number of times this event has occurred.", |event, _| {
            let count = event.series.as_ref().map_or(event.count, |series| series.count);
            json!(count.filter(|n| *n != 0).unwrap_or(1))
        })
        .only_wide(),
        Column::name().only_wide(),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] = &[
        selectable("involvedObject.kind", |e| text(e.involved_object.kind.as_ref())),
        selectable("involvedObject.namespace", |e| text(e.involved_object.namespace.as_ref())),
        selectable("involvedObject.name", |e| text(e.involved_object.name.as_ref())),
        selectable("involvedObject.uid", |e| text(e.involved_object.uid.as_ref())),
        selectable("involvedObject.apiVersion", |e| text(e.involved_object.api_version.as_ref())),
        selectable("involvedObject.resourceVersion", |e| text(e.involved_object.resource_version.as_ref())),
        selectable("involvedObject.fieldPath", |e| text(e.involved_object.field_path.as_ref())),
        selectable("reason", |e| text(e.reason.as_ref())),
        selectable("reportingComponent", |e| text(e.reporting_component.as_ref())),
        // Events in the new form have only a reporting controller.
        selectable("source", |e| {
            let source = e.source.as_ref().and_then(|s| s.component.as_ref());
            text(source.filter(|s| !s.is_empty()).or(e.reporting_component.as_ref()))
        }),
        selectable("type", |e| text(e.type_.as_ref())),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        let own = self.metadata.namespace.as_deref().unwrap_or_default();
        let about = self.involved_object.namespace.as_deref().unwrap_or_default();
        // Events about cluster-scoped objects live in `default`.
        let fits =
            if about.is_empty() { matches!(own, "" | "default" | "kube-system") } else { about == own };
        if !fits {
            errors.invalid(&Path::root("involvedObject.namespace"), about, "does not match event.namespace");
        }
    }
}

/// Validates a new event that is written in the new form.
pub(crate) fn new_event(errors: &mut FieldErrors, event: &Event) {
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

fn first_seen(event: &Event) -> Option<Timestamp> {
    event.first_timestamp.as_ref().map(|t| t.0).or(event.event_time.as_ref().map(|t| t.0))
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    let of_series = event.series.as_ref().and_then(|s| s.last_observed_time.as_ref()).map(|t| t.0);
    of_series.or(event.last_timestamp.as_ref().map(|t| t.0)).or_else(|| first_seen(event))
}

fn age(then: Option<Timestamp>, now: Timestamp) -> Value {
    json!(then.map_or_else(|| UNKNOWN.into(), |then| human_age(then, now)))
}

/// Returns `pod/web-1`.
fn target(involved: &ObjectReference) -> String {
    let kind = involved.kind.as_deref().unwrap_or_default().to_lowercase();
    match involved.name.as_deref() {
        Some(name) if !name.is_empty() => format!("{kind}/{name}"),
        _ => kind,
    }
}

fn source(event: &Event) -> String {
    let source = event.source.as_ref();
    let named = |text: Option<&String>| text.filter(|t| !t.is_empty()).cloned();
    let component = named(source.and_then(|s| s.component.as_ref()));
    let (component, host) = match component {
        Some(component) => (component, named(source.and_then(|s| s.host.as_ref()))),
        None => {
            (event.reporting_component.clone().unwrap_or_default(), named(event.reporting_instance.as_ref()))
        }
    };
    match host {
        Some(host) => format!("{component}, {host}"),
        None => component,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::new_event_errors;
    use apimachinery::validate::join;
    use object::{Kind, Object};

    /// A bug stored events without a time and a reporter.
    #[test]
    fn a_new_event_in_the_new_form_says_when_who_and_what_api_11() {
        let errors = |extra: Value| {
            let mut event = json!({"metadata": {"name": "e", "namespace": "default"}, "type": "Normal",
                "involvedObject": {"namespace": "default"}, "eventTime": "2026-11-21T00:00:00.000000Z", "reason": "R",
                "action": "A", "reportingComponent": "x.y/z", "reportingInstance": "i"});
            for (name, value) in extra.as_object().unwrap() {
                event[name] = value.clone();
            }
            join(&new_event_errors(&Object::from_value(Kind::Event, event).unwrap()))
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
            assert_eq!(errors(extra.clone()), expected, "{extra}");
        }
    }
}
