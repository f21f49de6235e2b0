//! podium.dev: the status of this control plane's controllers and similar components (CON-19). `controllers`
//! reports the queue, the last reconciles and the errors of each; read only and never stored. It can be
//! watched. A POST to `controllers/NAME/step` makes a paused controller reconcile one key: the next, or the
//! one in the body.

mod told;
mod watch;

use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Server;
use super::body;
use super::negotiate::{Form, Messages, Offer};
use super::query::Query;
use super::respond::Answer;
use super::response_format::{ResponseFormat, not_allowed};
use super::shown::Shown;
use super::verdicts::{GROUP, VERSION};
use crate::controller_changes::SeenController;
use crate::controller_status::StepError;
use crate::{Api, ApiError};
use object::selector::{FieldRequirement, parse_fields};
use told::{Columns, Told, reconciled, table};

/// The resource.
pub(super) const PLURAL: &str = "controllers";
/// Its kind.
pub(super) const KIND: &str = "Controller";
/// The subresource that makes a single step.
pub(super) const STEP: &str = "step";
/// The kind of its request and response.
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

    /// The possible forms of the response.
    pub(super) fn offer(&self, method: &Method, query: &Query) -> Offer {
        if self.is_watch(method, query) {
            Offer::Stream(Messages::Metadata)
        } else {
            Offer::Objects(Messages::Metadata)
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

    /// A controller that is selected by its name is reported with its keys, as in a request for the single
    /// object.
    fn told(&self, api: &Api, seen: &SeenController) -> Told {
        let is_named = self.0.iter().any(|field| field.equal);
        Told::new(seen, is_named.then(|| keys(api, &seen.name)).flatten())
    }
}

/// The keys of a running controller.
fn keys(api: &Api, name: &str) -> Option<crate::controller_status::ControllerKeys> {
    Some(api.controller(name)??.keys(KEYS))
}

/// Handles a request below the resource.
pub(super) async fn answer(
    server: &Server,
    target: &ControllerTarget,
    request: Request,
    wanted: &ResponseFormat,
) -> Result<Response, ApiError> {
    let name = match target {
        ControllerTarget::Step(name) => return step(server, name, request, wanted).await,
        ControllerTarget::One(name) => Some(name),
        ControllerTarget::All => None,
    };
    let selection = NameSelection::of(&wanted.query)?;
    if target.is_watch(request.method(), &wanted.query) {
        return watch::answer(server, selection, wanted);
    }
    wanted.only_reads(request.method())?;
    let api = server.api();
    if let Some(name) = name
        && api.controller(name).is_none()
    {
        return Err(not_known(name));
    }
    let look = api.look_at_controllers(Duration::ZERO);
    let told: Vec<Told> = match name {
        None => {
            let all = look.all.iter().filter(|one| selection.has(&one.name));
            all.map(|one| selection.told(api, one)).collect()
        }
        Some(name) => {
            let seen =
                look.all.iter().find(|one| one.name == name.as_str()).ok_or_else(|| not_known(name))?;
            vec![Told::new(seen, keys(api, name))]
        }
    };
    let metadata = json!({"resourceVersion": look.revision.to_string()});
    let listed = |kind: &str, version: &str, items: Vec<Value>| json!({"kind": format!("{kind}List"), "apiVersion": version, "metadata": metadata, "items": items});
    let body = match wanted.form() {
        Form::Table(version) => {
            let include = wanted.query.include_object();
            table(version, &told, include, api.server_clock().now(), look.revision, Columns::Defined)
        }
        Form::Object if name.is_some() => told[0].object(),
        Form::Metadata(version) if name.is_some() => told[0].partial(version),
        Form::Metadata(version) => {
            let items = told.iter().map(|one| one.partial(version)).collect();
            listed("PartialObjectMetadata", version.api_version(), items)
        }
        Form::Object => listed(KIND, &format!("{GROUP}/{VERSION}"), told.iter().map(Told::object).collect()),
    };
    Answer::json(StatusCode::OK, &body)
}

fn not_known(name: &str) -> ApiError {
    ApiError::NotKnown { resource: PLURAL, group: GROUP, name: name.into() }
}

/// Makes a controller take a step.
async fn step(
    server: &Server,
    name: &str,
    request: Request,
    wanted: &ResponseFormat,
) -> Result<Response, ApiError> {
    if *request.method() != Method::POST {
        return Err(not_allowed());
    }
    if wanted.query.get("dryRun").is_some_and(|dry_run| !dry_run.is_empty()) {
        return Err(ApiError::BadRequest("dryRun: not supported".into()));
    }
    let asked = body::read_value(request).await?.value;
    let key = key_of(&asked)?;
    let probe = server.api().controller(name).ok_or_else(|| not_known(name))?;
    let answer = match probe {
        None => Err(StepError::Stopped),
        Some(probe) => probe.step(key.clone()).await,
    };
    let done = answer.map_err(|why| ApiError::NotNow {
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
    let shown = Shown::up_to(server.api().revision(), Answer::json(StatusCode::CREATED, &answer)?);
    super::shown::once_durable(server, Ok(shown)).await
}

/// The key in the body of a step; `None` for the next one.
fn key_of(asked: &Value) -> Result<Option<String>, ApiError> {
    let wrong = |what: &str| ApiError::BadRequest(format!("{STEP_KIND}: {what}"));
    if !asked.is_object() {
        return Err(wrong("the body is not an object"));
    }
    for (field, expected) in [("kind", STEP_KIND.to_owned()), ("apiVersion", format!("{GROUP}/{VERSION}"))] {
        if asked.get(field).is_some_and(|given| *given != expected) {
            return Err(wrong(&format!("{field} is not {expected}")));
        }
    }
    match asked.pointer("/spec/key") {
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
        let key = |asked: Value| key_of(&asked).map_err(|error| error.code());
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
