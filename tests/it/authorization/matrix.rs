//! Permissions of Kubernetes' default roles, including the aggregated ones (SEC-4): every verb on every resource,
//! checked against the running cluster, in which a controller fills `admin`, `edit` and `view`.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use podium::testing::{Cluster, Controllers};
use serde_json::{Value, json};

const VERBS: [&str; 12] = [
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind",
    "escalate", "approve",
];

/// The permissions of `view`, `edit` and `admin`, bound in the namespace `a`, and of a node that is unrelated to the
/// object. `read` and `write` stand for the three and the five verbs; all verbs that are not named are refused.
/// Cluster-scoped resources begin with `*`.
const MATRIX: &str = "
core/pods                               | read | read write             | read write             | create
core/pods/log                           | read | read                   | read                   |
core/pods/status                        | read | read                   | read                   |
core/pods/exec                          |      | read write             | read write             |
core/pods/attach                        |      | read write             | read write             |
core/pods/portforward                   |      | read write             | read write             |
core/pods/proxy                         |      | read write             | read write             |
core/pods/eviction                      |      | create                 | create                 |
core/pods/ephemeralcontainers           |      |                        |                        |
core/pods/resize                        |      |                        |                        |
core/pods/binding                       |      |                        |                        |
core/bindings                           | read | read                   | read                   |
core/podtemplates                       |      |                        |                        |
core/configmaps                         | read | read write             | read write             |
core/secrets                            |      | read write             | read write             |
core/services                           | read | read write             | read write             | read
core/services/status                    | read | read                   | read                   |
core/services/proxy                     |      | read write             | read write             |
core/endpoints                          | read | read                   | read                   | get
core/events                             | read | read write             | read write             | create update patch
core/persistentvolumeclaims             | read | read write             | read write             |
core/persistentvolumeclaims/status      | read | read                   | read                   |
core/replicationcontrollers             | read | read write             | read write             |
core/replicationcontrollers/scale       | read | read write             | read write             |
core/replicationcontrollers/status      | read | read                   | read                   |
core/resourcequotas                     | read | read                   | read                   |
core/resourcequotas/status              | read | read                   | read                   |
core/limitranges                        | read | read                   | read                   |
core/serviceaccounts                    | read | read write impersonate | read write impersonate |
core/serviceaccounts/token              |      | create                 | create                 |
core/namespaces                         | read | read                   | read                   |
core/namespaces/status                  | read | read                   | read                   |
core/namespaces/finalize                |      |                        |                        |
apps/controllerrevisions                | read | read                   | read                   |
apps/daemonsets                         | read | read write             | read write             |
apps/daemonsets/status                  | read | read                   | read                   |
apps/deployments                        | read | read write             | read write             |
apps/deployments/scale                  | read | read write             | read write             |
apps/deployments/status                 | read | read                   | read                   |
apps/replicasets                        | read | read write             | read write             |
apps/replicasets/scale                  | read | read write             | read write             |
apps/statefulsets                       | read | read write             | read write             |
apps/statefulsets/scale                 | read | read write             | read write             |
batch/jobs                              | read | read write             | read write             |
batch/jobs/status                       | read | read                   | read                   |
batch/cronjobs                          | read | read write             | read write             |
autoscaling/horizontalpodautoscalers    | read | read write             | read write             |
policy/poddisruptionbudgets             | read | read write             | read write             |
networking.k8s.io/ingresses             | read | read write             | read write             |
networking.k8s.io/ingresses/status      | read | read                   | read                   |
networking.k8s.io/networkpolicies       | read | read write             | read write             |
discovery.k8s.io/endpointslices         | read | read                   | read                   |
coordination.k8s.io/leases              |      | read write             | read write             |
resource.k8s.io/resourceclaims          | read | read write             | read write             |
resource.k8s.io/resourceclaims/status   | read | read                   | read                   |
resource.k8s.io/resourceclaimtemplates  | read | read write             | read write             |
storage.k8s.io/csistoragecapacities     |      |                        |                        |
metrics.k8s.io/pods                     |      |                        |                        |
example.com/widgets                     |      |                        |                        |
authorization.k8s.io/localsubjectaccessreviews |  |                     | create                 | create
rbac.authorization.k8s.io/roles         |      |                        | read write             |
rbac.authorization.k8s.io/rolebindings  |      |                        | read write             |
*core/nodes                             |      |                        |                        | create
*core/nodes/status                      |      |                        |                        |
*core/nodes/proxy                       |      |                        |                        |
*core/persistentvolumes                 |      |                        |                        |
*rbac.authorization.k8s.io/clusterroles |      |                        |                        |
*rbac.authorization.k8s.io/clusterrolebindings |  |                     |                        |
*apiextensions.k8s.io/customresourcedefinitions | |                     |                        |
*admissionregistration.k8s.io/validatingwebhookconfigurations | |       |                        |
*certificates.k8s.io/certificatesigningrequests | |                     |                        | read create
*certificates.k8s.io/signers            |      |                        |                        |
*authentication.k8s.io/tokenreviews     |      |                        |                        | create
*authentication.k8s.io/userextras       |      |                        |                        |
*authorization.k8s.io/subjectaccessreviews |   |                        |                        | create
*node.k8s.io/runtimeclasses             |      |                        |                        | read
*resource.k8s.io/deviceclasses          |      |                        |                        |
*resource.k8s.io/resourceslices         |      |                        |                        | create
*scheduling.k8s.io/priorityclasses      |      |                        |                        |
*storage.k8s.io/csidrivers              |      |                        |                        | read
*storage.k8s.io/csinodes                |      |                        |                        | create
*storage.k8s.io/storageclasses          |      |                        |                        |
*storage.k8s.io/volumeattachments       |      |                        |                        |
";

