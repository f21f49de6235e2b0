//! One table over the contexts of a kubeconfig, with two API servers behind it, over HTTPS (CON-16): its rows, the
//! server that a key on a row goes to, and contexts that do not answer, come back, or forbid access.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::config::{AuthInfo, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};
use podium::base::clock::Clock;
use podium::console::joined_clusters::{ClusterSources, JoinedClusters};
use podium::console::model::Job;
use podium::console_data::catalogue;
use podium::console_data::contexts;
use podium::console_data::feed::{Feed, retry_policy};
use podium::console_data::message::Message;
use podium::console_operations::effect::Runner;
use podium::testing::Cluster;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::test_console::TestConsole;
use crate::instance::WAIT_TIMEOUT;

/// A console on one cluster that can show others, with all its I/O.
struct Console {
    stage: TestConsole,
    feed: Feed,
    runner: Runner,
    joined: JoinedClusters,
    kubeconfig: PathBuf,
    messages: mpsc::Sender<Message>,
    inbox: mpsc::Receiver<Message>,
}

impl Console {
    async fn new(home: &Cluster, kubeconfig: &Path, read_only: bool) -> Self {
        let (messages, inbox) = mpsc::channel(64);
        let client = home.client();
        let feed = Feed::start(&client, "default", &messages, &Clock::machine(), retry_policy("in process"));
        let runner = Runner::new(client.clone(), messages.clone());
        let from = ClusterSources { kubeconfig: Some(kubeconfig.to_owned()), home: None, read_only };
        let joined = JoinedClusters::new(from, messages.clone(), Clock::machine());
        let stage = TestConsole::new(140, 40);
        let kubeconfig = kubeconfig.to_owned();
        let mut console = Self { stage, feed, runner, joined, kubeconfig, messages, inbox };
        let found = catalogue::discover(&client).await.expect("it answers");
        console.send(Message::Catalogue(found));
        let contexts = contexts::list(Some(&console.kubeconfig));
        console.send(Message::Contexts(contexts));
        console
    }

    fn send(&mut self, message: Message) {
        self.stage.now = Clock::machine().now();
        let jobs = self.stage.send(message);
        self.work(jobs);
    }

    fn work(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            match job {
                Job::On(cluster, job) => self.joined.job(cluster, *job),
                Job::Start(task) => self.runner.start(task),
                Job::Act(action) => self.runner.act(*action),
                Job::Watch(kind, namespace, include) => self.feed.watch(kind, namespace, include),
                Job::Unwatch(resource) => self.feed.unwatch(&resource),
                Job::Close(screen) => self.joined.close(screen),
                Job::Redraw => self.joined.retry(),
                Job::ReadContexts => {
                    let listed = Message::Contexts(contexts::list(Some(&self.kubeconfig)));
                    self.messages.try_send(listed).expect("there is room");
                }
                _ => {}
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.stage.now = Clock::machine().now();
        let jobs = self.stage.press(keys);
        self.work(jobs);
    }

    /// Processes messages until the screen is as expected.
    async fn until(&mut self, what: &str, is: impl Fn(&str) -> bool) {
        let look = async {
            loop {
                self.stage.now = Clock::machine().now();
                if is(&self.stage.screen()) {
                    return;
                }
                tokio::select! {
                    message = self.inbox.recv() => self.send(message.expect("the feeds go on")),
                    // The display of a silent cluster changes with time alone.
                    () = tokio::time::sleep(std::time::Duration::from_millis(100)) => self.send(Message::Tick),
                }
            }
        };
        let seen = tokio::time::timeout(WAIT_TIMEOUT, look).await.is_ok();
        assert!(seen, "waited in vain for {what}\n{}", self.stage.screen());
    }

    async fn until_shown(&mut self, expected: &str) {
        let owned = expected.to_owned();
        self.until(expected, move |screen| screen.contains(&owned)).await;
    }

    /// Puts the cursor on the row with these words.
    fn select(&mut self, words: &[&str]) {
        self.press("g");
        for _ in 0..40 {
            let screen = self.stage.screen();
            let row = screen.lines().find(|line| line.starts_with("│ ▸")).unwrap_or_default();
            if words.iter().all(|word| row.split_whitespace().any(|cell| cell == *word)) {
                return;
            }
            self.press("j");
        }
        panic!("no row {words:?} in\n{}", self.stage.screen());
    }
}

/// Counts the rows with these words.
fn rows(screen: &str, words: &[&str]) -> usize {
    let rows = screen.lines().filter(|line| line.starts_with('│'));
    let has = |line: &&str| words.iter().all(|word| line.split_whitespace().any(|cell| cell == *word));
    rows.filter(has).count()
}

/// A relay between the console and a server; the server is unreachable once it is dropped.
struct TcpRelay {
    at: SocketAddr,
    to: SocketAddr,
    carried: JoinSet<()>,
}

impl TcpRelay {
    /// To that server; closed at first.
    async fn closed(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { at: listener.local_addr().unwrap(), to, carried: JoinSet::new() }
    }

