//! The attributes of a request for admission: Kubernetes' `admission.Attributes`. Webhooks and policies see a
//! request only through it.
//!
//! It borrows everything and encodes nothing: the `AdmissionRequest` is built when it is needed.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::identity::User;
use crate::served_kinds::Kinds;
use crate::subresource;
use crate::warning_recorder::{AuditRecorder, WarningRecorder};
use crate::{Api, ApiError, DeleteOptions, Propagation, WriteOptions};
use object::selector::Labels;
use object::{Kind, Object, ServedKind};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object or its subresource is changed.
    Update,
    /// An object is deleted.
    Delete,
    /// A session in a pod: exec, attach, port-forward, proxy.
    Connect,
}

impl Operation {
    /// Returns the name in rules and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The object of a request as admission sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// No object: before a creation, after a deletion.
    None,
    /// A new object: fields that the API sets (uid, time and, if generated, its name) are hidden as long as admission
    /// may change the object.
    Draft {
        object: &'a Object,
        is_name_generated: bool,
    },
    Object(&'a Object),
    /// The scale of a workload.
    Scale(&'a Object),
    /// A request body that is not stored, with its `apiVersion` and `kind`: an Eviction, a Binding, the
    /// options of a session.
    Body(&'a Value),
}

impl<'a> Subject<'a> {
    /// Returns the labels for selectors; `None` if there is no object.
    pub(crate) fn labels(self) -> Option<Cow<'a, Labels>> {
        match self {
            Self::None => None,
            Self::Draft { object, .. } | Self::Object(object) => Some(match &object.meta().labels {
                Some(labels) => Cow::Borrowed(labels),
                None => Cow::default(),
            }),
            // A scale has no labels, as in Kubernetes.
            Self::Scale(_) => Some(Cow::default()),
            Self::Body(value) => {
                let metadata = value.get("metadata")?;
                let labels = metadata.get("labels").cloned().unwrap_or_default();
                #[expect(
                    clippy::disallowed_methods,
                    reason = "invalid labels match as none and are refused later"
                )]
                let labels = base::json::from_value(labels).unwrap_or_default();
                Some(Cow::Owned(labels))
            }
        }
    }

    /// Returns the object in a version; null if there is none. This may call a conversion webhook.
    pub(crate) fn value(self, api: &Api, served: ServedKind) -> Result<Value, ApiError> {
        let converted = |object: &Object| -> Result<Value, ApiError> {
            let converted =
                api.convert_one(object, served).map_err(|error| ApiError::Internal(error.to_string()))?;
            Ok(served.value(&converted))
        };
        Ok(match self {
            Self::None => Value::Null,
            Self::Object(object) => converted(object)?,
            Self::Draft { object, is_name_generated } => {
                let mut value = converted(object)?;
                if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
                    for field in ["uid", "creationTimestamp", "generation"] {
                        metadata.remove(field);
                    }
                    if is_name_generated {
                        metadata.remove("name");
                    }
                }
                value
            }
            Self::Scale(object) => subresource::scale_of(api, object)
                .ok()
                .and_then(|scale| serde_json::to_value(scale).ok())
                .unwrap_or_default(),
            Self::Body(value) => value.clone(),
        })
    }
}

/// The options of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Options<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// A session's options are its object, so only the receiver of warnings is here.
    Connect(&'a WarningRecorder),
}

