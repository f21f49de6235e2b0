//! The clusters beside the front one (CON-16). Each has its own client, feed and runner, and a channel to the event
//! loop that tags every message with its cluster.
//!
//! A change of a cluster without a connection fails at once, so that it cannot happen some time later.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::task::JoinSet;
use kube::Client;
use tokio::sync::{Notify, mpsc};

use super::model::Job;
use base::backoff::BackoffPolicy;
use base::clock::{Clock, saturating_after};
use console_data::action::Outcome;
use console_data::context::ScreenId;
use console_data::contexts::{self, ConnectedCluster, Identity};
use console_data::feed::{self, Feed};
use console_data::message::Message;
use console_data::read_only;
use console_data::resource::ClusterId;
use console_operations::effect::{Runner, Task};
use console_toolkit::toast::Toast;

/// The capacity of a cluster's message channel; a full channel holds back its watches.
const CHANNEL_CAPACITY: usize = 64;

/// The origin of the clusters: the kubeconfig, and the cluster that the console was started on.
#[derive(Clone, Debug, Default)]
pub struct ClusterSources {
    /// The kubeconfig with the contexts; `None` for kubectl's default.
    pub kubeconfig: Option<PathBuf>,
    /// The cluster that the console was started on, if it can be joined, and the kubeconfig with which other programs
    /// reach it.
    pub home: Option<(ConnectedCluster, Option<PathBuf>)>,
    /// Every change is refused.
    pub read_only: bool,
}

/// The joined clusters.
pub struct JoinedClusters {
    from: ClusterSources,
    messages: mpsc::Sender<Message>,
    clock: Clock,
    clusters: HashMap<ClusterId, JoinedCluster>,
}

struct JoinedCluster {
    /// Sends its tasks' messages to the loop.
    messages: mpsc::Sender<Message>,
    /// Forwards those messages.
    forwarder: JoinSet<()>,
    joining: JoinSet<()>,
    retry: Arc<Notify>,
    /// Its feed, and the task that forwards the feed's messages.
    feed: Option<(Feed, JoinSet<()>)>,
    runner: Option<Runner>,
    /// Runners of released connections that still have changes in progress.
    retired: Vec<Runner>,
    /// Tasks that screens started before the cluster answered: at most one of each name for a screen that is open.
    waiting: Vec<Task>,
}

/// Returns a sender to the loop that tags its messages with the cluster.
fn message_channel(
    cluster: ClusterId,
    messages: &mpsc::Sender<Message>,
) -> (mpsc::Sender<Message>, JoinSet<()>) {
    let (sender, mut inbox) = mpsc::channel(CHANNEL_CAPACITY);
    let messages = messages.clone();
    let mut forwarder = JoinSet::new();
    forwarder.spawn(async move {
        while let Some(message) = inbox.recv().await {
            if messages.send(Message::On(cluster, Box::new(message))).await.is_err() {
                return;
            }
        }
    });
    (sender, forwarder)
}

impl JoinedClusters {
    /// Starts without joined clusters.
    pub fn new(from: ClusterSources, messages: mpsc::Sender<Message>, clock: Clock) -> Self {
        Self { from, messages, clock, clusters: HashMap::new() }
    }

    /// Runs a job for a cluster.
    pub fn job(&mut self, cluster: ClusterId, job: Job) {
        let messages = &self.messages;
        let one = self.clusters.entry(cluster).or_insert_with(|| {
            let (messages, way) = message_channel(cluster, messages);
            JoinedCluster {
                messages,
                forwarder: way,
                joining: JoinSet::new(),
                retry: Arc::new(Notify::new()),
                feed: None,
                runner: None,
                retired: Vec::new(),
                waiting: Vec::new(),
            }
        });
        match job {
            Job::Join(name) => {
                one.joining = JoinSet::new();
                let (from, messages) = (self.from.clone(), one.messages.clone());
                one.joining.spawn(join(from, name, messages, self.clock.clone(), one.retry.clone()));
            }
            Job::Attach(connected) => {
                let (sender, carried) = message_channel(cluster, messages);
                let client = one.attach(&connected, self.from.read_only);
                let ConnectedCluster { origin, namespace, .. } = *connected;
                let fallback = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
                let policy = feed::retry_policy(&origin);
                let feed = Feed::start_lean(&client, &fallback, &sender, &self.clock, policy);
                one.feed = Some((feed, carried));
                for task in std::mem::take(&mut one.waiting) {
                    one.job(Job::Start(task));
                }
            }
            job => one.job(job),
        }
    }

