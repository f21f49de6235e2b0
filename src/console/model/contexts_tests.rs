//! One table over several clusters on a test terminal (CON-16): its rows, the cluster that a key on a row affects, and
//! the messages about a cluster without rows. All clusters have objects with the same names and uids.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use std::convert::Infallible;

use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::tabs_tests::{TestConsole, objects, pod, widgets};
use super::*;
use console_data::action::{Mutation, Outcome};
use console_data::catalogue::Catalogue;
use console_data::contexts::ConnectedCluster;
use console_data::contexts::ContextEntry;
use console_data::links::{Link, UnavailableReason};
use console_data::message::Message;
use console_data::resource::ClusterId;
use console_data::resource::Kind;
use console_data::saved_tabs::SavedTabs;
use console_data::store::{Change, Delta};
use console_operations::effect::Dialog;
use console_toolkit::theme::depth::Depth;

const PROD: ClusterId = ClusterId::joined(1);
const QA: ClusterId = ClusterId::joined(2);

fn client() -> Client {
    let service = tower::service_fn(|_: http::Request<Body>| async {
        Ok::<_, Infallible>(http::Response::new(Body::empty()))
    });
    Client::new(service, "default")
}

fn entry(name: &str, server: &str) -> ContextEntry {
    ContextEntry {
        name: name.to_owned(),
        cluster: name.to_owned(),
        server: server.to_owned(),
        user: "me".to_owned(),
        namespace: None,
        is_current: false,
    }
}

/// Describes jobs, each with its cluster.
fn describe(jobs: &[Job]) -> Vec<String> {
    let one = |job: &Job| match job {
        Job::Join(name) => format!("join {}", name.as_deref().unwrap_or("-")),
        Job::Attach(_) => "attach".to_owned(),
        Job::Need(resource) => format!("need {}", resource.plural),
        Job::Watch(kind, namespace, _) => {
            format!(
                "watch {}.{}/{}",
                kind.singular,
                kind.resource.version,
                namespace.as_deref().unwrap_or("*")
            )
        }
        Job::Unwatch(resource) => format!("unwatch {}", resource.plural),
        Job::Release => "rest".to_owned(),
        Job::Start(_) => "start".to_owned(),
        Job::Act(action) => match &action.mutation {
            Mutation::Delete { target, .. } => {
                format!("delete {} {}", target.describe(), target.uid.as_ref().map_or("", |uid| uid.as_str()))
            }
            _ => action.title.clone(),
        },
        Job::MeasurePods(is_enabled) => format!("measure {is_enabled}"),
        Job::ReadContexts => "contexts".to_owned(),
        other => format!("{other:?}").split(['(', ' ']).next().unwrap_or_default().to_owned(),
    };
    jobs.iter()
        .map(|job| match job {
            Job::On(PROD, job) => format!("prod: {}", one(job)),
            Job::On(QA, job) => format!("qa: {}", one(job)),
            Job::On(other, job) => format!("{other:?}: {}", one(job)),
            job => one(job),
        })
        .collect()
}

/// Returns those that change the cluster.
fn changes(jobs: &[Job]) -> Vec<String> {
    let is = |text: &String| text.contains("delete") || text.contains("scale") || text.contains("restart");
    describe(jobs).into_iter().filter(is).collect()
}

impl TestConsole {
    fn on(&mut self, cluster: ClusterId, message: Message) -> Vec<Job> {
        self.model.update(Message::On(cluster, Box::new(message)), self.now)
    }

    fn feed_on(&mut self, cluster: ClusterId, delta: Delta) -> Vec<Job> {
        self.on(cluster, Message::Feed(delta))
    }

    /// A cluster answers, and has these pods.
    fn joins(&mut self, cluster: ClusterId, name: &str, pods: Vec<Value>) -> Vec<Job> {
        let connected = ConnectedCluster {
            name: Some(name.to_owned()),
            origin: "10.0.0.1:6443".to_owned(),
            namespace: Some("default".to_owned()),
            client: client(),
        };
        let identity = Identity { context: name.to_owned(), ..Identity::default() };
        let mut jobs = self.on(cluster, Message::Joined(Box::new((connected, identity))));
        jobs.extend(self.on(cluster, Message::Catalogue(Catalogue::of(builtin_kinds::kinds()))));
        let namespaces = ["default", "shop"].map(|name| json!({"metadata": {"name": name, "uid": name}}));
        jobs.extend(self.feed_on(cluster, Delta::of::<Namespace>(vec![Change::Reset(objects(namespaces))])));
        jobs.extend(self.feed_on(cluster, Delta::of::<Pod>(vec![Change::Reset(objects(pods))])));
        jobs
    }

