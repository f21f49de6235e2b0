//! Manifests of the user's disk applied from the console, to a cluster in this process (CON-3, CON-17).

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use podium::console::model::Job;
use podium::console_data::catalogue;
use podium::console_data::message::Message;
use podium::console_operations::effect::Runner;
use podium::testing::Cluster;
use serde_json::json;
use tokio::sync::mpsc;

use super::shows;
use super::test_console::{TestConsole, cluster as shop};

struct ManifestConsole {
    stage: TestConsole,
    cluster: Cluster,
    runner: Runner,
    inbox: mpsc::Receiver<Message>,
    dir: tempfile::TempDir,
}

impl ManifestConsole {
    async fn begin() -> Self {
        let cluster = Cluster::builder().manual_clock().start().await.expect("starts");
        let (sender, inbox) = mpsc::channel(64);
        let runner = Runner::new(cluster.client(), sender);
        let mut stage = TestConsole::new(100, 30);
        let kinds = catalogue::discover(&cluster.client()).await.expect("discovery");
        stage.send(Message::Catalogue(kinds));
        stage.feed(shop());
        Self { stage, cluster, runner, inbox, dir: tempfile::tempdir().expect("a directory") }
    }

    /// Writes a manifest; its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    fn work(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            match job {
                Job::Start(task) => self.runner.start(task),
                Job::Act(action) => self.runner.act(*action),
                _ => {}
            }
        }
    }

    /// Presses keys and waits until this is on the screen.
    async fn press(&mut self, script: &str, expected: &str) -> String {
        // Earlier toasts have expired, so that an expected one is new.
        self.stage.now += SignedDuration::from_secs(20);
        self.stage.model.toasts.expire(self.stage.now);
        self.stage.send(Message::Tick);
        let jobs = self.stage.press(script);
        self.work(jobs);
        let look = async {
            while !self.stage.screen().contains(expected) {
                let message = self.inbox.recv().await.expect("the runner goes on");
                let jobs = self.stage.send(message);
                self.work(jobs);
            }
        };
        let seen = tokio::time::timeout(Duration::from_mins(1), look).await.is_ok();
        let screen = self.stage.screen();
        assert!(seen, "waited in vain for {expected:?}\n{screen}");
        screen
    }

    async fn value(&self, name: &str) -> Option<String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.cluster.client(), "new");
        let map = maps.get_opt(name).await.expect("it answers")?;
        map.data.and_then(|data| data.get("k").cloned())
    }
}

#[tokio::test]
async fn a_manifest_is_dry_run_confirmed_applied_and_undone_con_17() {
    let mut desk = ManifestConsole::begin().await;
    let path = desk.write(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: new}\ndata: {k: one}\n\
         ---\napiVersion: v1\nkind: Namespace\nmetadata: {name: new}\n",
    );
    let apply = format!(": \"apply_{path}\" enter");
    let screen = desk.press(&apply, "▸ Cancel").await;
    // Objects in a namespace that does not exist yet come after it, and are not refused for that.
    shows(&screen, &["Apply a.yaml", "+ Namespace new is created", "+ ConfigMap new/a is created"]);
    assert_eq!(desk.value("a").await, None, "nothing was done yet");
    desk.press("y", "✔ apply a.yaml: 2 objects").await;
    assert_eq!(desk.value("a").await.as_deref(), Some("one"));

    desk.press(&apply, "all 2 objects are unchanged").await;
    desk.write(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: new}\ndata: {k: two}\n",
    );
    let screen = desk.press(&apply, "▸ Cancel").await;
    shows(&screen, &["~ ConfigMap new/a is changed"]);
    desk.press("y", "✔ apply a.yaml: ConfigMap new/a").await;
    assert_eq!(desk.value("a").await.as_deref(), Some("two"));

    // A value of another field owner is not overwritten without confirmation.
    let maps: Api<ConfigMap> = Api::namespaced(desk.cluster.client(), "new");
    let theirs =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "theirs"}});
    maps.patch("a", &PatchParams::apply("them").force(), &Patch::Apply(theirs)).await.expect("patched");
    let screen = desk.press(&apply, "take over").await;
    shows(&screen, &["⚠ ConfigMap new/a:", "them", "take over [ ] fields that other managers own"]);
    desk.press("y", "nothing left to apply").await;
    assert_eq!(desk.value("a").await.as_deref(), Some("theirs"));
    desk.press("shift-tab shift-tab space tab y", "✔ apply a.yaml").await;
    assert_eq!(desk.value("a").await.as_deref(), Some("two"));

    // An error is reported at its position, and the server's refusal in its own words.
    desk.write("b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndatum: {}\n");
    let refused = format!(": \"apply_{}\" enter", desk.dir.path().join("b.yaml").display());
    desk.press(&refused, "datum").await;

    // Keys: a directory, and the objects that its files name are deleted.
    let dir = format!(": \"dir_{}\" enter", desk.dir.path().display());
    desk.press(&dir, "▸ ../").await;
    desk.press("j ctrl-d", "Delete ConfigMap new/a").await;
    desk.press("y", "✔ delete ConfigMap new/a").await;
    assert_eq!(desk.value("a").await, None);
    desk.press("ctrl-d", "none of its objects exist").await;
    // New objects can be undone from the journal.
    desk.press("a", "+ ConfigMap new/a").await;
    desk.press("y", "✔ apply a.yaml: ConfigMap new/a").await;
    assert_eq!(desk.value("a").await.as_deref(), Some("two"));
    desk.press("U", "Journal").await;
    desk.press("u", "Deletes ConfigMap new/a.").await;
    desk.press("y", "✔ delete a.yaml").await;
    assert_eq!(desk.value("a").await, None);
}
