//! Keys of lists without a row: only those that work are offered (CON-3).

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};

use super::tabs_tests::{TestConsole, objects, pod};
use console_data::builtin_kinds::{kind, kinds};
use console_data::catalogue::Catalogue;
use console_data::message::Message;
use console_data::store::{Change, Delta};
use extension::fault::Fault;

/// A console of a cluster without objects.
fn empty() -> TestConsole {
    let mut stage = TestConsole::new(200, 30);
    let kinds = kinds().into_iter().chain([kind::<Fault>()]);
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.collect())), stage.now);
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(Vec::new())]));
    stage.feed(Delta::of::<Deployment>(vec![Change::Reset(Vec::new())]));
    stage.feed(Delta::of::<Event>(vec![Change::Reset(Vec::new())]));
    stage.feed(Delta::of::<Node>(vec![Change::Reset(Vec::new())]));
    stage.feed(Delta::of::<Fault>(vec![Change::Reset(Vec::new())]));
    stage
}

fn footer(stage: &mut TestConsole) -> String {
    stage.screen().lines().last().unwrap_or_default().trim().to_owned()
}

#[test]
fn a_list_without_a_row_offers_only_what_works_con_3() {
    for (view, keys) in [
        ("pods", "<{>past  "),
        ("deployments", "<{>past  "),
        ("nodes", "<a>add  <{>past  "),
        ("faults", "<a>add  <{>past  "),
        ("events", "<p>pause  <ctrl-g>group  <w>warnings  <{>past  "),
        ("pf", ""),
        ("images", "<p>pull  "),
        ("topology", ""),
        ("xray", "<ctrl-z>faults  "),
        ("journal", ""),
        ("drills", ""),
    ] {
        let mut stage = empty();
        stage.press(&format!(": \"{view}\" enter"));
        let filter = if ["pf", "topology", "journal", "drills"].contains(&view) { "" } else { "</>filter  " };
        assert_eq!(
            footer(&mut stage),
            format!("{keys}<:>command  {filter}<?>help"),
            "{view}\n{}",
            stage.screen()
        );
    }
}

#[test]
fn a_key_that_needs_a_row_says_so_con_3() {
    for key in ["d", "y", "l", "ctrl-d", "enter", "space"] {
        let mut stage = empty();
        stage.press(&format!("p {key}"));
        let screen = stage.screen();
        assert!(screen.contains("nothing is selected") && screen.contains("╭ Pods"), "{key}\n{screen}");
    }
}

#[test]
fn a_filter_without_a_match_leaves_the_keys_of_marked_rows_con_3() {
    let mut stage = empty();
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([pod("default", "web")]))]));
    stage.press("p");
    assert!(footer(&mut stage).contains("<d>describe"));
    stage.press("/ \"nothing\" enter");
    assert!(!footer(&mut stage).contains("<d>describe"), "{}", footer(&mut stage));
    stage.press("esc space / \"nothing\" enter");
    assert!(footer(&mut stage).contains("<d>describe"), "{}", stage.screen());
    stage.press("d");
    assert!(stage.screen().contains("web · describe"), "{}", stage.screen());
}

#[test]
fn the_keys_of_a_list_stay_while_it_loads_con_3() {
    let mut stage = TestConsole::without_lists(200, 30, console_toolkit::theme::depth::Depth::True);
    stage.press("p");
    assert!(stage.screen().contains("loading…") && footer(&mut stage).contains("<d>describe"));
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(Vec::new())]));
    assert!(!footer(&mut stage).contains("<d>describe"), "{}", stage.screen());
}

#[test]
fn a_drain_offers_to_stop_only_while_it_runs_con_6() {
    let mut stage = empty();
    let node = serde_json::json!({"metadata": {"name": "node-1", "uid": "node-1"}});
    stage.feed(Delta::of::<Node>(vec![Change::Reset(objects([node]))]));
    stage.press(": \"nodes\" enter r");
    assert_eq!(footer(&mut stage), "<D>drain  <u>uncordon  <space>toggle  <:>command  <?>help");
    stage.press("x");
    assert!(stage.screen().contains("the drain is not running"), "{}", stage.screen());
}