    /// A table of pods over the own cluster and two others, which all have `default/web` with the same uid.
    fn with_three_clusters(width: u16, height: u16, depth: Depth) -> Self {
        let mut stage = Self::in_depth(width, height, depth);
        stage.model.update(Message::Catalogue(Catalogue::of(builtin_kinds::kinds())), stage.now);
        stage.press(": \"pods_@podium,prod,qa\" enter");
        stage.joins(PROD, "prod", vec![pod("default", "web"), pod("default", "only-prod")]);
        stage.joins(QA, "qa", vec![pod("default", "web")]);
        stage
    }

    /// Moves the cursor to the row with these words.
    fn select(&mut self, texts: &[&str]) {
        self.press("g");
        for _ in 0..40 {
            let screen = self.screen();
            let row =
                screen.lines().find(|line| line.contains('▸') && line.starts_with('│')).unwrap_or_default();
            if texts.iter().all(|word| row.split_whitespace().any(|cell| cell == *word)) {
                return;
            }
            self.press("j");
        }
        panic!("no row {texts:?} in\n{}", self.screen());
    }

    fn dialog(&self) -> (&str, Option<&str>) {
        let (_, dialog): &(ScreenId, Box<Dialog>) = self.model.dialog.as_ref().expect("a question");
        (&dialog.title, dialog.context.as_deref())
    }
}

#[tokio::test]
async fn clusters_are_joined_for_a_table_and_let_go_after_it_con_16() {
    let mut stage = TestConsole::new(140, 40);
    let jobs = stage.press(": \"pods_@prod,qa\" enter");
    assert!(
        describe(&jobs).ends_with(&["prod: join prod".to_owned(), "qa: join qa".to_owned()]),
        "{:?}",
        describe(&jobs)
    );
    let screen = stage.screen();
    assert!(screen.contains("◐ prod connecting") && screen.contains("◐ qa connecting"), "{screen}");
    assert!(
        screen.contains("0 of 2 live") && screen.contains(" 2 contexts ▸ Overview ▸ Pods @prod,qa"),
        "{screen}"
    );
    let jobs = stage.joins(PROD, "prod", vec![pod("default", "web")]);
    let jobs = describe(&jobs);
    for job in ["prod: attach", "prod: need namespaces", "prod: need pods", "prod: measure true"] {
        assert!(jobs.contains(&job.to_owned()), "{job}: {jobs:?}");
    }
    assert!(!jobs.iter().any(|job| job.contains("need deployments")), "no more than is shown: {jobs:?}");
    let screen = stage.screen();
    assert!(screen.contains("CONTEXT") && screen.contains("▸ prod"), "{screen}");
    assert!(screen.contains("◐ qa connecting") && screen.contains("● prod"), "{screen}");
    assert!(!screen.contains(" cart "), "the own cluster is not asked for: {screen}");
    // A second table over them joins no cluster again.
    let jobs = describe(&stage.press("ctrl-t : \"deploy_@qa,prod\" enter"));
    assert!(jobs.contains(&"prod: need deployments".to_owned()), "{jobs:?}");
    assert!(!jobs.iter().any(|job| job.contains("join")), "{jobs:?}");
    stage.press("alt-w");
    // A cluster that is no longer shown is released, and its rows are dropped.
    let jobs = describe(&stage.press("q"));
    assert!(jobs.contains(&"prod: rest".to_owned()) && jobs.contains(&"qa: rest".to_owned()), "{jobs:?}");
    assert!(
        stage
            .feed_on(PROD, Delta::of::<Pod>(vec![Change::Reset(objects([pod("default", "late")]))]))
            .is_empty()
    );
    let jobs = describe(&stage.press(": \"pods_@prod\" enter"));
    assert!(jobs.contains(&"prod: join prod".to_owned()), "{jobs:?}");
    assert!(!stage.screen().contains("late"), "{}", stage.screen());
}

#[tokio::test]
async fn each_row_says_of_which_context_it_is_con_16() {
    for depth in [Depth::True, Depth::None] {
        for (width, height) in [(80, 24), (140, 40), (40, 12)] {
            let mut stage = TestConsole::with_three_clusters(width, height, depth);
            let screen = stage.screen();
            assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{screen}");
            let webs: Vec<&str> = screen.lines().filter(|line| line.contains(" web ")).collect();
            assert_eq!(webs.len(), 3, "{width}×{height}\n{screen}");
            for (name, line) in ["podium", "prod", "qa"].iter().zip(&webs) {
                assert!(line.split_whitespace().any(|word| word == *name), "{name}: {line}\n{screen}");
            }
            let head = screen.lines().find(|line| line.contains("CONTEXT")).unwrap_or_default();
            assert!(head.find("CONTEXT") < head.find("NAME"), "{screen}");
            assert!(screen.contains("3 of 3 live") || width == 40, "{screen}");
        }
    }
}

