//! Saved files from the user's point of view: the list, a file as text, the editor on it, its removal (CON-3).

use std::path::Path;

use kube::Client;
use kube::client::Body;
use tokio::sync::mpsc;

use super::tabs_tests::TestConsole;
use super::*;
use console_data::message::Message;
use console_data::message::{Data, FileEdited};
use console_data::screen_dumps;
use console_operations::effect::Runner;
use console_toolkit::theme::depth::Depth;

/// A console with a configuration directory that runs its tasks.
struct DumpsConsole {
    stage: TestConsole,
    runner: Runner,
    messages: mpsc::Receiver<Message>,
}

impl DumpsConsole {
    fn new(config_dir: &Path) -> Self {
        let setup =
            Setup { config_dir: Some(config_dir.to_owned()), ..super::tabs_tests::setup(Depth::True) };
        let (model, _) = Model::new(setup, "2026-05-01T12:00:00Z".parse().unwrap());
        let service = tower::service_fn(|_: http::Request<Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::empty()))
        });
        let (sender, messages) = mpsc::channel(16);
        let runner = Runner::new(Client::new(service, "default"), sender);
        Self { stage: TestConsole::of(model, 110, 24), runner, messages }
    }

    /// Presses keys, and waits for the results of their tasks; returns the other jobs.
    async fn press(&mut self, script: &str) -> Vec<Job> {
        let jobs = self.stage.press(script);
        self.work(jobs).await
    }

    async fn work(&mut self, jobs: Vec<Job>) -> Vec<Job> {
        let (mut left, mut todo) = (Vec::new(), jobs);
        while !todo.is_empty() {
            let mut next = Vec::new();
            for job in todo {
                match job {
                    Job::Start(task) => {
                        self.runner.start(task);
                        let message = self.messages.recv().await.expect("a message of the task");
                        next.extend(self.stage.model.update(message, self.stage.now));
                    }
                    job => left.push(job),
                }
            }
            todo = next;
        }
        left
    }

    fn shows(&mut self, expected: &[&str]) {
        let screen = self.stage.screen();
        for want in expected {
            assert!(screen.contains(want), "no {want:?} in\n{screen}");
        }
    }
}

fn write(dir: &Path, name: &str, text: &str, minute: i64) {
    let at = jiff::Timestamp::from_second(1_777_600_000 + 60 * minute).unwrap();
    std::fs::write(dir.join(name), text).unwrap();
    let file = std::fs::File::options().write(true).open(dir.join(name)).unwrap();
    file.set_modified(at.into()).unwrap();
}

#[tokio::test]
async fn saved_files_are_listed_read_edited_and_removed_con_3() {
    let config = tempfile::tempdir().unwrap();
    let mut desk = DumpsConsole::new(config.path());
    desk.press(": \"sd\" enter").await;
    desk.shows(&["Screen dumps", "nothing is saved yet: ctrl-s saves a table, a text or a log"]);
    // Files saved by another run appear when the list is opened.
    let dir = screen_dumps::directory(config.path());
    screen_dumps::make_directory(&dir).await.unwrap();
    write(&dir, "pods.csv", "NAME,READY\nweb,1/1\nerror\u{1b}[2J,0/1\n", 5);
    write(&dir, "web.log", "", 9);
    write(&dir, "evil\u{1b}]0;x\u{7}\u{202e}", "x", 1);
    desk.press("ctrl-r").await;
    let screen = desk.stage.screen();
    let places: Vec<_> = ["web.log", "pods.csv", "evil␛]0;x␇"].map(|name| screen.find(name)).into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "the newest first\n{screen}");
    assert!(!screen.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{screen:?}");
    desk.shows(&["▸ web.log", "0 B", "2026-05-01 01:55:40Z"]);
    // The content is sanitized text.
    desk.press("j enter").await;
    desk.shows(&["pods.csv", "3 lines", "web,1/1", "error␛[2J,0/1"]);
    desk.press("/ \"ERR\" enter").await;
    desk.shows(&["/ERR 0 of 0"]);
    desk.press("/ ctrl-u \"err\" enter").await;
    desk.shows(&["/err 1 of 1"]);
    let jobs = desk.press("e").await;
    let [Job::EditFile(id, path)] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!(path, &dir.join("pods.csv"));
    // The file is read again after the editor exits.
    std::fs::write(path, "other\n").unwrap();
    let left = Message::Data(*id, Data::new(FileEdited(path.clone())));
    let jobs = desk.stage.model.update(left, desk.stage.now);
    desk.work(jobs).await;
    desk.shows(&["1 lines", "other", "/err 0 of 0"]);
    // A file deleted while it is shown is reported, and its content stays visible.
    std::fs::remove_file(dir.join("pods.csv")).unwrap();
    desk.press("ctrl-r").await;
    desk.shows(&["No such file", "other"]);
    let jobs = desk.stage.press("esc esc");
    desk.work(jobs).await;
    desk.shows(&["Screen dumps", "web.log"]);
    assert!(!desk.stage.screen().contains("pods.csv"));
    // Removal requires confirmation.
    desk.press("g ctrl-d").await;
    desk.shows(&["Remove web.log", "it cannot be restored"]);
    desk.press("enter").await;
    assert!(dir.join("web.log").exists(), "Cancel has the focus");
    desk.press("ctrl-d tab enter").await;
    assert!(!dir.join("web.log").exists());
    desk.shows(&["web.log was removed", "▸ evil"]);
    std::fs::remove_dir_all(&dir).unwrap();
    desk.press("ctrl-r").await;
    desk.shows(&["nothing is saved yet"]);
}

#[tokio::test]
async fn a_manifest_is_edited_in_its_place_and_read_again_con_3() {
    let home = tempfile::tempdir().unwrap();
    let place = std::fs::canonicalize(home.path()).unwrap();
    std::fs::write(place.join("a.yaml"), "x").unwrap();
    std::fs::write(place.join("b.yaml"), "x").unwrap();
    std::fs::create_dir(place.join("old")).unwrap();
    let mut desk = DumpsConsole::new(home.path());
    let typed = place.display().to_string();
    desk.press(&format!(": \"dir\" space \"{typed}\" enter")).await;
    desk.shows(&["▸ ../", "old/", "a.yaml", "b.yaml", "<e>edit"]);
    let jobs = desk.press("j e").await;
    assert!(jobs.is_empty(), "{jobs:?}");
    desk.shows(&["that is a directory: enter opens it"]);
    let jobs = desk.press("G e").await;
    let [Job::EditFile(id, path)] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!(path, &place.join("b.yaml"));
    std::fs::write(path, "y".repeat(2048)).unwrap();
    std::fs::write(place.join("c.yaml"), "x").unwrap();
    let left = Message::Data(*id, Data::new(FileEdited(path.clone())));
    let jobs = desk.stage.model.update(left, desk.stage.now);
    desk.work(jobs).await;
    desk.shows(&["▸ b.yaml", "2 KiB", "c.yaml"]);
    // The editor may have removed or renamed the file.
    std::fs::remove_file(path).unwrap();
    let left = Message::Data(*id, Data::new(FileEdited(path.clone())));
    let jobs = desk.stage.model.update(left, desk.stage.now);
    desk.work(jobs).await;
    let screen = desk.stage.screen();
    assert!(!screen.contains("b.yaml") && screen.contains("c.yaml"), "{screen}");
}
