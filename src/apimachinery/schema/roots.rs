//! The top-level types of the API, and their complete schemas.
//!
//! The types are those of the table of kinds, and reviews and other types that are never stored.

use k8s_openapi::Resource;
use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates,
    coordination, core, discovery, events, flowcontrol, networking, node, policy, rbac, resource, scheduling,
    storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use object::{cluster_snapshot, fault, node_fence, pod_preset, scenario};

/// One top-level type.
pub struct Root {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The group's version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The name of its schema, e.g. `io.k8s.api.apps.v1.Deployment`.
    pub schema: fn() -> String,
    add: fn(&mut SchemaGenerator),
}

const fn root<T: JsonSchema + Resource>() -> Root {
    Root {
        group: T::GROUP,
        version: T::VERSION,
        kind: T::KIND,
        schema: || T::schema_name().into_owned(),
        add: |generator| {
            generator.subschema_for::<T>();
        },
    }
}

macro_rules! roots {
    ($($ty:ty),* $(,)?) => { &[$(root::<$ty>()),*] };
}

/// The types of the built-in kinds.
const STORED: &[Root] = {
    macro_rules! stored {
        ($($kind:ident($ty:ty) $shape:ident)*) => { roots![$($ty),*] };
    }
    object::each_built_in!(stored)
};

/// Other versions of the built-in kinds, and types that are never stored.
const OTHERS: &[Root] = roots![
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
];

/// Returns every top-level type.
pub fn all() -> impl Iterator<Item = &'static Root> {
    STORED.iter().chain(OTHERS)
}

/// The name of the schema of the request body of a DELETE.
pub const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Returns the full schemas (with descriptions) of the given roots and of everything they refer to.
pub fn definitions<'a>(roots: impl IntoIterator<Item = &'a Root>) -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    for root in roots {
        (root.add)(&mut generator);
    }
    generator.subschema_for::<meta::v1::DeleteOptions>();
    generator.subschema_for::<meta::v1::Status>();
    generator.subschema_for::<meta::v1::ListMeta>();
    generator.subschema_for::<meta::v1::ObjectMeta>();
    generator.take_definitions(true)
}

/// Returns the root of a group, version and kind.
pub fn root_of(group: &str, version: &str, kind: &str) -> Option<&'static Root> {
    all().find(|r| r.kind == kind && r.version == version && r.group == group)
}