#[tokio::test]
async fn rows_are_sorted_filtered_and_narrowed_by_context_con_16() {
    let mut stage = TestConsole::with_three_clusters(140, 40, Depth::True);
    assert!(stage.screen().contains("Pods all 7"), "{}", stage.screen());
    stage.press("/ \"^qa$\" enter");
    let screen = stage.screen();
    assert!(screen.contains("1 of 7 /^qa$") && screen.contains("▸ qa"), "{screen}");
    stage.press("esc shift-right O");
    let contexts = |screen: &str| -> Vec<String> {
        let rows = screen.lines().filter(|line| line.contains("Running"));
        rows.map(|line| {
            line.trim_start_matches(['│', '▸', ' ']).split(' ').next().unwrap_or_default().to_owned()
        })
        .collect()
    };
    let mut sorted = contexts(&stage.screen());
    assert_eq!(sorted.len(), 7, "{}", stage.screen());
    assert!(sorted.is_sorted(), "{sorted:?}");
    stage.press("O");
    sorted.reverse();
    assert!(contexts(&stage.screen()).is_sorted_by(|a, b| a >= b), "{}", stage.screen());
    stage.press("N");
    stage.select(&["prod", "only-prod"]);
    stage.press("@");
    let screen = stage.screen();
    assert!(screen.contains("@prod only 2") && !screen.contains("│   qa"), "{screen}");
    stage.press("@");
    assert!(stage.screen().contains("Pods all 7"), "{}", stage.screen());
    // A table of one context does not show the context's name.
    stage.press(": \"pods_@qa\" enter");
    let screen = stage.screen();
    assert!(!screen.contains("CONTEXT") && screen.contains(" qa ▸"), "{screen}");
}

#[tokio::test]
async fn an_action_on_a_row_affects_only_the_cluster_of_that_row_con_16() {
    for (name, cluster, others) in
        [("podium", "", ["prod: ", "qa: "]), ("prod", "prod: ", ["", "qa: "]), ("qa", "qa: ", ["", "prod: "])]
    {
        let mut stage = TestConsole::with_three_clusters(140, 40, Depth::True);
        stage.select(&[name, "web"]);
        stage.press("ctrl-d");
        assert_eq!(stage.dialog(), ("Delete Pod default/web", Some(name)));
        assert!(stage.screen().contains(&format!("in the context {name}")), "{}", stage.screen());
        let jobs = stage.press("tab enter");
        assert_eq!(changes(&jobs), [format!("{cluster}delete Pod default/web default-web")]);
        assert!(others.iter().all(|other| *other != cluster), "a table of this test");
        // The result names the cluster, and is in that cluster's journal only.
        let Some(action) = jobs.into_iter().find_map(|job| match job {
            Job::Act(action) => Some(action),
            Job::On(_, job) => match *job {
                Job::Act(action) => Some(action),
                _ => None,
            },
            _ => None,
        }) else {
            panic!("nothing was done")
        };
        let done = Message::ActionEnded(Box::new(Outcome { action: *action, error: None, after: None }));
        match name {
            "podium" => drop(stage.model.update(done, stage.now)),
            "prod" => drop(stage.on(PROD, done)),
            _ => drop(stage.on(QA, done)),
        }
        assert!(stage.screen().contains(&format!("delete Pod default/web on {name}")), "{}", stage.screen());
        stage.press("U");
        let screen = stage.screen();
        let kubectl = if name == "podium" {
            "kubectl delete pod/web -n default".to_owned()
        } else {
            format!("kubectl --context {name} delete pod/web -n default")
        };
        assert!(screen.contains(&kubectl), "{kubectl}\n{screen}");
        assert!(screen.starts_with(&format!(" {name} ")), "the header says whose journal it is\n{screen}");
        stage.press("esc");
        for other in ["podium", "prod", "qa"].into_iter().filter(|other| *other != name) {
            stage.select(&[other, "web"]);
            stage.press("U");
            assert!(!stage.screen().contains("kubectl"), "{other}\n{}", stage.screen());
            stage.press("esc");
        }
    }
}

