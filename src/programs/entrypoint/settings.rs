//! Settings from the environment, directly or from a file that a variable names (`POSTGRES_PASSWORD_FILE`).

use std::io;

/// Returns a setting: the value of the variable, or the content of the file that `NAME_FILE` names; setting both is an
/// error. An empty value counts as absent.
pub(super) fn setting(name: &str) -> io::Result<Option<String>> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    choose(name, variable(name), variable(&format!("{name}_FILE")))
}

fn choose(name: &str, value: Option<String>, file: Option<String>) -> io::Result<Option<String>> {
    match (value, file) {
        (Some(_), Some(_)) => {
            Err(io::Error::other(format!("both {name} and {name}_FILE are set: set only one of them")))
        }
        (value, None) => Ok(value),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| io::Error::new(error.kind(), format!("{name}_FILE: {file}: {error}")))?;
            Ok(Some(text.trim_end_matches('\n').to_owned()).filter(|text| !text.is_empty()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_comes_from_its_variable_or_its_file_img_2() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "secret\n").unwrap();
        let file = file.display().to_string();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(choose("P", text("x"), None).unwrap(), text("x"));
        assert_eq!(choose("P", None, Some(file.clone())).unwrap(), text("secret"));
        assert_eq!(choose("P", None, None).unwrap(), None);
        assert!(choose("P", text("x"), Some(file)).unwrap_err().to_string().contains("both P and P_FILE"));
        assert!(
            choose("P", None, text("/no/file")).unwrap_err().to_string().starts_with("P_FILE: /no/file:")
        );
    }
}
