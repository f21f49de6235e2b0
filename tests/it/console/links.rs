//! The console while the server does not answer, or refuses (CON-18).

use std::process::Command;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use podium::base::clock::Clock;
use podium::console_data::builtin_kinds;
use podium::console_data::feed::{Feed, retry_policy};
use podium::console_data::links::{Link, UnavailableReason};
use podium::console_data::message::Message;
use podium::console_data::resource::ResourceKey;
use podium::console_data::store::{Change, Delta};
use serde_json::json;
use tokio::sync::mpsc;

use super::test_console::{TestConsole, cluster, objects};
use super::{acted, shows};
use crate::instance::{DataDir, WAIT_TIMEOUT};
use crate::needs::needs;

const WHY: &str = "no answer from the server: connection refused";

fn down(stage: &mut TestConsole, resource: ResourceKey, wait: i64) {
    let retry_at = stage.now + SignedDuration::from_secs(wait);
    stage.send(Message::Link(Link::Down { resource, reason: WHY.to_owned(), retry_at }));
}

fn pass(stage: &mut TestConsole, seconds: i64) {
    stage.now += SignedDuration::from_secs(seconds);
    stage.send(Message::Tick);
}

/// A user does not mistake twelve seconds old rows for current ones.
#[test]
fn while_the_server_is_silent_the_screen_says_so_and_nothing_goes_on_con_18() {
    for (width, height) in [(120, 36), (80, 24)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        stage.press("p");
        let before = stage.screen();
        for resource in builtin_kinds::resources() {
            down(&mut stage, resource, 1);
        }
        assert_eq!(stage.screen(), before, "a short interruption is not shown");
        let wake = stage.model.shared.wake.get().expect("it is shown when it is more");
        assert_eq!(wake.duration_since(stage.now), SignedDuration::from_secs(1));
        pass(&mut stage, 12);
        for resource in builtin_kinds::resources() {
            down(&mut stage, resource, 4);
        }
        let screen = stage.screen();
        shows(&screen, &["✖ no answer for 12s, trying again in 4 s, ctrl-r now · "]);
        let banner = screen.lines().nth(1).expect("a banner under the header");
        assert!(banner.contains("is the server running?"), "what to do: {banner}");
        assert_eq!(banner.contains("connection refused: "), width == 120, "{banner}");
        let ages = |screen: &str| {
            screen.lines().filter(|line| line.contains(" Running ")).map(str::to_owned).collect::<Vec<_>>()
        };
        // The banner takes a line from the end of the table.
        let (still, was) = (ages(&screen), ages(&before));
        assert!(!still.is_empty() && was.starts_with(&still), "no age goes on: {screen}");
        assert!(stage.is_dim("Running"), "{screen}");
        pass(&mut stage, 4);
        shows(&stage.screen(), &["✖ no answer for 16s, trying again, ctrl-r now"]);
        // Kinds with responses again are live again.
        for resource in builtin_kinds::resources() {
            stage.send(Message::Link(Link::Up(resource)));
        }
        let screen = stage.screen();
        assert!(!screen.contains("no answer") && !stage.is_dim("Running"), "{screen}");
        assert_ne!(ages(&screen), ages(&before), "time goes on");
    }
}

/// One kind without a response does not make the others stale.
#[test]
fn one_kind_without_an_answer_is_named_and_the_others_stay_live_con_18() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.press("p");
    down(&mut stage, ResourceKey::of::<Service>(), 30);
    pass(&mut stage, 5);
    shows(&stage.screen(), &["✖ services: no answer for 5s, trying again in 25 s, ctrl-r now · "]);
    assert!(!stage.is_dim("Running"));
    stage.press("~ s");
    assert!(stage.is_dim("Services"));
    // Data counts as a response, even without a message about the connection.
    stage.feed(vec![Delta::of::<Service>(vec![Change::Reset(objects([]))])]);
    assert!(!stage.screen().contains("no answer"));
}

