//! Every change of the cluster goes through this file.
//!
//! A change is data ([`Mutation`]), so it can be shown as a kubectl command, executed, recorded, and undone by the
//! mutation stored with it (see `journal`). No other file of the console writes to the cluster.

use kube::Client;
use kube::api::{
    DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    ValidationDirective,
};
use kube::runtime::watcher;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::changes::editable;
use super::resource::ObjectRef;
use object::node_image::image_path;

/// The field manager for server-side apply.
pub const FIELD_MANAGER: &str = "podium-console";

/// Identifies a journal entry while the console runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryId(pub(super) u64);

impl EntryId {
    /// An entry that has no id yet, or that is no longer known.
    pub(crate) const NONE: Self = Self(u64::MAX);
}

/// The format of a patch body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PatchKind {
    /// A JSON merge patch (RFC 7386).
    Merge,
    /// A strategic merge patch.
    Strategic,
    /// A JSON patch (RFC 6902).
    Json,
}

/// A change of the cluster.
#[derive(Clone, Debug)]
pub enum Mutation {
    /// Patches an object, or one of its subresources.
    Patch {
        /// The object.
        target: ObjectRef,
        /// The subresource: `scale`, `status`, `ephemeralcontainers` …
        subresource: Option<&'static str>,
        /// The format of the body.
        kind: PatchKind,
        /// The patch.
        body: Value,
    },
    /// Replaces an object; fails with a conflict if the resourceVersion in the body is no longer current.
    Replace {
        /// The object.
        target: ObjectRef,
        /// The whole object.
        body: Value,
    },
    /// Creates an object.
    Create {
        /// The object.
        target: ObjectRef,
        /// The whole object.
        body: Value,
    },
    /// Creates or updates an object from a manifest by server-side apply.
    Apply {
        /// The object.
        target: ObjectRef,
        /// The manifest.
        body: Value,
        /// Takes over fields that other managers own with different values.
        force: bool,
    },
    /// Deletes an object.
    Delete {
        /// The object; a known uid becomes a precondition.
        target: ObjectRef,
        /// Grace period and propagation.
        params: DeleteParams,
    },
    /// Evicts a pod, respecting budgets.
    Evict {
        /// The pod.
        target: ObjectRef,
        /// Grace period of the eviction.
        params: DeleteParams,
    },
    /// Lets a paused controller of the control plane reconcile one key.
    Step {
        /// The controller.
        target: ObjectRef,
        /// The key; `None` for the next one in its queue.
        key: Option<String>,
    },
    /// Lets a node pull an image.
    PullImage {
        /// The node.
        node: ObjectRef,
        /// The name of the image.
        image: String,
    },
    /// Removes an image from a node.
    RemoveImage {
        /// The node.
        node: ObjectRef,
        /// The name or the id of the image.
        image: String,
    },
    /// Several mutations, in order; the first failure stops the rest.
    All(Vec<Mutation>),
}

impl Mutation {
    /// Changes nothing, for actions with an effect outside of the cluster.
    pub fn nothing() -> Self {
        Self::All(Vec::new())
    }

    /// Patches an object.
    pub fn patch(target: &ObjectRef, kind: PatchKind, body: Value) -> Self {
        Self::Patch { target: target.clone(), subresource: None, kind, body }
    }

    /// Patches a subresource of an object.
    pub fn patch_subresource(
        target: &ObjectRef,
        subresource: &'static str,
        kind: PatchKind,
        body: Value,
    ) -> Self {
        Self::Patch { target: target.clone(), subresource: Some(subresource), kind, body }
    }

    /// Creates an object.
    pub fn create(target: &ObjectRef, body: Value) -> Self {
        Self::Create { target: target.clone(), body }
    }

    /// Deletes an object as `kubectl delete` does: its dependents are deleted in the background. The server would
    /// orphan those of a Job.
    pub fn delete(target: &ObjectRef) -> Self {
        let params = delete_params(target, None, Some(PropagationPolicy::Background));
        Self::Delete { target: target.clone(), params }
    }
}

/// Returns the options of a deletion or an eviction; a known uid becomes a precondition.
pub fn delete_params(
    target: &ObjectRef,
    grace_seconds: Option<u32>,
    policy: Option<PropagationPolicy>,
) -> DeleteParams {
    let uid = target.uid.as_ref().map(ToString::to_string);
    DeleteParams {
        grace_period_seconds: grace_seconds,
        propagation_policy: policy,
        preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
        ..DeleteParams::default()
    }
}

