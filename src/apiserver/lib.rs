//! The API server: the API over HTTP, a thin layer over [`Api`] that waits for durability before it responds.
//!
//! One service serves TLS connections and in-process pipes alike. Requests are parsed by [`request::Target`]
//! rather than by routes, because the Kind table, not code, defines the resources.
//!
//! Architecture Invariant: the rules about stored objects are in `api`. This crate has those of requests: encoding,
//! negotiation, streaming, options, authentication, fair queueing, the audit log, and requests that concern no stored
//! object (reviews, sessions, metrics).

mod aggregation_proxy;
pub mod audit;
mod auth;
mod body;
mod channels;
mod chunks;
mod client_certificate;
mod collection;
mod component_statuses;
mod connect_options;
mod connection;
mod controllers;
mod csrf;
mod discovery;
mod documents;
mod durability;
mod encoding;
mod ephemeral_containers;
mod flow_control;
#[doc(hidden)] // for the programs in `fuzz/`; nothing of the product calls it
pub mod fuzz;
mod health;
mod history;
mod impersonate;
mod intercept;
mod kubelet_metrics;
mod list;
mod list_options;
mod log_socket;
mod logs;
mod metrics;
mod metrics_page;
mod negotiate;
mod node_proxy;
mod object_response;
mod on_demand;
mod openapi;
mod patch;
mod pod_network;
mod port_forward;
mod process_metrics;
mod profile;
pub mod protobuf;
mod proxy;
mod query;
mod receiver_stream;
mod representation;
mod request;
mod request_audit;
mod request_info;
mod request_metrics;
mod request_object;
mod request_seat;
mod resource;
mod respond;
mod response_format;
mod review;
mod server_side_apply;
mod sessions;
mod spdy;
mod strict;
mod table;
mod tapped_body;
#[cfg(test)]
mod tests;
mod tls;
mod transformed_body;
mod upgrade;
mod verdicts;
mod virtual_objects;
mod watch;
mod watch_events;
mod watch_socket;
mod webhook_queue;
mod write_options;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use futures::FutureExt;
use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::audit::{AuditContext, AuditLog};
use api::authorization::Decision;
use api::identity::User;
use api::webhook_client::CallQueue;
use api::{Api, ApiError};
pub use auth::{Credentials, TrustedConnection};
use connection::Load;
pub use connection::{Limits, Protocol, serve_connection};
use flow_control::FlowController;
pub use intercept::{Interceptor, Next};
use negotiate::{Messages, SupportedTypes};
use request::Target;
pub use request_info::RequestAttributes;
use request_info::RequestInfo;
use request_metrics::MeasuredRequest;
use respond::Responder;
use response_format::{ResponseFormat, not_allowed};
pub use tls::{serve_tls, tls_config};
pub use watch_events::error_event as watch_error_event;

/// The message to a client whose request panicked, as in Kubernetes.
const PANICKED: &str = "This request caused apiserver to panic. Look in the logs for details.";

/// The API server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
    /// Handles requests before the server does.
    interceptor: Option<Arc<dyn Interceptor>>,
    /// The audit log, if there is one.
    audit: Option<AuditLog>,
}

struct Inner {
    api: Api,
    credentials: Credentials,
    pages: list::PagedLists,
    /// Discovery and schemas, and the generation of the kinds they describe.
    documents: Mutex<(u64, Arc<openapi::Documents>)>,
    /// Long requests (watches, logs) end when the server stops.
    stopping: CancellationToken,
    /// The seats of API Priority and Fairness.
    flows: FlowController,
    /// The permits of requests that call webhooks.
    call_queue: CallQueue,
    config: ServerConfig,
    load: Arc<Load>,
    started: Timestamp,
}

/// The configuration of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerConfig {
    /// The address for clients; `None`: its name in the cluster's DNS.
    pub address: Option<SocketAddr>,
    /// The limits on connections.
    pub limits: Limits,
}

impl Server {
    /// Returns a server of this API that accepts these credentials.
    pub fn new(
        api: Api,
        credentials: Credentials,
        stopping: CancellationToken,
        config: ServerConfig,
    ) -> Self {
        let (load, started) = (Arc::new(Load::new(config.limits)), api.server_clock().now());
        let (pages, documents) = (list::PagedLists::default(), Mutex::new((0, openapi::built_in().clone())));
        let flows = FlowController::new(&api);
        let call_queue = CallQueue::new(webhook_queue::MAX_CALLS);
        let inner =
            Inner { api, credentials, pages, documents, stopping, flows, call_queue, config, load, started };
        Self { inner: Arc::new(inner), interceptor: None, audit: None }
    }

    /// Returns the same server behind an interceptor.
    #[must_use]
    pub fn intercepted_by(self, interceptor: Arc<dyn Interceptor>) -> Self {
        Self { interceptor: Some(interceptor), ..self }
    }

