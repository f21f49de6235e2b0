//! The loop around the model: reads the terminal, runs jobs, and draws after changes.
//!
//! At most sixty frames a second, none while nothing changes; all pending messages are handled before a frame is drawn.

use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyEventKind};
use futures::StreamExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{ExitReason, LoopControl, Shell};
use crate::display::Display;
use crate::job_control::JobSignal;
use crate::model::Job;
use crate::terminal;
use base::clock::if_some;
use console_data::message::Message;
use console_data::project::Project;
use console_toolkit::theme::background;
use console_toolkit::toast::Toast;

const FRAME: Duration = Duration::from_millis(16);
/// The maximum number of messages handled before a frame is due again.
const BURST: usize = 4096;
/// The maximum time for handling messages before the terminal is polled for keys.
const SLICE: Duration = Duration::from_millis(2);

impl Shell {
    pub(super) async fn run(
        &mut self,
        mut progress: Option<mpsc::Receiver<String>>,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<ExitReason> {
        let mut input = EventStream::new();
        // Crossterm 0.29 loses a resize that arrives together with a key.
        let mut resized = signal(SignalKind::window_change())?;
        let mut next_frame = Instant::now();
        let project = self.project.clone();
        loop {
            let wake = self.until_wake();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    return Ok(if self.leaving { ExitReason::Quit } else { ExitReason::Cancelled });
                }
                Some(()) = resized.recv() => {
                    let Ok((columns, rows)) = crossterm::terminal::size() else {
                        return Ok(ExitReason::TerminalLost);
                    };
                    if let LoopControl::Exit = self.input(Event::Resize(columns, rows), &mut input).await? {
                        return Ok(ExitReason::Quit);
                    }
                    next_frame = Instant::now();
                }
                signal = self.job_control.next() => {
                    self.follow_job_control(signal).await?;
                    next_frame = Instant::now();
                }
                event = input.next() => match event {
                    Some(Ok(Event::Resize(..))) => {}
                    Some(Ok(event)) => {
                        if let LoopControl::Exit = self.input(event, &mut input).await? {
                            return Ok(ExitReason::Quit);
                        }
                        // The effect of a key is drawn at once, regardless of the frame rate: users do not type sixty
                        // keys a second.
                        next_frame = Instant::now();
                    }
                    Some(Err(_)) | None => return Ok(ExitReason::TerminalLost),
                },
                // Timers are late while the runtime is busy: a due frame does not wait for its timer.
                () = frame(next_frame), if self.model.dirty => {
                    if self.draw().is_err() {
                        return Ok(ExitReason::TerminalLost);
                    }
                    next_frame = Instant::now() + FRAME;
                }
                () = std::future::ready(()), if self.model.works() && !self.model.dirty => {
                    if let LoopControl::Exit = self.message(Message::Work).await? { return Ok(ExitReason::Quit) }
                }
                Some(message) = self.inbox.recv() => {
                    let mut next = Some(message);
                    let mut left = BURST;
                    let end = next_frame.min(Instant::now() + SLICE);
                    while let Some(message) = next.take() {
                        if let LoopControl::Exit = self.message(message).await? { return Ok(ExitReason::Quit) }
                        left -= 1;
                        // A due frame comes first: a flood of changes must not delay its own display.
                        if left > 0 && Instant::now() < end {
                            next = self.inbox.try_recv().ok();
                        }
                    }
                }
                Some(line) = next_line(&mut progress) => {
                    if let LoopControl::Exit = self.message(Message::Stopping(line)).await? {
                        return Ok(ExitReason::Quit);
                    }
                }
                notice = if_some(project.as_deref().map(Project::next_notice)) => {
                    self.model.dirty = true;
                    if let Some(toast) = notice
                        && let LoopControl::Exit = self.message(Message::Toast(toast)).await?
                    {
                        return Ok(ExitReason::Quit);
                    }
                }
                () = tokio::time::sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() && !self.model.dirty => {
                    self.model.toasts.expire(self.clock.now());
                    if let LoopControl::Exit = self.message(Message::Tick).await? { return Ok(ExitReason::Quit) }
                }
            }
        }
    }

    /// Stops the console if requested, with the terminal restored; takes the terminal over again, and redraws everything.
    async fn follow_job_control(&mut self, signal: JobSignal) -> anyhow::Result<()> {
        match signal {
            JobSignal::Stop => self.guard.lend(self.job_control.stop()).await?,
            JobSignal::Continued => self.guard.lend(std::future::ready(())).await?,
        }
        self.stale = true;
        self.model.dirty = true;
        Ok(())
    }

    fn until_wake(&self) -> Option<Duration> {
        let at = self.model.shared.wake.get()?;
        Some(base::clock::until(self.clock.now(), at) + Duration::from_millis(5))
    }

    async fn input(&mut self, event: Event, input: &mut EventStream) -> anyhow::Result<LoopControl> {
        if let Some(recorder) = &self.recorder {
            recorder.input(&event);
        }
        if let Display::Read(reader, _) = &mut self.display {
            reader.note_user_action();
        }
        let message = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                if let Display::Drawn(drawn) = &mut self.display {
                    drawn.selection = None;
                }
                Message::Key(key)
            }
            Event::FocusLost => {
                self.looked_away = true;
                return Ok(LoopControl::Continue);
            }
            Event::FocusGained => {
                self.looked_away = false;
                self.follow_ground(input).await?;
                return Ok(LoopControl::Continue);
            }
            Event::Mouse(mouse) => {
                if let Display::Drawn(drawn) = &mut self.display {
                    self.model.dirty = true;
                    if drawn.selects(mouse) {
                        return Ok(LoopControl::Continue);
                    }
                    if let Some(text) = drawn.selected(mouse) {
                        self.copy(&text)?;
                    }
                }
                Message::Mouse(mouse)
            }
            Event::Paste(text) => Message::Paste(text),
            Event::Resize(columns, rows) => {
                // Several resizes are merged into one, and the last size may equal the one drawn.
                self.stale = true;
                Message::Resize(columns, rows)
            }
            Event::Key(_) => return Ok(LoopControl::Continue),
        };
        let jobs = self.update(message);
        for job in jobs {
            match job {
                job @ (Job::Editor(..) | Job::EditFile(..)) => {
                    // The stream would consume the editor's keys.
                    *input = EventStream::new();
                    let control = self.job(job).await?;
                    *input = EventStream::new();
                    if let LoopControl::Exit = control {
                        return Ok(LoopControl::Exit);
                    }
                }
                job => {
                    if let LoopControl::Exit = self.job(job).await? {
                        return Ok(LoopControl::Exit);
                    }
                }
            }
        }
        Ok(LoopControl::Continue)
    }

    /// Applies the theme that fits the terminal now, unless the user has selected one.
    async fn follow_ground(&mut self, input: &mut EventStream) -> anyhow::Result<()> {
        self.follows_background &= background::is_fitting(&self.model.shared.theme.name);
        if !self.follows_background {
            return Ok(());
        }
        // The stream would consume the reply.
        *input = EventStream::new();
        let fitting = base::task::blocking(background::fitting).await?;
        *input = EventStream::new();
        if let Some(name) = fitting.filter(|name| *name != self.model.shared.theme.name) {
            self.model.fit_theme(name, self.clock.now());
        }
        Ok(())
    }

    /// Copies the selected text.
    fn copy(&mut self, text: &str) -> std::io::Result<()> {
        terminal::copy(text)?;
        self.model.update(Message::Toast(Toast::copied(text)), self.clock.now());
        Ok(())
    }

    pub(super) async fn message(&mut self, message: Message) -> anyhow::Result<LoopControl> {
        let jobs = self.update(message);
        self.work(jobs).await
    }

    fn update(&mut self, mut message: Message) -> Vec<Job> {
        let now = self.clock.now();
        if let Some(recorder) = &self.recorder {
            recorder.message(&mut message, now);
        }
        terminal::in_loop(|| self.model.update(message, now))
    }

    pub(super) async fn work(&mut self, jobs: Vec<Job>) -> anyhow::Result<LoopControl> {
        for job in jobs {
            if let LoopControl::Exit = self.job(job).await? {
                return Ok(LoopControl::Exit);
            }
        }
        Ok(LoopControl::Continue)
    }

    pub(super) fn draw(&mut self) -> std::io::Result<()> {
        let now = self.clock.now();
        self.model.toasts.expire(now);
        self.model.dirty = false;
        let stale = std::mem::take(&mut self.stale);
        let model = &self.model;
        match &mut self.display {
            Display::Drawn(drawn) => {
                if stale {
                    drawn.screen.forget()?;
                }
                drawn.draw(model, now)?;
            }
            Display::Read(reader, voice) => {
                let speech = terminal::in_loop(|| reader.read(model, now));
                voice.write(&speech)?;
            }
        }
        self.notify()
    }

    /// Sends a desktop notification of results while the terminal does not have the focus.
    fn notify(&mut self) -> std::io::Result<()> {
        let now: Vec<Toast> = self.model.toasts.iter().map(|(toast, _)| toast.clone()).collect();
        let new: Vec<&Toast> = now.iter().filter(|toast| !self.notified.contains(toast)).collect();
        // Only results of actions are notified, all of them in one notification.
        let text: Vec<&str> =
            new.iter().filter(|toast| toast.is_result()).map(|toast| toast.text.as_str()).collect();
        if let Some(sequence) = self.notices.filter(|_| self.looked_away && !text.is_empty()) {
            terminal::write_sequence(&sequence.of(&text.join(", ")))?;
        }
        self.notified = now;
        Ok(())
    }
}

/// Waits until a frame is due.
async fn frame(due: Instant) {
    if Instant::now() < due {
        tokio::time::sleep_until(due).await;
    }
}

async fn next_line(progress: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match progress {
        Some(lines) => {
            let line = lines.recv().await;
            if line.is_none() {
                *progress = None;
            }
            line
        }
        None => std::future::pending().await,
    }
}
