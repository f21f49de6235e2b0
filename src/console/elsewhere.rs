//! The clusters beside the one that the console is on (CON-16): who connects to each, watches it and acts on it. Each has a
//! client, a feed and a runner of its own, and a way to the loop on which every message says which cluster it is of.
//!
//! A change that is asked of a cluster that nobody is connected to fails at once: it must not happen some time later.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::action::Outcome;
use super::context::ScreenId;
use super::contexts::{self, Connected, Identity};
use super::effect::Runner;
use super::feed::{self, Feed};
use super::message::Message;
use super::model::Job;
use super::read_only;
use super::resource::ClusterId;
use super::toast::Toast;
use base::clock::{Clock, saturating_after};

/// Messages of a cluster that wait for the loop, before its watches are read later.
const WAITING: usize = 64;

/// Tasks of screens that wait until their cluster answers.
const TASKS: usize = 64;

/// Where the clusters are found.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    /// The kubeconfig whose contexts they are; none is the one that kubectl reads.
    pub kubeconfig: Option<PathBuf>,
    /// The cluster that the console was started on, where it can be gone to, and the kubeconfig that opens that to others.
    pub home: Option<(Connected, Option<PathBuf>)>,
    /// Whether every change is refused.
    pub read_only: bool,
}

/// All of them.
pub struct Joined {
    from: Elsewhere,
    messages: mpsc::Sender<Message>,
    clock: Clock,
    clusters: HashMap<ClusterId, One>,
}

/// One of them.
struct One {
    /// To the loop, for its tasks.
    messages: mpsc::Sender<Message>,
    /// Carries those messages there.
    way: JoinSet<()>,
    joining: JoinSet<()>,
    retry: Arc<Notify>,
    /// What watches it, and what carries that to the loop.
    feed: Option<(Feed, JoinSet<()>)>,
    runner: Option<Runner>,
    /// Those of earlier connections, with changes on their way.
    retired: Vec<Runner>,
    /// What screens have asked for before it has answered.
    waiting: Vec<Job>,
}

/// A sender whose messages come to the loop as those of a cluster.
fn way(cluster: ClusterId, messages: &mpsc::Sender<Message>) -> (mpsc::Sender<Message>, JoinSet<()>) {
    let (sender, mut inbox) = mpsc::channel(WAITING);
    let messages = messages.clone();
    let mut way = JoinSet::new();
    way.spawn(async move {
        while let Some(message) = inbox.recv().await {
            if messages.send(Message::On(cluster, Box::new(message))).await.is_err() {
                return;
            }
        }
    });
    (sender, way)
}

impl Joined {
    /// None of them yet.
    pub fn new(from: Elsewhere, messages: mpsc::Sender<Message>, clock: Clock) -> Self {
        Self { from, messages, clock, clusters: HashMap::new() }
    }

    /// Does a job of a cluster.
    pub fn job(&mut self, cluster: ClusterId, job: Job) {
        let messages = &self.messages;
        let one = self.clusters.entry(cluster).or_insert_with(|| {
            let (messages, way) = way(cluster, messages);
            One {
                messages,
                way,
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
                let (sender, carried) = way(cluster, messages);
                let client = one.attach(&connected, self.from.read_only);
                let Connected { origin, namespace, .. } = *connected;
                let fallback = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
                let policy = feed::retry_policy(&origin);
                let feed = Feed::start_lean(&client, &fallback, &sender, &self.clock, policy);
                one.feed = Some((feed, carried));
                for job in std::mem::take(&mut one.waiting) {
                    one.job(job);
                }
            }
            job => one.job(job),
        }
    }

    /// Ends every task of a screen that was left, on whichever cluster.
    pub fn close(&mut self, screen: ScreenId) {
        for one in self.clusters.values_mut() {
            one.waiting.retain(|job| !matches!(job, Job::Start(task) if task.screen == screen));
            one.runner.iter_mut().for_each(|runner| runner.close(screen));
        }
    }

    /// Has what was made for screens taken away again, on every cluster.
    pub(crate) fn end_lasting(&self) {
        for one in self.clusters.values() {
            one.runner.iter().chain(&one.retired).for_each(Runner::end_lasting);
        }
    }

    /// Asks at once for all that waits for its next try.
    pub fn retry(&mut self) {
        for one in self.clusters.values_mut() {
            one.retry.notify_waiters();
            one.feed.iter_mut().for_each(|(feed, _)| feed.retry());
        }
    }

    /// Lets go of all that is watched, and waits for the changes that are on their way, and for the loop to have taken
    /// what came of them.
    pub(crate) async fn settle(self) {
        for (_, one) in self.clusters {
            let One { messages, mut way, feed, runner, retired, .. } = one;
            drop(feed);
            for mut runner in runner.into_iter().chain(retired) {
                runner.end_tasks();
                while runner.next_action().await.is_some() {}
            }
            // The way ends with the last of those who send on it.
            drop(messages);
            while way.join_next().await.is_some() {}
        }
    }
}

impl One {
    /// Acts on it by that client from now on; which that is, where changes are refused.
    fn attach(&mut self, connected: &Connected, is_read_only: bool) -> Client {
        let client = connected.client.clone();
        // The cluster that the console was started on has such a client already.
        let client =
            if is_read_only && connected.name.is_some() { read_only::client(client) } else { client };
        self.retired.retain_mut(Runner::is_busy);
        self.retired.extend(self.runner.replace(Runner::new(client.clone(), self.messages.clone())));
        client
    }

