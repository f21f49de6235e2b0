//! The cluster roles of controllers; each is bound to the service account of its name in `kube-system`.

use super::Rule::{Named, On};
use super::{CORE, EVENTS, Entry, READ, REVIEWS_ACCESS, entry};

const PODS_OF_OWNERS: super::Rule = On("list watch patch create delete", CORE, "pods");

pub(super) const ROLES: &[Entry] = &[
    entry(
        "system:controller:attachdetach-controller",
        &[
            On("list watch", CORE, "persistentvolumes persistentvolumeclaims"),
            On(READ, CORE, "nodes"),
            On("patch update", CORE, "nodes/status"),
            On("list watch", CORE, "pods"),
            EVENTS,
            On("get create delete list watch", "storage.k8s.io", "volumeattachments"),
            On(READ, "storage.k8s.io", "csidrivers"),
            On(READ, "storage.k8s.io", "csinodes"),
        ],
    ),
    entry(
        "system:controller:clusterrole-aggregation-controller",
        &[On("escalate get list watch update patch", "rbac.authorization.k8s.io", "clusterroles")],
    ),
    entry(
        "system:controller:cronjob-controller",
        &[
            On("get list watch update", "batch", "cronjobs"),
            On("get list watch create update delete patch", "batch", "jobs"),
            On("update", "batch", "cronjobs/status"),
            On("update", "batch", "cronjobs/finalizers"),
            On("list watch delete", CORE, "pods"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:daemon-set-controller",
        &[
            On(READ, "extensions apps", "daemonsets"),
            On("update", "extensions apps", "daemonsets/status"),
            On("update", "extensions apps", "daemonsets/finalizers"),
            On("list watch", CORE, "nodes"),
            On("list watch create delete patch", CORE, "pods"),
            On("create", CORE, "pods/binding"),
            On("get list watch create delete update patch", "apps", "controllerrevisions"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:deployment-controller",
        &[
            On("get list watch update", "extensions apps", "deployments"),
            On("update", "extensions apps", "deployments/status"),
            On("update", "extensions apps", "deployments/finalizers"),
            On("get list watch create update patch delete", "apps extensions", "replicasets"),
            On("get list watch update", CORE, "pods"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:device-taint-eviction-controller",
        &[
            On("get list watch delete", CORE, "pods"),
            On("update patch", CORE, "pods/status"),
            On(READ, "resource.k8s.io", "resourceclaims"),
            On(READ, "resource.k8s.io", "resourceslices"),
            On(READ, "resource.k8s.io", "deviceclasses"),
            On(READ, "resource.k8s.io", "devicetaintrules"),
            On("update patch", "resource.k8s.io", "devicetaintrules/status"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:disruption-controller",
        &[
            On(READ, "extensions apps", "deployments"),
            On(READ, "apps extensions", "replicasets"),
            On(READ, CORE, "replicationcontrollers"),
            On(READ, "policy", "poddisruptionbudgets"),
            On(READ, "apps", "statefulsets"),
            On("update", "policy", "poddisruptionbudgets/status"),
            On("patch update", CORE, "pods/status"),
            On("get", "*", "*/scale"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:endpoint-controller",
        &[
            On(READ, CORE, "services pods"),
            On("get list watch create update delete", CORE, "endpoints"),
            On("create", CORE, "endpoints/restricted"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:endpointslice-controller",
        &[
            On(READ, CORE, "services pods nodes"),
            On("update", CORE, "services/finalizers"),
            On("get list watch create update delete", "discovery.k8s.io", "endpointslices"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:endpointslicemirroring-controller",
        &[
            On(READ, CORE, "services endpoints"),
            On("update", CORE, "services/finalizers"),
            On("update", CORE, "endpoints/finalizers"),
            On("get list watch create update delete", "discovery.k8s.io", "endpointslices"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:expand-controller",
        &[
            On("get list watch update patch", CORE, "persistentvolumes"),
            On("update patch", CORE, "persistentvolumeclaims/status"),
            On(READ, CORE, "persistentvolumeclaims"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:ephemeral-volume-controller",
        &[
            On(READ, CORE, "pods"),
            On("update", CORE, "pods/finalizers"),
            On("get list watch create", CORE, "persistentvolumeclaims"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:resource-claim-controller",
        &[
            On(READ, CORE, "pods"),
            On("update", CORE, "pods/finalizers"),
            On("get list watch create delete", "resource.k8s.io", "resourceclaims"),
            On("update patch", "resource.k8s.io", "resourceclaims resourceclaims/status"),
            On("update patch", CORE, "pods/status"),
            EVENTS,
            On("update patch", "resource.k8s.io", "resourceclaims/binding"),
        ],
    ),
    entry(
        "system:controller:generic-garbage-collector",
        &[On("get list watch patch update delete", "*", "*"), EVENTS],
    ),
    entry(
        "system:controller:horizontal-pod-autoscaler",
        &[
            On(READ, "autoscaling", "horizontalpodautoscalers"),
            On("update", "autoscaling", "horizontalpodautoscalers/status"),
            On("get update", "*", "*/scale"),
            On("list watch", CORE, "pods"),
            On("list watch", "metrics.k8s.io", "pods"),
            On(READ, "custom.metrics.k8s.io", "*"),
            On(READ, "external.metrics.k8s.io", "*"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:job-controller",
        &[
            On("get list watch update patch", "batch", "jobs"),
            On("update", "batch", "jobs/status"),
            On("update", "batch", "jobs/finalizers"),
            PODS_OF_OWNERS,
            EVENTS,
        ],
    ),
    entry(
        "system:controller:namespace-controller",
        &[
            On("get list watch delete", CORE, "namespaces"),
            On("update", CORE, "namespaces/finalize namespaces/status"),
            On("get list watch delete deletecollection", "*", "*"),
        ],
    ),
    entry(
        "system:controller:node-controller",
        &[
            On("get list watch update delete patch", CORE, "nodes"),
            On("patch update", CORE, "nodes/status"),
            On("patch update", CORE, "pods/status"),
            On("list watch get delete", CORE, "pods"),
            On(READ, "coordination.k8s.io", "leases"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:persistent-volume-binder",
        &[
            On("get list watch update create delete", CORE, "persistentvolumes"),
            On("update", CORE, "persistentvolumes/status"),
            On("get list watch update", CORE, "persistentvolumeclaims"),
            On("update", CORE, "persistentvolumeclaims/status"),
            On("list watch get create delete", CORE, "pods"),
            On(READ, "storage.k8s.io", "storageclasses"),
            On("list watch", CORE, "nodes"),
            On("watch", CORE, "events"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:pod-garbage-collector",
        &[On("list watch delete", CORE, "pods"), On(READ, CORE, "nodes"), On("patch", CORE, "pods/status")],
    ),
    entry(
        "system:controller:replicaset-controller",
        &[
            On("get list watch update", "apps extensions", "replicasets"),
            On("update", "apps extensions", "replicasets/status"),
            On("update", "apps extensions", "replicasets/finalizers"),
            PODS_OF_OWNERS,
            EVENTS,
        ],
    ),
    entry(
        "system:controller:replication-controller",
        &[
            On("get list watch update", CORE, "replicationcontrollers"),
            On("update", CORE, "replicationcontrollers/status"),
            On("update", CORE, "replicationcontrollers/finalizers"),
            PODS_OF_OWNERS,
            EVENTS,
        ],
    ),
    entry(
        "system:controller:resourcequota-controller",
        &[On("list watch", "*", "*"), On("update", CORE, "resourcequotas/status"), EVENTS],
    ),
    entry(
        "system:controller:route-controller",
        &[On("list watch", CORE, "nodes"), On("patch", CORE, "nodes/status"), EVENTS],
    ),
    entry("system:controller:service-account-controller", &[On("create", CORE, "serviceaccounts"), EVENTS]),
    entry(
        "system:controller:service-controller",
        &[
            On(READ, CORE, "services"),
            On("patch update", CORE, "services/status"),
            On("list watch", CORE, "nodes"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:service-cidrs-controller",
        &[
            On("get list watch patch update", "networking.k8s.io", "servicecidrs"),
            On("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
            On("patch update", "networking.k8s.io", "servicecidrs/status"),
            On(READ, "networking.k8s.io", "ipaddresses"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:statefulset-controller",
        &[
            On("list watch", CORE, "pods"),
            On(READ, "apps", "statefulsets"),
            On("update", "apps", "statefulsets/status"),
            On("update", "apps", "statefulsets/finalizers"),
            On("get create delete update patch", CORE, "pods"),
            On("get create delete update patch list watch", "apps", "controllerrevisions"),
            On("get list watch create", CORE, "persistentvolumeclaims"),
            EVENTS,
            On("update delete", CORE, "persistentvolumeclaims"),
            On("update", CORE, "pods/finalizers"),
        ],
    ),
    entry("system:controller:ttl-controller", &[On("update patch list watch", CORE, "nodes"), EVENTS]),
    entry(
        "system:controller:certificate-controller",
        &[
            On("get list watch delete", "certificates.k8s.io", "certificatesigningrequests"),
            On(
                "update",
                "certificates.k8s.io",
                "certificatesigningrequests/status certificatesigningrequests/approval",
            ),
            Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
            Named(
                "sign",
                "certificates.k8s.io",
                "signers",
                "kubernetes.io/legacy-unknown kubernetes.io/kube-apiserver-client \
                 kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving",
            ),
            REVIEWS_ACCESS,
            EVENTS,
        ],
    ),
    entry(
        "system:controller:pvc-protection-controller",
        &[
            On("get list watch update", CORE, "persistentvolumeclaims"),
            On("update", CORE, "persistentvolumeclaims/status"),
            On("list watch get", CORE, "pods"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:pv-protection-controller",
        &[On("get list watch update", CORE, "persistentvolumes"), EVENTS],
    ),
    entry(
        "system:controller:ttl-after-finished-controller",
        &[On("get list watch delete", "batch", "jobs"), EVENTS],
    ),
    entry("system:controller:root-ca-cert-publisher", &[On("create update", CORE, "configmaps"), EVENTS]),
    entry(
        "system:controller:validatingadmissionpolicy-status-controller",
        &[
            On(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
            On("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:legacy-service-account-token-cleaner",
        &[
            Named("get", CORE, "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
            On("patch delete", CORE, "secrets"),
        ],
    ),
    entry(
        "system:controller:selinux-warning-controller",
        &[
            On(READ, CORE, "persistentvolumes persistentvolumeclaims pods"),
            On(READ, "storage.k8s.io", "csidrivers"),
            EVENTS,
        ],
    ),
    entry(
        "system:controller:volumeattributesclass-protection-controller",
        &[
            On(READ, CORE, "persistentvolumeclaims"),
            On(READ, CORE, "persistentvolumes"),
            On("get list watch update", "storage.k8s.io", "volumeattributesclasses"),
            EVENTS,
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::defaults::rules;

    /// Informers that are filled by a watch send no list request.
    #[test]
    fn roles_with_list_have_watch_too_api_15() {
        for role in ROLES {
            for rule in rules(role.rules) {
                let may = |verb: &str| rule.verbs.iter().any(|of| of == verb);
                assert!(!may("list") || may("watch"), "{}: {:?}", role.name, rule.resources);
            }
        }
    }
}
