//! Generates the complete schemas from those of `k8s-openapi`, to compare `schemas.txt.gz` with them.

mod pod_preset;

use std::fmt::Write as _;

use flate2::{Compression, GzBuilder};
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

use super::{complete, roots};

/// The schema of one top-level type.
struct RootSchema {
    name: fn() -> String,
    add: fn(&mut SchemaGenerator),
}

impl RootSchema {
    const fn of<T: JsonSchema>() -> Self {
        Self {
            name: || T::schema_name().into_owned(),
            add: |generator| {
                generator.subschema_for::<T>();
            },
        }
    }
}

macro_rules! schemas {
    ($($ty:ty),* $(,)?) => { &[$(RootSchema::of::<$ty>()),*] };
}

const STORED: &[RootSchema] = {
    macro_rules! stored {
        ($($kind:ident($ty:ty) $shape:ident)*) => { schemas![$($ty),*] };
    }
    object::each_built_in!(stored)
};

const OTHERS: &[RootSchema] = roots::each_other!(schemas);

/// Returns all schemas.
fn definitions() -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    for root in STORED.iter().chain(OTHERS) {
        (root.add)(&mut generator);
    }
    generator.subschema_for::<meta::v1::DeleteOptions>();
    generator.subschema_for::<meta::v1::ListMeta>();
    generator.subschema_for::<meta::v1::ObjectMeta>();
    generator.take_definitions(true)
}

#[test]
fn roots_have_the_names_of_their_schemas_api_2() {
    let names = STORED.iter().chain(OTHERS).map(|root| (root.name)());
    let expected: Vec<String> = names.collect();
    let found: Vec<String> = roots::all().map(roots::Root::schema).collect();
    assert_eq!(found, expected);
}

/// After a change of the kinds or of `k8s-openapi`, `UPDATE_SCHEMAS=1 cargo test -p podium-apimachinery --features schemas schemas_are`
/// regenerates the file.
#[test]
fn the_complete_schemas_are_those_of_the_library_api_2() {
    let mut expected = String::new();
    for (name, schema) in &definitions() {
        writeln!(expected, "{name} {schema}").expect("a text takes all");
    }
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/schemas.txt.gz");
        let file = std::fs::File::create(path).expect("the source can be written");
        let mut encoder = GzBuilder::new().mtime(0).write(file, Compression::best());
        std::io::Write::write_all(&mut encoder, expected.as_bytes()).expect("the source can be written");
        encoder.finish().expect("the source can be written");
        return;
    }
    let text = complete::text();
    let mut lines = text.lines();
    for line in expected.lines() {
        assert_eq!(
            lines.next(),
            Some(line),
            "UPDATE_SCHEMAS=1 writes src/apimachinery/schema/schemas.txt.gz anew"
        );
    }
    assert_eq!(lines.next(), None);
}
