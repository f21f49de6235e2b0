//! The requests of the access screen: the two self reviews, and the RBAC objects that a query needs.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    SelfSubjectAccessReview, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectAccessReviewStatus,
};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};

use console_data::access::Attributes;
use console_data::access::self_rules::SelfRules;
use console_data::access::who_can::{PartialList, Policy};
use console_data::action::error_text;
use console_data::decoded::{JsonObject, api_of};
use object::TypedKind;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of objects per page, and of pages per kind. Objects beyond these limits are not read, and the screen
/// reports that.
const PAGE: u32 = 500;
const PAGES: usize = 10;

/// Requests the user's rules in a namespace.
pub(super) async fn self_rules(client: Client, namespace: &str) -> Result<SelfRules, String> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let api: Api<SelfSubjectRulesReview> = Api::all(client);
    let answer = in_time(api.create(&PostParams::default(), &review)).await.map_err(|error| error.text())?;
    let status = answer.status.ok_or("the server's answer has no status")?;
    Ok(SelfRules::of(&status))
}

/// Requests the server's decision about the user.
pub(super) async fn whether(
    client: Client,
    attributes: &Attributes,
) -> Result<SubjectAccessReviewStatus, String> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client);
    let answer = in_time(api.create(&PostParams::default(), &attributes.review()))
        .await
        .map_err(|error| error.text())?;
    answer.status.ok_or_else(|| "the server's answer has no status".to_owned())
}

/// Reads the bindings and roles of the cluster, and those of the namespace if there is one.
pub(super) async fn policy(client: Client, namespace: Option<&str>) -> Policy {
    let here = async {
        match namespace {
            Some(namespace) => {
                tokio::join!(part(client.clone(), Some(namespace)), part(client.clone(), Some(namespace)),)
            }
            None => (PartialList::default(), PartialList::default()),
        }
    };
    let (cluster_role_bindings, cluster_roles, (role_bindings, roles)) =
        tokio::join!(part(client.clone(), None), part(client.clone(), None), here);
    Policy { cluster_role_bindings, cluster_roles, role_bindings, roles }
}

/// Lists all objects of a kind, page by page. If a page fails, returns the objects so far and the reason.
async fn part<K: TypedKind>(client: Client, namespace: Option<&str>) -> PartialList<K> {
    let PartialList { objects, mut unread } = pages(api_of(client, K::kind(), namespace)).await;
    let mut read = Vec::with_capacity(objects.len());
    for object in objects {
        match object.decode() {
            Ok(object) => read.push(object),
            Err(error) => {
                unread = Some(unread_after(read.len(), &ReadError::By(Box::new(error))));
                break;
            }
        }
    }
    PartialList { objects: read, unread }
}

async fn pages(api: Api<JsonObject>) -> PartialList<JsonObject> {
    let mut found = PartialList::default();
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..PAGES {
        match in_time(api.list(&params)).await {
            Ok(page) => {
                found.objects.extend(page.items);
                match page.metadata.continue_.filter(|next| !next.is_empty()) {
                    Some(next) => params = params.continue_token(&next),
                    None => return found,
                }
            }
            Err(error) => {
                found.unread = Some(unread_after(found.objects.len(), &error));
                return found;
            }
        }
    }
    found.unread = Some(format!("only the first {} were read", found.objects.len()));
    found
}

fn unread_after(read: usize, error: &ReadError) -> String {
    match read {
        0 => error.text(),
        read => format!("only {read} were read: {}", error.text()),
    }
}

enum ReadError {
    Late,
    By(Box<kube::Error>),
}

impl ReadError {
    fn text(&self) -> String {
        match self {
            Self::Late => format!("no answer from the server within {} s", TIMEOUT.as_secs()),
            Self::By(error) => match &**error {
                kube::Error::Api(status) if status.code == 403 => {
                    format!("not allowed: {}", error_text(error))
                }
                kube::Error::Api(status) if status.code == 404 => {
                    format!("the server does not have it: {}", error_text(error))
                }
                other => error_text(other),
            },
        }
    }
}

