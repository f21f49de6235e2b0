//! The logs screen. Belongs to helper `parts`.

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

/// Which run of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The one now.
    Current,
    /// The one before the last restart.
    Previous,
}

/// The screen.
#[derive(Debug)]
pub struct Logs {
    target: ObjectRef,
}

impl Logs {
    /// Of a pod, or of all pods of a workload.
    pub fn new(target: ObjectRef, _run: Run) -> Self {
        Self { target }
    }
}

impl View for Logs {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · logs", self.target.name)
    }
    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Logs, Where::Text, Where::List]
    }
    fn update(&mut self, _cx: &Context<'_>, _message: ScreenMessage) -> Vec<Effect> {
        Vec::new()
    }
    fn view(&self, _cx: &Context<'_>, _frame: &mut Frame<'_>, _area: Rect) {}
}
