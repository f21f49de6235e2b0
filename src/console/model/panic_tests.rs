//! A view that panics is closed; the console continues (CON-1).

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::tabs_tests::setup;
use super::*;
use crate::view;
use console_data::message::Message;
use console_screens::faulty_screen::{FaultyScreen, PanicPoint};
use console_toolkit::keys::Key;
use console_toolkit::theme::depth::Depth;

fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

struct TestConsole {
    model: Model,
    terminal: Terminal<TestBackend>,
}

impl TestConsole {
    fn new() -> Self {
        let (model, _) = Model::new(setup(Depth::True), now());
        Self { model, terminal: Terminal::new(TestBackend::new(80, 24)).unwrap() }
    }

    fn press(&mut self, key: &str) -> Vec<Job> {
        self.model.update(Message::Key(Key::parse(key).unwrap().event()), now())
    }

    fn screen(&mut self) -> String {
        self.terminal.draw(|frame| view::draw(&self.model, now(), frame)).unwrap();
        self.terminal.backend().to_string()
    }
}

#[test]
fn a_view_that_cannot_be_drawn_says_so_and_the_others_go_on_con_1() {
    let mut stage = TestConsole::new();
    stage.model.open(FaultyScreen(PanicPoint::Drawing).into(), now());
    for _ in 0..2 {
        let screen = stage.screen();
        assert!(screen.contains("this view cannot be drawn") && screen.contains("no column 9"), "{screen}");
        assert!(screen.contains("podium ▸"), "the rest is there\n{screen}");
    }
    stage.press("j");
    assert!(stage.screen().contains("this view cannot be drawn"));
    stage.press("esc");
    let screen = stage.screen();
    assert!(screen.contains("Deployments") && !screen.contains("cannot be drawn"), "{screen}");
}

#[test]
fn a_panicking_view_is_closed_and_a_root_view_is_replaced_con_1() {
    let mut stage = TestConsole::new();
    stage.model.open(FaultyScreen(PanicPoint::Updating).into(), now());
    let id = stage.model.top().0;
    let jobs = stage.press("j");
    assert!(jobs.iter().any(|job| matches!(job, Job::Close(closed) if *closed == id)), "{jobs:?}");
    let screen = stage.screen();
    assert!(screen.contains("a view failed and was closed") && screen.contains("Deployments"), "{screen}");
    // The only view on the stack is replaced.
    stage.model.screens =
        vec![(ScreenId::new(7, ClusterId::HOME), FaultyScreen(PanicPoint::Updating).into())];
    stage.press("j");
    assert!(matches!(&stage.model.screens[..], [(_, Screen::Overview(_))]));
    assert!(stage.screen().contains("Deployments"));
}