    /// Returns the same server with an audit log.
    #[must_use]
    pub fn audited_by(self, log: AuditLog) -> Self {
        Self { audit: Some(log), ..self }
    }

    fn api(&self) -> &Api {
        &self.inner.api
    }

    /// Returns the `host:port` for clients. Never taken from a client's request: others would trust it.
    fn address(&self) -> String {
        let address = self.inner.config.address;
        address.map_or_else(|| "kubernetes.default.svc:443".into(), |address| address.to_string())
    }

    /// Returns discovery and schemas of the kinds that are served at present.
    fn documents(&self) -> Arc<openapi::Documents> {
        let kinds = self.api().kinds();
        let mut documents = self.inner.documents.lock();
        if documents.0 != kinds.generation() {
            let next = openapi::Documents::of(&kinds, Some(&documents.1));
            *documents = (kinds.generation(), Arc::new(next));
        }
        documents.1.clone()
    }

    fn flows(&self) -> &FlowController {
        &self.inner.flows
    }

    fn credentials(&self) -> &Credentials {
        &self.inner.credentials
    }

    fn load(&self) -> &Arc<Load> {
        &self.inner.load
    }

    /// Returns the bytes of responses that were produced and that clients have not read.
    pub fn unread_bytes(&self) -> usize {
        self.load().unread_bytes()
    }

    /// Handles one request.
    pub async fn handle(&self, request: Request) -> Response {
        match &self.interceptor {
            Some(interceptor) => intercept::by(interceptor.as_ref(), self, request).await,
            None => self.respond(request).await,
        }
    }

    async fn respond(&self, mut request: Request) -> Response {
        let trail = match &self.audit {
            None => None,
            Some(log) => {
                let trail = request_audit::begin(log, self.api().server_clock().now(), &request);
                if let Err(error) = log.reserve_capacity().await {
                    return Responder::marked(Responder::error(&error), Some(trail.id()));
                }
                request.extensions_mut().insert(trail.clone());
                Some(trail)
            }
        };
        let mut format = ResponseFormat::of(&request);
        let target = self.target(request.uri().path());
        let measured =
            MeasuredRequest::begin(self.api(), &request, &format.query, target.as_ref().ok(), trail.clone());
        let answered = {
            // The future is pinned here because it is large: every function that took it by value would
            // reserve space for it.
            let answer = std::pin::pin!(self.dispatch(request, target, &mut format));
            measured.scope(AssertUnwindSafe(answer).catch_unwind()).await
        };
        let answered = answered.unwrap_or_else(|panic| {
            self.api().contained().record(("api", "request"), panic.as_ref());
            Err(ApiError::Internal(PANICKED.to_owned()))
        });
        let response = answered.unwrap_or_else(|error| Responder::error(&error));
        let response = Responder::warn(response, &format.warnings.take_warnings());
        let response = match &trail {
            Some(trail) => request_audit::answered(trail, response),
            None => response,
        };
        let response = format.writing.apply(response).await;
        let response = Responder::of_flow(response, format.flow.as_ref());
        measured.answered(Responder::marked(response, trail.as_ref().map(AuditContext::id)))
    }

    /// Returns the target of a path: aggregated APIs take precedence over local ones.
    fn target(&self, path: &str) -> Result<Target, ApiError> {
        match aggregation_proxy::of_path(self.api(), path) {
            Some(of) => Ok(Target::Aggregated(of)),
            None => Target::parse(&self.api().kinds(), path),
        }
    }

    /// Authenticates and authorizes a request; returns the effective user.
    fn authorized(&self, request: &Request, format: &ResponseFormat) -> Result<User, ApiError> {
        let (api, uri, trail) = (self.api(), request.uri(), format.audit_context.as_ref());
        let info = || RequestInfo::of(request.method(), uri.path(), &format.query);
        let record_user = |user: Option<&User>| {
            if let Some(trail) = trail {
                trail.set_attributes(request_audit::attributes_of(info(), request, user));
            }
        };
        if auth::is_anonymous(api, request) {
            // Documents that need no credential; all else does (API-1).
            let public = documents::are_public(uri.path());
            record_user(public.then(User::anonymous).as_ref());
            return if public { Ok(User::anonymous()) } else { Err(ApiError::Unauthorized) };
        }
        let user = self.inner.credentials.identify(api, request).inspect_err(|_| record_user(None))?;
        record_user(Some(&user));
        let acting = impersonate::acting(api, user, request.headers())?;
        if let Some(trail) = trail
            && impersonate::is_requested(request.headers())
        {
            trail.set_impersonated_user(Arc::new(acting.clone()));
        }
        if acting.is_master() {
            if let Some(trail) = trail {
                request_audit::decided(trail, &Decision::for_master());
            }
            return Ok(acting);
        }
        let info = info()?;
        let decisions = [Some(info.by(&acting)), info.also_creates(&acting)];
        for attributes in decisions.iter().flatten() {
            let decision = api.decide(attributes);
            if let Some(trail) = trail {
                request_audit::decided(trail, &decision);
            }
            if !decision.allowed {
                return Err(attributes.refusal(&decision.reason));
            }
        }
        Ok(acting)
    }

