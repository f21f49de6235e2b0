//! The property of frames between kubelet and node host, for `lab::fuzz`: a frame that was read is written and read
//! again unchanged, and nothing is read beyond a frame.

use futures::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::protocol::{
    Greeting, HostFrame, RESPONSE_LIMIT, RequestFrame, Welcome, read_input, read_json, read_output,
    write_input, write_json, write_output,
};

/// Frames as they come from a socket.
pub fn frames(bytes: &[u8]) {
    json::<Greeting>(bytes);
    json::<RequestFrame>(bytes);
    json::<Welcome>(bytes);
    json::<HostFrame>(bytes);
    let mut rest = bytes;
    while let Ok(Some(input)) = now(read_input(&mut rest)) {
        let mut written = Vec::new();
        now(write_input(&mut written, &input)).expect("writing to a vector cannot fail");
        assert_eq!(now(read_input(&mut &written[..])).ok().flatten(), Some(input));
    }
    let mut rest = bytes;
    while let Ok(Some(output)) = now(read_output(&mut rest)) {
        let mut written = Vec::new();
        now(write_output(&mut written, &output)).expect("writing to a vector cannot fail");
        assert_eq!(now(read_output(&mut &written[..])).ok().flatten(), Some(output));
    }
}

/// The bytes as a stream of frames, and as the body of one.
fn json<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let mut framed = u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes().to_vec();
    framed.extend_from_slice(bytes);
    for mut stream in [bytes, &framed] {
        while let Ok(Some(value)) = now(read_json::<_, T>(&mut stream, RESPONSE_LIMIT)) {
            let mut written = Vec::new();
            now(write_json(&mut written, &value, RESPONSE_LIMIT)).expect("writing to a vector cannot fail");
            let again: T = now(read_json(&mut &written[..], RESPONSE_LIMIT))
                .ok()
                .flatten()
                .expect("a written message can be read back");
            assert_eq!(
                serde_json::to_value(&again).expect("it was serialized before"),
                serde_json::to_value(&value).expect("it was serialized before")
            );
        }
    }
}

/// Returns the result of a future over memory, which never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("reading from memory never waits")
}
