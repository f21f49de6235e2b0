//! PodTopologyLabels: gives pods the zone and region of their node as labels, for the downward API.

use k8s_openapi::api::core::v1::{Binding, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{POD_TOPOLOGY_LABELS, Request, is_enabled};
use crate::{Api, ApiError};
use object::well_known::label::{REGION, ZONE};
use object::{Key, Kind, Object};

/// Labels a new pod that names its node.
#[expect(clippy::unnecessary_wraps, reason = "the shape of every admission plugin")]
pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    if let Some(pod) = object.get_mut::<Pod>()
        && let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref())
    {
        add_labels(request.api, node, &mut pod.metadata);
    }
    Ok(())
}

impl Api {
    /// Labels a Binding, if the plugin is enabled. The pod gets the Binding's labels.
    pub(crate) fn label_binding(&self, binding: &mut Binding) {
        if let Some(node) = &binding.target.name
            && is_enabled(self, POD_TOPOLOGY_LABELS)
        {
            add_labels(self, node, &mut binding.metadata);
        }
    }
}

/// Adds the labels of a node that its pods get. As in Kubernetes, they replace the object's own.
fn add_labels(api: &Api, node: &str, metadata: &mut ObjectMeta) {
    let Ok(node) = api.get(Kind::Node, &Key::new("", node)) else { return };
    for key in [ZONE, REGION] {
        if let Some(value) = node.meta().labels.as_ref().and_then(|labels| labels.get(key)) {
            metadata.labels.get_or_insert_default().insert(key.into(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use super::*;
    use crate::ApiConfig;
    use crate::test_api::{api_with, without_admission};

    fn labels_of(pod: &Pod) -> Value {
        json!(pod.metadata.labels.clone().unwrap_or_default())
    }

    fn create_pod(api: &Api, name: &str, node: Option<&str>) -> Value {
        let pod = json!({"metadata": {"name": name, "namespace": "n", "labels": {ZONE: "own"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "busybox"}]}});
        labels_of(&api.create_as::<Pod>(serde_json::from_value(pod).unwrap()).unwrap())
    }

    fn cluster(config: ApiConfig) -> Api {
        let api = api_with(config, &["n"]);
        let labels = BTreeMap::from([(ZONE, "a"), (REGION, "b"), ("other", "c")]);
        let node = json!({"metadata": {"name": "node-1", "labels": labels}});
        api.create_as::<Node>(serde_json::from_value(node).unwrap()).unwrap();
        api
    }

    #[test]
    fn a_bound_pod_gets_the_zone_and_region_of_its_node_api_9() {
        let api = cluster(ApiConfig::default());
        assert_eq!(create_pod(&api, "p", None), json!({ZONE: "own"}));
        let bound = api.bind(&Key::new("n", "p"), "", "node-1").unwrap();
        assert_eq!(labels_of(&bound), json!({ZONE: "a", REGION: "b"}));
        create_pod(&api, "q", None);
        let bound = api.bind(&Key::new("n", "q"), "", "unknown").unwrap();
        assert_eq!(labels_of(&bound), json!({ZONE: "own"}));
    }

    #[test]
    fn a_new_pod_of_a_node_gets_its_labels_api_9() {
        let api = cluster(ApiConfig::default());
        assert_eq!(create_pod(&api, "p", Some("node-1")), json!({ZONE: "a", REGION: "b"}));
    }

    #[test]
    fn a_disabled_plugin_adds_no_labels_api_9() {
        let api = cluster(without_admission(&[POD_TOPOLOGY_LABELS]));
        create_pod(&api, "p", None);
        let bound = api.bind(&Key::new("n", "p"), "", "node-1").unwrap();
        assert_eq!(labels_of(&bound), json!({ZONE: "own"}));
    }
}