async fn in_time<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ReadError> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| ReadError::By(Box::new(error))),
        Err(_) => Err(ReadError::Late),
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Returns a server that responds by method, path and query.
    fn server(answer: impl Fn(&str, &str, &Value) -> (u16, Value) + Clone + Send + Sync + 'static) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = answer.clone();
            async move {
                let path = request.uri().path().to_owned();
                let query = request.uri().query().unwrap_or_default().to_owned();
                let body = request.into_body().collect_bytes().await?;
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (code, value) = answer(&path, &query, &body);
                let response = Response::builder().status(code).header("content-type", "application/json");
                Ok::<_, kube::Error>(
                    response.body(Body::from(value.to_string().into_bytes())).expect("a response"),
                )
            }
        });
        Client::new(service, "default")
    }

    fn refusal(code: u16, message: &str) -> (u16, Value) {
        let reason = if code == 403 { "Forbidden" } else { "NotFound" };
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code});
        (code, status)
    }

    fn list(names: std::ops::Range<usize>, next: &str) -> (u16, Value) {
        let items: Vec<Value> = names
            .map(|at| {
                json!({"metadata": {"name": format!("o{at}")}, "rules": [],
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}})
            })
            .collect();
        (
            200,
            json!({"kind": "List", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"continue": next}, "items": items}),
        )
    }

    #[tokio::test]
    async fn each_kind_is_read_to_its_end_or_says_why_not_con_16() {
        let client = server(|path, query, _| match path.rsplit('/').next().unwrap_or_default() {
            "clusterroles" if query.contains("continue=two") => list(2..3, ""),
            // A list that never ends.
            "clusterrolebindings" => list(0..1, "again"),
            "rolebindings" => refusal(403, "rolebindings is forbidden"),
            "roles" if query.contains("continue=") => refusal(410, "the continue token is too old"),
            "clusterroles" | "roles" => list(0..2, "two"),
            other => refusal(404, other),
        });
        let read = policy(client, Some("shop")).await;
        let names: Vec<_> =
            read.cluster_roles.objects.iter().map(|role| role.metadata.name.as_deref()).collect();
        assert_eq!(names, [Some("o0"), Some("o1"), Some("o2")]);
        assert_eq!(
            read.unread(),
            [
                ("cluster role bindings", "only the first 10 were read"),
                ("role bindings", "not allowed: rolebindings is forbidden"),
                ("roles", "only 2 were read: the continue token is too old"),
            ]
        );
    }

    #[tokio::test]
    async fn a_cluster_wide_query_reads_no_namespaced_bindings_con_16() {
        let client = server(|path, _, _| {
            assert!(!path.contains("/namespaces/"), "{path}");
            list(0..1, "")
        });
        let read = policy(client, None).await;
        assert_eq!((read.unread().len(), read.role_bindings.objects.len()), (0, 0));
        assert_eq!(read.cluster_role_bindings.objects.len(), 1);
    }

    #[tokio::test]
    async fn the_reviews_ask_what_was_meant_con_16() {
        // A review passes in read-only mode: it changes nothing.
        let client = console_data::read_only::client(server(|path, _, body| match path {
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
                assert_eq!(
                    body["spec"]["resourceAttributes"],
                    json!({"verb": "get", "group": "", "resource": "pods", "subresource": "log", "name": "web-1",
                        "namespace": "shop"})
                );
                (
                    201,
                    json!({"metadata": {}, "spec": {}, "status": {"allowed": false, "reason": "no RBAC policy matched"}}),
                )
            }
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews" => {
                assert_eq!(body["spec"], json!({"namespace": "shop"}));
                refusal(404, "the server could not find the requested resource")
            }
            other => refusal(404, other),
        }));
        let attributes = Attributes {
            verb: "get".into(),
            group: String::new(),
            resource: "pods".into(),
            subresource: Some("log".into()),
            name: Some("web-1".into()),
            namespace: Some("shop".into()),
        };
        let status = whether(client.clone(), &attributes).await.expect("an answer");
        assert_eq!((status.allowed, status.reason.as_deref()), (false, Some("no RBAC policy matched")));
        assert_eq!(
            self_rules(client, "shop").await.expect_err("no such API"),
            "the server does not have it: the server could not find the requested resource"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_given_up_con_16() {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, kube::Error>>()
        });
        let client = Client::new(service, "default");
        assert_eq!(
            self_rules(client, "shop").await.expect_err("late"),
            "no answer from the server within 20 s"
        );
    }
}
