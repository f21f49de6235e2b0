//! The verbs on collections, objects and their parts.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{Method, StatusCode};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusDetails};
use serde_json::{Value, json};

use super::negotiate::Form;
use super::request::{ResourceTarget, Wanted, not_allowed};
use super::respond::Answer;
use super::shown::Shown;
use super::table::{self, IncludeObject, TableMeta};
use super::{Server, body, list, logs, port_forward, proxy, sessions, watch};
use crate::api::write::Part;
use crate::api::{ApiError, Cause, DeleteOptions, Deleted, Propagation, WriteOptions};
use crate::object::{Key, Kind, Object, Revision, ServedKind, Subresource};

/// Answers a request about objects of a kind.
pub(super) async fn answer(
    server: &Server,
    target: ResourceTarget,
    request: Request,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    let method = request.method().clone();
    let key = target.key();
    match (target.subresource, key, method) {
        (None, _, Method::GET) if wanted.query.flag("watch") => watch::answer(server, &target, wanted),
        (None, None, Method::GET) => list_answer(server, &target, wanted),
        (None, None, Method::POST) => create(server, &target, request, wanted).await,
        (None, None, Method::DELETE) => delete_collection(server, &target, request, wanted).await,
        (None, Some(key), Method::GET) => get(server, target.served, &key, wanted),
        (None, Some(key), Method::PUT) => replace(server, &target, &key, Part::Main, request, wanted).await,
        (None, Some(key), Method::PATCH) => patch(server, &target, &key, Part::Main, request, wanted).await,
        (None, Some(key), Method::DELETE) => delete(server, &target, &key, request, wanted).await,
        (Some(part), Some(key), method) => {
            subresource(server, &target, &key, part, method, request, wanted).await
        }
        _ => Err(not_allowed()),
    }
}

async fn subresource(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    part: Subresource,
    method: Method,
    request: Request,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    // What is read and written as the object itself, of which only a part is taken.
    let written = match part {
        Subresource::Status => Some(Part::Status),
        Subresource::EphemeralContainers => Some(Part::EphemeralContainers),
        Subresource::Resize => Some(Part::Resize),
        _ => None,
    };
    if let Some(written) = written {
        return match method {
            Method::GET => get(server, target.served, key, wanted),
            Method::PUT => replace(server, target, key, written, request, wanted).await,
            Method::PATCH => patch(server, target, key, written, request, wanted).await,
            _ => Err(not_allowed()),
        };
    }
    match (part, method) {
        (Subresource::Scale, Method::GET) => {
            Answer::json(StatusCode::OK, &server.api().scale(target.kind(), key)?)
        }
        (Subresource::Scale, Method::PUT | Method::PATCH) => {
            change_scale(server, target, key, request, wanted).await
        }
        (Subresource::Eviction, Method::POST) => evict(server, key, request, wanted).await,
        (Subresource::Binding, Method::POST) => bind(server, key, request).await,
        (Subresource::Finalize, Method::PUT) => finalize(server, key, request, wanted).await,
        (Subresource::Token, Method::POST) => issue_token(server, key, request).await,
        (Subresource::Log, Method::GET) => logs::answer(server, key, &wanted.query).await,
        (Subresource::Exec | Subresource::Attach, Method::GET | Method::POST) => {
            sessions::answer(server, key, part, request, &wanted.query).await
        }
        (Subresource::PortForward, Method::GET | Method::POST) => {
            port_forward::answer(server, key, request, &wanted.query).await
        }
        (Subresource::Proxy, _) => proxy::answer(server, target.kind(), key, request).await,
        _ => Err(not_allowed()),
    }
}

/// One object in the form asked for.
pub(super) fn encode_one(
    served: ServedKind,
    form: Form,
    include: IncludeObject,
    now: Timestamp,
    object: &Arc<Object>,
) -> Bytes {
    match form {
        Form::Object => served.json(object),
        Form::Table => {
            let metadata =
                TableMeta { resource_version: object.revision().to_string(), ..TableMeta::default() };
            table::table(served, [&**object], include, &metadata, now).into()
        }
        Form::Metadata => {
            let mut value = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"});
            value["metadata"] = serde_json::to_value(object.meta()).unwrap_or_default();
            value.to_string().into()
        }
    }
}

