//! The top-level types of the API: those of the table of kinds, and reviews and other types that are never stored.

use k8s_openapi::Resource;
use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates,
    coordination, core, discovery, events, flowcontrol, networking, node, policy, rbac, resource, scheduling,
    storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;

use object::pod_preset;

/// One top-level type.
pub struct Root {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The group's version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
}

impl Root {
    const fn of<T: Resource>() -> Self {
        Self { group: T::GROUP, version: T::VERSION, kind: T::KIND }
    }

    /// Returns the name of its schema, e.g. `io.k8s.api.apps.v1.Deployment`.
    pub fn schema(&self) -> String {
        let short = self.group.split('.').next().unwrap_or_default();
        let (origin, group) = match self.group {
            "" if self.kind == "Status" => ("apimachinery.pkg.apis", "meta"),
            "" => ("api", "core"),
            "apiextensions.k8s.io" => ("apiextensions-apiserver.pkg.apis", short),
            "apiregistration.k8s.io" => ("kube-aggregator.pkg.apis", short),
            _ => ("api", short),
        };
        format!("io.k8s.{origin}.{group}.{}.{}", self.version, self.kind)
    }
}

macro_rules! roots {
    ($($ty:ty),* $(,)?) => { &[$(Root::of::<$ty>()),*] };
}

/// The types of the built-in kinds.
const STORED: &[Root] = {
    macro_rules! stored {
        ($($kind:ident($ty:ty) $shape:ident)*) => { roots![$($ty),*] };
    }
    object::each_built_in!(stored)
};

/// Passes other versions of the built-in kinds, and types that are never stored, to another macro.
macro_rules! each_other {
    ($callback:ident) => {
        $callback![
            core::v1::Binding,
            core::v1::ComponentStatus,
            policy::v1::Eviction,
            autoscaling::v1::HorizontalPodAutoscaler,
            autoscaling::v1::Scale,
            events::v1::Event,
            authentication::v1::TokenRequest,
            authentication::v1::TokenReview,
            authentication::v1::SelfSubjectReview,
            authorization::v1::SubjectAccessReview,
            authorization::v1::SelfSubjectAccessReview,
            authorization::v1::SelfSubjectRulesReview,
            authorization::v1::LocalSubjectAccessReview,
            meta::v1::Status,
        ]
    };
}
#[cfg(all(test, feature = "schemas"))]
pub(super) use each_other;

const OTHERS: &[Root] = each_other!(roots);

/// Returns every top-level type.
pub fn all() -> impl Iterator<Item = &'static Root> {
    STORED.iter().chain(OTHERS)
}

/// The name of the schema of the request body of a DELETE.
pub const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Returns the root of a group, version and kind.
pub fn root_of(group: &str, version: &str, kind: &str) -> Option<&'static Root> {
    all().find(|r| r.kind == kind && r.version == version && r.group == group)
}
