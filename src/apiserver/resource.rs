//! The verbs on collections, objects and their subresources.

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Binding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusDetails};
use serde_json::Value;

use super::discovery::{returns_deleted, verbs};
use super::durability::ShownRevision;
use super::ephemeral_containers;
use super::object_response::{respond_with_object, respond_with_scale, respond_with_stored, scale_in};
use super::request::ResourceTarget;
use super::request_object::{check_name, read_object};
use super::respond::Responder;
use super::response_format::{ResponseFormat, not_allowed};
use super::upgrade::Upgrade;
use super::{
    Server, body, collection, connect_options, list, logs, node_proxy, pod_network, port_forward, proxy,
    server_side_apply, sessions, upgrade, watch, watch_socket, write_options,
};
use api::Part;
use api::admission::Operation;
use api::conversion::Source;
use api::warning_recorder::WarningRecorder;
use api::{ApiError, DeleteOptions, DeleteOutcome, WriteOptions, authorization, object_checks};
use apimachinery::validate::{FieldErrors, Path};
use kinds::Strategy;
use object::{Key, Kind, Object, ServedKind, Subresource};

/// The group of events in their new form, which has rules of its own.
const EVENTS_GROUP: &str = "events.k8s.io";

/// Handles a request about a kind's objects.
pub(super) async fn handle(
    server: &Server,
    target: ResourceTarget,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let method = request.method().clone();
    let key = target.key();
    match (target.subresource, key, method) {
        (None, _, Method::GET) if target.is_watch(&Method::GET, &format.query) => {
            let events = watch::handle(server, &target, format)?;
            if upgrade::is_web_socket(request.headers()) {
                watch_socket::handle(server, Upgrade::of(request)?, events)
            } else {
                Ok(events)
            }
        }
        _ if target.watched => Err(not_allowed()),
        (None, None, Method::GET) => list_response(server, &target, format).await,
        (None, None, Method::POST) => create(server, &target, request, format).await,
        (None, None, Method::DELETE) => delete_collection(server, &target, request, format).await,
        (None, Some(key), Method::GET) => get(server, target.served, &key, format).await,
        (None, Some(key), Method::PUT) => replace(server, &target, &key, Part::Main, request, format).await,
        (None, Some(key), Method::PATCH) => patch(server, &target, &key, Part::Main, request, format).await,
        (None, Some(key), Method::DELETE) => delete(server, &target, &key, request, format).await,
        (Some(part), Some(key), method) => {
            subresource(server, &target, &key, part, method, request, format).await
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
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    // These subresources are read and written as the whole object; a write takes only its own part of the
    // body.
    let written = match part {
        Subresource::Status => Some(Part::Status),
        Subresource::EphemeralContainers => Some(Part::EphemeralContainers),
        Subresource::Resize => Some(Part::Resize),
        Subresource::Approval => Some(Part::Approval),
        _ => None,
    };
    if let Some(written) = written {
        return match method {
            Method::GET => get(server, target.served, key, format).await,
            Method::PUT => replace(server, target, key, written, request, format).await,
            Method::PATCH => patch(server, target, key, written, request, format).await,
            _ => Err(not_allowed()),
        };
    }
    let path = request.uri().path().to_string();
    connect_options::admit(server, target, key, part, (&method, &path), format).await?;
    match (part, method) {
        (Subresource::Scale, Method::GET) => {
            let object = server.api().get(target.kind(), key)?;
            respond_with_scale(&scale_in(server, target.served, &object).await?, server, format)
        }
        (Subresource::Scale, Method::PUT | Method::PATCH) => {
            change_scale(server, target, key, request, format).await
        }
        (Subresource::Eviction, Method::POST) => evict(server, key, request, format).await,
        (Subresource::Binding, Method::POST) => {
            bind(server, &key.namespace, Some(&key.name), request, format).await
        }
        (Subresource::Finalize, Method::PUT) => finalize(server, key, request, format).await,
        (Subresource::Token, Method::POST) => issue_token(server, key, request, format).await,
        (Subresource::Log, Method::GET) => logs::handle(server, key, request, &format.query).await,
        (Subresource::Exec, Method::GET) if pod_network::is_requested(&format.query) => {
            pod_network::handle(server, key, &format.query).await
        }
        (Subresource::Exec | Subresource::Attach, Method::GET | Method::POST) => {
            sessions::handle(server, key, part, request, &format.query).await
        }
        (Subresource::PortForward, Method::GET | Method::POST) => {
            port_forward::handle(server, key, request, &format.query).await
        }
        (Subresource::Proxy, method) if target.kind() == Kind::Node => {
            let path = proxy::path_below(Kind::Node, request.uri().path());
            node_proxy::handle(server, &key.name, &path, &method, &format.query).await
        }
        (Subresource::Proxy, _) => proxy::handle(server, target.kind(), key, request).await,
        _ => Err(not_allowed()),
    }
}

async fn get(
    server: &Server,
    served: ServedKind,
    key: &Key,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    list::not_older_than(server.api(), &format.query)?;
    respond_with_object(server, served, StatusCode::OK, format, &server.api().get(served.kind(), key)?).await
}

async fn list_response(
    server: &Server,
    target: &ResourceTarget,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let namespace = target.namespace.as_deref();
    let page = server.inner.pages.page(server.api(), target.served, namespace, &format.query).await?;
    let revision = page.revision;
    Ok(ShownRevision::up_to(revision, collection::respond(server, target.served, page, format).await?))
}

async fn create(
    server: &Server,
    target: &ResourceTarget,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    if target.kind().namespaced() && target.namespace.is_none() {
        return Err(not_allowed());
    }
    let options = write_options::of_write(format)?;
    let read = body::read_value(request).await?;
    let object = read_object(&server.api().kinds(), target, read, format)?;
    if target.served.group() == EVENTS_GROUP && !target.served.is_legacy() {
        object_checks::check_new_event(&object)?;
    }
    let create = || server.api().create(object, &options);
    let stored = server.run_queued(target, &[Operation::Create], create).await?;
    respond_with_stored(server, target.served, StatusCode::CREATED, format, &options, &stored).await
}

async fn replace(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    part: Part,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let options = write_options::of_write(format)?;
    let read = body::read_value(request).await?;
    if part == Part::EphemeralContainers && read.value["kind"] == ephemeral_containers::KIND {
        return ephemeral_containers::replace(server, target, key, read.value, format).await;
    }
    let object = read_object(&server.api().kinds(), target, read, format)?;
    let creates =
        part == Part::Main && server.api().kinds().strategy_in(target.served).allows_create_on_update();
    let change = || {
        let changed = server.api().change(target.kind(), key, part, &options, |_| {
            check_condition(server, target, &object)?;
            Ok(object.clone())
        });
        match changed {
            Err(error) if creates && error.is_not_found() => {
                let created = server.api().create_on_update(target.served, object.clone(), &options)?;
                Ok((StatusCode::CREATED, created))
            }
            changed => Ok((StatusCode::OK, changed?)),
        }
    };
    let operations: &[Operation] =
        if creates { &[Operation::Create, Operation::Update] } else { &[Operation::Update] };
    let (status, stored) = server.run_queued(target, operations, change).await?;
    respond_with_stored(server, target.served, status, format, &options, &stored).await
}

async fn patch(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    part: Part,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    if server_side_apply::is_apply(&request) {
        return server_side_apply::handle(server, target, key, part, request, format).await;
    }
    let options = write_options::of_patch(format)?;
    let patch = super::patch::Patch::read(request).await?;
    let change = || {
        server.api().change(target.kind(), key, part, &options, |current| {
            let value = patch.apply(target.served, &target.served.value(current))?;
            let object = read_object(&server.api().kinds(), target, value.into(), format)?;
            check_condition(server, target, &object)?;
            Ok(object)
        })
    };
    let stored = server.run_queued(target, &[Operation::Update], change).await?;
    respond_with_stored(server, target.served, StatusCode::OK, format, &options, &stored).await
}

/// Refuses an update without `metadata.resourceVersion` if its kind requires one: it could overwrite a change that the
/// client has not seen.
fn check_condition(server: &Server, target: &ResourceTarget, object: &Object) -> Result<(), ApiError> {
    let version = object.meta().resource_version.as_deref().unwrap_or_default();
    let strategy = server.api().kinds().strategy_in(target.served);
    if !matches!(version, "" | "0") || strategy.allows_unconditional_update() {
        return Ok(());
    }
    let info = target.kind().info();
    let mut errors = FieldErrors::default();
    let detail = "0x0: must be specified for an update";
    errors.invalid_itself(&Path::root("metadata.resourceVersion"), detail);
    // As in Kubernetes: the resource instead of the kind.
    errors.refuse_request(info.plural, info.group, object.name())
}

/// Reads a request's deletion options, from its body or its query.
async fn delete_options(request: Request, format: &ResponseFormat) -> Result<DeleteOptions, ApiError> {
    write_options::of_delete(body::read_optional_value(request).await?, format)
}

async fn delete(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let options = delete_options(request, format).await?;
    let strategy = server.api().kinds().strategy_in(target.served);
    let options = with_default_propagation(&*strategy, options, &format.warnings);
    let delete = || server.api().delete(target.kind(), key, &options);
    let deleted = server.run_queued(target, &[Operation::Delete], delete).await?;
    let writes = WriteOptions { dry_run: options.dry_run, ..WriteOptions::default() };
    server.wait_durable(deleted.object(), &writes).await?;
    match deleted {
        DeleteOutcome::Removed(object) if !returns_deleted(target.kind()) => {
            Responder::outcome(StatusCode::OK, success(target.kind(), &object))
        }
        DeleteOutcome::Removed(object) | DeleteOutcome::Terminating(object) => {
            respond_with_object(server, target.served, StatusCode::OK, format, &object).await
        }
    }
}

/// Sets the kind's default propagation, and warns, if the client names none.
fn with_default_propagation(
    strategy: &dyn Strategy,
    mut options: DeleteOptions,
    warnings: &WarningRecorder,
) -> DeleteOptions {
    if options.propagation.is_none()
        && let Some((propagation, warning)) = strategy.default_propagation()
    {
        options.default_propagation = Some(propagation);
        warnings.warn(warning.map(Into::into));
    }
    options
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
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let all_namespaces = target.kind().namespaced() && target.namespace.is_none();
    if all_namespaces || !verbs(target.kind()).contains(&"deletecollection") {
        return Err(not_allowed());
    }
    let selection = format.query.selection(&server.api().kinds(), target.served)?;
    let options = delete_options(request, format).await?;
    let strategy = server.api().kinds().strategy_in(target.served);
    let options = with_default_propagation(&*strategy, options, &format.warnings);
    let (kind, namespace) = (target.kind(), target.namespace.as_deref());
    let delete = || server.api().delete_collection(kind, namespace, &selection, &options);
    // A selection by more than names applies to objects in the version of the request.
    let (operations, converts) = ([Operation::Delete], !selection.is_of_names());
    let deleted = server.run_queued_with_conversion(target, &operations, converts, delete).await?;
    let revision = server.api().revision();
    server.durable(revision).await?;
    let objects = server.api().in_version(deleted, target.served, Source::Uncached).await?;
    let page = list::Page { revision, objects, next: None, remaining: None };
    collection::respond(server, target.served, page, format).await
}

async fn change_scale(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    if *request.method() == Method::PATCH && server_side_apply::is_apply(&request) {
        return server_side_apply::handle_scale(server, target, key, request, format).await;
    }
    let options = write_options::of_write(format)?;
    let decode = |value: Value| -> Result<Scale, ApiError> {
        check_name(&value, &key.name)?;
        base::json::from_value(value).map_err(|e| ApiError::BadRequest(format!("cannot decode Scale: {e}")))
    };
    let scale = if request.method() == Method::PUT {
        let scale = decode(body::read_value(request).await?.value)?;
        let change = || server.api().change_scale(target.kind(), key, &options, |_| Ok(scale.clone()));
        server.run_queued(target, &[Operation::Update], change).await?
    } else {
        let patch = super::patch::Patch::read(request).await?;
        let edit = |current| {
            let current = serde_json::to_value(current).map_err(|e| ApiError::Internal(e.to_string()))?;
            decode(patch.apply_to_scale(&current)?)
        };
        let change = || server.api().change_scale(target.kind(), key, &options, edit);
        server.run_queued(target, &[Operation::Update], change).await?
    };
    server.durable(server.api().revision()).await?;
    respond_with_scale(&scale, server, format)
}

async fn evict(
    server: &Server,
    key: &Key,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let eviction = body::read_optional_value(request).await?;
    let named = eviction.as_ref().and_then(|eviction| eviction.pointer("/metadata/name"));
    match_names("Eviction", named.and_then(Value::as_str), &key.name)?;
    let inner = eviction.as_ref().and_then(|eviction| eviction.get("deleteOptions")).cloned();
    let options = write_options::of_delete(inner, format)?;
    let evict = || server.api().evict_by(key, eviction.as_ref(), &options);
    server.run_queued_subresource((Kind::Pod, "eviction"), key, &[Operation::Create], evict).await?;
    server.durable(server.api().revision()).await?;
    Responder::outcome(StatusCode::CREATED, done(201))
}

/// Binds the pod of the path, or the one that a Binding in a namespace names.
pub(super) async fn bind(
    server: &Server,
    namespace: &str,
    name: Option<&str>,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let value = body::read_value(request).await?.value;
    let binding: Binding = base::json::from_value(value)
        .map_err(|error| ApiError::BadRequest(format!("cannot decode Binding: {error}")))?;
    let named = binding.metadata.name.as_deref().filter(|named| !named.is_empty());
    if let Some(name) = name {
        match_names("Binding", named, name)?;
    }
    let pod = Key::new(namespace, named.ok_or_else(|| ApiError::BadRequest("name is required".into()))?);
    let options = write_options::of_write(format)?;
    let bind = || server.api().bind_to(&pod, binding, &options);
    let bound =
        server.run_queued_subresource((Kind::Pod, "binding"), &pod, &[Operation::Create], bind).await?;
    server.wait_durable(bound.object(), &options).await?;
    Responder::outcome(StatusCode::CREATED, done(201))
}

/// Refuses the object of an action that does not name the pod of the path.
fn match_names(object: &str, named: Option<&str>, name: &str) -> Result<(), ApiError> {
    if named == Some(name) {
        return Ok(());
    }
    Err(ApiError::BadRequest(format!("name in URL does not match name in {object} object")))
}

/// Returns the response to an action without an object.
fn done(code: i32) -> Status {
    Status { status: Some("Success".into()), code: Some(code), ..Status::default() }
}

async fn issue_token(
    server: &Server,
    account: &Key,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let body = body::read_value(request).await?.value;
    let options = write_options::of_write(format)?;
    let issue = || {
        let kind = Kind::ServiceAccount;
        let body =
            server.api().admit_new_below(kind, account, "token", &options, || body.clone())?.unwrap_or(body);
        let request = base::json::from_value(body)
            .map_err(|error| ApiError::BadRequest(format!("cannot decode TokenRequest: {error}")))?;
        authorization::restrict_token(server.api(), format.user.as_deref(), account, &request)?;
        let mut issued = server.api().issue_token(account, request)?;
        if options.dry_run
            && let Some(status) = &mut issued.status
        {
            // A token from a dry run would be as valid as any other.
            status.token = Some(String::new());
        }
        Ok(issued)
    };
    let below = (Kind::ServiceAccount, "token");
    let issued = server.run_queued_subresource(below, account, &[Operation::Create], issue).await?;
    Responder::json(StatusCode::CREATED, &issued)
}

async fn finalize(
    server: &Server,
    key: &Key,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    use k8s_openapi::api::core::v1::Namespace;
    let body = body::read_value(request).await?.value;
    check_name(&body, &key.name)?;
    let finalizers: Option<Vec<String>> =
        body.pointer("/spec/finalizers").and_then(|f| base::json::from_value(f.clone()).ok());
    let version = body.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(ToString::to_string);
    let options = write_options::of_write(format)?;
    let edit = |current: &Object| {
        let mut next = current.clone();
        if version.is_some() {
            next.meta_mut().resource_version.clone_from(&version);
        }
        if let Some(namespace) = next.get_mut::<Namespace>() {
            namespace.spec.get_or_insert_default().finalizers = finalizers.clone().filter(|f| !f.is_empty());
        }
        object_checks::refuse(&next, server.api().kinds().strategy(current).update_errors(&next, current))?;
        Ok(next)
    };
    let api = server.api();
    let change = || api.change_through("finalize", Kind::Namespace, key, Part::System, &options, edit);
    let stored = server
        .run_queued_subresource((Kind::Namespace, "finalize"), key, &[Operation::Update], change)
        .await?;
    server.wait_durable(&stored, &WriteOptions::default()).await?;
    respond_with_object(server, Kind::Namespace.into(), StatusCode::OK, format, &stored).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Propagation;
    use kinds::built_in;

    #[test]
    fn jobs_leave_their_pods_to_a_client_that_says_nothing_job_1() {
        let defaulted = |kind, propagation| {
            let options = DeleteOptions { propagation, ..DeleteOptions::default() };
            let warnings = WarningRecorder::for_listener();
            let options = with_default_propagation(built_in(kind), options, &warnings);
            (options.default_propagation, warnings.take_warnings().len())
        };
        assert_eq!(defaulted(Kind::Job, None), (Some(Propagation::Orphan), 1));
        assert_eq!(defaulted(Kind::ReplicationController, None), (Some(Propagation::Orphan), 0));
        assert_eq!(defaulted(Kind::Job, Some(Propagation::Background)), (None, 0));
        assert_eq!(defaulted(Kind::Deployment, None), (None, 0));
    }
}