fn answer_one(
    server: &Server,
    served: ServedKind,
    status: StatusCode,
    wanted: &Wanted,
    object: &Arc<Object>,
) -> Response {
    let now = server.api().clock().now();
    let bytes = encode_one(served, wanted.form, wanted.query.include_object(), now, object);
    Shown::up_to(object.revision(), Answer::bytes(status, bytes))
}

fn get(server: &Server, served: ServedKind, key: &Key, wanted: &Wanted) -> Result<Response, ApiError> {
    list::not_older_than(server.api(), &wanted.query)?;
    Ok(answer_one(server, served, StatusCode::OK, wanted, &server.api().get(served.kind(), key)?))
}

fn list_answer(server: &Server, target: &ResourceTarget, wanted: &Wanted) -> Result<Response, ApiError> {
    let page =
        server.inner.pages.page(server.api(), target.served, target.namespace.as_deref(), &wanted.query)?;
    let bytes = match wanted.form {
        Form::Object => list::encode(target.served, &page),
        Form::Table => {
            let metadata = TableMeta {
                resource_version: page.revision.to_string(),
                continue_token: page.next.clone().unwrap_or_default(),
                remaining_item_count: page.next.as_ref().map(|_| page.remaining as i64),
            };
            let (include, now) = (wanted.query.include_object(), server.api().clock().now());
            let objects = page.objects.iter().map(|o| &**o);
            table::table(target.served, objects, include, &metadata, now).into()
        }
        Form::Metadata => {
            let items: Vec<Value> = page
                .objects
                .iter()
                .map(|o| json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o.meta()}))
                .collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": list::metadata(&page), "items": items})
            .to_string()
            .into()
        }
    };
    Ok(Shown::up_to(page.revision, Answer::bytes(StatusCode::OK, bytes)))
}

/// What the request says about how to write, besides the object.
fn write_options(wanted: &Wanted) -> Result<WriteOptions, ApiError> {
    Ok(WriteOptions {
        dry_run: wanted.query.dry_run()?,
        field_manager: wanted.query.get("fieldManager").map(Into::into),
    })
}

/// The object a request carries, checked against its path, with warnings for the client.
fn read_object(
    target: &ResourceTarget,
    mut read: body::ReadValue,
    wanted: &Wanted,
) -> Result<(Object, Vec<String>), ApiError> {
    let kind = target.kind();
    let info = kind.info();
    let Some(fields) = read.value.as_object_mut() else {
        return Err(ApiError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind",
            info.name
        )));
    };
    let text = |fields: &serde_json::Map<String, Value>, key: &str| {
        fields.get(key).and_then(Value::as_str).unwrap_or_default().to_string()
    };
    let (api_version, name) = (text(fields, "apiVersion"), text(fields, "kind"));
    if !name.is_empty() && name != info.name {
        return Err(ApiError::BadRequest(format!(
            "{name} in version \"{api_version}\" cannot be handled as a {}: converting ({api_version}.{name}) to \
             ({}.{}): unknown conversion",
            info.name,
            target.served.version(),
            info.name
        )));
    }
    let expected = target.served.api_version();
    if !api_version.is_empty() && api_version != expected {
        return Err(ApiError::BadRequest(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    fields.insert("apiVersion".into(), expected.into());
    fields.insert("kind".into(), info.name.into());
    place(target, fields)?;
    let (object, warnings) = super::strict::object(target.served, read, &wanted.query)?;
    Ok((object, warnings))
}

/// Gives the object the namespace and name of its path, or refuses when it has others.
fn place(target: &ResourceTarget, fields: &mut serde_json::Map<String, Value>) -> Result<(), ApiError> {
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return Ok(()) };
    let given = |metadata: &serde_json::Map<String, Value>, key: &str| {
        metadata.get(key).and_then(Value::as_str).filter(|v| !v.is_empty()).map(ToString::to_string)
    };
    if let Some(namespace) = &target.namespace {
        if given(metadata, "namespace").is_some_and(|n| n != *namespace) {
            return Err(ApiError::BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request"
                    .into(),
            ));
        }
        metadata.insert("namespace".into(), namespace.clone().into());
    }
    if let Some(name) = &target.name {
        match given(metadata, "name") {
            Some(other) if other != *name => {
                return Err(ApiError::BadRequest(format!(
                    "the name of the object ({other}) does not match the name on the URL ({name})"
                )));
            }
            _ => metadata.insert("name".into(), name.clone().into()),
        };
    }
    Ok(())
}

