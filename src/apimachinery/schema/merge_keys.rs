//! The merge rules of lists and maps of each type: by a key, as a set, or as a whole.
//!
//! `k8s-openapi` has none of this, so the table is Podium's own; its content comes from the `patchStrategy`,
//! `patchMergeKey`, `listType`, `listMapKey` and `mapType` markers of the Kubernetes API types. Strategic
//! merge patches and server-side apply use the table, and the OpenAPI documents publish it, so all three
//! always agree.

/// The treatment of a field by strategic merge patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchStrategy {
    /// Maps merge, lists are replaced.
    #[default]
    Unset,
    /// Lists merge, by key if there is one.
    Merge,
    /// The map is replaced.
    Replace,
    /// Keys that the patch does not name are removed (a union: only one member may be set).
    RetainKeys,
    /// Lists merge by key and each merged element retains only the patch's keys.
    MergeRetainKeys,
}

impl PatchStrategy {
    /// Returns the value of `x-kubernetes-patch-strategy`; empty when unset.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Merge => "merge",
            Self::Replace => "replace",
            Self::RetainKeys => "retainKeys",
            Self::MergeRetainKeys => "merge,retainKeys",
        }
    }

    /// Returns true if lists merge.
    pub fn merges(self) -> bool {
        matches!(self, Self::Merge | Self::MergeRetainKeys)
    }
}

/// The granularity of a list in server-side apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Atomic; the default.
    #[default]
    Atomic,
    /// Element by element, each value separately.
    Set,
    /// Element by element, identified by these key fields.
    Map(&'static [&'static str]),
}

/// The granularity of a map or struct in server-side apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    /// Key by key; the default.
    #[default]
    Granular,
    /// Atomic.
    Atomic,
}

/// The merge rule of one field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeRule {
    /// For strategic merge patches.
    pub strategy: PatchStrategy,
    /// The key of a merging list of objects; empty for primitives.
    pub merge_key: &'static str,
    /// For server-side apply; `None` if Kubernetes has no marker (which means atomic).
    pub list: Option<ListType>,
    /// For server-side apply; `None` if Kubernetes has no marker (which means the default of its type).
    pub map: Option<MapType>,
}

impl MergeRule {
    const NONE: Self = Self { strategy: PatchStrategy::Unset, merge_key: "", list: None, map: None };
}

