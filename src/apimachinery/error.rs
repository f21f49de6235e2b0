//! The API's errors, and their form as a Kubernetes `Status`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status, StatusCause, StatusDetails};
use serde_json::Value;

use base::quote::{printable, quote};
use object::{Key, Kind, Revision};

/// One reason among several, tied to a field where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable, e.g. `FieldValueRequired` or `DisruptionBudget`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The field's path, or empty.
    pub field: String,
}

/// A denial by an admission policy that users have configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyDenial {
    /// The object's kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The full message: the policy and its reason.
    pub message: String,
    /// The message without the object and the policy.
    pub cause: String,
    /// Machine-readable.
    pub reason: &'static str,
    /// 403, 413 or 422.
    pub code: u16,
}

/// An error of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// No object has this key (404).
    NotFound {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// A resource that is served but not stored has no object of this name (404).
    VirtualNotFound {
        /// The resource's singular name, as Kubernetes' messages have it, e.g. `podmetrics`.
        resource: &'static str,
        /// Its group.
        group: &'static str,
        /// The requested name.
        name: String,
    },
    /// A resource that is served but not stored is in no state to do what the request demands (409).
    VirtualConflict {
        /// The plural name of the resource.
        resource: &'static str,
        /// Its group.
        group: &'static str,
        /// Its name.
        name: String,
        /// The reason.
        message: String,
    },
    /// No such path (404).
    NoSuchResource,
    /// An object with this name exists (409).
    AlreadyExists {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// The write was based on an outdated version, or a precondition fails (409).
    Conflict {
        /// The object's kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The reason.
        message: String,
        /// The conflicts, one for each field.
        causes: Vec<Cause>,
    },
    /// An apply would change fields that other managers own (409).
    ApplyConflict {
        /// The conflicting managers and fields.
        message: String,
        /// One cause for each field.
        causes: Vec<Cause>,
    },
    /// The object breaks its kind's rules (422).
    Invalid {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// Every rule it breaks.
        causes: Vec<Cause>,
    },
    /// The request's body, which is not a stored object, or its options break their own rules (422).
    InvalidRequest {
        /// The kind of the body or of the options, e.g. `Scale` or `PodLogOptions`.
        kind: &'static str,
        /// Its group.
        group: &'static str,
        /// The target object's name; empty when none is named.
        name: String,
        /// Every rule it breaks.
        causes: Vec<Cause>,
    },
    /// The request cannot be processed as it is (422 without details).
    Unprocessable(String),
    /// The request cannot be understood (400).
    BadRequest(String),
    /// The request carries no valid credentials (401).
    Unauthorized,
    /// The object may not be written (403).
    Forbidden {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The reason.
        message: String,
        /// Machine-readable parts of the reason.
        causes: Vec<Cause>,
    },
    /// A policy that users have configured denies it (403, 413 or 422).
    DeniedByPolicy(Box<PolicyDenial>),
    /// A webhook has denied it, in its own words.
    Denied {
        /// The webhook's HTTP code, 400 to 599.
        code: u16,
        /// The machine-readable reason; empty if the webhook gives none.
        reason: String,
        /// The webhook and its reason.
        message: String,
        /// Its own `StatusDetails`.
        details: Option<Box<Value>>,
    },
    /// The user may not do this to any object (403).
    NotPermitted(String),
    /// The user may not do this to a resource, which need not exist (403).
    AccessDenied {
        /// Its plural.
        resource: String,
        /// Its API group.
        group: String,
        /// The object's name; empty when none is named.
        name: String,
        /// The user and the denied action.
        message: String,
    },
    /// The path does not support this verb (405).
    MethodNotAllowed(String),
    /// The server has no representation that the client accepts (406).
    NotAcceptable(String),
    /// The requested history has been compacted (410).
    Expired(String),
    /// The list whose next page is requested is no longer held (410).
    ExpiredPage {
        /// The token for the remainder of the list, as it is when it is requested.
        continue_token: String,
    },
    /// The body's media type is not supported (415).
    UnsupportedMediaType(String),
    /// The body is too large (413).
    TooLarge(String),
    /// The request is refused for the moment; the client should retry (429).
    TooManyRequests {
        /// The reason.
        message: String,
        /// The obstacles, such as a disruption budget.
        causes: Vec<Cause>,
        /// Seconds after which the client should retry; 0: the client decides.
        retry_after_seconds: i32,
    },
    /// The server itself is at fault (500).
    Internal(String),
    /// The request cannot be fulfilled in the present state (500 without a reason).
    Failure(String),
    /// The client knows a revision that this server has not reached (504).
    TooLargeRevision {
        /// The requested revision.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// A timeout: the request did not arrive in time, or the write did not become durable in time and may yet
    /// do so (504).
    Timeout(String),
    /// A component that the request needs is unavailable at the moment (503).
    Unavailable(String),
}

impl ApiError {
    /// Returns the error for an object that does not exist.
    pub fn not_found(kind: Kind, key: &Key) -> Self {
        Self::NotFound { kind, name: key.name.clone() }
    }

    /// Returns the conflict of a write that was based on an outdated version.
    pub fn modified(kind: Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Returns a conflict with this message.
    pub fn conflict(kind: Kind, name: &str, message: impl Into<String>) -> Self {
        Self::Conflict { kind, name: name.into(), message: message.into(), causes: Vec::new() }
    }

    /// Returns a refusal with this message.
    pub fn forbidden(kind: Kind, name: &str, message: impl Into<String>) -> Self {
        Self::Forbidden { kind, name: name.into(), message: message.into(), causes: Vec::new() }
    }

    /// Returns true for the 404 of an object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::VirtualNotFound { .. })
    }

    /// Returns true for the 409 of a newer version or a failed precondition.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Returns true for the 404 of an object, and for the 409 of a newer version or a failed precondition. For a
    /// write that names the object's uid, both mean that this object is gone.
    pub fn is_not_found_or_conflict(&self) -> bool {
        self.is_not_found() || self.is_conflict()
    }

    /// Returns true for the 409 of a name that is taken.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists { .. })
    }

    /// Returns true for the 403 of a terminating namespace: nothing can be created in it, and nothing needs
    /// to be, because its content is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        matches!(self, Self::Forbidden { causes, .. }
            if causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::NotFound { .. } | Self::VirtualNotFound { .. } | Self::NoSuchResource => 404,
            Self::AlreadyExists { .. }
            | Self::Conflict { .. }
            | Self::ApplyConflict { .. }
            | Self::VirtualConflict { .. } => 409,
            Self::Invalid { .. } | Self::InvalidRequest { .. } | Self::Unprocessable(_) => 422,
            Self::BadRequest(_) => 400,
            Self::Unauthorized => 401,
            Self::Forbidden { .. } | Self::NotPermitted(_) | Self::AccessDenied { .. } => 403,
            Self::MethodNotAllowed(_) => 405,
            Self::NotAcceptable(_) => 406,
            Self::Expired(_) | Self::ExpiredPage { .. } => 410,
            Self::TooLarge(_) => 413,
            Self::UnsupportedMediaType(_) => 415,
            Self::TooManyRequests { .. } => 429,
            Self::Internal(_) | Self::Failure(_) => 500,
            Self::Denied { code, .. } => *code,
            Self::DeniedByPolicy(denial) => denial.code,
            Self::Unavailable(_) => 503,
            Self::TooLargeRevision { .. } | Self::Timeout(_) => 504,
        }
    }

    /// Returns the machine-readable reason; empty where Kubernetes gives none.
    pub fn reason(&self) -> &str {
        match self {
            Self::NotFound { .. } | Self::VirtualNotFound { .. } | Self::NoSuchResource => "NotFound",
            Self::AlreadyExists { .. } => "AlreadyExists",
            Self::Conflict { .. } | Self::ApplyConflict { .. } | Self::VirtualConflict { .. } => "Conflict",
            Self::Invalid { .. } | Self::InvalidRequest { .. } | Self::Unprocessable(_) => "Invalid",
            Self::BadRequest(_) => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden { .. } | Self::NotPermitted(_) | Self::AccessDenied { .. } => "Forbidden",
            Self::MethodNotAllowed(_) => "MethodNotAllowed",
            Self::NotAcceptable(_) => "NotAcceptable",
            Self::Expired(_) | Self::ExpiredPage { .. } => "Expired",
            Self::DeniedByPolicy(denial) => denial.reason,
            Self::TooLarge(_) => "RequestEntityTooLarge",
            Self::UnsupportedMediaType(_) => "UnsupportedMediaType",
            Self::TooManyRequests { .. } => "TooManyRequests",
            Self::Internal(_) => "InternalError",
            Self::Denied { reason, .. } => reason,
            Self::Failure(_) => "",
            Self::Unavailable(_) => "ServiceUnavailable",
            Self::TooLargeRevision { .. } | Self::Timeout(_) => "Timeout",
        }
    }

    /// Seconds after which the client should retry, if known.
    pub fn retry_after_seconds(&self) -> Option<i32> {
        match self {
            Self::TooManyRequests { retry_after_seconds, .. } => {
                Some(*retry_after_seconds).filter(|seconds| *seconds > 0)
            }
            Self::TooLargeRevision { .. } => Some(1),
            _ => None,
        }
    }

    /// Returns the response's body; clients print its texts, so nothing in them may drive a terminal (SEC-3).
    pub fn to_status(&self) -> Status {
        let continue_ = match self {
            Self::ExpiredPage { continue_token } => Some(continue_token.clone()),
            _ => None,
        };
        Status {
            metadata: ListMeta { continue_, ..ListMeta::default() },
            status: Some("Failure".into()),
            message: Some(printable(&self.to_string()).into_owned()),
            reason: Some(self.reason().into()).filter(|reason: &String| !reason.is_empty()),
            details: self.details(),
            code: Some(i32::from(self.code())),
        }
    }

    fn details(&self) -> Option<StatusDetails> {
        let of = |kind: &str, group: &str, name: &str, causes: &[Cause]| {
            Some(StatusDetails {
                name: Some(name.into()).filter(|n: &String| !n.is_empty()),
                group: Some(group.into()).filter(|g: &String| !g.is_empty()),
                kind: Some(kind.into()),
                causes: status_causes(causes),
                ..StatusDetails::default()
            })
        };
        let of_resource = |kind: &Kind, name: &str, causes: &[Cause]| {
            of(kind.info().plural, kind.info().group, name, causes)
        };
        match self {
            Self::NotFound { kind, name } | Self::AlreadyExists { kind, name } => {
                of_resource(kind, name, &[])
            }
            Self::Conflict { kind, name, causes, .. } | Self::Forbidden { kind, name, causes, .. } => {
                of_resource(kind, name, causes)
            }
            Self::DeniedByPolicy(denial) => {
                let cause =
                    Cause { reason: String::new(), message: denial.cause.clone(), field: String::new() };
                of_resource(&denial.kind, &denial.name, &[cause])
            }
            Self::Invalid { kind, name, causes } => of(kind.info().name, kind.info().group, name, causes),
            Self::VirtualNotFound { resource, group, name }
            | Self::VirtualConflict { resource, group, name, .. } => of(resource, group, name, &[]),
            Self::AccessDenied { resource, group, name, .. } => of(resource, group, name, &[]),
            Self::InvalidRequest { kind, group, name, causes } => of(kind, group, name, causes),
            Self::ApplyConflict { causes, .. } => {
                Some(StatusDetails { causes: status_causes(causes), ..StatusDetails::default() })
            }
            Self::TooManyRequests { causes, .. } => Some(StatusDetails {
                causes: status_causes(causes),
                retry_after_seconds: self.retry_after_seconds(),
                ..StatusDetails::default()
            }),
            Self::TooLargeRevision { .. } => Some(StatusDetails {
                causes: Some(vec![StatusCause {
                    reason: Some("ResourceVersionTooLarge".into()),
                    message: Some("Too large resource version".into()),
                    field: None,
                }]),
                retry_after_seconds: self.retry_after_seconds(),
                ..StatusDetails::default()
            }),
            Self::Internal(message) => Some(StatusDetails {
                causes: Some(vec![StatusCause {
                    message: Some(printable(message).into_owned()),
                    ..StatusCause::default()
                }]),
                ..StatusDetails::default()
            }),
            Self::Denied { details, .. } => {
                details.as_ref().and_then(|details| base::json::from_value(Value::clone(details)).ok())
            }
            Self::NoSuchResource | Self::UnsupportedMediaType(_) | Self::Unprocessable(_) => {
                Some(StatusDetails::default())
            }
            _ => None,
        }
    }
}

