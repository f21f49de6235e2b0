//! The drain screen. Belongs to helper `parts`.

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
pub struct Drain {
    nodes: Vec<ObjectRef>,
}

impl Drain {
    /// Of these nodes, one after another.
    pub fn new(nodes: Vec<ObjectRef>) -> Self {
        Self { nodes }
    }
}

impl View for Drain {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("drain of {} nodes", self.nodes.len())
    }
    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Drain, Where::List]
    }
    fn update(&mut self, _cx: &Context<'_>, _message: ScreenMessage) -> Vec<Effect> {
        Vec::new()
    }
    fn view(&self, _cx: &Context<'_>, _frame: &mut Frame<'_>, _area: Rect) {}
}
