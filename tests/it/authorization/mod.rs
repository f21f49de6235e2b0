//! Authorization over HTTP and with an unmodified kubectl: roles, impersonation, certificates, reviews (SEC-4, API-15).

mod matrix;

use http::Method;
use serde_json::{Value, json};

use crate::http::{InMemoryServer, OWNER, Response};
use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A server with the default roles and two namespaces.
async fn server_with_roles() -> InMemoryServer {
    let face = InMemoryServer::new();
    for name in ["kube-system", "kube-public", "other"] {
        made(&face, "/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    }
    face.api.reconcile_default_roles().unwrap();
    face
}

async fn made(face: &InMemoryServer, path: &str, object: Value) {
    let answer = face.ask(Method::POST, path, &[OWNER], &object.to_string()).await;
    assert_eq!(answer.status, 201, "{path}: {}", answer.body);
}

async fn bound(face: &InMemoryServer, namespace: &str, role: &str, user: &str) {
    let binding = json!({"metadata": {"generateName": "b-"}, "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user}]});
    made(face, &format!("{ROLES}/namespaces/{namespace}/rolebindings"), binding).await;
}

async fn send_as(face: &InMemoryServer, user: &str, method: Method, path: &str, body: &str) -> Response {
    face.ask(method, path, &[OWNER, ("impersonate-user", user)], body).await
}

fn message(answer: &Response) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_string()
}

#[tokio::test]
async fn every_request_is_judged_and_refused_in_kubernetes_words_sec_4() {
    let face = server_with_roles().await;
    bound(&face, "default", "system:aggregate-to-view", "jane").await;
    let map = json!({"metadata": {"name": "m"}, "data": {}}).to_string();
    let pods = "/api/v1/namespaces/default/pods";
    for (method, path, code, expected) in [
        (Method::GET, pods.to_string(), 200, ""),
        (Method::GET, "/api/v1/namespaces/default".into(), 200, ""),
        (Method::GET, "/apis/apps/v1".into(), 200, ""),
        (Method::GET, "/openapi/v3".into(), 200, ""),
        (
            Method::GET,
            "/api/v1/namespaces/other/pods".into(),
            403,
            "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"other\"",
        ),
        (
            Method::GET,
            "/api/v1/pods?watch=true".into(),
            403,
            "pods is forbidden: User \"jane\" cannot watch resource \"pods\" in API group \"\" at the cluster scope",
        ),
        (
            Method::POST,
            "/api/v1/namespaces/default/configmaps".into(),
            403,
            "configmaps is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (
            Method::DELETE,
            "/apis/apps/v1/namespaces/default/deployments".into(),
            403,
            "deployments.apps is forbidden: User \"jane\" cannot deletecollection resource \"deployments\" in API group \"apps\" in the namespace \"default\"",
        ),
        (
            Method::GET,
            format!("{pods}/p/exec?command=sh&stdout=1"),
            403,
            "pods \"p\" is forbidden: User \"jane\" cannot get resource \"pods/exec\" in API group \"\" in the namespace \"default\"",
        ),
        (
            Method::GET,
            "/api/v1/nodes/n/proxy/metrics".into(),
            403,
            "nodes \"n\" is forbidden: User \"jane\" cannot get resource \"nodes/proxy\" in API group \"\" at the cluster scope",
        ),
        // Only users who may read an object learn that it does not exist.
        (
            Method::GET,
            "/apis/example.com/v1/things".into(),
            403,
            "things.example.com is forbidden: User \"jane\" cannot list resource \"things\" in API group \"example.com\" at the cluster scope",
        ),
        (Method::GET, "/metrics".into(), 403, "forbidden: User \"jane\" cannot get path \"/metrics\""),
    ] {
        let body = if method == Method::POST { &map } else { "" };
        let answer = send_as(&face, "jane", method, &path, body).await;
        assert_eq!(answer.status, code, "{path}: {}", answer.body);
        if code == 403 {
            assert_eq!(
                (message(&answer).as_str(), &answer.json()["reason"]),
                (expected, &json!("Forbidden")),
                "{path}"
            );
        }
    }
    let details =
        send_as(&face, "jane", Method::GET, &format!("{pods}/p/exec"), "").await.json()["details"].clone();
    assert_eq!(details, json!({"name": "p", "kind": "pods"}));
}

#[tokio::test]
async fn impersonation_is_checked_for_each_thing_to_be_api_15() {
    let face = server_with_roles().await;
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let whoami = async |headers: &[(&str, &str)]| {
        let headers: Vec<_> = [OWNER].iter().chain(headers).copied().collect();
        face.ask(Method::POST, review, &headers, "{}").await
    };
    let jane = whoami(&[
        ("impersonate-user", "jane"),
        ("impersonate-group", "dev"),
        ("impersonate-group", "ops"),
        ("impersonate-uid", "u-1"),
        ("impersonate-extra-acme.com%2Fproject", "x"),
    ])
    .await;
    assert_eq!(
        jane.json()["status"]["userInfo"],
        json!({"username": "jane", "groups": ["dev", "ops", "system:authenticated"], "uid": "u-1",
            "extra": {"acme.com/project": ["x"]}})
    );
    let robot = whoami(&[("impersonate-user", "system:serviceaccount:default:robot")]).await;
    assert_eq!(
        robot.json()["status"]["userInfo"]["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    assert_eq!(whoami(&[("impersonate-group", "dev")]).await.status, 500);

    // A user may impersonate some users and not others; roles decide that, not tokens.
    let account = json!({"metadata": {"name": "robot"}});
    made(&face, "/api/v1/namespaces/default/serviceaccounts", account).await;
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let issued = face.ask(Method::POST, path, &[OWNER], "{\"spec\": {\"audiences\": []}}").await;
    let token = format!("Bearer {}", issued.json()["status"]["token"].as_str().unwrap());
    let rules = json!([{"apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"], "verbs": ["impersonate"]}]);
    made(&face, &format!("{ROLES}/clusterroles"), json!({"metadata": {"name": "as-jane"}, "rules": rules}))
        .await;
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "as-jane"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]});
    made(&face, &format!("{ROLES}/clusterrolebindings"), binding).await;
    let robot = async |headers: &[(&str, &str)]| {
        let headers: Vec<_> = [("authorization", token.as_str())].iter().chain(headers).copied().collect();
        face.ask(Method::POST, review, &headers, "{}").await
    };
    assert_eq!(robot(&[("impersonate-user", "jane")]).await.json()["status"]["userInfo"]["username"], "jane");
    for (headers, expected) in [
        (
            vec![("impersonate-user", "joe")],
            "users \"joe\" is forbidden: User \"system:serviceaccount:default:robot\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
        ),
        (
            vec![("impersonate-user", "jane"), ("impersonate-group", "system:masters")],
            "groups \"system:masters\" is forbidden: User \"system:serviceaccount:default:robot\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope",
        ),
    ] {
        let refused = robot(&headers).await;
        assert_eq!((refused.status.as_u16(), message(&refused).as_str()), (403, expected));
    }
}

#[tokio::test]
async fn reviews_answer_as_the_request_would_be_answered_api_15() {
    let face = server_with_roles().await;
    bound(&face, "default", "system:aggregate-to-view", "jane").await;
    let ask = async |path: &str, user: &str, spec: Value| {
        let path = format!("/apis/authorization.k8s.io/v1/{path}");
        send_as(&face, user, Method::POST, &path, &json!({"spec": spec}).to_string()).await
    };
    let pods = |verb: &str, namespace: &str| json!({"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": namespace}});
    let own =
        async |spec: Value| ask("selfsubjectaccessreviews", "jane", spec).await.json()["status"].clone();
    let allowed = own(pods("list", "default")).await;
    assert_eq!(allowed["allowed"], true);
    let reason = allowed["reason"].as_str().unwrap();
    assert!(reason.starts_with("RBAC: allowed by RoleBinding \"b-"), "{reason}");
    assert!(
        reason.ends_with("/default\" of ClusterRole \"system:aggregate-to-view\" to User \"jane\""),
        "{reason}"
    );
    assert_eq!(own(pods("delete", "default")).await, json!({"allowed": false}));
    assert_eq!(own(pods("list", "other")).await, json!({"allowed": false}));
    assert_eq!(
        own(json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}})).await["allowed"],
        false
    );
    let healthz = json!({"groups": ["system:unauthenticated"], "nonResourceAttributes": {"verb": "get", "path": "/healthz"}});
    assert_eq!(ask("subjectaccessreviews", "jane", healthz.clone()).await.status, 403);
    let body = json!({"spec": healthz}).to_string();
    let response =
        face.ask(Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &[OWNER], &body);
    assert_eq!(response.await.json()["status"]["allowed"], true);

    let rules =
        ask("selfsubjectrulesreviews", "jane", json!({"namespace": "default"})).await.json()["status"]
            .clone();
    assert_eq!(rules["incomplete"], false);
    let logs = rules["resourceRules"].as_array().unwrap().iter().any(|rule| {
        rule["resources"].as_array().unwrap().contains(&json!("pods/log"))
            && rule["verbs"] == json!(["get", "list", "watch"])
    });
    assert!(logs && !rules["nonResourceRules"].as_array().unwrap().is_empty(), "{rules}");
    let other =
        ask("selfsubjectrulesreviews", "jane", json!({"namespace": "other"})).await.json()["status"].clone();
    assert!(!other["resourceRules"].to_string().contains("pods/log"), "{other}");
    assert_eq!(ask("selfsubjectrulesreviews", "jane", json!({})).await.status, 400);
}

