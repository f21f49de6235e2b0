//! `:can` on a test terminal, against a server that answers (CON-16).

use http::{Request, Response};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::tabs_tests::TestConsole;
use super::*;
use console_data::catalogue::Catalogue;
use console_data::message::Message;
use console_data::resource::Kind;
use console_operations::effect::Runner;

/// The server's responses: `ann` may see pods of `shop`, and may not read roles there.
fn respond(path: &str, body: &Value) -> (u16, Value) {
    let list =
        |items: Value| (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}));
    let refused = |code: u16, message: &str| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Forbidden", "code": code});
        (code, status)
    };
    let role =
        |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    match path.rsplit_once("v1/").expect("a version of an API").1 {
        "selfsubjectrulesreviews" => {
            let own = body["spec"]["namespace"] == json!("shop");
            let (incomplete, why) =
                if own { (true, json!("node authorizer lists no rules")) } else { (false, Value::Null) };
            let pods = json!({"verbs": ["watch", "list", "get"], "apiGroups": [""], "resources": ["pods", "pods/log"]});
            let secret = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["tls"]});
            let rules = if own { json!([pods, secret]) } else { json!([secret]) };
            let paths = json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]);
            (
                201,
                json!({"metadata": {}, "spec": {}, "status": {"incomplete": incomplete, "evaluationError": why,
                "resourceRules": rules, "nonResourceRules": paths}}),
            )
        }
        "selfsubjectaccessreviews" => {
            let attributes = &body["spec"]["resourceAttributes"];
            let allowed = attributes["verb"] == json!("get");
            let reason =
                if allowed { "RBAC: allowed by RoleBinding \"readers/shop\" of Role \"reader\"" } else { "" };
            (201, json!({"metadata": {}, "spec": {}, "status": {"allowed": allowed, "reason": reason}}))
        }
        "clusterroles" => list(json!([
            {"metadata": {"name": "cluster-admin"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]},
            {"metadata": {"name": "view"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
        ])),
        "clusterrolebindings" => list(json!([
            {"metadata": {"name": "admins"}, "roleRef": role("ClusterRole", "cluster-admin"),
                "subjects": [{"kind": "Group", "name": "system:masters"}]},
        ])),
        "namespaces/shop/rolebindings" => list(json!([
            {"metadata": {"name": "viewers", "namespace": "shop"}, "roleRef": role("ClusterRole", "view"),
                "subjects": [{"kind": "User", "name": "bob"}, {"kind": "ServiceAccount", "name": "ci"}]},
            {"metadata": {"name": "readers", "namespace": "shop"}, "roleRef": role("Role", "reader"),
                "subjects": [{"kind": "User", "name": "ann"}]},
        ])),
        "namespaces/default/rolebindings" | "namespaces/default/roles" => list(json!([])),
        _ => refused(
            403,
            "roles.rbac.authorization.k8s.io is forbidden: User \"ann\" cannot list resource \"roles\"",
        ),
    }
}

/// A console that sends the requests of its tasks to that server.
struct ServedConsole {
    stage: TestConsole,
    runner: Runner,
    messages: mpsc::Receiver<Message>,
}

impl ServedConsole {
    fn new(width: u16, height: u16) -> Self {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect_bytes().await?;
            let (code, value) = respond(&path, &serde_json::from_slice(&body).unwrap_or(Value::Null));
            let response = Response::builder().status(code).header("content-type", "application/json");
            Ok::<_, kube::Error>(response.body(Body::from(value.to_string().into_bytes())).unwrap())
        });
        let (sender, messages) = mpsc::channel(16);
        let runner = Runner::new(Client::new(service, "default"), sender);
        Self { stage: TestConsole::new(width, height), runner, messages }
    }

    /// Returns the screen without rows that have only a frame.
    fn visible_text(&mut self) -> String {
        let screen = self.stage.screen();
        let empty = |line: &&str| line.starts_with('│') && line.trim_matches(['│', ' ']).is_empty();
        let lines: Vec<&str> = screen.lines().filter(|line| !empty(line)).collect();
        lines.join("\n")
    }

    /// Asserts that a command is refused with this error.
    async fn refuses(&mut self, text: &str, error: &str) {
        self.press(&format!(": \"{text}\" enter")).await;
        let screen = self.visible_text();
        assert!(screen.contains(&format!("✖ {error}")), "{text}: {screen}");
        self.press("esc").await;
    }

    /// Presses keys, and waits for the results of the tasks that they start.
    async fn press(&mut self, script: &str) {
        let mut tasks = 0;
        for job in self.stage.press(script) {
            if let Job::Start(task) = job {
                tasks += 1;
                self.runner.start(task);
            }
        }
        for _ in 0..tasks {
            let message = self.messages.recv().await.expect("the tasks live");
            self.stage.model.update(message, self.stage.now);
        }
    }
}

