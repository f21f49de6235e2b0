//! CustomResourceDefinitions: memory for each, and memory while the server serves all their schemas.
//!
//! The schemas are generated: nested objects as operators' code generators write them, with descriptions, patterns,
//! enums, formats, defaults and some CEL rules, from 30 to 100 kB of JSON.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use http_body_util::BodyExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube::client::Body;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::instance::{Instance, own_mib_of};
use super::report::Report;

const COUNT: usize = 500;
/// Size of the smallest and of the largest schema, in bytes of JSON.
const SMALLEST: usize = 30_000;
const LARGEST: usize = 100_000;

/// Limit of memory for each definition.
const GOAL_KB: f64 = 250.0;
/// Limit of additional memory while the server serves the whole OpenAPI document.
const GOAL_SERVING_MB: f64 = 40.0;

/// Time after which the allocator has returned freed memory.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Interval between two measurements of memory while a document is read.
const LOOK: Duration = Duration::from_millis(5);
const BYTES_PER_MIB: f64 = 1_048_576.0;
const TWO_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Creates the definitions and reads the documents.
pub(super) async fn run() -> Result<()> {
    let instance = Instance::start(&["--ephemeral", "--nodes", "0"]).await?;
    let client = instance.client().await?;
    // The difference of memory includes the cluster's one-time costs, so the figure for each definition is an upper
    // bound.
    tokio::time::sleep(SETTLE_TIME).await;
    let before = instance.own_mib()?;
    let (started, mut bytes) = (Instant::now(), 0);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut made = futures::stream::iter((0..COUNT).map(|n| {
        let (definition, length) = definition(n);
        bytes += length;
        let definitions = definitions.clone();
        async move {
            let definition = serde_json::from_value(definition)?;
            definitions.create(&PostParams::default(), &definition).await?;
            anyhow::Ok(())
        }
    }))
    .buffer_unordered(4);
    while let Some(created) = made.next().await {
        created?;
    }
    drop(made);
    established(&definitions).await?;
    let took = started.elapsed();
    tokio::time::sleep(SETTLE_TIME).await;
    let with = instance.own_mib()?;
    let each = |mib: f64| mib * BYTES_PER_MIB / 1000.0 / COUNT as f64;
    Report::alone("a definition's schema, JSON", "kB", bytes as f64 / 1000.0 / COUNT as f64);
    Report::alone("500 definitions created and established", "s", took.as_secs_f64());
    Report::against_limit("memory for each definition", "kB", each(with - before), "goal", GOAL_KB);
    let pid = instance.pid().context("the instance has ended")?;
    for (what, path, accept) in [
        ("more memory while /openapi/v3 is served", "/openapi/v3", None),
        ("more memory while /openapi/v2 is served", "/openapi/v2", None),
        ("more memory while its protobuf is served", "/openapi/v2", Some(TWO_PROTOBUF)),
    ] {
        // The documents that earlier requests have built stay, and count for each definition afterwards.
        tokio::time::sleep(SETTLE_TIME).await;
        let before_request = instance.own_mib()?;
        let started = Instant::now();
        let (length, most) = watched(pid, read(&client, path, accept)).await?;
        let more = (most - before_request) * BYTES_PER_MIB / 1e6;
        Report::against_limit(what, "MB", more, "goal", GOAL_SERVING_MB);
        Report::alone("  the document", "MB", length as f64 / 1e6);
        Report::alone("  time to read it the first time", "s", started.elapsed().as_secs_f64());
        let started = Instant::now();
        read(&client, path, accept).await?;
        Report::alone("  and again", "s", started.elapsed().as_secs_f64());
    }
    tokio::time::sleep(SETTLE_TIME).await;
    let after = each(instance.own_mib()? - before);
    Report::against_limit("memory for each definition afterwards", "kB", after, "goal", GOAL_KB);
    instance.stop().await
}