#[tokio::test]
async fn users_cannot_grant_rights_over_http_that_they_do_not_have_sec_4() {
    let face = server_with_roles().await;
    bound(&face, "default", "system:aggregate-to-admin", "jane").await;
    bound(&face, "default", "system:aggregate-to-view", "jane").await;
    let path = format!("{ROLES}/namespaces/default/roles");
    let role = |name: &str, resource: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]})
        .to_string()
    };
    let made = send_as(&face, "jane", Method::POST, &path, &role("r", "pods")).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let refused = send_as(&face, "jane", Method::PUT, &format!("{path}/r"), &role("r", "secrets")).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    let words = "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"jane\" (groups=[\"system:authenticated\"]) is \
                 attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], \
                 Verbs:[\"get\"]}";
    assert_eq!(message(&refused), words);
    let headers = [OWNER, ("impersonate-user", "jane"), ("content-type", "application/apply-patch+yaml")];
    let applied = format!("{path}/s?fieldManager=m");
    let refused = face.ask(Method::PATCH, &applied, &headers, &role("s", "secrets")).await;
    assert_eq!(refused.status, 403, "a new role by apply: {}", refused.body);
    let merge = [OWNER, ("impersonate-user", "jane"), ("content-type", "application/merge-patch+json")];
    let labelled = face
        .ask(Method::PATCH, &format!("{path}/r"), &merge, "{\"metadata\": {\"labels\": {\"a\": \"b\"}}}")
        .await;
    assert_eq!(labelled.status, 200, "its rules are as they were: {}", labelled.body);
}