/// The author of a request: an authenticated user, or an actor of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Requester<'a> {
    User(&'a User),
    /// An actor, by its field manager name.
    Actor(&'static str),
}

impl<'a> Requester<'a> {
    /// Returns the user, derived from the name for an actor.
    pub(crate) fn user(self) -> Cow<'a, User> {
        match self {
            Self::User(user) => Cow::Borrowed(user),
            Self::Actor(name) => Cow::Owned(User::of_actor(name)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) operation: Operation,
    /// The kind of the request's path, in its version.
    pub(crate) resource: ServedKind,
    /// `status`, `scale`, `eviction`, …; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The namespace; if the object is a namespace, its own name, as in Kubernetes.
    pub(crate) namespace: &'a str,
    /// The name; empty if it is still to be generated.
    pub(crate) name: &'a str,
    /// The object in its present state on the way to the store.
    pub(crate) object: Subject<'a>,
    pub(crate) old_object: Subject<'a>,
    pub(crate) options: Options<'a>,
    pub(crate) requester: Requester<'a>,
}

/// The attributes of a write, except for the present state of its object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteAttributes<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: ServedKind,
    pub(crate) subresource: &'a str,
    /// The current version; `None` for a new object.
    pub(crate) old: Option<&'a Object>,
    pub(crate) is_name_generated: bool,
    pub(crate) options: &'a WriteOptions,
    pub(crate) requester: Requester<'a>,
}

impl<'a> WriteAttributes<'a> {
    /// Returns the attributes while admission may still change the object.
    pub(crate) fn of_draft<'b>(&self, object: &'b Object) -> Attributes<'b>
    where
        'a: 'b,
    {
        let draft = Subject::Draft { object, is_name_generated: self.is_name_generated };
        let name = if self.is_name_generated { "" } else { object.name() };
        let subject = if self.old.is_none() { draft } else { self.subject(object) };
        Attributes { name, ..self.about(object, subject) }
    }

    /// Returns the attributes with the final object.
    pub(crate) fn of_object<'b>(&self, object: &'b Object) -> Attributes<'b>
    where
        'a: 'b,
    {
        self.about(object, self.subject(object))
    }

    fn subject<'b>(&self, object: &'b Object) -> Subject<'b> {
        match self.subresource {
            "scale" => Subject::Scale(object),
            _ => Subject::Object(object),
        }
    }

    fn about<'b>(&self, object: &'b Object, subject: Subject<'b>) -> Attributes<'b>
    where
        'a: 'b,
    {
        Attributes {
            operation: self.operation,
            resource: self.resource,
            subresource: self.subresource,
            namespace: if object.kind() == Kind::Namespace { object.name() } else { object.namespace() },
            name: object.name(),
            object: subject,
            old_object: self.old.map_or(Subject::None, |old| self.subject(old)),
            options: Options::Write(self.options),
            requester: self.requester,
        }
    }
}

