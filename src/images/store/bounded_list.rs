//! Lists of an image's documents, which are read up to a limit.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;

/// The maximum number of elements of a document's list: a list takes much more memory than its text.
const LIST_LENGTH: usize = 10_000;

/// Reads a list up to [`LIST_LENGTH`].
pub(super) fn bounded<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = elements.next_element()? {
                if list.len() == LIST_LENGTH {
                    return Err(serde::de::Error::custom(format_args!("more than {LIST_LENGTH} elements")));
                }
                list.push(element);
            }
            Ok(list)
        }
    }

    from.deserialize_seq(List(PhantomData))
}
