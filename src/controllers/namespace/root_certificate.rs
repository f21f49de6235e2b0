//! The ConfigMap `kube-root-ca.crt` of every namespace: what pods trust the API by (SA-1); and in kube-system the one
//! by which servers that extend the API know the CA of its clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::service_account::ignore_races;
use crate::context::{Context, Settings};
use api::{Api, Change};
use object::Key;
use object::owner::is_terminating;
use reconcile::{Cache, ReconcileError, Reconciler};

const NAME: &str = "kube-root-ca.crt";
/// Where extending servers look for the CA of client certificates; they do not start without it.
const EXTENSION_NAME: &str = "extension-apiserver-authentication";
const EXTENSION_NAMESPACE: &str = "kube-system";
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
     internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
     clusters.",
);

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let controller = Publisher {
        api: context.api.clone(),
        namespaces: context.caches.of(),
        settings: context.settings.clone(),
    };
    context
        .controller(controller, context.queue())
        .for_::<Namespace>()
        .watches::<ConfigMap, _>(|_, change| map_changed(change))
        .run(&context.tasks);
}

struct Publisher {
    api: Api,
    namespaces: Cache<Namespace>,
    settings: Arc<Settings>,
}

impl Reconciler for Publisher {
    type Key = Key;

    fn name(&self) -> &'static str {
        "root-ca-certificate-publisher-controller"
    }

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(()) };
        if is_terminating(&namespace.metadata) {
            return Ok(());
        }
        let certificate = &self.settings.root_certificate;
        self.publish(Key::new(key.name.as_str(), NAME), ("ca.crt", certificate), Some(DESCRIPTION))?;
        if key.name == EXTENSION_NAMESPACE {
            let place = Key::new(EXTENSION_NAMESPACE, EXTENSION_NAME);
            self.publish(place, ("client-ca-file", certificate), None)?;
        }
        Ok(())
    }
}

impl Publisher {
    /// The map holds this entry, whatever others made of it.
    fn publish(
        &self,
        key: Key,
        (entry, text): (&str, &str),
        annotation: Option<(&str, &str)>,
    ) -> Result<(), ReconcileError> {
        let data = BTreeMap::from([(entry.to_string(), text.to_string())]);
        let modified = self.api.modify::<ConfigMap>(&key, |map| {
            map.data = Some(data.clone());
            Ok(())
        });
        match modified {
            Err(error) if error.is_not_found() => {
                let map = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(key.name),
                        namespace: Some(key.namespace),
                        annotations: annotation
                            .map(|(name, text)| BTreeMap::from([(name.to_string(), text.to_string())])),
                        ..ObjectMeta::default()
                    },
                    data: Some(data),
                    ..ConfigMap::default()
                };
                ignore_races(self.api.create_as(map).map(drop))
            }
            other => Ok(other.map(drop)?),
        }
    }
}

/// What others change or delete is put right.
fn map_changed(change: &Change) -> Option<Key> {
    let is_ours = [NAME, EXTENSION_NAME].contains(&change.object.name());
    is_ours.then(|| Key::new("", change.object.namespace()))
}
