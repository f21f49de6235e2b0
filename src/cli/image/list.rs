//! `podium image list`.

use anyhow::Result;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::CatalogueArgs;
use crate::cli::output::{eprint_line, print_table};
use base::decimal_size::decimal_size;
use base::quote::printable;
use images::{CatalogueImage, ImageOrigin};

const HEADERS: [&str; 6] = ["REPOSITORY", "TAG", "SOURCE", "IMAGE ID", "SIZE", "PROGRAM"];
/// The maximum number of columns of a cell; wider ones are cut, because an image's program may be a whole script.
const WIDEST: usize = 60;

pub(super) fn run(catalogue: &CatalogueArgs) -> Result<()> {
    let (images, problems) = catalogue.open()?;
    print_table(&rows(&images.catalogue.list()));
    let others = images.store.names_of_other_owners();
    if !others.is_empty() {
        eprint_line(&format!(
            "note: unpacked for other user ids than this user has now, to be pulled or loaded again: {}",
            others.join(", ")
        ));
    }
    for problem in problems {
        eprint_line(&problem);
    }
    Ok(())
}

/// Makes one row per image, and one row per name of a loaded image, below the headers.
fn rows(images: &[CatalogueImage]) -> Vec<[String; 6]> {
    let rows = images.iter().map(|image| row(image).map(|cell| shortened(&cell)));
    std::iter::once(HEADERS.map(str::to_owned)).chain(rows).collect()
}

/// Escapes a cell, and cuts it by the width that a terminal shows.
fn shortened(cell: &str) -> String {
    let cell = printable(cell);
    if cell.width() <= WIDEST {
        return cell.into_owned();
    }
    let mut width = 0;
    let fits = |letter: &char| {
        // The table shows line ends and tabs, which have no width, as spaces.
        width += letter.width().unwrap_or(1);
        width < WIDEST
    };
    cell.chars().take_while(fits).chain(['…']).collect()
}

fn row(image: &CatalogueImage) -> [String; 6] {
    let none = || "<none>".to_owned();
    let tags = match (image.tags.as_slice(), image.origin) {
        ([], ImageOrigin::Loaded) => none(),
        ([], _) => "any".to_owned(),
        (tags, _) => tags.join(","),
    };
    let origin = match image.origin {
        ImageOrigin::User => "user",
        ImageOrigin::Loaded => "loaded",
        ImageOrigin::Builtin => "builtin",
    };
    let id = image.id.as_deref().map(|id| id.trim_start_matches("sha256:").chars().take(12).collect());
    [
        image.repository.clone().unwrap_or_else(none),
        tags,
        origin.to_owned(),
        id.unwrap_or_else(|| "-".to_owned()),
        image.size_bytes.map_or_else(|| "-".to_owned(), decimal_size),
        image.program.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::table;

    #[test]
    fn a_list_of_images_is_a_table_cli_4() {
        let image = |repository: Option<&str>, tags: &[&str], origin, program: &str| CatalogueImage {
            repository: repository.map(str::to_owned),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            origin,
            id: (origin == ImageOrigin::Loaded).then(|| format!("sha256:{}", "ab".repeat(32))),
            size_bytes: (origin == ImageOrigin::Loaded).then_some(4_261_502),
            program: program.to_owned(),
        };
        let images = [
            image(Some("me/app"), &["v1", "v2"], ImageOrigin::User, "/bin/app"),
            image(Some("alpine"), &["3.20"], ImageOrigin::Loaded, "/bin/sh\u{1b}[2J"),
            image(None, &[], ImageOrigin::Loaded, &"long ".repeat(30)),
            image(Some("busybox"), &[], ImageOrigin::Builtin, "tools"),
        ];
        let expect = "\
REPOSITORY   TAG     SOURCE    IMAGE ID       SIZE    PROGRAM
me/app       v1,v2   user      -              -       /bin/app
alpine       3.20    loaded    abababababab   4.3MB   /bin/sh\\x1b[2J
<none>       <none>  loaded    abababababab   4.3MB   long long long long long long long long long long long long…
busybox      any     builtin   -              -       tools
";
        let squeeze = |text: &str| text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let shown = table(&rows(&images));
        assert_eq!(squeeze(&shown), squeeze(expect));
        let column = |line: &str| line.find("PROGRAM").or(line.find("/bin/app")).or(line.find("tools"));
        let columns: Vec<_> = shown.lines().filter_map(column).collect();
        assert_eq!(columns, [columns[0]; 3], "{shown}");
    }

    #[test]
    fn a_long_cell_is_cut_by_the_width_that_is_shown_cli_4() {
        for cell in ["\u{1b}".repeat(40), "漢".repeat(40), "a\n".repeat(40), "a".repeat(61)] {
            let shown = table(&[[shortened(&cell)]]);
            assert!(shown.ends_with('…') && (WIDEST - 1..=WIDEST).contains(&shown.width()), "{shown}");
        }
        assert_eq!(shortened(&"漢".repeat(30)), "漢".repeat(30));
    }
}
