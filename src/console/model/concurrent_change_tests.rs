//! Dialogs during concurrent changes: a dialog does not claim that nothing changes if the object was changed meanwhile,
//! and does not revert changes by others; and a dialog longer than the screen can be scrolled to its end (CON-6).

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::tabs_tests::{TestConsole, objects, pod};
use super::*;
use console_data::action::{Action, Mutation};
use console_data::store::{Change, Delta};

fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"replicas": replicas, "selector": {}, "template": {"spec": {"containers": [
            {"name": "nginx", "image": image}, {"name": "side", "image": "busybox"}]}}}})
}

fn feed(stage: &mut TestConsole, all: &[Value]) {
    stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects(all.iter().cloned()))]));
}

fn actions(jobs: Vec<Job>) -> Vec<Action> {
    jobs.into_iter().filter_map(|job| if let Job::Act(action) = job { Some(*action) } else { None }).collect()
}

fn body(action: &Action) -> &Value {
    let Mutation::Patch { body, .. } = &action.mutation else { panic!("{action:?}") };
    body
}

#[test]
fn a_count_changed_by_another_user_needs_confirmation_before_scaling_back_con_6() {
    let mut stage = TestConsole::new(100, 24);
    feed(&mut stage, &[deployment("web", 3, "nginx:1")]);
    stage.press(": \"deploy\" enter s");
    feed(&mut stage, &[deployment("web", 5, "nginx:1")]);
    assert!(stage.screen().contains("⚠ web has 5 now"), "{}", stage.screen());
    assert!(actions(stage.press("enter")).is_empty());
    let screen = stage.screen();
    assert!(screen.contains("web has 5 now, not 3: enter again scales back"), "{screen}");
    let done = actions(stage.press("enter"));
    assert_eq!(done[0].title, "scale Deployment default/web 5 → 3");
    let back = done[0].inverse.as_ref().expect("the way back");
    assert_eq!(body(back), &json!({"spec": {"replicas": 5}}), "to what it was, not to what the dialog had");
    // An object that has the value already needs no change.
    let mut stage = TestConsole::new(100, 24);
    feed(&mut stage, &[deployment("web", 3, "nginx:1")]);
    stage.press(": \"deploy\" enter s ctrl-u 5");
    feed(&mut stage, &[deployment("web", 5, "nginx:1")]);
    assert!(actions(stage.press("enter")).is_empty());
    assert!(stage.screen().contains("nothing to change"), "{}", stage.screen());
}

#[test]
fn of_several_only_what_was_typed_is_scaled_con_6() {
    let mut stage = TestConsole::new(100, 24);
    feed(&mut stage, &[deployment("api", 1, "nginx:1"), deployment("web", 3, "nginx:1")]);
    stage.press(": \"deploy\" enter space down space s ctrl-u 2");
    // Meanwhile an autoscaler changes the other one.
    feed(&mut stage, &[deployment("api", 1, "nginx:1"), deployment("web", 9, "nginx:1")]);
    let titles: Vec<String> =
        actions(stage.press("tab enter")).into_iter().map(|action| action.title).collect();
    assert_eq!(titles, ["scale Deployment default/api 1 → 2"]);
}

#[test]
fn an_image_set_by_another_user_is_not_reverted_unconfirmed_con_6() {
    let mut stage = TestConsole::new(100, 24);
    feed(&mut stage, &[deployment("web", 3, "nginx:1")]);
    stage.press(": \"deploy\" enter i");
    feed(&mut stage, &[deployment("web", 3, "nginx:2")]);
    stage.press("tab");
    let done = actions(stage.press("ctrl-u \"alpine\" enter"));
    let set = &body(&done[0])["spec"]["template"]["spec"]["containers"];
    assert_eq!(set, &json!([{"name": "side", "image": "alpine"}]), "the other container is left alone");
    // Without input the dialog shows the present value, and a second Enter confirms it.
    let mut stage = TestConsole::new(100, 24);
    feed(&mut stage, &[deployment("web", 3, "nginx:1")]);
    stage.press(": \"deploy\" enter i");
    feed(&mut stage, &[deployment("web", 3, "nginx:2")]);
    assert!(actions(stage.press("tab enter")).is_empty());
    let screen = stage.screen();
    assert!(screen.contains("nginx has nginx:2 now: press Enter again to set the image"), "{screen}");
    let done = actions(stage.press("enter"));
    let back = body(done[0].inverse.as_ref().expect("the way back"));
    assert_eq!(back["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:2");
}

#[test]
fn a_question_longer_than_the_screen_is_read_page_by_page_con_6() {
    let mut stage = TestConsole::new(80, 24);
    let pods = (0..40).map(|number| pod("default", &format!("pod-{number:02}")));
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
    stage.press("p");
    for _ in 0..40 {
        stage.press("space j");
    }
    stage.press("home ctrl-d");
    let screen = stage.screen();
    assert!(screen.contains("Delete 40 objects") && screen.contains("pgdn"), "{screen}");
    assert!(!screen.contains("Pod default/pod-39"), "{screen}");
    let mut seen = String::new();
    for _ in 0..6 {
        seen.push_str(&stage.screen());
        stage.press("pagedown");
    }
    for number in 0..40 {
        assert!(seen.contains(&format!("Pod default/pod-{number:02}")), "pod-{number:02} is not in\n{seen}");
    }
    // It stops at its end, from where one page leads back; moving the focus scrolls to it.
    stage.press("pagedown pagedown pagedown");
    let end = stage.screen();
    stage.press("pageup");
    assert_ne!(end, stage.screen());
    stage.press("pageup pageup pageup pageup pageup pageup pageup");
    assert!(stage.screen().contains("Pod default/pod-00"), "{}", stage.screen());
    assert!(actions(stage.press("enter")).is_empty(), "Cancel has the focus all the while");
}
