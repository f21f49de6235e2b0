//! podium.dev: the status of this control plane's controllers and similar components (CON-19). `controllers`
//! reports the queue, the last reconciles and the errors of each; read only and never stored. It can be
//! watched. A POST to `controllers/NAME/step` makes a paused controller reconcile one key: the next, or the
//! one in the body.

mod view;
mod watch;

use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Server;
use super::body;
use super::durability::ShownRevision;
use super::negotiate::{Messages, SupportedTypes};
use super::query::Query;
use super::respond::Responder;
use super::response_format::{ResponseFormat, not_allowed};
use super::verdicts::{GROUP, VERSION};
use super::virtual_objects::VirtualObjects;
use api::controller_changes::ObservedController;
use api::controller_status::StepError;
use api::{Api, ApiError};
use object::selector::{FieldRequirement, parse_fields};
use view::{Columns, ControllerView, reconciled, table};

/// The resource.
pub(super) const PLURAL: &str = "controllers";
/// Its kind.
pub(super) const KIND: &str = "Controller";
/// The subresource that makes a single step.
pub(super) const STEP: &str = "step";
/// The kind of a step's request and response.
pub(super) const STEP_KIND: &str = "ControllerStep";

/// The limit on keys in each part of a reported queue.
const KEYS: usize = 100;

/// The target of a path below the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ControllerTarget {
    /// All of them.
    All,
    /// One.
    One(String),
    /// A step of one controller.
    Step(String),
}

impl ControllerTarget {
    /// Parses the path after the version.
    pub(super) fn parse(rest: &[&str]) -> Option<Self> {
        Some(match rest {
            [PLURAL] => Self::All,
            [PLURAL, name] => Self::One((*name).into()),
            [PLURAL, name, STEP] => Self::Step((*name).into()),
            _ => return None,
        })
    }

    /// Returns true for the whole collection.
    pub(super) fn is_collection(&self) -> bool {
        *self == Self::All
    }

    /// Returns true for a watch.
    pub(super) fn is_watch(&self, method: &Method, query: &Query) -> bool {
        self.is_collection() && *method == Method::GET && query.flag("watch")
    }

    /// Returns the possible forms of the response.
    pub(super) fn offer(&self, method: &Method, query: &Query) -> SupportedTypes {
        if self.is_watch(method, query) {
            SupportedTypes::Stream(Messages::Metadata)
        } else {
            SupportedTypes::Objects(Messages::Metadata)
        }
    }
}

/// A selection by name.
#[derive(Clone, Debug, Default)]
struct NameSelection(Vec<FieldRequirement>);

