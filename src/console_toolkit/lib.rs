//! Text, keys, commands, themes and widgets: what the console types and draws with.
//!
//! Architecture invariant: nothing here knows a cluster, and nothing sends a request.
//!
//! The modules from the bottom up:
//!
//! | modules | content |
//! |---|---|
//! | [`text`], [`difference`], [`yaml_text`], [`log_line`] | text that is safe to draw: of the server, of differences, of YAML, of logs |
//! | [`keys`], [`command`], [`prompt`] | keys by name, the one table of commands, the `:` and `/` line |
//! | [`search`], [`json_condition`] | searches in text and logs |
//! | [`health`], [`theme`] | the health of objects, and the colours and glyphs of everything |
//! | [`widget`], [`toast`] | what several screens draw |

pub mod command;
pub mod difference;
pub mod health;
pub(crate) mod json_condition;
pub mod keys;
pub mod log_line;
pub mod prompt;
pub mod search;
pub mod text;
pub mod theme;
pub mod toast;
pub mod widget;
pub mod yaml_text;