    async fn open(&mut self) {
        let (listener, to) = (TcpListener::bind(self.at).await.unwrap(), self.to);
        self.carried.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut here, _)) = listener.accept().await {
                connections.spawn(async move {
                    let mut there = TcpStream::connect(to).await.unwrap();
                    // One of the two connections ends, and with it the copy.
                    let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
                });
            }
        });
    }

    /// Closes every connection, and accepts no new one.
    async fn close(&mut self) {
        self.carried.shutdown().await;
    }
}

fn address(cluster: &Cluster) -> SocketAddr {
    cluster.url().expect("it listens").trim_start_matches("https://").parse().unwrap()
}

/// Writes a kubeconfig with these contexts of one cluster: name, the server's address, and the user to impersonate.
fn kubeconfig(cluster: &Cluster, contexts: &[(&str, SocketAddr, Option<&str>)], path: &Path) {
    let own = Kubeconfig::read_from(cluster.kubeconfig().expect("it listens")).unwrap();
    let (server, user) = (own.clusters[0].clone(), own.auth_infos[0].clone());
    let mut all = Kubeconfig::default();
    for (name, at, impersonated) in contexts {
        let cluster = server
            .cluster
            .clone()
            .map(|cluster| kube::config::Cluster { server: Some(format!("https://{at}")), ..cluster });
        all.clusters.push(NamedCluster { name: (*name).to_owned(), cluster, other: BTreeMap::new() });
        let auth_info = user
            .auth_info
            .clone()
            .map(|info| AuthInfo { impersonate: impersonated.map(str::to_owned), ..info });
        all.auth_infos.push(NamedAuthInfo { name: (*name).to_owned(), auth_info, other: BTreeMap::new() });
        let context = kube::config::Context {
            cluster: (*name).to_owned(),
            user: Some((*name).to_owned()),
            namespace: None,
            extensions: None,
            other: BTreeMap::new(),
        };
        all.contexts.push(NamedContext {
            name: (*name).to_owned(),
            context: Some(context),
            other: BTreeMap::new(),
        });
    }
    std::fs::write(path, serde_json::to_string(&all).unwrap()).unwrap();
}

fn pods(names: &[&str]) -> String {
    let pod = |name: &&str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: pause}}]}}\n"
        )
    };
    names.iter().map(pod).collect::<Vec<_>>().join("---\n")
}