    /// Returns the number of seats a request has to wait for; `None` for sessions, and for the cluster's
    /// owner, who is exempt.
    fn seats(
        &self,
        request: &Request,
        user: &User,
        target: &Target,
        format: &mut ResponseFormat,
    ) -> Result<Option<(RequestInfo, u32)>, ApiError> {
        if user.is_master() {
            format.flow = self.flows().exempt_flow(self.api());
            return Ok(None);
        }
        let seats = match target {
            Target::Resource(target) | Target::History(target) => {
                target.seats(self.api(), request.method(), &format.query)
            }
            _ => 1,
        };
        let info = RequestInfo::of(request.method(), request.uri().path(), &format.query)?;
        Ok(Some((info, seats)).filter(|(info, _)| !info.is_session()))
    }

    async fn dispatch(
        &self,
        request: Request,
        target: Result<Target, ApiError>,
        format: &mut ResponseFormat,
    ) -> Result<Response, ApiError> {
        let user = Arc::new(self.authorized(&request, format)?);
        format.user = Some(user.clone());
        let target = target?;
        // Released when the response starts: the client's reading speed does not matter.
        let seat = match self.seats(&request, &user, &target, format)? {
            Some((info, seats)) => {
                let (flow, seat) = self.flows().enter(self.api(), &info.by(&user), seats).await?;
                format.flow = flow;
                seat
            }
            None => None,
        };
        // Pinned here, as in `respond`.
        let answer = std::pin::pin!(self.dispatch_seated(request, target, &user, format));
        let answered = request_seat::seated(user.clone(), seat, answer).await;
        // The request may have been a write of a priority level.
        self.flows().follow(self.api());
        answered
    }

    /// Handles an authorized request.
    async fn dispatch_seated(
        &self,
        request: Request,
        target: Target,
        user: &User,
        format: &mut ResponseFormat,
    ) -> Result<Response, ApiError> {
        if let Target::Resource(target) = &target {
            format.served = Some(target.served);
        }
        let offer = match &target {
            Target::Resource(target) => target.offer(request.method(), &format.query),
            Target::Review(_) | Target::Bindings { .. } | Target::History(_) => Some(SupportedTypes::Plain),
            Target::Controllers(target) => Some(target.offer(request.method(), &format.query)),
            Target::Metrics(_) | Target::Components(_) | Target::Verdicts(_) => {
                Some(SupportedTypes::Objects(Messages::Metadata))
            }
            Target::Document | Target::Aggregated(_) => None,
        };
        if let Some(offer) = offer {
            format.negotiate(offer)?;
        }
        match target {
            Target::Resource(target) => {
                // The warning is sent even if the request fails.
                format.warnings.warn(target.served.deprecation());
                let strategy = self.api().kinds().strategy_in(target.served);
                format.warnings.warn(strategy.deprecation().map(Into::into));
                if let Some(trail) = &format.audit_context
                    && let Some(release) = target.served.removed_release()
                {
                    trail.annotate("k8s.io/deprecated", "true");
                    trail.annotate("k8s.io/removed-release", release);
                }
                let of_the_node = durability::is_of_the_node(target.subresource);
                let mut answer = resource::handle(self, target, request, format).await;
                if !of_the_node {
                    answer = durability::once_durable(self, answer).await;
                }
                answer
            }
            Target::Review(review) => review::handle(self, &review, user, request).await,
            Target::Bindings { namespace } => match *request.method() {
                Method::POST => resource::bind(self, &namespace, None, request, format).await,
                _ => Err(not_allowed()),
            },
            Target::Components(target) => component_statuses::handle(self, &target, request.method(), format),
            Target::Metrics(target) => metrics::handle(self, &target, request.method(), format),
            Target::Verdicts(target) => verdicts::handle(self, &target, request.method(), format),
            Target::Controllers(target) => {
                Box::pin(controllers::handle(self, &target, request, format)).await
            }
            Target::History(target) => {
                let answer = history::handle(self, &target, request.method(), format);
                durability::once_durable(self, answer).await
            }
            Target::Document if profile::is_path(request.uri().path()) => {
                let (head, _) = request.into_parts();
                Box::pin(profile::handle(self, &head.method, head.uri.path(), &format.query)).await
            }
            Target::Document => documents::handle(self, &request, format),
            // Boxed: most requests need no space for it.
            Target::Aggregated(of) => {
                Box::pin(aggregation_proxy::handle(self, &of, request, &format.query, user)).await
            }
        }
    }
}
