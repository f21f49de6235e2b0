//! Suspension of the console by job control: SIGTSTP stops the process, SIGCONT continues it.
//!
//! The owner of the terminal restores it before [`JobControl::stop`] and takes it over afterwards. Ctrl-Z is a key in raw
//! mode, so the signal comes from `kill -TSTP`, or from Ctrl-Z in a program that has the terminal meanwhile.

use std::io;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{self, SignalKind, signal};

/// A signal of job control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobSignal {
    /// The process must stop (SIGTSTP).
    Stop,
    /// The process continues after a stop that it did not notice (SIGSTOP): the terminal was used by others meanwhile.
    Continued,
}

/// The signals of job control.
#[derive(Debug)]
pub(crate) struct JobControl {
    stop: unix::Signal,
    continued: unix::Signal,
}

impl JobControl {
    /// Takes over the signals.
    pub(crate) fn new() -> io::Result<Self> {
        let of = |one: Signal| signal(SignalKind::from_raw(one.as_raw()));
        Ok(Self { stop: of(Signal::TSTP)?, continued: of(Signal::CONT)? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> JobSignal {
        tokio::select! {
            biased;
            Some(()) = self.stop.recv() => JobSignal::Stop,
            Some(()) = self.continued.recv() => JobSignal::Continued,
            // The signal driver is gone with the runtime.
            else => std::future::pending().await,
        }
    }

    /// Stops the process until SIGCONT.
    pub(crate) async fn stop(&mut self) {
        if kill_process(getpid(), Signal::STOP).is_ok() {
            // Threads may run for a moment after the signal; the terminal must not be touched in it.
            let _ = self.continued.recv().await;
        }
    }

    /// Runs a program that has the terminal: Ctrl-Z in it stops the console as well, as the shell expects of a job.
    pub(crate) async fn during<T>(&mut self, program: impl Future<Output = T>) -> T {
        tokio::pin!(program);
        loop {
            tokio::select! {
                biased;
                result = &mut program => return result,
                signal = self.next() => {
                    if signal == JobSignal::Stop {
                        self.stop().await;
                    }
                }
            }
        }
    }
}