/// A change, with the texts that describe it to the user.
#[derive(Clone, Debug)]
pub struct Action {
    /// The summary: `scale Deployment default/web 3 → 10`.
    pub title: String,
    /// The object it changes.
    pub target: ObjectRef,
    /// The kubectl command that does the same.
    pub kubectl: String,
    /// The change.
    pub mutation: Mutation,
    /// The action that undoes it, if there is one.
    pub inverse: Option<Box<Action>>,
    /// The journal entry that this action undoes.
    pub undoes: Option<EntryId>,
    /// Success shows no toast, as for the single evictions of a drain.
    pub quiet: bool,
}

impl Action {
    /// Creates an action without an undo, of which success shows a toast.
    pub fn new(
        target: &ObjectRef,
        title: impl Into<String>,
        kubectl: impl Into<String>,
        mutation: Mutation,
    ) -> Self {
        Self {
            title: title.into(),
            target: target.clone(),
            kubectl: kubectl.into(),
            mutation,
            inverse: None,
            undoes: None,
            quiet: false,
        }
    }

    /// Sets the action that undoes it, if there is one.
    #[must_use]
    pub fn undone_by(self, inverse: impl Into<Option<Action>>) -> Self {
        let inverse: Option<Action> = inverse.into();
        Self { inverse: inverse.map(Box::new), ..self }
    }

    /// Shows no toast of its success.
    #[must_use]
    pub fn quietly(self) -> Self {
        Self { quiet: true, ..self }
    }
}

/// The result of an action.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The action.
    pub action: Action,
    /// The server's message, if it failed.
    pub error: Option<String>,
    /// The object after the change, without the fields that the server owns; only if the action can be undone.
    pub after: Option<Value>,
}

impl Outcome {
    /// Creates the outcome of an action that the server answered.
    pub fn of(action: Action, answer: &Result<Value, kube::Error>) -> Self {
        let after = answer.as_ref().ok().filter(|_| action.inverse.is_some()).map(editable::strip);
        Self { error: answer.as_ref().err().map(error_text), action, after }
    }
}

/// Executes a mutation and returns the server's response.
pub async fn execute(client: &Client, mutation: &Mutation) -> Result<Value, kube::Error> {
    match mutation {
        Mutation::Patch { target, subresource, kind, body } => {
            patch(client, target, *subresource, *kind, body, &PatchParams::default()).await
        }
        Mutation::Replace { target, body } => replace(client, target, body, WriteMode::Real).await,
        Mutation::Create { target, body } => {
            let object = typed(body)?;
            let done = target.api(client.clone()).create(&PostParams::default(), &object).await?;
            Ok(value_of(&done))
        }
        Mutation::Apply { target, body, force } => apply(client, target, body, *force, WriteMode::Real).await,
        Mutation::Delete { target, params } => {
            let answer = target.api(client.clone()).delete(&target.path_name(), params).await?;
            Ok(answer.either(|object| value_of(&object), |status| value_of(&status)))
        }
        Mutation::Evict { target, params } => {
            let namespace = target.namespace.as_deref().unwrap_or("default");
            let path = format!("/api/v1/namespaces/{namespace}/pods/{}/eviction", target.path_name());
            let request = http::Request::post(path)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(eviction(target, params).to_string().into_bytes())
                .map_err(kube::Error::HttpError)?;
            client.request(request).await
        }
        Mutation::Step { target, key } => {
            let path = format!("{}/{}/step", target.api(client.clone()).resource_url(), target.path_name());
            let body = key.as_ref().map_or_else(|| json!({}), |key| json!({"spec": {"key": key}}));
            let request = http::Request::post(path)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(body.to_string().into_bytes())
                .map_err(kube::Error::HttpError)?;
            client.request(request).await
        }
        Mutation::PullImage { node, image } => {
            let request = http::Request::post(image_path(&node.name, image));
            client.request(request.body(Vec::new()).map_err(kube::Error::HttpError)?).await
        }
        Mutation::RemoveImage { node, image } => {
            let request = http::Request::delete(image_path(&node.name, image));
            client.request(request.body(Vec::new()).map_err(kube::Error::HttpError)?).await
        }
        Mutation::All(mutations) => {
            let mut answer = Value::Null;
            for mutation in mutations {
                answer = Box::pin(execute(client, mutation)).await?;
            }
            Ok(answer)
        }
    }
}

