//! The queue of input to a session: never blocks, and is bounded by bytes, not by key presses.
//!
//! A terminal without bracketed paste delivers a paste as thousands of key presses at once, faster than any session can
//! send them one by one. They are queued here, and queued bytes are sent together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

/// Size of the pane in character cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaneSize {
    /// The height.
    pub rows: u16,
    /// The width.
    pub columns: u16,
}

/// Input to the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaneInput {
    /// Bytes for the program's standard input.
    Bytes(Vec<u8>),
    /// The pane was resized.
    Resize(PaneSize),
    /// Detach from the container.
    Detach,
}

/// Maximum number of queued bytes for a container that does not read; beyond it, input is refused.
const WAITING: usize = 4 << 20;
/// Maximum number of bytes sent together.
const TOGETHER: usize = 32 << 10;

/// The sending end.
#[derive(Debug, Clone)]
pub(super) struct InputSender {
    input: mpsc::UnboundedSender<PaneInput>,
    waiting: Arc<AtomicUsize>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Inputs {
    typed: mpsc::UnboundedReceiver<PaneInput>,
    waiting: Arc<AtomicUsize>,
    /// Input that followed merged bytes and could not be merged.
    next: Option<PaneInput>,
}

/// Creates both ends.
pub(super) fn inputs() -> (InputSender, Inputs) {
    let (input, typed) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (InputSender { input, waiting: waiting.clone() }, Inputs { typed, waiting, next: None })
}

impl InputSender {
    /// Queues input without waiting; returns false if the session has ended or too much is queued. Refused input is
    /// dropped completely. Resizing and detaching are never refused because of queued bytes.
    pub(super) fn send(&self, input: PaneInput) -> bool {
        let bytes = length(&input);
        let before = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        let sent = (bytes == 0 || before.saturating_add(bytes) <= WAITING) && self.input.send(input).is_ok();
        if !sent {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
        sent
    }
}

impl Inputs {
    /// Returns the next input, with queued bytes merged; `None` once all senders are dropped. Cancel safe.
    pub(super) async fn recv(&mut self) -> Option<PaneInput> {
        let first = if let Some(next) = self.next.take() {
            next
        } else {
            let input = self.typed.recv().await?;
            self.mark_received(input)
        };
        let PaneInput::Bytes(mut bytes) = first else { return Some(first) };
        while bytes.len() < TOGETHER {
            let Ok(input) = self.typed.try_recv() else { break };
            match self.mark_received(input) {
                PaneInput::Bytes(more) => bytes.extend(more),
                other => {
                    self.next = Some(other);
                    break;
                }
            }
        }
        Some(PaneInput::Bytes(bytes))
    }

    fn mark_received(&self, input: PaneInput) -> PaneInput {
        self.waiting.fetch_sub(length(&input), Ordering::Relaxed);
        input
    }
}

fn length(input: &PaneInput) -> usize {
    match input {
        PaneInput::Bytes(bytes) => bytes.len(),
        PaneInput::Resize(_) | PaneInput::Detach => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_paste_that_comes_as_key_presses_arrives_whole_and_in_order_con_16() {
        let (typing, mut inputs) = inputs();
        let text: Vec<u8> = (0..20_000_u32).map(|number| b'a' + (number % 26) as u8).collect();
        let size = PaneInput::Resize(PaneSize { rows: 10, columns: 40 });
        for (at, byte) in text.iter().enumerate() {
            assert!(typing.send(PaneInput::Bytes(vec![*byte])), "byte {at} was refused");
            if at == 9_999 {
                assert!(typing.send(size.clone()));
            }
        }
        drop(typing);
        let mut all = Vec::new();
        while let Some(input) = inputs.recv().await {
            all.push(input);
        }
        assert_eq!(
            all,
            [PaneInput::Bytes(text[..10_000].to_vec()), size, PaneInput::Bytes(text[10_000..].to_vec())]
        );
    }

    #[tokio::test]
    async fn unread_input_is_refused_beyond_a_limit_but_detaching_is_not_con_16() {
        let (typing, mut inputs) = inputs();
        assert!(typing.send(PaneInput::Bytes(vec![b'x'; WAITING])));
        assert!(!typing.send(PaneInput::Bytes(b"y".to_vec())));
        assert!(typing.send(PaneInput::Detach));
        assert!(matches!(inputs.recv().await, Some(PaneInput::Bytes(bytes)) if bytes.len() == WAITING));
        assert!(typing.send(PaneInput::Bytes(b"z".to_vec())), "there is room again");
        assert_eq!(inputs.recv().await, Some(PaneInput::Detach));
        assert_eq!(inputs.recv().await, Some(PaneInput::Bytes(b"z".to_vec())));
        drop(inputs);
        assert!(!typing.send(PaneInput::Detach), "it is over");
    }
}