impl<'a> Attributes<'a> {
    /// Returns the same request with another object.
    pub(crate) fn with_object<'b>(&self, object: Subject<'b>) -> Attributes<'b>
    where
        'a: 'b,
    {
        Attributes { object, ..*self }
    }

    /// Sends a warning to the client.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings().warn([warning]);
    }

    /// Returns the receiver of audit annotations, if the request is audited.
    pub(crate) fn audit(&self) -> Option<&'a dyn AuditRecorder> {
        self.warnings().audit()
    }

    fn warnings(&self) -> &'a WarningRecorder {
        match self.options {
            Options::Write(options) => &options.warnings,
            Options::Delete(options) => &options.warnings,
            Options::Connect(remarks) => remarks,
        }
    }

    /// Returns true if the request must have no effect.
    pub(crate) fn is_dry_run(&self) -> bool {
        match self.options {
            Options::Write(options) => options.dry_run,
            Options::Delete(options) => options.dry_run,
            Options::Connect(_) => false,
        }
    }

    /// Returns true if the object is a namespace.
    pub(crate) fn is_of_namespace(&self) -> bool {
        self.resource.kind() == Kind::Namespace
    }

    /// Returns true for configurations of admission, which admission itself must not block: a faulty one
    /// could not be repaired.
    pub(crate) fn is_of_admission(&self) -> bool {
        const EXEMPT: [&str; 6] = [
            "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ];
        self.resource.group() == "admissionregistration.k8s.io"
            && EXEMPT.contains(&self.resource.kind().info().name)
    }

    /// Returns the same resource in all other served versions.
    pub(crate) fn equivalents(&self, kinds: &Kinds) -> Vec<ServedKind> {
        let kind = self.resource.kind();
        let of_kind = kinds.served().map(|served| served.served).filter(|served| served.kind() == kind);
        of_kind.filter(|served| *served != self.resource).collect()
    }

    /// Returns the kind of the request's objects in a version: for most subresources, that of the object
    /// itself.
    fn kind_in(&self, served: ServedKind) -> (&'static str, &'static str, &'static str) {
        let options = |name| ("", "v1", name);
        match self.subresource {
            "scale" => ("autoscaling", "v1", "Scale"),
            "eviction" => ("policy", "v1", "Eviction"),
            "binding" => ("", "v1", "Binding"),
            "token" => ("authentication.k8s.io", "v1", "TokenRequest"),
            "exec" => options("PodExecOptions"),
            "attach" => options("PodAttachOptions"),
            "portforward" => options("PodPortForwardOptions"),
            "proxy" => options(match served.kind() {
                Kind::Node => "NodeProxyOptions",
                Kind::Service => "ServiceProxyOptions",
                _ => "PodProxyOptions",
            }),
            _ => (served.group(), served.version(), served.kind().info().name),
        }
    }

    /// Returns the request in the version of a rule, without its objects: CEL's `request`.
    pub(crate) fn request(&self, matched: ServedKind) -> Value {
        Value::Object(self.request_fields(matched))
    }

    fn request_fields(&self, matched: ServedKind) -> Map<String, Value> {
        let kind = |served| {
            let (group, version, kind) = self.kind_in(served);
            json!({"group": group, "version": version, "kind": kind})
        };
        let resource = |served: ServedKind| {
            let plural = served.kind().info().plural;
            json!({"group": served.group(), "version": served.version(), "resource": plural})
        };
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.into(), value);
        put("kind", kind(matched));
        put("resource", resource(matched));
        put("requestKind", kind(self.resource));
        put("requestResource", resource(self.resource));
        for (name, text) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !text.is_empty() {
                put(name, text.into());
            }
        }
        put("operation", self.operation.name().into());
        put("userInfo", self.requester.user().info());
        put("dryRun", self.is_dry_run().into());
        put("options", self.options_value());
        fields
    }

    /// Returns the `AdmissionRequest` in the version of a rule.
    pub(crate) fn admission_request(
        &self,
        api: &Api,
        matched: ServedKind,
        uid: &str,
    ) -> Result<Value, ApiError> {
        let mut fields = self.request_fields(matched);
        fields.insert("uid".into(), uid.into());
        fields.insert("object".into(), self.object.value(api, matched)?);
        fields.insert("oldObject".into(), self.old_object.value(api, matched)?);
        Ok(Value::Object(fields))
    }

    fn options_value(&self) -> Value {
        let mut value = match self.options {
            Options::Connect(_) => return Value::Null,
            Options::Write(options) => match &options.field_manager {
                Some(manager) => json!({"fieldManager": manager}),
                None => json!({}),
            },
            Options::Delete(options) => deletion(options),
        };
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete | Operation::Connect => "DeleteOptions",
        };
        value["kind"] = kind.into();
        value["apiVersion"] = "meta.k8s.io/v1".into();
        if self.is_dry_run() {
            value["dryRun"] = json!(["All"]);
        }
        value
    }
}

fn deletion(options: &DeleteOptions) -> Value {
    let mut value = json!({});
    if let Some(seconds) = options.grace_period_seconds {
        value["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(propagation) = options.propagation {
        value["propagationPolicy"] = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
        .into();
    }
    if let Some(uid) = &options.uid {
        value["preconditions"]["uid"] = uid.as_str().into();
    }
    if let Some(revision) = options.resource_version {
        value["preconditions"]["resourceVersion"] = revision.to_string().into();
    }
    value
}