    fn job(&mut self, job: Job) {
        match (job, &mut self.feed, &mut self.runner) {
            (Job::Start(task), _, Some(runner)) => runner.start(task),
            (Job::Start(task), _, None) if self.waiting.len() < TASKS => self.waiting.push(Job::Start(task)),
            (Job::Cancel(screen, slot), _, Some(runner)) => runner.cancel(screen, slot),
            (Job::Act(action), _, Some(runner)) => runner.act(*action),
            (Job::Act(action), _, None) => {
                let error = Some("nothing was asked: that cluster has not answered yet".to_owned());
                self.tell(Message::Acted(Box::new(Outcome { action: *action, error, after: None })));
            }
            (Job::Run(run), _, Some(runner)) => runner.run(*run),
            (Job::Run(run), _, None) => {
                self.tell(Message::Toast(Toast::failed(format!(
                    "{}: its cluster has not answered yet",
                    run.title()
                ))));
            }
            (Job::Need(resource), Some((feed, _)), _) => feed.need(&resource),
            (Job::Watch(kind, namespace, include), Some((feed, _)), _) => {
                feed.watch(kind, namespace, include);
            }
            (Job::Unwatch(resource), Some((feed, _)), _) => feed.unwatch(&resource),
            (Job::MeasurePods(wanted), Some((feed, _)), _) => feed.measure_pods(wanted),
            (Job::Rest, ..) => {
                self.feed = None;
                self.joining = JoinSet::new();
                self.waiting.clear();
            }
            // The others are none of a cluster's, or of one that is not watched.
            _ => {}
        }
    }

    /// Tells the loop something; it may not be waited for here, where the loop itself is.
    fn tell(&mut self, message: Message) {
        let messages = self.messages.clone();
        self.way.spawn(async move {
            // The loop may be over.
            let _ = messages.send(message).await;
        });
    }
}

/// Asks the cluster of a context until it answers.
async fn join(
    from: Elsewhere,
    name: Option<String>,
    messages: mpsc::Sender<Message>,
    clock: Clock,
    retry: Arc<Notify>,
) {
    let policy = feed::retry_policy(name.as_deref().unwrap_or("the start"));
    let mut failures = 0;
    loop {
        let asked_again = retry.notified();
        let why = match connect(&from, name.as_deref()).await {
            Ok(connected) => {
                let joined = Message::Joined(Box::new((connected, identity(from, name).await)));
                // The loop may be over.
                let _ = messages.send(joined).await;
                return;
            }
            Err(why) => why,
        };
        failures += 1;
        let delay = policy.delay(failures);
        let retry_at = saturating_after(clock.now(), delay);
        if messages.send(Message::Unreachable { why, retry_at }).await.is_err() {
            return;
        }
        tokio::select! {
            () = clock.sleep(delay) => {}
            () = asked_again => {}
        }
    }
}

async fn connect(from: &Elsewhere, name: Option<&str>) -> Result<Connected, String> {
    match (name, &from.home) {
        (Some(name), _) => contexts::connect(from.kubeconfig.as_deref(), name).await,
        (None, Some((home, _))) => contexts::answers(home.clone(), "the cluster of the start").await,
        (None, None) => Err("the cluster of the start is not known".to_owned()),
    }
}

/// Whom it is asked as, for other programs: never anybody else's name.
async fn identity(from: Elsewhere, name: Option<String>) -> Identity {
    let path = match (&name, &from.home) {
        (None, Some((_, Some(own)))) => Some(own.clone()),
        _ => from.kubeconfig.clone(),
    };
    let known = Identity { context: name.clone().unwrap_or_default(), ..Identity::default() };
    let read = tokio::task::spawn_blocking(move || contexts::identity(path.as_deref(), name.as_deref()));
    read.await.unwrap_or(known)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use k8s_openapi::api::core::v1::Pod;
    use kube::client::Body;

    use super::*;
    use crate::action::{Action, Mutation};
    use crate::builtin;
    use crate::effect::{Effect, Task};
    use crate::resource::ObjectRef;

    const ID: ClusterId = ClusterId::joined(1);

    fn connected() -> Connected {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            let body = Body::from(br#"{"kind": "Status", "status": "Success"}"#.to_vec());
            Ok::<_, Infallible>(http::Response::new(body))
        });
        let client = Client::new(service, "default");
        Connected { name: Some("prod".to_owned()), origin: "prod:6443".to_owned(), namespace: None, client }
    }