fn status_causes(causes: &[Cause]) -> Option<Vec<StatusCause>> {
    let causes: Vec<_> = causes
        .iter()
        .map(|c| StatusCause {
            field: Some(printable(&c.field).into_owned()).filter(|f| !f.is_empty()),
            message: Some(printable(&c.message).into_owned()),
            reason: Some(c.reason.clone()),
        })
        .collect();
    Some(causes).filter(|c| !c.is_empty())
}

/// Returns `kind.group`, or `kind` in the core group.
fn qualified(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.into() } else { format!("{kind}.{group}") }
}

/// Returns `field: message`, in brackets if there are several.
fn joined(causes: &[Cause]) -> String {
    let one = |c: &Cause| {
        if c.field.is_empty() { c.message.clone() } else { format!("{}: {}", c.field, c.message) }
    };
    match causes {
        [cause] => one(cause),
        many => format!("[{}]", many.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

impl std::error::Error for ApiError {}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound { kind, name } => {
                write!(f, "{} {} not found", kind.info().qualified_plural(), quote(name))
            }
            Self::TooLargeRevision { requested, current } => {
                write!(f, "Timeout: Too large resource version: {requested}, current: {current}")
            }
            Self::Timeout(message) => write!(f, "Timeout: {message}"),
            Self::VirtualNotFound { resource, group, name } => {
                write!(f, "{} {} not found", qualified(resource, group), quote(name))
            }
            Self::VirtualConflict { resource, group, name, message } => {
                write!(f, "{} {}: {message}", qualified(resource, group), quote(name))
            }
            Self::NoSuchResource => f.write_str("the server could not find the requested resource"),
            Self::AlreadyExists { kind, name } => {
                write!(f, "{} {} already exists", kind.info().qualified_plural(), quote(name))
            }
            Self::Conflict { kind, name, message, .. } => {
                let plural = kind.info().qualified_plural();
                write!(f, "Operation cannot be fulfilled on {plural} {}: {message}", quote(name))
            }
            Self::Invalid { kind, name, causes } => {
                let qualified = kind.info().qualified_name();
                write!(f, "{qualified} {} is invalid: {}", quote(name), joined(causes))
            }
            Self::InvalidRequest { kind, group, name, causes } => {
                write!(f, "{} {} is invalid: {}", qualified(kind, group), quote(name), joined(causes))
            }
            Self::Forbidden { kind, name, message, .. } => {
                let plural = kind.info().qualified_plural();
                write!(f, "{plural} {} is forbidden: {message}", quote(name))
            }
            Self::AccessDenied { resource, group, name, message } => {
                f.write_str(&qualified(resource, group))?;
                if !name.is_empty() {
                    write!(f, " {}", quote(name))?;
                }
                write!(f, " is forbidden: {message}")
            }
            Self::Unauthorized => f.write_str("Unauthorized"),
            Self::UnsupportedMediaType(message) => write!(f, "{message}"),
            Self::DeniedByPolicy(denial) => f.write_str(&denial.message),
            Self::Internal(message) => write!(f, "Internal error occurred: {message}"),
            Self::ExpiredPage { .. } => f.write_str(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                 without the continue parameter, or use the continue token in this response to retrieve the remainder of \
                 the results. Continuing with the provided token results in an inconsistent list - objects that were \
                 created, modified, or deleted between the time the first chunk was returned and now may show up in the \
                 list.",
            ),
            Self::TooManyRequests { message, .. }
            | Self::ApplyConflict { message, .. }
            | Self::Denied { message, .. }
            | Self::Unprocessable(message)
            | Self::Failure(message)
            | Self::BadRequest(message)
            | Self::NotPermitted(message)
            | Self::MethodNotAllowed(message)
            | Self::NotAcceptable(message)
            | Self::Expired(message)
            | Self::TooLarge(message)
            | Self::Unavailable(message) => f.write_str(message),
        }
    }
}
