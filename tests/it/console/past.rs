//! Time travel, versions and the timeline, of a cluster in this process (CON-12, CON-19).

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job as BatchJob};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, ReplicationController};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use podium::console::model::Job;
use podium::console_data::catalogue::{self, Catalogue};
use podium::console_data::message::Message;
use podium::console_data::past::{PastView, TimePosition};
use podium::console_data::point_in_time::PointInTime;
use podium::console_data::store::{Change, Delta, Stores};
use podium::console_operations::effect::Runner;
use podium::testing::Cluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

use super::acted;
use super::test_console::{TestConsole, cluster as shop};

/// A console on a cluster in this process; it processes messages of its tasks only while the test waits.
struct ClusterConsole {
    stage: TestConsole,
    cluster: Cluster,
    runner: Runner,
    inbox: mpsc::Receiver<Message>,
}

impl ClusterConsole {
    async fn begin(width: u16, height: u16) -> Self {
        let cluster = Cluster::builder().manual_clock().hollow_nodes(1).start().await.expect("starts");
        let (sender, inbox) = mpsc::channel(64);
        let runner = Runner::new(cluster.client(), sender);
        let mut show = Self { stage: TestConsole::new(width, height), cluster, runner, inbox };
        show.process_messages().await;
        show
    }

    /// Processes all pending messages.
    async fn process_messages(&mut self) {
        self.stage.now = self.cluster.now();
        let client = self.cluster.client();
        let catalogue = catalogue::discover(&client).await.expect("discovery");
        self.stage.send(Message::Catalogue(catalogue));
        let deltas = vec![
            all::<Namespace>(&client).await,
            all::<Node>(&client).await,
            all::<Deployment>(&client).await,
            all::<ReplicaSet>(&client).await,
            all::<Pod>(&client).await,
            all::<Event>(&client).await,
        ];
        self.stage.feed(deltas);
    }

    fn start(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            if let Job::Start(task) = job {
                self.runner.start(task);
            }
        }
    }

    /// Presses keys and waits until this is on the screen.
    async fn press(&mut self, script: &str, expected: &str) -> String {
        let jobs = self.stage.press(script);
        self.start(jobs);
        self.until(expected).await
    }

    async fn until(&mut self, expected: &str) -> String {
        for _ in 0..64 {
            let screen = self.stage.screen();
            if screen.contains(expected) {
                return screen;
            }
            let message = tokio::time::timeout(Duration::from_mins(1), self.inbox.recv()).await;
            let Ok(Some(message)) = message else { break };
            let jobs = self.stage.send(message);
            self.start(jobs);
        }
        let screen = self.stage.screen();
        assert!(screen.contains(expected), "{expected:?} never came:\n{screen}");
        screen
    }

    async fn pass(&self, seconds: u64) {
        self.cluster.advance(Duration::from_secs(seconds)).await.expect("time passes");
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.cluster.client())
    }

    async fn map(&self, name: &str, value: &str) {
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": value}})).expect("a map");
        self.maps().create(&PostParams::default(), &map).await.expect("made");
    }

    async fn set(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({"data": {"k": value}}));
        self.maps().patch(name, &PatchParams::default(), &patch).await.expect("patched");
    }
}

async fn all<K>(client: &kube::Client) -> Delta
where
    K: kube::Resource<DynamicType = ()> + podium::console_data::store::Object + DeserializeOwned + Clone,
{
    let list = Api::<K>::all(client.clone()).list(&ListParams::default()).await.expect("a list");
    Delta::of(vec![Change::Reset(list.items.into_iter().map(Arc::new).collect())])
}

fn web(replicas: i32) -> Deployment {
    let manifest: Value = json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "app:1"}]}}}});
    serde_json::from_value(manifest).expect("a deployment")
}