#[tokio::test]
async fn every_view_of_a_row_is_of_its_cluster_con_16() {
    // The key, whether it requests data from the cluster, and the breadcrumb.
    for (key, asks, crumb) in [
        ("d", true, "web · describe"),
        ("y", true, "web · yaml"),
        ("l", true, "web · logs"),
        ("e", true, "web · edit"),
        ("enter", false, "web"),
        ("T", false, "web"),
        ("|", true, "Pods"),
    ] {
        for (name, lead) in [("podium", ""), ("prod", "prod: "), ("qa", "qa: ")] {
            let mut stage = TestConsole::with_three_clusters(140, 40, Depth::True);
            stage.select(&[name, "web"]);
            let jobs = stage.press(key);
            let started: Vec<String> =
                describe(&jobs).into_iter().filter(|job| job.ends_with("start")).collect();
            assert!(started.iter().all(|job| *job == format!("{lead}start")), "{key} {name}: {started:?}");
            assert_eq!(!started.is_empty(), asks, "{key} {name}: {:?}", describe(&jobs));
            let screen = stage.screen();
            assert!(screen.contains(crumb), "{key} {name}\n{screen}");
            if key != "|" {
                assert!(screen.starts_with(&format!(" {name} ")), "{key} {name}\n{screen}");
            }
            // Related resources are watched there, now that a screen shows that cluster alone.
            let needs = format!("{lead}need replicasets");
            assert_eq!(describe(&jobs).contains(&needs), name != "podium", "{key}: {:?}", describe(&jobs));
        }
    }
}

#[tokio::test]
async fn a_bulk_action_asks_for_each_context_by_itself_con_16() {
    let mut stage = TestConsole::with_three_clusters(140, 40, Depth::True);
    for name in ["podium", "prod", "qa"] {
        stage.select(&[name, "web"]);
        stage.press("space");
    }
    assert!(stage.screen().contains("◆ 3 marked"), "three of one uid\n{}", stage.screen());
    stage.select(&["prod", "only-prod"]);
    stage.press("space ctrl-d");
    assert_eq!(stage.dialog(), ("Delete Pod default/web", Some("podium")));
    assert!(stage.screen().contains("question 1 of 3"), "{}", stage.screen());
    assert_eq!(changes(&stage.press("tab enter")), ["delete Pod default/web default-web"]);
    // A cancelled dialog does not prevent the next one, and further typing does not answer it.
    assert_eq!(stage.dialog(), ("Delete 2 objects", Some("prod")));
    assert!(changes(&stage.press("esc")).is_empty());
    assert_eq!(stage.dialog(), ("Delete Pod default/web", Some("qa")));
    assert_eq!(changes(&stage.press("tab enter")), ["qa: delete Pod default/web default-web"]);
    assert!(stage.model.dialog.is_none() && stage.model.asking.is_empty());
    // Marks hidden by a filter are counted in the dialog of their cluster.
    stage.press("/ \"podium\" enter ctrl-d");
    assert!(stage.dialog().0.starts_with("Delete"), "{:?}", stage.dialog());
    assert_eq!(stage.dialog().1, Some("podium"));
    assert!(!stage.screen().contains("hidden by the filter"), "{}", stage.screen());
    stage.press("esc");
    assert_eq!(stage.dialog().1, Some("prod"));
    assert!(stage.screen().contains("2 of these are marked but hidden by the filter"), "{}", stage.screen());
    stage.press("esc esc");
    // A command for one row is not applied to one of several marked rows.
    assert!(describe(&stage.press("y")).is_empty());
    assert!(stage.screen().contains("one at a time, and 4 are marked"), "{}", stage.screen());
    stage.press("ctrl-\\");
    let started = describe(&stage.press("y"));
    assert_eq!(started.iter().filter(|job| job.ends_with("start")).count(), 1, "{started:?}");
}

#[tokio::test]
async fn contexts_without_a_verb_are_skipped_and_reported_con_16() {
    let mut stage = TestConsole::with_three_clusters(140, 40, Depth::True);
    let mut kinds = builtin_kinds::kinds();
    let at = kinds.iter().position(Kind::is::<Pod>).unwrap();
    let mut facts = (*kinds[at]).clone();
    facts.verbs.remove("delete");
    kinds[at] = Kind::new(facts);
    stage.on(QA, Message::Catalogue(Catalogue::of(kinds)));
    stage.select(&["qa", "web"]);
    stage.press("ctrl-d");
    assert!(stage.model.dialog.is_none());
    assert!(stage.screen().contains("qa: this server cannot delete Pods"), "{}", stage.screen());
    stage.press("space");
    stage.select(&["prod", "web"]);
    stage.press("space ctrl-d");
    let screen = stage.screen();
    assert!(screen.contains("qa: this server cannot delete Pods; its row is skipped"), "{screen}");
    assert_eq!(stage.dialog().1, Some("prod"));
    assert_eq!(changes(&stage.press("tab enter")), ["prod: delete Pod default/web default-web"]);
    assert!(stage.model.dialog.is_none(), "of qa nothing is asked");
    // Read-only mode applies to every cluster.
    stage.model.shared.read_only = true;
    stage.select(&["prod", "only-prod"]);
    assert!(changes(&stage.press("ctrl-d tab enter")).is_empty());
}