/// A missing permission is shown in the place of the rows, and in no other.
#[test]
fn a_forbidden_kind_is_reported_once_in_place_of_its_rows_con_18() {
    let mut stage = TestConsole::new(120, 36);
    let hidden = [ResourceKey::of::<Node>(), ResourceKey::of::<Namespace>()];
    let all = cluster().into_iter().filter(|delta| !hidden.contains(&delta.resource));
    stage.feed(all.collect());
    shows(&stage.screen(), &["connecting…", "waiting for the first list…"]);
    for resource in [ResourceKey::of::<Node>(), ResourceKey::of::<Namespace>()] {
        let why = format!("{} is forbidden: User \"dev\" cannot list", resource.plural);
        stage.send(Message::Link(Link::Refused(resource, UnavailableReason::NotAllowed(why))));
    }
    let screen = stage.screen();
    shows(&screen, &["nodes not allowed 10 pods ● 5", "│ not allowed"]);
    for word in ["connecting", "waiting for the first", "✖ nodes", "forbidden", "no answer"] {
        assert!(!screen.contains(word), "{word} is in\n{screen}");
    }
    stage.press("n");
    shows(&stage.screen(), &["not allowed", "not allowed: nodes is forbidden: User \"dev\" cannot list"]);
    stage.press("~ : \"ns\" enter");
    shows(&stage.screen(), &["not allowed: namespaces is forbidden"]);
    assert!(acted(&stage.press("ctrl-d")).is_empty());
    // The list is allowed after all: the rows come, and the screen is as usual.
    stage.feed(cluster());
    stage.press("~");
    shows(&stage.screen(), &["3 nodes ● 2 ✖ 1"]);
    // A kind that the server does not have is not reported as a missing permission.
    stage.send(Message::Link(Link::Refused(
        ResourceKey::of::<PodDisruptionBudget>(),
        UnavailableReason::Absent,
    )));
    stage.press(": \"pdb\" enter");
    shows(&stage.screen(), &["not on this server"]);
}

/// Processes messages until the screen is as expected.
async fn until(
    stage: &mut TestConsole,
    clock: &Clock,
    inbox: &mut mpsc::Receiver<Message>,
    what: &str,
    is_expected: impl Fn(&str) -> bool,
) {
    let look = async {
        loop {
            stage.now = clock.now();
            if is_expected(&stage.screen()) {
                return;
            }
            tokio::select! {
                message = inbox.recv() => drop(stage.send(message.expect("the feed goes on"))),
                () = clock.sleep(Duration::from_millis(100)) => drop(stage.send(Message::Tick)),
            }
        }
    };
    let seen = tokio::time::timeout(WAIT_TIMEOUT, look).await;
    assert!(seen.is_ok(), "waited in vain: {what}\n{}", stage.screen());
}

/// The server is killed and comes back on the same port; nothing changes in the cluster, and the banner disappears
/// nevertheless (CON-18).
#[tokio::test(flavor = "multi_thread")]
async fn the_banner_appears_when_the_server_goes_away_and_disappears_when_it_returns_con_18() {
    needs!(Kubectl);
    let home = DataDir::new();
    let server = home.start(&["--nodes", "0", "--hollow-nodes", "1"]);
    let address = server.ready_line.split("https://").nth(1).and_then(|rest| rest.split_whitespace().next());
    let address = address.expect("an address").to_owned();
    let (sender, mut inbox) = mpsc::channel(1024);
    let clock = Clock::machine();
    let mut stage = TestConsole::new(120, 36);
    let client = server.impatient_client().await;
    let mut feed = Feed::start(&client, "default", &sender, &clock, retry_policy(&address));
    until(&mut stage, &clock, &mut inbox, "the first lists", |screen| screen.contains("1 node ● 1")).await;

    server.crash();
    until(&mut stage, &clock, &mut inbox, "the banner", |screen| screen.contains("✖ no answer for")).await;

    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command
        .args(["serve", "--listen", &address, "--nodes", "0", "--hollow-nodes", "1", "--data-dir"])
        .arg(home.data_dir());
    let server = DataDir::start_command(&mut command, &home.data_dir().join("kubeconfig"));
    feed.retry();
    until(&mut stage, &clock, &mut inbox, "the banner to go", |screen| !screen.contains("no answer")).await;
    assert!(
        builtin_kinds::resources().iter().all(|resource| stage
            .model
            .shared
            .cluster
            .links
            .down(resource)
            .is_none())
    );
    let created = server.kubectl(&["create", "namespace", "after"]);
    assert!(created.contains("created"), "{}", json!(created));
    until(&mut stage, &clock, &mut inbox, "news", |_| true).await;
    stage.press(": \"ns\" enter");
    until(&mut stage, &clock, &mut inbox, "the new namespace", |screen| screen.contains("after")).await;
    server.stop();
}