/// Waits until every definition is served.
async fn established(definitions: &Api<CustomResourceDefinition>) -> Result<()> {
    loop {
        let all = definitions.list_metadata(&ListParams::default()).await?;
        let last = all.items.iter().filter_map(|item| item.metadata.name.as_deref()).max();
        if let Some(last) = last.filter(|_| all.items.len() == COUNT) {
            let condition = kube::runtime::conditions::is_crd_established();
            kube::runtime::wait::await_condition(definitions.clone(), last, condition).await?;
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Reads a document to its end without retaining it, and returns its length.
async fn read(client: &kube::Client, path: &str, accept: Option<&str>) -> Result<usize> {
    let request = http::Request::get(path)
        .header(http::header::ACCEPT, accept.unwrap_or("application/json"))
        .body(Body::empty())?;
    let mut body = client.send(request).await?.into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame?.data_ref().map_or(0, bytes::Bytes::len);
    }
    Ok(length)
}

/// Returns the result of a future, and the maximum memory of the process while it ran, in MiB.
async fn watched<T>(pid: u32, work: impl Future<Output = Result<T>>) -> Result<(T, f64)> {
    let mut work = std::pin::pin!(work);
    let mut most = own_mib_of(pid)?;
    loop {
        tokio::select! {
            done = &mut work => return Ok((done?, most)),
            () = tokio::time::sleep(LOOK) => most = most.max(own_mib_of(pid)?),
        }
    }
}

/// Returns the definition of this number, and the length of its schema as JSON.
fn definition(n: usize) -> (Value, usize) {
    let size = SMALLEST + (LARGEST - SMALLEST) * n / (COUNT - 1);
    let mut writer = Writer { state: n as u64 + 1, fields: 0 };
    let mut properties = Map::new();
    let mut length = 0;
    while length < size {
        let section = writer.object(3);
        length += section.to_string().len();
        properties.insert(format!("section{}", properties.len()), section);
    }
    let schema = json!({"type": "object", "description": writer.text(12), "required": ["spec"], "properties": {
        "spec": {"type": "object", "description": writer.text(12), "properties": properties},
        "status": {"type": "object", "description": writer.text(12), "properties": {
            "replicas": {"type": "integer", "format": "int32"},
            "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {"type": "object", "required": ["type", "status"], "properties": {
                    "type": {"type": "string", "maxLength": 316},
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                    "message": {"type": "string", "maxLength": 32768}}}}}}}});
    let length = schema.to_string().len();
    let (group, kind) = (format!("team{}.bench.test", n % 50), format!("Thing{n}"));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things{n}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": format!("things{n}"), "singular": format!("thing{n}"), "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": [{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]}]},
    });
    (definition, length)
}

static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "the resource field specifies name of a reference to object which must be in same namespace when empty \
     defaults controller selector template policy value optional immutable after creation timeout seconds \
     before retry"
        .split(' ')
        .collect()
});

/// Generates schemas: different ones for different numbers, and always the same one for the same number.
struct Writer {
    state: u64,
    fields: usize,
}

impl Writer {
    fn next(&mut self, below: usize) -> usize {
        // A linear congruential generator: its text does not repeat, but is reproducible.
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % below
    }

    fn text(&mut self, word_count: usize) -> String {
        let words: Vec<&str> = (0..word_count).map(|_| WORDS[self.next(WORDS.len())]).collect();
        words.join(" ")
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut properties = Map::new();
        for _ in 0..3 + self.next(4) {
            self.fields += 1;
            let name = format!("{}{}", WORDS[self.next(WORDS.len())], self.fields);
            let word_count = 5 + self.next(20);
            let mut field = self.field(depth);
            field["description"] = self.text(word_count).into();
            properties.insert(name, field);
        }
        let mut object = json!({"type": "object", "properties": properties});
        if self.next(12) == 0 {
            let mut names = object["properties"].as_object().into_iter().flat_map(Map::keys);
            let (Some(first), Some(second)) = (names.next(), names.next()) else { return object };
            let rule = format!("!has(self.{first}) || has(self.{second})");
            object["x-kubernetes-validations"] = json!([{"rule": rule, "message": self.text(6)}]);
        }
        object
    }

    fn field(&mut self, depth: usize) -> Value {
        match self.next(if depth == 0 { 7 } else { 11 }) {
            0 => {
                json!({"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"})
            }
            1 => json!({"type": "string", "enum": ["Always", "IfNotPresent", "Never"], "default": "Always"}),
            2 => json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535}),
            3 => json!({"type": "boolean"}),
            4 => json!({"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}}),
            5 => {
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"})
            }
            6 => json!({"type": "string", "maxLength": 4096}),
            7 | 8 => json!({"type": "array", "maxItems": 16, "items": self.object(depth - 1)}),
            _ => self.object(depth - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_have_realistic_sizes_and_are_valid_perf_1() {
        for (n, size) in [(0, SMALLEST), (COUNT / 2, SMALLEST.midpoint(LARGEST)), (COUNT - 1, LARGEST)] {
            let (mut definition, length) = definition(n);
            // The server records it when it creates the definition.
            definition["status"] = json!({"storedVersions": ["v1"]});
            assert!((size..size + 15_000).contains(&length), "{n}: {length}");
            let mut object = object::Object::from_any_value(definition).unwrap();
            kinds::apply_defaults(&mut object);
            let faults = kinds::validate_create(&object);
            assert!(faults.is_empty(), "{n}: {faults:?}");
        }
    }
}