const SELF_RULES_WIDE: &str =
    " podium ▸ Overview ▸ my permissions in shop            0 nodes ● 0   4 pods ● 4
╭ my permissions in shop ──────────────────────────────────────────────────────╮
│ ✖ incomplete, there may be more: node authorizer lists no rules              │
│ · 4 resources and paths                                                      │
│ RESOURCE  NAMES  VERBS                                                       │
│ pods             get list watch                                              │
│ pods/log         get list watch                                              │
│ secrets   tls    get                                                         │
│ /healthz         get                                                         │
╰──────────────────────────────────────────────────────────────── as of 0s ago ╯
 <:>command  </>filter  <?>help";

const SELF_RULES_NARROW: &str = " podium ▸ my permissions in shop
╭ my permissions in shop ──────────────╮
│ ✖ incomplete, there may be more:     │
│   node authorizer lists no rules     │
│ · 4 resources and paths              │
│ pods                                 │
│   get list watch                     │
│ pods/log                             │
│   get list watch                     │
│ secrets                              │
╰──────────────────────── as of 0s ago ╯
 <:>command  </>filter  <?>help";

const WHO_WIDE: &str = " podium ▸ Overview ▸ who may get pods web-1 in shop    0 nodes ● 0   4 pods ● 4
╭ who may get pods web-1 in shop ──────────────────────────────────────────────╮
│ ✔ you may get pods web-1 in shop                                             │
│   RBAC: allowed by RoleBinding \"readers/shop\" of Role \"reader\"               │
│ ✖ roles: not allowed: roles.rbac.authorization.k8s.io is forbidden: User     │
│   \"ann\" cannot list resource \"roles\"                                         │
│ ✖ 1 binding names a role that was not read: its permissions are not known    │
│ · 3 subjects are allowed by the roles and bindings that were read            │
│ Group system:masters                                                         │
│   ClusterRoleBinding admins → ClusterRole cluster-admin                      │
│ ServiceAccount shop/ci                                                       │
│   RoleBinding shop/viewers → ClusterRole view                                │
│ User bob                                                                     │
│   RoleBinding shop/viewers → ClusterRole view                                │
│ · RBAC only: other authorizers may allow more, and system:masters may do     │
│   everything                                                                 │
╰──────────────────────────────────────────────────────────────── as of 0s ago ╯
 <:>command  </>filter  <?>help";

const WHO_NARROW: &str = " podium ▸ who may get pods web-1 in shop
╭ who may get pods web-1 in shop ──────╮
│ ✔ you may get pods web-1 in shop     │
│   RBAC: allowed by RoleBinding       │
│   \"readers/shop\" of Role \"reader\"    │
│ ✖ roles: not allowed:                │
│   roles.rbac.authorization.k8s.io is │
│   forbidden: User \"ann\" cannot list  │
│   resource \"roles\"                   │
╰──────────────────────── as of 0s ago ╯
 <:>command  </>filter  <?>help";

#[tokio::test]
async fn both_questions_are_drawn_wide_and_narrow_con_16() {
    for (width, height, mine, who) in
        [(80, 24, SELF_RULES_WIDE, WHO_WIDE), (40, 12, SELF_RULES_NARROW, WHO_NARROW)]
    {
        let mut asking = ServedConsole::new(width, height);
        asking.press(": \"ns_shop\" enter").await;
        asking.press(": \"can\" enter").await;
        assert_eq!(asking.visible_text(), mine);
        asking.press("esc : \"can_get_po_web-1\" enter").await;
        assert_eq!(asking.visible_text(), who);
    }
}

#[tokio::test]
async fn own_permissions_follow_the_scope_and_can_be_filtered_and_scrolled_con_16() {
    let mut asking = ServedConsole::new(80, 24);
    asking.press(": \"can\" enter").await;
    let screen = asking.visible_text();
    assert!(screen.contains("all namespaces are shown: the check uses default"), "{screen}");
    assert!(screen.contains("my permissions in default") && !screen.contains("pods/log"), "{screen}");
    asking.press(": \"ns_shop\" enter").await;
    let screen = asking.visible_text();
    assert!(screen.contains("my permissions in shop") && screen.contains("pods/log"), "{screen}");
    assert!(!screen.contains("all namespaces"), "{screen}");
    asking.press("/ \"log|tls\" enter").await;
    let screen = asking.visible_text();
    assert!(screen.contains("2 of 4 resources and paths") && !screen.contains("/healthz"), "{screen}");

    let mut asking = ServedConsole::new(40, 12);
    asking.press(": \"ns_shop\" enter").await;
    asking.press(": \"can\" enter").await;
    assert!(!asking.visible_text().contains("/healthz"));
    asking.press("G").await;
    assert!(asking.visible_text().contains("/healthz") && asking.visible_text().contains("only tls"));
}