/// Returns the object as it would be after a change (server-side dry run); `None` for changes that leave no object to
/// show.
pub async fn dry_run(client: &Client, mutation: &Mutation) -> Result<Option<Value>, kube::Error> {
    match mutation {
        Mutation::Patch { target, subresource, kind, body } => {
            let params = PatchParams { dry_run: true, ..PatchParams::default() };
            patch(client, target, *subresource, *kind, body, &params).await.map(Some)
        }
        Mutation::Replace { target, body } => {
            replace(client, target, body, WriteMode::DryRun).await.map(Some)
        }
        Mutation::Create { target, body } => {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let made = target.api(client.clone()).create(&params, &typed(body)?).await?;
            Ok(Some(value_of(&made)))
        }
        Mutation::Apply { target, body, force } => {
            apply(client, target, body, *force, WriteMode::DryRun).await.map(Some)
        }
        Mutation::Delete { .. }
        | Mutation::Evict { .. }
        | Mutation::Step { .. }
        | Mutation::PullImage { .. }
        | Mutation::RemoveImage { .. }
        | Mutation::All(_) => Ok(None),
    }
}

/// Selects between a dry run and a real change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// The server only validates the change.
    DryRun,
    /// The server makes the change.
    Real,
}

/// Replaces an object. A field that the server does not know is an error, as for kubectl: kube's own `replace` cannot
/// request that, and the server would drop the field silently.
pub async fn replace(
    client: &Client,
    target: &ObjectRef,
    body: &Value,
    mode: WriteMode,
) -> Result<Value, kube::Error> {
    let api = target.api(client.clone());
    let dry_run = if mode == WriteMode::DryRun { "&dryRun=All" } else { "" };
    let path = format!("{}/{}?fieldValidation=Strict{dry_run}", api.resource_url(), target.path_name());
    let request = http::Request::put(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// Server-side apply; as with [`replace`], a field that the server does not know is an error.
async fn apply(
    client: &Client,
    target: &ObjectRef,
    body: &Value,
    force: bool,
    mode: WriteMode,
) -> Result<Value, kube::Error> {
    let params = PatchParams {
        dry_run: mode == WriteMode::DryRun,
        force,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
    };
    let object = target.api(client.clone()).patch(&target.path_name(), &params, &Patch::Apply(body)).await?;
    Ok(value_of(&object))
}

/// Returns the body of an eviction. kube's own `evict` sends the options as `delete_options`, a name servers ignore.
pub fn eviction(target: &ObjectRef, params: &DeleteParams) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": target.name, "namespace": target.namespace },
        "deleteOptions": params,
    })
}

/// Sends a patch with the caller's parameters (dry run or not).
pub async fn patch(
    client: &Client,
    target: &ObjectRef,
    subresource: Option<&'static str>,
    kind: PatchKind,
    body: &Value,
    params: &PatchParams,
) -> Result<Value, kube::Error> {
    let api = target.api(client.clone());
    let patch: Patch<&Value> = match kind {
        PatchKind::Merge => Patch::Merge(body),
        PatchKind::Strategic => Patch::Strategic(body),
        PatchKind::Json => {
            let patch = base::json::from_value(body.clone())
                .map_err(|error| kube::Error::SerdeError(error.into()))?;
            let patch: Patch<Value> = Patch::Json(patch);
            return send(&api, &target.path_name(), subresource, params, &patch).await;
        }
    };
    send(&api, &target.path_name(), subresource, params, &patch).await
}

async fn send<P: serde::Serialize + std::fmt::Debug>(
    api: &kube::Api<DynamicObject>,
    name: &str,
    subresource: Option<&'static str>,
    params: &PatchParams,
    patch: &Patch<P>,
) -> Result<Value, kube::Error> {
    let object = match subresource {
        Some(subresource) => api.patch_subresource(subresource, name, params, patch).await?,
        None => api.patch(name, params, patch).await?,
    };
    Ok(value_of(&object))
}

fn typed(body: &Value) -> Result<DynamicObject, kube::Error> {
    base::json::from_value(body.clone()).map_err(|error| kube::Error::SerdeError(error.into()))
}

fn value_of<T: serde::Serialize>(object: &T) -> Value {
    object::json_of(object)
}

/// Formats `NAME does not answer` with the reason, without the start [`NO_RESPONSE`], which would repeat it.
pub(crate) fn silence_text(called: &str, error: &kube::Error) -> String {
    let reason = error_text(error);
    // The server may have answered with an error; then the prefix is absent.
    match reason.strip_prefix(NO_RESPONSE) {
        Some(why) => format!("{called} does not answer{why}"),
        None => format!("{called}: {reason}"),
    }
}

/// The start of an error text if the request did not reach a server.
const NO_RESPONSE: &str = "no answer from the server";

/// The start of an error text if the server does not know the user.
const CREDENTIALS_REFUSED: &str = "the server refuses the credentials";

