//! How a request wants to be answered: by its query and its headers, read before its body is.

use std::sync::Arc;

use axum::extract::Request;
use http::Method;
use http::header::{ACCEPT, USER_AGENT};

use super::encoding::Writing;
use super::negotiate::{Accepted, Form, Media, Offer, negotiate};
use super::query::Query;
use crate::ApiError;
use crate::audit::Trail;
use crate::flow_control::Flow;
use crate::identity::User;
use crate::remarks::Remarks;
use object::ServedKind;

/// The longest name of a field manager; Kubernetes' `FieldManagerMaxLength`.
pub(super) const MANAGER_MAX_BYTES: usize = 128;

/// How a request wants to be answered, read before its body is.
#[derive(Clone, Debug)]
pub(super) struct ResponseFormat {
    pub(super) query: Query,
    pub(super) writing: Writing,
    /// What the options of a write by this method are called.
    pub(super) options: &'static str,
    accept: String,
    /// The program that asks, as its `User-Agent` begins.
    pub(super) program: String,
    /// Who asks; none before that is known.
    pub(super) user: Option<Arc<User>>,
    /// What the client should hear besides the answer.
    pub(super) remarks: Remarks,
    /// The kind that its path names, in that version; none before that is known, and where it names none.
    pub(super) served: Option<ServedKind>,
    /// What flow it is of; none before that is known.
    pub(super) flow: Option<Flow>,
    form: Form,
}

impl ResponseFormat {
    pub(super) fn of(request: &Request) -> Self {
        let accept = request.headers().get_all(ACCEPT);
        let accept: Vec<&str> = accept.iter().filter_map(|v| v.to_str().ok()).collect();
        let query = Query::parse(request.uri().query().unwrap_or(""));
        let writing = Writing::of(request.method(), request.headers(), &query);
        let options = options_kind(request.method());
        let agent = request.headers().get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let program = agent.split('/').next().unwrap_or_default();
        let program = program.chars().filter(|c| !c.is_control()).take(MANAGER_MAX_BYTES).collect();
        Self {
            query,
            writing,
            options,
            accept: accept.join(","),
            program,
            user: None,
            remarks: Remarks::heard().noted(request.extensions().get::<Trail>().cloned()),
            served: None,
            flow: None,
            form: Form::default(),
        }
    }

    /// Settles how the answer is written; refuses a client that takes nothing of what there is.
    pub(super) fn settle(&mut self, offer: Offer) -> Result<(), ApiError> {
        let Accepted { form, media } = negotiate(&self.accept, offer)?;
        (self.form, self.writing.media) = (form, media);
        Ok(())
    }

    /// The form of the answer.
    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// How the answer is written.
    pub(super) fn accepted(&self) -> Accepted {
        // What is kept for the audit log is kept as JSON; the writing makes of it what the client wants.
        let is_kept = self.remarks.trail().is_some_and(Trail::keeps_answer);
        Accepted { form: self.form, media: if is_kept { Media::Json } else { self.writing.media } }
    }

    /// The `Accept` header.
    pub(super) fn accept(&self) -> &str {
        &self.accept
    }

    /// For what can be read and not followed: refuses every method but GET, and watches.
    pub(super) fn only_reads(&self, method: &Method) -> Result<(), ApiError> {
        if *method == Method::GET && !self.query.flag("watch") { Ok(()) } else { Err(not_allowed()) }
    }
}

/// The refusal of a method that there is not.
pub(super) fn not_allowed() -> ApiError {
    ApiError::MethodNotAllowed("the server does not allow this method on the requested resource".into())
}

/// What the options of a method are called.
fn options_kind(method: &Method) -> &'static str {
    match *method {
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        Method::DELETE => "DeleteOptions",
        _ => "CreateOptions",
    }
}
