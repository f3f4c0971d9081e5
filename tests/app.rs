//! `stepsim app`: the page's folder goes to this machine's browser, and nothing beside it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn the_folder_is_served_to_this_machine_and_nothing_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page");
    std::fs::create_dir(&page).expect("a folder");
    std::fs::write(page.join("index.html"), "<p>the page</p>").expect("written");
    std::fs::write(folder.path().join("secret.html"), "not of the page").expect("written");
    let mut server = Command::new(env!("CARGO_BIN_EXE_stepsim"))
        .args(["app", "--port", "0"])
        .arg(&page)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a server");
    let mut link = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut link).expect("a link");
    let host = link.trim().strip_prefix("http://").and_then(|at| at.strip_suffix('/')).expect("an address");
    let asked = |line: &str, host_line: &str| {
        let mut stream = TcpStream::connect(host).expect("a server");
        write!(stream, "{line}\r\nHost: {host_line}\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    };
    // A connection that says nothing must not keep others waiting.
    let _silent = TcpStream::connect(host).expect("a server");
    for good in ["GET / HTTP/1.1", "GET /index.html HTTP/1.1", "GET /?q#x HTTP/1.1"] {
        let answer = asked(good, host);
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("<p>the page</p>"),
            "{good}: {answer}"
        );
        assert!(answer.contains("Content-Type: text/html"), "{answer}");
    }
    for refused in [
        "GET /../secret.html HTTP/1.1",
        "GET /%2e%2e/secret.html HTTP/1.1",
        "GET //etc/passwd HTTP/1.1",
        "GET /none HTTP/1.1",
        "POST / HTTP/1.1",
    ] {
        let answer = asked(refused, host);
        assert!(answer.starts_with("HTTP/1.1 40") && answer.ends_with("\r\n\r\n"), "{refused}: {answer}");
    }
    let answer = asked("GET / HTTP/1.1", "page.example.org");
    assert!(answer.starts_with("HTTP/1.1 403"), "another name that leads here: {answer}");
    server.kill().expect("ended");
    server.wait().expect("ended");
}
