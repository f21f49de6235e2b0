//! Kinds: a handle for each, the table of built-in kinds, and the registry of kinds added at run time.
//!
//! A [`Kind`] is an interned number. The first numbers are the rows of the table below; a custom resource gets the
//! next one when its definition is first seen ([`Kind::custom`]) and keeps it while the process lives, so that stores
//! and caches can hold objects under it. The versions, columns and rules of custom resources belong to the cluster
//! that serves them (`api::served_kinds`) and are not known here.

use std::fmt;
use std::sync::LazyLock;

use parking_lot::RwLock;

/// The scope of a kind's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The objects live in namespaces.
    Namespaced,
    /// The objects belong to the whole cluster.
    Cluster,
}

/// A part or action of an object with a path of its own, below the object's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subresource {
    /// The part that controllers write.
    Status,
    /// The replica count as `autoscaling/v1 Scale`.
    Scale,
    /// The only way to add ephemeral containers.
    EphemeralContainers,
    /// The resources of a pod's containers, changed while they run.
    Resize,
    /// Requests a deletion that respects disruption budgets.
    Eviction,
    /// Assigns a pod to a node.
    Binding,
    /// Output of a container.
    Log,
    /// Runs a command in a container.
    Exec,
    /// Connects to a container's own streams.
    Attach,
    /// Forwards ports.
    PortForward,
    /// Passes HTTP requests on to a port.
    Proxy,
    /// Ends a namespace's deletion.
    Finalize,
    /// Issues a service account's token.
    Token,
    /// Approves or denies a certificate signing request.
    Approval,
}

impl Subresource {
    /// Returns the path segment.
    pub fn path(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Eviction => "eviction",
            Self::Binding => "binding",
            Self::Log => "log",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
            Self::Proxy => "proxy",
            Self::Finalize => "finalize",
            Self::Token => "token",
            Self::Approval => "approval",
        }
    }
}

/// The identity of a kind: for a built-in kind everything except its rules, for a custom kind everything that cannot
/// change while it has objects.
#[derive(Debug)]
pub struct KindInfo {
    /// The kind itself.
    pub kind: Kind,
    /// The kind's name, e.g. `ReplicaSet`.
    pub name: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The group's version in which objects are stored. Empty for a custom resource: its definition names the
    /// versions, and each object carries its own.
    pub version: &'static str,
    /// The path segment, e.g. `replicasets`.
    pub plural: &'static str,
    /// The singular form for the command line, e.g. `replicaset`.
    pub singular: &'static str,
    /// Short names for the command line.
    pub short_names: &'static [&'static str],
    /// Groups of kinds it belongs to, e.g. `all`.
    pub categories: &'static [&'static str],
    pub(crate) scope: Scope,
    /// `metadata.generation` counts the changes of the spec.
    pub counts_generations: bool,
    /// The subresources that the kind's objects have.
    pub subresources: &'static [Subresource],
}

impl KindInfo {
    /// Returns `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the name of the resource in error messages: `deployments.apps`, or `pods` in the core group.
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Returns the name of the kind in validation errors: `Deployment.apps`, or `Pod` in the core group.
    pub fn qualified_name(&self) -> String {
        if self.group.is_empty() { self.name.to_string() } else { format!("{}.{}", self.name, self.group) }
    }

    /// Returns true if the kind has this subresource.
    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// Returns true if its objects live in namespaces.
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}

/// A kind of object: a cheap handle. The built-in kinds are constants named like the kind ([`Kind::Pod`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(u16);

/// The most custom kinds that one process can hold; definitions that come and go under new names each take one.
const MAX_CUSTOM_KINDS: usize = 4096;

/// The custom kinds in the order of registration; their numbers follow the table's.
static CUSTOM: LazyLock<RwLock<Vec<&'static KindInfo>>> = LazyLock::new(RwLock::default);