    fn delete() -> Job {
        let pod = builtin::kind::<Pod>();
        let target = ObjectRef { kind: pod, namespace: Some("a".into()), name: "web".into(), uid: None };
        Job::Act(Box::new(Action {
            title: "delete".to_owned(),
            mutation: Mutation::delete(&target),
            target,
            kubectl: "kubectl delete pod web".to_owned(),
            inverse: None,
            undoes: None,
            quiet: false,
        }))
    }

    fn task() -> Task {
        let effect = Effect::task("t", |out| async move { out.data("done").await });
        let Effect::Task(task) = effect else { unreachable!("it is one") };
        task
    }

    /// The next outcome or datum of the cluster, in words.
    async fn next(inbox: &mut mpsc::Receiver<Message>) -> String {
        loop {
            let Some(Message::On(ID, message)) = inbox.recv().await else { panic!("of another cluster") };
            match *message {
                Message::Acted(outcome) => return outcome.error.unwrap_or_else(|| "acted".to_owned()),
                Message::Data(_, data) => return data.take::<&str>().expect("ours").to_owned(),
                _ => {}
            }
        }
    }

    #[tokio::test]
    async fn a_change_is_never_asked_of_a_cluster_later_than_it_was_meant_con_16() {
        let (messages, mut inbox) = mpsc::channel(64);
        let from = Elsewhere::default();
        let mut joined = Joined::new(from.clone(), messages.clone(), Clock::machine());
        joined.job(ID, delete());
        assert_eq!(next(&mut inbox).await, "nothing was asked: that cluster has not answered yet");
        // What only looks waits until it answers, and goes with whoever has left.
        joined.job(ID, Job::Start(task()));
        joined.job(ID, Job::Attach(Box::new(connected())));
        assert_eq!(next(&mut inbox).await, "done");
        joined.job(ID, delete());
        assert_eq!(next(&mut inbox).await, "acted");
        // A change on its way is not lost when nobody looks at the cluster any more.
        joined.job(ID, delete());
        joined.job(ID, Job::Rest);
        joined.job(ID, Job::Attach(Box::new(connected())));
        assert_eq!(next(&mut inbox).await, "acted");
        joined.job(ID, delete());
        joined.settle().await;
        assert_eq!(next(&mut inbox).await, "acted", "what is settled has been told");
        // Where changes are refused, that cluster's client refuses them as well.
        let from = Elsewhere { read_only: true, ..from };
        let mut joined = Joined::new(from, messages, Clock::machine());
        joined.job(ID, Job::Attach(Box::new(connected())));
        joined.job(ID, delete());
        assert_eq!(next(&mut inbox).await, "read-only: nothing was changed");
    }

    #[tokio::test]
    async fn a_context_that_is_not_there_is_told_and_asked_again_con_18() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, "apiVersion: v1\nkind: Config\n").unwrap();
        let (messages, mut inbox) = mpsc::channel(64);
        let from = Elsewhere { kubeconfig: Some(path), ..Elsewhere::default() };
        let mut joined = Joined::new(from, messages, Clock::machine());
        joined.job(ID, Job::Join(Some("qa".to_owned())));
        for _ in 0..2 {
            let Some(Message::On(ID, message)) = inbox.recv().await else { panic!("of another cluster") };
            let Message::Unreachable { why, .. } = *message else { panic!("{message:?}") };
            assert_eq!(why, "the kubeconfig has no context \"qa\"");
            // Nobody waits for the next try who does not want to.
            joined.retry();
        }
        joined.job(ID, Job::Rest);
        joined.job(ID, Job::Join(None));
        let Some(Message::On(_, message)) = inbox.recv().await else { panic!("nothing") };
        assert!(matches!(*message, Message::Unreachable { .. }), "{message:?}");
    }
}