    /// Ends every task of a closed screen, on all clusters.
    pub fn close(&mut self, screen: ScreenId) {
        for one in self.clusters.values_mut() {
            one.waiting.retain(|task| task.screen != screen);
            one.runner.iter_mut().for_each(|runner| runner.close(screen));
        }
    }

    /// Requests that detached work on every cluster finishes, which removes the objects that were created for screens.
    pub(crate) fn end_lasting(&self) {
        for one in self.clusters.values() {
            one.runner.iter().chain(&one.retired).for_each(Runner::end_detached_tasks);
        }
    }

    /// Retries all pending connections and watches at once.
    pub fn retry(&mut self) {
        for one in self.clusters.values_mut() {
            one.retry.notify_waiters();
            one.feed.iter_mut().for_each(|(feed, _)| feed.retry());
        }
    }

    /// Stops all watches, and waits until the changes in progress have ended and the loop has received their results.
    pub(crate) async fn shut_down(self) {
        for (_, one) in self.clusters {
            let JoinedCluster {
                messages,
                forwarder: mut way,
                joining,
                retry: _,
                feed,
                runner,
                retired,
                waiting,
            } = one;
            // An attempt to connect holds a sender until its next try, and a task that waits has no cluster to run on.
            drop((joining, feed, waiting));
            for mut runner in runner.into_iter().chain(retired) {
                runner.end_tasks();
                while runner.next_action().await.is_some() {}
            }
            // The forwarding task ends when the last sender is dropped.
            drop(messages);
            while way.join_next().await.is_some() {}
        }
    }
}

impl JoinedCluster {
    /// Uses this connection's client for the cluster from now on. Returns the client, which refuses changes in
    /// read-only mode.
    fn attach(&mut self, connected: &ConnectedCluster, is_read_only: bool) -> Client {
        let client = connected.client.clone();
        // The client of the start cluster is already wrapped.
        let client =
            if is_read_only && connected.name.is_some() { read_only::client(client) } else { client };
        self.runner = Some(Runner::new(client.clone(), self.messages.clone()));
        client
    }

    fn job(&mut self, job: Job) {
        match (job, &mut self.feed, &mut self.runner) {
            (Job::Start(task), _, Some(runner)) => runner.start(task),
            (Job::Start(task), _, None) => {
                self.cancel_waiting(task.screen, task.slot());
                self.waiting.push(task);
            }
            (Job::Cancel(screen, slot), _, Some(runner)) => runner.cancel(screen, slot),
            (Job::Cancel(screen, slot), _, None) => self.cancel_waiting(screen, slot),
            (Job::Act(action), _, Some(runner)) => runner.act(*action),
            (Job::Act(action), _, None) => {
                let error = Some("no request was sent: that cluster has not answered yet".to_owned());
                self.send_message(Message::ActionEnded(Box::new(Outcome {
                    action: *action,
                    error,
                    after: None,
                })));
            }
            (Job::Run(run), _, Some(runner)) => runner.run(*run),
            (Job::Run(run), _, None) => {
                self.send_message(Message::Toast(Toast::failed(format!(
                    "{}: its cluster has not answered yet",
                    run.title()
                ))));
            }
            (Job::Need(resource), Some((feed, _)), _) => feed.watch_typed(&resource),
            (Job::Watch(kind, namespace, include), Some((feed, _)), _) => {
                feed.watch(kind, namespace, include);
            }
            (Job::Unwatch(resource), Some((feed, _)), _) => feed.unwatch(&resource),
            (Job::MeasurePods(is_enabled), Some((feed, _)), _) => feed.measure_pods(is_enabled),
            (Job::Release, ..) => {
                // The next connection may lead to another server, so nothing new runs on this one.
                self.retired.extend(self.runner.take());
                self.retired.retain_mut(Runner::is_busy);
                self.feed = None;
                self.joining = JoinSet::new();
                self.waiting.clear();
            }
            // The other jobs belong to no cluster, or to one that is not watched.
            _ => {}
        }
    }