#[tokio::test(start_paused = true)]
async fn a_table_is_looked_at_as_it_was_and_nothing_is_done_there_con_19() {
    let mut show = ClusterConsole::begin(120, 30).await;
    let pods: Api<Pod> = Api::default_namespaced(show.cluster.client());
    let pod = |name: &str| -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "a"}]}}),
        )
        .expect("a pod")
    };
    pods.create(&PostParams::default(), &pod("early")).await.expect("made");
    show.pass(60).await;
    pods.create(&PostParams::default(), &pod("late")).await.expect("made");
    show.pass(60).await;
    pods.delete("early", &DeleteParams::default().grace_period(0)).await.expect("gone");
    show.pass(30).await;
    show.process_messages().await;
    let live = show.press("p", "late").await;
    assert!(!live.contains("early") && !live.contains("THE PAST"), "{live}");

    // Half a minute back both exist, with their ages at that time, regardless of current changes.
    let then = show.press(": \"at_-35s\" enter", "THE PAST").await;
    for expected in ["early", "late", "35s ago", "esc returns to now", "as it was", "╔"] {
        assert!(then.contains(expected), "{expected} is not in\n{then}");
    }
    let early = then.lines().find(|line| line.contains("early")).expect("its row");
    assert!(["114s", "115s", "116s"].iter().any(|age| early.contains(age)), "{early}");
    show.process_messages().await;
    assert!(show.stage.screen().contains("early"), "the past does not change");
    // Actions are not possible there, and are not offered.
    for key in ["ctrl-d", "s", "e", "ctrl-k", "L", "F", "l"] {
        let jobs = show.stage.press(key);
        assert!(acted(&jobs).is_empty() && show.stage.model.dialog.is_none(), "{key}: {jobs:?}");
        assert!(show.stage.screen().contains("is not possible in the past"), "{key}");
        // The next view shows that without a key.
        show.stage.now += jiff::SignedDuration::from_secs(5);
        let now = show.stage.now;
        show.stage.model.toasts.expire(now);
    }
    assert!(!show.stage.screen().lines().last().expect("a footer").contains("delete"));
    show.stage.press(": \"kill_late\" enter");
    assert!(show.stage.model.dialog.is_none());
    show.stage.press("esc");
    // A minute and a half further back only the first existed; a time beyond the history is reported.
    let then = show.press(": \"at_-140s\" enter", "2m20s ago").await;
    assert!(then.contains("early") && !then.contains("late"), "{then}");
    // The description shows one object at that time.
    show.press("enter", "describe · Pod default/early").await;
    show.until("THE PAST").await;
    show.press("y", "early yaml").await;
    show.stage.press("esc esc");
    show.press(": \"at_-20h\" enter", "THE PAST: the earliest known state").await;
    // Views that open from the past but show the present report that.
    show.stage.press("esc");
    show.press("<", "THE PAST").await;
    show.stage.press(": \"nodes\" enter");
    assert!(
        show.stage.screen().contains("this view shows the present; the previous view showed"),
        "{}",
        show.stage.screen()
    );
    show.stage.press("esc esc esc esc : \"pods\" enter");
    show.press("<", "THE PAST").await;
    let screen = show.press("esc", "late").await;
    assert!(!screen.contains("THE PAST"), "{screen}");
    show.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn esc_leaves_the_past_once_and_never_returns_to_it_con_19() {
    let mut show = ClusterConsole::begin(120, 30).await;
    let deployments: Api<Deployment> = Api::default_namespaced(show.cluster.client());
    deployments.create(&PostParams::default(), &web(2)).await.expect("made");
    show.pass(120).await;
    show.process_messages().await;
    let is_past = |show: &mut ClusterConsole| show.stage.screen().contains("THE PAST");

    // A view opened in the past is closed; the view below is still of the past, and leaves it with the next key.
    show.press("d", "web").await;
    show.press(": \"at_-30s\" enter", "esc returns to now").await;
    show.press("enter", "describe · Deployment default/web").await;
    show.until("esc goes back").await;
    show.press("y", "web yaml").await;
    show.until("esc goes back").await;
    let past: Vec<bool> = (0..4)
        .map(|_| {
            show.stage.press("esc");
            is_past(&mut show)
        })
        .collect();
    assert_eq!(past, [true, true, false, false]);
    assert!(show.stage.screen().contains("Overview"), "{}", show.stage.screen());

    // A view that returned to the present by itself has left the past for those below as well.
    show.press("d", "web").await;
    show.press(": \"at_-30s\" enter", "THE PAST").await;
    show.press("enter", "esc goes back").await;
    show.stage.press(": \"at_now\" enter");
    assert!(!is_past(&mut show));
    show.stage.press("esc");
    assert!(show.stage.screen().contains("Deployments") && !is_past(&mut show), "{}", show.stage.screen());

    // A view of the present that opens over one of the past leaves the past as well.
    show.stage.press("esc");
    show.press(": \"at_-30s\" enter", "THE PAST").await;
    show.stage.press(": \"nodes\" enter");
    assert!(!is_past(&mut show));
    show.stage.press("esc");
    assert!(show.stage.screen().contains("Overview") && !is_past(&mut show), "{}", show.stage.screen());

    // Help has no point in time: it leads back to the view it was opened from.
    show.press(": \"at_-30s\" enter", "THE PAST").await;
    show.stage.press("? esc");
    assert!(is_past(&mut show));
    show.cluster.stop().await;
}

