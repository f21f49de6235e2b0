//! Whether the terminal is light or dark, by asking it (OSC 11): a theme that nobody picked follows it.

use std::time::Duration;

use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};

use super::library;

/// The theme of a terminal that is light.
const LIGHT: &str = "paper";

/// How long an answer is waited for. A terminal that knows nothing of it says so at once; one far away takes its time, and
/// an answer that came after we had stopped to listen would be taken for keys.
const PATIENCE: Duration = Duration::from_secs(1);

/// The theme that fits the terminal; none where it does not say. Reads the terminal: nobody else may meanwhile.
pub(crate) fn fitting() -> Option<&'static str> {
    let mut options = QueryOptions::default();
    options.timeout = PATIENCE;
    theme_mode(options).ok().map(name_of)
}

/// Whether a theme is one that is picked by the terminal's ground.
pub(crate) fn is_fitting(name: &str) -> bool {
    [LIGHT, library::DEFAULT].contains(&name)
}

fn name_of(mode: ThemeMode) -> &'static str {
    match mode {
        ThemeMode::Light => LIGHT,
        ThemeMode::Dark => library::DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_theme_is_shipped_for_each_ground_con_20() {
        for mode in [ThemeMode::Light, ThemeMode::Dark] {
            let name = name_of(mode);
            assert!(is_fitting(name));
            let themes = library::all(&[]);
            let (_, theme) = themes.iter().find(|(known, _)| known == name).expect("shipped");
            let ground = theme.as_ref().expect("good").body.text.bg;
            let (r, g, b) = crate::theme::depth::rgb(ground.expect("a ground")).expect("a colour");
            let light = u32::from(r) + u32::from(g) + u32::from(b) > 3 * 128;
            assert_eq!(light, mode == ThemeMode::Light, "{name}");
        }
    }
}
