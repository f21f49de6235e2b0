//! The cluster roles of people, nodes and components, and their bindings.

use super::Rule::{Named, On, Paths};
use super::{
    CORE, EVENTS, Entry, READ, READ_UPDATE, READ_WRITE, REVIEWS_ACCESS, REVIEWS_TOKENS, WRITE, entry,
};

const fn aggregated(to: &'static str, of: Entry) -> Entry {
    Entry { aggregated_to: Some(to), ..of }
}

const fn aggregating(name: &'static str) -> Entry {
    Entry { aggregates: true, ..entry(name, &[]) }
}

pub(super) const ROLES: &[Entry] = &[
    entry("cluster-admin", &[On("*", "*", "*"), Paths("*", "*")]),
    entry(
        "system:discovery",
        &[Paths(
            "get",
            "/livez /readyz /healthz /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*",
        )],
    ),
    entry(
        "system:monitoring",
        &[Paths("get", "/metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/*")],
    ),
    entry(
        "system:basic-user",
        &[
            On("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            On("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    entry("system:public-info-viewer", &[Paths("get", "/livez /readyz /healthz /version /version/")]),
    aggregating("admin"),
    aggregated("admin", aggregating("edit")),
    aggregated("edit", aggregating("view")),
    aggregated(
        "admin",
        entry(
            "system:aggregate-to-admin",
            &[
                On("create", "authorization.k8s.io", "localsubjectaccessreviews"),
                On(READ_WRITE, "rbac.authorization.k8s.io", "roles rolebindings"),
            ],
        ),
    ),
    aggregated(
        "edit",
        entry(
            "system:aggregate-to-edit",
            &[
                On(READ, CORE, "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy"),
                On("impersonate", CORE, "serviceaccounts"),
                On(WRITE, CORE, "pods pods/attach pods/proxy pods/exec pods/portforward"),
                On("create", CORE, "pods/eviction"),
                On(
                    WRITE,
                    CORE,
                    "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/proxy \
                     persistentvolumeclaims configmaps secrets events",
                ),
                On("create", CORE, "serviceaccounts/token"),
                On(
                    WRITE,
                    "apps",
                    "statefulsets statefulsets/scale daemonsets deployments deployments/scale \
                     deployments/rollback replicasets replicasets/scale",
                ),
                On(WRITE, "autoscaling", "horizontalpodautoscalers"),
                On(WRITE, "batch", "jobs cronjobs"),
                On(
                    WRITE,
                    "extensions",
                    "daemonsets deployments deployments/scale deployments/rollback ingresses replicasets \
                     replicasets/scale replicationcontrollers/scale networkpolicies",
                ),
                On(WRITE, "policy", "poddisruptionbudgets"),
                On(WRITE, "networking.k8s.io", "networkpolicies ingresses"),
                On(READ_WRITE, "coordination.k8s.io", "leases"),
                On(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
            ],
        ),
    ),
    aggregated(
        "view",
        entry(
            "system:aggregate-to-view",
            &[
                On(
                    READ,
                    CORE,
                    "pods replicationcontrollers replicationcontrollers/scale serviceaccounts services \
                     services/status endpoints persistentvolumeclaims persistentvolumeclaims/status configmaps",
                ),
                On(
                    READ,
                    CORE,
                    "limitranges resourcequotas bindings events pods/status resourcequotas/status \
                     namespaces/status replicationcontrollers/status pods/log",
                ),
                // Reading the namespace itself.
                On(READ, CORE, "namespaces"),
                On(READ, "discovery.k8s.io", "endpointslices"),
                On(
                    READ,
                    "apps",
                    "controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets \
                     daemonsets/status deployments deployments/status deployments/scale replicasets \
                     replicasets/status replicasets/scale",
                ),
                On(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
                On(READ, "batch", "jobs cronjobs cronjobs/status jobs/status"),
                On(
                    READ,
                    "extensions",
                    "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses \
                     ingresses/status replicasets replicasets/scale replicasets/status \
                     replicationcontrollers/scale networkpolicies",
                ),
                On(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
                On(READ, "networking.k8s.io", "networkpolicies ingresses ingresses/status"),
                On(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
            ],
        ),
    ),
    entry(
        "system:heapster",
        &[On(READ, CORE, "events pods nodes namespaces"), On(READ, "extensions", "deployments")],
    ),
    entry("system:node", NODE),
    entry(
        "system:node-problem-detector",
        &[On("get", CORE, "nodes"), On("patch", CORE, "nodes/status"), EVENTS],
    ),
    entry(
        "system:kubelet-api-admin",
        &[
            On(READ, CORE, "nodes"),
            On("proxy", CORE, "nodes"),
            On(
                "*",
                CORE,
                "nodes/proxy nodes/metrics nodes/stats nodes/log nodes/pods nodes/healthz nodes/configz",
            ),
        ],
    ),
    entry(
        "system:node-bootstrapper",
        &[On("create get list watch", "certificates.k8s.io", "certificatesigningrequests")],
    ),
    entry("system:auth-delegator", &[REVIEWS_TOKENS, REVIEWS_ACCESS]),
    entry("system:kube-aggregator", &[On(READ, CORE, "services endpoints")]),
    entry(
        "system:kube-controller-manager",
        &[
            EVENTS,
            On("create", "coordination.k8s.io", "leases"),
            Named("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
            On("create", CORE, "secrets serviceaccounts"),
            On("delete", CORE, "secrets"),
            On("get", CORE, "namespaces secrets serviceaccounts configmaps"),
            On("update", CORE, "secrets serviceaccounts"),
            REVIEWS_TOKENS,
            REVIEWS_ACCESS,
            On("list watch", "*", "*"),
            On("create", CORE, "serviceaccounts/token"),
        ],
    ),
    entry("system:kube-dns", &[On("list watch", CORE, "endpoints services")]),
    entry(
        "system:persistent-volume-provisioner",
        &[
            On("get list watch create delete", CORE, "persistentvolumes"),
            On("get list watch update", CORE, "persistentvolumeclaims"),
            On(READ, "storage.k8s.io", "storageclasses"),
            On("watch", CORE, "events"),
            EVENTS,
        ],
    ),
    entry(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[On("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")],
    ),
    entry(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[On("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")],
    ),
    entry(
        "system:volume-scheduler",
        &[
            On(READ_UPDATE, CORE, "persistentvolumes"),
            On(READ, "storage.k8s.io", "storageclasses"),
            On(READ_UPDATE, CORE, "persistentvolumeclaims"),
        ],
    ),
    entry(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/legacy-unknown")],
    ),
    entry(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kubelet-serving")],
    ),
    entry(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client")],
    ),
    entry(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet")],
    ),
    entry(
        "system:service-account-issuer-discovery",
        &[Paths(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
    entry(
        "system:node-proxier",
        &[
            On("list watch", CORE, "services endpoints"),
            On(READ, CORE, "nodes"),
            EVENTS,
            On("list watch", "discovery.k8s.io", "endpointslices"),
            On("list watch", "networking.k8s.io", "servicecidrs"),
        ],
    ),
    entry(
        "system:kube-scheduler",
        &[
            EVENTS,
            On("create", "coordination.k8s.io", "leases"),
            Named("get list watch update", "coordination.k8s.io", "leases", "kube-scheduler"),
            On(READ_WRITE, "coordination.k8s.io", "leasecandidates"),
            On(READ, CORE, "nodes"),
            On("get list watch delete", CORE, "pods"),
            On("create", CORE, "pods/binding bindings"),
            On("patch update", CORE, "pods/status"),
            On(READ, CORE, "services replicationcontrollers"),
            On(READ, "apps extensions", "replicasets"),
            On(READ, "apps", "statefulsets"),
            On(READ, "policy", "poddisruptionbudgets"),
            On(READ, CORE, "persistentvolumeclaims persistentvolumes"),
            On(READ, CORE, "namespaces"),
            REVIEWS_TOKENS,
            REVIEWS_ACCESS,
            On(READ, "storage.k8s.io", "csinodes csidrivers csistoragecapacities volumeattachments"),
            On(READ, "resource.k8s.io", "deviceclasses resourceslices devicetaintrules"),
            On(READ_UPDATE, "resource.k8s.io", "resourceclaims resourceclaims/status"),
            On("update patch", "resource.k8s.io", "resourceclaims/binding"),
            On(READ_UPDATE, CORE, "pods/finalizers"),
        ],
    ),
];

/// The permissions of a kubelet; the node authorizer restricts them to the node's own objects.
pub(in crate::authorization) const NODE: &[super::Rule] = &[
    REVIEWS_TOKENS,
    On("create", "authorization.k8s.io", "subjectaccessreviews localsubjectaccessreviews"),
    On(READ, CORE, "services"),
    On("create get list watch", CORE, "nodes"),
    On("update patch", CORE, "nodes/status"),
    On("update patch", CORE, "nodes"),
    On("create update patch", CORE, "events"),
    On(READ, CORE, "pods"),
    On("create delete", CORE, "pods"),
    On("update patch", CORE, "pods/status"),
    On("create", CORE, "pods/eviction"),
    On(READ, CORE, "secrets configmaps"),
    On("get", CORE, "persistentvolumeclaims persistentvolumes"),
    On("get", CORE, "endpoints"),
    On("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    On("get create update patch delete", "coordination.k8s.io", "leases"),
    On("get", "storage.k8s.io", "volumeattachments"),
    On("get update patch", CORE, "persistentvolumeclaims/status"),
    On("create", CORE, "serviceaccounts/token"),
    On("get", CORE, "serviceaccounts"),
    On(READ, "storage.k8s.io", "csidrivers"),
    On("get create update patch delete", "storage.k8s.io", "csinodes"),
    On(READ, "node.k8s.io", "runtimeclasses"),
    On("get", "resource.k8s.io", "resourceclaims"),
    On("deletecollection", "resource.k8s.io", "resourceslices"),
];

/// Cluster roles and their subjects.
pub(super) const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &["group:system:masters"]),
    ("system:monitoring", &["group:system:monitoring"]),
    ("system:discovery", &["group:system:authenticated"]),
    ("system:basic-user", &["group:system:authenticated"]),
    ("system:public-info-viewer", &["group:system:authenticated", "group:system:unauthenticated"]),
    ("system:node-proxier", &["user:system:kube-proxy"]),
    ("system:kube-controller-manager", &["user:system:kube-controller-manager"]),
    ("system:kube-dns", &["account:kube-system/kube-dns"]),
    ("system:kube-scheduler", &["user:system:kube-scheduler"]),
    ("system:volume-scheduler", &["user:system:kube-scheduler"]),
    // Without subjects since the node authorizer exists; bindings of an older cluster are preserved.
    ("system:node", &[]),
    ("system:service-account-issuer-discovery", &["group:system:serviceaccounts"]),
];