/// A list of a kind as the server's Table of whole objects.
async fn whole_table<K: kube::Resource<DynamicType = ()>>(client: &kube::Client, path: &str) -> Delta {
    let request = http::Request::get(format!("{path}?includeObject=Object"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .expect("a request");
    let table: podium::console_data::server_table::ServerTable =
        client.request(request).await.expect("a table");
    let table = table.as_table();
    let rows = table.rows.into_iter().map(Arc::new).collect();
    let key = podium::console_data::resource::ResourceKey::of::<K>();
    Delta::of_table(key, Some(table.column_definitions), vec![Change::Reset(rows)])
}

#[tokio::test(start_paused = true)]
async fn all_workloads_are_looked_at_as_they_were_con_2_con_19() {
    let mut show = ClusterConsole::begin(120, 30).await;
    let client = show.cluster.client();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let jobs: Api<CronJob> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &web(2)).await.expect("made");
    let nightly = json!({"metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 1 1 *", "jobTemplate": {"spec":
        {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}}}}});
    let nightly: CronJob = serde_json::from_value(nightly).expect("a cron job");
    jobs.create(&PostParams::default(), &nightly).await.expect("made");
    show.pass(60).await;
    deployments.delete("web", &DeleteParams::default()).await.expect("gone");
    jobs.patch("nightly", &PatchParams::default(), &Patch::Merge(json!({"spec": {"suspend": true}})))
        .await
        .expect("suspended");
    let alone = json!({"metadata": {"name": "alone"}, "spec": {"containers": [{"name": "c", "image": "a"}]}});
    let alone: Pod = serde_json::from_value(alone).expect("a pod");
    pods.create(&PostParams::default(), &alone).await.expect("made");
    show.pass(60).await;
    show.process_messages().await;
    show.stage.press(": \"wk\" enter");
    let tables = [
        whole_table::<StatefulSet>(&client, "/apis/apps/v1/statefulsets").await,
        whole_table::<DaemonSet>(&client, "/apis/apps/v1/daemonsets").await,
        whole_table::<ReplicationController>(&client, "/api/v1/replicationcontrollers").await,
        whole_table::<BatchJob>(&client, "/apis/batch/v1/jobs").await,
        whole_table::<CronJob>(&client, "/apis/batch/v1/cronjobs").await,
    ];
    show.stage.feed(tables.to_vec());
    let live = show.until("alone").await;
    assert!(live.contains("nightly") && live.contains("Suspended"), "{live}");
    assert!(!live.contains("web") && live.contains("Workloads all 2 "), "{live}");

    // A minute and a half back the deployment was there with its pods, and the cron job ran.
    let then = show.press(": \"at_-90s\" enter", "THE PAST").await;
    for expected in
        ["web", "Deployment", "2/2", "Available", "nightly", "Scheduled", "Workloads all 2 ", "as it was"]
    {
        assert!(then.contains(expected), "{expected} is not in\n{then}");
    }
    assert!(!then.contains("alone") && !then.contains("Suspended"), "{then}");
    // Current changes do not appear in it; a forbidden kind is reported as in the present.
    show.process_messages().await;
    assert!(show.stage.screen().contains("2/2"), "{}", show.stage.screen());
    // Actions are not possible there, and views opened from there are of that moment.
    let pressed = show.stage.press("g s");
    assert!(acted(&pressed).is_empty() && show.stage.model.dialog.is_none(), "{pressed:?}");
    show.stage.now += jiff::SignedDuration::from_secs(5);
    let now = show.stage.now;
    show.stage.model.toasts.expire(now);
    show.press("/ \"web\" enter", "1 of 2").await;
    show.press("y", "web yaml").await;
    show.until("replicas: 2").await;
    show.stage.press("esc");
    assert!(show.stage.screen().contains("THE PAST"), "{}", show.stage.screen());
    show.press("/ backspace backspace backspace enter", "nightly").await;
    // The keys go change by change, as from other tables, and back to the present.
    show.press("<", "THE PAST").await;
    show.press(">", "THE PAST").await;
    let live = show.press("esc", "alone").await;
    assert!(!live.contains("THE PAST") && live.contains("Suspended"), "{live}");
    // A forbidden kind is not requested, and that is reported.
    let refused = podium::console_data::links::UnavailableReason::NotAllowed("no".to_owned());
    let key = podium::console_data::resource::ResourceKey::of::<CronJob>();
    show.stage.send(Message::Link(podium::console_data::links::Link::Refused(key, refused)));
    let then = show.press(": \"at_-90s\" enter", "THE PAST").await;
    assert!(then.contains("○ CronJobs not allowed") && then.contains("2/2"), "{then}");
    assert!(!then.contains("nightly"), "{then}");
    show.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_overview_is_looked_at_as_it_was_con_19() {
    let mut show = ClusterConsole::begin(120, 36).await;
    let deployments: Api<Deployment> = Api::default_namespaced(show.cluster.client());
    deployments.create(&PostParams::default(), &web(2)).await.expect("made");
    show.pass(60).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    deployments.patch("web", &PatchParams::default(), &patch).await.expect("scaled");
    show.pass(60).await;
    deployments.delete("web", &DeleteParams::default()).await.expect("deleted");
    let later = json!({"metadata": {"name": "later"}, "spec": web(1).spec});
    let later: Deployment = serde_json::from_value(later).expect("a deployment");
    deployments.create(&PostParams::default(), &later).await.expect("made");
    show.pass(60).await;
    show.process_messages().await;
    let live = show.stage.screen();
    assert!(live.contains("later") && live.contains("● Running      1"), "{live}");

    // A minute and a half back there were four pods of one deployment, and events of then, with ages of then.
    let then = show.press(": \"at_-90s\" enter", "THE PAST").await;
    for expected in
        ["web", "4/4", "● Running      4", "1 of 1 ready", "Scaled up replica set", "from 2 to 4", "╔"]
    {
        assert!(then.contains(expected), "{expected} is not in\n{then}");
    }
    for of_now in ["later", "Deleted pod", "Killing"] {
        assert!(!then.contains(of_now), "{of_now} is of now:\n{then}");
    }
    let scaled = then.lines().find(|line| line.contains("from 2 to 4")).expect("the event");
    assert!(["30s", "29s", "31s"].iter().any(|age| scaled.contains(age)), "{scaled}");
    // The numbers of the header stay current, and are labelled so.
    assert!(then.lines().next().expect("a header").contains("now 1 node"), "{then}");

    // Neither current changes nor text typed into the filter appear in it.
    deployments
        .create(
            &PostParams::default(),
            &serde_json::from_value(json!({"metadata": {"name": "newest"}, "spec": web(1).spec}))
                .expect("a deployment"),
        )
        .await
        .expect("made");
    show.pass(5).await;
    show.process_messages().await;
    let still = show.stage.screen();
    assert!(!still.contains("newest") && still.contains("● Running      4"), "{still}");
    let filtered = show.press("/ \"web\" enter", "/web").await;
    assert!(!filtered.contains("newest") && filtered.contains("4/4"), "{filtered}");
    show.stage.press("/ backspace backspace backspace enter");

    // Further back, before the deployment was scaled.
    let then = show.press(": \"at_-150s\" enter", "2/2").await;
    assert!(then.contains("● Running      2") && !then.contains("from 2 to 4"), "{then}");
    // Views opened from there are of that moment, too.
    let pods = show.press("p", "THE PAST").await;
    assert_eq!(pods.lines().filter(|line| line.contains("web-")).count(), 2, "{pods}");
    assert!(!pods.contains("later-"), "{pods}");
    show.stage.press("esc");
    show.until("2/2").await;
    let described = show.press("enter", "describe · Deployment default/web").await;
    assert!(!described.contains("replicas: 4"), "{described}");
    show.until("THE PAST").await;
    show.stage.press("esc");
    show.press("tab", "2/2").await;
    let pods = show.press("enter", "Pods of").await;
    assert!(pods.contains("THE PAST") || show.until("THE PAST").await.contains("web-"), "{pods}");
    show.stage.press("esc");

    // A change back and forward, and to now.
    let one = show.stage.screen();
    show.press("<", "THE PAST").await;
    show.press(">", "THE PAST").await;
    assert!(one.contains("THE PAST"), "{one}");
    let live = show.press("esc", "newest").await;
    assert!(!live.contains("THE PAST") && live.contains("later"), "{live}");
    show.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_forbidden_now_are_forbidden_in_the_past_too_con_19() {
    let mut show = ClusterConsole::begin(120, 36).await;
    show.pass(60).await;
    show.process_messages().await;
    let refused = podium::console_data::links::UnavailableReason::NotAllowed("no".to_owned());
    let events = podium::console_data::resource::ResourceKey::of::<Event>();
    show.stage.send(Message::Link(podium::console_data::links::Link::Refused(events, refused)));
    let then = show.press("<", "THE PAST").await;
    let below = then.lines().skip_while(|line| !line.contains(" Events ")).nth(1).expect("its part");
    assert!(below.contains("not allowed"), "{then}");
    show.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn versions_are_listed_and_any_two_compared_con_12() {
    let mut show = ClusterConsole::begin(100, 30).await;
    for value in ["one", "two", "three"] {
        if value == "one" {
            show.map("settings", value).await;
        } else {
            show.set("settings", value).await;
        }
        show.pass(20).await;
    }
    show.process_messages().await;
    show.stage.press(": \"configmaps\" enter");
    let maps = server_table(&show).await;
    show.stage.feed(vec![maps]);
    show.press("/ \"settings\" enter V", "data.k two → three").await;
    let screen = show.stage.screen();
    for expected in ["3 versions", "data.k one → two", "created", "-   k: two", "+   k: three"] {
        assert!(screen.contains(expected), "{expected} is not in\n{screen}");
    }
    // The first version and the last.
    let screen = show.press("G space g", "-   k: one").await;
    assert!(screen.contains("+   k: three"), "{screen}");
    // The version in between.
    show.press("j enter", "k: two").await;
    let screen = show.stage.screen();
    assert!(screen.contains("THE PAST") && !screen.contains("k: three"), "{screen}");
    // The keys go from there to the change before, and to the present.
    show.press("<", "k: one").await;
    show.press(": \"at_now\" enter", "k: three").await;
    assert!(!show.stage.screen().contains("THE PAST"));
    show.press("esc", "settings · versions").await;
    // A view opened at a version is closed with one key.
    show.press("enter", "THE PAST").await;
    let screen = show.press("esc", "settings · versions").await;
    assert!(!screen.contains("THE PAST"), "{screen}");
    show.cluster.stop().await;
}

/// The server's table of config maps.
async fn server_table(show: &ClusterConsole) -> Delta {
    let request = http::Request::get("/api/v1/configmaps?includeObject=Metadata")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .expect("a request");
    let table: podium::console_data::server_table::ServerTable =
        show.cluster.client().request(request).await.expect("a table");
    let table = table.as_table();
    let key = podium::console_data::resource::ResourceKey::of::<ConfigMap>();
    let rows = table.rows.into_iter().map(Arc::new).collect();
    Delta::of_table(key, Some(table.column_definitions), vec![Change::Reset(rows)])
}

#[tokio::test(start_paused = true)]
async fn one_timeline_tells_states_events_and_what_was_done_con_19() {
    let mut show = ClusterConsole::begin(140, 40).await;
    let deployments: Api<Deployment> = Api::default_namespaced(show.cluster.client());
    deployments.create(&PostParams::default(), &web(1)).await.expect("made");
    show.pass(30).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
    deployments.patch("web", &PatchParams::default(), &patch).await.expect("scaled");
    show.pass(30).await;
    show.process_messages().await;
    let screen = show.press("d T", "scaled 1 → 2").await;
    for expected in [
        "Timeline · Deployment default/web", "state", "deployment/web", "event", "ScalingReplicaSet",
        "replicaset/web-", "Running 1/1", "following newest first",
    ] {
        assert!(screen.contains(expected), "{expected} is not in\n{screen}");
    }
    // The same from one of its pods: it is one tree. The console's own actions appear in it.
    show.stage.press("esc");
    let title = show.press("~ p T", "scaled 1 → 2").await;
    assert!(title.contains("Timeline · Deployment default/web"), "{title}");
    // Current changes are added.
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments.patch("web", &PatchParams::default(), &patch).await.expect("scaled");
    show.pass(60).await;
    show.process_messages().await;
    let screen = show.until("scaled 2 → 0").await;
    assert!(screen.contains("deleted"), "its pods went:\n{screen}");
    let screen = show.press("/ \"scaled\" enter", "/scaled").await;
    assert!(!screen.contains("Running 1/1"), "{screen}");
    show.press("esc O", "oldest first").await;
    show.cluster.stop().await;
}

#[test]
fn other_servers_say_that_they_tell_nothing_of_the_past_con_19() {
    let other = || {
        let mut stage = TestConsole::new(100, 30);
        stage.feed(shop());
        stage.send(Message::Catalogue(Catalogue::of(podium::console_data::builtin_kinds::kinds())));
        stage
    };
    for keys in ["p <", ": \"wk\" enter <", "p {", "p : \"at_-5m\" enter", "p y @ \"-5m\" enter", "d V"] {
        let mut stage = other();
        let jobs = stage.press(keys);
        assert!(
            !jobs.iter().any(|job| matches!(job, Job::Start(task) if format!("{task:?}").contains("past"))),
            "{keys}"
        );
        assert!(stage.screen().contains("this server has no history"), "{keys}\n{}", stage.screen());
    }
    // The timeline continues with observed changes.
    let mut stage = other();
    stage.press("p T");
    let screen = stage.screen();
    assert!(screen.contains("states since this view was opened"), "{screen}");
    assert!(screen.contains("Timeline · Deployment default/"), "{screen}");
    // An invalid time is reported at the prompt.
    stage.press("~ p : \"at_soon\" enter");
    assert!(stage.screen().contains("invalid time"), "{}", stage.screen());
}

/// Ages count from the shown time; there are none if it is unknown, as for the earliest state after a restart.
#[test]
fn a_past_state_of_unknown_time_has_no_ages_con_19() {
    let stage = TestConsole::new(80, 24);
    let live = stage.model.shared.context(stage.now);
    let hour = jiff::SignedDuration::from_hours(1);
    let created = stage.now - hour * 3;
    for (time, is_earliest, age, banner) in [
        (Some(stage.now - hour), false, "120m", "11:00:00, 60m ago · revision 7"),
        (Some(stage.now - hour), true, "120m", "the earliest known state: 11:00:00, 60m ago · revision 7"),
        (None, true, "", "the earliest known state: revision 7, time unknown"),
        (None, false, "", "revision 7, time unknown"),
    ] {
        let point = PointInTime { revision: 7, time, is_earliest };
        let past = PastView::new(TimePosition::At(point), Stores::default(), 0).expect("a past state");
        assert_eq!(past.context(&live).age(created), age, "{point:?}");
        assert_eq!(point.describe(&live), banner);
    }
}