impl NameSelection {
    fn of(query: &Query) -> Result<Self, ApiError> {
        if query.get("labelSelector").is_some() {
            let message = format!("labelSelector: {PLURAL}.{GROUP} have no labels");
            return Err(ApiError::BadRequest(message));
        }
        let fields = parse_fields(query.get("fieldSelector").unwrap_or_default());
        let fields = fields.map_err(|error| ApiError::BadRequest(error.to_string()))?;
        match fields.iter().find(|field| field.path != "metadata.name") {
            Some(field) => Err(ApiError::BadRequest(format!("field label not supported: {}", field.path))),
            None => Ok(Self(fields)),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().all(|field| (field.value == name) == field.equal)
    }

    /// Returns the report on a controller. It includes the queue's keys if the client selects the controller
    /// by its name, as in a request for the single object.
    fn view_of(&self, api: &Api, seen: &ObservedController) -> ControllerView {
        let is_named = self.0.iter().any(|field| field.equal);
        ControllerView::new(seen, is_named.then(|| keys(api, &seen.name)).flatten())
    }
}

/// Returns the keys of a running controller.
fn keys(api: &Api, name: &str) -> Option<api::controller_status::ControllerKeys> {
    Some(api.controller(name)??.keys(KEYS))
}

/// Handles a request below the resource.
pub(super) async fn handle(
    server: &Server,
    target: &ControllerTarget,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let name = match target {
        ControllerTarget::Step(name) => return step(server, name, request, format).await,
        ControllerTarget::One(name) => Some(name),
        ControllerTarget::All => None,
    };
    let selection = NameSelection::of(&format.query)?;
    if target.is_watch(request.method(), &format.query) {
        return watch::handle(server, selection, format);
    }
    format.only_reads(request.method())?;
    let api = server.api();
    if let Some(name) = name
        && api.controller(name).is_none()
    {
        return Err(changes_expired(name));
    }
    let look = api.observe_controllers(Duration::ZERO);
    let views: Vec<ControllerView> = match name {
        None => {
            let all = look.all.iter().filter(|one| selection.has(&one.name));
            all.map(|one| selection.view_of(api, one)).collect()
        }
        Some(name) => {
            let seen =
                look.all.iter().find(|one| one.name == name.as_str()).ok_or_else(|| changes_expired(name))?;
            vec![ControllerView::new(seen, keys(api, name))]
        }
    };
    let controllers = VirtualObjects {
        kind: KIND,
        api_version: format!("{GROUP}/{VERSION}"),
        metadata: json!({"resourceVersion": look.revision.to_string()}),
        objects: views.iter().map(ControllerView::object).collect(),
        is_single: name.is_some(),
    };
    controllers.respond(format, |version, include, _| {
        table(version, &views, include, api.server_clock().now(), look.revision, Columns::Defined)
    })
}

fn changes_expired(name: &str) -> ApiError {
    ApiError::VirtualNotFound { resource: PLURAL, group: GROUP, name: name.into() }
}

/// Makes a controller take a step.
async fn step(
    server: &Server,
    name: &str,
    request: Request,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    if *request.method() != Method::POST {
        return Err(not_allowed());
    }
    if format.query.get("dryRun").is_some_and(|dry_run| !dry_run.is_empty()) {
        return Err(ApiError::BadRequest("dryRun: not supported".into()));
    }
    let step = body::read_value(request).await?.value;
    let key = key_of(&step)?;
    let probe = server.api().controller(name).ok_or_else(|| changes_expired(name))?;
    let answer = match probe {
        None => Err(StepError::Stopped),
        Some(probe) => probe.step(key.clone()).await,
    };
    let done = answer.map_err(|why| ApiError::VirtualConflict {
        resource: PLURAL,
        group: GROUP,
        name: name.into(),
        message: why.to_string(),
    })?;
    let mut answer = json!({"kind": STEP_KIND, "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {"name": name}, "spec": {}, "status": reconciled(&done)});
    if let Some(key) = key {
        answer["spec"]["key"] = key.into();
    }
    // The writes of the step must be durable before they are reported.
    let shown = ShownRevision::up_to(server.api().revision(), Responder::json(StatusCode::CREATED, &answer)?);
    super::durability::once_durable(server, Ok(shown)).await
}

/// Returns the key in the body of a step; `None` for the next one.
fn key_of(step: &Value) -> Result<Option<String>, ApiError> {
    let wrong = |reason: &str| ApiError::BadRequest(format!("{STEP_KIND}: {reason}"));
    if !step.is_object() {
        return Err(wrong("the body is not an object"));
    }
    for (field, expected) in [("kind", STEP_KIND.to_owned()), ("apiVersion", format!("{GROUP}/{VERSION}"))] {
        if step.get(field).is_some_and(|given| *given != expected) {
            return Err(wrong(&format!("{field} is not {expected}")));
        }
    }
    match step.pointer("/spec/key") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) => Ok(Some(key.clone())),
        Some(_) => Err(wrong("spec.key is not a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_names_a_key_or_none_and_nothing_else_con_19() {
        let key = |step: Value| key_of(&step).map_err(|error| error.code());
        assert_eq!(key(json!({})), Ok(None));
        assert_eq!(key(json!({"kind": "ControllerStep", "apiVersion": "podium.dev/v1alpha1"})), Ok(None));
        assert_eq!(key(json!({"spec": {"key": "default/web"}})), Ok(Some("default/web".into())));
        for wrong in
            [json!([]), json!({"kind": "Pod"}), json!({"apiVersion": "v1"}), json!({"spec": {"key": 7}})]
        {
            assert_eq!(key(wrong), Err(400));
        }
    }
}