    /// Drops a task that waits; as in a runner, a task also replaces an earlier one of its screen with the same name.
    fn cancel_waiting(&mut self, screen: ScreenId, slot: &str) {
        self.waiting.retain(|task| task.screen != screen || task.slot() != slot);
    }

    /// Sends a message to the loop from a task of its own: this code runs in the loop, so waiting here would deadlock.
    fn send_message(&mut self, message: Message) {
        while self.forwarder.try_join_next().is_some() {}
        let messages = self.messages.clone();
        self.forwarder.spawn(async move {
            // The loop may have ended.
            let _ = messages.send(message).await;
        });
    }
}

/// Retries the cluster of a context until it answers.
async fn join(
    from: ClusterSources,
    name: Option<String>,
    messages: mpsc::Sender<Message>,
    clock: Clock,
    retry: Arc<Notify>,
) {
    let mut failures = 0;
    loop {
        let retried = retry.notified();
        let reason = match connect(&from, name.as_deref()).await {
            Ok(connected) => {
                let joined = Message::Joined(Box::new((connected, identity(from, name).await)));
                // The loop may have ended.
                let _ = messages.send(joined).await;
                return;
            }
            Err(why) => why,
        };
        failures += 1;
        let delay = retry_policy(&from, name.as_deref()).await.delay(failures);
        let retry_at = saturating_after(clock.now(), delay);
        if messages.send(Message::Unreachable { reason, retry_at }).await.is_err() {
            return;
        }
        tokio::select! {
            () = clock.sleep(delay) => {}
            () = retried => {}
        }
    }
}

/// Returns the back-off for the server of a context. A context without a server is retried like a local one: only the
/// kubeconfig is read again.
async fn retry_policy(from: &ClusterSources, name: Option<&str>) -> BackoffPolicy {
    let Some(name) = name else {
        let origin = from.home.as_ref().map(|(home, _)| home.origin.as_str());
        return feed::retry_policy(origin.unwrap_or_default());
    };
    let (path, name) = (from.kubeconfig.clone(), name.to_owned());
    let read = base::task::blocking(move || contexts::server_address(path.as_deref(), &name));
    let address = read.await.ok().flatten();
    feed::retry_policy(address.as_deref().unwrap_or_default())
}

async fn connect(from: &ClusterSources, name: Option<&str>) -> Result<ConnectedCluster, String> {
    match (name, &from.home) {
        (Some(name), _) => contexts::connect(from.kubeconfig.as_deref(), name).await,
        (None, Some((home, _))) => {
            contexts::verify_reachable(home.clone(), "the console's first cluster").await
        }
        (None, None) => Err("the console's first cluster is not known".to_owned()),
    }
}

