//! A screen that panics on request, to test that other screens survive.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_operations::effect::Effect;
use console_toolkit::command::KeyContext;

/// The phase in which the screen panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicPoint {
    /// The screen panics while it is drawn.
    Drawing,
    /// The screen panics while it gets a message.
    Updating,
}

/// A screen that panics.
#[derive(Debug)]
pub struct FaultyScreen(pub PanicPoint);

impl View for FaultyScreen {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Faulty".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::List]
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        let opened = matches!(message, ScreenMessage::Opened);
        assert!(self.0 == PanicPoint::Drawing || opened, "no row 7");
        Vec::new()
    }

    fn view(&self, _cx: &Context<'_>, _frame: &mut Frame<'_>, _area: Rect) {
        assert!(self.0 == PanicPoint::Updating, "no column 9");
    }
}