async fn create(
    server: &Server,
    target: &ResourceTarget,
    request: Request,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    if target.kind().namespaced() && target.namespace.is_none() {
        return Err(not_allowed());
    }
    let options = write_options(wanted)?;
    let read = body::read_value(request).await?;
    let (object, warnings) = read_object(target, read, wanted)?;
    let stored = server.api().create(object, &options)?;
    answer_written(server, target.served, StatusCode::CREATED, wanted, &options, &stored, &warnings).await
}

async fn replace(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    part: Part,
    request: Request,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    let options = write_options(wanted)?;
    let read = body::read_value(request).await?;
    let (object, warnings) = read_object(target, read, wanted)?;
    let stored = server.api().change(target.kind(), key, part, &options, |_| Ok(object.clone()))?;
    answer_written(server, target.served, StatusCode::OK, wanted, &options, &stored, &warnings).await
}

async fn patch(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    part: Part,
    request: Request,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    let options = write_options(wanted)?;
    let patch = super::patching::Patch::read(request).await?;
    let mut warnings = Vec::new();
    let stored = server.api().change(target.kind(), key, part, &options, |current| {
        let value = patch.apply(target.served, &target.served.value(current))?;
        let read = body::ReadValue { value, duplicates: Vec::new() };
        let (object, warned) = read_object(target, read, wanted)?;
        warnings = warned;
        Ok(object)
    })?;
    answer_written(server, target.served, StatusCode::OK, wanted, &options, &stored, &warnings).await
}

/// The object as it was stored, once it is durable, with what the client should know of it.
async fn answer_written(
    server: &Server,
    served: ServedKind,
    status: StatusCode,
    wanted: &Wanted,
    options: &WriteOptions,
    stored: &Arc<Object>,
    warnings: &[String],
) -> Result<Response, ApiError> {
    server.settle(stored, options).await?;
    Ok(Answer::warn(answer_one(server, served, status, wanted, stored), warnings))
}

/// Reads a request's deletion options, from its body or its query.
async fn delete_options(request: Request, wanted: &Wanted) -> Result<DeleteOptions, ApiError> {
    let body = body::read_optional_value(request).await?.unwrap_or_else(|| json!({}));
    parse_delete_options(&body, wanted)
}

fn parse_delete_options(body: &Value, wanted: &Wanted) -> Result<DeleteOptions, ApiError> {
    let query = &wanted.query;
    let policy =
        body.get("propagationPolicy").and_then(Value::as_str).or_else(|| query.get("propagationPolicy"));
    let orphan = body.get("orphanDependents").and_then(Value::as_bool);
    let propagation = match (policy, orphan) {
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (None, None) => None,
        (Some(other), _) => {
            return Err(ApiError::InvalidOptions {
                options: "DeleteOptions",
                group: "meta.k8s.io",
                causes: vec![Cause {
                    reason: "FieldValueNotSupported".into(),
                    message: format!(
                        "Unsupported value: \"{other}\": supported values: \"Foreground\", \"Background\", \
                         \"Orphan\", \"nil\""
                    ),
                    field: "propagationPolicy".into(),
                }],
            });
        }
    };
    let preconditions = body.get("preconditions");
    let precondition = |name: &str| preconditions.and_then(|p| p.get(name)).and_then(Value::as_str);
    let dry_run_in_body = body.get("dryRun").and_then(Value::as_array).is_some_and(|d| !d.is_empty());
    Ok(DeleteOptions {
        grace_period_seconds: match body.get("gracePeriodSeconds").and_then(Value::as_i64) {
            Some(seconds) => Some(seconds),
            None => query.number("gracePeriodSeconds")?,
        },
        uid: precondition("uid").map(Into::into),
        resource_version: precondition("resourceVersion").and_then(|v| v.parse().ok()).map(Revision),
        propagation,
        dry_run: dry_run_in_body || query.dry_run()?,
    })
}

