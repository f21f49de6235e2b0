//! A screen that panics on request, to test that other screens survive.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::command::KeyContext;
use crate::context::Context;
use crate::effect::Effect;
use crate::message::ScreenMessage;

/// The phase in which it panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Drawing,
    Updating,
}

/// A screen that panics.
#[derive(Debug)]
pub struct Faulty(pub(crate) Where);

impl View for Faulty {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Faulty".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::List]
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        let opened = matches!(message, ScreenMessage::Opened);
        assert!(self.0 == Where::Drawing || opened, "no row 7");
        Vec::new()
    }

    fn view(&self, _cx: &Context<'_>, _frame: &mut Frame<'_>, _area: Rect) {
        assert!(self.0 == Where::Updating, "no column 9");
    }
}
