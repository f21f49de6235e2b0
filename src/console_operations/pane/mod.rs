//! A terminal within the terminal: exec, attach and ephemeral debug containers of any cluster.
//!
//! ```text
//!  key ─► keys::encode ─► Session ─► WebSocket ─► container
//!                                                    │
//!  screen ◄─ widget ◄─ Emulator (vt100) ◄─ PaneEvent ┘
//! ```
//!
//! [`Emulator`] and [`keys`] are pure; [`session`] is the only file that talks to the cluster; [`debug`] builds the
//! patch that adds a debug container, which the screen applies as an action like every other change; [`inputs`] queues
//! typed input without blocking; [`heartbeat`] tells a container that was created for a session that the session is
//! alive; [`program`] runs a local program instead of a container. Nothing here knows the console's message loop: a
//! session sends its events to a channel and takes input from another.

pub(crate) mod debug;
pub(crate) mod emulator;
mod heartbeat;
mod inputs;
pub mod keys;
pub(crate) mod outcome;
mod output;
pub mod program;
pub(crate) mod session;
pub mod widget;

pub use debug::{DebugPlan, StartProgress};
pub use emulator::Emulator;
pub use inputs::{PaneInput, PaneSize};
pub use outcome::Outcome;
pub use session::{PaneEvent, Session, SessionTarget};