#[tokio::test]
async fn a_context_that_does_not_answer_is_named_and_its_rows_stay_con_18() {
    for depth in [Depth::True, Depth::None] {
        for (width, height) in [(80, 24), (140, 40)] {
            let mut stage = TestConsole::with_three_clusters(width, height, depth);
            let resource = ResourceKey::of::<Pod>();
            let retry_at = stage.now;
            let down =
                Link::Down { resource: resource.clone(), reason: "connection refused".into(), retry_at };
            stage.on(PROD, Message::Link(down));
            stage.now = stage.now.saturating_add(jiff::SignedDuration::from_secs(12)).unwrap();
            let screen = stage.screen();
            assert!(
                screen.contains("✖ prod no answer for 12s, trying again, ctrl-r now · connection refused"),
                "{screen}"
            );
            assert!(screen.contains("only-prod") && screen.contains("2 of 3 live"), "{screen}");
            let is_dim = |stage: &mut TestConsole, text: &str| {
                let screen = stage.screen();
                let row =
                    screen.lines().position(|line| line.starts_with('│') && line.contains(text)).unwrap();
                stage.is_dim(row as u16)
            };
            assert!(is_dim(&mut stage, "only-prod"), "{screen}");
            assert!(!is_dim(&mut stage, " qa "), "{screen}");
            // The other clusters go on, and the silent one returns with its rows.
            stage.feed_on(
                QA,
                Delta::of::<Pod>(vec![Change::Applied(objects([pod("default", "new")]).remove(0))]),
            );
            assert!(stage.screen().contains(" new "), "{}", stage.screen());
            stage.on(PROD, Message::Link(Link::Up(resource)));
            stage.feed_on(
                PROD,
                Delta::of::<Pod>(vec![Change::Applied(objects([pod("default", "again")]).remove(0))]),
            );
            let screen = stage.screen();
            assert!(screen.contains("again") && !screen.contains("no answer"), "{screen}");
            assert!(!is_dim(&mut stage, "only-prod"), "{screen}");
        }
    }
}

#[tokio::test]
async fn forbidden_lacking_and_silent_contexts_are_distinguished_con_18() {
    let mut stage = TestConsole::new(140, 40);
    stage.model.update(Message::Catalogue(Catalogue::of(builtin_kinds::kinds())), stage.now);
    stage.press(": \"pods_@podium,prod,qa\" enter");
    let retry_at = stage.now;
    let reason = "context prod does not answer: no route to host".to_owned();
    stage.on(PROD, Message::Unreachable { reason, retry_at });
    stage.joins(QA, "qa", Vec::new());
    let refused = UnavailableReason::NotAllowed("pods is forbidden: User me".to_owned());
    stage.on(QA, Message::Link(Link::Refused(ResourceKey::of::<Pod>(), refused)));
    stage.now = stage.now.saturating_add(jiff::SignedDuration::from_secs(3)).unwrap();
    let screen = stage.screen();
    assert!(screen.contains("✖ prod no answer for 3s · ○ qa not allowed"), "{screen}");
    assert!(screen.contains("no route to host") && screen.contains("● podium"), "{screen}");
    assert!(screen.contains(" cart "), "the others are there: {screen}");
    // Without any rows each cluster states its reason.
    stage.press(": \"pods_@prod,qa\" enter");
    let screen = stage.screen();
    assert!(
        screen.contains("prod  no answer for 3s: context prod does not answer: no route to host"),
        "{screen}"
    );
    assert!(screen.contains("qa  not allowed: pods is forbidden: User me"), "{screen}");
    // Finally the cluster answers.
    stage.joins(PROD, "prod", vec![pod("default", "web")]);
    let screen = stage.screen();
    assert!(screen.contains("✔ prod answers") && screen.contains("▸ prod"), "{screen}");
}