/// The minimum permissions of every authenticated user, and the paths for them.
const OF_EVERY_USER: [&str; 3] = [
    "*authorization.k8s.io/selfsubjectaccessreviews",
    "*authorization.k8s.io/selfsubjectrulesreviews",
    "*authentication.k8s.io/selfsubjectreviews",
];

/// A path, and whether anonymous users, users with a name, and service accounts may read it.
const PATHS: [(&str, bool, bool, bool); 9] = [
    ("/healthz", true, true, true),
    ("/version", true, true, true),
    ("/api", false, true, true),
    ("/apis/apps/v1", false, true, true),
    ("/openapi/v3", false, true, true),
    ("/openid/v1/jwks", false, false, true),
    ("/metrics", false, false, false),
    ("/logs/x", false, false, false),
    ("/debug/pprof/heap", false, false, false),
];

/// A user: name and groups.
type TestUser = (&'static str, &'static [&'static str]);

const ANONYMOUS: TestUser = ("system:anonymous", &["system:unauthenticated"]);
const ORDINARY_USER: TestUser = ("plain", &["system:authenticated"]);
const VIEW: TestUser = ("viewer", &["system:authenticated"]);
const EDIT: TestUser = ("editor", &["system:authenticated"]);
const ADMIN: TestUser = ("administrator", &["system:authenticated"]);
const OWNER: TestUser = ("owner", &["system:authenticated"]);
const MASTER: TestUser = ("root", &["system:masters"]);
/// A service account of another namespace, to which `view` is bound in `a`.
const ACCOUNT: TestUser = (
    "system:serviceaccount:b:robot",
    &["system:serviceaccounts", "system:serviceaccounts:b", "system:authenticated"],
);
const NODE: TestUser = ("system:node:n1", &["system:nodes", "system:authenticated"]);

async fn is_allowed(reviews: &kube::Api<SubjectAccessReview>, who: TestUser, attributes: Value) -> bool {
    let mut spec = json!({"user": who.0, "groups": who.1});
    spec.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    let review = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
    let review = reviews.create(&PostParams::default(), &review).await.unwrap();
    review.status.unwrap().allowed
}

/// A question about a resource as the matrix writes it, of an object that is not there.
fn resource_review(resource: &str, namespace: &str, verb: &str) -> Value {
    let (group, resource) = resource.trim_start_matches('*').split_once('/').unwrap();
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let is_of_many =
        matches!(verb, "list" | "deletecollection") || verb == "create" && subresource.is_empty();
    let name = if is_of_many { "" } else { "x" };
    let group = if group == "core" { "" } else { group };
    json!({"resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": subresource,
        "namespace": namespace, "name": name}})
}

fn includes(cell: &str, verb: &str) -> bool {
    cell.split(' ').any(|word| match word {
        "read" => matches!(verb, "get" | "list" | "watch"),
        "write" => matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection"),
        word => word == verb,
    })
}

async fn cluster() -> Cluster {
    let aggregation = Controllers::only(["clusterrole-aggregation-controller"]);
    let cluster = Cluster::builder().controllers(aggregation).hollow_nodes(0).start().await.unwrap();
    let binding = |role: &str, (name, _): TestUser| {
        let subject = match name.strip_prefix("system:serviceaccount:b:") {
            Some(account) => json!({"kind": "ServiceAccount", "namespace": "b", "name": account}),
            None => json!({"kind": "User", "name": name}),
        };
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": format!("{role}-{}", subject["name"].as_str().unwrap()),
                "namespace": "a"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [subject]})
    };
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let mut documents = vec![namespace("a"), namespace("b")];
    documents.extend(
        [("view", VIEW), ("edit", EDIT), ("admin", ADMIN), ("view", ACCOUNT)].map(|(r, w)| binding(r, w)),
    );
    documents.push(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "owns"}, "subjects": [{"kind": "User", "name": OWNER.0}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}));
    let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
    cluster.apply(&documents.join("\n---\n")).await.unwrap();
    cluster.settle().await.unwrap();
    cluster
}