#[tokio::test]
async fn permitted_subjects_are_filtered_by_name_and_by_binding_con_16() {
    let mut asking = ServedConsole::new(80, 24);
    asking.press(": \"can_get_pods_shop/web-1\" enter").await;
    asking.press("/ \"viewers\" enter").await;
    let screen = asking.visible_text();
    assert!(
        screen.contains("2 of 3 subjects are allowed") && !screen.contains("Group system:masters"),
        "{screen}"
    );
    assert!(screen.contains("User bob") && !screen.contains("ClusterRoleBinding admins"), "{screen}");
    // A failed list is reported, and no filter hides that.
    assert!(screen.contains("✖ roles: not allowed"), "{screen}");
}

#[tokio::test]
async fn a_verb_alone_asks_of_what_is_selected_con_16() {
    let mut asking = ServedConsole::new(80, 24);
    asking.refuses("can_get", "nothing is selected; :can get RESOURCE NAME works everywhere").await;
    asking.press(": \"pods\" enter").await;
    asking.press(": \"can_delete\" enter").await;
    let screen = asking.visible_text();
    assert!(screen.contains("✖ you may not delete pods api in default"), "{screen}");
    assert!(screen.contains("the server gives no reason"), "{screen}");
    assert!(screen.contains("· 1 subject is allowed by the roles and bindings  "), "{screen}");
}

/// Discovery of pods with their logs, and of namespaces.
fn discovered() -> Catalogue {
    let pods = console_data::builtin_kinds::kind::<Pod>();
    let verbs = |verbs: &[&str]| {
        verbs.iter().map(|verb| (*verb).to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    let pods = Kind::new(console_data::resource::KindFacts {
        verbs: verbs(&["get", "list", "delete", "create"]),
        subresources: BTreeMap::from([
            ("log".to_owned(), verbs(&["get"])),
            ("exec".to_owned(), verbs(&["create"])),
        ]),
        ..(*pods).clone()
    });
    Catalogue::of(vec![
        pods,
        console_data::builtin_kinds::kind::<Namespace>(),
        console_data::builtin_kinds::kind::<Node>(),
    ])
}

#[tokio::test]
async fn words_are_found_in_what_the_server_has_con_16() {
    let mut asking = ServedConsole::new(80, 24);
    let now = asking.stage.now;
    asking.stage.model.update(Message::Catalogue(discovered()), now);
    for (text, why) in [
        ("can_gte_pods", "no verb \"gte\"; did you mean \"get\"?"),
        ("can_frobnicate_pods", "no verb \"frobnicate\"; the verbs are get, list"),
        ("can_get_pdos", "no resource \"pdos\"; did you mean \"pods\"?"),
        ("can_get_gadgets", "no resource \"gadgets\"; :aliases lists them"),
        ("can_get_pods/lgo", "pods have no subresource \"lgo\"; did you mean \"log\"?"),
        ("can_get_pods/portal", "pods have no subresource \"portal\"; they have exec, log"),
        ("can_get_pods_shpo/a", "no namespace \"shpo\"; did you mean \"shop\"?"),
        ("can_get_pods_../a", "invalid namespace name \"..\""),
        ("can_get_pods_shop/", "can: the name is required"),
        ("can_get_nodes_shop/b", "nodes are cluster-scoped: only a name can follow"),
        ("can_get_pods_a_b_c", "can: unexpected \"b c\" after the name"),
    ] {
        asking.refuses(text, why).await;
    }
    for (text, heading, note) in [
        ("can_create_po/log", "who may create pods/log in default", "the server supports only get for it"),
        ("can_create_pods_web-1", "who may create pods web-1 in default", "names no object"),
        ("can_get_ns_shop", "who may get namespaces shop ─", ""),
        ("can_list_ns", "who may list namespaces cluster-wide", ""),
        ("can_*_*", "who may * *.* in default", ""),
        ("can_get_*.apps/scale", "who may get *.apps/scale in default", ""),
    ] {
        asking.press(&format!(": \"{text}\" enter")).await;
        let screen = asking.visible_text();
        assert!(screen.contains(heading) && screen.contains(note), "{text}: {screen}");
        asking.press("esc").await;
    }
    for (typed, offered) in
        [("can_de", "can delete"), ("can_get_po", "can get pods"), ("can_get_pods/l", "can get pods/log")]
    {
        asking.press(&format!(": \"{typed}\"")).await;
        assert!(asking.visible_text().contains(offered), "{typed}: {}", asking.visible_text());
        asking.press("esc").await;
    }
}
