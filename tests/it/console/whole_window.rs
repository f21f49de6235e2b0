//! The whole window: keys before any data has arrived, windows that are too small, toasts, themes, help, read-only
//! mode.

use podium::console::console_state::ConsoleState;
use podium::console::model::Job;
use podium::console_data::message::Message;
use podium::console_data::scope::Scope;
use podium::console_toolkit::command::{Command, CommandImpact, TABLE};
use podium::console_toolkit::toast::Toast;

use super::test_console::{TestConsole, cluster, now};
use super::{acted, shows};

/// Scripts that lead to each kind of screen.
const SCREENS: &[&str] = &[
    "~", "~ p", "~ d", "~ n", "~ e", "~ s", "~ ?", "~ U", "~ ctrl-a", "~ d y", "~ d d", "~ n d", "~ d R",
    "~ p l", "~ n r", "~ p G W", "~ p enter", "~ e ctrl-g", "~ d W", "~ : \"topology\" enter",
    "~ : \"pf\" enter", "~ : \"xray\" enter", "~ p T", "~ d V",
];

#[test]
fn keys_typed_before_the_first_data_are_not_lost_and_break_nothing_con_1() {
    let mut stage = TestConsole::new(120, 36);
    let jobs = stage.press("p j G ctrl-d enter enter space c 3 0 / \"web\" enter");
    assert!(acted(&jobs).is_empty());
    shows(&stage.screen(), &["Pods all 0 /web", "loading…"]);
    stage.feed(cluster());
    shows(&stage.screen(), &["Pods all 4 of 10 /web", "▸ default web-new-a"]);

    for screen in SCREENS {
        let mut stage = TestConsole::new(80, 24);
        stage.press(screen);
        for entry in TABLE {
            let keys = entry.keys.iter().filter(|_| entry.command != Command::Quit);
            keys.for_each(|key| drop(stage.press(key)));
            stage.press("esc esc");
        }
        stage.feed(cluster());
        stage.screen();
    }
}

#[test]
fn a_window_too_small_says_so_does_nothing_and_recovers_con_1() {
    for script in SCREENS {
        let mut stage = TestConsole::new(120, 36);
        stage.feed(cluster());
        stage.press(script);
        let before = stage.screen();
        stage.resize(39, 9);
        shows(&stage.screen(), &["the terminal is too small", "at least 40×10, now 39×9"]);
        assert_eq!(stage.model.shared.wake.get(), None, "nothing that is not seen wakes the loop");
        let jobs = stage.press("j ctrl-d tab enter : \"ns_all\" enter ctrl-k r enter");
        assert!(jobs.is_empty(), "{jobs:?}");
        stage.send(Message::Paste("rm".into()));
        for (width, height) in [(1, 1), (39, 40), (200, 9), (3, 2)] {
            stage.resize(width, height);
            stage.screen();
        }
        stage.resize(120, 36);
        assert_eq!(stage.screen(), before, "{script}");
    }
    let mut stage = TestConsole::new(30, 8);
    stage.model.setup.quit_warning = "pods end".into();
    stage.screen();
    assert!(stage.press("ctrl-c").is_empty());
    assert!(matches!(&stage.press("ctrl-c")[..], [Job::Quit]));
}

#[test]
fn every_screen_draws_in_every_window_con_1() {
    for script in SCREENS {
        let mut stage = TestConsole::new(120, 36);
        stage.feed(cluster());
        stage.press(script);
        for width in [1, 2, 39, 40, 41, 59, 60, 61, 79, 99, 140] {
            for height in [1, 2, 9, 10, 11, 14, 15, 16, 23, 50] {
                stage.resize(width, height);
                stage.send(Message::Toast(Toast::failed("no\nroom for all of this ".repeat(20))));
                stage.screen();
            }
        }
    }
}

#[test]
fn news_covers_neither_hints_nor_buttons_con_15() {
    let long = "the server said: ".repeat(40);
    for (width, height) in [(80, 24), (120, 36)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        stage.press("p");
        let plain = stage.screen().lines().last().expect("a footer").to_owned();
        stage.press("ctrl-d");
        let dialog = stage.screen();
        let hints = dialog.lines().last().expect("a footer").to_owned();
        let buttons = dialog.lines().find(|line| line.contains("▸ Cancel")).expect("buttons").to_owned();
        stage.send(Message::Toast(Toast::info("a short one")));
        stage.send(Message::Toast(Toast::failed(long.clone())));
        let screen = stage.screen();
        assert_eq!(screen.lines().last(), Some(hints.as_str()));
        assert!(screen.lines().any(|line| line == buttons), "{screen}");
        stage.press("esc");
        let screen = stage.screen();
        let count = screen.matches("the server said:").count() + screen.matches("the server\n").count();
        assert!(count >= 30, "shown whole: {count}\n{screen}");
        assert_eq!(screen.lines().last(), Some(plain.as_str()));
    }
    // A toast is at the top if the last lines hold hints or the newest text, and below the cockpit on a rollout.
    for (script, first, last) in [("p l", 0, 5), ("d R", 6, 8)] {
        let mut stage = TestConsole::new(80, 24);
        stage.feed(cluster());
        stage.press(script);
        let before = stage.screen();
        stage.send(Message::Toast(Toast::info("news")));
        let after = stage.screen();
        let news = after.lines().position(|line| line.contains("· news")).expect("news");
        assert!((first..last).contains(&news), "{script}\n{after}");
        let start = |screen: &str| screen.lines().take(first).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(start(&before), start(&after), "{script}");
        let end = |screen: &str| screen.lines().skip(12).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(end(&before), end(&after), "{script}");
    }
}

