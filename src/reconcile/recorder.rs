//! Events: the components' reports to users, deduplicated with a count ([`super::correlator`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;

use super::correlator::{CorrelateResult, Correlator, EventType, InvolvedObject, NewEvent};
use api::{Api, ApiError};
use base::quote::printable;
use object::{Key, Object};

/// Records events in the name of one component. Never fails: an event that cannot be stored is logged.
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
}

struct Inner {
    api: Api,
    component: String,
    host: Option<String>,
    /// Knows the recorded events; its lock serializes the decisions about new ones.
    correlator: Mutex<Correlator>,
    /// Makes names unique within one instant.
    sequence: AtomicU64,
}

/// Shortens a message to Kubernetes' limit of 1 KiB. Messages contain text from other sources, so control characters
/// that could drive a terminal are escaped (SEC-3).
fn shortened(message: &str) -> String {
    let mut message = printable(message).into_owned();
    let end = message.floor_char_boundary(1024);
    message.truncate(end);
    message
}

/// Returns a reference to an object, as events carry it.
pub fn reference_to(object: &Object) -> ObjectReference {
    let info = object.kind().info();
    let meta = object.meta();
    ObjectReference {
        api_version: Some(info.api_version()),
        kind: Some(info.name.into()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

impl Recorder {
    /// Creates a recorder for a component such as `deployment-controller`.
    pub fn new(api: &Api, component: &str) -> Self {
        Self::on_host(api, component, None)
    }

    /// Creates a recorder for a component of one node, such as the kubelet.
    pub fn on_host(api: &Api, component: &str, host: Option<&str>) -> Self {
        let inner = Inner {
            api: api.clone(),
            component: component.into(),
            host: host.map(Into::into),
            correlator: Mutex::new(Correlator::new(host.is_some())),
            sequence: AtomicU64::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Records an event of type Normal about an object.
    pub fn normal(&self, about: &Object, reason: &str, message: impl Into<String>) {
        self.record(reference_to(about), EventType::Normal, reason, message.into());
    }

    /// Records an event of type Warning about an object.
    pub fn warning(&self, about: &Object, reason: &str, message: impl Into<String>) {
        self.record(reference_to(about), EventType::Warning, reason, message.into());
    }

    /// Records an event about a part of an object: the reference's `fieldPath` names a container.
    #[expect(clippy::needless_pass_by_value, reason = "most callers have made the text for this")]
    pub fn record(&self, about: ObjectReference, type_: EventType, reason: &str, message: String) {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let event_of = NewEvent {
            about: InvolvedObject {
                kind: text(&about.kind),
                namespace: text(&about.namespace),
                name: text(&about.name),
                uid: text(&about.uid),
            },
            field_path: about.field_path.clone(),
            type_,
            reason: reason.into(),
            message: shortened(&message),
        };
        let now = self.inner.api.clock().monotonic();
        let Some(mut admitted) = self.inner.correlator.lock().admit(&event_of, now) else { return };
        admitted.message = shortened(&admitted.message);
        let again = admitted.recorded.as_ref().map(|key| self.increment_count(key, &admitted.message));
        let outcome = match again {
            Some(Ok(())) => Ok(()),
            // The earlier Event object has expired: create another.
            Some(Err(error)) if !error.is_not_found() => Err(error),
            _ => self.create(about, type_, reason, admitted),
        };
        // In a terminating namespace nothing can be created.
        if let Err(error) = outcome
            && !matches!(error, ApiError::Forbidden { .. } | ApiError::NotFound { .. })
        {
            tracing::warn!(component = self.inner.component, reason, "cannot store an event: {error}");
        }
    }

    fn increment_count(&self, key: &Key, message: &str) -> Result<(), ApiError> {
        let now = self.inner.api.clock().time();
        self.inner
            .api
            .modify::<Event>(key, |event| {
                event.count = Some(event.count.unwrap_or(1).saturating_add(1));
                event.message = Some(message.to_string());
                event.last_timestamp = Some(now.clone());
                Ok(())
            })
            .map(drop)
    }

    fn create(
        &self,
        about: ObjectReference,
        type_: EventType,
        reason: &str,
        admitted: CorrelateResult,
    ) -> Result<(), ApiError> {
        let inner = &self.inner;
        let now = inner.api.clock().now();
        let time = inner.api.clock().time();
        let namespace = about.namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| "default".into());
        let event = Event {
            metadata: ObjectMeta { namespace: Some(namespace), ..ObjectMeta::default() },
            involved_object: about,
            reason: Some(reason.into()),
            message: Some(admitted.message),
            type_: Some(type_.text().into()),
            count: Some(1),
            first_timestamp: Some(time.clone()),
            last_timestamp: Some(time),
            source: Some(EventSource { component: Some(inner.component.clone()), host: inner.host.clone() }),
            reporting_component: Some(inner.component.clone()),
            // Kubernetes always writes it.
            reporting_instance: Some(inner.host.clone().unwrap_or_default()),
            ..Event::default()
        };
        let stored = loop {
            let sequence = inner.sequence.fetch_add(1, Ordering::Relaxed);
            // The time makes the name unique across restarts, the counter within one instant. Another component may
            // record an event about the same object in the same instant; then the next number is tried.
            let stamp = now.as_nanosecond().wrapping_add(i128::from(sequence));
            let mut event = event.clone();
            let about = event.involved_object.name.clone().unwrap_or_default();
            event.metadata.name = Some(format!("{about}.{stamp:x}"));
            match inner.api.create_as(event) {
                Err(error) if error.is_already_exists() => {}
                outcome => break outcome?,
            }
        };
        inner.correlator.lock().recorded_as(admitted.same, stored.key());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_api::{api, create_config_map};
    use object::Kind;

    #[tokio::test(start_paused = true)]
    async fn a_repeated_event_is_counted_and_a_different_one_is_recorded_api_11() {
        let api = api();
        let about = create_config_map(&api, "map");
        let recorder = Recorder::new(&api, "kubelet");
        for message in ["slow", "slow", "slower"] {
            recorder.warning(about.object(), "Unhealthy", message);
        }
        let mut recorded: Vec<_> = api
            .list_as::<Event>(Some("n"))
            .iter()
            .map(|e| (e.message.clone().unwrap(), e.count.unwrap(), e.type_.clone().unwrap()))
            .collect();
        recorded.sort();
        assert_eq!(recorded, [("slow".into(), 2, "Warning".into()), ("slower".into(), 1, "Warning".into())]);
        assert_eq!(api.count(Kind::Event), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn two_components_tell_of_one_object_at_one_instant_api_11() {
        let api = api();
        let about = create_config_map(&api, "map");
        for component in ["one", "another", "a third"] {
            Recorder::new(&api, component).normal(about.object(), "Tested", component);
        }
        let events = api.list_as::<Event>(Some("n"));
        assert_eq!(events.len(), 3);
        assert!(events.iter().all(|e| e.reporting_instance.as_deref() == Some("")), "{events:?}");
    }
}