#[tokio::test(start_paused = true)]
async fn the_default_roles_allow_what_they_name_and_nothing_else_sec_4() {
    let cluster = cluster().await;
    let reviews = kube::Api::<SubjectAccessReview>::all(cluster.client());
    let mut wrong = Vec::new();
    let mut checked = 0;
    for row in MATRIX.trim().lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [resource, view, edit, admin, node] = cells[..] else { panic!("{row}") };
        let namespace = if resource.starts_with('*') { "" } else { "a" };
        let columns = [
            (ANONYMOUS, ""),
            (ORDINARY_USER, ""),
            (VIEW, view),
            (EDIT, edit),
            (ADMIN, admin),
            (ACCOUNT, view),
            (NODE, node),
        ];
        for verb in VERBS {
            for (who, cell) in columns {
                checked += 1;
                if is_allowed(&reviews, who, resource_review(resource, namespace, verb)).await
                    != includes(cell, verb)
                {
                    wrong.push(format!("{} {verb} {resource}", who.0));
                }
            }
        }
        // A binding in one namespace grants nothing in another, nor in all.
        for (who, other) in [(VIEW, "b"), (EDIT, "b"), (ADMIN, "b"), (ADMIN, ""), (ACCOUNT, "b")] {
            for verb in ["get", "create"] {
                if is_allowed(&reviews, who, resource_review(resource, other, verb)).await {
                    wrong.push(format!("{} {verb} {resource} in {other:?}", who.0));
                }
            }
        }
        for who in [OWNER, MASTER] {
            if !is_allowed(&reviews, who, resource_review(resource, namespace, "deletecollection")).await {
                wrong.push(format!("{} deletecollection {resource}", who.0));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "of {checked}");
}

#[tokio::test(start_paused = true)]
async fn authenticated_users_may_create_self_reviews_and_read_discovery_sec_4() {
    let cluster = cluster().await;
    let reviews = kube::Api::<SubjectAccessReview>::all(cluster.client());
    for who in [ANONYMOUS, ORDINARY_USER, VIEW, ACCOUNT, NODE, OWNER] {
        for resource in OF_EVERY_USER {
            for verb in VERBS {
                let expected = who == OWNER || verb == "create" && who != ANONYMOUS;
                let allowed = is_allowed(&reviews, who, resource_review(resource, "", verb)).await;
                assert_eq!(allowed, expected, "{} {verb} {resource}", who.0);
            }
        }
        for (path, anonymous, named, account) in PATHS {
            let expected = match who {
                OWNER => true,
                ANONYMOUS => anonymous,
                ACCOUNT => account,
                _ => named,
            };
            let allowed =
                is_allowed(&reviews, who, json!({"nonResourceAttributes": {"path": path, "verb": "get"}}))
                    .await;
            assert_eq!(allowed, expected, "{} get {path}", who.0);
        }
    }
}
