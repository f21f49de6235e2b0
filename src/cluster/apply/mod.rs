//! Applies manifests to a running cluster and deletes their objects, over its API (CLI-4, API-12). Used by
//! `podium apply`, `podium delete`, `-f`, clusters of tests and controller trials.
//!
//! Applying is `kubectl apply`'s three-way merge with the same annotation, so that both can be used in turn.

mod removal;
mod resolve_kind;
mod warnings;

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, bail};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use parking_lot::Mutex;
use serde_json::{Value, json};

use manifest::Document;
use object::ServedKind;
use object::names::path_segment;
use object::well_known::annotation::LAST_APPLIED;
pub use warnings::Warnings;

/// The namespace of objects that specify none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The query of a dry run.
const DRY_RUN: &str = "fieldManager=podium&fieldValidation=Strict&dryRun=All";

/// Selects whether subdirectories are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only the files of the directory itself.
    Flat,
    /// Every directory below.
    Recursive,
}

/// Selects what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Create and change objects.
    Write,
    /// Ask the server for the result without writing anything.
    DryRun,
    /// Create missing objects; existing ones stay as they are.
    Missing,
}

/// The outcome of applying one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object was missing.
    Created,
    /// The object was changed.
    Configured,
    /// The object already matched its manifest.
    Unchanged,
    /// The object differs from its manifest and was not changed.
    Left,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
            Self::Left => "not changed",
        })
    }
}

/// The outcomes of applying manifests.
#[derive(Debug, Default)]
pub struct ApplySummary {
    created: usize,
    configured: usize,
    unchanged: usize,
    /// Objects that differ from their manifests and were not changed, as kubectl names them.
    skipped: Vec<String>,
}

/// The maximum number of skipped objects that the summary names.
const NAMED: usize = 6;

impl ApplySummary {
    fn take(&mut self, object: &str, outcome: Outcome) {
        match outcome {
            Outcome::Created => self.created += 1,
            Outcome::Configured => self.configured += 1,
            Outcome::Unchanged => self.unchanged += 1,
            Outcome::Left => self.skipped.push(object.to_owned()),
        }
    }

    /// Returns true if some objects differ from their manifests and were not changed.
    pub fn leaves_some(&self) -> bool {
        !self.skipped.is_empty()
    }
}

impl fmt::Display for ApplySummary {
    /// `9 created, 2 unchanged; not changed, though their manifests differ: deployment.apps/web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts =
            [(self.created, "created"), (self.configured, "configured"), (self.unchanged, "unchanged")];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&counts.join(", "))?;
        if self.skipped.is_empty() {
            return Ok(());
        }
        let names = self.skipped.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = self.skipped.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let end = if counts.is_empty() { "" } else { "; " };
        write!(f, "{end}not changed, though their manifests differ: {names}{more}")
    }
}

/// Reads manifest files, in the order in which they should be applied. The error lists all errors.
pub fn read_files(paths: &[PathBuf], depth: Depth) -> Result<Vec<Document>> {
    let (documents, errors) = read(paths, depth);
    match errors.as_slice() {
        [] => Ok(documents),
        errors => bail!(errors.join("\n")),
    }
}

/// Reads manifest files; returns the valid documents, and the errors of the others.
pub fn read(paths: &[PathBuf], depth: Depth) -> (Vec<Document>, Vec<String>) {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    let (documents, errors) = manifest::read_all(&paths, depth == Depth::Recursive);
    let mut errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    // For a group that is not built in, the server must decide whether the kind exists.
    let (known, unknown): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(|d| d.kind().is_ok() || d.is_of_another_group());
    errors.extend(unknown.iter().filter_map(|d| d.kind().err()).map(|e| e.to_string()));
    (known, errors)
}

/// Applies documents. An invalid one does not prevent the others; the error lists all errors.
pub async fn apply_documents(
    client: &Client,
    documents: Vec<Document>,
    namespace: &str,
    mode: Mode,
) -> Result<ApplySummary> {
    // Warnings go to the log, because the console may own the terminal.
    let warnings = Warnings::new(|text| tracing::warn!("{text}"));
    let applied = Mutex::new(ApplySummary::default());
    let count = |object: &str, outcome| applied.lock().take(object, outcome);
    let errors = apply_all(client, &documents, namespace, mode, &warnings, count).await;
    if errors.is_empty() { Ok(applied.into_inner()) } else { bail!(errors.join("\n")) }
}

/// Applies documents one by one, and reports the outcome of each object. Returns the errors, each with its position.
pub async fn apply_all(
    client: &Client,
    documents: &[Document],
    namespace: &str,
    mode: Mode,
    warnings: &Warnings,
    report: impl Fn(&str, Outcome),
) -> Vec<String> {
    let mut errors = Vec::new();
    for document in documents {
        match apply_document(client, document, documents, namespace, mode, warnings).await {
            Ok((object, outcome)) => report(&object, outcome),
            Err(error) => errors.extend(error),
        }
    }
    errors
}

