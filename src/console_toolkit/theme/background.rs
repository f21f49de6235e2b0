//! Detects a light or dark terminal with a query (OSC 11): the theme follows it unless the user chose one.

use std::time::Duration;

use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};

use super::library;

/// The theme for light terminals.
const LIGHT: &str = "paper";

/// Timeout of the query. A terminal without support answers at once; a distant terminal needs time, and a response
/// after the timeout would be taken for keys.
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the theme that fits the terminal; `None` if the terminal does not respond. It reads from the terminal, so
/// that no other code may read meanwhile.
pub fn fitting() -> Option<&'static str> {
    let mut options = QueryOptions::default();
    options.timeout = QUERY_TIMEOUT;
    theme_mode(options).ok().map(name_of)
}

/// Returns whether a theme is one that the terminal's background selects.
pub fn is_fitting(name: &str) -> bool {
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
