//! Connections fed with whole, split and hostile bytes.

use proptest::prelude::*;

use super::*;

/// Relays the output of both sides, and returns the events of the server and of the client.
fn exchange(client: &mut Connection, server: &mut Connection) -> (Vec<Event>, Vec<Event>) {
    let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
    loop {
        let up = client.output().split();
        server.receive(&up).unwrap();
        let down = server.output().split();
        client.receive(&down).unwrap();
        at_server.extend(std::iter::from_fn(|| server.next_event()));
        at_client.extend(std::iter::from_fn(|| client.next_event()));
        if up.is_empty() && down.is_empty() {
            return (at_server, at_client);
        }
    }
}

fn pair() -> (Connection, Connection) {
    (Connection::new(Side::Client), Connection::new(Side::Server))
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn frames(output: &[u8]) -> Vec<Frame> {
    let mut decoder = Decoder::default();
    decoder.feed(output);
    std::iter::from_fn(|| decoder.next().unwrap()).collect()
}

/// The server's response to frames of a foreign client.
fn respond_to(server: &mut Connection, sent: &[Frame]) -> Result<Vec<Frame>, ConnectionError> {
    let mut wire = BytesMut::new();
    for frame in sent {
        frame.encode(&mut wire);
    }
    server.receive(&wire)?;
    Ok(frames(&server.output().split()))
}

fn syn(writer: &mut HeaderWriter, id: u32) -> Frame {
    let block = writer.write(&Headers::from([("streamtype", "data")])).unwrap();
    Frame::SynStream { id, associated: 0, priority: 0, fin: false, unidirectional: false, block }
}

#[test]
fn a_stream_lives_until_both_sides_are_done_api_3() {
    let (mut client, mut server) = pair();
    let headers = Headers::from([("streamType", "stdin")]);
    let id = client.open(&headers).unwrap();
    client.send(id, bytes("hello"));
    let (seen, _) = exchange(&mut client, &mut server);
    assert_eq!(seen, [Event::Opened { id, headers }, Event::Data { id, bytes: bytes("hello") }]);
    assert_eq!(client.take_drained(), [id]);

    server.accept(id).unwrap();
    server.send(id, bytes("well"));
    server.finish(id);
    let (_, seen) = exchange(&mut client, &mut server);
    let data = Event::Data { id, bytes: bytes("well") };
    assert_eq!(seen, [Event::Accepted { id }, data, Event::Finished { id }]);
    // The other half is still open.
    client.send(id, bytes("bye"));
    client.finish(id);
    let (seen, _) = exchange(&mut client, &mut server);
    assert_eq!(seen, [Event::Data { id, bytes: bytes("bye") }, Event::Finished { id }]);
    assert!(!server.is_idle(), "the reader has not read");
    server.consumed(id, 5);
    server.consumed(id, 3);
    client.consumed(id, 4);
    assert!(server.is_idle() && client.is_idle());
    assert_eq!(server.next_event(), Some(Event::Closed { id }));
}

#[test]
fn a_reset_ends_a_stream_at_once_api_3() {
    let (mut client, mut server) = pair();
    let id = client.open(&Headers::default()).unwrap();
    client.send(id, bytes("lost on the way"));
    exchange(&mut client, &mut server);
    server.reset(id, ResetStatus::REFUSED_STREAM);
    let (_, seen) = exchange(&mut client, &mut server);
    assert_eq!(seen, [Event::Closed { id }]);
    assert!(server.is_idle() && client.is_idle());
    // Repeated resets, and resets of a closed stream, have no effect.
    server.reset(id, ResetStatus::CANCEL);
    assert!(server.output().is_empty());
    assert!(!server.send(id, bytes("x")));
}

#[test]
fn pings_come_back_but_not_our_own_api_3() {
    let mut server = Connection::new(Side::Server);
    let answered =
        respond_to(&mut server, &[Frame::Ping { id: 1 }, Frame::Ping { id: 2 }, Frame::Ping { id: 3 }]);
    assert_eq!(answered, Ok(vec![Frame::Ping { id: 1 }, Frame::Ping { id: 3 }]));
}

#[test]
fn peers_without_windows_are_sent_everything_api_3() {
    let (mut client, mut server) = pair();
    let id = client.open(&Headers::default()).unwrap();
    exchange(&mut client, &mut server);
    let megabyte = Bytes::from(vec![7; 1 << 20]);
    assert!(server.send(id, megabyte.clone()));
    let (mut sent, mut read) = (Vec::new(), 0);
    while sent.is_empty() {
        assert!(server.output().len() <= OUTPUT_BYTES + MAX_DATA_BYTES + 8, "the output is bounded");
        let (_, seen) = exchange(&mut client, &mut server);
        read += seen
            .iter()
            .map(|e| if let Event::Data { bytes, .. } = e { bytes.len() } else { 0 })
            .sum::<usize>();
        sent = server.take_drained();
    }
    assert_eq!(read, megabyte.len());
}

#[test]
fn announced_windows_are_respected_api_3() {
    let mut writer = HeaderWriter::new();
    let mut server = Connection::new(Side::Server);
    let small = Frame::Settings { entries: vec![(INITIAL_WINDOW_SIZE, 10)] };
    let opened = respond_to(&mut server, &[small, syn(&mut writer, 1), syn(&mut writer, 3)]).unwrap();
    assert_eq!(opened, []);
    let data = |id, fin, text| Frame::Data { id, fin, bytes: bytes(text) };
    server.send(1, bytes("0123456789abcdef"));
    server.send(3, bytes("other"));
    server.finish(3);
    assert_eq!(frames(&server.output().split()), [data(1, false, "0123456789"), data(3, true, "other")]);
    assert_eq!(server.take_drained(), [3]);
    let more = respond_to(&mut server, &[Frame::WindowUpdate { id: 1, delta: 4 }]).unwrap();
    assert_eq!(more, [data(1, false, "abcd")]);
    // All windows change with the setting.
    let rest =
        respond_to(&mut server, &[Frame::Settings { entries: vec![(INITIAL_WINDOW_SIZE, 12)] }]).unwrap();
    assert_eq!(rest, [data(1, false, "ef")]);
    assert_eq!(server.take_drained(), [1]);
    // The window of the whole connection holds too.
    let unlimited = Frame::WindowUpdate { id: 1, delta: 1 << 30 };
    let mut sent = 0;
    respond_to(&mut server, &[unlimited]).unwrap();
    server.send(1, Bytes::from(vec![0; 200_000]));
    loop {
        let output = server.output().split();
        if output.is_empty() {
            break;
        }
        sent += output.len();
    }
    assert!(sent > 60_000 && sent < 66_000, "{sent}");
    let more = respond_to(&mut server, &[Frame::WindowUpdate { id: 0, delta: 1 }]).unwrap();
    assert_eq!(more, [Frame::Data { id: 1, fin: false, bytes: Bytes::from(vec![0]) }]);
}

#[test]
fn windows_are_announced_as_readers_read_api_3() {
    let (mut client, mut server) = pair();
    let id = client.open(&Headers::default()).unwrap();
    client.send(id, Bytes::from(vec![1; 50_000]));
    let (seen, _) = exchange(&mut client, &mut server);
    let lengths =
        seen.iter().filter_map(|e| if let Event::Data { bytes, .. } = e { Some(bytes.len()) } else { None });
    assert!(server.output().is_empty(), "nothing was read yet");
    lengths.collect::<Vec<_>>().into_iter().for_each(|length| server.consumed(id, length));
    let windows = frames(&server.output().split());
    let total = |of| {
        windows
            .iter()
            .map(|f| {
                if let Frame::WindowUpdate { id, delta } = f
                    && *id == of
                {
                    *delta
                } else {
                    0
                }
            })
            .sum::<u32>()
    };
    assert!(total(id) >= ANNOUNCE_AFTER && total(0) >= ANNOUNCE_AFTER, "{windows:?}");
}

#[test]
fn a_peer_that_is_not_read_waits_sec_2() {
    let (mut client, mut server) = pair();
    let id = client.open(&Headers::default()).unwrap();
    let mut pieces = Vec::new();
    while server.wants_input() {
        client.send(id, Bytes::from(vec![1; 30_000]));
        server.receive(&client.output().split()).unwrap();
        client.take_drained();
        pieces.extend(std::iter::from_fn(|| server.next_event()));
        assert!(server.buffered < MAX_BUFFERED + 64_000);
    }
    // Reading frees capacity, and so does closing a stream.
    for piece in &pieces {
        if let Event::Data { bytes, .. } = piece {
            server.consumed(id, bytes.len());
        }
    }
    assert!(server.wants_input() && server.buffered == 0);
    client.send(id, bytes("x"));
    server.receive(&client.output().split()).unwrap();
    server.stop_reading(id);
    assert_eq!(server.buffered, 0);
    server.next_event();
    client.take_drained();
    client.send(id, bytes("thrown away"));
    server.receive(&client.output().split()).unwrap();
    assert_eq!((server.buffered, server.next_event()), (0, None));
}

#[test]
fn one_byte_pieces_cost_more_than_a_byte_sec_2() {
    let (mut client, mut server) = pair();
    let id = client.open(&Headers::default()).unwrap();
    let mut count = 0;
    while server.wants_input() {
        client.send(id, bytes("x"));
        server.receive(&client.output().split()).unwrap();
        client.take_drained();
        server.next_event();
        count += 1;
    }
    assert!(count <= MAX_BUFFERED / PIECE_COST + 2, "{count}");
}

#[test]
fn a_peer_that_asks_and_never_reads_is_not_listened_to_sec_2() {
    let mut server = Connection::new(Side::Server);
    let mut wire = BytesMut::new();
    (0..1000).for_each(|_| Frame::Ping { id: 1 }.encode(&mut wire));
    while server.wants_input() {
        server.receive(&wire).unwrap();
        assert!(server.output().len() < MAX_OUTPUT + wire.len());
    }
}

#[test]
fn too_many_streams_are_refused_and_the_rest_live_on_sec_2() {
    let mut writer = HeaderWriter::new();
    let mut server = Connection::new(Side::Server);
    let all: Vec<Frame> = (0..=MAX_STREAMS as u32).map(|n| syn(&mut writer, 2 * n + 1)).collect();
    let last = 2 * MAX_STREAMS as u32 + 1;
    let refused = Frame::RstStream { id: last, status: ResetStatus::REFUSED_STREAM };
    assert_eq!(respond_to(&mut server, &all), Ok(vec![refused]));
    server.reset(1, ResetStatus::CANCEL);
    server.output().clear();
    assert_eq!(respond_to(&mut server, &[syn(&mut writer, last + 2)]), Ok(vec![]));
}

#[test]
fn faults_of_a_stream_end_the_stream_sec_2() {
    let check = |sent: &[Frame], expected: ResetStatus| {
        let mut server = Connection::new(Side::Server);
        let mut writer = HeaderWriter::new();
        let mut all = vec![syn(&mut writer, 1)];
        all.extend_from_slice(sent);
        let answered = respond_to(&mut server, &all).unwrap();
        assert!(
            matches!(answered[..], [Frame::RstStream { status, .. }] if status == expected),
            "{answered:?}"
        );
    };
    let data = |id, fin| Frame::Data { id, fin, bytes: bytes("x") };
    check(&[data(3, false)], ResetStatus::INVALID_STREAM);
    check(&[data(0, false)], ResetStatus::INVALID_STREAM);
    check(&[data(1, true), data(1, false)], ResetStatus::STREAM_ALREADY_CLOSED);
    let window = Frame::WindowUpdate { id: 1, delta: (1 << 31) - 1 };
    check(std::slice::from_ref(&window), ResetStatus::FLOW_CONTROL_ERROR);
    // Frames that arrive after a reset are late, and no error.
    let mut server = Connection::new(Side::Server);
    let cancel = Frame::RstStream { id: 1, status: ResetStatus::CANCEL };
    let late = [syn(&mut HeaderWriter::new(), 1), cancel, data(1, false), window];
    assert_eq!(respond_to(&mut server, &late), Ok(vec![]));
}

#[test]
fn faults_of_the_connection_end_it_sec_2() {
    let mut writer = HeaderWriter::new();
    let check = |sent: &[Frame], expected: ConnectionError| {
        assert_eq!(respond_to(&mut Connection::new(Side::Server), sent), Err(expected));
    };
    check(&[syn(&mut writer, 2)], ConnectionError::StreamId(2));
    check(&[syn(&mut HeaderWriter::new(), 0)], ConnectionError::StreamId(0));
    let mut writer = HeaderWriter::new();
    check(&[syn(&mut writer, 5), syn(&mut writer, 3)], ConnectionError::StreamId(3));
    check(&[Frame::WindowUpdate { id: 0, delta: (1 << 31) - 1 }], ConnectionError::Window);
    check(&[Frame::Settings { entries: vec![(INITIAL_WINDOW_SIZE, u32::MAX)] }], ConnectionError::Window);
    let block = bytes("no zlib");
    check(&[Frame::Headers { id: 1, fin: false, block }], HeaderError::Compression.into());
}

proptest! {
    /// Several streams at once in odd sizes: each arrives whole and in order.
    #[test]
    fn streams_do_not_mix_api_3(
        writes in prop::collection::vec((0..5_usize, prop::collection::vec(any::<u8>(), 1..800)), 1..30),
        window in prop::option::of(1..5000_u32),
    ) {
        let (mut client, mut server) = pair();
        let ids: Vec<u32> = (0..5).map(|_| client.open(&Headers::default()).unwrap()).collect();
        exchange(&mut client, &mut server);
        if let Some(window) = window {
            let mut wire = BytesMut::new();
            Frame::Settings { entries: vec![(INITIAL_WINDOW_SIZE, window)] }.encode(&mut wire);
            server.receive(&wire).unwrap();
        }
        let (mut sent, mut read) = (vec![Vec::new(); 5], vec![Vec::new(); 5]);
        for (stream, data) in writes {
            let id = ids[stream];
            sent[stream].extend_from_slice(&data);
            prop_assert!(server.send(id, data.into()));
            loop {
                let (_, seen) = exchange(&mut client, &mut server);
                for event in seen {
                    if let Event::Data { id, bytes } = event {
                        read[ids.iter().position(|i| *i == id).unwrap()].extend_from_slice(&bytes);
                        let mut wire = BytesMut::new();
                        Frame::WindowUpdate { id, delta: bytes.len() as u32 }.encode(&mut wire);
                        Frame::WindowUpdate { id: 0, delta: bytes.len() as u32 }.encode(&mut wire);
                        if window.is_some() {
                            server.receive(&wire).unwrap();
                        }
                    }
                }
                if server.take_drained().contains(&id) {
                    break;
                }
            }
        }
        prop_assert_eq!(sent, read);
    }

    /// Any bytes after a good beginning: an error or not, but bounded and without panic.
    #[test]
    fn no_peer_is_too_hostile_sec_2(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..30)) {
        let mut server = Connection::new(Side::Server);
        let _ = respond_to(&mut server, &[syn(&mut HeaderWriter::new(), 1)]);
        for chunk in chunks {
            let mut wire = vec![0x80, 3, 0];
            wire.extend_from_slice(&chunk);
            if server.receive(&wire).is_err() {
                break;
            }
            while server.next_event().is_some() {}
            server.output().clear();
        }
        prop_assert!(server.streams.len() <= MAX_STREAMS);
    }
}