/// Applies one of several documents; returns the object as kubectl names it, and the outcome. Waits for a kind that
/// another of the documents defines. The error has its position; it is `None` if the kind is unknown, which reading
/// manifests reports.
pub async fn apply_document(
    client: &Client,
    document: &Document,
    documents: &[Document],
    namespace: &str,
    mode: Mode,
    warnings: &Warnings,
) -> Result<(String, Outcome), Option<String>> {
    // A dry run creates no CustomResourceDefinitions, so no kind will appear that it could wait for.
    let beside = if mode == Mode::DryRun { &[] } else { documents };
    let unknown = || document.served().err().map(|error| error.to_string());
    let served = resolve_kind(client, document, beside, unknown).await?;
    let applied = apply_one(client, document, served, namespace, mode, warnings).await;
    let outcome = applied.map_err(|error| Some(with_positions(document, &error)))?;
    Ok((label(document, served), outcome))
}

/// Resolves a document's kind with [`resolve_kind::served`]. Fails with the server's error at the document's position,
/// or, if the kind is neither built in nor served, with the result of `unknown`.
async fn resolve_kind(
    client: &Client,
    document: &Document,
    beside: &[Document],
    unknown: impl FnOnce() -> Option<String>,
) -> Result<ServedKind, Option<String>> {
    let served = resolve_kind::served(client, document, beside).await;
    served.map_err(|error| Some(with_positions(document, &error)))?.ok_or_else(unknown)
}

/// `deployment.apps/web`, as kubectl names objects.
fn label(document: &Document, served: ServedKind) -> String {
    let name = document.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("");
    let info = served.kind().info();
    if info.group.is_empty() {
        format!("{}/{name}", info.singular)
    } else {
        format!("{}.{}/{name}", info.singular, info.group)
    }
}

/// Formats the server's error at the position of each field that it names.
fn with_positions(document: &Document, error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else { return document.error("", error.to_string()).to_string() };
    let causes = status.details.as_ref().map(|d| d.causes.as_slice()).unwrap_or_default();
    let fields: Vec<String> = causes
        .iter()
        .filter(|cause| !cause.field.is_empty())
        .map(|cause| document.error(&cause.field, cause.message.clone()).to_string())
        .collect();
    if !fields.is_empty() {
        return fields.join("\n");
    }
    document.error(named_field(&status.message), status.message.clone()).to_string()
}

/// The path of the field that a decoding error names; empty if it names none.
fn named_field(message: &str) -> &str {
    // `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
    if let Some((_, rest)) = message.split_once("Go struct field ") {
        let field = rest.split_once(" of type ").map_or(rest, |(field, _)| field);
        return field.split_once('.').map_or("", |(_, path)| path);
    }
    // `strict decoding error: unknown field "spec.replicaz"` names its field in quotes.
    let quoted = message.split('"').skip(1).step_by(2);
    quoted.into_iter().find(|part| part.contains('.') && !part.contains(' ')).unwrap_or("")
}

/// The API paths of an object's collection and of the object.
fn paths(served: ServedKind, namespace: &str, name: &str) -> (String, String) {
    let (info, group) = (served.kind().info(), served.group());
    let root = if group.is_empty() { "/api".to_string() } else { format!("/apis/{group}") };
    let place =
        if info.namespaced() { format!("/namespaces/{}", path_segment(namespace)) } else { String::new() };
    let collection = format!("{root}/{}{place}/{}", served.version(), info.plural);
    let own = format!("{collection}/{}", path_segment(name));
    (collection, own)
}