/// The process has registered as many custom kinds as it can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot serve more than {MAX_CUSTOM_KINDS} kinds of custom resources in one process; restart podium to free the kinds of deleted definitions"
)]
pub struct TooManyKinds;

macro_rules! kinds {
    ($d:tt $($(#[$doc:meta])* $kind:ident($ty:ty) = $group:literal, $version:literal, $plural:literal, $singular:literal,
        short $short:expr, categories $categories:expr, $scope:ident, $shape:ident, subresources $subresources:expr;)*) => {
        /// Positions in the table.
        #[derive(Clone, Copy)]
        enum Row { $($kind,)* }

        #[expect(non_upper_case_globals, reason = "kinds are spelled as Kubernetes spells them")]
        impl Kind {
            $($(#[$doc])* pub const $kind: Self = Self(Row::$kind as u16);)*
            /// The kinds of the table, in the order in which their objects should be applied: a kind comes after those
            /// it depends on.
            pub const BUILT_IN: &'static [Self] = &[$(Self::$kind),*];
        }

        static TABLE: &[KindInfo] = {
            use Scope::{Cluster, Namespaced};
            #[allow(unused_imports, reason = "which subresources occur depends on the table")]
            use Subresource::*;
            &[$(KindInfo {
                kind: Kind::$kind, name: stringify!($kind), group: $group, version: $version,
                plural: $plural, singular: $singular, short_names: &$short, categories: &$categories,
                scope: $scope, counts_generations: matches!(
                    stringify!($shape).as_bytes(),
                    b"Generations" | b"SpecGenerations" | b"PlainGenerations"
                ),
                subresources: &$subresources,
            }),*]
        };

        /// Passes the table to another macro: kinds with their types and shapes, for code that needs something for
        /// each kind. The types are named after the modules of `k8s_openapi::api`.
        #[macro_export]
        macro_rules! each_built_in {
            ($d callback:ident) => { $d callback! { $($kind($ty) $shape)* } };
        }
    };
}

// The word before the subresources is the kind's shape: `Plain` (neither spec nor status), `SpecOnly`, `SpecStatus`, or
// `Generations`: spec and status, and `metadata.generation` counts the changes of the spec. `SpecGenerations` is the
// same without a status. In `PlainGenerations` the generation counts the changes of everything but the metadata.
kinds! { $
    /// A namespace.
    Namespace(core::v1::Namespace) = "", "v1", "namespaces", "namespace",
        short ["ns"], categories [], Cluster, SpecStatus, subresources [Status, Finalize];
    /// A kind of object defined by users.
    CustomResourceDefinition(apiextensions::v1::CustomResourceDefinition) = "apiextensions.k8s.io", "v1", "customresourcedefinitions", "customresourcedefinition",
        short ["crd", "crds"], categories ["api-extensions"], Cluster, Generations, subresources [Status];
    /// A named priority of pods.
    PriorityClass(scheduling::v1::PriorityClass) = "scheduling.k8s.io", "v1", "priorityclasses", "priorityclass",
        short ["pc"], categories [], Cluster, Plain, subresources [];
    /// Selects the container runtime configuration for pods.
    RuntimeClass(node::v1::RuntimeClass) = "node.k8s.io", "v1", "runtimeclasses", "runtimeclass",
        short [], categories [], Cluster, Plain, subresources [];
    /// A share of the API server's concurrency.
    PriorityLevelConfiguration(flowcontrol::v1::PriorityLevelConfiguration) = "flowcontrol.apiserver.k8s.io", "v1",
        "prioritylevelconfigurations", "prioritylevelconfiguration",
        short [], categories [], Cluster, Generations, subresources [Status];
    /// Assigns requests to a priority level.
    FlowSchema(flowcontrol::v1::FlowSchema) = "flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "flowschema",
        short [], categories [], Cluster, Generations, subresources [Status];
    /// A range of service addresses.
    ServiceCIDR(networking::v1::ServiceCIDR) = "networking.k8s.io", "v1", "servicecidrs", "servicecidr",
        short [], categories [], Cluster, SpecStatus, subresources [Status];
    /// An allocated service address.
    IPAddress(networking::v1::IPAddress) = "networking.k8s.io", "v1", "ipaddresses", "ipaddress",
        short ["ip"], categories [], Cluster, SpecOnly, subresources [];
    /// A named selection of devices for claims.
    DeviceClass(resource::v1::DeviceClass) = "resource.k8s.io", "v1", "deviceclasses", "deviceclass",
        short [], categories [], Cluster, SpecGenerations, subresources [];
    /// A taint on devices.
    DeviceTaintRule(resource::v1::DeviceTaintRule) = "resource.k8s.io", "v1", "devicetaintrules", "devicetaintrule",
        short [], categories [], Cluster, Generations, subresources [Status];
    /// The devices that a driver offers on a node.
    ResourceSlice(resource::v1::ResourceSlice) = "resource.k8s.io", "v1", "resourceslices", "resourceslice",
        short [], categories [], Cluster, SpecGenerations, subresources [];
    /// A machine that runs pods.
    Node(core::v1::Node) = "", "v1", "nodes", "node",
        short ["no"], categories [], Cluster, SpecStatus, subresources [Status, Proxy];
    /// A way to provision volumes on demand.
    StorageClass(storage::v1::StorageClass) = "storage.k8s.io", "v1", "storageclasses", "storageclass",
        short ["sc"], categories [], Cluster, Plain, subresources [];
    /// A volume driver.
    CSIDriver(storage::v1::CSIDriver) = "storage.k8s.io", "v1", "csidrivers", "csidriver",
        short [], categories [], Cluster, SpecGenerations, subresources [];
    /// The volume drivers of a node. Its status belongs to a feature that is off.
    CSINode(storage::v1::CSINode) = "storage.k8s.io", "v1", "csinodes", "csinode",
        short [], categories [], Cluster, SpecStatus, subresources [];
    /// The parameters of a volume that its driver can change while it is in use.
    VolumeAttributesClass(storage::v1::VolumeAttributesClass) = "storage.k8s.io", "v1", "volumeattributesclasses", "volumeattributesclass",
        short ["vac"], categories [], Cluster, Plain, subresources [];
    /// The storage capacity that a driver offers on a set of nodes.
    CSIStorageCapacity(storage::v1::CSIStorageCapacity) = "storage.k8s.io", "v1", "csistoragecapacities", "csistoragecapacity",
        short [], categories [], Namespaced, Plain, subresources [];
    /// A request to attach a volume to a node.
    VolumeAttachment(storage::v1::VolumeAttachment) = "storage.k8s.io", "v1", "volumeattachments", "volumeattachment",
        short [], categories [], Cluster, SpecStatus, subresources [Status];
    /// Assigns Ingresses to a controller.
    IngressClass(networking::v1::IngressClass) = "networking.k8s.io", "v1", "ingressclasses", "ingressclass",
        short [], categories [], Cluster, SpecGenerations, subresources [];
    /// An API group that another server serves.
    APIService(apiregistration::v1::APIService) = "apiregistration.k8s.io", "v1", "apiservices", "apiservice",
        short [], categories ["api-extensions"], Cluster, SpecStatus, subresources [Status];
    /// Webhooks that may change or refuse writes.
    MutatingWebhookConfiguration(admissionregistration::v1::MutatingWebhookConfiguration) = "admissionregistration.k8s.io", "v1",
        "mutatingwebhookconfigurations", "mutatingwebhookconfiguration",
        short [], categories ["api-extensions"], Cluster, PlainGenerations, subresources [];
    /// Webhooks that may refuse writes.
    ValidatingWebhookConfiguration(admissionregistration::v1::ValidatingWebhookConfiguration) = "admissionregistration.k8s.io", "v1",
        "validatingwebhookconfigurations", "validatingwebhookconfiguration",
        short [], categories ["api-extensions"], Cluster, PlainGenerations, subresources [];
    /// Expressions that change writes.
    MutatingAdmissionPolicy(admissionregistration::v1::MutatingAdmissionPolicy) = "admissionregistration.k8s.io", "v1",
        "mutatingadmissionpolicies", "mutatingadmissionpolicy",
        short [], categories ["api-extensions"], Cluster, SpecGenerations, subresources [];
    /// Binds a mutating policy to a scope.
    MutatingAdmissionPolicyBinding(admissionregistration::v1::MutatingAdmissionPolicyBinding) = "admissionregistration.k8s.io", "v1",
        "mutatingadmissionpolicybindings", "mutatingadmissionpolicybinding",
        short [], categories ["api-extensions"], Cluster, SpecGenerations, subresources [];
    /// Expressions that allow or refuse writes.
    ValidatingAdmissionPolicy(admissionregistration::v1::ValidatingAdmissionPolicy) = "admissionregistration.k8s.io", "v1",
        "validatingadmissionpolicies", "validatingadmissionpolicy",
        short [], categories ["api-extensions"], Cluster, Generations, subresources [Status];
    /// Binds a validating policy to a scope.
    ValidatingAdmissionPolicyBinding(admissionregistration::v1::ValidatingAdmissionPolicyBinding) = "admissionregistration.k8s.io", "v1",
        "validatingadmissionpolicybindings", "validatingadmissionpolicybinding",
        short [], categories ["api-extensions"], Cluster, SpecGenerations, subresources [];
    /// A piece of storage that outlives pods.
    PersistentVolume(core::v1::PersistentVolume) = "", "v1", "persistentvolumes", "persistentvolume",
        short ["pv"], categories [], Cluster, SpecStatus, subresources [Status];
    /// A heartbeat or a lock.
    Lease(coordination::v1::Lease) = "coordination.k8s.io", "v1", "leases", "lease",
        short [], categories [], Namespaced, SpecOnly, subresources [];
    /// An identity of pods.
    ServiceAccount(core::v1::ServiceAccount) = "", "v1", "serviceaccounts", "serviceaccount",
        short ["sa"], categories [], Namespaced, Plain, subresources [Token];
    /// Permissions in all namespaces, and on cluster-scoped objects.
    ClusterRole(rbac::v1::ClusterRole) = "rbac.authorization.k8s.io", "v1", "clusterroles", "clusterrole",
        short [], categories [], Cluster, Plain, subresources [];
    /// Grants a role in all namespaces to users.
    ClusterRoleBinding(rbac::v1::ClusterRoleBinding) = "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "clusterrolebinding",
        short [], categories [], Cluster, Plain, subresources [];
    /// Permissions in a namespace.
    Role(rbac::v1::Role) = "rbac.authorization.k8s.io", "v1", "roles", "role",
        short [], categories [], Namespaced, Plain, subresources [];
    /// Grants a role in a namespace to users.
    RoleBinding(rbac::v1::RoleBinding) = "rbac.authorization.k8s.io", "v1", "rolebindings", "rolebinding",
        short [], categories [], Namespaced, Plain, subresources [];
    /// Bounds and defaults of single objects in a namespace.
    LimitRange(core::v1::LimitRange) = "", "v1", "limitranges", "limitrange",
        short ["limits"], categories [], Namespaced, SpecOnly, subresources [];
    /// The limits on a namespace's total usage.
    ResourceQuota(core::v1::ResourceQuota) = "", "v1", "resourcequotas", "resourcequota",
        short ["quota"], categories [], Namespaced, SpecStatus, subresources [Status];
    /// Settings injected into new pods that match a selector.
    PodPreset(pod_preset::PodPreset) = "settings.k8s.io", "v1alpha1", "podpresets", "podpreset",
        short [], categories [], Namespaced, SpecOnly, subresources [];
    /// Settings for pods.
    ConfigMap(core::v1::ConfigMap) = "", "v1", "configmaps", "configmap",
        short ["cm"], categories [], Namespaced, Plain, subresources [];
    /// Secret settings for pods.
    Secret(core::v1::Secret) = "", "v1", "secrets", "secret",
        short [], categories [], Namespaced, Plain, subresources [];
    /// A request for storage.
    PersistentVolumeClaim(core::v1::PersistentVolumeClaim) = "", "v1", "persistentvolumeclaims", "persistentvolumeclaim",
        short ["pvc"], categories [], Namespaced, SpecStatus, subresources [Status];
    /// A request for devices.
    ResourceClaim(resource::v1::ResourceClaim) = "resource.k8s.io", "v1", "resourceclaims", "resourceclaim",
        short [], categories [], Namespaced, SpecStatus, subresources [Status];
    /// A template from which each pod gets ResourceClaims of its own.
    ResourceClaimTemplate(resource::v1::ResourceClaimTemplate) = "resource.k8s.io", "v1", "resourceclaimtemplates", "resourceclaimtemplate",
        short [], categories [], Namespaced, SpecOnly, subresources [];
    /// A stable address for a set of pods.
    Service(core::v1::Service) = "", "v1", "services", "service",
        short ["svc"], categories ["all"], Namespaced, SpecStatus, subresources [Status, Proxy];
    /// The pods behind a service, in the old form.
    Endpoints(core::v1::Endpoints) = "", "v1", "endpoints", "endpoints",
        short ["ep"], categories [], Namespaced, Plain, subresources [];
    /// The pods behind a service.
    EndpointSlice(discovery::v1::EndpointSlice) = "discovery.k8s.io", "v1", "endpointslices", "endpointslice",
        short [], categories [], Namespaced, Plain, subresources [];
    /// The most pods of a set that may be down at once.
    PodDisruptionBudget(policy::v1::PodDisruptionBudget) = "policy", "v1", "poddisruptionbudgets", "poddisruptionbudget",
        short ["pdb"], categories [], Namespaced, Generations, subresources [Status];
    /// Containers that run together.
    Pod(core::v1::Pod) = "", "v1", "pods", "pod",
        short ["po"], categories ["all"], Namespaced,
        Generations,
        subresources [Status, EphemeralContainers, Resize, Eviction, Binding, Log, Exec, Attach, PortForward, Proxy];
    /// Routes requests from outside to services.
    Ingress(networking::v1::Ingress) = "networking.k8s.io", "v1", "ingresses", "ingress",
        short ["ing"], categories [], Namespaced, Generations, subresources [Status];
    /// Restricts connections from and to pods.
    NetworkPolicy(networking::v1::NetworkPolicy) = "networking.k8s.io", "v1", "networkpolicies", "networkpolicy",
        short ["netpol"], categories [], Namespaced, SpecGenerations, subresources [];
    /// A number of equal pods.
    ReplicaSet(apps::v1::ReplicaSet) = "apps", "v1", "replicasets", "replicaset",
        short ["rs"], categories ["all"], Namespaced, Generations, subresources [Status, Scale];
    /// A number of equal pods that change version gradually.
    Deployment(apps::v1::Deployment) = "apps", "v1", "deployments", "deployment",
        short ["deploy"], categories ["all"], Namespaced, Generations, subresources [Status, Scale];
    /// A number of equal pods, in the form before ReplicaSets.
    ReplicationController(core::v1::ReplicationController) = "", "v1", "replicationcontrollers", "replicationcontroller",
        short ["rc"], categories ["all"], Namespaced, Generations, subresources [Status, Scale];
    /// A pod template that other objects refer to.
    PodTemplate(core::v1::PodTemplate) = "", "v1", "podtemplates", "podtemplate",
        short [], categories [], Namespaced, Plain, subresources [];
    /// An immutable copy of a template, to which a workload can be rolled back.
    ControllerRevision(apps::v1::ControllerRevision) = "apps", "v1", "controllerrevisions", "controllerrevision",
        short [], categories [], Namespaced, Plain, subresources [];
    /// Pods with a name and storage of their own.
    StatefulSet(apps::v1::StatefulSet) = "apps", "v1", "statefulsets", "statefulset",
        short ["sts"], categories ["all"], Namespaced, Generations, subresources [Status, Scale];
    /// One pod on every node.
    DaemonSet(apps::v1::DaemonSet) = "apps", "v1", "daemonsets", "daemonset",
        short ["ds"], categories ["all"], Namespaced, Generations, subresources [Status];
    /// Pods that run to their end.
    Job(batch::v1::Job) = "batch", "v1", "jobs", "job",
        short [], categories ["all"], Namespaced, Generations, subresources [Status];
    /// Jobs at set times.
    CronJob(batch::v1::CronJob) = "batch", "v1", "cronjobs", "cronjob",
        short ["cj"], categories ["all"], Namespaced, Generations, subresources [Status];
    /// Scales a workload by what its pods use.
    HorizontalPodAutoscaler(autoscaling::v2::HorizontalPodAutoscaler) = "autoscaling", "v2", "horizontalpodautoscalers", "horizontalpodautoscaler",
        short ["hpa"], categories ["all"], Namespaced, SpecStatus, subresources [Status];
    /// A request for a certificate.
    CertificateSigningRequest(certificates::v1::CertificateSigningRequest) = "certificates.k8s.io", "v1", "certificatesigningrequests", "certificatesigningrequest",
        short ["csr"], categories [], Cluster, SpecStatus, subresources [Status, Approval];
    /// Something that happened.
    Event(core::v1::Event) = "", "v1", "events", "event",
        short ["ev"], categories [], Namespaced, Plain, subresources [];
}

impl Kind {
    /// Returns the custom kind with these names, registering it if it is new. The singular name is the kind's in
    /// lower case; short names and categories belong to the definition.
    pub fn custom(group: &str, plural: &str, name: &str, scope: Scope) -> Result<Self, TooManyKinds> {
        let same =
            |i: &&KindInfo| i.plural == plural && i.group == group && i.name == name && i.scope == scope;
        let mut custom = CUSTOM.write();
        if let Some(known) = custom.iter().find(|info| same(info)) {
            return Ok(known.kind);
        }
        if custom.len() >= MAX_CUSTOM_KINDS {
            return Err(TooManyKinds);
        }
        let kind = Self((TABLE.len() + custom.len()) as u16);
        let leaked = |text: &str| -> &'static str { Box::leak(text.to_string().into_boxed_str()) };
        custom.push(Box::leak(Box::new(KindInfo {
            kind,
            name: leaked(name),
            group: leaked(group),
            version: "",
            plural: leaked(plural),
            singular: leaked(&name.to_lowercase()),
            short_names: &[],
            categories: &[],
            scope,
            counts_generations: true,
            subresources: &[],
        })));
        Ok(kind)
    }

    /// Returns every kind known to this process: the table's, and each custom kind it has ever registered, in any
    /// cluster.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLE.len() + CUSTOM.read().len()).map(|index| Self(index as u16))
    }

    /// Returns the name of a version of this kind, interned for the life of the process.
    pub fn version_name(self, name: &str) -> Result<&'static str, TooManyKinds> {
        static NAMES: LazyLock<RwLock<Vec<&'static str>>> = LazyLock::new(RwLock::default);
        let mut names = NAMES.write();
        if let Some(known) = names.iter().find(|known| **known == name) {
            return Ok(known);
        }
        if names.len() >= MAX_CUSTOM_KINDS {
            return Err(TooManyKinds);
        }
        let leaked: &'static str = Box::leak(name.to_string().into_boxed_str());
        names.push(leaked);
        Ok(leaked)
    }

    /// Returns the kind's identity.
    pub fn info(self) -> &'static KindInfo {
        match TABLE.get(self.index()) {
            Some(info) => info,
            None => CUSTOM.read()[self.index() - TABLE.len()],
        }
    }

    /// Returns true if the kind was registered at run time.
    pub fn is_custom(self) -> bool {
        self.index() >= TABLE.len()
    }

    /// Returns the kind's number: small, and constant while the process lives.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the built-in kind with this group, version and kind name.
    pub(crate) fn from_gvk(group: &str, version: &str, name: &str) -> Option<Self> {
        TABLE.iter().find(|i| i.group == group && i.version == version && i.name == name).map(|i| i.kind)
    }

    /// Returns the built-in kind of a manifest's `apiVersion` and `kind`.
    pub fn from_api_version(api_version: &str, name: &str) -> Option<Self> {
        let (group, version) = split_api_version(api_version);
        Self::from_gvk(group, version, name)
    }

    /// Returns the built-in kind served under this path.
    #[cfg(test)]
    pub(crate) fn from_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        TABLE.iter().find(|i| i.group == group && i.version == version && i.plural == plural).map(|i| i.kind)
    }

    /// Returns the built-in kind with this plural, singular, short or kind name, in any case.
    pub fn from_user_input(input: &str) -> Option<Self> {
        let input = input.to_ascii_lowercase();
        TABLE
            .iter()
            .find(|i| {
                i.plural == input
                    || i.singular == input
                    || i.short_names.contains(&input.as_str())
                    || i.qualified_plural() == input
            })
            .map(|i| i.kind)
    }

    /// Returns true if its objects live in namespaces.
    pub fn namespaced(self) -> bool {
        self.info().namespaced()
    }
}