async fn delete(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    request: Request,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    let (options, warnings) = with_default_propagation(target.kind(), delete_options(request, wanted).await?);
    let deleted = server.api().delete(target.kind(), key, &options)?;
    let writes = WriteOptions { dry_run: options.dry_run, ..WriteOptions::default() };
    server.settle(deleted.object(), &writes).await?;
    let answer = match deleted {
        // As Kubernetes: a pod is always shown as it was left.
        Deleted::Removed(object) if target.kind() != Kind::Pod => {
            Answer::json(StatusCode::OK, &success(target.kind(), &object))?
        }
        Deleted::Removed(object) | Deleted::Terminating(object) => {
            answer_one(server, target.served, StatusCode::OK, wanted, &object)
        }
    };
    Ok(Answer::warn(answer, &warnings))
}

/// A client that does not say what becomes of the pods of these older kinds keeps them, as it always did.
fn with_default_propagation(kind: Kind, mut options: DeleteOptions) -> (DeleteOptions, Vec<String>) {
    let mut warnings = Vec::new();
    if options.propagation.is_none() && matches!(kind, Kind::Job | Kind::ReplicationController) {
        options.propagation = Some(Propagation::Orphan);
        if kind == Kind::Job {
            warnings.push(
                "child pods are preserved by default when jobs are deleted; set \
                 propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress \
                 this warning"
                    .to_string(),
            );
        }
    }
    (options, warnings)
}

fn success(kind: Kind, object: &Object) -> Status {
    Status {
        status: Some("Success".into()),
        details: Some(StatusDetails {
            name: Some(object.name().into()),
            group: Some(kind.info().group.into()).filter(|g: &String| !g.is_empty()),
            kind: Some(kind.info().plural.into()),
            uid: Some(object.uid().into()),
            ..StatusDetails::default()
        }),
        ..Status::default()
    }
}

async fn delete_collection(
    server: &Server,
    target: &ResourceTarget,
    request: Request,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    if target.kind().namespaced() && target.namespace.is_none() {
        return Err(not_allowed());
    }
    let selection = wanted.query.selection(target.served)?;
    let (options, warnings) = with_default_propagation(target.kind(), delete_options(request, wanted).await?);
    let deleted =
        server.api().delete_collection(target.kind(), target.namespace.as_deref(), &selection, &options)?;
    let revision = server.api().revision();
    server.api().durable(revision).await?;
    let page = list::Page { revision, objects: deleted, next: None, remaining: 0 };
    Ok(Answer::warn(Answer::bytes(StatusCode::OK, list::encode(target.served, &page)), &warnings))
}

async fn change_scale(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    request: Request,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    let options = write_options(wanted)?;
    let decode = |value: Value| -> Result<Scale, ApiError> {
        serde_json::from_value(value).map_err(|e| ApiError::BadRequest(format!("Scale cannot be read: {e}")))
    };
    let scale = if request.method() == Method::PUT {
        let scale = decode(body::read_value(request).await?.value)?;
        server.api().change_scale(target.kind(), key, &options, |_| Ok(scale.clone()))?
    } else {
        let patch = super::patching::Patch::read(request).await?;
        server.api().change_scale(target.kind(), key, &options, |current| {
            let current = serde_json::to_value(current).map_err(|e| ApiError::Internal(e.to_string()))?;
            decode(patch.apply_to_scale(&current)?)
        })?
    };
    server.api().durable(server.api().revision()).await?;
    Answer::json(StatusCode::OK, &scale)
}

