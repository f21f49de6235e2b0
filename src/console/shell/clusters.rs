//! Switches between clusters: lists contexts, connects to a cluster, and leaves the present one without losing changes
//! in progress.

use std::time::Duration;

use base::task::JoinSet;
use tokio::sync::mpsc;

use super::Shell;
use crate::disk_writer::DiskWriter;
use crate::joined_clusters::{ClusterSources, JoinedClusters};
use crate::model::{Model, Setup};
use crate::reload;
use console_data::context::ScreenId;
use console_data::contexts::{self, ConnectedCluster};
use console_data::extensions::Sources;
use console_data::feed::{self, Feed};
use console_data::message::{Data, Message};
use console_data::read_only;
use console_data::scope::Scope;
use console_operations::effect::Runner;
use console_screens::contexts::ContextsData;
use console_toolkit::toast::Toast;

/// The maximum time to wait for changes in progress before a switch.
const LAST_ACTIONS: Duration = Duration::from_secs(5);

impl Shell {
    /// Reads the contexts for a screen.
    pub(super) fn list_contexts(&mut self, screen: ScreenId) {
        while self.connecting.try_join_next().is_some() {}
        let (path, messages) = (self.kubeconfig.clone(), self.messages.clone());
        self.connecting.spawn(async move {
            let listed = base::task::blocking(move || contexts::list(path.as_deref())).await;
            let listed = listed.unwrap_or_else(|_| Err("cannot read the kubeconfig".to_owned()));
            let data = Data::new(ContextsData(listed));
            // The loop may have ended.
            let _ = messages.send(Message::Data(screen, data)).await;
        });
    }

    /// Connects to the cluster of a context; when it answers, the console switches to it.
    pub(super) fn connect(&mut self, name: String) {
        // An earlier attempt is abandoned.
        self.connecting = JoinSet::new();
        let (path, messages) = (self.kubeconfig.clone(), self.messages.clone());
        let recorder = self.recorder.clone();
        if let Some(recorder) = &recorder {
            recorder.record_context_switch(&name);
        }
        self.connecting.spawn(async move {
            let message = match contexts::connect(path.as_deref(), &name).await {
                Ok(connected) => Message::Connected(Box::new(connected)),
                Err(why) => {
                    if let Some(recorder) = &recorder {
                        recorder.record_failed_switch(&why);
                    }
                    Message::Toast(Toast::failed(why))
                }
            };
            let _ = messages.send(message).await;
        });
    }

    /// Waits for changes in progress and for the removal of everything created for screens, up to a maximum time.
    /// Afterwards the journal has their results.
    pub(super) async fn shut_down(&mut self) -> anyhow::Result<()> {
        self.runner.end_tasks();
        let none = self.none_joined();
        let joined = std::mem::replace(&mut self.joined, none).shut_down();
        tokio::pin!(joined);
        let (mut settled, mut joined_ended) = (false, false);
        let deadline = tokio::time::sleep(LAST_ACTIONS);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                () = &mut deadline => break,
                Some(message) = self.inbox.recv() => {
                    // It ends already.
                    let _ = Box::pin(self.message(message)).await?;
                }
                ended = self.runner.next_action(), if !settled => settled = ended.is_none(),
                () = &mut joined, if !joined_ended => joined_ended = true,
                () = std::future::ready(()), if settled && joined_ended => break,
            }
        }
        while let Ok(message) = self.inbox.try_recv() {
            let _ = Box::pin(self.message(message)).await?;
        }
        Ok(())
    }

    /// Switches to another cluster. Work on the present one ends, except for changes in progress: their results go to
    /// the journal of the present cluster.
    pub(super) async fn adopt(&mut self, connected: ConnectedCluster) -> anyhow::Result<()> {
        self.feed = None;
        self.keep_tabs();
        self.shut_down().await?;
        if let Some(writer) = self.disk_writer.take() {
            writer.end().await;
        }
        // Late messages of the old clusters' tasks are dropped.
        let (messages, inbox) = mpsc::channel(1024);
        (self.messages, self.inbox) = (messages, inbox);
        self.joined = self.none_joined();
        let ConnectedCluster { name, origin, namespace, client } = connected;
        let client = match &name {
            Some(_) if self.model.setup.read_only => read_only::client(client),
            _ => client,
        };
        self.runner = Runner::new(client.clone(), self.messages.clone()).diagnosing(self.diagnose.clone());
        let home = self.model.setup.home.clone();
        let forks = self.forks.clone().filter(|_| name.is_none());
        let project = self.project.clone().filter(|_| name.is_none());
        let setup = Setup {
            cluster: name.clone().unwrap_or(home.0),
            origin: origin.clone(),
            context: name,
            forks,
            project,
            scope: namespace.clone().map_or(Scope::All, Scope::One),
            // The warning before leaving stays the same: it is about the first cluster, which alone ends with the
            // console.
            ..self.model.setup.clone()
        };
        let now = self.clock.now();
        let text = format!("switched to {}", setup.cluster);
        let (mut model, jobs) = Model::new(setup, now);
        model.shared.theme = self.model.shared.theme.clone();
        model.shared.extensions = self.model.shared.extensions.clone();
        model.stopping = self.model.stopping.take();
        self.model = model;
        self.disk_writer =
            self.model.setup.config_dir.clone().map(|dir| DiskWriter::start(dir, self.messages.clone()));
        self.stale = true;
        self.follow_extensions(self.sources.clone());
        // A new model does not quit.
        let _ = Box::pin(self.work(jobs)).await?;
        let fallback = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let policy = feed::retry_policy(&origin);
        self.feed = Some(Feed::start(&client, &fallback, &self.messages, &self.clock, policy));
        self.model.update(Message::Toast(Toast::done(text)), now);
        Ok(())
    }

    /// Creates an empty set of joined clusters.
    fn none_joined(&self) -> JoinedClusters {
        let from = ClusterSources {
            kubeconfig: self.kubeconfig.clone(),
            home: Some((self.home.clone(), self.own_kubeconfig.clone())),
            read_only: self.model.setup.read_only,
        };
        JoinedClusters::new(from, self.messages.clone(), self.clock.clone())
    }

    /// Reads the contexts for completion.
    pub(super) fn read_contexts(&mut self) {
        while self.following.try_join_next().is_some() {}
        let (path, messages) = (self.kubeconfig.clone(), self.messages.clone());
        self.following.spawn(async move {
            let listed = base::task::blocking(move || contexts::list(path.as_deref())).await;
            let listed = listed.unwrap_or_else(|_| Err("cannot read the kubeconfig".to_owned()));
            // The loop may have ended.
            let _ = messages.send(Message::Contexts(listed)).await;
        });
    }

    /// Reloads the extension files whenever they change.
    pub(super) fn follow_extensions(&mut self, sources: Sources) {
        self.following = JoinSet::new();
        self.following.spawn(reload::follow(sources.clone(), self.clock.clone(), self.messages.clone()));
        self.sources = sources;
        self.read_contexts();
        // Also reads the identity for other programs, in the background, because the file may be slow to read.
        let context = self.model.setup.context.clone();
        let path =
            self.own_kubeconfig.clone().filter(|_| context.is_none()).or_else(|| self.kubeconfig.clone());
        let messages = self.messages.clone();
        self.following.spawn(async move {
            let found = base::task::blocking(move || contexts::identity(path.as_deref(), context.as_deref()));
            if let Ok(identity) = found.await {
                // The loop may have ended.
                let _ = messages.send(Message::Identity(Box::new(identity))).await;
            }
        });
    }
}
