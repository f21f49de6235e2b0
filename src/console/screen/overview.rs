//! The overview screen.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::console::command::Where;
use crate::console::context::Context;
use crate::console::effect::Effect;
use crate::console::message::ScreenMessage;

/// What its tasks send it.
#[derive(Debug)]
pub enum Loaded {}

/// The screen.
#[derive(Debug, Default)]
pub struct Overview {}

impl View for Overview {
    fn title(&self, _cx: &Context<'_>) -> String {
        "overview".into()
    }
    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Overview, Where::List]
    }
    fn update(&mut self, _cx: &Context<'_>, _message: ScreenMessage) -> Vec<Effect> {
        Vec::new()
    }
    fn view(&self, _cx: &Context<'_>, _frame: &mut Frame<'_>, _area: Rect) {}
}
