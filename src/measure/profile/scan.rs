//! Finds the events of a trace file in a stream of bytes, one after the other, whatever the length of the file.
//!
//! Only the outline of the JSON is read here: braces and strings. A single event that is wrong in itself, or a file
//! that breaks off, costs no other event. Both outlines of the Trace Event Format are understood: an object with
//! `traceEvents`, and a bare list (which need not be closed).

use std::io::{self, Read};

/// An event larger than this is passed over: no profiler writes such, a broken string may look so.
const LARGEST: usize = 16 << 20;
const BLOCK: usize = 1 << 16;

/// A piece of the file.
pub enum FilePiece<'a> {
    /// An element of the list of events.
    Event(&'a [u8]),
    /// Another member of the outermost object.
    Member(&'a str, &'a [u8]),
    /// An element that is no object, or is too large to be an event.
    Foreign,
}

/// How the reading ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the end of the outermost value.
    Whole,
    /// In the middle: at which byte (of the decompressed text), and the system's word if there is one.
    Truncated(u64, Option<String>),
    /// There is no trace: what there is instead.
    Foreign(String),
}

/// Passes the pieces of `input` on in their order.
pub fn scan(input: impl Read, pass: &mut dyn FnMut(FilePiece)) -> Ending {
    let mut bytes = ByteReader::new(input);
    let ending = outline(&mut bytes, pass);
    match ending {
        Some(Ending::Whole) | None if bytes.error.is_some() => {
            Ending::Truncated(bytes.offset(), bytes.error.map(|e| e.to_string()))
        }
        Some(ending) => ending,
        None => Ending::Truncated(bytes.offset(), None),
    }
}

/// `None`: the input ended early.
fn outline<R: Read>(bytes: &mut ByteReader<R>, pass: &mut dyn FnMut(FilePiece)) -> Option<Ending> {
    if bytes.peek() == Some(0xEF) {
        // The byte order mark of UTF-8.
        for _ in 0..3 {
            bytes.next();
        }
    }
    match bytes.solid() {
        Some(b'[') => {
            bytes.next();
            // A bare list may lack its end, but not the end of an event.
            events(bytes, pass, true)
        }
        Some(b'{') => {
            bytes.next();
            members(bytes, pass)
        }
        Some(other) => Some(Ending::Foreign(format!("begins with `{}`", (other as char).escape_default()))),
        None if bytes.error.is_some() => None,
        None => Some(Ending::Foreign("is empty".to_string())),
    }
}

fn members<R: Read>(bytes: &mut ByteReader<R>, pass: &mut dyn FnMut(FilePiece)) -> Option<Ending> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    loop {
        match bytes.solid()? {
            b'}' => return Some(Ending::Whole),
            b',' => {
                bytes.next();
            }
            b'"' => {
                bytes.value(&mut key)?;
                if bytes.solid()? != b':' {
                    return Some(Ending::Foreign("is no JSON object".to_string()));
                }
                bytes.next();
                let name = String::from_utf8_lossy(&key[1..key.len() - 1]).into_owned();
                if bytes.solid()? == b'[' && name == "traceEvents" {
                    bytes.next();
                    events(bytes, pass, false)?;
                } else {
                    bytes.value(&mut value)?;
                    pass(FilePiece::Member(&name, &value));
                }
            }
            other => {
                return Some(Ending::Foreign(format!(
                    "has `{}` where the name of a member was expected",
                    (other as char).escape_default()
                )));
            }
        }
    }
}

fn events<R: Read>(bytes: &mut ByteReader<R>, pass: &mut dyn FnMut(FilePiece), open: bool) -> Option<Ending> {
    let mut event = Vec::new();
    loop {
        match bytes.solid() {
            None if open && bytes.error.is_none() => return Some(Ending::Whole),
            None => return None,
            Some(b']') => {
                bytes.next();
                return Some(Ending::Whole);
            }
            Some(b',') => {
                bytes.next();
            }
            Some(first) => {
                bytes.value(&mut event)?;
                pass(if first == b'{' && event.len() < LARGEST {
                    FilePiece::Event(&event)
                } else {
                    FilePiece::Foreign
                });
            }
        }
    }
}

/// A reader byte by byte.
struct ByteReader<R> {
    input: R,
    block: Box<[u8]>,
    at: usize,
    end: usize,
    before: u64,
    error: Option<io::Error>,
}

impl<R: Read> ByteReader<R> {
    fn new(input: R) -> ByteReader<R> {
        ByteReader { input, block: vec![0; BLOCK].into(), at: 0, end: 0, before: 0, error: None }
    }

    fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    #[inline]
    fn peek(&mut self) -> Option<u8> {
        if self.at == self.end && !self.refill() {
            return None;
        }
        Some(self.block[self.at])
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[cold]
    fn refill(&mut self) -> bool {
        if self.error.is_some() {
            return false;
        }
        self.before += self.end as u64;
        (self.at, self.end) = (0, 0);
        loop {
            match self.input.read(&mut self.block) {
                Ok(count) => {
                    self.end = count;
                    return count > 0;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.error = Some(e);
                    return false;
                }
            }
        }
    }

    /// The next byte that is no white space.
    fn solid(&mut self) -> Option<u8> {
        while self.peek()?.is_ascii_whitespace() {
            self.at += 1;
        }
        self.peek()
    }

    /// Reads one value: an object or a list to its closing bracket, a string to its quote, anything else up to what may
    /// follow a value. Bytes beyond [`LARGEST`] are read and dropped. `None` if the input ends before.
    fn value(&mut self, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        let (mut depth, mut in_string) = (0_usize, false);
        loop {
            let byte = self.peek()?;
            if !in_string && depth == 0 && !out.is_empty() && matches!(byte, b',' | b']' | b'}') {
                return Some(());
            }
            self.at += 1;
            if out.len() < LARGEST {
                out.push(byte);
            }
            match byte {
                b'\\' if in_string => {
                    let escaped = self.next()?;
                    if out.len() < LARGEST {
                        out.push(escaped);
                    }
                }
                b'"' => {
                    in_string = !in_string;
                    if !in_string && depth == 0 {
                        return Some(());
                    }
                }
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(());
                    }
                }
                _ => {}
            }
        }
    }
}
