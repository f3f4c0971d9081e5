//! `stepsim open`: the file goes to the viewer's origin, once, and to nobody else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn asked(port: &str, head: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("a server");
    write!(stream, "{head}\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_file_is_served_once_and_to_the_viewer_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a step.json");
    std::fs::write(&file, r#"{"traceEvents": []}"#).expect("written");
    let mut server = Command::new(env!("CARGO_BIN_EXE_stepsim"))
        .args(["open", "--port", "0"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a server");
    let mut link = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut link).expect("a link");
    let at = link.trim().strip_prefix("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:").expect("a link");
    let (port, path) = at.split_once('/').expect("an address");
    let (path, commands) = path.split_once("&startupCommands=").expect("what the viewer is to do");
    assert_eq!(path, "a%20step.json");
    assert!(
        commands.contains("dev.perfetto.PinTracksByRegex") && !commands.contains(['"', ' ', '&']),
        "{commands}"
    );
    let viewer = "Origin: https://ui.perfetto.dev";
    for refused in [
        format!("GET /{path} HTTP/1.1"),
        format!("GET /{path} HTTP/1.1\r\nOrigin: https://example.org"),
        format!("GET /../{path} HTTP/1.1\r\n{viewer}"),
        format!("POST /{path} HTTP/1.1\r\n{viewer}"),
    ] {
        let answer = String::from_utf8(asked(port, &refused)).expect("text");
        assert!(answer.starts_with("HTTP/1.1 40") && answer.ends_with("\r\n\r\n"), "{refused}: {answer}");
    }
    // Browsers open connections ahead, upon which they ask nothing.
    let silent: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect(format!("127.0.0.1:{port}")).expect("a server")).collect();
    let begun = Instant::now();
    let first =
        String::from_utf8(asked(port, &format!("OPTIONS /{path} HTTP/1.1\r\n{viewer}"))).expect("text");
    assert!(first.contains("Access-Control-Allow-Private-Network: true"), "{first}");
    let answer = String::from_utf8(asked(port, &format!("GET /{path} HTTP/1.1\r\n{viewer}"))).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"traceEvents": []}"#), "{answer}");
    assert!(answer.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"), "{answer}");
    assert!(server.wait().expect("an end").success());
    assert!(begun.elapsed() < Duration::from_secs(8), "held up by {} silent connections", silent.len());
    assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_err(), "nobody listens any more");
}