#[tokio::test]
async fn a_kind_may_be_served_by_some_and_in_other_versions_con_16() {
    let mut stage = TestConsole::new(140, 40);
    let mut kinds = builtin_kinds::kinds();
    kinds.push(widgets("gadgets"));
    stage.model.update(Message::Catalogue(Catalogue::of(kinds)), stage.now);
    stage.press(": \"gadgets_@podium,prod,qa\" enter");
    stage.joins(PROD, "prod", Vec::new());
    let screen = stage.screen();
    assert!(screen.contains("○ prod has no gadgets"), "{screen}");
    let mut facts = (*widgets("gadgets")).clone();
    facts.resource.version = "v2".into();
    let mut kinds = builtin_kinds::kinds();
    kinds.push(Kind::new(facts));
    let mut jobs = stage.joins(QA, "qa", Vec::new());
    jobs.extend(stage.on(QA, Message::Catalogue(Catalogue::of(kinds))));
    let jobs = describe(&jobs);
    assert!(jobs.contains(&"qa: watch gadgets.v2/*".to_owned()), "{jobs:?}");
    // A kind that only another cluster serves: the command waits for that cluster's discovery.
    let mut stage = TestConsole::new(140, 40);
    stage.model.update(Message::Catalogue(Catalogue::of(builtin_kinds::kinds())), stage.now);
    let jobs = describe(&stage.press(": \"gadgets_@podium,prod\" enter"));
    assert!(jobs.contains(&"prod: join prod".to_owned()), "{jobs:?}");
    assert!(stage.screen().contains("reading the kinds of podium, prod"), "{}", stage.screen());
    let mut kinds = builtin_kinds::kinds();
    kinds.push(widgets("gadgets"));
    let connected = ConnectedCluster { name: None, origin: String::new(), namespace: None, client: client() };
    stage.on(PROD, Message::Joined(Box::new((connected, Identity::default()))));
    stage.on(PROD, Message::Catalogue(Catalogue::of(kinds)));
    let screen = stage.screen();
    assert!(screen.contains("gadgets all 0"), "{screen}");
    assert!(screen.contains("○ podium has no gadgets"), "{screen}");
    // A kind that no cluster serves is reported after all have answered.
    stage.press("q : \"wobbles_@podium,prod\" enter");
    let jobs = stage.on(PROD, Message::Catalogue(Catalogue::of(builtin_kinds::kinds())));
    drop(jobs);
    assert!(stage.screen().contains("no kind \"wobbles\" in podium, prod"), "{}", stage.screen());
}

#[tokio::test]
async fn commands_apply_to_the_contexts_on_screen_con_16() {
    let mut stage = TestConsole::with_three_clusters(140, 40, Depth::True);
    stage.press(": \"svc\" enter");
    assert!(stage.screen().contains("Services @podium,prod,qa"), "{}", stage.screen());
    stage.press(": \"pods\" enter");
    stage.select(&["prod", "web"]);
    stage.press("enter : \"svc\" enter");
    let screen = stage.screen();
    assert!(screen.starts_with(" prod ") && screen.contains("Services all"), "{screen}");
    assert_eq!(stage.model.top().0.cluster(), PROD);
    stage.press(": \"svc_@-\" enter");
    assert!(stage.screen().contains(" podium ▸ Overview ▸ Services @podium"), "{}", stage.screen());
    // A change by name requires one context.
    stage.press(": \"nodes_@podium,prod\" enter : \"cordon_node-1\" enter");
    assert!(stage.screen().contains("several contexts are shown"), "{}", stage.screen());
    // A namespace of any of them applies to all.
    stage.press("esc : \"pods_@podium,prod_-n_elsewhere\" enter");
    assert!(stage.screen().contains("Pods elsewhere"), "{}", stage.screen());
}