async fn names(cluster: &Cluster) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let list = pods.list(&kube::api::ListParams::default()).await.unwrap();
    let mut names: Vec<String> = list.items.into_iter().filter_map(|pod| pod.metadata.name).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_on_a_row_reaches_only_the_server_of_its_cluster_con_16() {
    let (home, other) = tokio::join!(Cluster::start(), Cluster::builder().listen().start());
    let (home, other) = (home.unwrap(), other.unwrap());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    kubeconfig(
        &other,
        &[("other", address(&other), None), ("stranger", address(&other), Some("stranger"))],
        &file,
    );
    home.apply(&pods(&["web", "api", "cart"])).await.unwrap();
    other.apply(&pods(&["web", "api", "cart"])).await.unwrap();

    let mut console = Console::new(&home, &file, false).await;
    console.press(": \"pods_@podium,other,stranger_-n_default\" enter");
    console.until("all rows", |screen| rows(screen, &["web"]) == 2 && screen.contains("2 of 3 live")).await;
    console.until_shown("○ stranger not allowed").await;
    let screen = console.stage.screen();
    assert_eq!((rows(&screen, &["podium", "api"]), rows(&screen, &["other", "api"])), (1, 1), "{screen}");
    assert!(screen.contains("pods is forbidden"), "why, in the server's words: {screen}");

    // The cursor selects one of two rows with the same name.
    console.select(&["other", "web"]);
    console.press("ctrl-d");
    console.until_shown("in the context other").await;
    console.press("tab enter");
    console.until_shown("delete Pod default/web on other").await;
    console.until("its row is gone", |screen| rows(screen, &["web"]) == 1).await;
    assert_eq!(names(&other).await, ["api", "cart"]);
    assert_eq!(names(&home).await, ["api", "cart", "web"]);

    // Two objects at once, each after its own confirmation; then a single one.
    for context in ["podium", "other"] {
        console.select(&[context, "api"]);
        console.press("space");
    }
    console.press("ctrl-d");
    for context in ["podium", "other"] {
        console.until_shown(&format!("in the context {context}")).await;
        console.press("tab enter");
    }
    console.until("both are gone", |screen| rows(screen, &["api"]) == 0).await;
    assert_eq!(
        (names(&home).await, names(&other).await),
        (vec!["cart".to_owned(), "web".to_owned()], vec!["cart".to_owned()])
    );

    // The details of a row come from the row's server, too.
    console.select(&["other", "cart"]);
    console.press("y");
    console.until_shown("name: cart").await;
    let own: Api<Pod> = Api::namespaced(other.client(), "default");
    let uid = own.get("cart").await.unwrap().metadata.uid.unwrap();
    console.until_shown(&uid).await;
    assert!(console.stage.screen().starts_with(" other "), "{}", console.stage.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_goes_and_comes_back_with_its_rows_con_18() {
    let (home, other) = tokio::join!(Cluster::start(), Cluster::builder().listen().start());
    let (home, other) = (home.unwrap(), other.unwrap());
    let mut way = TcpRelay::closed(address(&other)).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    kubeconfig(&other, &[("late", way.at, None)], &file);
    home.apply(&pods(&["here"])).await.unwrap();
    other.apply(&pods(&["there"])).await.unwrap();

    let mut console = Console::new(&home, &file, true).await;
    console.press(": \"pods_@*_-n_default\" enter");
    console.until_shown("✖ late no answer").await;
    console.until("the others are there", |screen| rows(screen, &["podium", "here"]) == 1).await;
    way.open().await;
    console.press("ctrl-r");
    console
        .until("its rows come", |screen| {
            rows(screen, &["late", "there"]) == 1 && screen.contains("2 of 2 live")
        })
        .await;

    way.close().await;
    console.until_shown("✖ late no answer").await;
    let screen = console.stage.screen();
    assert_eq!(rows(&screen, &["late", "there"]), 1, "known rows stay\n{screen}");
    assert!(console.stage.is_dim("there") && !console.stage.is_dim("here"), "{screen}");
    home.apply(&pods(&["news"])).await.unwrap();
    console.until("the others go on", |screen| rows(screen, &["podium", "news"]) == 1).await;
    other.apply(&pods(&["meanwhile"])).await.unwrap();
    way.open().await;
    console.press("ctrl-r");
    console
        .until("it comes back", |screen| {
            rows(screen, &["late", "meanwhile"]) == 1 && !screen.contains("✖ late no answer")
        })
        .await;
    assert!(!console.stage.is_dim("there"), "{}", console.stage.screen());

    // A read-only console is read-only for other contexts as well: the client itself refuses.
    console.select(&["late", "there"]);
    console.press("ctrl-d");
    console.until_shown("in the context late").await;
    console.press("tab enter");
    console.until_shown("read-only").await;
    assert_eq!(names(&other).await, ["meanwhile", "there"]);
}