/// Returns the part of an error text that says that the server refuses the credentials; `None` for other errors.
pub fn refused_credentials(reason: &str) -> Option<&str> {
    reason.find(CREDENTIALS_REFUSED).map(|at| &reason[at..])
}

/// Returns the server's complete message, or the error on the way to the server.
pub fn error_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            let message = if status.message.is_empty() { "Unauthorized" } else { &status.message };
            format!("{CREDENTIALS_REFUSED} ({message})")
        }
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => {
            // The source errors have the detail; the outer layers only announce them.
            let mut text = match other {
                // kube's wrapper text says nothing useful; its sources do.
                kube::Error::Service(_) => NO_RESPONSE.to_owned(),
                other => other.to_string(),
            };
            let mut source = std::error::Error::source(other);
            // The last cause says what happened; those before it only name the layers of the connection.
            if let Some(cause) = connection_error(source).filter(|_| matches!(other, kube::Error::Service(_)))
            {
                return format!("{text}: {cause}");
            }
            while let Some(cause) = source {
                let cause_text = cause.to_string();
                if !text.contains(&cause_text) {
                    text = format!("{text}: {cause_text}");
                }
                source = cause.source();
            }
            text
        }
    }
}

/// Returns the error of a connection in plain words, if one of the causes is of a known kind.
fn connection_error(mut cause: Option<&(dyn std::error::Error + 'static)>) -> Option<&'static str> {
    use std::io::ErrorKind;
    while let Some(error) = cause {
        let known = error.downcast_ref().and_then(|error: &std::io::Error| match error.kind() {
            ErrorKind::ConnectionRefused => Some("connection refused"),
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => Some("it closed the connection"),
            ErrorKind::HostUnreachable => Some("no route to host"),
            ErrorKind::NetworkUnreachable => Some("the network is unreachable"),
            ErrorKind::TimedOut => Some("the connection timed out"),
            _ => None,
        });
        if known.is_some() {
            return known;
        }
        cause = error.source();
    }
    None
}

/// Reports whether a request failed, or its response broke off, because of the connection to the server.
pub fn is_connection_error(error: &kube::Error) -> bool {
    use kube::Error::{HyperError, ReadEvents, Service};
    matches!(error, Service(_) | HyperError(_) | ReadEvents(_))
}

/// Returns [`error_text`] of the request that ended a watch.
pub fn watch_error_text(error: &watcher::Error) -> String {
    request_error(error).map_or_else(|| error.to_string(), error_text)
}

/// Returns the error of the request that ended a watch.
pub fn request_error(error: &watcher::Error) -> Option<&kube::Error> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_kinds;

    /// CON-18: an outage is described without the layers of the connection.
    #[test]
    fn an_outage_is_described_in_plain_words_con_18() {
        #[derive(Debug)]
        struct Layer(std::io::Error);
        impl std::fmt::Display for Layer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("client error (Connect)")
            }
        }
        impl std::error::Error for Layer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let service = |kind: std::io::ErrorKind| {
            let error = Layer(std::io::Error::new(kind, "os error"));
            error_text(&kube::Error::Service(Box::new(error)))
        };
        for (kind, text) in [
            (std::io::ErrorKind::ConnectionRefused, "no answer from the server: connection refused"),
            (std::io::ErrorKind::ConnectionReset, "no answer from the server: it closed the connection"),
            (std::io::ErrorKind::HostUnreachable, "no answer from the server: no route to host"),
            (std::io::ErrorKind::Other, "no answer from the server: client error (Connect): os error"),
        ] {
            assert_eq!(service(kind), text);
        }
        let refusal = kube::core::Status::failure("Unauthorized", "Unauthorized").with_code(401);
        let refusal = kube::Error::Api(Box::new(refusal));
        assert_eq!(
            silence_text("context prod", &refusal),
            "context prod: the server refuses the credentials (Unauthorized)"
        );
    }

    /// CON-6: the grace period and the uid of an eviction are under the name the server reads.
    #[test]
    fn an_eviction_carries_its_delete_options() {
        let target = ObjectRef {
            kind: builtin_kinds::kind::<k8s_openapi::api::core::v1::Pod>(),
            namespace: Some("default".to_owned()),
            name: "web-1".to_owned(),
            uid: Some("u1".into()),
        };
        let body = eviction(&target, &delete_params(&target, Some(5), None));
        assert_eq!(body["apiVersion"], "policy/v1");
        assert_eq!(body["metadata"], json!({ "name": "web-1", "namespace": "default" }));
        assert_eq!(body["deleteOptions"]["gracePeriodSeconds"], 5);
        assert_eq!(body["deleteOptions"]["preconditions"]["uid"], "u1");
    }
}