#[test]
fn news_leaves_the_options_of_a_drain_free_con_15() {
    for (width, height) in [(80, 24), (120, 36)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        stage.press("n r");
        let before = stage.screen();
        stage.send(Message::Toast(Toast::info("news")));
        let after = stage.screen();
        shows(&after, &["· news"]);
        let options = |screen: &str| {
            let lines: Vec<String> = screen.lines().map(str::to_owned).collect();
            let rule =
                lines.iter().position(|line| line.starts_with("│ ──")).expect("a rule above the options");
            lines[rule..].to_vec()
        };
        assert_eq!(options(&before), options(&after), "{after}");
    }
}

fn remembered(jobs: &[Job]) -> Vec<ConsoleState> {
    let memory = |job: &Job| match job {
        Job::SaveState(memory) => Some(memory.clone()),
        _ => None,
    };
    jobs.iter().filter_map(memory).collect()
}

#[test]
fn a_theme_is_saved_when_chosen_but_not_when_previewed_con_13() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    let chosen = |theme: &str| vec![ConsoleState { theme: Some(theme.into()), theme_over: None }];
    assert_eq!(remembered(&stage.press(": \"theme_nord\" enter")), chosen("nord"));
    assert_eq!(stage.model.shared.theme.name, "nord");
    assert_eq!(remembered(&stage.press("ctrl-y left left esc")), vec![]);
    assert_eq!(stage.model.shared.theme.name, "nord", "the previewed theme is reverted");
    let jobs = stage.press("ctrl-y left enter");
    assert_eq!(remembered(&jobs), chosen(&stage.model.shared.theme.name.clone()));
    stage.press(": \"theme_nrod\" enter");
    shows(&stage.screen(), &["✖ no theme \"nrod\"; did you mean \"nord\"?"]);
}

#[test]
fn the_help_tells_every_key_and_every_word_con_3() {
    for script in SCREENS {
        let mut stage = TestConsole::new(200, 120);
        stage.feed(cluster());
        stage.press(script);
        let contexts = stage.model.key_contexts(now());
        let offered: Vec<_> = TABLE
            .iter()
            .filter(|entry| entry.applies_in(&contexts) && stage.model.offers(entry, now()))
            .collect();
        if *script != "~ ?" {
            stage.press("?");
        }
        let screen = stage.screen();
        for entry in offered {
            assert!(screen.contains(entry.about), "{script}: {} is not in\n{screen}", entry.name);
        }
        shows(&screen, &["After :", ":KIND NAMESPACE"]);
    }
}

#[test]
fn read_only_refuses_every_command_that_changes_the_cluster_con_3() {
    let mut tried = 0;
    for script in SCREENS {
        let there = || {
            let mut stage = TestConsole::with(120, 36, Scope::All, true);
            stage.feed(cluster());
            stage.press(script);
            stage
        };
        let places = there().model.key_contexts(now());
        for entry in TABLE.iter().filter(|entry| entry.impact == CommandImpact::Cluster) {
            if !places.contains(&entry.context) {
                continue;
            }
            let mut stage = there();
            tried += 1;
            for key in entry.keys {
                let jobs = stage.press(key);
                assert!(jobs.is_empty() && stage.model.dialog.is_none(), "{script}: {} {jobs:?}", entry.name);
            }
            let name = entry.name.replace(' ', "_");
            let jobs = stage.press(&format!(": \"{name}\" enter esc esc"));
            assert!(acted(&jobs).is_empty() && stage.model.dialog.is_none(), "{script}: :{name}");
        }
    }
    assert!(tried > 15, "{tried}");
}

