//! The terminal screen. Belongs to helper `parts`.

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

/// What to open in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A shell in a container.
    Shell,
    /// The container's own process.
    Attach,
    /// A new ephemeral container.
    Debug,
}

/// The screen.
#[derive(Debug)]
pub struct Terminal {
    pod: ObjectRef,
}

impl Terminal {
    /// In this pod; asks which container where there are several.
    pub fn new(pod: ObjectRef, _purpose: Purpose) -> Self {
        Self { pod }
    }
}

impl View for Terminal {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · terminal", self.pod.name)
    }
    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Terminal]
    }
    fn update(&mut self, _cx: &Context<'_>, _message: ScreenMessage) -> Vec<Effect> {
        Vec::new()
    }
    fn view(&self, _cx: &Context<'_>, _frame: &mut Frame<'_>, _area: Rect) {}
    fn takes_all_keys(&self) -> bool {
        true
    }
}
