//! The console without a server: fabricated stores, keys as scripts, the screen as text.

mod stage;

use podium::console::command::Command;
use podium::console::model::Job;
use stage::{Stage, cluster};

#[test]
fn look() {
    for (w, h) in [(120, 36), (80, 24)] {
        let mut stage = Stage::new(w, h);
        stage.feed(cluster());
        println!("{}", stage.screen());
        stage.press("p");
        println!("{}", stage.screen());
        stage.press("~ d");
        println!("{}", stage.screen());
        stage.press("s");
        println!("{}", stage.screen());
        stage.press("esc ~ n");
        println!("{}", stage.screen());
        stage.press(":");
        println!("{}", stage.screen());
        stage.press("esc ?");
        println!("{}", stage.screen());
        stage.press("esc ~ e");
        println!("{}", stage.screen());
    }
}
