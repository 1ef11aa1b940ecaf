//! A proxy between a command and a service, so that requests come from another machine.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
};

/// The end of a request's head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Passes on what comes to the address returned to the service at `base`, each request as one of a
/// machine in another network, as proxies of the usual kind do. It ends with the process.
pub(crate) fn to(base: &str) -> String {
    let service = base.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            let service = TcpStream::connect(&service).unwrap();
            let (mut answers, mut back) =
                (service.try_clone().unwrap(), caller.try_clone().unwrap());
            thread::spawn(move || {
                drop(std::io::copy(&mut answers, &mut back));
                drop(back.shutdown(Shutdown::Write));
            });
            thread::spawn(move || drop(pass_on(caller, service)));
        }
    });
    format!("http://{address}")
}

/// Passes on the requests of one connection.
fn pass_on(mut caller: TcpStream, mut service: TcpStream) -> std::io::Result<()> {
    let mut waiting = Vec::new();
    loop {
        let Some(end) = waiting.windows(HEAD_END.len()).position(|part| part == HEAD_END) else {
            if read_more(&mut caller, &mut waiting)? == 0 {
                return service.shutdown(Shutdown::Write);
            }
            continue;
        };
        let body: Vec<u8> = waiting.split_off(end + HEAD_END.len());
        let head = String::from_utf8(std::mem::take(&mut waiting)).unwrap();
        let n_left = length(&head);
        let head = head.replacen("\r\n", "\r\nx-forwarded-for: 192.0.2.1\r\n", 1);
        service.write_all(head.as_bytes())?;
        waiting = body;
        while waiting.len() < n_left {
            if read_more(&mut caller, &mut waiting)? == 0 {
                return Ok(());
            }
        }
        let next = waiting.split_off(n_left);
        service.write_all(&std::mem::replace(&mut waiting, next))?;
    }
}

fn read_more(caller: &mut TcpStream, waiting: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut chunk = [0; 16 * 1024];
    let n_read = caller.read(&mut chunk)?;
    waiting.extend(chunk.iter().take(n_read));
    Ok(n_read)
}

/// The length that the head of a request tells of its body.
fn length(head: &str) -> usize {
    let of_line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    };
    head.lines().find_map(of_line).unwrap_or(0)
}
