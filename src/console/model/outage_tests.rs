//! The banner while the server does not answer, on a test terminal (CON-18).

use console_data::builtin_kinds;
use console_data::links::Link;
use console_data::message::Message;

use super::tabs_tests::TestConsole;

/// Returns the banner of a console whose server has been silent for this time, for this reason.
fn banner(width: u16, seconds: i64, reason: &str) -> String {
    let mut stage = TestConsole::new(width, 24);
    let silent_since = stage.now;
    stage.now = stage.now.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    for resource in builtin_kinds::resources() {
        let retry_at = stage.now.saturating_add(jiff::SignedDuration::from_secs(4)).unwrap();
        let down = Link::Down { resource, reason: reason.to_owned(), retry_at };
        stage.model.update(Message::Link(down), silent_since);
    }
    stage.screen().lines().nth(1).expect("a banner under the header").trim().to_owned()
}

/// It says what happened, that the console tries again, and what to do.
#[test]
fn the_banner_of_an_outage_says_what_to_do_con_18() {
    let refused = "no answer from the server: connection refused";
    let timed_out = "context dev does not answer: the connection timed out";
    for (width, reason, expected) in [
        (80, refused, "✖ no answer for 12s, trying again in 4 s, ctrl-r now · is the server running?"),
        (
            100,
            refused,
            "✖ no answer for 12s, trying again in 4 s, ctrl-r now · connection refused: is the server running?",
        ),
        (
            140,
            refused,
            "✖ no answer for 12s, trying again in 4 s, ctrl-r now · connection refused: is the server running? start it again if not · in process",
        ),
        (80, timed_out, "✖ no answer for 12s, trying again in 4 s, ctrl-r now · check the network"),
        (
            100,
            "no answer from the server: invalid peer certificate: Expired",
            "✖ no answer for 12s, trying again in 4 s, ctrl-r now · invalid peer certificate: Expired",
        ),
        (
            80,
            "the server refuses the credentials (Unauthorized)",
            "✖ the server refuses the credentials (Unauthorized), trying again in 4 s",
        ),
        (
            100,
            "context dev: the server refuses the credentials (Unauthorized)",
            "✖ the server refuses the credentials (Unauthorized), trying again in 4 s, ctrl-r now",
        ),
    ] {
        assert_eq!(banner(width, 12, reason), expected);
    }
    assert_eq!(
        banner(80, 3_725, refused),
        "✖ no answer for 62m, trying again in 4 s, ctrl-r now · is the server running?"
    );
    assert_eq!(
        banner(72, 12, refused),
        "✖ no answer for 12s, trying again in 4 s, ctrl-r now · is it running?"
    );
}