/// Returns the group and the version of an `apiVersion`: `apps/v1`, or `v1` in the core group.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

/// Like [`split_api_version`], of a text that a user wrote; the error is the reason why it cannot be split.
pub fn parse_api_version(text: &str) -> Result<(&str, &str), String> {
    match split_api_version(text) {
        (group, _) if group.contains('/') => Err(format!("unexpected GroupVersion string: {text}")),
        split => Ok(split),
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_custom_kind_keeps_its_handle_api_7() {
        let custom = |plural, scope| Kind::custom("kind.test", plural, "Widget", scope).unwrap();
        let widget = custom("widgets", Scope::Namespaced);
        assert_eq!(custom("widgets", Scope::Namespaced), widget);
        assert_ne!(custom("widgets", Scope::Cluster), widget);
        assert_ne!(custom("gadgets", Scope::Namespaced), widget);
        assert!(widget.is_custom() && !Kind::BUILT_IN.contains(&widget));
        assert_eq!(
            (widget.to_string(), widget.info().qualified_plural()),
            ("Widget".into(), "widgets.kind.test".into())
        );
        assert_eq!(widget.info().kind, widget);
    }

    #[test]
    fn an_api_version_has_at_most_one_slash_api_8() {
        for (text, split) in
            [("v1", ("", "v1")), ("apps/v1", ("apps", "v1")), ("", ("", "")), ("/", ("", ""))]
        {
            assert_eq!(parse_api_version(text), Ok(split), "{text}");
        }
        let why = "unexpected GroupVersion string: a/b/c".to_owned();
        assert_eq!(parse_api_version("a/b/c"), Err(why));
    }

    #[test]
    fn every_word_finds_one_kind_api_7() {
        for info in TABLE {
            assert_eq!(TABLE[info.kind.index()].name, info.name);
            assert_eq!(Kind::from_path(info.group, info.version, info.plural), Some(info.kind));
            assert_eq!(Kind::from_api_version(&info.api_version(), info.name), Some(info.kind));
            for word in [info.plural, info.singular].iter().chain(info.short_names) {
                assert_eq!(Kind::from_user_input(word), Some(info.kind), "{word}");
            }
        }
        assert_eq!(Kind::from_user_input("Pods"), Some(Kind::Pod));
        assert_eq!(Kind::from_user_input("deployments.apps"), Some(Kind::Deployment));
        assert_eq!(Kind::from_api_version("apps/v2", "Deployment"), None);
    }
}