/// Kubernetes checks this in the handler of patches: otherwise a role with `patch` alone could create objects by
/// applying them.
#[tokio::test]
async fn an_apply_that_makes_an_object_is_a_creation_too_sec_4() {
    let face = server_with_roles().await;
    let role = json!({"metadata": {"name": "patches"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"]}]});
    made(&face, &format!("{ROLES}/clusterroles"), role).await;
    bound(&face, "default", "patches", "jane").await;
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}});
    let (path, body) = ("/api/v1/namespaces/default/configmaps/c?fieldManager=m", config.to_string());
    let owner = [OWNER, ("content-type", "application/apply-patch+yaml")];
    let jane = [owner[0], owner[1], ("impersonate-user", "jane")];
    let refused = face.ask(Method::PATCH, path, &jane, &body).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert_eq!(
        message(&refused),
        "configmaps \"c\" is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \"\" in the \
         namespace \"default\""
    );
    let made = face.ask(Method::PATCH, path, &owner, &body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let applied = face.ask(Method::PATCH, path, &jane, &body).await;
    assert_eq!(applied.status, 200, "an existing object may be patched: {}", applied.body);
}

/// A user with a certificate of the cluster's authority, a pod's token, and kubectl's own questions.
#[test]
fn kubectl_is_held_by_roles_api_15() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let can = |arguments: &[&str]| {
        let output = instance.kubectl_output(&[&["auth", "can-i"], arguments].concat());
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    instance.kubectl(&["create", "namespace", "team"]);
    instance.kubectl(&["create", "rolebinding", "views", "--clusterrole=view", "--user=jane", "-n", "team"]);
    assert_eq!(can(&["list", "pods", "-n", "team", "--as=jane"]), "yes");
    assert_eq!(can(&["list", "secrets", "-n", "team", "--as=jane"]), "no");
    assert_eq!(can(&["list", "pods", "--as=jane"]), "no");
    assert_eq!(can(&["*", "*"]), "yes");
    let listed = can(&["--list", "--as=jane", "-n", "team"]);
    assert!(
        listed.contains("selfsubjectaccessreviews.authorization.k8s.io") && listed.contains("pods/log"),
        "{listed}"
    );
    let refused = instance.kubectl_output(&["get", "pods", "--as=jane"]);
    let words = "Error from server (Forbidden): pods is forbidden: User \"jane\" cannot list resource \"pods\" in API \
                 group \"\" in the namespace \"default\"";
    assert_eq!(String::from_utf8_lossy(&refused.stderr).trim(), words);
    let shown = instance.kubectl(&["get", "rolebindings", "-n", "team", "-o", "wide"]);
    let words: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((words[0], words[1], words[3]), ("views", "ClusterRole/view", "jane"), "{shown}");
    let admin = instance.kubectl(&["get", "clusterrole", "admin", "-o", "json"]);
    let admin: Value = serde_json::from_str(&admin).unwrap();
    assert!(admin["rules"].as_array().is_some_and(|rules| rules.len() > 20), "aggregated: {admin}");

    // The same user with a certificate that she requested and the owner approved.
    let (key, request) = certificate_request("jane", "developers");
    let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "jane"}, "spec": {"request": k8s_openapi::ByteString(request.into_bytes()),
            "signerName": "kubernetes.io/kube-apiserver-client", "expirationSeconds": 3600,
            "usages": ["digital signature", "client auth"]}});
    let file = home.path("request.json");
    std::fs::write(&file, object.to_string()).unwrap();
    instance.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    assert!(instance.kubectl(&["get", "csr", "jane", "--no-headers"]).trim().ends_with("Pending"));
    instance.kubectl(&["certificate", "approve", "jane"]);
    let pem = wait_for("the certificate", || {
        let request: Value =
            serde_json::from_str(&instance.kubectl(&["get", "csr", "jane", "-o", "json"])).unwrap();
        let bytes: k8s_openapi::ByteString =
            serde_json::from_value(request["status"]["certificate"].clone()).ok()?;
        Some(bytes.0).filter(|bytes| !bytes.is_empty())
    });
    let (certificate_file, key_file) = (home.path("jane.crt"), home.path("jane.key"));
    std::fs::write(&certificate_file, pem).unwrap();
    std::fs::write(&key_file, key).unwrap();
    let authority = home.data_dir().join("ca.crt");
    let server = instance.ready_line.split_whitespace().nth(1).unwrap().to_string();
    let as_jane = |arguments: &[&str]| {
        let output = std::process::Command::new("kubectl")
            .args(["--kubeconfig", "/dev/null", "--server", &server])
            .arg("--certificate-authority")
            .arg(&authority)
            .arg("--client-certificate")
            .arg(&certificate_file)
            .arg("--client-key")
            .arg(&key_file)
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let who = as_jane(&["auth", "whoami", "-o", "json"]);
    let who: Value = serde_json::from_str(&who.1).unwrap_or_else(|error| panic!("{error}: {who:?}"));
    let user = &who["status"]["userInfo"];
    assert_eq!(
        (&user["username"], &user["groups"]),
        (&json!("jane"), &json!(["developers", "system:authenticated"]))
    );
    let listed = as_jane(&["get", "pods", "-n", "team"]);
    assert!(listed.0, "{listed:?}");
    assert!(as_jane(&["get", "secrets", "-n", "team"]).2.contains("(Forbidden)"));
    instance.stop();
}

/// A new key, and a request for a certificate of it.
fn certificate_request(name: &str, group: &str) -> (String, String) {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, group);
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    (key.serialize_pem(), request)
}