#[test]
fn walking_between_views_does_not_pile_them_up_con_3() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.press(": \"nodes\" enter : \"po\" enter : \"events\" enter");
    for (key, title) in
        [("[", "Pods"), ("[", "Nodes"), ("]", "Pods"), ("-", "Nodes"), ("-", "Pods"), ("-", "Nodes")]
    {
        stage.press(key);
        shows(&stage.screen(), &[&format!(" podium ▸ Overview ▸ {title} ")]);
        assert_eq!(stage.model.screens.len(), 2);
    }
    stage.press(": \"wobble_x\"");
    assert!(!stage.screen().contains("wobble x k"), "no namespaces are offered for what is no kind");
    stage.press("esc");
    stage.send(Message::Key(podium::console_toolkit::keys::Key::parse(":").expect("a key").event()));
    stage.send(Message::Paste("po\u{1b}[31m\r\nsh\u{7}op\u{202e}".repeat(50)));
    let screen = stage.screen();
    assert!(!screen.chars().any(|c| c.is_control() && c != '\n') && !screen.contains('\u{202e}'), "{screen}");
}

/// Checks that the current row or object is visible, and no line is wider than the window.
fn assert_usable(stage: &mut TestConsole, expected: &[&str]) {
    let screen = stage.screen();
    for want in expected {
        assert!(screen.contains(want), "{want:?} is not in\n{screen}");
    }
}

/// A split of half a window is normal.
#[test]
fn every_screen_is_usable_in_a_small_window_con_20() {
    let mut wrong = Vec::new();
    for (width, height) in [(40, 10), (60, 15)] {
        for (script, expected) in [
            ("~", &["Pods", "Deployments", "cart", "web"][..]),
            ("~ tab", &["Nodes", "node-1"]),
            ("~ tab tab", &["Events"]),
            ("~ p", &["Pods", "NAME", "▸ ", "STATUS"]),
            ("~ p G", &["▸ ", "waiting"]),
            ("~ d", &["▸ ", "api", "READY"]),
            ("~ n", &["▸ node-1"]),
            ("~ e", &["▸ ", "ScalingRe"]),
            ("~ p enter", &["Containers", "▸ "]),
            ("~ p d", &["describe"]),
            ("~ d \"/web\" enter R", &["Deployment web", "new web-new", "Revisions", "▸   "]),
            ("~ n r", &["Drain node-1", "evict", "grace: pod's own"]),
            ("~ d j W", &["why not ready", "cart"]),
            ("~ p G W", &["why pending"]),
            ("~ d T", &["Timeline", "▸ "]),
            ("~ : \"topology\" enter", &["node-1"]),
            ("~ : \"xray\" enter", &["▸ ", "api"]),
            ("~ ?", &["Keys", "enter  Open or pick"]),
            ("~ ctrl-a", &["pods"]),
        ] {
            let mut stage = TestConsole::new(width, height);
            stage.feed(cluster());
            stage.press(script);
            let screen = stage.screen();
            let missing: Vec<_> = expected.iter().filter(|want| !screen.contains(**want)).collect();
            // The key for help and the current position are there, too.
            let last = screen.lines().last().unwrap_or_default();
            let first = screen.lines().next().unwrap_or_default();
            let has_edges = first.contains("podium ▸") && (last.contains("<?>") || last.contains("<:>"));
            if !missing.is_empty() || !has_edges {
                wrong.push(format!("{script} at {width}×{height} lacks {missing:?}\n{screen}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The titles and hints in frames end before the corner, with whole parts.
#[test]
fn no_frame_cuts_its_title_con_20() {
    let mut wrong = Vec::new();
    for (width, height) in [(80, 24), (60, 15), (40, 10)] {
        for script in SCREENS {
            let mut stage = TestConsole::new(width, height);
            stage.feed(cluster());
            stage.press(script);
            let screen = stage.screen();
            let cut = screen.lines().find(|line| {
                let letters: Vec<char> = line.chars().collect();
                letters.windows(2).any(|pair| matches!(pair[1], '╮' | '╯') && !matches!(pair[0], '─' | ' '))
            });
            wrong.extend(cut.map(|line| format!("{script} at {width}×{height}: {line}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_dialog_is_readable_and_usable_in_a_small_window_con_20() {
    let mut stage = TestConsole::new(40, 10);
    stage.feed(cluster());
    stage.press("d s");
    // The field with the focus is in sight.
    assert_usable(&mut stage, &["Scale", "▸ ", "Cancel"]);
    assert_eq!(acted(&stage.press("9 enter")), ["kubectl scale deployment/api -n default --replicas=9"]);
    // The number of hidden lines is shown, and they can be read while the focus is on the buttons.
    stage.press("ctrl-d");
    let before = stage.screen();
    assert!(before.contains("more") && before.contains("▸ Cancel"), "{before}");
    stage.press("right");
    let after = stage.screen();
    assert!(after.contains("▸ Delete") && before != after, "{after}");
}
