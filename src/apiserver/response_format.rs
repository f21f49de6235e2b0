//! The response format of a request, from its query and headers, determined before the body is read.

use std::sync::Arc;

use axum::extract::Request;
use http::Method;
use http::header::{ACCEPT, USER_AGENT};

use super::encoding::ResponseEncoding;
use super::negotiate::{MediaType, MediaTypeOptions, Representation, SupportedTypes, negotiate};
use super::query::Query;
use crate::audit::AuditContext;
use crate::flow_control::Flow;
use api::ApiError;
use api::identity::User;
use api::warning_recorder::{AuditRecorder, WarningRecorder};
use object::ServedKind;

/// The longest name of a field manager; Kubernetes' `FieldManagerMaxLength`.
pub(super) const MANAGER_MAX_BYTES: usize = 128;

/// The response format of a request, and its context.
#[derive(Clone, Debug)]
pub(super) struct ResponseFormat {
    pub(super) query: Query,
    pub(super) writing: ResponseEncoding,
    /// The kind of the method's write options, e.g. `CreateOptions`.
    pub(super) options: &'static str,
    accept: String,
    /// The client program: the start of its `User-Agent`.
    pub(super) program: String,
    /// The user; `None` before authentication.
    pub(super) user: Option<Arc<User>>,
    /// The audit context, if the request is audited.
    pub(super) audit_context: Option<AuditContext>,
    /// Receives the warnings of the response.
    pub(super) warnings: WarningRecorder,
    /// The kind of the path, in its version; `None` before that is known, and for paths without a kind.
    pub(super) served: Option<ServedKind>,
    /// The flow of the request; `None` before that is known.
    pub(super) flow: Option<Flow>,
    form: Representation,
}

impl ResponseFormat {
    pub(super) fn of(request: &Request) -> Self {
        let accept = request.headers().get_all(ACCEPT);
        let accept: Vec<&str> = accept.iter().filter_map(|v| v.to_str().ok()).collect();
        let query = Query::parse(request.uri().query().unwrap_or(""));
        let writing = ResponseEncoding::of(request.method(), request.headers(), &query);
        let options = options_kind(request.method());
        let agent = request.headers().get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let program = agent.split('/').next().unwrap_or_default();
        let program = program.chars().filter(|c| !c.is_control()).take(MANAGER_MAX_BYTES).collect();
        let audit_context = request.extensions().get::<AuditContext>().cloned();
        let audit = audit_context.clone().map(|context| Arc::new(context) as Arc<dyn AuditRecorder>);
        Self {
            query,
            writing,
            options,
            accept: accept.join(","),
            program,
            user: None,
            audit_context,
            warnings: WarningRecorder::for_listener().with_audit(audit),
            served: None,
            flow: None,
            form: Representation::default(),
        }
    }

    /// Negotiates the form of the response; fails if the client accepts none of the offer.
    pub(super) fn negotiate(&mut self, offer: SupportedTypes) -> Result<(), ApiError> {
        let MediaTypeOptions { form, media } = negotiate(&self.accept, offer)?;
        (self.form, self.writing.media) = (form, media);
        Ok(())
    }

    /// Returns the form of the response.
    pub(super) fn form(&self) -> Representation {
        self.form
    }

    /// Returns the negotiated form and media type.
    pub(super) fn accepted(&self) -> MediaTypeOptions {
        // The audit log records JSON; the final encoding produces the client's format from it.
        let is_recorded = self.audit_context.as_ref().is_some_and(AuditContext::records_response);
        MediaTypeOptions {
            form: self.form,
            media: if is_recorded { MediaType::Json } else { self.writing.media },
        }
    }

    /// Returns the `Accept` header.
    pub(super) fn accept(&self) -> &str {
        &self.accept
    }

    /// Refuses every method but GET, and watches: for resources that can be read and not watched.
    pub(super) fn only_reads(&self, method: &Method) -> Result<(), ApiError> {
        if *method == Method::GET && !self.query.flag("watch") { Ok(()) } else { Err(not_allowed()) }
    }
}

/// Returns the refusal of an unsupported method.
pub(super) fn not_allowed() -> ApiError {
    ApiError::MethodNotAllowed("the server does not allow this method on the requested resource".into())
}

/// Returns the kind of a method's options.
fn options_kind(method: &Method) -> &'static str {
    match *method {
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        Method::DELETE => "DeleteOptions",
        _ => "CreateOptions",
    }
}
