//! Passwords in addresses are never printed, wherever the invalid address comes from.

use std::net::TcpListener;

use crate::support::command::{Home, Output};

/// Password that every address contains.
const SECRET: &str = "hunter2";

/// Checks that a command fails, and that its output does not contain the password.
#[track_caller]
fn check(output: &Output, case: &str) {
    assert_ne!(output.code, 0, "{case}: {output:?}");
    assert!(!output.err.is_empty() || !output.out.is_empty(), "{case}: {output:?}");
    assert!(!format!("{output:?}").contains(SECRET), "{case}: {output:?}");
}

/// Returns addresses with an invalid scheme, port or host, or without a scheme.
fn invalid_addresses(scheme: &str) -> [String; 4] {
    [
        format!("{}://me:{SECRET}@host/name", scheme.get(1..).unwrap()),
        format!("{scheme}://me:{SECRET}@host:abc/name"),
        format!("{scheme}://me:{SECRET}@[::1"),
        format!("me:{SECRET}@host/name"),
    ]
}

#[test]
fn errors_for_flags_and_variables_contain_no_password() {
    let serve = ["datasets", "serve", "--listen", "127.0.0.1:0"];
    let inference = ["inference", "serve", "--listen", "127.0.0.1:0", "--datasets", "http://h"];
    let cases: [(&str, &[&str], &str, &str); 8] = [
        ("postgres", &serve, "--store", "TRIPTYCH_STORE"),
        ("http", &serve, "--accounts", "TRIPTYCH_ACCOUNTS"),
        ("http", &serve, "--otlp", "TRIPTYCH_OTLP"),
        ("http", &["node"], "--otlp", "TRIPTYCH_OTLP"),
        ("http", &["node"], "--otlp", "B7S_OTLP"),
        ("postgres", &["keys", "list"], "--database", "TRIPTYCH_STORE"),
        ("http", &inference, "--head", "TRIPTYCH_HEAD"),
        ("http", &["nodes"], "--head", "TRIPTYCH_HEAD"),
    ];
    for (scheme, command, flag, variable) in cases {
        for address in invalid_addresses(scheme) {
            let home =
                || Home::new().with("TRIPTYCH_ACCOUNTS_TOKEN", &"0123456789abcdef".repeat(4));
            let by_flag = [command, &[flag, &address]].concat();
            check(&home().run(&by_flag), &by_flag.join(" "));
            let output = home().with(variable, &address).run(command);
            check(&output, &format!("{variable}={address} {}", command.join(" ")));
        }
    }
}

#[test]
fn errors_for_positional_arguments_contain_no_password() {
    let home = Home::new();
    for address in invalid_addresses("postgres") {
        for command in [
            ["datasets", "copy", &address, "rows.db"].as_slice(),
            &["keys", "copy", &address, "accounts.db"],
            &["inference", "copy", "inference.db", &address],
            &["datasets", "mirror", &address],
            &["datasets", "serve", &address],
            &[address.as_str()],
        ] {
            check(&home.run(command), &command.join(" "));
        }
    }
}

#[test]
fn errors_for_configuration_files_contain_no_password() {
    let home = Home::new();
    let node = format!("otlp: ftp://me:{SECRET}@host\n");
    for (name, text) in [
        ("node.yaml", node.clone()),
        ("node.yaml", format!("{node}port: [\n")),
        ("node.toml", format!("otlp = \"ftp://me:{SECRET}@host\"\n")),
        ("node.toml", format!("otlp = \"http://me:{SECRET}@host\n")),
    ] {
        let path = home.write(name, text.as_bytes());
        check(&home.run(&["node", "--config", &path]), &text);
    }
    for address in [format!("http://me:{SECRET}@127.0.0.1:1"), format!("ftp://me:{SECRET}@host")] {
        for service in ["head", "datasets", "inference"] {
            let text = format!("[profiles.a]\n{service} = \"{address}\"\n");
            home.write(".config/triptych/config.toml", text.as_bytes());
            check(&home.run(&["doctor"]), &text);
            check(&home.run(&["nodes", "--profile", "a"]), &text);
            home.write(".config/triptych/config.toml", b"");
            check(&home.run(&["doctor", &format!("--{service}"), &address]), &text);
        }
    }
}

#[test]
fn password_on_the_command_line_causes_a_warning() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Closes each connection immediately. A refused connection would be retried for some seconds.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let url = format!("postgres://me:{SECRET}@{address}/rows");
    for command in
        [["keys", "list", "--database", &url].as_slice(), &["datasets", "copy", &url, "rows.db"]]
    {
        let output = home.run(command);
        check(&output, &command.join(" "));
        assert_eq!(output.err.matches("can read the password in").count(), 1, "{output:?}");
        assert!(output.err.contains("PGPASSWORD or ~/.pgpass"), "{output:?}");
    }
    let output = Home::new().with("TRIPTYCH_STORE", &url).run(&["keys", "list"]);
    assert!(!output.err.contains("can read the password in"), "{output:?}");
    let help = Home::new()
        .with("TRIPTYCH_HEAD", &format!("http://me:{SECRET}@h"))
        .run_ok(&["nodes", "-h"]);
    assert!(!help.contains(SECRET), "{help}");
}