/// Returns the identity that other programs use on the cluster; it never names another context.
async fn identity(from: ClusterSources, name: Option<String>) -> Identity {
    let path = match (&name, &from.home) {
        (None, Some((_, Some(own)))) => Some(own.clone()),
        _ => from.kubeconfig.clone(),
    };
    let known = Identity { context: name.clone().unwrap_or_default(), ..Identity::default() };
    let read = base::task::blocking(move || contexts::identity(path.as_deref(), name.as_deref()));
    read.await.unwrap_or(known)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod;
    use kube::client::Body;

    use super::*;
    use console_data::action::{Action, Mutation};
    use console_data::builtin_kinds;
    use console_data::resource::ObjectRef;
    use console_operations::effect::Effect;

    const ID: ClusterId = ClusterId::joined(1);

    fn connected() -> ConnectedCluster {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            let body = Body::from(br#"{"kind": "Status", "status": "Success"}"#.to_vec());
            Ok::<_, Infallible>(http::Response::new(body))
        });
        let client = Client::new(service, "default");
        ConnectedCluster {
            name: Some("prod".to_owned()),
            origin: "prod:6443".to_owned(),
            namespace: None,
            client,
        }
    }

    fn delete() -> Job {
        let pod = builtin_kinds::kind::<Pod>();
        let target = ObjectRef { kind: pod, namespace: Some("a".into()), name: "web".into(), uid: None };
        let mutation = Mutation::delete(&target);
        Job::Act(Box::new(Action::new(&target, "delete", "kubectl delete pod web", mutation)))
    }

    fn task() -> Task {
        let effect = Effect::task("t", |out| async move { out.data("done").await });
        let Effect::Task(task) = effect else { unreachable!("it is one") };
        task
    }

    /// Returns the cluster's next outcome or datum as text.
    async fn next(inbox: &mut mpsc::Receiver<Message>) -> String {
        loop {
            let Some(Message::On(ID, message)) = inbox.recv().await else { panic!("of another cluster") };
            match *message {
                Message::ActionEnded(outcome) => return outcome.error.unwrap_or_else(|| "acted".to_owned()),
                Message::Data(_, data) => return data.take::<&str>().expect("ours").to_owned(),
                _ => {}
            }
        }
    }

    #[tokio::test]
    async fn a_change_is_never_sent_to_a_cluster_later_than_intended_con_16() {
        let (messages, mut inbox) = mpsc::channel(64);
        let from = ClusterSources::default();
        let mut joined = JoinedClusters::new(from.clone(), messages.clone(), Clock::machine());
        joined.job(ID, delete());
        assert_eq!(next(&mut inbox).await, "no request was sent: that cluster has not answered yet");
        // A read-only task waits until the cluster answers, and ends with the screen that started it.
        joined.job(ID, Job::Start(task()));
        joined.job(ID, Job::Attach(Box::new(connected())));
        assert_eq!(next(&mut inbox).await, "done");
        joined.job(ID, delete());
        assert_eq!(next(&mut inbox).await, "acted");
        // A change in progress is not lost when the cluster is no longer shown.
        joined.job(ID, delete());
        joined.job(ID, Job::Release);
        joined.job(ID, Job::Attach(Box::new(connected())));
        assert_eq!(next(&mut inbox).await, "acted");
        // A released cluster has no connection, also after it was reached once.
        joined.job(ID, Job::Release);
        joined.job(ID, delete());
        assert_eq!(next(&mut inbox).await, "no request was sent: that cluster has not answered yet");
        joined.job(ID, Job::Start(task()));
        assert_eq!(joined.clusters[&ID].waiting.len(), 1);
        joined.job(ID, Job::Attach(Box::new(connected())));
        assert_eq!(next(&mut inbox).await, "done");
        joined.job(ID, delete());
        joined.shut_down().await;
        assert_eq!(next(&mut inbox).await, "acted", "a shutdown waits until the change is reported");
        // In read-only mode the joined cluster's client refuses changes as well.
        let from = ClusterSources { read_only: true, ..from };
        let mut joined = JoinedClusters::new(from, messages, Clock::machine());
        joined.job(ID, Job::Attach(Box::new(connected())));
        joined.job(ID, delete());
        assert_eq!(next(&mut inbox).await, "read-only: nothing was changed");
    }

    /// A task replaces an earlier one of its screen with the same name, so the open screens bound the waiting tasks.
    #[tokio::test]
    async fn every_open_view_of_a_cluster_loads_once_the_cluster_answers_con_18() {
        const SCREENS: u64 = 100;
        let (messages, mut inbox) = mpsc::channel(64);
        let mut joined = JoinedClusters::new(ClusterSources::default(), messages, Clock::machine());
        for screen in (0..SCREENS).chain(0..SCREENS) {
            let mut task = task();
            task.screen = ScreenId::new(screen, ID);
            joined.job(ID, Job::Start(task));
        }
        assert_eq!(joined.clusters[&ID].waiting.len(), 100);
        joined.close(ScreenId::new(0, ID));
        joined.job(ID, Job::Attach(Box::new(connected())));
        for _ in 1..SCREENS {
            assert_eq!(next(&mut inbox).await, "done");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_on_this_machine_is_retried_sooner_than_a_distant_one_con_18() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        // The certificates are not readable, so that no request is sent.
        let text = "
apiVersion: v1
kind: Config
clusters:
- name: here
  cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: '!'}
- name: there
  cluster: {server: 'https://prod.example.com:6443', certificate-authority-data: '!'}
contexts:
- name: dev
  context: {cluster: here, user: me}
- name: prod
  context: {cluster: there, user: me}
users:
- name: me
  user: {token: t}
";
        std::fs::write(&path, text).unwrap();
        let from = ClusterSources { kubeconfig: Some(path), ..ClusterSources::default() };
        for (context, milliseconds) in [("dev", 500), ("prod", 1000)] {
            let (messages, mut inbox) = mpsc::channel(16);
            let begin: jiff::Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
            let mut joined = JoinedClusters::new(from.clone(), messages, Clock::starting_at(begin));
            joined.job(ID, Job::Join(Some(context.to_owned())));
            let Some(Message::On(ID, message)) = inbox.recv().await else { panic!("of another cluster") };
            let Message::Unreachable { retry_at, .. } = *message else { panic!("{message:?}") };
            let waits = retry_at.duration_since(begin);
            assert_eq!(waits, jiff::SignedDuration::from_millis(milliseconds), "{context}");
        }
    }

    #[tokio::test]
    async fn a_missing_context_is_reported_and_retried_con_18() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, "apiVersion: v1\nkind: Config\n").unwrap();
        let (messages, mut inbox) = mpsc::channel(64);
        let from = ClusterSources { kubeconfig: Some(path), ..ClusterSources::default() };
        let mut joined = JoinedClusters::new(from, messages, Clock::machine());
        joined.job(ID, Job::Join(Some("qa".to_owned())));
        for _ in 0..2 {
            let Some(Message::On(ID, message)) = inbox.recv().await else { panic!("of another cluster") };
            let Message::Unreachable { reason, .. } = *message else { panic!("{message:?}") };
            assert_eq!(reason, "the kubeconfig has no context \"qa\"");
            // The user can retry at once.
            joined.retry();
        }
        joined.job(ID, Job::Release);
        joined.job(ID, Job::Join(None));
        let Some(Message::On(_, message)) = inbox.recv().await else { panic!("nothing") };
        assert!(matches!(*message, Message::Unreachable { .. }), "{message:?}");
    }

    #[tokio::test]
    async fn the_end_does_not_wait_for_a_cluster_that_is_not_reached_con_18() {
        let (messages, mut inbox) = mpsc::channel(64);
        let mut joined = JoinedClusters::new(ClusterSources::default(), messages, Clock::machine());
        joined.job(ID, Job::Join(None));
        let Some(Message::On(_, message)) = inbox.recv().await else { panic!("nothing") };
        assert!(matches!(*message, Message::Unreachable { .. }), "{message:?}");
        let ended = tokio::time::timeout(Duration::from_secs(20), joined.shut_down()).await;
        ended.expect("no attempt is waited for");
    }
}
