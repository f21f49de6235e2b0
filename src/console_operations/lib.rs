//! The effects that an update of the console may request, the dialogs that ask first, and the operations.
//!
//! An update returns [`effect::Effect`]s and never waits; [`effect::Runner`] runs their tasks, which send messages back.
//!
//! The modules from the bottom up:
//!
//! | modules | content |
//! |---|---|
//! | [`diagnostics`] | interface to the program that embeds the console |
//! | [`dialog`], [`effect`] | dialogs, requested work; an [`effect::Route`] names a screen without depending on it |
//! | [`operations`], [`command_availability`] | operations on objects, with their dialogs; those that the server offers for a kind |
//! | [`navigate`] | navigation from object to object |
//! | `exec_streams` | the streams of a command in a container, until the connection ends |
//! | [`pane`], [`transfer`] | a terminal within the terminal; copies out of and into containers |

pub mod command_availability;
pub mod diagnostics;
pub mod dialog;
pub mod effect;
mod exec_streams;
pub mod navigate;
pub mod operations;
pub mod pane;
pub mod transfer;
