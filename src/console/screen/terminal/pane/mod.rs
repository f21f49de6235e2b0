//! A real terminal inside the terminal: exec, attach and ephemeral debug containers of any cluster.
//!
//! ```text
//!  key ─► keys::encode ─► Session ─► WebSocket ─► container
//!                                                    │
//!  screen ◄─ widget ◄─ Emulator (vt100) ◄─ PaneEvent ┘
//! ```
//!
//! [`Emulator`] and [`keys`] are pure; [`session`] is the only file that talks to the cluster;
//! [`debug`] says how a debug container is added, which the screen does through an action like every other
//! change; [`inputs`] is how what is typed gets there without anybody waiting; [`heartbeat`] tells a container that was made for a session that the session is there; [`program`] runs one of
//! this machine in a container's place. Nothing here knows the console's message loop: a session hands its events to a channel and takes
//! input from another.

pub(crate) mod debug;
pub(crate) mod emulator;
mod heartbeat;
mod inputs;
pub(crate) mod keys;
pub(crate) mod outcome;
mod output;
pub(crate) mod program;
pub(crate) mod session;
pub(crate) mod widget;

pub use debug::{DebugPlan, StartProgress};
pub(crate) use emulator::Emulator;
pub use inputs::{PaneInput, PaneSize};
pub use outcome::Outcome;
pub use session::{Opening, PaneEvent, Session};
