//! The describe screen. Belongs to helper `parts`.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::console::command::Where;
use crate::console::context::Context;
use crate::console::effect::Effect;
use crate::console::message::ScreenMessage;
use crate::console::resource::ObjectRef;

/// What its tasks send it.
#[derive(Debug)]
pub enum Loaded {}

/// The screen.
#[derive(Debug)]
pub struct Describe {
    target: ObjectRef,
}

impl Describe {
    /// Of this object.
    pub fn new(target: ObjectRef) -> Self {
        Self { target }
    }
}

impl View for Describe {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · describe", self.target.name)
    }
    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Describe, Where::Text, Where::List]
    }
    fn update(&mut self, _cx: &Context<'_>, _message: ScreenMessage) -> Vec<Effect> {
        Vec::new()
    }
    fn view(&self, _cx: &Context<'_>, _frame: &mut Frame<'_>, _area: Rect) {}
}