async fn evict(server: &Server, key: &Key, request: Request, wanted: &Wanted) -> Result<Response, ApiError> {
    let body = body::read_optional_value(request).await?.unwrap_or_else(|| json!({}));
    let inner = body.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
    let mut options = parse_delete_options(&inner, wanted)?;
    options.dry_run |= wanted.query.dry_run()?;
    server.api().evict(key, &options)?;
    server.api().durable(server.api().revision()).await?;
    Answer::json(
        StatusCode::CREATED,
        &Status { status: Some("Success".into()), code: Some(201), ..Status::default() },
    )
}

async fn bind(server: &Server, key: &Key, request: Request) -> Result<Response, ApiError> {
    let body = body::read_value(request).await?.value;
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let node = text("/target/name");
    if node.is_empty() {
        return Err(ApiError::Invalid {
            kind: Kind::Pod,
            name: key.name.clone(),
            causes: vec![Cause {
                reason: "FieldValueRequired".into(),
                message: "Required value".into(),
                field: "target.name".into(),
            }],
        });
    }
    let bound = server.api().bind(key, text("/metadata/uid"), node)?;
    server.api().durable(bound.object().revision()).await?;
    Answer::json(
        StatusCode::CREATED,
        &Status { status: Some("Success".into()), code: Some(201), ..Status::default() },
    )
}

async fn issue_token(server: &Server, account: &Key, request: Request) -> Result<Response, ApiError> {
    let body = body::read_value(request).await?.value;
    let request = serde_json::from_value(body)
        .map_err(|error| ApiError::BadRequest(format!("TokenRequest cannot be read: {error}")))?;
    Answer::json(StatusCode::CREATED, &server.api().issue_token(account, request)?)
}

async fn finalize(
    server: &Server,
    key: &Key,
    request: Request,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    use k8s_openapi::api::core::v1::Namespace;
    let body = body::read_value(request).await?.value;
    let finalizers: Option<Vec<String>> =
        body.pointer("/spec/finalizers").and_then(|f| serde_json::from_value(f.clone()).ok());
    let stored =
        server.api().change(Kind::Namespace, key, Part::System, &write_options(wanted)?, |current| {
            let mut next = current.clone();
            if let Some(namespace) = next.get_mut::<Namespace>() {
                namespace.spec.get_or_insert_default().finalizers =
                    finalizers.clone().filter(|f| !f.is_empty());
            }
            Ok(next)
        })?;
    server.settle(&stored, &WriteOptions::default()).await?;
    Ok(answer_one(server, Kind::Namespace.into(), StatusCode::OK, wanted, &stored))
}

impl Server {
    /// Waits until what was written survives a crash; a dry run wrote nothing.
    async fn settle(&self, stored: &Arc<Object>, options: &WriteOptions) -> Result<(), ApiError> {
        if options.dry_run {
            return Ok(());
        }
        Ok(self.api().durable(stored.revision()).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_leave_their_pods_to_a_client_that_says_nothing_job_1() {
        let told = |kind, propagation| {
            let options = DeleteOptions { propagation, ..DeleteOptions::default() };
            let (options, warnings) = with_default_propagation(kind, options);
            (options.propagation, warnings.len())
        };
        let background = Some(Propagation::Background);
        assert_eq!(told(Kind::Job, None), (Some(Propagation::Orphan), 1));
        assert_eq!(told(Kind::ReplicationController, None), (Some(Propagation::Orphan), 0));
        assert_eq!(told(Kind::Job, background), (background, 0));
        assert_eq!(told(Kind::Deployment, None), (None, 0));
    }
}