#[tokio::test]
async fn names_of_contexts_are_completed_and_wrong_ones_refused_con_16() {
    let mut stage = TestConsole::new(140, 40);
    let jobs = describe(&stage.press(": \"pods_@\""));
    assert!(jobs.contains(&"contexts".to_owned()), "the kubeconfig is read: {jobs:?}");
    let contexts = vec![
        entry("dev", "https://10.0.0.1:6443"),
        entry("dev-admin", "https://10.0.0.1:6443"),
        entry("prod", "https://10.0.0.2:6443"),
    ];
    stage.model.update(Message::Contexts(Ok(contexts)), stage.now);
    let screen = stage.screen();
    for name in ["pods @podium", "pods @dev", "pods @prod", "pods @*"] {
        assert!(screen.contains(name), "{name}\n{screen}");
    }
    stage.press("\"dev,\"");
    let screen = stage.screen();
    assert!(screen.contains("pods @dev,prod") && !screen.contains("pods @dev,dev "), "{screen}");
    stage.press("\"prodd\" enter");
    let screen = stage.screen();
    assert!(screen.contains("no context \"prodd\"; did you mean \"prod\"?"), "{screen}");
    for (typed, expected) in
        [("@,", "context is required"), ("@dev,,prod", "context is required"), ("@*,dev", "no other name")]
    {
        let mut stage = TestConsole::new(140, 40);
        stage.press(&format!(": \"pods_{typed}\" enter"));
        assert!(stage.screen().contains(expected), "{typed}\n{}", stage.screen());
    }
    // `*` selects one context per server.
    stage.press("esc");
    let jobs = describe(&stage.press(": \"pods_@*\" enter"));
    let joined: Vec<&String> = jobs.iter().filter(|job| job.contains("join")).collect();
    assert_eq!(joined, ["prod: join dev", "qa: join prod"], "{jobs:?}");
    assert!(stage.screen().contains(" 3 contexts "), "{}", stage.screen());
}

#[tokio::test]
async fn as_many_clusters_are_looked_at_as_there_is_room_for_con_1() {
    let mut stage = TestConsole::new(140, 40);
    let names: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
    let jobs = describe(&stage.press(&format!(": \"pods_@{}\" enter", names.join(","))));
    assert_eq!(jobs.iter().filter(|job| job.contains("join")).count(), clusters::MAX_JOINED, "{jobs:?}");
    let limit_note = "15 contexts are shown, which is the maximum; 25 are left out";
    assert!(stage.model.toasts.iter().any(|(toast, _)| toast.text == limit_note), "{}", stage.screen());
    // Clusters that are no longer shown are replaced first.
    let jobs = describe(&stage.press(": \"pods_@c30,c31\" enter"));
    assert_eq!(jobs.iter().filter(|job| job.contains("join")).count(), 2, "{jobs:?}");
}

#[tokio::test]
async fn a_table_over_several_and_a_pane_of_another_cluster_come_back_con_17() {
    let mut stage = TestConsole::with_three_clusters(140, 40, Depth::True);
    stage.model.setup.config_dir = Some("/nowhere".into());
    let system = json!({"metadata": {"name": "kube-system", "uid": "c1"}});
    stage.feed(Delta::of::<Namespace>(vec![Change::Applied(objects([system.clone()]).remove(0))]));
    stage.model.update(Message::SavedTabs(SavedTabs::default()), stage.now);
    stage.select(&["prod", "web"]);
    stage.press(": \"vsplit_yaml\" enter f8");
    stage.press("ctrl-t p");
    stage.press("d ctrl-t p l");
    let (_, saved) = stage.model.saved_tabs().expect("known");
    let saved: SavedTabs = serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap();

    let mut next = TestConsole::new(140, 40);
    next.model.setup.config_dir = Some("/nowhere".into());
    next.feed(Delta::of::<Namespace>(vec![Change::Applied(objects([system]).remove(0))]));
    let jobs = describe(&next.model.update(Message::SavedTabs(saved.clone()), next.now));
    assert!(
        jobs.contains(&"prod: join prod".to_owned()) && jobs.contains(&"qa: join qa".to_owned()),
        "{jobs:?}"
    );
    assert!(
        jobs.contains(&"prod: start".to_owned()),
        "the pane's YAML is asked of its own cluster: {jobs:?}"
    );
    let screen = next.screen();
    assert!(screen.contains("api · logs") && screen.contains("api · describe"), "{screen}");
    next.press("alt-1");
    next.joins(PROD, "prod", vec![pod("default", "web"), pod("default", "only-prod")]);
    next.joins(QA, "qa", vec![pod("default", "web")]);
    let screen = next.screen();
    assert!(screen.contains("CONTEXT"), "{screen}");
    assert!(screen.contains("Pod default/web"), "{screen}");
    assert_eq!(next.model.screens.last().and_then(|(_, screen)| screen.cluster_of_selected()), Some(PROD));
    assert_eq!(next.model.saved_tabs().expect("known").1.tabs[0].views, saved.tabs[0].views);
    assert_eq!(
        next.model.saved_tabs().expect("known").1.tabs[0]
            .split
            .as_ref()
            .map(|split| (split.share, split.at.context.clone())),
        saved.tabs[0].split.as_ref().map(|split| (split.share, split.at.context.clone()))
    );
}