const fn keyed(key: &'static str, keys: &'static [&'static str]) -> MergeRule {
    MergeRule {
        strategy: PatchStrategy::Merge,
        merge_key: key,
        list: Some(ListType::Map(keys)),
        ..MergeRule::NONE
    }
}

const fn keyed_union(key: &'static str, keys: &'static [&'static str]) -> MergeRule {
    MergeRule { strategy: PatchStrategy::MergeRetainKeys, ..keyed(key, keys) }
}

const fn listed(list: ListType) -> MergeRule {
    MergeRule { list: Some(list), ..MergeRule::NONE }
}

const fn merged(list: ListType) -> MergeRule {
    MergeRule { strategy: PatchStrategy::Merge, list: Some(list), ..MergeRule::NONE }
}

const NAME: &[&str] = &["name"];
const TYPE: &[&str] = &["type"];
const ATOMIC: MergeRule = listed(ListType::Atomic);
const SET: MergeRule = listed(ListType::Set);
const ATOMIC_MAP: MergeRule = MergeRule { map: Some(MapType::Atomic), ..MergeRule::NONE };
const GRANULAR: MergeRule = MergeRule { map: Some(MapType::Granular), ..MergeRule::NONE };
const CONDITIONS: MergeRule = keyed("type", TYPE);

/// Fields by the last part of their type's name (`PodSpec`) and their JSON name.
static FIELDS: &[(&str, &str, MergeRule)] = &[
    ("ObjectMeta", "ownerReferences", keyed("uid", &["uid"])),
    ("ObjectMeta", "finalizers", merged(ListType::Set)),
    ("ObjectMeta", "managedFields", ATOMIC),
    ("PodSpec", "volumes", keyed_union("name", NAME)),
    ("PodSpec", "resourceClaims", keyed_union("name", NAME)),
    ("PodSpec", "containers", keyed("name", NAME)),
    ("PodSpec", "initContainers", keyed("name", NAME)),
    ("PodSpec", "ephemeralContainers", keyed("name", NAME)),
    ("PodSpec", "imagePullSecrets", keyed("name", NAME)),
    ("PodSpec", "schedulingGates", keyed("name", NAME)),
    ("PodSpec", "hostAliases", keyed("ip", &["ip"])),
    ("PodSpec", "topologySpreadConstraints", keyed("topologyKey", &["topologyKey", "whenUnsatisfiable"])),
    ("PodSpec", "nodeSelector", ATOMIC_MAP),
    ("PodSpec", "tolerations", ATOMIC),
    ("PodSpec", "readinessGates", ATOMIC),
    ("Container", "ports", keyed("containerPort", &["containerPort", "protocol"])),
    ("Container", "env", keyed("name", NAME)),
    ("Container", "volumeMounts", keyed("mountPath", &["mountPath"])),
    ("Container", "volumeDevices", keyed("devicePath", &["devicePath"])),
    ("Container", "args", ATOMIC),
    ("Container", "command", ATOMIC),
    ("Container", "envFrom", ATOMIC),
    ("Container", "resizePolicy", ATOMIC),
    ("EphemeralContainer", "ports", keyed("containerPort", &["containerPort", "protocol"])),
    ("EphemeralContainer", "env", keyed("name", NAME)),
    ("EphemeralContainer", "volumeMounts", keyed("mountPath", &["mountPath"])),
    ("EphemeralContainer", "volumeDevices", keyed("devicePath", &["devicePath"])),
    ("EphemeralContainer", "args", ATOMIC),
    ("EphemeralContainer", "command", ATOMIC),
    ("EphemeralContainer", "envFrom", ATOMIC),
    ("ResourceRequirements", "claims", listed(ListType::Map(NAME))),
    ("PodStatus", "conditions", CONDITIONS),
    ("PodStatus", "podIPs", keyed("ip", &["ip"])),
    ("PodStatus", "hostIPs", MergeRule { merge_key: "ip", ..merged(ListType::Atomic) }),
    ("PodStatus", "resourceClaimStatuses", keyed_union("name", NAME)),
    ("ServiceSpec", "ports", keyed("port", &["port", "protocol"])),
    ("ServiceSpec", "selector", ATOMIC_MAP),
    ("ServiceSpec", "clusterIPs", ATOMIC),
    ("ServiceSpec", "externalIPs", ATOMIC),
    ("ServiceSpec", "ipFamilies", ATOMIC),
    ("ServiceStatus", "conditions", CONDITIONS),
    ("ServiceAccount", "secrets", keyed("name", NAME)),
    ("ServiceAccount", "imagePullSecrets", ATOMIC),
    ("NodeSpec", "podCIDRs", merged(ListType::Set)),
    ("NodeSpec", "taints", ATOMIC),
    ("NodeStatus", "addresses", keyed("type", TYPE)),
    ("NodeStatus", "conditions", CONDITIONS),
    ("NamespaceStatus", "conditions", CONDITIONS),
    ("MutatingWebhookConfiguration", "webhooks", keyed("name", NAME)),
    ("ValidatingWebhookConfiguration", "webhooks", keyed("name", NAME)),
    ("MutatingWebhook", "matchConditions", keyed("name", NAME)),
    ("ValidatingWebhook", "matchConditions", keyed("name", NAME)),
    ("MutatingAdmissionPolicySpec", "matchConditions", keyed("name", NAME)),
    ("MutatingAdmissionPolicySpec", "variables", ATOMIC),
    ("MutatingAdmissionPolicySpec", "mutations", ATOMIC),
    ("MutatingAdmissionPolicySpec", "paramKind", ATOMIC_MAP),
    ("MutatingAdmissionPolicySpec", "matchConstraints", ATOMIC_MAP),
    ("MutatingAdmissionPolicyBindingSpec", "paramRef", ATOMIC_MAP),
    ("MutatingAdmissionPolicyBindingSpec", "matchResources", ATOMIC_MAP),
    ("ValidatingAdmissionPolicySpec", "matchConditions", keyed("name", NAME)),
    ("ValidatingAdmissionPolicySpec", "variables", keyed("name", NAME)),
    ("ValidatingAdmissionPolicySpec", "validations", ATOMIC),
    ("ValidatingAdmissionPolicySpec", "auditAnnotations", ATOMIC),
    ("ValidatingAdmissionPolicySpec", "paramKind", ATOMIC_MAP),
    ("ValidatingAdmissionPolicySpec", "matchConstraints", ATOMIC_MAP),
    ("ValidatingAdmissionPolicyStatus", "conditions", CONDITIONS),
    ("ValidatingAdmissionPolicyBindingSpec", "validationActions", SET),
    ("ValidatingAdmissionPolicyBindingSpec", "paramRef", ATOMIC_MAP),
    ("ValidatingAdmissionPolicyBindingSpec", "matchResources", ATOMIC_MAP),
    ("MatchResources", "resourceRules", ATOMIC),
    ("MatchResources", "excludeResourceRules", ATOMIC),
    ("NamedRuleWithOperations", "resourceNames", ATOMIC),
    ("TypeChecking", "expressionWarnings", ATOMIC),
    ("APIServiceStatus", "conditions", CONDITIONS),
    ("CSIDriverSpec", "volumeLifecycleModes", SET),
    ("CSIDriverSpec", "tokenRequests", ATOMIC),
    ("IngressSpec", "rules", ATOMIC),
    ("IngressSpec", "tls", ATOMIC),
    ("HTTPIngressRuleValue", "paths", ATOMIC),
    ("IngressTLS", "hosts", ATOMIC),
    ("IngressLoadBalancerStatus", "ingress", ATOMIC),
    ("NetworkPolicySpec", "ingress", ATOMIC),
    ("NetworkPolicySpec", "egress", ATOMIC),
    ("NetworkPolicySpec", "policyTypes", ATOMIC),
    ("NetworkPolicyIngressRule", "ports", ATOMIC),
    ("NetworkPolicyIngressRule", "from", ATOMIC),
    ("NetworkPolicyEgressRule", "ports", ATOMIC),
    ("NetworkPolicyEgressRule", "to", ATOMIC),
    ("IPBlock", "except", ATOMIC),
    ("PersistentVolumeSpec", "claimRef", GRANULAR),
    ("PersistentVolumeClaimStatus", "conditions", CONDITIONS),
    ("ReplicationControllerSpec", "selector", ATOMIC_MAP),
    ("ReplicationControllerStatus", "conditions", CONDITIONS),
    ("DeploymentSpec", "strategy", MergeRule { strategy: PatchStrategy::RetainKeys, ..MergeRule::NONE }),
    ("DeploymentStatus", "conditions", CONDITIONS),
    ("ReplicaSetStatus", "conditions", CONDITIONS),
    ("StatefulSetStatus", "conditions", CONDITIONS),
    ("DaemonSetStatus", "conditions", CONDITIONS),
    ("JobStatus", "conditions", MergeRule { list: Some(ListType::Atomic), ..CONDITIONS }),
    ("UncountedTerminatedPods", "failed", SET),
    ("UncountedTerminatedPods", "succeeded", SET),
    ("PodFailurePolicyOnExitCodesRequirement", "values", SET),
    (
        "PodDisruptionBudgetSpec",
        "selector",
        MergeRule { strategy: PatchStrategy::Replace, ..MergeRule::NONE },
    ),
    ("PodDisruptionBudgetStatus", "conditions", CONDITIONS),
    ("HorizontalPodAutoscalerStatus", "conditions", CONDITIONS),
    ("CustomResourceDefinitionStatus", "conditions", listed(ListType::Map(TYPE))),
    ("CSINodeSpec", "drivers", keyed("name", NAME)),
    ("CSINodeStatus", "storageHealth", keyed("name", NAME)),
    ("Scheduling", "nodeSelector", ATOMIC_MAP),
    ("Scheduling", "tolerations", ATOMIC),
    ("FlowSchemaSpec", "rules", ATOMIC),
    ("FlowSchemaStatus", "conditions", CONDITIONS),
    ("PriorityLevelConfigurationStatus", "conditions", CONDITIONS),
    ("ServiceCIDRSpec", "cidrs", ATOMIC),
    ("ServiceCIDRStatus", "conditions", CONDITIONS),
    ("DeviceTaintRuleStatus", "conditions", CONDITIONS),
    ("ResourceClaimStatus", "reservedFor", keyed("uid", &["uid"])),
    ("ResourceClaimStatus", "devices", listed(ListType::Map(&["driver", "device", "pool", "shareID"]))),
    ("AllocatedDeviceStatus", "conditions", listed(ListType::Map(TYPE))),
    ("ResourceSliceSpec", "skipNodeOperations", SET),
    ("DeviceRequestAllocationResult", "skipNodeOperations", SET),
    ("Endpoint", "addresses", SET),
    ("EndpointSlice", "endpoints", ATOMIC),
    ("EndpointSlice", "ports", ATOMIC),
    ("Scale", "selector", ATOMIC_MAP),
    ("CertificateSigningRequestSpec", "groups", ATOMIC),
    ("CertificateSigningRequestSpec", "usages", ATOMIC),
    ("CertificateSigningRequestStatus", "conditions", listed(ListType::Map(TYPE))),
    ("ClusterRole", "rules", ATOMIC),
    ("Role", "rules", ATOMIC),
    ("AggregationRule", "clusterRoleSelectors", ATOMIC),
    ("PolicyRule", "apiGroups", ATOMIC),
    ("PolicyRule", "nonResourceURLs", ATOMIC),
    ("PolicyRule", "resourceNames", ATOMIC),
    ("PolicyRule", "resources", ATOMIC),
    ("PolicyRule", "verbs", ATOMIC),
    ("ClusterRoleBinding", "subjects", ATOMIC),
    ("RoleBinding", "subjects", ATOMIC),
];

/// Types that are atomic in every field.
static ATOMIC_TYPES: &[&str] = &[
    "LabelSelector", "NodeSelector", "NodeSelectorTerm", "ObjectReference", "LocalObjectReference",
    "TypedLocalObjectReference", "ConfigMapKeySelector", "SecretKeySelector", "ObjectFieldSelector",
    "ResourceFieldSelector", "FileKeySelector", "SecretReference", "ScopeSelector",
    "ScopedResourceSelectorRequirement", "TopologySelectorTerm", "OwnerReference", "RoleRef", "Subject",
];

/// Returns the rule of one field; fields without an entry have the default rule.
pub fn merge_rule(type_name: &str, field: &str) -> MergeRule {
    let of_type = rules_of(type_name);
    of_type.filter(|(name, _)| *name == field).map(|(_, rule)| rule).next().unwrap_or(MergeRule::NONE)
}

/// Returns the merge rules of a type's fields; other fields have [`MergeRule::default`].
pub(super) fn merge_rules(type_name: &str) -> Vec<(&'static str, MergeRule)> {
    rules_of(type_name).collect()
}

fn rules_of(type_name: &str) -> impl Iterator<Item = (&'static str, MergeRule)> {
    let short = short_name(type_name);
    FIELDS.iter().filter(move |(of, _, _)| *of == short).map(|(_, field, rule)| (*field, *rule))
}

/// Returns true if this type is atomic in server-side apply.
pub(super) fn atomic_type(type_name: &str) -> bool {
    ATOMIC_TYPES.contains(&short_name(type_name))
}

fn short_name(type_name: &str) -> &str {
    type_name.rsplit('.').next().unwrap_or(type_name)
}