async fn apply_one(
    client: &Client,
    document: &Document,
    served: ServedKind,
    namespace: &str,
    mode: Mode,
    warnings: &Warnings,
) -> Result<Outcome, kube::Error> {
    let send = async |method, path: &str, media_type, body: &Value| {
        answered(client, request(method, path, media_type, body.to_string().into_bytes())?, warnings).await
    };
    let mut object = document.value.clone();
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_string()
    };
    let own_namespace = text(&object, "/metadata/namespace");
    let namespace = if own_namespace.is_empty() { namespace } else { &own_namespace };
    let name = text(&object, "/metadata/name");
    let (collection, own) = paths(served, namespace, &name);
    let query = match mode {
        Mode::Write | Mode::Missing => "fieldManager=podium&fieldValidation=Strict",
        Mode::DryRun => DRY_RUN,
    };
    remember(&mut object);
    if name.is_empty() {
        // With `generateName` there is no existing object to merge with.
        send(Method::POST, &format!("{collection}?{query}"), "application/json", &object).await?;
        return Ok(Outcome::Created);
    }
    match get(client, &own, warnings).await? {
        None => {
            let created =
                send(Method::POST, &format!("{collection}?{query}"), "application/json", &object).await;
            match created {
                // A controller created the object first.
                Err(kube::Error::Api(status)) if status.code == 409 && mode == Mode::Missing => {
                    Ok(Outcome::Unchanged)
                }
                created => created.map(|_| Outcome::Created),
            }
        }
        Some(current) => {
            let last = current
                .pointer("/metadata/annotations")
                .and_then(|a| a.get(LAST_APPLIED))
                .and_then(Value::as_str)
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_else(|| json!({}));
            let patch = removal::patch(served, &last, &object);
            let media_type = if served.kind().is_custom() {
                "application/merge-patch+json"
            } else {
                "application/strategic-merge-patch+json"
            };
            if mode == Mode::Missing {
                let would_be = send(Method::PATCH, &format!("{own}?{DRY_RUN}"), media_type, &patch).await;
                // A patch that the server refuses must not prevent the start: the object stays as it is.
                let is_same = would_be.is_ok_and(|would_be| content(&would_be) == content(&current));
                return Ok(if is_same { Outcome::Unchanged } else { Outcome::Left });
            }
            let stored = send(Method::PATCH, &format!("{own}?{query}"), media_type, &patch).await?;
            let version = |object: &Value| object.pointer("/metadata/resourceVersion").cloned();
            let is_same = version(&stored) == version(&current);
            Ok(if is_same { Outcome::Unchanged } else { Outcome::Configured })
        }
    }
}

/// Removes the server's counters and the last-applied annotation from a copy of the object, for comparison.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "generation", "managedFields"] {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

/// Stores the manifest in the object's last-applied annotation.
fn remember(object: &mut Value) {
    let text = format!("{object}\n");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(LAST_APPLIED.into(), text.into());
        }
    }
}

async fn get(client: &Client, path: &str, warnings: &Warnings) -> Result<Option<Value>, kube::Error> {
    match answered(client, request(Method::GET, path, "", Vec::new())?, warnings).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends a request and returns the response's JSON; reports the response's warnings.
async fn answered(
    client: &Client,
    request: Request<Vec<u8>>,
    warnings: &Warnings,
) -> Result<Value, kube::Error> {
    let response = client.send(request.map(Body::from)).await?;
    warnings.take(response.headers());
    let code = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if code.is_success() {
        return serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
    }
    let status = base::json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        // The response is not a Status: a proxy between client and server may have sent it.
        let text = String::from_utf8_lossy(&body);
        Status::failure(text.trim(), "Failed to parse error data").with_code(code.as_u16())
    });
    Err(kube::Error::Api(status.boxed()))
}

fn request(
    method: Method,
    path: &str,
    media_type: &str,
    body: Vec<u8>,
) -> Result<Request<Vec<u8>>, kube::Error> {
    Request::builder()
        .method(method)
        .uri(
            percent_encoding::utf8_percent_encode(path, percent_encoding::CONTROLS)
                .to_string()
                .replace(' ', "%20"),
        )
        .header(http::header::CONTENT_TYPE, media_type)
        .body(body)
        .map_err(kube::Error::HttpError)
}

/// Deletes the objects that the documents name, in reverse order, and reports each deletion. Returns the errors, each
/// with its position.
pub async fn delete_all(
    client: &Client,
    documents: &[Document],
    namespace: &str,
    mode: Mode,
    warnings: &Warnings,
    report: impl Fn(&str),
) -> Vec<String> {
    let mut errors = Vec::new();
    for document in documents.iter().rev() {
        let unknown = || Some(format!("{} not found", document.label()));
        let served = match resolve_kind(client, document, &[], unknown).await {
            Ok(served) => served,
            Err(error) => {
                errors.extend(error);
                continue;
            }
        };
        let name = document.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            // Without a name the path would be the collection's, and all of its objects would be deleted.
            let message = "required to delete an object; generateName names none";
            errors.push(document.error("metadata.name", message).to_string());
            continue;
        }
        match delete_one(client, document, served, namespace, name, mode, warnings).await {
            Ok(true) => report(&format!("{} deleted", label(document, served))),
            Ok(false) => errors.push(format!("{} not found", label(document, served))),
            Err(error) => errors.push(with_positions(document, &error)),
        }
    }
    errors
}

/// Deletes one object. Returns false if it did not exist.
async fn delete_one(
    client: &Client,
    document: &Document,
    served: ServedKind,
    namespace: &str,
    name: &str,
    mode: Mode,
    warnings: &Warnings,
) -> Result<bool, kube::Error> {
    let text = |pointer: &str| document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = Some(text("/metadata/namespace")).filter(|n| !n.is_empty()).unwrap_or(namespace);
    let (_, own) = paths(served, namespace, name);
    let path = if mode == Mode::DryRun { format!("{own}?dryRun=All") } else { own };
    let options = json!({"propagationPolicy": "Background"}).to_string().into_bytes();
    match answered(client, request(Method::DELETE, &path, "application/json", options)?, warnings).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}