#[tokio::test]
async fn programs_of_the_user_meet_the_cluster_of_the_row_con_16() {
    let stage = TestConsole::with_three_clusters(140, 40, Depth::True);
    let mut model = stage.model;
    for (cluster, name) in [(PROD, "prod"), (QA, "qa")] {
        let identity = model.within(cluster, |model| model.identity.clone()).expect("it is looked at");
        assert_eq!(identity.context, name);
    }
    assert!(model.within(ClusterId::joined(77), |_| ()).is_none(), "no other cluster takes its place");
    assert_eq!(model.shared.front, ClusterId::HOME);
}

#[tokio::test]
async fn an_undo_goes_to_the_cluster_of_its_action_con_17() {
    let mut stage = TestConsole::with_three_clusters(140, 40, Depth::True);
    let node = json!({"metadata": {"name": "n1", "uid": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    stage.press(": \"nodes_@podium,prod\" enter");
    stage.feed(Delta::of::<Node>(vec![Change::Reset(objects([node.clone()]))]));
    stage.feed_on(PROD, Delta::of::<Node>(vec![Change::Reset(objects([node]))]));
    stage.select(&["prod", "n1"]);
    let jobs = stage.press("c");
    let action = jobs.into_iter().find_map(|job| match job {
        Job::On(PROD, job) => match *job {
            Job::Act(action) => Some(action),
            other => panic!("{other:?}"),
        },
        Job::Act(action) => panic!("it is the other cluster's: {action:?}"),
        _ => None,
    });
    let action = *action.expect("it is cordoned");
    stage.on(PROD, Message::ActionEnded(Box::new(Outcome { action, error: None, after: Some(json!({})) })));
    stage.press("U");
    let jobs = describe(&stage.press("u"));
    assert!(
        jobs.contains(&"prod: start".to_owned()),
        "the server that has it is asked: {jobs:?}\n{}",
        stage.screen()
    );
    assert!(!jobs.contains(&"start".to_owned()), "{jobs:?}");
}

#[tokio::test]
async fn several_contexts_are_read_aloud_con_20() {
    let mut stage = TestConsole::with_three_clusters(140, 40, Depth::None);
    let mut reader = crate::linear::Reader::default();
    let mut hear = |stage: &TestConsole| -> String {
        let speech = reader.read(&stage.model, stage.now);
        speech.iter().map(|line| format!("{line:?}")).collect::<Vec<_>>().join("\n")
    };
    let speech = hear(&stage);
    assert!(speech.contains("Pods @podium,prod,qa") && speech.contains("context podium"), "{speech}");
    stage.select(&["prod", "web"]);
    let speech = hear(&stage);
    assert!(speech.contains("Selected: web of default, context prod"), "{speech}");
    let down = Link::Down { resource: ResourceKey::of::<Pod>(), reason: "reset".into(), retry_at: stage.now };
    stage.on(QA, Message::Link(down));
    stage.now = stage.now.saturating_add(jiff::SignedDuration::from_secs(5)).unwrap();
    let speech = hear(&stage);
    assert!(speech.contains("Attention: qa no answer for 5s"), "{speech}");
    stage.press("ctrl-d");
    let speech = hear(&stage);
    assert!(
        speech.contains("Question: Delete Pod default/web") && speech.contains("in the context prod"),
        "{speech}"
    );
    stage.press("esc d");
    let speech = hear(&stage);
    assert!(speech.contains("web · describe, in the context prod"), "{speech}");
}

#[tokio::test]
async fn a_filter_marks_and_ranges_hold_their_own_rows_con_16() {
    let mut stage = TestConsole::with_three_clusters(140, 40, Depth::True);
    // A range covers the visible rows, of all clusters.
    stage.press("/ \"^web$\" enter g space G ctrl-space");
    assert!(stage.screen().contains("◆ 3 marked"), "{}", stage.screen());
    stage.press("ctrl-k");
    let places: Vec<Option<&str>> =
        stage.model.open_dialogs().map(|(_, dialog)| dialog.context.as_deref()).collect();
    assert_eq!(places, [Some("podium"), Some("prod"), Some("qa")]);
    stage.press("esc esc esc");
    // A deleted row drops its own mark only.
    stage.feed_on(PROD, Delta::of::<Pod>(vec![Change::Deleted(objects([pod("default", "web")]).remove(0))]));
    assert!(stage.screen().contains("◆ 2 marked"), "{}", stage.screen());
    let rows = stage.screen().lines().filter(|line| line.contains(" web ")).count();
    assert_eq!(rows, 2, "{}", stage.screen());
}
